"""Faults over HTTP: the test verbs for clients of any language, one POST each.

| POST | effect |
| --- | --- |
| /faults/expire?session=ID | expires the session |
| /faults/disconnect?session=ID | closes its connection |
| /faults/pause?session=ID, /faults/resume?session=ID | stops reading and answering it, until it is resumed |
| /faults/fail_next?op=OP&error=NAME&n=N | fails the next N requests of one kind, like `TestServer.fail_next` |
| /faults/drop_request, /faults/drop_reply | loses requests before they are applied; loses replies of applied requests |
| /faults/delay?seconds=S, /faults/hold | holds requests back, for a time or until they are released |
| /faults/pause_at | pauses the session that a request comes from, until released |
| /faults/expire_at | expires the session that a request comes from |
| /faults/move_at?server=N | loses a request; only server N of the ensemble accepts its session then |
| /faults/fail?error=NAME | answers requests with an error |
| /faults/release?rule=N, /faults/clear?rule=N | processes the requests that a rule holds back; removes it too, or all |
| /faults/restart | stops the server and starts it again: connections are closed, the tree and the sessions are kept |

For the servers of an ensemble, on the AdminServer of any of them:

| POST | effect |
| --- | --- |
| /faults/move?session=ID&server=N | closes the session's connection; only server N accepts it then |
| /faults/stop?server=N, /faults/start?server=N | stops a server and closes its port; starts it again |
| /faults/lose_leader | stops the leader, and returns its number |
| /faults/elect?server=N | elects a leader now: this server, or by ZooKeeper's rule |
| /faults/cut?servers=1,2, /faults/heal | lets these servers reach only each other; ends the partition |
| /faults/lag?server=N&seconds=S | delays committed transactions on a server, or keeps it `&transactions=K` behind |

`stop` and `lose_leader` accept `outage=S`: seconds without a leader, if it was the leader.

The verbs from drop_request to fail add a rule and answer with its number. They accept `op`, `session`, `path`,
`below=true` and `n` (the number of requests, default 1, or `all`); without these they match every request. GET /faults
lists the rules and their counts.

A session's id is written as in the commands (decimal) or as in the words (0x and hexadecimal). An error is kazoo's
exception class or the protocol's code: NoNodeError, NO_NODE.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, SimzkError
from simzk.simulation.fault_verbs import FaultVerbs
from simzk.simulation.request_faults import REQUEST_FAULTS, Fail

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.tcp.server import TcpServer
    from simzk.serve.verbs import EnsembleVerbs
    from simzk.simulation.fault_verbs import Which
    from simzk.simulation.request_faults import FaultRule, RequestFault

Query = dict[str, str]
SECONDS_MAX = 366 * 24 * 3600
"""Longest duration that a request over HTTP may ask for: a year."""


def required(query: Query, name: str) -> str:
    """Return a parameter; a missing one is a SimzkError."""
    if name not in query:
        raise SimzkError("the parameter is missing", where=name, right=f"?{name}=...")
    return query[name]


def whole(text: str, name: str) -> int:
    """Parse an integer, hexadecimal after 0x.

    >>> whole("0x10", "session"), whole("7", "n")
    (16, 7)
    """
    try:
        found = int(text, 0)
    except ValueError:
        raise SimzkError(f"{text!r} is not a number", where=name) from None
    if not -(2**63) <= found < 2**64:
        raise SimzkError("the number is too large", where=name, right="a number of 64 bits")
    return found


def number(query: Query, name: str) -> int:
    """Return a parameter as an integer."""
    return whole(required(query, name), name)


def seconds(query: Query, name: str = "seconds") -> float:
    """Return a parameter as a number of seconds."""
    text = required(query, name)
    try:
        duration = float(text)
    except ValueError:
        raise SimzkError(f"{text!r} is not a number", where=name) from None
    if not (math.isfinite(duration) and abs(duration) <= SECONDS_MAX):
        right = f"a number of seconds, at most {SECONDS_MAX:,}"
        raise SimzkError(f"invalid duration {text}", where=name, right=right)
    return duration


def session(server: TcpServer, query: Query) -> int:
    """Return the id of a live session, on any server of an ensemble."""
    session_id = number(query, "session")
    if not server.driver.group.has_session(session_id):
        raise SimzkError(f"there is no session 0x{session_id:x}", where="session", right="the id of a live session")
    return session_id


def verbs(server: TcpServer) -> EnsembleVerbs:
    """Return the verbs of a server's ensemble; without one it is a SimzkError."""
    if server.ensemble_verbs is None:
        raise SimzkError("this is a single server", right="simzk serve --servers 3")
    return server.ensemble_verbs


def _move(server: TcpServer, query: Query) -> None:
    verbs(server)
    session_id, target = session(server, query), number(query, "server")
    if target not in server.driver.group.servers:
        right = f"one of {', '.join(map(str, server.driver.group.servers))}"
        raise SimzkError(f"there is no server {target}", where="server", right=right)
    server.driver.group.move_session(session_id, target)


def _outage(query: Query) -> float | None:
    return seconds(query, "outage") if "outage" in query else None


def _cut(server: TcpServer, query: Query) -> None:
    names = required(query, "servers").split(",")
    verbs(server).cut(*(whole(name, "servers") for name in names))


def _lag(server: TcpServer, query: Query) -> None:
    verbs(server).lag(
        number(query, "server"),
        seconds=seconds(query) if "seconds" in query else 0.0,
        transactions=number(query, "transactions") if "transactions" in query else 0,
    )


def _which(server: TcpServer, query: Query) -> Which[int]:
    """Return which requests a rule matches."""
    which: Which[int] = {"below": query.get("below", "false") == "true"}
    if query.get("below", "false") not in ("true", "false"):
        raise ConfigError(f"{query['below']!r} is neither true nor false", where="below", right="true or false")
    if "session" in query:
        which["client"] = session(server, query)
    if "path" in query:
        which["path"] = query["path"]
    if "n" in query:
        which["times"] = None if query["n"] == "all" else number(query, "n")
    return which


def _rule_endpoint(kind: type[RequestFault]) -> Callable[[TcpServer, Query], FaultRule]:
    """Return the handler of the endpoint that adds a rule with this kind of fault."""
    readers: dict[type, Callable[[Query, str], str | float]] = {int: number, float: seconds, str: required}

    def handle(server: TcpServer, query: Query) -> FaultRule:
        value = readers[kind.parameter_type](query, kind.parameter) if kind.parameter else ""
        driver = server.driver.group
        faults: FaultVerbs[int] = FaultVerbs(driver.rules, lambda session_id: session_id, driver.servers)
        return faults.inject(kind.from_parameter(value), query.get("op"), **_which(server, query))

    return handle


def _fail_next(server: TcpServer, query: Query) -> FaultRule:
    required(query, "op")
    return _rule_endpoint(Fail)(server, query)


def _clear(server: TcpServer, query: Query) -> None:
    if "rule" in query:
        server.driver.rules.find(number(query, "rule")).clear()
    else:
        server.driver.rules.clear()


# A handler returns what its answer contains: the rule that was added, or other fields.
FAULTS: dict[str, Callable[[TcpServer, Query], FaultRule | dict[str, int] | None]] = {
    "clear": _clear,
    "cut": _cut,
    "disconnect": lambda server, query: server.driver.group.disconnect_session(session(server, query)),
    "elect": lambda server, query: verbs(server).elect(number(query, "server") if "server" in query else None),
    "expire": lambda server, query: server.driver.group.expire_session(session(server, query)),
    "fail_next": _fail_next,
    "heal": lambda server, query: verbs(server).heal(),
    "lag": _lag,
    "lose_leader": lambda server, query: {"server": verbs(server).lose_leader(outage=_outage(query))},
    "move": _move,
    "pause": lambda server, query: server.driver.group.pause_session(session(server, query)),
    "release": lambda server, query: server.driver.rules.find(number(query, "rule")).release(),
    "restart": lambda server, query: server.driver.group.restart(),
    # A session may have expired during its pause; resuming it is no error.
    "resume": lambda server, query: server.driver.group.resume_session(number(query, "session")),
    "start": lambda server, query: verbs(server).start(number(query, "server")),
    "stop": lambda server, query: verbs(server).stop(number(query, "server"), outage=_outage(query)),
} | {kind.endpoint or kind.name: _rule_endpoint(kind) for kind in REQUEST_FAULTS.values()}
