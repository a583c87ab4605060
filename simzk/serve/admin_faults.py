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
| /faults/move_at?server=N | loses a request, and lets server N of the ensemble alone take its session up |
| /faults/fail?error=NAME | answers requests with an error |
| /faults/release?rule=N, /faults/clear?rule=N | lets go what a rule keeps back; ends it too, or all of them |
| /faults/restart | stops the server and starts it again: connections are cut, the tree and the sessions stay |

What befalls the servers of an ensemble has a table of its own (admin_ensemble_faults.py).

Those from drop_request to fail make a rule, whose number is in the answer. They take `op`, `session`, `path`,
`below=true` and `n` (how often, 1 if it is not given, or `all`), and mean every request where none of these is given.
GET /faults lists the rules and how often each has struck.

A session's id is given as the commands tell it (decimal), or as the words do (0x and hexadecimal). An error is called
as kazoo's exception class, or as the code of the protocol: NoNodeError, NO_NODE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.serve import admin_ensemble_faults as ensemble
from simzk.serve.admin_query import Query, number, seconds, session, wanted
from simzk.simulation.fault_verbs import FaultVerbs, Which

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from simzk.serve.tcp import TcpServer
    from simzk.simulation.fault_rules import FaultRule


def _expire(server: TcpServer, query: Query) -> None:
    server.host.whole.expire(session(server, query))


def _disconnect(server: TcpServer, query: Query) -> None:
    server.host.whole.disconnect(session(server, query))


def _pause(server: TcpServer, query: Query) -> None:
    server.host.whole.pause(session(server, query))


def _resume(server: TcpServer, query: Query) -> None:
    # A session may have run out while it was paused, and be resumed nevertheless.
    server.host.whole.resume(number(query, "session"))


def _restart(server: TcpServer, query: Query) -> None:
    server.host.whole.restart()


class SessionFaults(FaultVerbs[int]):
    """Faults on sessions by their ids.

    Args:
        server: whose sessions.
    """

    def __init__(self, server: TcpServer) -> None:
        super().__init__(server.host.rules)
        self._host = server.host.whole

    def _session_of(self, client: int) -> Hashable:
        return client

    def _servers(self) -> tuple[int, ...]:
        return self._host.servers


def _which(server: TcpServer, query: Query) -> Which[int]:
    """Which requests a rule is to mean."""
    which: Which[int] = {"below": query.get("below", "false") == "true"}
    if query.get("below", "false") not in ("true", "false"):
        raise ConfigError(f"{query['below']!r} is neither", where="below", right="true or false")
    if "session" in query:
        which["client"] = session(server, query)
    if "path" in query:
        which["path"] = query["path"]
    if "n" in query:
        which["times"] = None if query["n"] == "all" else number(query, "n")
    return which


def _move_at(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).move(query.get("op"), server=number(query, "server"), **_which(server, query))


def _drop_request(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).drop_request(query.get("op"), **_which(server, query))


def _drop_reply(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).drop_reply(query.get("op"), **_which(server, query))


def _delay(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).delay(query.get("op"), seconds=seconds(query), **_which(server, query))


def _hold(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).hold(query.get("op"), **_which(server, query))


def _pause_at(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).pause(query.get("op"), **_which(server, query))


def _expire_at(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).expire(query.get("op"), **_which(server, query))


def _fail(server: TcpServer, query: Query) -> FaultRule:
    return SessionFaults(server).fail(query.get("op"), error=wanted(query, "error"), **_which(server, query))


def _fail_next(server: TcpServer, query: Query) -> FaultRule:
    wanted(query, "op")
    return _fail(server, query)


def _release(server: TcpServer, query: Query) -> None:
    server.host.rules.find(number(query, "rule")).release()


def _clear(server: TcpServer, query: Query) -> None:
    if "rule" in query:
        server.host.rules.find(number(query, "rule")).clear()
    else:
        server.host.rules.clear()


# What is made known in the answer: the rule that was made, or what a verb tells.
FAULTS: dict[str, Callable[[TcpServer, Query], FaultRule | dict[str, int] | None]] = {
    "clear": _clear,
    "cut": ensemble.cut,
    "delay": _delay,
    "disconnect": _disconnect,
    "drop_reply": _drop_reply,
    "drop_request": _drop_request,
    "elect": ensemble.elect,
    "expire": _expire,
    "expire_at": _expire_at,
    "fail": _fail,
    "fail_next": _fail_next,
    "heal": ensemble.heal,
    "hold": _hold,
    "lag": ensemble.lag,
    "lose_leader": ensemble.lose_leader,
    "move": ensemble.move,
    "move_at": _move_at,
    "pause": _pause,
    "pause_at": _pause_at,
    "release": _release,
    "restart": _restart,
    "resume": _resume,
    "start": ensemble.start,
    "stop": ensemble.stop,
}
