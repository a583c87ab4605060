"""The verbs of faults on a server's clients: the attribute `faults` of a facade, loaded when it is first asked for.

Rules of this module:
  - an operation is called as the method of kazoo's client, an error as kazoo's exception class or the protocol's code;
  - a client is given as such, or by the id of its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.simulation.fault_verbs import FaultVerbs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kazoo.client import KazooClient

    from simzk.serve.host import Host


class ClientFaults(FaultVerbs["KazooClient | int"]):
    """Faults on the clients of one `simzk.ZooKeeper` or `simzk.ZooKeeperServer`: its attribute `faults`.

    Args:
        host: where their connections end.
        session_of: the session of a client of ours; raises `SimzkError` where it is none of ours, or has none.

    >>> import simzk
    >>> with simzk.ZooKeeper() as zookeeper:
    ...     client = zookeeper.client()
    ...     client.start()
    ...     rule = zookeeper.faults.drop_reply("create", path="/a")
    ...     client.retry(client.create, "/a")
    Traceback (most recent call last):
      ...
    kazoo.exceptions.NodeExistsError
    >>> rule.fired
    1
    """

    def __init__(self, host: Host, session_of: Callable[[KazooClient | int], int]) -> None:
        super().__init__(host.rules)
        self._host = host
        self._client_session = session_of

    def _session_of(self, client: KazooClient | int) -> Hashable:
        return self._client_session(client)

    def _servers(self) -> tuple[int, ...]:
        return self._host.servers
