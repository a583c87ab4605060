"""Text from outside as it is shown: no terminal obeys it, and none of it looks like a line of simzk's own.

Names, addresses and data of znodes come from clients and files. Every package may import this module. The text stays as
it is in values and in JSON; it is escaped where it is shown.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return a text in one line, with control characters, line ends and direction marks as escapes of Python.

    >>> printable("orders-0 é"), printable("a\x1b[2J\nb\u202ec\udcff")
    ('orders-0 é', 'a\\x1b[2J\\nb\\u202ec\\udcff')
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def printable_lines(text: str) -> str:
    r"""Return a text of several lines, each as `printable` returns it.

    >>> printable_lines("one\ntwo\r\x07")
    'one\ntwo\\r\\x07'
    """
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))
