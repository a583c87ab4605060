"""The parameters of a fault by HTTP, read with an error that says which of them is wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from simzk.serve.tcp import TcpServer

Query = dict[str, str]


def wanted(query: Query, name: str) -> str:
    """A parameter that must be there."""
    if name not in query:
        raise SimzkError("it is not given", where=name, right=f"?{name}=...")
    return query[name]


def whole(text: str, name: str) -> int:
    """A whole number, hexadecimal behind 0x.

    >>> whole("0x10", "session"), whole("7", "n")
    (16, 7)
    """
    try:
        return int(text, 0)
    except ValueError:
        raise SimzkError(f"{text!r} is no number", where=name) from None


def number(query: Query, name: str) -> int:
    """A whole number that must be there."""
    return whole(wanted(query, name), name)


def seconds(query: Query, name: str = "seconds") -> float:
    """A number of seconds that must be there."""
    text = wanted(query, name)
    try:
        duration = float(text)
    except ValueError:
        raise SimzkError(f"{text!r} is no number", where=name) from None
    if not math.isfinite(duration):
        raise SimzkError(f"it cannot be {text}", where=name, right="a number of seconds")
    return duration


def session(server: TcpServer, query: Query) -> int:
    """The id of a session that lives, on whichever server of an ensemble."""
    session_id = number(query, "session")
    if not server.host.whole.knows(session_id):
        raise SimzkError(f"there is no session 0x{session_id:x}", where="session", right="a session that lives")
    return session_id
