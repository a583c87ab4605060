"""Faults by HTTP: a test's verbs for clients of any language, one POST each.

| POST | does |
| --- | --- |
| /faults/expire?session=ID | ends the session at once |
| /faults/disconnect?session=ID | cuts its connection |
| /faults/pause?session=ID, /faults/resume?session=ID | neither reads nor answers it, until it is resumed |
| /faults/fail_next?op=OP&error=NAME&n=N | lets the next N requests of a kind fail, as `Facade.fail_next` does |
| /faults/drop_request, /faults/drop_reply | loses requests before they are applied; the replies of those that are |
| /faults/delay?seconds=S, /faults/hold | keeps requests back, for a time or until they are released |
| /faults/pause_at | from a request on neither reads nor answers its session, until released |
| /faults/expire_at | ends the session that a request comes from |
| /faults/fail?error=NAME | answers requests with an error |
| /faults/release?rule=N, /faults/clear?rule=N | lets go what a rule keeps back; ends it too, or all of them |
| /faults/restart | stops the server and starts it again: connections are cut, the tree and the sessions stay |

Those from drop_request to fail make a rule, whose number is in the answer. They take `op`, `session`, `path`,
`below=true` and `n` (how often, 1 if it is not given, or `all`), and mean every request where none of these is given.
GET /faults lists the rules and how often each has struck.

A session's id is given as the commands tell it (decimal), or as the words do (0x and hexadecimal). An error is called
as kazoo's exception class, or as the code of the protocol: NoNodeError, NO_NODE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError, SimzkError
from simzk.simulation.fault_verbs import FaultVerbs, Which

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from simzk.serve.tcp import TcpServer
    from simzk.simulation.fault_rules import FaultRule
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


class SessionFaults(FaultVerbs[int]):
    """Faults on sessions by their ids.

    Args:
        server: whose sessions.
    """

    def __init__(self, server: TcpServer) -> None:
        super().__init__(server.host.rules)

    def _session_of(self, client: int) -> Hashable:
        return client


def _which(server: TcpServer, query: Query) -> Which[int]:
    """Which requests a rule is to mean."""
    which: Which[int] = {"below": query.get("below", "false") == "true"}
    if query.get("below", "false") not in ("true", "false"):
        raise ConfigError(f"{query['below']!r} is neither", where="below", right="true or false")
    if "session" in query:
        which["client"] = _session(server, query)
    if "path" in query:
        which["path"] = query["path"]
    if "n" in query:
        which["times"] = None if query["n"] == "all" else _number(query, "n")
    return which


def _seconds(query: Query) -> float:
    text = _wanted(query, "seconds")
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{text!r} is no number", where="seconds") from None


def _drop_request(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).drop_request(query.get("op"), **_which(server, query))


def _drop_reply(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).drop_reply(query.get("op"), **_which(server, query))


def _delay(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).delay(query.get("op"), seconds=_seconds(query), **_which(server, query))


def _hold(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).hold(query.get("op"), **_which(server, query))


def _pause_at(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).pause(query.get("op"), **_which(server, query))


def _expire_at(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).expire(query.get("op"), **_which(server, query))


def _fail(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).fail(query.get("op"), error=_wanted(query, "error"), **_which(server, query))


def _fail_next(server: TcpServer, query: Query) -> FaultRule:
    _wanted(query, "op")
    return _fail(server, query)


def _release(server: TcpServer, query: Query) -> None:
    server.host.rules.find(_number(query, "rule")).release()


def _clear(server: TcpServer, query: Query) -> None:
    if "rule" in query:
        server.host.rules.find(_number(query, "rule")).clear()
    else:
        server.host.rules.clear()


FAULTS: dict[str, Callable[[TcpServer, Query], FaultRule | None]] = {
    "clear": _clear,
    "delay": _delay,
    "disconnect": _disconnect,
    "drop_reply": _drop_reply,
    "drop_request": _drop_request,
    "expire": _expire,
    "expire_at": _expire_at,
    "fail": _fail,
    "fail_next": _fail_next,
    "hold": _hold,
    "pause": _pause,
    "pause_at": _pause_at,
    "release": _release,
    "restart": _restart,
    "resume": _resume,
}
