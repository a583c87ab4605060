"""The registrations of many brokers in one request: what it tells, and watches, is what as many reads do."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka import paths
from simzk.kafka.cluster import KafkaCluster
from simzk.kafka.registrations import ReadRegistrations
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.zookeeper.replies import Reply
from simzk.zookeeper.requests import ACL, OPEN_ACL, ConnectRequest, Create, Delete, GetData, Id, SetData
from simzk.zookeeper.server import Server

BROKERS = 5
HIDDEN = (ACL(31, Id("digest", "somebody:else")),)
IDS = st.lists(st.integers(0, BROKERS), unique=True, max_size=BROKERS + 1)
"""One more than there are."""


class Arm:
    """A server with registrations, and who reads them."""

    def __init__(self, hidden: list[int], watched: list[int]) -> None:
        self.server = Server(now_ms=1)
        self.reader, self.writer = (
            self.server.connect(ConnectRequest(0, 0, 40_000, 0, None, False), 1) for _ in range(2)
        )
        for path in ("/brokers", paths.BROKER_IDS):
            self.server.handle(self.writer, 1, Create(path, b"", OPEN_ACL, 0), 1)
        for broker in range(BROKERS):
            acl = HIDDEN if broker in hidden else OPEN_ACL
            self.server.handle(self.writer, 1, Create(paths.broker(broker), b"%d" % broker, acl, 1), 1)
        for broker in watched:
            self.server.handle(self.reader, 1, GetData(paths.broker(broker), True), 1)
        self.server.take_output()

    def ask(self, request: Any) -> Reply:
        self.server.handle(self.reader, 7, request, 1)
        reply = self.reader.outgoing.pop()
        assert isinstance(reply, Reply)
        return reply

    def change_all(self) -> list[object]:
        """What the reader hears when each registration changes or goes."""
        for broker in range(BROKERS):
            request = SetData(paths.broker(broker), b"new", -1) if broker % 2 else Delete(paths.broker(broker), -1)
            self.server.handle(self.writer, 1, request, 1)
        return [message for at, messages in self.server.take_output() if at is self.reader for message in messages]


@given(IDS, IDS, IDS, IDS)
def test_a_batch_tells_and_watches_what_its_requests_do(
    asked: list[int], watched: list[int], before: list[int], hidden: list[int]
) -> None:
    as_one, one_by_one = Arm(hidden, before), Arm(hidden, before)
    batch = ReadRegistrations(asked, {paths.broker(broker) for broker in watched})
    reply = as_one.ask(batch)
    replies = [one_by_one.ask(request) for request in batch.requests()]
    assert reply.body.found == batch.assemble(replies).found  # type: ignore[attr-defined]
    assert (reply.xid, reply.zxid) == (7 + max(len(asked), 1) - 1, one_by_one.server.zxid)
    held = [{(path, mode) for path, _, mode in arm.server.watches.data.entries()} for arm in (as_one, one_by_one)]
    assert held[0] == held[1]
    new = [str(request.path) for request, _ in batch.watches(reply.body)]  # type: ignore[union-attr]
    assert sorted(new) == sorted(
        paths.broker(b) for b in asked if b in watched and b < BROKERS and b not in hidden and b not in before
    )
    assert as_one.change_all() == one_by_one.change_all()


def test_a_registration_that_somebody_rewrites_is_noticed_by_a_controller_that_reads_as_one() -> None:
    """Its watch stands in the session's book, and is set again after each event."""
    layout = generate_layout(brokers_in_racks(4, 0), topics=1, partitions=4, replication_factor=3, seed=1)
    cluster = KafkaCluster.from_layout(layout)
    controller = cluster.controller
    assert controller is not None
    other = next(broker for broker in cluster.live_brokers if broker != controller)
    context = cluster.brokers[controller].controller.context
    for rack in ("one", "two"):
        registration = context.brokers[other].registration._replace(rack=rack)
        data = cluster.brokers[other].version.encode_broker(registration)
        client = cluster.server.connect(ConnectRequest(0, 0, 40_000, 0, None, False), cluster.now_ms)
        cluster.server.handle(client, 1, SetData(paths.broker(other), data, -1), cluster.now_ms)
        cluster.zookeeper_host.pump()
        cluster.run_for(1)
        assert context.brokers[other].registration.rack == rack
        cluster.brokers[controller].session.break_connection()
        cluster.run_for(3)
