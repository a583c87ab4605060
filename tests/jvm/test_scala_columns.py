"""The orders over columns are those of the plain functions, which were proved on real Scala libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.jvm.hash_codes import product_hash, string_hash
from simzk.jvm.scala_collections import SMALL, hash_order, immutable_order, mutable_order
from simzk.jvm.scala_columns import FEW, lists_in_hash_order, map_order, product_hashes, set_order, string_hashes
from simzk.kafka.topic_partition import partition_hashes, replica_hashes, topic_partition_hash
from simzk.partitions.arrays import pack, unpack
from simzk.partitions.transitions import in_set_order

if TYPE_CHECKING:
    from simzk.jvm.scala_collections import Scala

pytestmark = pytest.mark.slow

INT32 = st.integers(-(2**31), 2**31 - 1)
# Few bits make keys that share groups, and equal hashes.
HASHES = st.one_of(
    st.lists(INT32, max_size=3 * FEW),
    st.lists(st.integers(0, 200), min_size=FEW, max_size=4 * FEW),
    st.builds(
        lambda topics, partitions: [topic_partition_hash(f"topic-{t}", p) for t in range(topics) for p in partitions],
        st.integers(1, 30),
        st.lists(st.integers(0, 60), max_size=12, unique=True),
    ),
)
SCALA = st.sampled_from(["2.10", "2.11", "2.12", "2.13"])


@given(HASHES, SCALA, st.booleans())
def test_places_in_a_set(hashes: list[int], scala: Scala, hashed: bool) -> None:
    found = set_order(np.array(hashes, dtype=np.int32), scala, hashed=hashed).tolist()
    if len(hashes) <= SMALL and not hashed:
        assert found == list(range(len(hashes)))
    else:
        assert found == hash_order(range(len(hashes)), scala, hashes.__getitem__)


@given(HASHES, SCALA)
def test_places_in_a_map(hashes: list[int], scala: Scala) -> None:
    found = map_order(np.array(hashes, dtype=np.int32), scala).tolist()
    assert found == mutable_order(range(len(hashes)), scala, hashes.__getitem__)


@pytest.mark.parametrize("class_name", ["", "PartitionAndReplica"])
@given(keys=st.lists(st.tuples(st.text(max_size=9), st.integers(0, 2**31 - 1), st.integers(0, 9999)), min_size=1))
def test_hashes_of_keys(class_name: str, keys: list[tuple[str, int, int]]) -> None:
    topic = np.array([string_hash(name) for name, _, _ in keys], dtype=np.int32)
    partition = np.array([number for _, number, _ in keys], dtype=np.int32)
    broker = np.array([replica for _, _, replica in keys], dtype=np.int32)
    partitions = partition_hashes(topic, partition)
    assert partitions.tolist() == [topic_partition_hash(name, number) for name, number, _ in keys]
    classes = partition_hashes(topic, partition, case_classes=True)
    assert classes.tolist() == [product_hash(string_hash(name), number) for name, number, _ in keys]
    expected = [
        product_hash(topic_partition_hash(name, number), replica, class_name=class_name)
        for name, number, replica in keys
    ]
    assert product_hashes(partitions, broker, class_name=class_name).tolist() == expected
    assert replica_hashes(partitions, broker, "2.13" if class_name else "2.12").tolist() == expected


ID_LISTS = st.lists(
    st.lists(st.one_of(st.integers(0, 2**20 - 1), st.integers(0, 12)), max_size=9, unique=True), min_size=1, max_size=30
)


@given(ID_LISTS, SCALA)
def test_many_lists_of_brokers_in_the_order_of_sets(lists: list[list[int]], scala: Scala) -> None:
    assert unpack(lists_in_hash_order(pack(lists), scala)) == [tuple(hash_order(ids, scala)) for ids in lists]
    assert unpack(in_set_order(pack(lists), scala)) == [tuple(immutable_order(ids, scala)) for ids in lists]


@given(st.lists(st.text(st.characters(), max_size=9), max_size=9))
def test_hashes_of_many_texts_are_those_of_each(texts: list[str]) -> None:
    texts = [text for text in texts if not any("\ud800" <= unit <= "\udfff" for unit in text)]
    assert string_hashes(texts).tolist() == [string_hash(text) for text in texts]
