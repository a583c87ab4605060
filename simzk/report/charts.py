"""Charts of a page: states over time, bars, and areas, as SVG.

Rules of this module:
  - a chart is rows: a name, and beside it an SVG as wide as the page permits;
  - a state or series has a style, a class of page.css with one colour and one meaning on the whole page (`STYLES`);
  - a bad state is visible however short it was.

A table of spans has the columns `row`, `from_s`, `until_s` (of virtual time, or since 1970), `state`, `label` (the text
shown for the span under the pointer) and optionally `text` (the short text in it). Spans of one row do not overlap;
where a row has none, there is nothing.
"""

from __future__ import annotations

from itertools import pairwise
from math import log10
from typing import TYPE_CHECKING, NamedTuple

from simzk.report.markup import escape
from simzk.report.svg import number, percent, rect, scale_top, stretched, text, ticks, to_date
from simzk.report.table import length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simzk.report.table import Columns

STYLES = ("ok", "lead", "other", "warn", "low", "bad", "dead", "stuck", "act", "fault", "after", "most")
"""Classes of page.css with a colour."""

STRIP_PX, NARROW_PX, GAP_PX, MARK_PX = 16, 8, 3, 20
CHARACTER_SHARE = 0.011
"""Width of a character in a bar, as a share of a chart of about 700 px."""
NAME_CHARACTERS = 19
"""Number of characters of a row's name that fit; with longer ones, all names get more room."""
ROOM_MIN = 12
"""Minimum number of characters of a mark's label that is cut."""
TITLED_BYTES = 125_000


class Span(NamedTuple):
    """A state of a row from `begin` to `end`, with its style, label and short text."""

    begin: float
    end: float
    state: str
    label: str
    text: str = ""


class Strip(NamedTuple):
    """States of one kind beside each other.

    Args:
        spans: the states, in order.
        styles: style by state.
        narrow: whether it is half as high, without text in it.
    """

    spans: Sequence[Span]
    styles: Mapping[str, str]
    narrow: bool = False

    @property
    def height(self) -> int:
        """Its height in pixels."""
        return NARROW_PX if self.narrow else STRIP_PX


class Mark(NamedTuple):
    """An instant with a style and a label; marks of one row are drawn as signs."""

    at_s: float
    style: str
    label: str


class TimelineRow(NamedTuple):
    """A row of a timeline.

    Args:
        name: its name.
        strips: one or more strips, below each other.
        marks: instants; instead of strips.
        topic: the topic that the row belongs to; empty for none.
        broker: the broker that the row belongs to; empty for none.
    """

    name: str
    strips: Sequence[Strip] = ()
    marks: Sequence[Mark] = ()
    topic: str = ""
    broker: str = ""


class RowGroup(NamedTuple):
    """Rows under a heading."""

    title: str
    rows: Sequence[TimelineRow]
    note: str = ""


def spans_by_row(spans: Columns) -> dict[str, list[Span]]:
    """Return the spans of a table by row, in the order of the rows' first spans."""
    found: dict[str, list[Span]] = {}
    if not length(spans):
        return found
    texts = spans.get("text", [""] * length(spans))
    columns = (spans[name] for name in ("row", "from_s", "until_s", "state", "label"))
    for row, begin, end, state, label, shown in zip(*columns, texts, strict=True):
        span = Span(float(str(begin)), float(str(end)), str(state), str(label), str(shown))
        found.setdefault(str(row), []).append(span)
    return found


def used_legend(groups: Sequence[RowGroup], legend: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the part of a legend that a timeline uses."""
    rows = [row for group in groups for row in group.rows]
    used = {strip.styles[span.state] for row in rows for strip in row.strips for span in strip.spans}
    used |= {f"sign {mark.style}" for row in rows for mark in row.marks}
    return [(style, means) for style, means in legend if style in used]


class Timeline(NamedTuple):
    """States over time, all rows on one time axis.

    Args:
        name: unique in its page.
        title: what it shows, for screen readers.
        groups: rows under headings.
        begin, end: the ends of the axis.
        legend: styles with their meanings.
        lines: instants that are lines through all rows.
        dated: whether the times are since 1970.
        titled_bytes: maximum size of rows whose spans show a text under the pointer; in larger ones, equal states are
            one path.
    """

    name: str
    title: str
    groups: Sequence[RowGroup]
    begin: float
    end: float
    legend: Sequence[tuple[str, str]]
    lines: Sequence[Mark] = ()
    dated: bool = False
    titled_bytes: int = TITLED_BYTES

    def to_html(self) -> str:
        """Return the HTML; empty without rows."""
        rows = [row for group in self.groups for row in group.rows]
        if not rows or self.end <= self.begin:
            return ""
        parts = self._rows(titled=True)
        if sum(map(len, parts)) > self.titled_bytes:
            parts = self._rows(titled=False)
        scale = f' data-begin="{self.begin:.6f}" data-end="{self.end:.6f}"'
        is_long = any(len(row.name) > NAME_CHARACTERS for row in rows)
        return _figure(
            self.name, self.title, [self._axis(), self._lines(), *parts], self.legend, scale, has_long_names=is_long
        )

    def _rows(self, *, titled: bool) -> list[str]:
        """Return all rows; with or without a text for each span under the pointer."""
        parts = []
        for group in self.groups:
            if group.rows:
                note = f" <small>{escape(group.note)}</small>" if group.note else ""
                parts.append(f'<h4 class="group">{escape(group.title)}{note}</h4>')
                parts += [self._row(row, titled=titled) for row in group.rows]
        return parts

    def _at(self, at: float) -> float:
        return min(max((at - self.begin) / (self.end - self.begin), 0.0), 1.0)

    def _instant(self, at: float) -> str:
        return to_date(at) if self.dated else f"{at:.3f} s"

    def _axis(self) -> str:
        labels = [
            f'{label}<line class="tick" x1="{percent(share)}" x2="{percent(share)}" y1="15" y2="20"/>'
            for share, label in _time_labels(ticks(self.begin, self.end, dated=self.dated), self._at, 12)
        ]
        return _lane("time, UTC" if self.dated else "time, s", "".join(labels), 20, "axis", hidden=True)

    def _lines(self) -> str:
        places = [(line.style, percent(self._at(line.at_s))) for line in self.lines]
        drawn = "".join(f'<line class="{style}" x1="{x}" x2="{x}" y1="0" y2="100%"/>' for style, x in places)
        return f'<svg class="lines" aria-hidden="true">{drawn}</svg>'

    def _row(self, row: TimelineRow, *, titled: bool) -> str:
        about = f' data-topic="{escape(row.topic)}"' if row.topic else ""
        about += f' data-broker="{escape(row.broker)}"' if row.broker else ""
        if not row.strips:
            said = f"{row.name}: {len(row.marks)}"
            drawn = [*map(self._mark, row.marks), *self._texts(row.marks)]
            return _lane(row.name, "".join(drawn), MARK_PX, "marks", said=said, about=about)
        drawn, y = [], 0
        for strip in row.strips:
            paths = "" if titled else strip_paths(strip, self.begin, self.end)
            drawn.append(self._strip(strip, y) if titled else stretched(paths, strip.height, y, PATH_UNITS))
            y += strip.height + GAP_PX
        said = f"{row.name}: " + "; ".join(self._summary(strip) for strip in row.strips)
        return _lane(row.name, "".join(drawn), y - GAP_PX, said=said, about=about)

    def _mark(self, mark: Mark) -> str:
        x, label = percent(self._at(mark.at_s)), f"{self._instant(mark.at_s)}: {mark.label}"
        shape = _SIGNS[mark.style]
        return f'<svg class="sign {mark.style}" x="{x}"><title>{escape(label, quote=False)}</title>{shape}</svg>'

    def _texts(self, marks: Sequence[Mark]) -> Iterator[str]:
        """Yield the labels of the marks at each instant, on the side with more room, as far as there is room."""
        by_place: dict[float, list[Mark]] = {}
        for mark in marks:
            by_place.setdefault(self._at(mark.at_s), []).append(mark)
        begin = 0.0
        for at, until in pairwise([*sorted(by_place), 1.0]):
            label = "; ".join(mark.label for mark in by_place[at])
            before, after = (int((room - 0.02) / CHARACTER_SHARE) for room in (at - begin, until - at))
            style = f"said {by_place[at][0].style}"
            begin = at
            if after >= min(len(label), ROOM_MIN):
                yield text(_cut(label, after), at + 0.009, 14, style)
                begin += CHARACTER_SHARE * min(len(label), after)
            elif before >= min(len(label), ROOM_MIN):
                yield text(_cut(label, before), at - 0.009, 14, style, "end")

    def _summary(self, strip: Strip) -> str:
        """Return the share of time in each state, the bad ones first."""
        lasted: dict[str, float] = {}
        for span in strip.spans:
            lasted[span.state] = lasted.get(span.state, 0.0) + span.end - span.begin
        order = sorted(lasted, key=lambda state: (strip.styles[state] not in _ALWAYS_VISIBLE, -lasted[state]))
        return ", ".join(f"{state} {lasted[state] / (self.end - self.begin):.0%}" for state in order) or "none"

    def _strip(self, strip: Strip, y: int) -> str:
        drawn = []
        for span in strip.spans:
            begin, end = self._at(span.begin), self._at(span.end)
            label = f"{self._instant(span.begin)} to {self._instant(span.end)}: {span.label}"
            drawn.append(rect(strip.styles[span.state], begin, end - begin, strip.height, label, y))
            if not strip.narrow and span.text and end - begin > CHARACTER_SHARE * (len(span.text) + 1):
                drawn.append(text(span.text, begin + 0.004, y + 12, "on"))
        return "".join(drawn)


PATH_UNITS = 2500
"""Resolution of a strip that is drawn as paths; it is stretched to the width of the chart."""


def strip_paths(strip: Strip, begin: float, end: float) -> str:
    """Return one path per style, in `PATH_UNITS`; neighbours of one style are one rectangle."""
    assert begin < end, "a chart without a width has no paths"
    scale = PATH_UNITS / (end - begin)
    boxes: dict[str, list[tuple[int, int]]] = {}
    for span in strip.spans:
        first, last = (min(max(round(scale * (at - begin)), 0), PATH_UNITS) for at in (span.begin, span.end))
        style = strip.styles[span.state]
        of_style = boxes.setdefault(style, [])
        if of_style and of_style[-1][1] >= first:
            of_style[-1] = (of_style[-1][0], max(last, of_style[-1][1]))
        elif last > first or style in _ALWAYS_VISIBLE:
            of_style.append((first, max(last, first + 1)))
    height = strip.height
    order = sorted(boxes, key=lambda style: (style in _ALWAYS_VISIBLE, style))  # the bad ones above the others
    return "".join(
        f'<path class="{style}" d="{"".join(f"M{a} 0h{b - a}v{height}h{a - b}z" for a, b in boxes[style])}"/>'
        for style in order
        if boxes[style]
    )


def _cut(label: str, room: int) -> str:
    return label if len(label) <= room else f"{label[: max(room - 1, 1)]}…"


_ALWAYS_VISIBLE = ("bad", "dead")
_SIGNS = {
    "act": '<path d="M0 1l5 8h-10z"/><path class="stem" d="M0 9v11"/>',
    "fault": '<path d="M-1 1h4l-2 6h3l-6 11 2-8h-3z"/>',
    "ok": '<circle cy="9" r="4"/>',
    "bad": '<path class="cross" d="M-5 4l10 10m0-10l-10 10"/>',
}
"""Shape of a mark by its style, around x = 0; shapes differ too, so that no information is in the colours alone."""


def _lane(
    name: str, drawn: str, height: int, kind: str = "", said: str = "", about: str = "", *, hidden: bool = False
) -> str:
    role = ' aria-hidden="true"' if hidden else f' role="img" aria-label="{escape(said)}"'
    classes = f"lane {kind}".rstrip()
    return (
        f'<div class="{classes}"{about}><span class="name" title="{escape(name)}">{escape(name)}</span>'
        f'<svg height="{height}"{role}>{drawn}</svg></div>'
    )


def _figure(
    name: str,
    title: str,
    parts: Iterable[str],
    legend: Sequence[tuple[str, str]],
    attributes: str = "",
    *,
    has_long_names: bool = False,
) -> str:
    keys = "".join(
        f'<li><svg class="key" width="14" height="14" aria-hidden="true">{_key(style)}</svg>{escape(means)}</li>'
        for style, means in legend
    )
    kind = "chart long" if has_long_names else "chart"
    return (
        f'<figure class="{kind}" id="{name}"{attributes}><figcaption><ul class="legend">{keys}</ul></figcaption>'
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title)}"><div class="wide">'
        f"{''.join(parts)}</div></div></figure>"
    )


def _key(style: str) -> str:
    sign, _, kind = style.partition(" ")
    if sign == "sign":
        return f'<g class="sign {kind}" transform="translate(7 -2)">{_SIGNS[kind]}</g>'
    return f'<rect class="{style}" y="1" width="14" height="12"/>'


LABEL_SHARE = 0.86
"""Share of the width that the longest bar has; its number is beside it."""
COLUMNS_PX = 160
MOST_UPRIGHT = 60
"""Maximum number of rows shown as vertical bars; more are lines."""


LINE_POINTS_MAX = 1000
"""Maximum number of points of a line; of more rows, each point is the maximum of several."""


class Bars(NamedTuple):
    """Bar chart: one bar or several for each row of a table.

    Args:
        columns: the table.
        name: unique in its page.
        label: the column that says what each row is.
        series: columns of numbers, in order, with their styles; `X_low` and `X_high` beside `X` are its interval.
        axis: what the numbers are, with their unit.
        upright: whether the bars stand, which many rows fit in; else they lie, and labels can be long.
        log: whether the axis is logarithmic; what is not above zero has no bar then.
        stacked: whether the series of a row add up.
    """

    columns: Columns
    name: str
    label: str
    series: Mapping[str, str]
    axis: str
    upright: bool = False
    log: bool = False
    stacked: bool = False

    def to_html(self) -> str:
        """Return the HTML; empty for a table without rows."""
        if not length(self.columns):
            return ""
        values = {name: _floats(self.columns[name]) for name in self.series}
        labels = [str(label) for label in self.columns[self.label]]
        legend = [(style, name) for name, style in self.series.items()]
        title = f"{self.axis} by {self.label}"
        parts = self._upright(labels, values) if self.upright else self._lying(labels, values)
        is_long = not self.upright and any(len(label) > NAME_CHARACTERS for label in labels)
        return _figure(self.name, title, parts, legend, has_long_names=is_long)

    def _totals(self, values: Mapping[str, list[float]]) -> list[float]:
        return [sum(row) if self.stacked else max(row) for row in zip(*values.values(), strict=True)]

    def _lying(self, labels: Sequence[str], values: Mapping[str, list[float]]) -> list[str]:
        scale = self._scale(values)
        parts = []
        for at, label in enumerate(labels):
            drawn, y, x = [], 0, 0.0
            for name, style in self.series.items():
                value = values[name][at]
                width = scale(value)
                drawn.append(rect(style, x, width, 12, f"{label}: {number(value)} {name}", y))
                if self.stacked:
                    x += width
                    continue
                drawn.append(self._interval(name, at, y, scale))
                end = max(width, scale(self._high(name, at, value)))
                drawn.append(text(number(value), end + 0.008, y + 10))
                y += 15
            said = ", ".join(f"{number(values[name][at])} {name}" for name in self.series)
            if self.stacked:
                total = " + ".join(number(values[name][at]) for name in self.series if values[name][at])
                drawn.append(text(total, x + 0.008, 10))
            parts.append(_lane(label, "".join(drawn), max(y - 3, 12), "bar", said=f"{label}: {said}"))
        return parts

    def _high(self, name: str, at: int, value: float) -> float:
        return float(str(self.columns[f"{name}_high"][at])) if f"{name}_high" in self.columns else value

    def _scale(self, values: Mapping[str, list[float]]) -> Callable[[float], float]:
        """Return the function from a number to the length of its bar."""
        found = [value for name in self.series for value in values[name]]
        for name in self.series:
            found += _floats([*self.columns.get(f"{name}_low", ()), *self.columns.get(f"{name}_high", ())])
        if not self.log:
            most = max([*self._totals(values), *found], default=0.0) or 1.0
            return lambda value: LABEL_SHARE * value / most
        above = [value for value in found if value > 0]
        least, most = min(above, default=1.0) / 10, max(above, default=1.0)
        return lambda value: LABEL_SHARE * log10(value / least) / log10(most / least) if value > least else 0.0

    def _interval(self, name: str, at: int, y: int, scale: Callable[[float], float]) -> str:
        if f"{name}_low" not in self.columns:
            return ""
        low, high = (scale(float(str(self.columns[f"{name}_{end}"][at]))) for end in ("low", "high"))
        line = f'<line class="interval" x1="{percent(low)}" x2="{percent(high)}" y1="{y + 6}" y2="{y + 6}"/>'
        return line if high > low else ""

    def _upright(self, labels: Sequence[str], values: Mapping[str, list[float]]) -> list[str]:
        top, count = scale_top(max(self._totals(values))), len(labels)
        drawn = [_grid(top)]
        each = -(-count // LINE_POINTS_MAX)
        if count > MOST_UPRIGHT:
            for name, style in self.series.items():
                greatest = [max(values[name][at : at + each]) for at in range(0, count, each)]
                drawn.append(stretched(_step_line(greatest, top, style), COLUMNS_PX))
        else:
            drawn += [self._column(at, label, values, top, count) for at, label in enumerate(labels)]
        for place, at in enumerate(range(0, count, -(-count // 12))):
            style = "odd" if place % 2 else ""
            drawn.append(text(labels[at], (at + 0.5) / count, COLUMNS_PX + 14, style, "middle"))
        said = ", ".join(f"{name} up to {number(max(values[name]))}" for name in self.series)
        name = f"{self.axis} by {self.label}" + (f", the most of {each} at each point" if each > 1 else "")
        return [_lane(name, "".join(drawn), COLUMNS_PX + 20, "upright", said=said)]

    def _column(self, at: int, label: str, values: Mapping[str, list[float]], top: float, count: int) -> str:
        drawn, base = [], 0.0
        side = 1 if self.stacked else len(self.series)
        for place, (name, style) in enumerate(self.series.items()):
            value = values[name][at]
            height = round(COLUMNS_PX * value / top)
            x = (at + 0.12 + (0 if self.stacked else 0.76 * place / side)) / count
            y = COLUMNS_PX - height - round(COLUMNS_PX * base / top)
            drawn.append(rect(style, x, 0.76 / side / count, height, f"{label}: {number(value)} {name}", y))
            base += value if self.stacked else 0
        return "".join(drawn)


class Areas(NamedTuple):
    """Stacked areas of numbers over time, constant from one row to the next.

    Args:
        columns: the table; `at_s` are seconds since 1970.
        name: unique in its page.
        series: columns of numbers, the lowest first, with their styles.
        axis: what the numbers are, with their unit.
    """

    columns: Columns
    name: str
    series: Mapping[str, str]
    axis: str

    def to_html(self) -> str:
        """Return the HTML; empty for a table without rows."""
        if not length(self.columns):
            return ""
        times = _floats(self.columns["at_s"])
        begin = times[0]
        end = max(times[-1], begin + 1e-9)
        if end == begin:  # one instant, and 1e-9 s are below the resolution of today's times
            end += 1
        layers = [[0.0] * len(times)]
        for name in self.series:
            layers.append([below + value for below, value in zip(layers[-1], _floats(self.columns[name]), strict=True)])
        top = scale_top(max(layers[-1]))
        xs = [round(10000 * (at - begin) / (end - begin)) for at in times]
        paths = "".join(
            f'<path class="{style}" d="{_area(xs, lower, upper, top)}"/>'
            for style, lower, upper in zip(self.series.values(), layers, layers[1:], strict=False)
        )
        labels = (
            label
            for _, label in _time_labels(
                ticks(begin, end, dated=True), lambda at: (at - begin) / (end - begin), COLUMNS_PX + 14
            )
        )
        drawn = stretched(paths, COLUMNS_PX) + _grid(top) + "".join(labels)
        said = ", ".join(f"{name} up to {number(max(_floats(self.columns[name])))}" for name in self.series)
        legend = [(style, name) for name, style in self.series.items()]
        lane = _lane(f"{self.axis} over time, UTC", drawn, COLUMNS_PX + 20, "upright", said=said)
        return _figure(self.name, f"{self.axis} over time", [lane], legend)


def _time_labels(
    found: Iterable[tuple[float, str]], share_of: Callable[[float], float], y: int
) -> Iterator[tuple[float, str]]:
    """Yield the labels of the ticks of a time axis, each with its place as a share of the width."""
    for place, (at, label) in enumerate(found):
        share = share_of(at)
        anchor = "start" if share < 0.02 else "end" if share > 0.97 else "middle"
        yield share, text(label, share, y, "odd" if place % 2 else "", anchor)


def _grid(top: float) -> str:
    """Return horizontal lines at round numbers, with their labels."""
    drawn = []
    for part in range(5):
        y = COLUMNS_PX - COLUMNS_PX * part // 4
        drawn.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
        if part:
            drawn.append(text(number(top * part / 4), -0.008, y + 4, "scale", "end"))
    return "".join(drawn)


def _step_line(values: Sequence[float], top: float, style: str) -> str:
    """Return a line that is constant for the width of each row."""
    count, before = len(values), _height(values[0], top)
    points = []
    for at, value in enumerate(values):
        height = _height(value, top)
        if height != before:
            points.append(f"H{round(10000 * at / count)}V{height}")
            before = height
    return f'<path class="line {style}" d="M0 {_height(values[0], top)}{"".join(points)}H10000"/>'


def _area(xs: Sequence[int], lower: Sequence[float], upper: Sequence[float], top: float) -> str:
    there = "".join(f"H{x}V{_height(value, top)}" for x, value in zip(xs, upper, strict=True))
    back = "".join(f"V{_height(value, top)}H{x}" for x, value in zip(reversed(xs), reversed(lower), strict=True))
    return f"M{xs[0]} {_height(upper[0], top)}{there}{back}z"


def _height(value: float, top: float) -> int:
    return round(COLUMNS_PX * (1 - value / top))


def _floats(column: Sequence[object]) -> list[float]:
    return [float(str(value)) for value in column]
