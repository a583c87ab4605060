"""Znodes decoded to columns equal znodes decoded one by one, and errors are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simzk.errors import ZnodeError
from simzk.kafka.observation import recording
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.kafka.zookeeper_mode.layout_import import read_states, read_topics
from simzk.kafka.zookeeper_mode.schemas import partition_state
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode
from simzk.partitions.arrays import unpack
from simzk.partitions.layouts.layout import LONGEST_LIST
from tests.kafka.recorded_story import LAYOUTS, RELEASES

if TYPE_CHECKING:
    from collections.abc import Sequence

INT32 = st.integers(-(2**31), 2**31 - 1)
IDS = st.lists(st.integers(0, 3) | st.integers(0, 2**31 - 1), max_size=4).map(tuple)
STATES = st.builds(LeaderAndIsr, INT32, INT32, IDS, INT32, st.just(0), st.booleans())
ASSIGNMENTS = st.builds(ReplicaAssignment, IDS, st.just(()) | IDS, st.just(()) | IDS)
TOPICS = st.builds(
    TopicZnode,
    st.dictionaries(st.integers(0, 12) | st.integers(0, 2**31 - 1), ASSIGNMENTS, max_size=4),
    st.sampled_from([None, "AAAAAAAAQACAAAAAAAAAAA"]),
)
TOPIC_CODECS = st.sampled_from([topic_schema.encode_v1, topic_schema.encode_v1_spaced, topic_schema.encode_v2])
TOPIC_TEXTS = st.builds(lambda encode, topic: encode(topic), TOPIC_CODECS | st.just(topic_schema.encode_v3), TOPICS)
STATE_TEXTS = st.builds(
    lambda encode, state: encode(state),
    st.sampled_from([partition_state.encode, partition_state.encode, partition_state.encode_spaced]),
    STATES,
)


def mangled(texts: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Generate texts, some with a piece removed, added or changed."""
    piece = st.sampled_from([b"", b"0", b"-", b",", b'"', b"}", b"]", b" ", b"\n", b"9999999999", b'"isr":[7],'])
    place = st.integers(0, 120)
    return texts | st.builds(lambda text, at, cut, new: text[:at] + new + text[at + cut :], texts, place, place, piece)


def decoded_states(texts: Sequence[bytes | None]) -> tuple[list[tuple[object, ...]], list[str]]:
    """Decode one by one."""
    rows: list[tuple[object, ...]] = []
    wrong = []
    for number, text in enumerate(texts):
        rows.append((-1, 0, ()))
        if text is not None:
            try:
                state = partition_state.decode(str(number), text)
                rows[-1] = (state.leader, state.leader_epoch, state.isr)
            except ZnodeError as error:
                wrong.append(str(error))
    return rows, wrong


def read_as_columns(texts: Sequence[bytes | None]) -> tuple[list[tuple[object, ...]], list[str]]:
    errors: list[ZnodeError] = []
    leader, epoch, isr = read_states([str(number) for number in range(len(texts))], texts, errors)
    return list(zip(leader.tolist(), epoch.tolist(), unpack(isr), strict=True)), [str(error) for error in errors]


@given(st.lists(st.none() | mangled(STATE_TEXTS), max_size=5))
@example([b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":0,"isr":[]}'] * 2)
@example([b'{"controller_epoch":1,"leader":-0,"version":1,"leader_epoch":0,"isr":[]}'])
@example([b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":00,"isr":[1]}'])
@example([b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1,]}'])
@example([b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1]}\n'])
def test_states_as_columns_equal_the_decoded_states(texts: list[bytes | None]) -> None:
    assert read_as_columns(texts) == decoded_states(texts)


def decoded_topics(texts: Sequence[bytes]) -> tuple[list[tuple[object, ...]], list[str]]:
    """Decode one by one."""
    rows: list[tuple[object, ...]] = []
    wrong = []
    for number, text in enumerate(texts):
        try:
            partitions = topic_schema.decode(str(number), text).partitions
            rows += [(number, partition, *partitions[partition]) for partition in sorted(partitions)]
        except ZnodeError as error:
            wrong.append(str(error))
    return rows, wrong


def read_topics_as_columns(texts: Sequence[bytes]) -> tuple[list[tuple[object, ...]], list[str]]:
    errors: list[ZnodeError] = []
    topic, partition, *lists = read_topics([str(number) for number in range(len(texts))], texts, errors)
    rows = zip(topic.tolist(), partition.tolist(), *map(unpack, lists), strict=True)
    return list(rows), list(map(str, errors))


@given(st.lists(mangled(TOPIC_TEXTS), max_size=4))
@example([b'{"version":1,"partitions":{"0":[1],"0":[2]}}'])
@example([b'{"version":1,"partitions":{"0":[1],}}'])
@example([b'{"version":1,"partitions":{"0":[1]"1":[2]}}'])
@example(
    [b'{"version":1,"partitions":{}}', b'{"version":1,"partitions":{"0":[]}}', b'{"partitions":{"1":[5]},"version":3}']
)
@example([b'{"partitions":{"0":[1]},"topic_id":"AAAAAAAAQACAAAAAAAAAAB","version":3}'])
@example([b'{"partitions":{"2":[3,1],"0":[5]},"adding_replicas":{"2":[3],"7":[1]},"removing_replicas":{"0":[5]}}'])
@example([b'{"version":2,"partitions":{},"adding_replicas":{"0":[1]},"removing_replicas":{"0":[1]}}'])
def test_topics_as_columns_equal_the_decoded_topics(texts: list[bytes]) -> None:
    assert read_topics_as_columns(texts) == decoded_topics(texts)


@pytest.mark.parametrize("release", RELEASES)
def test_recorded_znodes_as_columns_equal_the_decoded_ones(release: str) -> None:
    """Compare all topics and states of each release's recorded trees."""
    recorded = recording.load(LAYOUTS / f"kafka-{release}" / "dumps.json")
    texts: dict[str, list[bytes]] = {"topics": [], "state": []}
    for step in recorded.steps:
        for path, znode in recorded.tree(step).items():
            if path.startswith("/brokers/topics/"):
                kind = "topics" if path.count("/") == 3 else path.rpartition("/")[2]
                texts.setdefault(kind, []).append((znode.data or "").encode())
    assert len(texts["state"]) > 50
    assert read_as_columns(texts["state"]) == decoded_states(texts["state"])
    assert read_topics_as_columns(texts["topics"]) == decoded_topics(texts["topics"])


def test_too_long_lists_are_reported() -> None:
    """A single long list would widen all rows."""
    ids = ",".join(map(str, range(LONGEST_LIST + 1)))
    states = [
        partition_state.encode(LeaderAndIsr(1, 0, (1,), 1)),
        f'{{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[{ids}]}}'.encode(),
    ]
    assert read_as_columns(states) == ([(1, 0, (1,)), (1, 0, ())], ["1: a list of 256 brokers; expected at most 255"])
    topics = [f'{{"version":1,"partitions":{{"0":[1],"3":[{ids}]}}}}'.encode()]
    rows, wrong = read_topics_as_columns(topics)
    assert rows == [(0, 0, (1,), (), ()), (0, 3, (), (), ())]
    assert wrong == ["0, partition 3: a list of 256 brokers; expected at most 255"]
