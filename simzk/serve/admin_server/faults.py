"""The parameters of a fault by HTTP, read with an error that says which of them is wrong.

Faults of ensembles by HTTP: what `ZooKeeperServer(servers=3).ensemble` does, one POST each, to any of the servers.

| POST | does |
| --- | --- |
| /faults/move?session=ID&server=N | cuts the session's connection, and server N alone takes it up |
| /faults/stop?server=N, /faults/start?server=N | stops a server and closes its port; starts it again |
| /faults/lose_leader | stops the leader, and tells which server that was |
| /faults/elect?server=N | has a leader elected now: this one, or by the real rule |
| /faults/cut?servers=1,2, /faults/heal | lets these servers speak with each other and no others; all with all again |
| /faults/lag?server=N&seconds=S | lets a server apply what is committed later; by `&transactions=K` less; or at once |

`stop` and `lose_leader` take `outage=S`, for how many seconds nobody leads if it was the leader.

Faults by HTTP: a test's verbs for clients of any language, one POST each.

| POST | does |
| --- | --- |
| /faults/expire?session=ID | ends the session at once |
| /faults/disconnect?session=ID | cuts its connection |
| /faults/pause?session=ID, /faults/resume?session=ID | neither reads nor answers it, until it is resumed |
| /faults/fail_next?op=OP&error=NAME&n=N | lets the next N requests of a kind fail, as `TestServer.fail_next` does |
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

import math
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, SimzkError
from simzk.serve.client_faults import ClientFaults
from simzk.simulation.faults.request_faults import REQUEST_FAULTS, Fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.client import KazooClient

    from simzk.serve.ensemble_verbs import EnsembleVerbs
    from simzk.serve.tcp.server import TcpServer
    from simzk.simulation.faults.request_faults import FaultRule, RequestFault
    from simzk.simulation.faults.verbs import Which

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
    """Return the id of a live session, on any server of an ensemble."""
    session_id = number(query, "session")
    if not server.driver.group.has_session(session_id):
        raise SimzkError(f"there is no session 0x{session_id:x}", where="session", right="the id of a live session")
    return session_id


def verbs(server: TcpServer) -> EnsembleVerbs:
    """The verbs of a server's ensemble.

    Raises:
        SimzkError: it is a single server.
    """
    if server.ensemble_verbs is None:
        raise SimzkError("this is a single server", right="simzk serve --servers 3")
    return server.ensemble_verbs


def move(server: TcpServer, query: Query) -> None:
    verbs(server)
    session_id, target = session(server, query), number(query, "server")
    if target not in server.driver.group.servers:
        right = f"one of {', '.join(map(str, server.driver.group.servers))}"
        raise SimzkError(f"there is no server {target}", where="server", right=right)
    server.driver.group.move_session(session_id, target)


def _outage(query: Query) -> float | None:
    return seconds(query, "outage") if "outage" in query else None


def stop(server: TcpServer, query: Query) -> None:
    verbs(server).stop(number(query, "server"), outage=_outage(query))


def start(server: TcpServer, query: Query) -> None:
    verbs(server).start(number(query, "server"))


def lose_leader(server: TcpServer, query: Query) -> dict[str, int]:
    return {"server": verbs(server).lose_leader(outage=_outage(query))}


def elect(server: TcpServer, query: Query) -> None:
    verbs(server).elect(number(query, "server") if "server" in query else None)


def cut(server: TcpServer, query: Query) -> None:
    names = wanted(query, "servers").split(",")
    verbs(server).cut(*(whole(name, "servers") for name in names))


def heal(server: TcpServer, query: Query) -> None:
    verbs(server).heal()


def lag(server: TcpServer, query: Query) -> None:
    verbs(server).lag(
        number(query, "server"),
        seconds=seconds(query) if "seconds" in query else 0.0,
        transactions=number(query, "transactions") if "transactions" in query else 0,
    )


def _expire(server: TcpServer, query: Query) -> None:
    server.driver.group.expire_session(session(server, query))


def _disconnect(server: TcpServer, query: Query) -> None:
    server.driver.group.disconnect_session(session(server, query))


def _pause(server: TcpServer, query: Query) -> None:
    server.driver.group.pause_session(session(server, query))


def _resume(server: TcpServer, query: Query) -> None:
    # A session may have run out while it was paused, and be resumed nevertheless.
    server.driver.group.resume_session(number(query, "session"))


def _restart(server: TcpServer, query: Query) -> None:
    server.driver.group.restart()


def _faults(server: TcpServer) -> ClientFaults:
    """Return the fault verbs, for sessions that were looked up by their ids."""

    def session_of(client: KazooClient | int) -> int:
        assert isinstance(client, int)
        return client

    return ClientFaults(server.driver.group, session_of)


def _which(server: TcpServer, query: Query) -> Which[KazooClient | int]:
    """Which requests a rule is to mean."""
    which: Which[KazooClient | int] = {"below": query.get("below", "false") == "true"}
    if query.get("below", "false") not in ("true", "false"):
        raise ConfigError(f"{query['below']!r} is neither", where="below", right="true or false")
    if "session" in query:
        which["client"] = session(server, query)
    if "path" in query:
        which["path"] = query["path"]
    if "n" in query:
        which["times"] = None if query["n"] == "all" else number(query, "n")
    return which


def _rule_endpoint(kind: type[RequestFault]) -> Callable[[TcpServer, Query], FaultRule]:
    """Return the handler of the endpoint that adds a rule with this kind of fault."""
    readers: dict[type, Callable[[Query, str], str | float]] = {int: number, float: seconds, str: wanted}

    def handle(server: TcpServer, query: Query) -> FaultRule:
        value = readers[kind.parameter_type](query, kind.parameter) if kind.parameter else ""
        fault = kind.from_parameter(value)
        return _faults(server).inject(fault, query.get("op"), **_which(server, query))

    return handle


def _fail_next(server: TcpServer, query: Query) -> FaultRule:
    wanted(query, "op")
    return _rule_endpoint(Fail)(server, query)


def _release(server: TcpServer, query: Query) -> None:
    server.driver.rules.find(number(query, "rule")).release()


def _clear(server: TcpServer, query: Query) -> None:
    if "rule" in query:
        server.driver.rules.find(number(query, "rule")).clear()
    else:
        server.driver.rules.clear()


# What is made known in the answer: the rule that was made, or what a verb tells.
FAULTS: dict[str, Callable[[TcpServer, Query], FaultRule | dict[str, int] | None]] = {
    "clear": _clear,
    "cut": cut,
    "disconnect": _disconnect,
    "elect": elect,
    "expire": _expire,
    "fail_next": _fail_next,
    "heal": heal,
    "lag": lag,
    "lose_leader": lose_leader,
    "move": move,
    "pause": _pause,
    "release": _release,
    "restart": _restart,
    "resume": _resume,
    "start": start,
    "stop": stop,
} | {kind.endpoint or kind.name: _rule_endpoint(kind) for kind in REQUEST_FAULTS.values()}
