"""Batched reads of registrations: results and watches equal those of single reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.errors import ZnodeError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.releases.cluster_releases import local_registration
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ReadRegistrations, RegistrationsRead
from simzk.kafka.zookeeper_mode.schemas import broker_registration
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.zookeeper.replies import Reply
from simzk.zookeeper.requests import (
    ACL,
    OPEN_ACL,
    AddWatch,
    ConnectRequest,
    Create,
    Delete,
    Exists,
    GetData,
    Id,
    Multi,
    RemoveWatches,
    SetACL,
    SetData,
)
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from simzk.zookeeper.watches import Mode

BROKERS = 5
HIDDEN = (ACL(31, Id("digest", "somebody:else")),)
IDS = st.lists(st.integers(0, BROKERS), unique=True, max_size=BROKERS + 1)
"""One more than there are."""


class Arm:
    """Server with registrations, and a reader."""

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

    def watches(self) -> set[tuple[str | None, Mode]]:
        return {(path, mode) for path, _, mode in self.server.watches.data.entries()}

    def heard(self) -> list[object]:
        """Return the events since the last call."""
        return [message for at, messages in self.server.take_output() if at is self.reader for message in messages]

    def change_all(self) -> list[object]:
        """Change or delete each registration, and return the reader's events."""
        for broker in range(BROKERS):
            request = SetData(paths.broker(broker), b"new", -1) if broker % 2 else Delete(paths.broker(broker), -1)
            self.server.handle(self.writer, 1, request, 1)
        return self.heard()


@given(IDS, IDS, IDS, IDS)
def test_a_batch_reads_and_watches_like_its_requests(
    asked: list[int], watched: list[int], before: list[int], hidden: list[int]
) -> None:
    as_one, one_by_one = Arm(hidden, before), Arm(hidden, before)
    batch = ReadRegistrations(asked, {paths.broker(broker) for broker in watched})
    reply = as_one.ask(batch)
    replies = [one_by_one.ask(request) for request in batch.requests()]
    assert reply.body[:3] == batch.assemble(replies)[:3]  # type: ignore[index]
    assert (reply.xid, reply.zxid) == (7 + max(len(asked), 1) - 1, one_by_one.server.zxid)
    assert as_one.watches() == one_by_one.watches()
    read = {b for b in asked if b in watched and b < BROKERS and b not in hidden}
    noted = {str(request.path) for request, _ in batch.watches(reply.body)}  # type: ignore[union-attr]
    assert {paths.broker(b) for b in read.difference(before)} <= noted <= {paths.broker(b) for b in read}
    assert as_one.change_all() == one_by_one.change_all()


CHANGES = st.one_of(
    st.builds(lambda broker: Create(paths.broker(broker), b"%d" % broker, OPEN_ACL, 1), st.integers(0, BROKERS)),
    st.builds(lambda broker: Delete(paths.broker(broker), -1), st.integers(0, BROKERS)),
    st.builds(
        lambda broker, data: SetData(paths.broker(broker), data, -1),
        st.integers(0, BROKERS),
        st.sampled_from([b"x", b"y", None]),
    ),
    st.builds(
        lambda broker, acl: SetACL(paths.broker(broker), acl, -1),
        st.integers(0, BROKERS),
        st.sampled_from([HIDDEN, OPEN_ACL]),
    ),
    st.builds(lambda broker: GetData(paths.broker(broker), True), st.integers(0, BROKERS)),
    st.builds(lambda broker: Exists(paths.broker(broker), True), st.integers(0, BROKERS)),
    st.builds(lambda broker, mode: AddWatch(paths.broker(broker), mode), st.integers(0, BROKERS), st.integers(0, 1)),
    st.builds(lambda broker: RemoveWatches(paths.broker(broker), 2), st.integers(0, BROKERS)),
    st.builds(
        lambda broker: Multi(
            (Delete(paths.broker(broker), -1), Create(paths.broker(broker), b"again", OPEN_ACL, 1)),
        ),
        st.integers(0, BROKERS),
    ),
)


@settings(max_examples=60)
@given(st.lists(st.one_of(st.tuples(st.booleans(), CHANGES), st.tuples(IDS, IDS)), max_size=25))
def test_a_batch_equals_its_requests_after_any_changes(steps: list[Any]) -> None:
    """Changes by others and by the reader, with reads in between."""
    as_one, one_by_one = Arm([], []), Arm([], [])
    for who, what in steps:
        if isinstance(who, bool):
            for arm in (as_one, one_by_one):
                arm.server.handle(arm.reader if who else arm.writer, 3, what, 1)
        else:
            batch = ReadRegistrations(who, {paths.broker(broker) for broker in what})
            heard = as_one.heard(), one_by_one.heard()
            assert heard[0] == heard[1]
            read = as_one.ask(batch).body
            assert read[:3] == batch.assemble([one_by_one.ask(request) for request in batch.requests()])[:3]  # type: ignore[index]
        assert as_one.watches() == one_by_one.watches()
    assert as_one.change_all() == one_by_one.change_all()


@given(st.lists(st.integers(0, 9), max_size=8), st.sampled_from(["0.8.1", "1.0", "2.7", "3.9"]))
def test_decoded_registrations_equal_single_decoding(ports: list[int], release: str) -> None:
    version = kafka_version(release)
    texts: list[bytes | None] = [version.znodes.encode_broker(local_registration(port, None)) for port in ports]
    read = RegistrationsRead(list(range(len(texts))), texts, [7] * len(texts), [])
    said = [broker_registration.decode(paths.broker(n), text, version.reading) for n, text in enumerate(texts)]
    assert read.decoded(version.reading) == said


def test_the_first_invalid_registration_is_named() -> None:
    version = kafka_version("3.9")
    good = version.znodes.encode_broker(local_registration(1, None))
    read = RegistrationsRead([4, 5, 6], [good, b"no", b"nor this"], [1, 1, 1], [])
    for _ in range(2):
        with pytest.raises(ZnodeError) as refused:
            read.decoded(version.reading)
        assert refused.value.where == paths.broker(5)


def test_a_rewritten_registration_is_noticed_by_a_controller_that_reads_batches() -> None:
    """The session records its watch, and sets it again after each event."""
    layout = generate_layout(brokers_in_racks(4, 0), topics=1, partitions=4, replication_factor=3, seed=1)
    cluster = KafkaCluster.from_layout(layout)
    controller = cluster.controller
    assert controller is not None
    other = next(broker for broker in cluster.live_brokers if broker != controller)
    context = cluster.brokers[controller].controller.context
    for rack in ("one", "two"):
        registration = context.brokers[other].registration._replace(rack=rack)
        data = cluster.brokers[other].version.znodes.encode_broker(registration)
        client = cluster.server.connect(ConnectRequest(0, 0, 40_000, 0, None, False), cluster.now_ms)
        cluster.server.handle(client, 1, SetData(paths.broker(other), data, -1), cluster.now_ms)
        cluster.zookeeper_host.send_output()
        cluster.run_for(1)
        assert context.brokers[other].registration.rack == rack
        cluster.brokers[controller].session.break_connection()
        cluster.run_for(3)
