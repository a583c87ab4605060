"""Files of Java's properties, as far as a zoo.cfg is one.

Rules of this module:
  - `#` and `!` begin comments, `=`, `:` or blanks end a key, a backslash joins lines, of a key that comes twice the
    last counts;
  - lines end where Java says so, not at what else Unicode calls an end; a text is ISO 8859-1 and `\\uXXXX`.

Source: java.util.Properties.load.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"(?P<key>(?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_MEANT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


class Entry(NamedTuple):
    """One setting of the file, and on which line it stands."""

    value: str
    line: int


def read_properties(text: str, name: str = "") -> dict[str, Entry]:
    """Keys and values of a file of Java properties, in its order.

    Args:
        text: of the file.
        name: of the file, for errors.

    Raises:
        ConfigError: an escape that is none, which Java refuses.

    >>> read_properties("# a comment\\nclientPort=2181\\ndataDir : /var/\\\\\\n  zookeeper\\n")
    {'clientPort': Entry(value='2181', line=2), 'dataDir': Entry(value='/var/zookeeper', line=3)}
    """
    entries: dict[str, Entry] = {}
    for number, line in _logical_lines(text):
        found = _LINE.fullmatch(line)
        assert found is not None, "any line is a key and a value"
        where = f"{name}:{number}"
        entries[_unescaped(found["key"], where).strip()] = Entry(_unescaped(found["value"], where).strip(), number)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, joined where they go on, and where each begins."""
    parts: list[str] = []
    begin = 0
    for number, physical in enumerate(_LINE_END.split(text), 1):
        line = physical.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            begin = number
        if _goes_on(line):
            parts.append(line[:-1])
            continue
        yield begin, "".join([*parts, line])
        parts = []
    if parts:
        yield begin, "".join(parts)


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str, where: str) -> str:
    def meant(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] != "u":
            return _MEANT.get(escape, escape)
        if len(escape) == 1:
            raise ConfigError(r"\u is followed by no character's number", where=where, right=r"four digits, as \u0041")
        return chr(int(escape[1:], 16))

    return _ESCAPE.sub(meant, text)
