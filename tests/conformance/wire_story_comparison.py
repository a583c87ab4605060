"""Compare two recordings of the story: exchanges one by one without chance, and what metadata showed in turn.

Masked are addresses, ids that are drawn, times of brokers and texts of errors. A topic's id is its topic's name.
Collections are compared without their order, because Kafka keeps most of them in hash maps, but for the replicas of a
partition and for records.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Line = dict[str, Any]
Place = tuple[str, Any, Any]
"""A path with the recorded value and that of simzk."""
Key = tuple[str, Any, str, int | None, int]
"""Step, role or broker, API, version, and place among the exchanges with all four."""
MASKED = frozenset({
    *("ThrottleTimeMs", "ClusterId", "Host", "Port", "SessionId", "ErrorMessage", "LogAppendTimeMs", "TotalBytes"),
    *("UsableBytes", "LogDir", "Path", "LastTimestamp", "IssueTimestamp", "ExpiryTimestamp", "MaxTimestamp"),
    *("TransactionStartTimeMs", "StartTimestamp", "BrokerEpoch", "ClientHost"),
})  # fmt: skip
"""Fields that differ between two runs at real brokers."""
DRAWN = {"ProducerId": -1, "producer_id": -1}
"""Fields with ids that are drawn, and the value that says that there is none."""
MEMBERS = ("MemberId", "Leader")
ORDERED = {"ReplicaNodes", "batches", "records", "AddingReplicas", "RemovingReplicas", "Replicas"}
IDENTITY = (
    *("Name", "Topic", "ResourceType", "ResourceName", "TransactionalId", "GroupId", "Key", "NodeId", "BrokerId"),
    *("PartitionIndex", "Partition", "PartitionId", "Index", "ApiKey", "EntityType", "EntityName", "PatternType"),
)
"""Fields that say which one of a collection something is."""
PLACEMENT = ("LeaderId", "ReplicaNodes", "IsrNodes", "OfflineReplicas")
INTERNAL = ("__consumer_offsets", "__transaction_state")
"""Topics of coordinators, which are placed as the recorded ones."""
PLACED = frozenset({
    *("m0", "one", "small", "strict", "strict3", "compacted", "cfg", "move", "down2", "dd", "un", "near", "ep", "rc"),
    *("back", "cx", "secret", *INTERNAL),
})  # fmt: skip
"""Topics whose replicas are the same in both."""
ADDRESSES = ("listeners", "advertised.listeners", "zookeeper.connect", "port", "advertised.port")
"""Settings whose values are addresses."""
ZERO_ID = "A" * 22
ABSENT = "absent"


class Difference(NamedTuple):
    """A difference between an exchange and the recorded one.

    Attributes:
        key: the exchange.
        places: each place that differs; those of the request first.
        recorded, played: both exchanges; None if there is none.
    """

    key: Key
    places: list[Place]
    recorded: Line | None
    played: Line | None


def read(path: Path) -> list[Line]:
    """Return the lines of a recording."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [json.loads(line) for line in file]


def is_placed(topic: str | None) -> bool:
    """Return whether the story chooses the replicas of a topic."""
    return topic in PLACED or "-assigned" in str(topic)


class Masker:
    """Masks what is chance in the lines of one recording.

    Args:
        lines: all of them.
    """

    def __init__(self, lines: list[Line]) -> None:
        self._topics: dict[str, str] = {}
        self._members: dict[str, str] = {}
        self._step = ""
        self._api = ""
        self._fresh: Counter[str] = Counter()
        names: Counter[str] = Counter()
        for line in lines:
            if line.get("api") in {"Metadata", "CreateTopics"} and isinstance(line.get("response"), dict):
                for topic in line["response"]["Topics"]:
                    number = topic.get("TopicId")
                    if number and number != ZERO_ID and topic["Name"] and number not in self._topics:
                        self._topics[number] = f"@{topic['Name']}{chr(39) * names[topic['Name']]}"
                        names[topic["Name"]] += 1

    def outcome(self, line: Line) -> Any:
        """Return what became of a request, without chance."""
        self._step, self._api = line["step"], line.get("api", "")
        for name in ("response", "closed", "no_answer", "refused", "undecodable", "answer_hex", "sent"):
            if name in line:
                return {name: self._plain(line[name], name)}
        return {}

    def request(self, line: Line) -> Any:
        """Return a request, without chance."""
        self._step, self._api = line["step"], line.get("api", "")
        return self._plain(line.get("request"), "request")

    def _plain(self, value: Any, field: str) -> Any:
        if field in MASKED or (field == "NodeId" and self._api == "FindCoordinator"):
            return None if value is None else "*"
        if field in DRAWN:
            return value if value == DRAWN[field] else "*"
        if field == "answer_hex":
            return len(value)  # two addresses and ports are in it
        if field in MEMBERS and isinstance(value, str) and len(value) > len("consumer-"):
            return self._member(value)
        if isinstance(value, str) and field in {"TopicId", "TopicIds"}:
            return value if value == ZERO_ID else self._topics.get(value, "@unknown")
        if isinstance(value, dict):
            return self._fields(value)
        if isinstance(value, list):
            if field == "Topics" and self._api == "Metadata" and any("Partitions" in one for one in value):
                value = [one if is_placed(one.get("Name")) else _counted(one) for one in value]
            plain = [self._plain(one, field) for one in value]
            return plain if field in ORDERED else sorted(plain, key=_order)
        return value

    def _fields(self, value: Mapping[str, Any]) -> Any:
        if "hex" in value and set(value) <= {"hex", "size", "batches"}:
            if "batches" not in value:
                return _without_system(value["hex"])
            batches = value["batches"]
            if isinstance(batches, list):  # a record that is cut off is none
                batches = [one for one in batches if set(one) != {"partial"}]
            return {"batches": self._plain(batches, "batches")}
        plain = {name: self._plain(one, name) for name, one in value.items()}
        if plain.get("Name") in ADDRESSES and plain.get("Value"):
            plain["Value"] = "*"
        return plain

    def _member(self, value: str) -> str:
        if value not in self._members:
            self._fresh[self._step] += 1
            self._members[value] = f"member {self._fresh[self._step]} of {self._step}"
        return self._members[value]


def _without_system(value: str) -> str:
    """Return gzipped records without the byte that names the system that compressed them."""
    return f"{value[:18]}..{value[20:]}" if value.startswith("1f8b08") else value


def _counted(topic: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of a topic that chance has placed: only the numbers of replicas count."""
    partitions = [
        {
            name: ("*" if name == "LeaderId" else len(one)) if name in PLACEMENT else one
            for name, one in partition.items()
        }
        for partition in topic["Partitions"]
    ]
    return {**topic, "Partitions": partitions}


def _order(value: Any) -> str:
    if isinstance(value, dict):
        first = [str(value.get(name)) for name in IDENTITY]
        return json.dumps([first, value], sort_keys=True)
    return json.dumps(value, sort_keys=True)


def differences(recorded: Any, played: Any, path: str = "") -> Iterator[Place]:
    """Yield each place where two values differ; what has a name or number in a collection is found by it."""
    if isinstance(recorded, dict) and isinstance(played, dict):
        for name in sorted(recorded.keys() | played.keys()):
            inner = f"{path}.{name}" if path else name
            yield from differences(recorded.get(name, ABSENT), played.get(name, ABSENT), inner)
    elif isinstance(recorded, list) and isinstance(played, list):
        labels = _labels(recorded), _labels(played)
        if None not in labels:
            both = dict(zip(labels[0] or (), recorded, strict=True)), dict(zip(labels[1] or (), played, strict=True))
            for label in sorted(both[0].keys() | both[1].keys()):
                yield from differences(both[0].get(label, ABSENT), both[1].get(label, ABSENT), f"{path}[{label}]")
        elif len(recorded) == len(played):
            for number, pair in enumerate(zip(recorded, played, strict=True)):
                yield from differences(*pair, f"{path}[{number}]")
        else:
            yield path, recorded, played
    elif recorded != played:
        yield path, recorded, played


def _labels(values: list[Any]) -> list[str] | None:
    """Return what identifies each item of a collection; None if something else than names and numbers does."""
    if not all(isinstance(one, dict) for one in values):
        return None
    found = [" ".join(str(one[name]) for name in IDENTITY if name in one and one[name] != "*") for one in values]
    return found if all(found) and len(set(found)) == len(found) else None


def keyed(lines: list[Line]) -> dict[Key, Line]:
    """Return the exchanges by what they ask; timelines are not among them."""
    found: dict[Key, Line] = {}
    seen: Counter[tuple[str, Any, str, int | None]] = Counter()
    for line in lines:
        if not line["step"].startswith("watch "):
            api = str(line.get("api", line.get("raw")))
            asked = line["step"], line.get("role") or line["broker"], api, line.get("version")
            seen[asked] += 1
            found[(*asked, seen[asked])] = line
    return found


def timelines(lines: list[Line]) -> dict[tuple[str, int], list[Any]]:
    """Return, by wait and broker, each state of all placed partitions that its metadata showed."""
    found: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for line in lines:
        if line["step"].startswith("watch "):
            state = sorted(
                [
                    topic["Name"],
                    partition["PartitionIndex"],
                    partition["LeaderId"],
                    sorted(partition["IsrNodes"]),
                    partition["ReplicaNodes"],
                    partition["ErrorCode"],
                ]
                for topic in line.get("response", {}).get("Topics", [])
                for partition in topic["Partitions"]
                if is_placed(topic["Name"])
            )
            shown = found[line["step"], line["broker"]]
            if not shown or shown[-1] != state:
                shown.append(state)
    return found


def compare(recorded: list[Line], played: list[Line]) -> tuple[int, list[Difference]]:
    """Return the number of equal exchanges, and the others."""
    wanted, got = keyed(recorded), keyed(played)
    of_recorded, of_played = Masker(recorded), Masker(played)
    plain = {key: of_played.outcome(line) for key, line in got.items()}
    found = []
    equal = 0
    for key, line in wanted.items():
        outcome = of_recorded.outcome(line)
        if key not in got:
            found.append(Difference(key, [("", outcome, "not asked")], line, None))
            continue
        places = list(differences(outcome, plain[key]))
        if places:
            asked = list(differences(of_recorded.request(line), of_played.request(got[key]), "request"))
            found.append(Difference(key, asked + places, line, got[key]))
        else:
            equal += 1
    return equal, found
