"""Kafka's messages encoded and decoded by simzk, kio and kafka-python; Metadata of large clusters from columns.

    python -m benchmarks.kafka_messages [--json OUT] [--rounds N]

All codecs get the same messages in one run, turn by turn: each decodes bytes to objects and encodes the objects that it
decoded to the same bytes. kio's decoder is native code. Metadata of 1,000 and of 1,000,000 partitions with three
replicas is encoded from columns, also with 1 % of the partitions under-replicated, which takes a mask. Its limit is
the time in which the result's bytes are copied. All times are processor times.
"""

from __future__ import annotations

import argparse
import importlib
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from kio.index import load_payload_module
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from benchmarks.figures import Figure, Limit, medians, write_figures
from simzk.kafka.protocol.codec import decode, encode
from simzk.kafka.protocol.columns import encode_rows
from simzk.kafka.protocol.messages import FetchResponse, HeartbeatRequest, MetadataResponse, ProduceRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.kafka.protocol.columns import Column
    from simzk.kafka.protocol.structs import Message

Broker = MetadataResponse.MetadataResponseBroker
Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition

SMALL, LARGE, TOPICS = 1_000, 1_000_000, 10
SMALL_MS_AT_MOST, LARGE_MS_AT_MOST = 0.1, 500
METADATA_VERSION = 9
REPEATS = 200
"""Encodings of the small cluster per round: one is too short for the clock of processor time."""


class Case(NamedTuple):
    """One message, its module in kafka-python, and how often it is encoded or decoded per round."""

    name: str
    message: Message
    version: int
    module: str
    repeats: int


def metadata(partitions: int) -> MetadataResponse:
    """Return Metadata of a healthy cluster, as objects."""
    replicas = [[row % 7, row % 7 + 1, row % 7 + 2] for row in range(partitions)]
    rows = [
        Partition(partition_index=row, leader_id=ids[0], leader_epoch=1, replica_nodes=ids, isr_nodes=ids)
        for row, ids in enumerate(replicas)
    ]
    size = partitions // TOPICS
    topics = [Topic(name=f"topic-{at}", partitions=rows[at * size : (at + 1) * size]) for at in range(TOPICS)]
    return MetadataResponse(brokers=brokers(), cluster_id="c", controller_id=1, topics=topics)


def brokers() -> list[Broker]:
    """Return the brokers of a small cluster."""
    return [Broker(node_id=at, host=f"broker-{at}.example.org", port=9092, rack="a") for at in range(9)]


def cases() -> list[Case]:
    """Return the messages: a large one, the two that carry records, and the smallest one."""
    data = [FetchResponse.PartitionData(partition_index=at, high_watermark=9, records=bytes(1000)) for at in range(100)]
    produced = [ProduceRequest.PartitionProduceData(index=at, records=bytes(1000)) for at in range(10)]
    fetch = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=data)])
    produce = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[
        ProduceRequest.TopicProduceData(name="t", partition_data=produced)
    ])  # fmt: skip
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m" * 40)
    return [
        Case("Metadata of 1,000 partitions", metadata(SMALL), METADATA_VERSION, "metadata", 20),
        Case("Fetch response of 100 partitions", fetch, 12, "consumer", 100),
        Case("Produce request of 10 partitions", produce, 9, "producer", 1_000),
        Case("Heartbeat request", heartbeat, 4, "consumer", 5_000),
    ]


def kafka_python_class(case: Case) -> Any:
    """Return kafka-python's class of a message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
        return getattr(importlib.import_module(f"kafka.protocol.{case.module}"), case.message.MESSAGE.name)


def repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    """Return a function that makes a call several times and drops each result."""

    def run() -> None:
        for _ in range(times):
            call()

    return run


def arms_of(case: Case) -> dict[str, Callable[[], object]]:
    """Return what each codec does with the message, after a check that all write the same bytes."""
    ours, version, schema = type(case.message), case.version, case.message.MESSAGE
    data = encode(case.message, version)
    module = load_payload_module(schema.api_key, version, EntityType[schema.kind])  # type: ignore[arg-type]
    kind = getattr(module, schema.name)
    read, write = entity_reader(kind), entity_writer(kind)
    theirs = kafka_python_class(case)
    kio_message, python_message = read(data, 0)[0], theirs.decode(data, version=version)
    python_message._header = None

    def write_kio() -> bytes:
        out = io.BytesIO()
        write(out, kio_message)
        return out.getvalue()

    calls: dict[str, Callable[[], object]] = {
        "simzk encodes": lambda: encode(case.message, version),
        "kio encodes": write_kio,
        "kafka-python encodes": lambda: python_message.encode(version=version),
        "simzk decodes": lambda: decode(ours, version, data),
        "kio decodes": lambda: read(data, 0),
        "kafka-python decodes": lambda: theirs.decode(data, version=version),
    }
    assert all(bytes(call()) == data for name, call in calls.items() if name.endswith("encodes"))  # type: ignore[call-overload]

    return {name: repeated(call, case.repeats) for name, call in calls.items()}


def columns(partitions: int, under_replicated: float) -> dict[str, Column]:
    """Return the columns of a cluster of 300 brokers."""
    rng = np.random.default_rng(1)
    replicas = rng.integers(0, 300, (3, partitions), dtype=np.int32).T
    isr = replicas.copy(order="F")
    isr[rng.random(partitions) < under_replicated, 2] = -1
    return {
        "error_code": np.zeros(partitions, np.int16),
        "partition_index": np.arange(partitions, dtype=np.int32),
        "leader_id": replicas[:, 0].copy(),
        "leader_epoch": np.zeros(partitions, np.int32),
        "replica_nodes": replicas,
        "isr_nodes": isr,
    }


def encode_columns(
    table: dict[str, Column], topics: int, others: Sequence[MetadataResponse.MetadataResponseBroker]
) -> bytes:
    """Return Metadata of a cluster in columns."""
    rows = encode_rows(Partition, METADATA_VERSION, table)
    size = len(rows) // topics
    listed = [Topic(name=f"topic-{at}", partitions=rows[at * size : (at + 1) * size]) for at in range(topics)]
    return encode(MetadataResponse(brokers=others, topics=listed), METADATA_VERSION)


def column_arms(table: dict[str, Column], topics: int, repeats: int) -> tuple[int, dict[str, Callable[[], object]]]:
    """Return the size of the result, and the encoding beside the copying of its bytes."""
    others = brokers()
    data = bytearray(encode_columns(table, topics, others))
    return len(data), {
        "encode": repeated(lambda: encode_columns(table, topics, others), repeats),
        "copy": repeated(lambda: bytes(data), repeats),
    }


def column_figures(rounds: int) -> tuple[list[Figure], dict[str, object]]:
    """Measure Metadata from columns."""
    figures, times = list[Figure](), dict[str, object]()
    small, large = (SMALL, TOPICS, REPEATS, SMALL_MS_AT_MOST), (LARGE, LARGE // 1000, 1, LARGE_MS_AT_MOST)
    for size, topics, repeats, most in (small, large):
        for state, share in (("healthy", 0.0), ("1 % under-replicated", 0.01)):
            name = f"Metadata from columns, {size:,} partitions, {state}"
            copied, arms = column_arms(columns(size, share), topics, repeats)
            times[name] = measured = medians(arms, rounds)
            took, copy = (round(measured[arm]["cpu_ms"] / repeats, 4) for arm in ("encode", "copy"))
            limit, demanded = Limit(copy, f"{copied:,} bytes copied"), most if share == 0 or size == LARGE else None
            figures.append(Figure(name, took, "ms", at_most=demanded, limit=limit))
    return figures, times


def main() -> None:
    """Measure all and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    parser.add_argument("--rounds", type=int, default=7, help="Rounds that count [default: 7].")
    options = parser.parse_args()
    figures, details = list[Figure](), dict[str, object]()
    for case in cases():
        measured = medians(arms_of(case), options.rounds)
        details[case.name] = measured
        for verb in ("encodes", "decodes"):
            ours, *peers = (measured[f"{codec} {verb}"]["cpu_ms"] for codec in ("simzk", "kio", "kafka-python"))
            figures.append(Figure(f"{case.name}, simzk {verb}", round(ours / case.repeats * 1e3, 2), "us"))
            for codec, theirs in zip(("kio", "kafka-python"), peers, strict=True):
                figures.append(Figure(f"    {codec} {verb}", round(theirs / ours, 2), "times simzk's time"))
    more, details["columns"] = column_figures(options.rounds)
    write_figures("kafka_messages", figures + more, details, options.json)


if __name__ == "__main__":
    main()
