"""Exchanges of real brokers with producers and consumers, 0.8.2 to 3.9, and the same requests to simulated brokers.

`data/records.jsonl.gz` has the exchanges of the steps about records in their order, one a line, with every field.
Records are hexadecimal. It is made by

    python -m tests.kafka.client_requests.recorded_records FOLDER

from a folder that has one folder of recordings per release. Ids of topics are replaced by `@` and the topic's name.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.kafka.log.record_batches import NEWEST, RecordDataError, decode_entry, entry_header, entry_size
from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from tests.kafka.client_requests.recorded import RELEASES, masked
from tests.kafka.protocol.plain import from_plain, to_plain
from tests.kafka.recorded_lines import read_lines, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.kafka.client_requests.recorded import Client, Exchange

FILE = Path(__file__).with_name("data") / "records.jsonl.gz"
STEPS = (
    "produce: (?!min.insync.replicas not met|replica moved away).*|fetch: .*|list-offsets: .*"
    "|offset-for-leader-epoch: .*|delete-records: .*|init-producer-id: (none|empty).*|idempotent produce: .*"
    "|describe-producers"
)
"""Steps that are compared."""
WAITING = "fetch: waits for data", "Fetch"
"""A fetch that is answered by the next request has a test of its own."""
APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "OffsetForLeaderEpoch",
    "DeleteRecords",
    "InitProducerId",
    "DescribeProducers",
)
KEPT = ("step", "broker", "api", "version", "request", "response", "closed", "no_answer")
TOPICS: dict[str, tuple[list[list[int]], dict[str, str]]] = {
    "m0": ([[1, 2, 3], [2, 3, 1], [3, 1, 2]], {}),
    "one": ([[1]], {}),
    "small": ([[1, 2]], {"max.message.bytes": "2000"}),
    "strict": ([[2, 3]], {"min.insync.replicas": "2"}),
    "strict3": ([[2, 3]], {"min.insync.replicas": "3"}),
    "compacted": ([[3, 1]], {"cleanup.policy": "compact"}),
}
"""Topics of the recorded clusters: assignment and configuration."""
NONE_OF = {"ProducerId": -1, "SessionId": 0}
"""Fields that are chance, with the number that means none."""
OUTCOMES = ("response", "closed", "no_answer")
UNORDERED = ("PartitionResponses", "ActiveProducers")
BEHIND = ("HighWatermark", "LastStableOffset", "Records")
NO_ID = "A" * 22


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return all exchanges."""
    return tuple(read_lines(FILE))


def of_release(release: str) -> list[Exchange]:
    """Return the exchanges of a release, in order."""
    return [one for one in exchanges() if one["release"] == release]


def chance_masked(value: Any, field: str = "") -> Any:
    """Return a response without ids that are chance, and with whole record batches only.

    What follows the last whole batch is cut by the limits of a request, and padding after a conversion of records.
    Messages that a broker compressed are unpacked: headers of gzip differ between Java's versions.
    """
    if field in NONE_OF:
        return "*" if value > NONE_OF[field] else value
    if field == "Records":
        return None if value is None else _entries(value if isinstance(value, bytes) else bytes.fromhex(value))
    if isinstance(value, dict):
        return {name: chance_masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [chance_masked(item) for item in value]
        return sorted(items, key=str) if field in UNORDERED else items
    return value


def _entries(data: bytes) -> list[str]:
    """Return the whole entries at the beginning of record data as hexadecimal text, compressed messages unpacked."""
    found, at = [], 0
    while at < len(data):
        try:
            entry = data[at : at + entry_size(data, at)]
        except RecordDataError:
            break
        header = entry_header(entry)
        found.append(repr(decode_entry(entry)) if header.codec and header.magic < NEWEST else entry.hex())
        at += len(entry)
    return found


def compared(exchange: Exchange, answer: Exchange) -> Exchange:
    """Return what is compared of the answer to an exchange."""
    outcome: Exchange = {name: answer[name] if name == "response" else True for name in OUTCOMES if name in answer}
    if exchange["api"] == "Fetch" and "response" in outcome:
        outcome["response"] = _without_followers(exchange["broker"], outcome["response"])
    found: Exchange = masked(chance_masked(outcome))
    return found


def _without_followers(broker: int, response: Exchange) -> Exchange:
    """Return the response to a fetch without what a follower knows: how far behind its leader it is, is chance."""
    topics = []
    for topic in response["Responses"]:
        assignment = TOPICS.get(topic.get("Topic") or topic["TopicId"][1:], ([], {}))[0]
        leaders = dict(enumerate(replicas[0] for replicas in assignment))
        partitions = [
            one
            if leaders.get(one["PartitionIndex"], broker) == broker or one["ErrorCode"]
            else one | dict.fromkeys(BEHIND)
            for one in topic["Partitions"]
        ]
        topics.append(topic | {"Partitions": partitions})
    return response | {"Responses": topics}


class Replay:
    """Recorded requests to one simulated cluster, in order.

    Args:
        connect: returns a new client of a broker.
        topic_id: returns the id of a topic.
    """

    def __init__(self, connect: Callable[[int], Client], topic_id: Callable[[str], str]) -> None:
        self._connect = connect
        self._topic_id = topic_id
        self._sessions: dict[int, int] = {}

    def play(self, exchange: Exchange) -> Exchange:
        """Send a request; return what became of it, with the ids of topics as recorded."""
        version = exchange["version"]
        body = from_plain(message_class(exchange["api"] + "Request"), self._request(exchange["request"]))
        client = self._connect(exchange["broker"])
        frame = encode_request(body, version, correlation_id=7, client_id="wire-story")
        answer = client.exchange(frame, 3.0)
        client.connection.hang_up()
        if answer is None:
            return {"closed": True} if client.closed else {"no_answer": 1}
        _, answered, response = decode_response(message_class(exchange["api"] + "Response"), version, answer)
        plain = to_plain(response, answered)
        recorded = exchange.get("response") or {}
        if recorded.get("SessionId") and plain.get("SessionId"):
            self._sessions[recorded["SessionId"]] = plain["SessionId"]
        return {"response": replaced(plain, {self._topic_id(name): f"@{name}" for name in TOPICS} | {NO_ID: NO_ID})}

    def _request(self, recorded: Any) -> Any:
        request = replaced(recorded, {f"@{name}": self._topic_id(name) for name in TOPICS})
        request["SessionId"] = self._sessions.get(request.get("SessionId", 0), request.get("SessionId", 0))
        return _with_bytes(request)


def _with_bytes(value: Any, field: str = "") -> Any:
    if field == "Records":
        return None if value is None else bytes.fromhex(value)
    if isinstance(value, dict):
        return {name: _with_bytes(item, name) for name, item in value.items()}
    return [_with_bytes(item) for item in value] if isinstance(value, list) else value


def replaced(value: Any, names: Mapping[str, str], field: str = "") -> Any:
    """Return a message with other ids of topics."""
    if field == "TopicId":
        return names.get(value, value)
    if isinstance(value, dict):
        return {name: replaced(item, names, name) for name, item in value.items()}
    return [replaced(item, names) for item in value] if isinstance(value, list) else value


# -- selection


def _lines(folder: Path) -> Iterator[Exchange]:
    for file in sorted(folder.glob("story.jsonl*")):
        yield from read_lines(file)


def shortened(value: Any) -> Any:
    """Return a message with records as hexadecimal text."""
    if isinstance(value, dict) and "hex" in value:
        return value["hex"]
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    return [shortened(item) for item in value] if isinstance(value, list) else value


def select(folder: Path) -> list[Exchange]:
    """Return the exchanges of the compared steps from a folder of recordings."""
    found = []
    for release in RELEASES:
        names: dict[str, str] = {}
        for line in _lines(folder / release):
            for topic in (line.get("response") or {}).get("Topics") or ():
                if line.get("api") == "Metadata" and topic.get("Name") in TOPICS and "TopicId" in topic:
                    names.setdefault(topic["TopicId"], topic["Name"])
            if (line["step"], line.get("api")) == WAITING:
                continue
            if line.get("api") in APIS and re.fullmatch(STEPS, line["step"]):
                kept = shortened({name: line[name] for name in KEPT if name in line})
                named = replaced(kept, {topic: f"@{name}" for topic, name in names.items()})
                found.append({"release": release, **named})
    return found


if __name__ == "__main__":
    write_lines(FILE, select(Path(sys.argv[1])))
