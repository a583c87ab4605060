"""Java's numbers: `Integer.parseInt`, `Long.parseLong`, `Double.toString`, overflow, and `java.util.Random`.

Rules of this module:
  - a text may begin with a sign and with zeros; its digits may be those of any script whose digits fit into one Java
    `char` (up to U+FFFF); spaces, underscores and superscripts are rejected;
  - a value outside 32 or 64 bits is rejected;
  - a sum that overflows wraps around.
"""

from __future__ import annotations

import math
from typing import Final

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_LAST_CHAR: Final = "\uffff"
_LEAST_PLAIN, _LEAST_SCIENTIFIC = 1e-3, 1e7
"""Range of magnitudes that Java writes without an exponent."""
_HEX_LETTERS: Final = "abcdefABCDEF\uff21\uff22\uff23\uff24\uff25\uff26\uff41\uff42\uff43\uff44\uff45\uff46"
_NARROW: Final = str.maketrans(_HEX_LETTERS, "abcdef" * 4)
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


def parse_hex_int(text: str) -> int | None:
    """Return `Integer.parseInt(text, 16)`, or None where it throws; full-width letters are digits too.

    >>> parse_hex_int("-ff"), parse_hex_int("\uff21\u0661"), parse_hex_int("0x1"), parse_hex_int("80000000")
    (-255, 161, None, None)
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not all(char <= _LAST_CHAR and (char.isdecimal() or char in _HEX_LETTERS) for char in digits) or not digits:
        return None
    number = int(digits.translate(_NARROW), 16) * (-1 if text[0] == "-" else 1)
    return number if INT_MIN <= number <= INT_MAX else None


def parse_digits(text: str) -> int | None:
    """Return `new BigInteger(text)`, or None where it throws.

    Of more than 4,000 digits after leading zeros only the first 4,000 are read.

    >>> parse_digits("+12345678901234567890"), parse_digits("-"), parse_digits("1 ")
    (12345678901234567890, None, None)
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isdecimal() or max(digits) > _LAST_CHAR:
        return None
    if len(digits) > _LONGEST:
        digits = digits.lstrip("0")[:_LONGEST] or "0"
    return -int(digits) if text[0] == "-" else int(digits)


def is_count(text: str) -> bool:
    """Return whether a text is a non-negative integer of 64 bits.

    >>> is_count("10000"), is_count("-1"), is_count("9" * 5000)
    (True, False, False)
    """
    return _within(text, 0, LONG_MAX) is not None


def next_int(number: int) -> int:
    """Return the number after a 32-bit one; the largest wraps around.

    >>> next_int(2147483647)
    -2147483648
    """
    assert INT_MIN <= number <= INT_MAX, f"{number} is no int"
    return INT_MIN if number == INT_MAX else number + 1


def wrapped_long(number: int) -> int:
    """Return a number as Java's long has it after an overflow.

    >>> wrapped_long(2**63), wrapped_long(-1)
    (-9223372036854775808, -1)
    """
    return (number - LONG_MIN) % (1 << 64) + LONG_MIN


def double_text(value: float) -> str:
    """Return a number as `Double.toString` writes it, but infinity as Prometheus does.

    >>> [double_text(value) for value in (0, 2.5, 12345678, 0.0001, float("nan"), 1795278955.097)]
    ['0.0', '2.5', '1.2345678E7', '1.0E-4', 'NaN', '1.795278955097E9']
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    value = float(value)
    if value == 0 or _LEAST_PLAIN <= abs(value) < _LEAST_SCIENTIFIC:
        return repr(value)
    mantissa, _, power = repr(value).lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    assert digits, "0 is written without an exponent"
    exponent = int(power or 0) + len(whole) - 1 - leading_zeros
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{exponent}"


def _within(text: str, least: int, most: int) -> int | None:
    number = parse_digits(text)
    return number if number is not None and least <= number <= most else None


_MULTIPLIER = 0x5DEECE66D
_INCREMENT = 0xB
_STATE_MASK = (1 << 48) - 1


class JavaRandom:
    """The linear congruential generator of `java.util.Random`, bit for bit.

    Kafka's replica assignment draws from it (docs/reference/kafka.md §3.4); ZooKeeper makes session passwords with it
    (docs/reference/zookeeper.md §1.3).

    Args:
        seed: the argument of Java's constructor (any long).

    >>> random = JavaRandom(42)
    >>> [random.next_int(10) for _ in range(5)]
    [0, 3, 8, 4, 0]
    """

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _STATE_MASK

    def _next(self, bits: int) -> int:
        assert 0 < bits <= 32, "a draw is at most an int"
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _STATE_MASK
        return self._state >> (48 - bits)

    def next_int(self, bound: int) -> int:
        """Return a number from 0 up to, not including, `bound` (`nextInt(int)`; 0 < bound < 2**31)."""
        assert 0 < bound < 1 << 31, f"bound {bound} is no positive int"
        if bound & (bound - 1) == 0:
            return (bound * self._next(31)) >> 31
        # A draw from the last, incomplete run of `bound` numbers below 2**31 would favour low numbers: draw again.
        while True:
            drawn = self._next(31)
            value = drawn % bound
            if drawn - value + bound - 1 < 1 << 31:
                return value

    def next_bytes(self, count: int) -> bytes:
        """Return `count` bytes (`nextBytes`): the low byte of each int first.

        >>> JavaRandom(42).next_bytes(5).hex()
        '359d41baf7'
        """
        drawn = b"".join(self._next(32).to_bytes(4, "little") for _ in range(-(-count // 4)))
        return drawn[:count]
