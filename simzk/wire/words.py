"""The names of the four-letter words, and how one is known from a session; what they say is four_letter_words.py (§5).

Rules of this module:
  - it stands alone, as a server needs it for each connection, and the answers only when somebody asks for one.

Source: org.apache.zookeeper.server.command.FourLetterCommands.
"""

from __future__ import annotations

WORD_BYTES = 4
SET_TRACE_MASK = b"stmk"
TRACE_MASK_BYTES = 8
DEFAULT_TRACE_MASK = 306
DEFAULT_WHITELIST = frozenset({"srvr"})
_ASKING = ("conf", "cons", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srvr", "stat")
_WATCHES, _SETTING = ("wchc", "wchp", "wchs"), ("crst", "srst", "stmk")
ALL_WORDS = frozenset((*_ASKING, *_WATCHES, *_SETTING))


def is_word(first_bytes: bytes) -> bool:
    """Whether a connection that begins with these four bytes asks for a word instead of a session.

    >>> is_word(b"ruok"), is_word(b"RUOK"), is_word(b"\\0\\0\\0\\x2d")
    (True, False, False)
    """
    assert len(first_bytes) == WORD_BYTES
    return first_bytes.isalpha() and first_bytes.decode("ascii") in ALL_WORDS
