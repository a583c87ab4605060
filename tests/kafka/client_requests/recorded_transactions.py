"""Exchanges of transactional producers with real brokers, 0.11 to 3.9, and the same requests to simulated ones.

`data/transactions.jsonl.gz` has the exchanges, one a line: release, when it was sent (in s), step, broker, API,
version, request and response with every field. It is made by

    python -m tests.kafka.client_requests.recorded_transactions FOLDER

from a folder that has one folder of recordings per release. Chance is masked in both: addresses, times, and producer
ids, also those in record batches. Orders of collections that Kafka keeps in hash maps are not compared. Records are
hexadecimal, and the id of a topic is replaced by `@` and its name.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crc32c import crc32c

from simzk.kafka.coordinator.coordinator_log import partition_of
from simzk.kafka.log.record_batches import decode_entry, entry_header, split_entries
from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from tests.kafka.client_requests.memory_client import ANSWER_S
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.client_requests.recorded_records import replaced, shortened
from tests.kafka.protocol.plain import from_plain, to_plain
from tests.kafka.recorded_lines import read_lines, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    import simzk
    from tests.kafka.client_requests.memory_client import Client, Clock

FILE = Path(__file__).with_name("data") / "transactions.jsonl.gz"
STEPS = (
    "find-coordinator: first transaction|transaction, version .*|transactions: .*|init-producer-id: (timeout|with).*"
    "|add-partitions-to-txn: .*|list-transactions: .*|write-txn-markers: .*"
)
"""Steps that are compared; of the first FindCoordinator, which creates the topic, only the answer with a broker."""
APIS = (
    "FindCoordinator",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "DescribeTransactions",
    "ListTransactions",
)
"""APIs of the coordinator of transactions."""
DATA_APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "DescribeProducers",
    "TxnOffsetCommit",
    "OffsetFetch",
    "WriteTxnMarkers",
)
"""APIs of leaders of partitions and coordinators of groups."""
KEPT = ("t", "step", "broker", "api", "version", "request", "response")
MASKED = ("Host", "Port", "ThrottleTimeMs", "TransactionStartTimeMs")
UNORDERED = ("Topics", "Partitions", "TransactionStates", "ResultsByTopicV3AndBelow", "ActiveProducers")
TOPIC, RECORDS_BEFORE = "m0", 3
"""The topic of the transactions, and how many records its partitions had."""
RECORDED_MS = 1_600_000_000_000
"""Time of all recorded records; that of a marker is the present time."""
_PRODUCER_ID, _CHECKSUM = struct.Struct(">q"), struct.Struct(">I")
_PRODUCER_ID_AT, _CHECKSUM_AT, _CHECKED_FROM = 43, 17, 21
TRANSACTION_RELEASES = tuple(release for release in RELEASES if release not in ("0.8.2.2", "0.9.0.1", "0.10.2.2"))
CONCURRENT, UNAVAILABLE = 51, 15
SHORTEST_PAUSE_S = 0.1
"""Shorter ones are no pauses, but the time that real brokers took to answer."""
STEP_US = 10_000

Exchange = dict[str, Any]


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return all exchanges."""
    return tuple(read_lines(FILE))


def of_release(release: str, apis: tuple[str, ...] = APIS) -> list[Exchange]:
    """Return the exchanges of a release with some APIs, in the order in which they were sent."""
    return [one for one in exchanges() if one["release"] == release and one["api"] in apis]


def leaders_of(compared: list[Exchange], kind: int, partitions: int) -> dict[int, int]:
    """Return the leader of each partition of an internal topic, as FindCoordinator showed them.

    Of a partition that nobody asked for, it is a broker that leads no other one.

    Args:
        compared: the exchanges.
        kind: 0 for groups, 1 for transactions.
        partitions: how many the topic has.
    """
    found: dict[int, int] = {}
    for one in compared:
        if one["api"] == "FindCoordinator" and one["request"]["KeyType"] == kind:
            keys = one["request"].get("CoordinatorKeys", [one["request"].get("Key")])
            answers = one["response"].get("Coordinators", [one["response"]])
            for key, answer in zip(keys, answers, strict=True):
                found[partition_of(key, partitions)] = answer["NodeId"]
    left = [broker for broker in (1, 2, 3) if broker not in found.values()]
    return {number: found[number] if number in found else left.pop() for number in range(partitions)}


class Replay:
    """Sends recorded requests to simulated brokers.

    Args:
        cluster: the cluster; its coordinators and the id of the topic are looked at.
        connect: returns a new client of a broker.
        clock: the time of the cluster.
    """

    def __init__(self, cluster: simzk.KafkaCluster, connect: Callable[[int], Client], clock: Clock) -> None:
        self._cluster = cluster
        self._connect = connect
        self._clock = clock
        self._simulated: dict[int, int] = {}
        self._recorded: dict[int, int] = {}
        self._sent_s: float | None = None
        self._is_ending = False

    def play(self, compared: list[Exchange]) -> list[str]:
        """Send the requests with at least the recorded pauses; return the exchanges that differ."""
        return [text for exchange in compared for text in self._differences(exchange, self._answer(exchange))]

    def _answer(self, exchange: Exchange) -> Any:
        self._wait_for_turn(exchange)
        topic_id = self._cluster.brokers[1].metadata.topic_ids.get(TOPIC, "")
        request = replaced(_numbers(exchange["request"], self._simulated), {f"@{TOPIC}": topic_id})
        kind = message_class(exchange["api"] + "Request")
        client = self._connect(exchange["broker"])
        client.connection.receive(
            encode_request(from_plain(kind, request), exchange["version"], correlation_id=7, client_id="wire-story")
        )
        frame = client.wait(ANSWER_S)
        client.connection.hang_up()
        assert frame is not None, f"no answer to {exchange}"
        _, answered, response = decode_response(message_class(exchange["api"] + "Response"), exchange["version"], frame)
        return replaced(to_plain(response, answered), {topic_id: f"@{TOPIC}"})

    def _wait_for_turn(self, exchange: Exchange) -> None:
        """Wait as long as the recorded client, and until a transaction is complete if the recorded one was.

        How long the real one took is chance: the followers' long polls end at any time within 200 ms.
        """
        now_us, sent_s = self._clock.now_us, exchange["t"]
        pause_s = 0.0 if self._sent_s is None else sent_s - self._sent_s
        if pause_s < SHORTEST_PAUSE_S:
            pause_s = 0.0
        self._sent_s = sent_s
        self._clock.run_until(now_us + round(pause_s * 1_000_000))
        if exchange["api"] in ("InitProducerId", "ListTransactions", "EndTxn"):
            error = exchange["response"]["ErrorCode"]
            if self._is_ending and error != CONCURRENT:
                self._is_ending = False
                while self._has_pending():
                    self._clock.run_until(self._clock.now_us + STEP_US)
            elif exchange["api"] == "EndTxn" and error == 0:
                self._is_ending = True

    def _has_pending(self) -> bool:
        """Return whether a transaction is not complete, or another transition is not stored yet."""
        coordinators = [broker.transactions for broker in self._cluster.brokers.values()]
        return any(coordinator.has_pending for coordinator in coordinators)

    def _differences(self, exchange: Exchange, got: Any) -> list[str]:
        wanted = exchange["response"]
        if exchange["api"] == "InitProducerId" and min(wanted["ProducerId"], got["ProducerId"]) >= 0:
            self._simulated.setdefault(wanted["ProducerId"], got["ProducerId"])
            self._recorded.setdefault(got["ProducerId"], wanted["ProducerId"])
        wanted, got = masked(_numbers(wanted, {})), masked(_numbers(got, self._recorded))
        if wanted == got:
            return []
        asked = f"{exchange['step']} | {exchange['api']} v{exchange['version']} {json.dumps(exchange['request'])}"
        return [f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}"]


def _numbers(value: Any, known: dict[int, int], field: str = "") -> Any:
    """Return a message with other producer ids, and its records as bytes."""
    if field in ("ProducerId", "V3AndBelowProducerId"):
        return known.get(value, value)
    if field == "Records" and value is not None:
        return _renumbered(bytes.fromhex(value) if isinstance(value, str) else bytes(value), known)
    if isinstance(value, dict):
        return {name: _numbers(item, known, name) for name, item in value.items()}
    return [_numbers(item, known) for item in value] if isinstance(value, list) else value


def _renumbered(data: bytes, known: dict[int, int]) -> bytes:
    """Return record batches with other producer ids, and new checksums."""
    found = []
    for entry in split_entries(data):
        changed = bytearray(entry)
        (producer_id,) = _PRODUCER_ID.unpack_from(changed, _PRODUCER_ID_AT)
        _PRODUCER_ID.pack_into(changed, _PRODUCER_ID_AT, known.get(producer_id, producer_id))
        _CHECKSUM.pack_into(changed, _CHECKSUM_AT, crc32c(bytes(changed[_CHECKED_FROM:])))
        found.append(bytes(changed))
    return b"".join(found)


def _described(data: bytes) -> list[Any]:
    """Return record batches as text; of markers without their time."""
    found: list[Any] = []
    for entry in split_entries(data):
        header = entry_header(entry)
        if not header.is_control:
            found.append(entry.hex())
            continue
        (marker,) = decode_entry(entry)
        identity = header.producer_id, header.producer_epoch, header.base_sequence, header.attributes
        found.append([header.base_offset, header.leader_epoch, *identity, repr(marker.key), repr(marker.value)])
    return found


def masked(value: Any, field: str = "") -> Any:
    """Return a response without chance and without the order of collections that are unordered in Kafka."""
    if field in MASKED or (field == "LastTimestamp" and value != RECORDED_MS):
        return "*"
    if field == "Records" and value is not None:
        return _described(value)
    if isinstance(value, dict):
        return {name: masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [masked(item) for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if field in UNORDERED else items
    return value


def select(folder: Path) -> list[Exchange]:
    """Return the exchanges of the compared steps from a folder of recordings."""
    found = []
    for release in TRANSACTION_RELEASES:
        (file,) = (folder / release).glob("story.jsonl*")
        ids: dict[str, str] = {}
        for line in read_lines(file):
            response = line.get("response") or {}
            if line.get("api") == "Metadata":
                named = (one for one in response["Topics"] if one["Name"] == TOPIC and "TopicId" in one)
                ids |= {one["TopicId"]: f"@{TOPIC}" for one in named}
            is_chosen = line.get("api") in (*APIS, *DATA_APIS) and re.fullmatch(STEPS, line["step"])
            if is_chosen and f'"ErrorCode": {UNAVAILABLE},' not in json.dumps(response):
                kept = {name: shortened(line[name]) for name in KEPT}
                found.append({"release": release, **replaced(kept, ids)})
    return found


if __name__ == "__main__":
    write_lines(FILE, select(Path(sys.argv[1])))
