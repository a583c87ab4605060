"""Input and output of `kafka-reassign-partitions` by release (ReassignPartitionsCommand; §2.11 of the reference).

Rules of the module:
  - functions map text to text: nothing is written;
  - the tool that asks brokers (2.6 and later) sorts partitions; the one that works in ZooKeeper prints them in the
    order of Scala's maps;
  - invalid input is rejected before anything is done, in the tool's words.

Rules of `--throttle` (KIP-73; `--verify` and `--cancel` remove the throttles unless told to preserve them):
  - the rate is a setting of every broker that takes part; the throttled replicas are settings of the topics:
    `partition:broker` of the leaders during the move, and of the followers that are added;
  - the tool that works in ZooKeeper (0.10.1 to 2.5) writes topics before brokers (up to 0.10.2 brokers first), includes
    every broker of a topic that moves, and lists replicas in the order of Scala's maps; the one that asks brokers (2.6
    and later) includes only the partitions that move, and sorts;
  - throttles have no effect here: records have no size, so no move is slower.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from simzk.errors import ConfigError
from simzk.jvm.hash_map import hash_map_order
from simzk.jvm.scala_collections import immutable_order
from simzk.kafka.requests import AlterConfigRequest, AlterReassignmentsRequest
from simzk.kafka.topic_partition import TopicPartition, grouped_by_topic, mutable_partitions, partition_set
from simzk.kafka.zookeeper_mode.schemas import admin
from simzk.kafka.zookeeper_mode.schemas.config import RATE_KEYS, REPLICAS_KEYS
from simzk.kafka.zookeeper_mode.schemas.json_text import JsonObject, NoJsonError, is_int, read_object, shown, write

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import ReplicaAssignment

    Plan = Mapping[TopicPartition, tuple[int, ...]]
    Present = Mapping[TopicPartition, ReplicaAssignment]

Item = TypeVar("Item")

_DOCUMENT = "reassignment"
"""Name of the document in errors."""
_PLAN_VERSION = 1
_BYTE_ORDER_MARK = "\ufeff"
BROKER_THROTTLES = (*RATE_KEYS, "replica.alter.log.dirs.io.max.bytes.per.second")


class Proposal(NamedTuple):
    """Output of `--generate`: two documents that `--execute` accepts."""

    current: str
    proposed: str
    text: str


def asks_brokers(version: KafkaVersion) -> bool:
    """Return whether the release's tool asks brokers (KIP-455, 2.6) rather than ZooKeeper."""
    return AlterReassignmentsRequest not in version.tools.requests_in_zookeeper


def read_plan(text: str, version: KafkaVersion) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas by partition in a document, as `--execute` and `--verify` read it.

    Args:
        text: document.
        version: release of the tool.

    Raises:
        ZnodeError: the document is not JSON, or has another structure.
        ConfigError: the tool rejects the plan.

    >>> from simzk.kafka.releases.versions import VERSIONS
    >>> plan = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    >>> read_plan(plan, VERSIONS["3.9"])
    {TopicPartition(topic='t', partition=0): (1, 2)}
    """
    if text.startswith(_BYTE_ORDER_MARK):
        # The tool parses characters. A znode's bytes may begin with the mark: Jackson skips it there.
        what = "Unexpected character ('\\uFEFF' (code 65279 / 0xfeff))"
        raise NoJsonError(what, where=_DOCUMENT, right="JSON without a byte order mark")
    data = text.encode(errors="replace")
    document = read_object(_DOCUMENT, data)
    if version.tools.reads_plan_version:
        _require_version(document, version)
    pairs = admin.read_reassignment(_DOCUMENT, data)
    if version.tools.reads_plan_log_dirs and pairs:
        _require_log_dirs(document, version)
    require_accepted(rejection(pairs, version))
    return dict(pairs)


def _require_version(document: JsonObject, version: KafkaVersion) -> None:
    """Reject a document of another version than 1, which is the default."""
    value = document.fields.get("version", _PLAN_VERSION)
    if value == _PLAN_VERSION and is_int(value):
        return
    what = f"Not supported version field value {value}"
    if not is_int(value):
        what = f"Expected `{'Integer' if version.tools.is_in_java else 'Int'}` value, received {shown(value)}"
    raise ConfigError(what, where=f"{_DOCUMENT}: version", right=f"{_PLAN_VERSION}, or no version")


def _require_log_dirs(document: JsonObject, version: KafkaVersion) -> None:
    """Reject log directories that are not one for each replica (KIP-113)."""
    for entry in document.objects("partitions"):
        if "log_dirs" not in entry.fields:
            continue
        partition = TopicPartition(entry.text("topic"), entry.integer("partition"))
        replicas, log_dirs = (
            ", ".join(map(str, items)) for items in (entry.integers("replicas"), entry.texts("log_dirs"))
        )
        if len(entry.integers("replicas")) != len(entry.texts("log_dirs")):
            sides = ("[", "]") if version.tools.is_in_java else ("List(", ")")
            lists = [f"{sides[0]}{items}{sides[1]}" for items in (replicas, log_dirs)]
            what = f"Size of replicas list {lists[0]} is different from size of log dirs list {lists[1]}"
            right = 'a directory, or "any", for each replica'
            raise ConfigError(f"{what} for partition {partition}", where=_DOCUMENT, right=right)


def rejection(pairs: Sequence[tuple[TopicPartition, tuple[int, ...]]], version: KafkaVersion) -> str | None:
    """Return why the tool rejects a plan for any cluster; None: it accepts the plan.

    Args:
        pairs: partitions and their replicas, in the order of the document.
        version: release of the tool.
    """
    checks = version.tools.reassignment_checks
    if not pairs:
        return f"Partition reassignment {'list cannot be' if asks_brokers(version) else 'data file is'} empty"
    if "empty lists" in checks and any(not replicas for _, replicas in pairs):
        return "Partition replica list cannot be empty"
    if "duplicates" not in checks:
        return None
    if twice := _repeated([partition for partition, _ in pairs]):
        return f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}"
    repeated = [
        f"{partition} contains multiple entries for {','.join(map(str, again))}"
        for partition, replicas in pairs
        if (again := _repeated(replicas))
    ]
    return f"Partition replica lists may not contain duplicate entries: {'. '.join(repeated)}" if repeated else None


def unknown_partitions(unknown: Collection[TopicPartition], topics: Collection[str], version: KafkaVersion) -> str:
    """Return the tool's message for a plan with unknown partitions.

    Args:
        unknown: unknown partitions, at least one.
        topics: names of existing topics.
        version: release of the tool; up to 0.10.0 it drops them silently.
    """
    assert unknown, "no unknown partitions"
    if asks_brokers(version):
        if missing := next((partition.topic for partition in unknown if partition.topic not in topics), None):
            return f"Topic {missing} not found."
        lines = [f"{partition}: The partition does not exist." for partition in unknown]
        return "\n".join(["Error reassigning partition(s):", *lines])
    return f"The proposed assignment contains non-existent partitions: {', '.join(map(str, unknown))}"


def dead_brokers(plan: Plan, live: Collection[int], version: KafkaVersion) -> str | None:
    """Return the tool's message for targets that are not registered; None: there are none, or it does not check.

    Args:
        plan: replicas by partition.
        live: registered brokers.
        version: release of the tool.
    """
    dead = list(dict.fromkeys(broker for replicas in plan.values() for broker in replicas if broker not in live))
    if not dead or "brokers" not in version.tools.reassignment_checks:
        return None
    if asks_brokers(version):
        return f"Unknown broker id {dead[0]}"
    return f"The proposed assignment contains non-existent brokerIDs: {','.join(map(str, dead))}"


def require_accepted(reason: str | None) -> None:
    """Raise a ConfigError with the tool's reason, if there is one."""
    if reason is not None:
        raise ConfigError(reason, where="reassignment", right="one list of distinct brokers for each partition")


def _repeated(items: Sequence[Item]) -> list[Item]:
    if len(set(items)) == len(items):
        return []
    return [item for item, times in Counter(items).items() if times > 1]


def document(plan: Plan, version: KafkaVersion, *, proposed: bool) -> str:
    """Return the JSON that the tool prints for a plan.

    Args:
        plan: replicas by partition.
        version: release of the tool.
        proposed: whether the tool proposes the plan, or found it; fixes the order before 2.6.
    """
    if asks_brokers(version):
        ordered: Iterable[TopicPartition] = sorted(plan)
    elif proposed:
        ordered = mutable_partitions(plan, version.orders.collections)
    else:
        ordered = partition_set(plan, version.orders.collections)
    entries = []
    for partition in ordered:
        entry: dict[str, object] = {**partition._asdict(), "replicas": list(plan[partition])}
        if version.broker.survives_log_dir_failure:  # KIP-112 and KIP-113, 1.0
            entry["log_dirs"] = ["any"] * len(plan[partition])
        entries.append(entry)
    return write({"version": 1, "partitions": entries}).decode()


def propose(
    current: Plan, assign: Callable[[int, int], Mapping[int, Sequence[int]]], version: KafkaVersion
) -> Proposal:
    """Return the output of `--generate`.

    Args:
        current: present assignment of the topics to move.
        assign: places a number of partitions with a number of replicas.
        version: release of the tool.
    """
    proposed = {
        TopicPartition(topic, number): tuple(replicas)
        for topic, partitions in grouped_by_topic(current).items()
        for number, replicas in sorted(assign(len(partitions), len(current[partitions[0]])).items())
    }
    found, wanted = document(current, version, proposed=False), document(proposed, version, proposed=True)
    text = f"Current partition replica assignment\n{found}\n\nProposed partition reassignment configuration\n{wanted}\n"
    return Proposal(found, wanted, text)


def status(plan: Plan, present: Present, in_znode: Iterable[TopicPartition], version: KafkaVersion) -> str:
    """Return the output of `--verify` for partitions.

    Args:
        plan: replicas by partition in the document.
        present: assignments in the topic znodes.
        in_znode: partitions in `/admin/reassign_partitions`; used by the tool before 2.6.
        version: release of the tool.
    """
    if asks_brokers(version):
        lines = [_line(p, plan[p], present.get(p), version) for p in sorted(plan)]
        return "\n".join(["Status of partition reassignment:", *lines])
    moving = dict.fromkeys(in_znode)
    lines = []
    for partition, target in plan.items():
        assignment = present.get(partition)
        is_done = assignment is not None and assignment.replicas == target
        outcome = "completed successfully" if is_done else "failed"
        outcome = "is still in progress" if partition in moving else outcome
        lines.append(f"Reassignment of partition {partition} {outcome}")
    blank = " " if version.number >= (0, 10, 1) else ""
    return "\n".join([f"Status of partition reassignment:{blank}", *lines])


def _line(
    partition: TopicPartition, target: tuple[int, ...], assignment: ReplicaAssignment | None, version: KafkaVersion
) -> str:
    if assignment is not None and assignment.being_reassigned:
        return f"Reassignment of partition {partition} is still in progress."
    replicas = () if assignment is None else assignment.replicas
    if replicas == target:
        done = "completed" if version.number >= (3, 3, 0) else "complete"
        return f"Reassignment of partition {partition} is {done}."
    found, wanted = (",".join(map(str, ids)) for ids in (replicas, target))
    return f"There is no active reassignment of partition {partition}, but replica set is {found} rather than {wanted}."


def throttled(plan: Plan, live: Collection[int], version: KafkaVersion) -> tuple[list[int], list[str]]:
    """Return the brokers and topics whose throttles `--cancel` and `--verify` clear from 2.6 on, in the tool's order.

    Args:
        plan: replicas by partition.
        live: registered brokers, which the tool lists in the order of a Java map.
        version: release of the tool.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> throttled({TopicPartition("u", 0): (22, 11), TopicPartition("t", 0): (21, 22)}, [11, 12], kafka_version("3.9"))
    ([21, 22, 11, 12], ['t', 'u'])
    """
    brokers = [*hash_map_order(live), *(broker for replicas in plan.values() for broker in replicas)]
    topics = [partition.topic for partition in plan]
    if version.tools.is_in_java:
        return hash_map_order(dict.fromkeys(brokers)), hash_map_order(dict.fromkeys(topics))
    return immutable_order(brokers), immutable_order(topics)


THROTTLES_SINCE = (0, 10, 1)
"""First release with `--throttle` (KIP-73)."""


def throttles(plan: Plan, present: Present, rate: int, version: KafkaVersion) -> list[AlterConfigRequest]:
    """Return the configuration changes of `--throttle`, in the tool's order.

    Args:
        plan: target replicas by partition.
        present: assignments of all partitions of the plan's topics.
        rate: bytes per second.
        version: release of the tool.

    >>> from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition
    >>> from simzk.kafka.releases.versions import kafka_version
    >>> one = TopicPartition("t", 0)
    >>> for change in throttles({one: (2, 3)}, {one: ReplicaAssignment((1, 2))}, 5000, kafka_version("3.9")):
    ...     print(change.entity_path, *change.changes.values())
    topics/t 0:1,0:2 0:3
    brokers/1 5000 5000
    brokers/2 5000 5000
    brokers/3 5000 5000
    """
    if asks_brokers(version):
        before = {p: tuple(b for b in present[p].replicas if b not in present[p].adding) for p in plan}
        added = {p: [b for b in plan[p] if b not in before[p]] for p in plan}
        brokers = sorted({broker for p in plan for broker in (*before[p], *plan[p])})
        return [*_of_topics(before, added, by_text=True), *_of_brokers(brokers, rate)]
    collections, wanted = version.orders.collections, list(partition_set(plan, version.orders.collections))

    def ordered(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return existing partitions in the order of the map in which the tool keeps them."""
        if version.number < (1, 1):  # later an immutable map (KafkaZkClient)
            return mutable_partitions(partitions, collections)
        return list(partition_set(partitions, collections))

    existing = ordered(present)
    of_topic = [
        p for name in dict.fromkeys(p.topic for p in existing) for p in ordered(e for e in existing if e.topic == name)
    ]
    moving = ordered(p for p in of_topic if p in plan and not set(plan[p]) <= set(present[p].replicas))
    before = {p: present[p].replicas for p in moving}
    added = {p: [b for b in plan[p] if b not in present[p].replicas] for p in wanted}
    of_all = [broker for p in existing for broker in present[p].replicas]
    brokers = list(dict.fromkeys([*of_all, *(broker for p in wanted for broker in plan[p])]))
    of_topics, of_brokers = _of_topics(before, added, by_text=False), _of_brokers(brokers, rate)
    return [*of_topics, *of_brokers] if version.number >= (0, 11, 0) else [*of_brokers, *of_topics]


def _of_topics(
    led: Mapping[TopicPartition, Sequence[int]], added: Mapping[TopicPartition, Sequence[int]], *, by_text: bool
) -> list[AlterConfigRequest]:
    """Return the throttled replicas of each topic, in the order of `added` or sorted by their text."""
    requests = []
    for name in dict.fromkeys(partition.topic for partition in added):
        listed = [[f"{p.partition}:{b}" for p in part if p.topic == name for b in part[p]] for part in (led, added)]
        texts = [",".join(sorted(replicas) if by_text else replicas) for replicas in listed]
        requests.append(AlterConfigRequest(f"topics/{name}", dict(zip(REPLICAS_KEYS, texts, strict=True))))
    return requests


def _of_brokers(brokers: list[int], rate: int) -> list[AlterConfigRequest]:
    return [
        AlterConfigRequest(f"brokers/{broker}", dict.fromkeys(BROKER_THROTTLES[:2], str(rate))) for broker in brokers
    ]
