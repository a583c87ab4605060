"""Faults on real connections: apply the rules of simzk/simulation/faults/rules.py to the links of a host.

Rules of this module:
  - a request that meets a fault never reaches the server but where the rule says that it is applied;
  - a session is named by its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.simulation.faults.rules import FaultRules
from simzk.zookeeper.fault_replies import FaultReplies
from simzk.zookeeper.operations import VOCABULARY, operation_and_paths

if TYPE_CHECKING:
    from collections.abc import Hashable

    from simzk.serve.host import Host, Link
    from simzk.zookeeper.requests import Request


class HostDriver(FaultReplies["Link"]):
    """What a fault point asks of a host (`fault_point.Driver`); all under the host's lock."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def describe(self, link: Link, request: Request) -> tuple[tuple[Hashable, ...], str, tuple[str, ...]]:
        return (link.session_id,), *operation_and_paths(request)

    def now_ms(self) -> int:
        return self._host.clock.now_ms()

    def wake_at(self, at_ms: int) -> None:
        self._host.on_deadline(at_ms)

    def pass_on(self, link: Link, xid: int, request: Request) -> None:
        assert link.connection is not None, "the wire lets no request through before the connect request"
        self._host.server.handle(link.connection, xid, request, self.now_ms())

    def is_open(self, link: Link) -> bool:
        return not link.closed and link.connection is not None and not link.connection.closed

    def cut(self, link: Link) -> None:
        self._host.cut(link)

    def expire(self, link: Link) -> None:
        self._host.expire(link.session_id)

    def move(self, link: Link, server: int) -> None:
        self._host.whole.move(link.session_id, server)

    def pause(self, link: Link) -> None:
        self._host.whole.pause(link.session_id)

    def resume(self, link: Link) -> None:
        self._host.whole.resume(link.session_id)

    def went_on(self, link: Link) -> None:
        self._host.flush()
        if link.hung_up and not self._host.faults.keeps(link):
            self._host.cut(link)


def new_rules() -> FaultRules:
    """An empty table for requests of ZooKeeper."""
    return FaultRules(VOCABULARY)
