"""Arrays encoded from columns are the bytes of the same structs as objects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.protocol import columns
from simzk.kafka.protocol.codec import decode, encode
from simzk.kafka.protocol.columns import encode_rows
from simzk.kafka.protocol.messages import LeaderAndIsrRequest, MetadataResponse, UpdateMetadataRequest
from simzk.kafka.protocol.structs import ProtocolError
from simzk.partitions.arrays import pack

Partition = MetadataResponse.MetadataResponsePartition
NUMBERS = st.integers(0, 2**31 - 1)
IDS = st.lists(NUMBERS, max_size=4)
ROWS = st.lists(st.tuples(st.integers(-1, 100), NUMBERS, NUMBERS, NUMBERS, IDS, IDS, IDS), max_size=12)


def columns_of(partitions: list[MetadataResponse.MetadataResponsePartition]) -> dict[str, columns.Column]:
    """Return the columns of partitions."""
    numbers = ("error_code", "partition_index", "leader_id", "leader_epoch")
    arrays = ("replica_nodes", "isr_nodes", "offline_replicas")
    return {
        **{name: np.array([getattr(one, name) for one in partitions], np.int32) for name in numbers},
        **{name: pack([getattr(one, name) for one in partitions]) for name in arrays},
    }


def partitions_of(rows: list[tuple[int, int, int, int, list[int], list[int], list[int]]]) -> list[Partition]:
    return [
        Partition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=offline,
        )
        for error, index, leader, epoch, replicas, isr, offline in rows
    ]


@given(ROWS, st.integers(0, 12), st.integers(0, 12), st.integers(1, 5))
def test_metadata_from_columns_is_metadata_from_objects(
    rows: list[tuple[int, int, int, int, list[int], list[int], list[int]]], version: int, cut: int, batch: int
) -> None:
    partitions = partitions_of(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "BATCH", batch)
        encoded = encode_rows(Partition, version, columns_of(partitions))
    assert len(encoded) == len(partitions)
    topics = [
        MetadataResponse.MetadataResponseTopic(name="first", partitions=encoded[:cut]),
        MetadataResponse.MetadataResponseTopic(name="second", partitions=encoded[cut:]),
    ]
    as_objects = [
        MetadataResponse.MetadataResponseTopic(name="first", partitions=partitions[:cut]),
        MetadataResponse.MetadataResponseTopic(name="second", partitions=partitions[cut:]),
    ]
    data = encode(MetadataResponse(topics=topics), version)
    assert data == encode(MetadataResponse(topics=as_objects), version)
    assert decode(MetadataResponse, version, data).topics[0].partitions == list(encoded[:cut])
    if version >= 7:
        assert list(encoded) == partitions


@pytest.mark.parametrize("version", [8, 12])
@pytest.mark.parametrize("others", [[], [126], [127], [3, 126, 127, 200]])
def test_long_arrays_have_lengths_of_two_bytes_in_flexible_versions(version: int, others: list[int]) -> None:
    partitions = partitions_of([(0, 1, 2, 3, list(range(count)), [4], []) for count in (300, *others, 300)])
    encoded = encode_rows(Partition, version, columns_of(partitions))
    topics = [[MetadataResponse.MetadataResponseTopic(partitions=rows)] for rows in (encoded, partitions, encoded[1:])]
    data, expected, rest = (encode(MetadataResponse(topics=topic), version) for topic in topics)
    assert data == expected
    assert decode(MetadataResponse, version, rest).topics[0].partitions == partitions[1:]


def test_a_column_that_is_left_out_has_the_default() -> None:
    rows = encode_rows(Partition, 7, {"partition_index": np.arange(3)})
    assert [row.partition_index for row in rows] == [0, 1, 2]
    assert rows[0] == Partition()


@pytest.mark.parametrize("version", range(8))
def test_the_states_of_control_requests_are_encoded_from_columns(version: int) -> None:
    values: dict[str, int | list[int]] = {
        "controller_epoch": 5,
        "leader": 2,
        "leader_epoch": 7,
        "isr": [1, 2],
        "replicas": [1, 2, 3],
    }
    if version >= 2:
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState
        rows = encode_rows(state, version, _repeated(values))
        topics = [LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name="t", partition_states=rows)]
        objects = [LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name="t", partition_states=[state(**values)] * 3)]  # type: ignore[arg-type]
        assert encode(LeaderAndIsrRequest(topic_states=topics), version) == encode(
            LeaderAndIsrRequest(topic_states=objects), version
        )
    if version >= 5:
        update = UpdateMetadataRequest.UpdateMetadataPartitionState
        found = encode_rows(update, version, _repeated(values))
        assert list(found) == [update(**values)] * 3  # type: ignore[arg-type]


def _repeated(values: dict[str, int | list[int]]) -> dict[str, columns.Column]:
    return {name: np.array([value] * 3, np.int32) for name, value in values.items()}


def test_rows_are_only_encoded_in_their_version() -> None:
    rows = encode_rows(Partition, 7, {"partition_index": np.arange(3)})
    response = MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(partitions=rows)])
    expected = (
        r"MetadataResponse v9, Topics\[0\].Partitions: "
        r"rows are encoded as MetadataResponse.MetadataResponsePartition v7"
    )
    with pytest.raises(ProtocolError, match=expected):
        encode(response, 9)


def test_columns_that_do_not_fit() -> None:
    with pytest.raises(ProtocolError, match=r"MetadataResponsePartition v1, ErrorCode: a value is no int16"):
        encode_rows(Partition, 1, {"error_code": np.array([40_000])})
    with pytest.raises(ProtocolError, match=r"IsrNodes: an array of 16383 items is longer than 16382"):
        encode_rows(Partition, 1, {"isr_nodes": np.zeros((1, 16_383), np.int32)})
    with pytest.raises(ProtocolError, match=r"IsrNodes: the column has 1 dimensions"):
        encode_rows(Partition, 1, {"isr_nodes": np.zeros(1, np.int32)})
    encode_rows(Partition, 1, {"leader_epoch": np.array([3])})  # ignorable
    state = LeaderAndIsrRequest.LeaderAndIsrPartitionState
    with pytest.raises(ProtocolError, match=r"LeaderRecoveryState: the version lacks this field"):
        encode_rows(state, 2, {"leader_recovery_state": np.array([1])})
