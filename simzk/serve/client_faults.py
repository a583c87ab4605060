"""Fault verbs for the clients of one server: the attribute `faults` of ZooKeeper and ZooKeeperServer.

Rules of this module:
  - an operation is named like the method of kazoo's client, an error like kazoo's exception class or the protocol's
    code;
  - a client is given as such, or by the id of its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.simulation.faults.verbs import FaultVerbs

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kazoo.client import KazooClient

    from simzk.serve.wire_driver import WireDriver


class ClientFaults(FaultVerbs["KazooClient | int"]):
    """Fault verbs for the clients of one `simzk.ZooKeeper` or `simzk.ZooKeeperServer`: its attribute `faults`.

    Args:
        driver: where their connections end.
        session_of: returns the id of a client's session; raises `SimzkError` if the client belongs to another server.

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

    def __init__(self, driver: WireDriver, session_of: Callable[[KazooClient | int], int]) -> None:
        super().__init__(driver.rules)
        self._driver = driver
        self._client_session = session_of

    def _session_of(self, client: KazooClient | int) -> Hashable:
        return self._client_session(client)

    def _servers(self) -> tuple[int, ...]:
        return self._driver.servers
