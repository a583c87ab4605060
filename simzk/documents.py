"""JSON, TOML and gzip from outside, with limits: what exceeds them is invalid, and ends no process.

Every package may import this module.
"""

from __future__ import annotations

import json
import re
import tomllib
import zlib
from typing import Any

UNPACKED_BYTES_MAX = 1 << 28
"""Most bytes of a packed file when it is unpacked."""
KEY_PARTS_MAX = 100
_DIGITS_MAX = 19
_GZIP = 16 + zlib.MAX_WBITS
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{KEY_PARTS_MAX}}}")
"""A dotted key, or a text that looks like one: tomllib needs the square of its length in time and memory."""


def read_json(text: str | bytes, *, pairs_as_list: bool = False) -> Any:
    """Return the value of a JSON document.

    Args:
        text: the document.
        pairs_as_list: whether an object becomes the list of its pairs instead of a dict.

    Raises:
        ValueError: it is no JSON, no UTF-8, or nested too deeply.

    >>> read_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(text, object_pairs_hook=list if pairs_as_list else None)
    except (ValueError, RecursionError) as error:
        raise _reworded(error) from None


def read_toml(text: str) -> dict[str, Any]:
    """Return the document in TOML.

    Raises:
        ValueError: it is no TOML, or nested too deeply; `tomllib.TOMLDecodeError` where that has a line.

    >>> read_toml(".".join("a" * 1000) + " = 1")
    Traceback (most recent call last):
    ValueError: a dotted key has more than 100 parts (at line 1, column 1)
    """
    found = _LONG_KEY.search(text)
    if found is not None:
        line, column = text.count("\n", 0, found.start()) + 1, found.start() - text.rfind("\n", 0, found.start())
        raise ValueError(f"a dotted key has more than {KEY_PARTS_MAX} parts (at line {line}, column {column})")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _reworded(error) from None


def _reworded(error: ValueError | RecursionError) -> ValueError:
    """Return the error of a parser, without its advice to change a limit of Python."""
    if isinstance(error, RecursionError):
        return ValueError("it is nested too deeply")
    return ValueError("a number has too many digits") if "set_int_max_str_digits" in str(error) else error


def gunzip(packed: bytes, bytes_max: int = UNPACKED_BYTES_MAX) -> bytes:
    """Return the content of a gzip file.

    Raises:
        ValueError: it is damaged, or its content exceeds `bytes_max`.

    >>> gunzip(zlib.compress(b"a" * 2000, wbits=31), bytes_max=1000)
    Traceback (most recent call last):
    ValueError: it has more than 1,000 bytes when it is unpacked
    """
    found = bytearray()
    rest = packed
    while rest:
        unpacker = zlib.decompressobj(wbits=_GZIP)
        try:
            found += unpacker.decompress(rest, bytes_max - len(found) + 1)
        except zlib.error as error:
            raise ValueError(f"it is no gzip ({error})") from None
        if len(found) > bytes_max:
            raise ValueError(f"it has more than {bytes_max:,} bytes when it is unpacked")
        if not unpacker.eof:
            raise ValueError("it is no whole gzip file")
        rest = unpacker.unused_data.lstrip(b"\0")
    return bytes(found)


def is_number(text: str) -> bool:
    """Return whether a text has only digits, and few enough of them for a number of 64 bits.

    >>> is_number("007"), is_number("-7"), is_number("٧"), is_number("9" * 20)
    (True, False, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
