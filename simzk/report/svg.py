"""Numbers, times and axes of charts as SVG text.

Rules of this module:
  - positions on the horizontal axis are percentages, so that a chart fits any width without a script;
  - vertical positions and text sizes are pixels.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, floor, log10

from simzk.report.markup import escape

TICKS_MAX = 8
"""Maximum number of labelled ticks of a time axis; they have room at 390 px if every other one is hidden."""
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_DATED_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE_S * count for count in (1, 2, 5, 10, 15, 30)),
    *(_HOUR_S * count for count in (1, 2, 3, 6, 12)),
    *(_DAY_S * count for count in (1, 2, 7, 30)),
)


def percent(share: float) -> str:
    """Return a share of the width as a percentage.

    >>> percent(0.5), percent(1 / 3)
    ('50%', '33.33%')
    """
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def number(value: float) -> str:
    """Return a number for people: integers with separators, others with four digits.

    >>> number(1234567), number(0.000012345), number(2.50)
    ('1,234,567', '1.234e-05', '2.5')
    """
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def to_date(at_s: float) -> str:
    """Return seconds since 1970 as a date in UTC.

    >>> to_date(1.5)
    '1970-01-01 00:00:01.500'
    """
    return datetime.fromtimestamp(at_s, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ... (or 0.1, 0.2, ...) that is not below `least`.

    >>> round_step(3), round_step(0.012), round_step(100)
    (5, 0.02, 100)
    """
    power = 10.0 ** floor(log10(least))
    step = next(factor for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9)) * power
    return round(step) if step >= 1 else float(f"{step:.1g}")


def ticks(begin: float, end: float, *, dated: bool = False) -> list[tuple[float, str]]:
    """Return round times between two instants with their labels.

    >>> ticks(0, 61.2)
    [(0, '0'), (10, '10'), (20, '20'), (30, '30'), (40, '40'), (50, '50'), (60, '60')]
    >>> ticks(1_800_000_000, 1_800_007_200, dated=True)[:2]
    [(1800000000, '08:00'), (1800000900, '08:15')]
    """
    least = (end - begin) / TICKS_MAX
    if least <= 0:
        return []
    if not dated or least < _DATED_STEPS_S[0]:
        step = round_step(least)
    else:
        fits = (step for step in _DATED_STEPS_S if step >= least)
        step = next(fits, ceil(least / _DATED_STEPS_S[-1]) * _DATED_STEPS_S[-1])
    first, last = ceil(begin / step - 1e-9), floor(end / step + 1e-9)
    return [(at * step, _tick(at * step, step, dated=dated)) for at in range(first, last + 1)]


def _tick(at_s: float, step: float, *, dated: bool) -> str:
    if not dated:
        return number(round(at_s, 6))
    moment = datetime.fromtimestamp(at_s, UTC)
    if step >= _DAY_S or (moment.hour, moment.minute, moment.second) == (0, 0, 0):
        return f"{moment:%m-%d}"
    return f"{moment:%H:%M:%S}" if step < _MINUTE_S else f"{moment:%H:%M}"


def scale_top(most: float) -> float:
    """Return the upper end of an axis that begins at zero, with round numbers at its quarters.

    >>> scale_top(87), scale_top(202), scale_top(0)
    (100.0, 240.0, 4)
    """
    if most <= 0:
        return 4
    power = 10.0 ** floor(log10(most / 4))
    factors = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return 4 * power * next(factor for factor in factors if factor * power >= most / 4 * (1 - 1e-9))


def rect(style: str, x: float, width: float, height: int, title: str = "", y: int = 0) -> str:
    """Return a rectangle; `x` and `width` are shares of the width of the chart."""
    place = f' y="{y}"' if y else ""
    shape = f'<rect class="{style}" x="{percent(x)}"{place} width="{percent(width)}" height="{height}"'
    return f"{shape}><title>{escape(title, quote=False)}</title></rect>" if title else f"{shape}/>"


def text(what: str, x: float, y: int, style: str = "", anchor: str = "") -> str:
    """Return text; `x` is a share of the width of the chart, `y` the baseline in pixels."""
    kind = f' class="{style}"' if style else ""
    side = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{kind} x="{percent(x)}" y="{y}"{side}>{escape(what, quote=False)}</text>'


def stretched(paths: str, height: int, y: int = 0, units: int = 10_000) -> str:
    """Return paths in units of the width and in pixels of height, stretched to the width of the chart."""
    return f'<svg y="{y}" height="{height}" viewBox="0 0 {units} {height}" preserveAspectRatio="none">{paths}</svg>'
