"""Recorded results of real Kafka readers for some thousands of valid and invalid texts (data/readers.json).

Recorded by calling the decoders of each release's own jars (`kafka.zk.*ZNode.decode`; up to 0.10 `ZkUtils`, `Broker`,
`PreferredReplicaLeaderElectionCommand`, `KafkaController.parseControllerId`) with valid texts and with mutations of
them: types swapped, fields removed and doubled, digits of other scripts, numbers too large, other encodings, what
text appended, text cut off. An outcome is the value, or `reads` where only that is compared, or `throws`. Stands
`[release, outcome]` once, it goes for later releases too, up to the next such pair.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ZnodeError
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode.consumer import subscriptions as consumer
from simzk.kafka.zookeeper_mode.schemas import (
    acl,
    admin,
    broker_registration,
    cluster,
    config,
    controller,
    delegation_token,
    feature,
    partition_state,
    topic,
)
from simzk.kafka.zookeeper_mode.schemas.json_text import NoJsonError
from tests.kafka.foreign_znodes import decode_migration

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.zookeeper_mode.schemas.json_text import Reading

    Decoder = Callable[[bytes | None, Reading], object]

THROWS, READS = "throws", "reads"
_DATA = json.loads((Path(__file__).parent / "data" / "readers.json").read_text())
RELEASES: tuple[str, ...] = tuple(_DATA["releases"])
KINDS: tuple[str, ...] = tuple(_DATA["kinds"])


class Case(NamedTuple):
    """Text and the result of a release's reader."""

    text: bytes | None
    outcome: object


def _long(text: str) -> bytes:
    """Return a recorded text; `⟪9×5000⟫` stands for five thousand nines."""
    return re.sub("⟪(.)×(\\d+)⟫", lambda found: found[1] * int(found[2]), text).encode("latin-1")


@cache
def cases(kind: str, release: str) -> tuple[Case, ...]:
    """Return the recorded results of a kind of znode in a release; none if it has no such znode."""
    found = []
    number = RELEASES.index(release)
    for text, *outcomes in _DATA["kinds"][kind]:
        known = [outcome for since, outcome in outcomes if RELEASES.index(since) <= number]
        if known:
            found.append(Case(None if text is None else _long(text), known[-1]))
    return tuple(found)


def _topic(data: bytes | None, reading: Reading) -> object:
    found = topic.decode("/z", data, reading)
    return [found.topic_id, {str(number): [list(ids) for ids in a] for number, a in found.partitions.items()}]


def _state(data: bytes | None, reading: Reading) -> object:
    state = partition_state.decode("/z", data, 0, reading)
    return [state.leader, state.leader_epoch, list(state.isr), state.controller_epoch, state.recovering]


def _reassignment(data: bytes | None, reading: Reading, *, strict: bool) -> object:
    found = admin.decode_reassignment("/z", data, reading, strict=strict)
    return {str(partition): list(ids) for partition, ids in found.items()}


def _producer_ids(data: bytes | None, reading: Reading) -> object:
    block = cluster.decode_producer_ids("/z", data, reading)
    return None if block is None else list(block)


def _reads(decode: Callable[[str, bytes | None, Reading], object]) -> Decoder:
    def read(data: bytes | None, reading: Reading) -> object:
        decode("/z", data, reading)
        return READS

    return read


DECODERS: dict[str, Decoder] = {
    "controller": lambda data, reading: controller.decode("/z", data, reading),
    "controller_epoch": lambda data, _: controller.decode_epoch("/z", data),
    "broker": _reads(broker_registration.decode),
    "topic": _topic,
    "state": _state,
    "config": lambda data, reading: config.decode("/z", data, reading),
    "isr_change": lambda data, reading: sorted({str(p) for p in admin.decode_partitions("/z", data, reading)}),
    "election": lambda data, reading: sorted({str(p) for p in admin.decode_partitions("/z", data, reading)}),
    "log_dir_event": lambda data, reading: broker_registration.decode_log_dir_failure("/z", data, reading),
    "offset": lambda data, _: None if data is None else consumer.decode_offset("/z", data),
    "cluster_id": lambda data, reading: cluster.decode_cluster_id("/z", data, reading),
    "producer_ids": _producer_ids,
    "feature": _reads(feature.decode),
    "migration": _reads(decode_migration),
    "acl": _reads(acl.decode),
    "acl_change": _reads(acl.decode_change),
    "token": _reads(delegation_token.decode),
}
NOTHING: dict[str, object] = {
    "controller": None,
    "topic": [None, {}],
    "state": None,
    "isr_change": [],
    "election": [],
    "log_dir_event": None,
    "reassignment": {},
    "acl": READS,
    "token": READS,
}
"""What a release takes for read where it finds no JSON; it throws in kinds that are not named."""


_NEGATIVE, _NULL = re.compile(rb"\[[^{]*-\d"), re.compile(rb":null|\[null|,null")
_NO_BROKERS = re.compile(rb'"replicas":(?!\[[\d,]*\])|"replicas":\[[^]]*\d{10}')


def why_not_compared(kind: str, release: str, text: bytes | None) -> str | None:
    """Return why a text is decoded differently here; None: it is not."""
    old = release.startswith("0.")
    if text is None:
        return "the real one does not hand nothing to this decoder" if kind == "producer_ids" else None
    if text.count(b"[") > 1000:
        return None if kafka_version(release).reading.limits_sizes else "Python goes no deeper"
    if kind in ("topic", "state", "reassignment") and (_NEGATIVE.search(text) or b'"-1":' in text):
        return "a negative number of a broker or partition is refused at once"
    if old and _NULL.search(text):
        return "Scala unboxes null as 0"
    if kind == "reassignment" and (b'"topic":null' in text or text.count(b"topic") == 0 or b"1e2" in text):
        return "a topic without a name is an empty one, and a number keeps no exponent"
    if kind == "reassignment" and (_NO_BROKERS.search(text) or text.count(b"{") > text.count(b"replicas") + 1):
        return "the real one does not look into the list of brokers, and throws later"
    if kind == "broker" and old and b"listener_security_protocol_map" in text:
        return "of a field that a release does not know the kind is looked at here"
    if kind == "producer_ids" and release.startswith("3.") and b"2147483648" in text:
        return "a block of more than 2^31 ids"
    return None


def read_by(kind: str, release: str, data: bytes | None) -> object:
    """Decode a text as a release does."""
    version = kafka_version(release)
    try:
        if kind == "reassignment":
            return _reassignment(data, version.reading, strict=version.controller.rejects_unknown_fields)
        return DECODERS[kind](data, version.reading)
    except NoJsonError:
        if kind == "election" and version.controller.fails_on_invalid_json:
            return THROWS
        return NOTHING.get(kind, THROWS)
    except ZnodeError:
        return THROWS
