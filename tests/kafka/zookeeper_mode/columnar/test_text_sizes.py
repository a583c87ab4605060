"""Sizes of encoded topics and states, computed from columns, equal those of the codecs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.kafka.zookeeper_mode.columnar import load_layout
from simzk.kafka.zookeeper_mode.columnar import znode_form as text_sizes
from simzk.kafka.zookeeper_mode.columnar.partition_columns import STATE_CODECS
from simzk.kafka.zookeeper_mode.columnar.topic_columns import TOPIC_CODECS
from simzk.kafka.zookeeper_mode.columnar.znode_form import characters, state_bytes, topic_bytes
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.arrays import NONE, pack
from simzk.partitions.states import states_of
from simzk.zookeeper.server import Server
from tests.partitions.layout_strategies import clusters, layout_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.layouts import Layout

pytestmark = pytest.mark.slow

INT32 = st.integers(-(2**31), 2**31 - 1)
BROKERS = st.lists(st.integers(0, 2**31 - 1) | st.sampled_from([0, 9, 10, 99, 100]), max_size=3, unique=True)
STATES = st.builds(
    LeaderAndIsr,
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    BROKERS.map(tuple),
    INT32,
    st.just(0),
    st.booleans(),
)


@given(numbers=st.lists(INT32))
def test_numbers_are_as_long_as_python_writes_them(numbers: list[int]) -> None:
    assert characters(np.array(numbers, dtype=np.int32)) == len("".join(map(str, numbers)))


@pytest.mark.parametrize("encode", STATE_CODECS)
@given(states=st.lists(STATES, max_size=6))
def test_states(encode: Callable[[LeaderAndIsr], bytes], states: list[LeaderAndIsr]) -> None:
    assert state_bytes(encode, states_of(states, 3)) == sum(len(encode(state)) for state in states)


@st.composite
def topics(draw: st.DrawFn) -> TopicZnode:
    partitions = {}
    for number in draw(st.lists(st.integers(0, 200) | st.integers(0, 2**31 - 1), min_size=1, max_size=12, unique=True)):
        replicas = draw(BROKERS.filter(bool))
        moved = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        adding, removing = replicas[: moved[0]], replicas[len(replicas) - moved[1] :]
        partitions[number] = ReplicaAssignment(tuple(replicas), tuple(adding), tuple(removing))
    return TopicZnode(partitions, draw(st.none() | st.text("ab_-", min_size=1, max_size=22)))


@pytest.mark.parametrize("encode", TOPIC_CODECS)
@given(several=st.lists(topics(), max_size=3), cut=st.integers(0, 20))
def test_topics(encode: Callable[[TopicZnode], bytes], several: list[TopicZnode], cut: int) -> None:
    if b"adding" not in encode(TopicZnode({0: ReplicaAssignment((1,))})):  # no release that writes so can move one so
        several = [
            topic._replace(partitions={at: ReplicaAssignment(one.replicas) for at, one in topic.partitions.items()})
            for topic in several
        ]
    rows = [(number, one) for topic in several for number, one in topic.partitions.items()]
    parts = [
        (np.array([number for number, _ in part]), pack([one.replicas for _, one in part]))
        for part in (rows[:cut], rows[cut:])
        if part
    ]
    moves = [
        {number: brokers for number, one in topic.partitions.items() if (brokers := getattr(one, kind))}
        for topic in several
        for kind in ("adding", "removing")
    ]
    ids = np.array([len(topic.topic_id or "") for topic in several], dtype=np.int64)
    expected = sum(len(encode(topic)) for topic in several)
    assert topic_bytes(encode, ids, parts, filter(None, moves)) == expected


@given(
    layout=clusters().map(layout_of),
    version=st.sampled_from(["0.8.2", "2.3", "2.4", "2.7", "3.9"]),
    chunk=st.sampled_from([3, 1 << 16]),
)
def test_the_znodes_of_a_layout(layout: Layout, version: str, chunk: int) -> None:
    server = Server()
    columns = load_layout(server, layout, kafka_version(version), now_ms=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_sizes, "_CHUNK", chunk)
        size = columns.data_size()
    held = {path: node for path, node in server.tree.walk() if columns.holds(path)}
    assert len(held) == len(columns)
    assert size == sum(len(path) + len(node.data or b"") for path, node in held.items())


def test_a_list_that_is_not_there_takes_nothing() -> None:
    assert characters(np.full(3, NONE)) == len("-1-1-1")
    assert state_bytes(STATE_CODECS[0], states_of([], 1)) == 0
