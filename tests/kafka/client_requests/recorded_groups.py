"""Exchanges of consumer groups with real brokers, 0.8.2 to 3.9, and the same requests to simulated brokers.

`data/groups.jsonl.gz` has the exchanges, one a line: release, when it was sent (in s), whether the story went on before
the response, step, broker, API, version, request and response with every field. It is made by

    python -m tests.kafka.client_requests.recorded_groups FOLDER

from a folder that has one folder of recordings per release. Chance is masked in both: addresses and the random part of
member ids. Orders of collections that Kafka keeps in hash maps are not compared.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.kafka.coordinator.coordinator_log import partition_of
from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.protocol.plain import from_plain, to_plain
from tests.kafka.recorded_lines import read_lines, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.client_requests.memory_client import Client, Clock

FILE = Path(__file__).with_name("data") / "groups.jsonl.gz"
STEPS = (
    "find-coordinator: (?!first).*|offset-(commit|fetch|delete).*|group life.*|join-group: .*|sync, heartbeat.*"
    "|describe, list.*|rebalance.*|static member|describe-groups: .*|list-groups: .*|delete-groups.*"
)
"""Steps that are compared; the first FindCoordinator, which creates the topic, has a test of its own."""
KEPT = ("step", "broker", "role", "api", "version", "request", "response", "closed", "no_answer")
SKIPPED = ("ApiVersions", "Metadata")
MASKED = ("Host", "Port", "ThrottleTimeMs", "ClientHost")
UNORDERED = ("Topics", "Partitions", "Groups", "Members", "Results", "Coordinators")
LONGEST_ANSWER_S = 20.0
TIMED_OUT = [{"Name": "m0", "Partitions": [{"PartitionIndex": 0, "ErrorCode": 7}]}]
"""Response to a commit that the real cluster did not finish in time."""
MEMBER_ID = re.compile(r"(wire-story|i1)-[0-9a-f-]{36}")

Exchange = dict[str, Any]


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return all exchanges."""
    return tuple(read_lines(FILE))


def of_release(release: str) -> list[Exchange]:
    """Return the exchanges of a release, in the order in which they were sent."""
    return [one for one in exchanges() if one["release"] == release]


def leaders_of(compared: list[Exchange]) -> dict[int, int]:
    """Return the leader of each partition of `__consumer_offsets`, as FindCoordinator showed them."""
    found: dict[int, int] = {}
    for one in compared:
        if one["api"] == "FindCoordinator" and one["request"].get("KeyType", 0) == 0 and "response" in one:
            keys = one["request"].get("CoordinatorKeys", [one["request"].get("Key")])
            answers = one["response"].get("Coordinators", [one["response"]])
            for key, answer in zip(keys, answers, strict=True):
                if answer["ErrorCode"] == 0:
                    found[partition_of(key, 3)] = answer["NodeId"]
    return found


class Replay:
    """Sends recorded requests to simulated brokers.

    Args:
        connect: returns a new client of a broker.
        clock: the time of the cluster.

    Attributes:
        simulated: simulated member ids by recorded ones.
    """

    def __init__(self, connect: Callable[[int], Client], clock: Clock) -> None:
        self.simulated: dict[str, str] = {}
        self._connect = connect
        self._clock = clock
        self._recorded: dict[str, str] = {}
        self._unanswered: list[tuple[Client, Exchange]] = []
        self._answers: list[tuple[Exchange, Any]] = []
        self._sent: tuple[float, int] | None = None

    def play(self, compared: list[Exchange]) -> list[str]:
        """Send the requests with at least the recorded pauses; return the exchanges that differ."""
        for exchange in compared:
            if exchange.get("response", {}).get("Topics") == TIMED_OUT:
                continue  # so under load: the next commit was successful
            self._wait_for_turn(exchange["t"])
            client = self._connect(exchange["broker"])
            self._send(client, exchange)
            if exchange["later"]:
                self._unanswered.append((client, exchange))
            else:
                self._receive(client, exchange)
                for asked in [one for one in self._unanswered if one[0].frames]:
                    self._unanswered.remove(asked)
                    self._receive(*asked)
        for asked in self._unanswered:
            self._receive(*asked)
        return [text for exchange, got in self._answers for text in self._differences(exchange, got)]

    def _wait_for_turn(self, sent_s: float) -> None:
        now_us = self._clock.now_us
        if self._sent is not None:
            before_s, at_us = self._sent
            self._clock.run_until(max(now_us, at_us + round((sent_s - before_s) * 1_000_000)))
        self._sent = sent_s, self._clock.now_us

    def _send(self, client: Client, exchange: Exchange) -> None:
        text = json.dumps(exchange["request"])
        text = MEMBER_ID.sub(lambda found: self.simulated.get(found[0], found[0]), text)
        request = json.loads(text, object_hook=_without_hex)
        frame = encode_request(
            from_plain(message_class(exchange["api"] + "Request"), request),
            exchange["version"],
            correlation_id=7,
            client_id="wire-story",
        )
        client.connection.receive(frame)

    def _receive(self, client: Client, exchange: Exchange) -> None:
        frame = client.wait(LONGEST_ANSWER_S)
        client.connection.hang_up()
        got: Any = {"closed": True} if client.closed else {"no_answer": 1}
        if frame is not None:
            kind = message_class(exchange["api"] + "Response")
            _, answered, response = decode_response(kind, exchange["version"], frame)
            got = {"response": to_plain(response, answered)}
            self._note_member(exchange, got)
        self._answers.append((exchange, got))

    def _differences(self, exchange: Exchange, got: Any) -> list[str]:
        wanted: Any = {name: exchange[name] for name in ("response", "closed", "no_answer") if name in exchange}
        text = json.dumps(got, default=lambda data: {"hex": data.hex()})
        got = json.loads(MEMBER_ID.sub(lambda found: self._recorded.get(found[0], found[0]), text))
        wanted, got = masked(wanted), masked(got)
        if wanted == got:
            return []
        asked = f"{exchange['step']} | {exchange['api']} v{exchange['version']}"
        return [f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}"]

    def _note_member(self, wanted: Any, got: Any) -> None:
        """Remember which simulated member has the part of which recorded one."""
        recorded, simulated = (answer.get("response", {}).get("MemberId", "") for answer in (wanted, got))
        if MEMBER_ID.fullmatch(recorded) and MEMBER_ID.fullmatch(simulated) and recorded not in self.simulated:
            self.simulated[recorded], self._recorded[simulated] = simulated, recorded


def _without_hex(item: dict[str, Any]) -> Any:
    return bytes.fromhex(item["hex"]) if item.keys() == {"hex"} else item


def masked(value: Any, field: str = "") -> Any:
    """Return a response without chance and without the order of collections that are unordered in Kafka."""
    if field in MASKED:
        return None if value is None else "*"
    if isinstance(value, dict):
        return {name: masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        items = [masked(item) for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if field in UNORDERED else items
    return value


def select(folder: Path) -> list[Exchange]:
    """Return the exchanges of the compared steps from a folder of recordings."""
    found = []
    for release in RELEASES:
        (file,) = (folder / release).glob("story.jsonl*")
        story = [line for line in read_lines(file) if re.fullmatch(STEPS, line["step"])]
        last_s = 0.0
        chosen = []
        for line in story:  # lines are in the order of responses, except those that were awaited later
            if line.get("api") not in SKIPPED:
                kept = {name: line[name] for name in KEPT if name in line}
                chosen.append({"release": release, "t": line["t"], "later": line["t"] < last_s, **kept})
                last_s = max(last_s, line["t"])
        found += sorted(chosen, key=lambda line: line["t"])
    return found


if __name__ == "__main__":
    write_lines(FILE, select(Path(sys.argv[1])))
