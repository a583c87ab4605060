"""Java's numbers: parsing as `Integer.parseInt` and `Long.parseLong` do, and overflow.

Rules of this module:
  - a text may begin with a sign and with zeros; its digits may be those of any script whose digits fit into one Java
    `char` (up to U+FFFF); spaces, underscores and superscripts are rejected;
  - a value outside 32 or 64 bits is rejected;
  - a sum that overflows wraps around.
"""

from __future__ import annotations

from typing import Final

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_LAST_CHAR: Final = "\uffff"
_LONGEST: Final = 4000
"""Longest text passed to `int`, which rejects more digits; leading zeros are removed first."""


def parse_int(text: str) -> int | None:
    """Return an integer of 32 bits, or None where Java throws a NumberFormatException.

    >>> parse_int("-05"), parse_int("٣"), parse_int("²"), parse_int("2147483648"), parse_int(" 5")
    (-5, 3, None, None, None)
    """
    return _within(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int | None:
    """Return an integer of 64 bits, or None where Java throws a NumberFormatException.

    >>> parse_long("9223372036854775807"), parse_long("9223372036854775808"), parse_long("--5")
    (9223372036854775807, None, None)
    """
    return _within(text, LONG_MIN, LONG_MAX)


def is_count(text: str) -> bool:
    """Return whether a text is a non-negative integer of 64 bits.

    >>> is_count("10000"), is_count("-1"), is_count("9" * 5000)
    (True, False, False)
    """
    number = parse_long(text)
    return number is not None and number >= 0


def next_int(number: int) -> int:
    """Return the number after a 32-bit one; the largest wraps around.

    >>> next_int(2147483647)
    -2147483648
    """
    return INT_MIN if number == INT_MAX else number + 1


def _within(text: str, least: int, most: int) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isdecimal() or max(digits) > _LAST_CHAR:
        return None
    if len(digits) > _LONGEST:
        digits = digits.lstrip("0")[:_LONGEST] or "0"
    number = int(digits)
    if text[0] == "-":
        number = -number
    return number if least <= number <= most else None
