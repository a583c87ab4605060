"""On which line of a TOML file a key stands, which `tomllib` does not tell.

The text is known to be good TOML when it comes here, so that this needs no parser: it follows table headers and keys,
and steps over strings of many lines. A key within an inline table or a list is told by the line of its nearest parent.
"""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]
"""Where a value stands in a parsed document, such as `("step", 3, "broker")`."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=(.*)""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, path: KeyPath) -> int:
    r"""Return the line (from 1) of a key, or of the nearest table around it that has a line of its own.

    >>> line_of('title = "x"\n[[step]]\naction = "kill"\nbroker = 1\n', ("step", 0, "broker"))
    4
    """
    lines = key_lines(text)
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every table and key that begins a line."""
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    quotes = ""  # the quotes that end the string of many lines in which this line begins
    for number, line in enumerate(text.splitlines(), start=1):
        if quotes:
            if quotes in line:
                quotes = ""
            continue
        header = _HEADER.match(line)
        key = None if header else _KEY.match(line)
        if header:
            table = _resolve(_parts(header[2]), counts)
            if header[1] == "[[":
                found.setdefault(table, number)
                index = counts.get(table, -1) + 1
                counts[table] = index
                table = (*table, index)
            found.setdefault(table, number)
        elif key:
            path = table
            for part in _parts(key[1]):
                path = (*path, part)
                found.setdefault(path, number)
            quotes = _opened_quotes(key[2])
    return found


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def _resolve(parts: list[str], counts: dict[KeyPath, int]) -> KeyPath:
    """Return the path that a header means: within a list of tables it is the last of them."""
    path: KeyPath = ()
    for position, part in enumerate(parts):
        path = (*path, part)
        if position < len(parts) - 1 and path in counts:
            path = (*path, counts[path])
    return path


def _opened_quotes(value: str) -> str:
    for quotes in ('"""', "'''"):
        if value.lstrip().startswith(quotes) and quotes not in value.lstrip()[3:]:
            return quotes
    return ""
