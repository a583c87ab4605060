r"""Formats of ZooKeeper's configuration files: Java properties, and users in a JAAS login configuration.

Rules of this module:
  - properties: `#` and `!` begin comments; `=`, `:` or blanks end a key; a backslash joins lines; of a key that comes
    twice the last counts. Lines end where Java says so, not at other line ends of Unicode; a text is ISO 8859-1 with
    `\uXXXX` (java.util.Properties.load);
  - JAAS: the section `Server` lists SASL users, as the real server reads it:

        Server {
            org.apache.zookeeper.server.auth.DigestLoginModule required
            user_alice="her password";
        };

    Other options and sections are ignored. A file without a user is rejected, because nobody could log in
    (ServerCnxnFactory.configureSaslLogin, DigestLoginModule).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"(?P<key>(?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


class Entry(NamedTuple):
    """Value of one key, and its line number."""

    value: str
    line: int


def read_properties(text: str, name: str = "") -> dict[str, Entry]:
    """Parse Java properties; return keys and values in the order of the file.

    Args:
        text: the content of the file.
        name: the file's name, for errors.

    Raises:
        ConfigError: an invalid escape, which Java rejects.

    >>> read_properties("# a comment\\nclientPort=2181\\ndataDir : /var/\\\\\\n  zookeeper\\n")
    {'clientPort': Entry(value='2181', line=2), 'dataDir': Entry(value='/var/zookeeper', line=3)}
    """
    entries: dict[str, Entry] = {}
    for number, line in _logical_lines(text):
        found = _LINE.fullmatch(line)
        assert found is not None, "the pattern matches any line"
        where = f"{name}:{number}"
        entries[_unescaped(found["key"], where).strip()] = Entry(_unescaped(found["value"], where).strip(), number)
    return entries


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines without comments, continuation lines joined, each with the number of its first line."""
    parts: list[str] = []
    begin = 0
    for number, physical in enumerate(_LINE_END.split(text), 1):
        line = physical.lstrip(_BLANKS)
        if not parts:
            if not line or line[0] in "#!":
                continue
            begin = number
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:  # an even number of backslashes is escaped ones
            parts.append(line[:-1])
            continue
        yield begin, "".join([*parts, line])
        parts = []
    if parts:
        yield begin, "".join(parts)


def _unescaped(text: str, where: str) -> str:
    def unescape(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] != "u":
            return _ESCAPED_CHARACTERS.get(escape, escape)
        if len(escape) == 1:
            raise ConfigError(r"invalid escape \u", where=where, right=r"four hexadecimal digits, as in \u0041")
        return chr(int(escape[1:], 16))

    return _ESCAPE.sub(unescape, text)


_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|/\*.*?\*/|//[^\n]*|^\s*#[^\n]*', re.DOTALL | re.MULTILINE)
_SECTION = re.compile(r'(?:^|[;}\s])"?Server"?\s*\{((?:"(?:\\.|[^"\\])*"|[^"}])*)\}')
_USER = re.compile(r'\buser_([^\s=]+)\s*=\s*"((?:\\.|[^"\\])*)"')


def read_jaas(path: Path) -> dict[str, str]:
    """Read the SASL users of a JAAS file; return passwords by user name.

    Raises:
        ConfigError: the file cannot be read, or lists no user of a server.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError:
        raise ConfigError("not a text file", where=str(path), right="a login configuration in UTF-8") from None
    return parse_jaas(text, str(path))


def parse_jaas(text: str, name: str = "jaas.conf") -> dict[str, str]:
    """Parse a JAAS login configuration; `name` is the file's, for errors.

    >>> parse_jaas('Server { a.DigestLoginModule required user_alice="secret" user_bob="b"; };')
    {'alice': 'secret', 'bob': 'b'}
    """
    section = _SECTION.search(_COMMENT.sub(lambda found: found[1] or " ", text))
    if section is None:
        raise ConfigError("the section Server is missing", where=name, right="Server { ... };")
    users = {user: re.sub(r"\\(.)", r"\1", password) for user, password in _USER.findall(section[1])}
    if not users:
        raise ConfigError("the section Server lists no user", where=name, right='user_NAME="PASSWORD"')
    return users
