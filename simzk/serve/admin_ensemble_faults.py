"""Faults of ensembles by HTTP: what `ZooKeeperServer(servers=3).ensemble` does, one POST each, to any of the servers.

| POST | does |
| --- | --- |
| /faults/move?session=ID&server=N | cuts the session's connection, and server N alone takes it up |
| /faults/stop?server=N, /faults/start?server=N | stops a server and closes its port; starts it again |
| /faults/lose_leader | stops the leader, and tells which server that was |
| /faults/elect?server=N | has a leader elected now: this one, or by the real rule |
| /faults/cut?servers=1,2, /faults/heal | lets these servers speak with each other and no others; all with all again |
| /faults/lag?server=N&seconds=S | lets a server apply what is committed later; by `&transactions=K` less; or at once |

`stop` and `lose_leader` take `outage=S`, for how many seconds nobody leads if it was the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.serve.admin_query import Query, number, seconds, session, wanted, whole

if TYPE_CHECKING:
    from simzk.serve.ensemble_verbs import EnsembleVerbs
    from simzk.serve.tcp import TcpServer


def verbs(server: TcpServer) -> EnsembleVerbs:
    """The verbs of a server's ensemble.

    Raises:
        SimzkError: it is a single server.
    """
    if server.ensemble is None:
        raise SimzkError("this is a single server", right="simzk serve --servers 3")
    return server.ensemble.verbs()


def move(server: TcpServer, query: Query) -> None:
    verbs(server)
    session_id, target = session(server, query), number(query, "server")
    if target not in server.host.whole.servers:
        right = f"one of {', '.join(map(str, server.host.whole.servers))}"
        raise SimzkError(f"there is no server {target}", where="server", right=right)
    server.host.whole.move(session_id, target)


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
