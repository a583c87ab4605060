"""Texts as Java decodes them from bytes (java.lang.String, the charset UTF-8)."""

from __future__ import annotations

import codecs
import re
from typing import Final


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Return what Java's decoder puts for bytes that are not UTF-8: U+FFFD, one for a whole encoded surrogate."""
    assert isinstance(error, UnicodeDecodeError)
    start = error.start
    assert start < error.end, "decoding goes on behind what is replaced"
    surrogate = re.match(_SURROGATE, error.object[start : start + 3])
    return "\ufffd", error.end if surrogate is None else start + surrogate.end()


_SURROGATE: Final = b"\xed[\xa0-\xbf][\x80-\xbf]?"
UTF_8_ERRORS: Final = "simzk-java"
"""Error handler for `bytes.decode("utf-8", ...)` that replaces what is not UTF-8 as Java does."""

codecs.register_error(UTF_8_ERRORS, _replace_as_java)


def decode_text(data: bytes) -> str:
    r"""Return `new String(data, UTF_8)` of Java.

    >>> decode_text(b"a\xff\xed\xa0\xbd")
    'a\ufffd\ufffd'
    """
    return data.decode("utf-8", UTF_8_ERRORS)
