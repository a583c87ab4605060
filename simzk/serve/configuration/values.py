"""What a value of zoo.cfg means to the real server: it refuses some that are malformed, and makes something of others.

Rules of this module:
  - a reader is a pure function of the text; it raises `ValueError`, with what would be right, where the real server
    refuses to start (Integer.parseInt and its own parseBoolean), and `DoubtError` where it goes on with something else
    (Integer.getInteger, Boolean.getBoolean): whoever reads the file says so in a warning.

Source: QuorumPeerConfig.parseProperties; java.lang.Integer, Long, Boolean.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from simzk.wire.four_letter_words import ALL_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

UNSET = object()
"""In a `DoubtError`: the setting is as if it were not there."""


class DoubtError(Exception):
    """A value that the real server takes for another one, without a word.

    Args:
        right: what would be right.
        taken_for: what it is taken for.
    """

    def __init__(self, right: str, taken_for: object = UNSET) -> None:
        super().__init__(right)
        self.taken_for = taken_for


def integer(value: str) -> int:
    """Integer.parseInt."""
    number = int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else None
    if number is None or not -(2**31) <= number < 2**31:
        raise ValueError("a whole number")
    return number


def port(value: str) -> int:
    number = integer(value)
    if not 0 <= number <= 65535:
        raise ValueError("a port, 0 to 65535")
    return number


def positive(value: str) -> int:
    number = integer(value)
    if number <= 0:
        raise ValueError("more than 0")
    return number


def boolean(value: str) -> bool:
    """QuorumPeerConfig.parseBoolean."""
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.lower() == "true"


def one_of(*values: str) -> Callable[[str], str]:
    """What must be one of these, in any case."""

    def read(value: str) -> str:
        if value.lower() not in values:
            raise ValueError(f"{', '.join(values[:-1])} or {values[-1]}")
        return value.lower()

    return read


def text(value: str) -> str:
    return value


def loose_integer(value: str) -> int:
    """Integer.getInteger, which takes hexadecimal and octal numbers too (Integer.decode)."""
    found = re.fullmatch(r"([+-]?)(?:(?:0[xX]|#)([0-9a-fA-F]+)|(0[0-7]+)|([0-9]+))", value)
    if found is None:
        raise DoubtError("a whole number")
    sign, hexadecimal, octal, decimal = found.groups()
    number = int(f"{sign}{hexadecimal or octal or decimal}", 16 if hexadecimal else 8 if octal else 10)
    if not -(2**63) <= number < 2**63:
        raise DoubtError("a whole number")
    return number


def loose_positive(value: str) -> int:
    number = loose_integer(value)
    if number <= 0:
        raise DoubtError("more than 0")
    return number


def large_threshold(value: str) -> int | None:
    """ZooKeeperServer.setLargeRequestThreshold; None for no limit."""
    number = loose_integer(value)
    if number == 0 or number < -1:
        raise DoubtError("more than 0, or -1", taken_for=None)
    return None if number == -1 else number


def fill_time(value: str) -> int:
    """With less than 1 ms BlueThrottle divides by nothing whenever a session is asked for."""
    number = loose_integer(value)
    if number <= 0:
        raise ValueError("more than 0")
    return number


def double(value: str) -> float:
    """Double.parseDouble, but that a number ends here as it does elsewhere."""
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value) is None:
        raise ValueError("a number")
    return float(value)


def loose_port(value: str) -> int:
    number = loose_integer(value)
    if not 0 <= number <= 65535:
        raise ValueError("a port, 0 to 65535")
    return number


def loose_boolean(value: str) -> bool:
    """Boolean.getBoolean, to which all is false that is not true."""
    if value.lower() not in ("true", "false"):
        raise DoubtError("true or false", taken_for=False)
    return value.lower() == "true"


def yes(value: str) -> bool:
    if value not in ("yes", "no"):
        raise DoubtError("yes or no", taken_for=False)
    return value == "yes"


def not_no(value: str) -> bool:
    if value not in ("yes", "no"):
        raise DoubtError("yes or no", taken_for=True)
    return value != "no"


def not_false(value: str) -> bool:
    if value not in ("true", "false"):
        raise DoubtError("true or false", taken_for=True)
    return value != "false"


def snap_count(value: str) -> int:
    number = loose_integer(value)
    if number < 2:
        raise DoubtError("2 or more", taken_for=2)  # ZooKeeperServer.getSnapCount
    return number


def words(value: str) -> frozenset[str]:
    """Four-letter words; what is none is passed over, as the real server does."""
    listed = {word.strip() for word in value.split(",")} - {""}
    known = ALL_WORDS if "*" in listed else ALL_WORDS & listed
    if not listed <= ALL_WORDS | {"*"}:
        raise DoubtError("four-letter words, or *", taken_for=known)
    return known


def names(value: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name.strip() for name in value.split(","))


_ALGORITHMS = {"MD5": "md5", "SHA": "sha1", "SHA1": "sha1"} | {
    f"{family}-{bits}": f"{kind}{bits}"
    for family, kind in (("SHA", "sha"), ("SHA3", "sha3_"))
    for bits in (224, 256, 384, 512)
} | {"SHA-1": "sha1"}  # fmt: skip


def digest_algorithm(value: str) -> str:
    """A name of java.security.MessageDigest's as hashlib has it; the real server starts with no other."""
    if value.upper() not in _ALGORITHMS:
        raise ValueError(", ".join(sorted(_ALGORITHMS)))
    return _ALGORITHMS[value.upper()]


def compression(value: str) -> str:
    """SnapStream.StreamMode.fromString."""
    if value.lower() not in ("", "gz", "snappy"):
        raise DoubtError("gz, snappy or nothing", taken_for="")
    return value.lower()


def absent(right: str) -> Callable[[str], Any]:
    """What is not served, whatever the value."""

    def read(value: str) -> str:
        raise ValueError(right)

    return read


def never(right: str) -> Callable[[str], Any]:
    """What the real server serves when it is true, and this one does not: only false is taken."""

    def read(value: str) -> bool:
        if value.lower() == "true":
            raise ValueError(right)
        return False

    return read
