"""Times as a scenario writes them: `250ms`, `12s`, `1.5s`, `2m`, `1h30m`; inside, integer microseconds."""

from __future__ import annotations

import re
from decimal import Decimal

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:us|ms|s|m|h)\s*)+")

FORM = "a time such as 250ms, 12s, 1.5s, 2m or 1h30m"
"""What would be right, for a message."""


def parse_duration(text: str) -> int | None:
    """Return microseconds; None for what is no time.

    >>> parse_duration("1m 1.5s"), parse_duration("twelve")
    (61500000, None)
    """
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        return None
    return sum(int(Decimal(number) * _UNITS_US[unit]) for number, unit in _PART.findall(text))


def format_duration(duration_us: int) -> str:
    """Return a time as a scenario would write it.

    >>> [format_duration(us) for us in (0, 1_500_000, 90_000_000, 250_000, 7)]
    ['0s', '1.5s', '1m30s', '250ms', '7us']
    """
    if duration_us == 0:
        return "0s"
    parts = []
    for unit in ("h", "m"):
        count, duration_us = divmod(duration_us, _UNITS_US[unit])
        if count:
            parts.append(f"{count}{unit}")
    if duration_us:
        unit = next(unit for unit in ("s", "ms", "us") if duration_us >= _UNITS_US[unit])
        number = Decimal(duration_us) / _UNITS_US[unit]
        parts.append(f"{number.normalize():f}{unit}")
    return "".join(parts)
