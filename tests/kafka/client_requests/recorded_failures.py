"""Answers of real brokers of 0.8.2 to 3.9 while brokers died, stopped and came back, and the same requests here.

`data/failures.jsonl.gz` has the second half of each recorded story, one line for each request, action of the operator
and wait. It is made by

    python -m tests.kafka.client_requests.recorded_failures FOLDER

from a folder that has one folder of recordings per release. The first half is in `recorded_records` and
`recorded_groups`; `Story` plays it first, because the second half reads its records and groups.

Rules of this module:
  - a wait lasts until the metadata of every broker shows what that of the real broker showed last;
  - chance is masked: addresses, ids, sizes, and the placement of topics that Kafka itself placed;
  - what is not played or not compared is named in a table, with the reason.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.kafka.log.record_batches import NEWEST, Record, encode_records
from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.messages import MetadataRequest, MetadataResponse
from simzk.kafka.zookeeper_mode.paths import CONTROLLER
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.client_requests.recorded_admin import UNKNOWN_SIZE
from tests.kafka.client_requests.recorded_records import BEHIND, chance_masked
from tests.kafka.protocol.plain import from_plain, to_plain
from tests.kafka.recorded_lines import read_lines, write_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import simzk
    from tests.kafka.client_requests.memory_client import MemoryClient
    from tests.kafka.client_requests.recorded import Exchange

FILE = Path(__file__).with_name("data") / "failures.jsonl.gz"
FIRST_STEP = "before: metadata"
PLACED = ("m0", "one", "small", "strict", "strict3", "compacted", "cfg", "move", "down2")
"""Topics whose replicas the story chose."""
OFFSETS = "__consumer_offsets"
KEPT = ("step", "broker", "api", "version", "request", "response", "closed", "no_answer", "refused")
OUTCOMES = ("response", "closed", "no_answer", "refused")
SLEPT_S = {
    "alter-partition-reassignments: throttled move": "0.7",
    "list-partition-reassignments: under way": "1",
    "list-partition-reassignments: another target": "0.3",
    "alter-partition-reassignments: move": "0.7",
}
"""How long the recorded client slept before a step, in seconds."""
MASKED = (
    *("ClusterId", "Host", "Port", "ThrottleTimeMs", "TopicId", "LogDir", "ClientHost", "LastTimestamp"),
    *("Size", "TotalBytes", "UsableBytes", "OffsetLag"),
)
UNORDERED = (
    *("ActiveProducers", "Brokers", "Configs", "Coordinators", "Groups", "IsrNodes", "OfflineReplicas"),
    *("PartitionResponses", "PartitionResult", "PartitionResults", "Partitions", "ReplicaElectionResults"),
    *("Responses", "Results", "Topics"),
)
NO_ID = "A" * 22
EARLIER_ELECTIONS = ("1.1.1", "2.0.1", "2.4.1")
"""Releases whose recorded partitions had elections before, which nobody saw: leader epochs are not compared."""
EARLIER_DELETIONS = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1")
"""Releases in which a topic with a replica on a broker that never was cannot be deleted: a group without members and
offsets goes when the controller names that topic again."""
EPOCH = slice(24, 32)
"""Place of the leader epoch in a batch, in hexadecimal text."""
TRANSACTIONAL = "m0", 2
"""The partition with records of transactions."""
WITHOUT_TRANSACTIONS = ("0.8.2.2", "0.9.0.1", "0.10.2.2")
OF_TRANSACTIONS = (
    *("ActiveProducers", "BaseOffset", "EndOffset", "HighWatermark", "LastStableOffset", "LogStartOffset"),
    *("Offset", "Records"),
)
"""Fields of that partition that depend on transactions."""
LONG = "30 records of 900 bytes"
"""Records that the recording does not have in full: those of the topic `move`."""
FIRST_CONTROLLER = 1
LIMIT_S = 60.0
"""Longest virtual time of a wait."""
ANSWER_S = 12.0
APART_S = 0.002
"""Time between two requests of the recorded client."""

_ACTIONS = (
    (re.compile(r"kill (?:the controller )?(\d)"), "kill"),
    (re.compile(r"stop (\d)"), "stop"),
    (re.compile(r"start (\d)"), "start"),
    (re.compile("reassign by ZooKeeper"), "reassign"),
)
_BY_ZOOKEEPER = {
    "watch preferred": ("ElectLeaders", "elect"),
    "watch topic move": ("CreateTopics", "create move"),
    "watch topic small": ("CreateTopics", "create small"),
    "watch partitions added": ("CreatePartitions", "add"),
    "watch topic deleted": ("DeleteTopics", "delete"),
}
"""Waits that follow an action of the operator, in releases that lack the API for it."""


@cache
def _lines() -> tuple[Exchange, ...]:
    return tuple(read_lines(FILE))


def of_release(release: str) -> list[Exchange]:
    """Return the requests, actions and waits of a release, in order."""
    return [one for one in _lines() if one["release"] == release]


# -- selection


def select(folder: Path) -> list[Exchange]:
    """Return requests, actions and waits of the second half of each recording."""
    return [{"release": release, **line} for release in RELEASES for line in _of_recording(folder / release)]


def _of_recording(folder: Path) -> Iterator[Exchange]:
    (file,) = folder.glob("story.jsonl*")
    meta = json.loads((folder / "meta.json").read_text())
    apis = next(iter(meta["story"]["api_versions"].values()))
    lines = _named(list(read_lines(file)))
    start_s = next(line["t"] for line in lines if line["step"] == FIRST_STEP)
    events: list[tuple[float, int, Exchange]] = []
    previous = ""
    for step, at_s in meta["story"]["steps"]:
        events += [(at_s, 0, one) for one in _actions(step, previous, apis) if at_s >= start_s]
        previous = step
    for line in lines:
        is_asked = line["t"] >= start_s and "api" in line and line["step"] not in ("", "api-versions")
        if is_asked and line["api"] != "ApiVersions":
            events.append((line["t"], 1, line))
    for _, _, event in sorted(events, key=lambda one: one[:2]):
        if _is_too_early(event):
            continue
        yield {name: _shortened(event[name]) for name in (*KEPT, "action") if name in event}


def _is_too_early(event: Exchange) -> bool:
    """Return whether a request to create a topic came while the old one was being deleted, which lasts by chance."""
    answer = event.get("response") or {}
    return event["step"].startswith("topic deleted: created again") and bool(answer["Topics"][0]["ErrorCode"])


def _actions(step: str, previous: str, apis: Mapping[str, object]) -> Iterator[Exchange]:
    """Return the actions of a step; a step that follows a wait is the one that began before the wait."""
    if step in SLEPT_S and "AlterPartitionReassignments" in apis:
        yield {"step": step, "action": f"sleep {SLEPT_S[step]}"}
    if step in _BY_ZOOKEEPER and _BY_ZOOKEEPER[step][0] not in apis:
        yield {"step": step, "action": _BY_ZOOKEEPER[step][1]}
    for pattern, action in _ACTIONS if not previous.startswith("watch") else ():
        if found := pattern.fullmatch(step):
            yield {"step": step, "action": " ".join((action, *found.groups()))}
    if step.startswith("watch "):
        yield {"step": step, "action": "wait"}


def _named(lines: list[Exchange]) -> list[Exchange]:
    """Return lines with names for the ids of topics: `@small`, and `@small'` for the topic created after it."""
    names: dict[str, str] = {}
    for line in lines:
        for topic in (line.get("response") or {}).get("Topics") or () if line.get("api") == "Metadata" else ():
            if topic.get("Name") in PLACED and topic.get("TopicId", NO_ID) not in (NO_ID, *names):
                names[topic["TopicId"]] = f"@{topic['Name']}" + "'" * sum(
                    name.rstrip("'") == f"@{topic['Name']}" for name in names.values()
                )
    return [replaced(line, names) for line in lines]


def _shortened(value: Any) -> Any:
    if isinstance(value, dict) and "hex" in value:
        return LONG if value["hex"].endswith("...") else value["hex"]
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items()}
    return [_shortened(item) for item in value] if isinstance(value, list) else value


def replaced(value: Any, names: Mapping[str, str], field: str = "") -> Any:
    """Return a message with other ids of topics."""
    if field == "TopicId":
        return names.get(value, value)
    if isinstance(value, dict):
        return {name: replaced(item, names, name) for name, item in value.items()}
    return [replaced(item, names) for item in value] if isinstance(value, list) else value


# -- comparison


def masked(value: Any, field: str = "") -> Any:
    """Return a response without chance and without the order of collections that are unordered in Kafka."""
    if field in MASKED and value not in (None, UNKNOWN_SIZE):
        return "*"
    if isinstance(value, dict):
        plain = {name: masked(item, name) for name, item in value.items()}
        if (plain.get("Name"), "PartitionSize" in str(plain)) == (TRANSACTIONAL[0], True):
            for one in plain["Partitions"]:  # the first half has other records in place of transactions
                one["PartitionSize"] = "*" if one["PartitionIndex"] == TRANSACTIONAL[1] else one["PartitionSize"]
        return plain
    if isinstance(value, list):
        items = [masked(item) for item in value if not _is_placed_by_chance(item, field)]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if field in UNORDERED else items
    return value


def _is_placed_by_chance(item: Any, field: str) -> bool:
    """Return whether a part of a response is about a topic that Kafka placed, or about a group of transactions."""
    if field not in ("Topics", "ReplicaElectionResults", "Groups") or not isinstance(item, dict):
        return False
    name = str(item.get("Name") or item.get("Topic") or item.get("GroupId"))
    return name in (OFFSETS, "__transaction_state") or name.startswith("gtx")


def states(response: Exchange) -> dict[str, list[Any]]:
    """Return leader, ISR, replicas and error of each partition of the story's topics in a response to Metadata."""
    return {
        f"{topic['Name']}-{one['PartitionIndex']}": [
            one["LeaderId"],
            sorted(one["IsrNodes"]),
            sorted(one["ReplicaNodes"]),
            one["ErrorCode"],
        ]
        for topic in response["Topics"]
        for one in topic["Partitions"]
        if topic["Name"] in PLACED
    }


class Compared:
    """Fields of each exchange that are compared, in order."""

    def __init__(self) -> None:
        self._leads: dict[tuple[int, int], bool] = {}

    def __call__(self, exchange: Exchange, answer: Exchange) -> Exchange:
        """Return what is compared of the answer to an exchange."""
        outcome: Exchange = {name: answer[name] if name == "response" else True for name in OUTCOMES if name in answer}
        recorded = exchange.get("response") or {}
        if exchange["api"] == "ListOffsets":
            for topic in recorded.get("Topics", ()):
                for one in topic["Partitions"]:
                    self._leads[exchange["broker"], one["PartitionIndex"]] = one["ErrorCode"] == 0
        response = outcome.get("response")
        if response is not None and exchange["api"] == "Fetch":
            outcome["response"] = self._without_chance(exchange, response)
        if response is not None and exchange["api"] == "DescribeLogDirs":
            outcome["response"] = _without_directories(response)
        outcome = chance_masked(outcome)
        if exchange["release"] not in WITHOUT_TRANSACTIONS:
            outcome = _without_transactions(outcome)
        if exchange["release"] in EARLIER_ELECTIONS:
            outcome = {} if _names_epochs(exchange) else _without_epochs(outcome)
        found: Exchange = masked(outcome)
        return found

    def _without_chance(self, exchange: Exchange, response: Exchange) -> Exchange:
        """Return the response to a fetch without what a follower has, and without records that are not recorded."""
        topics = []
        for topic in response["Responses"]:
            name = topic.get("Topic") or topic["TopicId"].strip("@'")
            partitions = []
            for one in topic["Partitions"]:
                index = one["PartitionIndex"]
                is_follower = name == "m0" and not self._leads.get((exchange["broker"], index), False)
                if is_follower and not one["ErrorCode"]:
                    partitions.append(one | dict.fromkeys(BEHIND))
                elif name == "move":
                    partitions.append(one | {"Records": None})
                else:
                    partitions.append(one)
            topics.append(topic | {"Partitions": partitions})
        return response | {"Responses": topics}


def _without_transactions(value: Any, topic: str = "") -> Any:
    """Return a response without what transactions left in their partition, which the first half does not play."""
    if isinstance(value, list):
        return [_without_transactions(item, topic) for item in value]
    if not isinstance(value, dict):
        return value
    topic = value.get("Name") or value.get("Topic") or str(value.get("TopicId", topic)).strip("@'") or topic
    numbers = [value[name] for name in ("PartitionIndex", "Partition", "Index") if name in value]
    if (topic, *numbers) == TRANSACTIONAL:
        return {name: "*" if name in OF_TRANSACTIONS else item for name, item in value.items()}
    return {name: _without_transactions(item, topic) for name, item in value.items()}


def _without_directories(response: Exchange) -> Exchange:
    """Return a response with the topics of all directories together: earlier topics decide in which one a log is."""
    found: dict[str, list[Any]] = {}
    for directory in response["Results"]:
        for topic in directory["Topics"]:
            found.setdefault(topic["Name"], []).extend(topic["Partitions"])
    errors = [directory["ErrorCode"] for directory in response["Results"]]
    topics = [{"Name": name, "Partitions": partitions} for name, partitions in found.items()]
    return response | {"Results": errors, "Topics": topics}


def _names_epochs(exchange: Exchange) -> bool:
    """Return whether a request names leader epochs, so that the answer depends on them."""
    text = json.dumps(exchange["request"])
    return exchange["api"] == "OffsetForLeaderEpoch" or '"CurrentLeaderEpoch": 0' in text


def _without_epochs(value: Any, field: str = "") -> Any:
    """Return a response without leader epochs, also of its records."""
    if field == "LeaderEpoch":
        return "*"
    if field == "Records" and value:
        return [one[: EPOCH.start] + "*" + one[EPOCH.stop :] for one in value]
    if isinstance(value, dict):
        return {name: _without_epochs(item, name) for name, item in value.items()}
    return [_without_epochs(item) for item in value] if isinstance(value, list) else value


class Story:
    """The second half of a recorded story on one simulated cluster.

    Args:
        cluster: the cluster after the first half.
        connect: returns a new client of a broker.
    """

    def __init__(self, cluster: simzk.KafkaCluster, connect: Callable[[int], MemoryClient]) -> None:
        self._cluster = cluster
        self._connect = connect
        self._ids: dict[str, str] = {}
        self._compared = Compared()
        for topic in PLACED:
            if topic in cluster.brokers[1].metadata.topic_ids:
                self._id(f"@{topic}")

    def play(self, lines: Iterable[Exchange]) -> list[tuple[Exchange, str]]:
        """Play requests, actions and waits; return those that came out differently, each with a text."""
        found = []
        story = list(lines)
        waits = _waits(story)
        for place, line in enumerate(story):
            if "action" not in line and not line["step"].startswith("watch "):
                got, wanted = self._compared(line, self._play(line)), self._compared(line, line)
                if got != wanted:
                    asked = f"{line['step']} | broker {line['broker']} {line['api']} v{line['version']}"
                    text = f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}"
                    found.append((line, text))
            elif line.get("action") == "wait":
                if line["step"] == "watch controller killed":
                    self._let_win(_winner(story[place:]))
                different = self._wait(waits[place])
                found += [(line, f"{line['step']}: {text}") for text in different]
            elif "action" in line:
                self._act(*line["action"].split())
        return found

    # -- requests

    def _play(self, line: Exchange) -> Exchange:
        """Send a request; return what became of it, with the ids of topics as recorded."""
        self._cluster.run_for(APART_S)
        if not self._cluster.brokers[line["broker"]].accepts_clients:
            return {"refused": True}
        named = re.findall(r'"(@[a-z0-9]+\'*)"', json.dumps(line["request"]))
        ids = {name: self._id(name) for name in named}
        request = _with_bytes(replaced(line["request"], ids), line["version"])
        body = from_plain(message_class(line["api"] + "Request"), request)
        client = self._connect(line["broker"])
        frame = encode_request(body, line["version"], correlation_id=7, client_id="wire-story")
        answer = client.exchange(frame, ANSWER_S)
        client.connection.hang_up()
        if answer is None:
            return {"closed": True} if client.closed else {"no_answer": 1}
        _, answered, response = decode_response(message_class(line["api"] + "Response"), line["version"], answer)
        return {"response": replaced(to_plain(response, answered), {own: name for name, own in self._ids.items()})}

    def _id(self, name: str) -> str:
        """Return the id of a topic; a name with `'` is one that was created again."""
        if name not in self._ids:
            topic = name.strip("@'")
            brokers = self._cluster.brokers.values()
            self._ids[name] = next(
                broker.metadata.topic_ids[topic] for broker in brokers if topic in broker.metadata.topic_ids
            )
        return self._ids[name]

    # -- waits

    def _wait(self, wanted: Mapping[int, tuple[int, dict[str, list[Any]]]]) -> list[str]:
        """Let time pass until the metadata of the brokers is as recorded; return where it is not after the limit."""
        end_us = self._cluster.scheduler.now_us + round(LIMIT_S * 1_000_000)
        while True:
            shown = {broker: self._shown(broker, version) for broker, (version, _) in wanted.items()}
            different = [
                f"broker {broker}: {name} is {shown[broker].get(name)}, recorded {state}"
                for broker, (_, recorded) in wanted.items()
                for name, state in recorded.items()
                if shown[broker].get(name) != state
            ] + [
                f"broker {broker}: {name} is {state}, recorded is none"
                for broker, (_, recorded) in wanted.items()
                for name, state in shown[broker].items()
                if name not in recorded
            ]
            if not different or self._cluster.scheduler.now_us > end_us:
                return different
            self._cluster.run_for(0.04)

    def _shown(self, broker: int, version: int) -> dict[str, list[Any]]:
        """Return what the metadata of a broker shows of all topics."""
        if not self._cluster.brokers[broker].accepts_clients:
            return {}
        client = self._connect(broker)
        request = MetadataRequest(topics=None if version else [])
        response = client.call(request, version, MetadataResponse)
        client.connection.hang_up()
        return states(to_plain(response, version))

    def _let_win(self, broker: int | None) -> None:
        """Let a broker become the next controller, as the recorded one did: which one is first, is chance."""
        cluster = self._cluster
        others = [one for one in cluster.live_brokers if cluster.brokers[one].accepts_clients and one != broker]
        if broker is None:
            return
        cluster.run_until(lambda: cluster.tree.get(CONTROLLER) is None)
        for one in others:
            cluster.pause(one)
        cluster.run_until(lambda: cluster.controller == broker)
        for one in others:
            cluster.resume(one)

    # -- actions

    def _act(self, action: str, what: str = "") -> None:
        """Do what the recorded operator did, and wait as long as it waited."""
        cluster = self._cluster
        match action:
            case "kill":
                cluster.kill(int(what))
            case "stop":
                cluster.shutdown(int(what))
                cluster.run_until(lambda: not cluster.brokers[int(what)].accepts_clients)
            case "start":
                cluster.restart(int(what))
                cluster.run_until(lambda: cluster.brokers[int(what)].accepts_clients)
            case "sleep":
                cluster.run_for(float(what))
            case "create":
                cluster.create_topic(what, assignment={0: [1, 2] if what == "move" else [2, 3]})
            case "add":
                cluster.add_partitions("one", 3, assignment={1: [2], 2: [3]})
            case "delete":
                cluster.delete_topic("small")
            case "reassign":
                cluster.reassign({("move", 0): [2, 3]}, via="zookeeper")
            case "elect":
                cluster.elect(via="zookeeper")
            case _:
                raise AssertionError(action)


def _waits(story: list[Exchange]) -> dict[int, dict[int, tuple[int, dict[str, list[Any]]]]]:
    """Return, by the place of each wait, what the metadata of the brokers showed last, with the version asked for."""
    found: dict[int, dict[int, tuple[int, dict[str, list[Any]]]]] = {}
    place = -1
    for number, line in enumerate(story):
        if line.get("action") == "wait":
            place = number
            found[place] = {}
        elif line["step"].startswith("watch ") and line["step"] == story[place]["step"] and "response" in line:
            found[place][line["broker"]] = line["version"], states(line["response"])
    return found


def _winner(story: list[Exchange]) -> int | None:
    """Return the controller that the metadata names first; None if it names none, as up to 0.9."""
    shown = (line["response"] for line in story if line.get("api") == "Metadata" and "response" in line)
    named = (response.get("ControllerId", -1) for response in shown)
    return next((broker for broker in named if broker not in (-1, FIRST_CONTROLLER)), None)


def _with_bytes(value: Any, version: int, field: str = "") -> Any:
    if field == "Records" and value == LONG:
        records = [Record(b"k", b"x" * 900, (), 1_600_000_000_000 + 1000 * n) for n in range(30)]
        return encode_records(records, min(max(version - 1, 0), NEWEST))
    if field == "Records":
        return None if value is None else bytes.fromhex(value)
    if isinstance(value, dict):
        return {name: _with_bytes(item, version, name) for name, item in value.items()}
    return [_with_bytes(item, version) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    write_lines(FILE, select(Path(sys.argv[1])))
