"""Exchanges of real brokers with a client, 0.8.2 to 3.9, and the same requests to simulated brokers.

`data/exchanges.jsonl.gz` has the exchanges of some steps, one a line: release, step, broker, API, version, request and
response with every field, or what became of bytes that were no request. It is made by

    python -m tests.kafka.client_requests.recorded FOLDER

from a folder that has one folder of recordings per release. Chance is masked in both: addresses, ids of clusters and
topics. Orders of collections that Kafka keeps in hash maps are not compared.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from tests.kafka.protocol.plain import from_plain, to_plain
from tests.kafka.recorded_lines import read_lines, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable

FILE = Path(__file__).with_name("data") / "exchanges.jsonl.gz"
STEPS = {
    "story": "api-versions.*|garbage|metadata: .*|describe-cluster.*|create-topics: (?!what came of it).*"
    "|create-partitions: (?!under reassignment).*|delete-topics: (?!all that is left|by id|id and name).*"
    r"|elect-leaders \(not needed\): .*|brokers only: .*",
    "reassign": "list-partition-reassignments: (none.*|unknown topic)|alter-partition-reassignments: (cancel nothing"
    "|unknown.*|broker twice|negative broker|empty|not the controller|as it is|nothing)",
    "second": "auto-create: (?!by other requests).*",
}
"""Steps of each recording that are compared."""
KEPT = ("step", "broker", "role", "api", "version", "request", "response", "closed", "no_answer", "raw", "sent_hex")
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.4.1", "2.8.2", "3.4.1", "3.9.1")
TOPICS = {
    "m0": [[1, 2, 3], [2, 3, 1], [3, 1, 2]],
    "one": [[1]],
    "small": [[1, 2]],
    "strict": [[2, 3]],
    "strict3": [[2, 3]],
    "compacted": [[3, 1]],
}
"""Topics of the recorded clusters, by assignment; `one` is the only one that requests name by its id."""
NO_ID, UNKNOWN_ID = "A" * 22, "A" * 20 + "ZA"
MASKED = ("ClusterId", "Host", "Port", "ThrottleTimeMs")
UNORDERED = (
    "Brokers",
    "Topics",
    "Partitions",
    "ApiKeys",
    "Acls",
    "Configs",
    "Entity",
    "Entries",
    "FilterResults",
    "IsrNodes",
    "MatchingAcls",
    "Resources",
    "Values",
    "OfflineReplicas",
    "Responses",
    "Results",
    "ReplicaElectionResults",
    "PartitionResult",
)

Exchange = dict[str, Any]


class Connection(Protocol):
    """A connection to a broker."""

    def hang_up(self) -> None:
        """Close it."""


class Client(Protocol):
    """A client of one broker, in memory or over TCP."""

    @property
    def closed(self) -> bool:
        """Whether the broker has closed the connection."""

    @property
    def connection(self) -> Connection:
        """The connection."""

    def exchange(self, frame: bytes, limit_s: float = ...) -> bytes | None:
        """Send the frame of a request; return that of the response, or None if there is none."""


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return all exchanges."""
    return tuple(read_lines(FILE))


def of_release(release: str, story: str = "story") -> list[Exchange]:
    """Return the exchanges of a release in one of its two recordings."""
    return [one for one in exchanges() if (one["release"], one["story"]) == (release, story)]


def masked(value: Any, field: str = "") -> Any:
    """Return a response without chance and without the order of collections that are unordered in Kafka."""
    if field in MASKED:
        return None if value is None else "*"
    if field == "TopicId" and value not in (NO_ID, UNKNOWN_ID):
        return "*"
    if isinstance(value, dict):
        return {name: masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [masked(item) for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if field in UNORDERED else items
    return value


def with_bytes(value: Any) -> Any:
    """Return a copy of a recorded request with bytes for hexadecimal text."""
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["hex"]:
        return bytes.fromhex(value["hex"])
    return {name: with_bytes(item) for name, item in value.items()}


def replayed(client: Client, exchange: Exchange, topic_id: Callable[[], str]) -> Exchange:
    """Send a recorded request to a simulated broker; return what became of it.

    Args:
        client: a new connection.
        exchange: the recorded exchange.
        topic_id: returns the id of the topic `one`.
    """
    version = exchange["version"]
    request = with_bytes(exchange["request"])
    for topic in request.get("Topics") or ():
        if topic.get("TopicId", NO_ID) not in (NO_ID, UNKNOWN_ID):
            topic["TopicId"] = topic_id()
    body = from_plain(message_class(exchange["api"] + "Request"), request)
    sent_version = min(version, body.MESSAGE.versions.high)
    frame = encode_request(body, sent_version, correlation_id=7, client_id="wire-story")
    answer = client.exchange(frame[:2] + version.to_bytes(2, "big") + frame[4:])
    if answer is None:
        return {"closed": True} if client.closed else {"no_answer": 1}
    _, answered, response = decode_response(message_class(exchange["api"] + "Response"), sent_version, answer)
    return {"response": to_plain(response, answered)}


def select(folder: Path) -> list[Exchange]:
    """Return the exchanges of the compared steps from a folder of recordings."""
    found = []
    for release in RELEASES:
        for story, steps in STEPS.items():
            source = "second" if story == "second" else "story"
            for file in sorted((folder / release).glob(f"{source}.jsonl*")):
                for line in read_lines(file):
                    step = line["step"].removeprefix("2nd pass, ")
                    if re.fullmatch(steps, step):
                        kept = {name: line[name] for name in KEPT if name in line} | {"step": step}
                        if "answer_hex" in line:
                            kept["response"] = "some"
                        found.append({"release": release, "story": story, **kept})
    return found


if __name__ == "__main__":
    write_lines(FILE, select(Path(sys.argv[1])))
