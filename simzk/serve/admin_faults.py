"""Faults by HTTP: a test's verbs for clients of any language, one POST each.

| POST | does |
| --- | --- |
| /faults/expire?session=ID | ends the session at once |
| /faults/disconnect?session=ID | cuts its connection |
| /faults/pause?session=ID, /faults/resume?session=ID | neither reads nor answers it, until it is resumed |
| /faults/fail_next?op=OP&error=NAME&n=N | lets the next N requests of a kind fail, as `Facade.fail_next` does |
| /faults/restart | stops the server and starts it again: connections are cut, the tree and the sessions stay |

A session's id is given as the commands tell it (decimal), or as the words do (0x and hexadecimal). An error is called
as kazoo's exception class, or as the code of the protocol: NoNodeError, NO_NODE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.tcp import TcpServer

Query = dict[str, str]


def _wanted(query: Query, name: str) -> str:
    if name not in query:
        raise SimzkError("it is not given", where=name, right=f"?{name}=...")
    return query[name]


def _number(query: Query, name: str) -> int:
    text = _wanted(query, name)
    try:
        return int(text, 0)
    except ValueError:
        raise SimzkError(f"{text!r} is no number", where=name) from None


def _session(server: TcpServer, query: Query) -> int:
    session_id = _number(query, "session")
    if session_id not in server.host.server.sessions:
        raise SimzkError(f"there is no session 0x{session_id:x}", where="session", right="a session that lives")
    return session_id


def _expire(server: TcpServer, query: Query) -> None:
    server.host.expire(_session(server, query))


def _disconnect(server: TcpServer, query: Query) -> None:
    server.host.disconnect(_session(server, query))


def _pause(server: TcpServer, query: Query) -> None:
    server.host.pause(_session(server, query))


def _resume(server: TcpServer, query: Query) -> None:
    # A session may have run out while it was paused, and be resumed nevertheless.
    server.resume(_number(query, "session"))


def _restart(server: TcpServer, query: Query) -> None:
    server.host.restart()


def _fail_next(server: TcpServer, query: Query) -> None:
    times = _number(query, "n") if "n" in query else 1
    with server.host.lock:
        server.host.failures.add(_wanted(query, "op"), _error_class(_wanted(query, "error")), times)


def _error_class(name: str) -> type[Exception]:
    """An exception class with the code of the error of this name."""
    snake = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name.removesuffix("Error"))
    wanted = name if name in Code.__members__ else snake.strip("_")
    code = Code.__members__.get(wanted)
    if code is None:
        raise SimzkError(f"no error is called {name!r}", where="error", right="as NoNodeError, or NO_NODE")
    return type(name, (Exception,), {"code": int(code)})


FAULTS: dict[str, Callable[[TcpServer, Query], None]] = {
    "disconnect": _disconnect,
    "expire": _expire,
    "fail_next": _fail_next,
    "pause": _pause,
    "restart": _restart,
    "resume": _resume,
}
