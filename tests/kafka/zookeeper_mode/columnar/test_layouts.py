"""A layout that is loaded at once gives the same tree as one request per znode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.columnar import load_layout
from simzk.kafka.zookeeper_mode.columnar.layouts import CONTROLLER_EPOCH
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.partitions.arrays import NONE, unpack
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from tests.partitions.layout_strategies import clusters, layout_of

if TYPE_CHECKING:
    from simzk.partitions.layouts import Layout

NOW_MS = 1_735_689_600_000


def by_requests(layout: Layout, loaded: Server, version: str) -> Server:
    """Return a server with the same znodes, created by requests; only the data of topics is copied."""
    server = Server(now_ms=NOW_MS)
    client = server.connect(req.ConnectRequest(0, 0, 40_000, 0, None, False), NOW_MS)

    def ask(request: req.Request) -> None:
        server.handle(client, 1, request, NOW_MS)
        ((_, messages),) = server.take_output()
        assert messages[-1].error == 0, (request, messages)  # type: ignore[union-attr]

    def create(path: str, data: bytes | None) -> None:
        ask(req.Create(path, data, OPEN_ACL, 0))

    server.zxid -= 1  # the session of this client is not part of the tree
    for path in ("/brokers", paths.BROKER_IDS, paths.TOPICS):
        create(path, None)
    encode = kafka_version(version).znodes.encode_state
    order = np.lexsort((layout.partition, layout.topic)).tolist()
    for number, name in enumerate(layout.topics):
        node = loaded.tree.get(paths.topic(name))
        assert node is not None
        create(paths.topic(name), node.data)
        create(paths.partitions(name), None)
        started = [row for row in order if layout.topic[row] == number and layout.isr[row, 0] != NONE]
        places = {row: TopicPartition(name, int(layout.partition[row])) for row in started}
        for row in started:
            create(paths.partition(places[row]), None)
        for row in started:
            create(paths.state(places[row]), encode(state_of(layout, row)))
    for row in range(len(layout)):
        place = TopicPartition(layout.topics[layout.topic[row]], int(layout.partition[row]))
        if layout.leader_epoch[row] and layout.isr[row, 0] != NONE:
            ask(req.SetData(paths.state(place), encode(state_of(layout, row)), -1))
    return server


def state_of(layout: Layout, row: int) -> LeaderAndIsr:
    isr = tuple(broker for broker in layout.isr[row].tolist() if broker != NONE)
    return LeaderAndIsr(int(layout.leader[row]), int(layout.leader_epoch[row]), isr, CONTROLLER_EPOCH)


VERSIONS = st.one_of(
    st.tuples(clusters(moving=True).map(layout_of), st.sampled_from(["3.9", "2.7", "2.4"])),
    st.tuples(clusters().map(layout_of), st.just("1.1")),
)


@given(VERSIONS)
def test_a_layout_is_loaded_as_if_made_by_requests(drawn: tuple[Layout, str]) -> None:
    layout, version = drawn
    server = Server(now_ms=NOW_MS)
    backing = load_layout(server, layout, kafka_version(version), NOW_MS)
    server.check()
    made = by_requests(layout, server, version)
    assert server.zxid == made.zxid
    for (path, node), (expected_path, expected) in zip(server.tree.walk(), made.tree.walk(), strict=True):
        assert path == expected_path
        ours, theirs = node.stat(), expected.stat()
        if path.endswith("/state"):  # one write stands for all of a state's history
            theirs = theirs._replace(version=int(backing.table.leader_epoch[backing_row(backing, path)]))
        assert (path, node.data, node.acl, ours) == (path, expected.data, expected.acl, theirs)
    started = int((layout.isr[:, 0] != NONE).sum())
    assert len(backing) == 2 * len(layout.topics) + 2 * started, "all of it is in columns"


def backing_row(backing: object, path: str) -> int:
    place = paths.state_partition(path)
    assert place is not None
    row: int = backing.table.row(*place)  # type: ignore[attr-defined]
    return row


@given(layout=clusters(moving=True).map(layout_of), version=st.sampled_from(["3.9", "2.7"]))
def test_the_text_of_a_topic_says_what_the_layout_says(layout: Layout, version: str) -> None:
    server = Server(now_ms=NOW_MS)
    load_layout(server, layout, kafka_version(version), NOW_MS)
    for number, name in enumerate(layout.topics):
        node = server.tree.get(paths.topic(name))
        assert node is not None
        found = topic_schema.decode(paths.topic(name), node.data)
        rows = np.flatnonzero(layout.topic == number)
        columns = layout.replicas[rows], layout.adding[rows], layout.removing[rows]
        reported = zip(layout.partition[rows].tolist(), *map(unpack, columns), strict=True)
        assert found.partitions == {number: ReplicaAssignment(*lists) for number, *lists in reported}
        assert (found.topic_id is None) == (version == "2.7")
