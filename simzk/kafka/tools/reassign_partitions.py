"""What `kafka-reassign-partitions` reads and prints, by release (§2.11 of the reference; ReassignPartitionsCommand).

Rules of the module:
  - text in, text out: the tree is read as the tool sees it, and nothing is written;
  - the tool that asks brokers (2.6 and later) sorts partitions; the one that works in ZooKeeper prints them in the
    order of Scala's maps;
  - bad input is refused before anything is done, in the tool's words.

What `kafka-reassign-partitions --throttle` writes (ReassignPartitionsCommand; KIP-73); `--verify` takes it away.

Rules of the module:
  - the rate stands in the configuration of every broker that takes part, the replicas that it holds for in that of the
    topics: `partition:broker`, those that may lead while the data moves, and those that are moved to;
  - the tool that works in ZooKeeper (0.10.1 to 2.5) writes topics before brokers (up to 0.10.2 brokers first), counts
    every broker of a topic that moves, and lists replicas in the order of Scala's maps; the one that asks brokers (2.6
    and later) counts the partitions that move, and sorts;
  - it only says how fast data may move. Records have no size here: nothing moves slower for it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from simzk.errors import ConfigError
from simzk.kafka.requests import AlterConfigRequest, AlterReassignmentsRequest
from simzk.kafka.schemas import admin
from simzk.kafka.schemas.json_text import write
from simzk.kafka.topic_partition import mutable_partitions, partition_set

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition

    Plan = Mapping[TopicPartition, tuple[int, ...]]

Item = TypeVar("Item")

ANY_LOG_DIR = "any"
COMPLETED_SINCE = (3, 3, 0)
"""From here on a finished reassignment "is completed", before it "is complete"."""
BROKER_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
TOPIC_THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class Proposal(NamedTuple):
    """What `--generate` prints: two documents that `--execute` takes."""

    current: str
    proposed: str
    text: str


def asks_brokers(version: KafkaVersion) -> bool:
    """Whether the release's tool asks brokers (KIP-455, 2.6); before, it works in ZooKeeper."""
    return AlterReassignmentsRequest not in version.tools.requests_in_zookeeper


def read_plan(text: str, version: KafkaVersion) -> dict[TopicPartition, tuple[int, ...]]:
    """The partitions and replicas of a document, as `--execute` and `--verify` take it.

    Args:
        text: the document.
        version: of the tool.

    Raises:
        ZnodeError: it is no JSON, or JSON of another shape.
        ConfigError: what it asks for cannot be.

    >>> from simzk.kafka.releases.versions import VERSIONS
    >>> plan = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    >>> read_plan(plan, VERSIONS["3.9"])
    {TopicPartition(topic='t', partition=0): (1, 2)}
    """
    pairs = admin.read_reassignment("reassignment", text.encode(errors="replace"))
    refuse(refusal(pairs, version))
    return dict(pairs)


def refusal(pairs: Sequence[tuple[TopicPartition, tuple[int, ...]]], version: KafkaVersion) -> str | None:
    """Why the tool takes no such plan, whatever the cluster is; None where it takes it.

    Args:
        pairs: partitions and their replicas, as they are asked for.
        version: of the tool.
    """
    looks = version.tools.reassignment_checks
    if not pairs:
        return f"Partition reassignment {'list cannot be' if asks_brokers(version) else 'data file is'} empty"
    if "empty lists" in looks and any(not replicas for _, replicas in pairs):
        return "Partition replica list cannot be empty"
    if "duplicates" not in looks:
        return None
    if twice := _repeated([partition for partition, _ in pairs]):
        return f"Partition reassignment contains duplicate topic partitions: {','.join(map(str, twice))}"
    told = [
        f"{partition} contains multiple entries for {','.join(map(str, again))}"
        for partition, replicas in pairs
        if (again := _repeated(replicas))
    ]
    return f"Partition replica lists may not contain duplicate entries: {'. '.join(told)}" if told else None


def unknown_partitions(unknown: Collection[TopicPartition], topics: Collection[str], version: KafkaVersion) -> str:
    """What the tool says where it does not carry out a plan whole, for it names partitions that are not there.

    Args:
        unknown: those, one or more.
        topics: names of topics that are there.
        version: of the tool; up to 0.10.0 it leaves them out without a word.
    """
    if asks_brokers(version):
        if nowhere := next((partition.topic for partition in unknown if partition.topic not in topics), None):
            return f"Topic {nowhere} not found."
        lines = [f"{partition}: The partition does not exist." for partition in unknown]
        return "\n".join(["Error reassigning partition(s):", *lines])
    return f"The proposed assignment contains non-existent partitions: {', '.join(map(str, unknown))}"


def dead_brokers(plan: Plan, live: Collection[int], version: KafkaVersion) -> str | None:
    """Why the tool moves nothing to brokers that are not registered; None where they are, or it does not look.

    Args:
        plan: replicas by partition.
        live: the brokers that are registered.
        version: of the tool.
    """
    dead = list(dict.fromkeys(broker for replicas in plan.values() for broker in replicas if broker not in live))
    if not dead or "brokers" not in version.tools.reassignment_checks:
        return None
    if asks_brokers(version):
        return f"Unknown broker id {dead[0]}"
    return f"The proposed assignment contains non-existent brokerIDs: {','.join(map(str, dead))}"


def refuse(what: str | None) -> None:
    """Raise a ConfigError where the tool has a reason."""
    if what is not None:
        raise ConfigError(what, where="reassignment", right="one list of distinct brokers for each partition")


def _repeated(items: Sequence[Item]) -> list[Item]:
    if len(set(items)) == len(items):
        return []
    return [item for item, times in Counter(items).items() if times > 1]


def document(plan: Plan, version: KafkaVersion, *, proposed: bool) -> str:
    """The JSON that the tool prints for a plan.

    Args:
        plan: replicas by partition.
        version: of the tool.
        proposed: whether it is what the tool proposes, and not what it found; that decides the order before 2.6.
    """
    if asks_brokers(version):
        ordered: Iterable[TopicPartition] = sorted(plan)
    elif proposed:
        ordered = mutable_partitions(plan, version.orders.collections)
    else:
        ordered = partition_set(plan, version.orders.collections)
    entries = []
    for partition in ordered:
        entry: dict[str, object] = {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(plan[partition]),
        }
        if version.broker.survives_log_dir_failure:  # KIP-112 and KIP-113, 1.0
            entry["log_dirs"] = [ANY_LOG_DIR] * len(plan[partition])
        entries.append(entry)
    return write({"version": 1, "partitions": entries}).decode()


def propose(
    current: Plan,
    assign: Callable[[int, int], Mapping[int, Sequence[int]]],
    version: KafkaVersion,
    new_partition: Callable[[str, int], TopicPartition],
) -> Proposal:
    """What `--generate` prints.

    Args:
        current: the present assignment of the topics that are to move.
        assign: draws a placement of so many partitions with so many replicas.
        version: of the tool.
        new_partition: makes the name of a partition.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in current:
        by_topic.setdefault(partition.topic, []).append(partition)
    proposed = {
        new_partition(topic, number): tuple(replicas)
        for topic, partitions in by_topic.items()
        for number, replicas in sorted(assign(len(partitions), len(current[partitions[0]])).items())
    }
    found, wanted = document(current, version, proposed=False), document(proposed, version, proposed=True)
    text = f"Current partition replica assignment\n{found}\n\nProposed partition reassignment configuration\n{wanted}\n"
    return Proposal(found, wanted, text)


def status(
    plan: Plan, present: Mapping[TopicPartition, ReplicaAssignment], in_znode: Iterable[TopicPartition],
    version: KafkaVersion,
) -> str:  # fmt: skip
    """What `--verify` prints of partitions.

    Args:
        plan: the document's.
        present: what stands in the topics' znodes.
        in_znode: the partitions that `/admin/reassign_partitions` names; looked at by the tool before 2.6.
        version: of the tool.
    """
    if asks_brokers(version):
        lines = [_line(p, plan[p], present.get(p), version) for p in sorted(plan)]
        return "\n".join(["Status of partition reassignment:", *lines])
    moving = dict.fromkeys(in_znode)
    lines = []
    for partition, target in plan.items():
        assignment = present.get(partition)
        if partition in moving:
            lines.append(f"Reassignment of partition {partition} is still in progress")
        elif assignment is not None and assignment.replicas == target:
            lines.append(f"Reassignment of partition {partition} completed successfully")
        else:
            lines.append(f"Reassignment of partition {partition} failed")
    blank = " " if version.number >= (0, 10, 1) else ""
    return "\n".join([f"Status of partition reassignment:{blank}", *lines])


def _line(
    partition: TopicPartition, target: tuple[int, ...], assignment: ReplicaAssignment | None, version: KafkaVersion
) -> str:
    if assignment is not None and assignment.being_reassigned:
        return f"Reassignment of partition {partition} is still in progress."
    replicas = () if assignment is None else assignment.replicas
    if replicas == target:
        done = "completed" if version.number >= COMPLETED_SINCE else "complete"
        return f"Reassignment of partition {partition} is {done}."
    told, wanted = (",".join(map(str, ids)) for ids in (replicas, target))
    return f"There is no active reassignment of partition {partition}, but replica set is {told} rather than {wanted}."


if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import ReplicaAssignment, TopicPartition

    Present = Mapping[TopicPartition, ReplicaAssignment]

KNOWN_SINCE = (0, 10, 1)
RATES = BROKER_THROTTLES[:2]


def throttles(plan: Plan, present: Present, rate: int, version: KafkaVersion) -> list[AlterConfigRequest]:
    """The changes of configuration, in the order in which the tool makes them.

    Args:
        plan: the replicas that are wanted.
        present: what stands in the znodes of the plan's topics, of all their partitions.
        rate: bytes a second.
        version: of the tool.

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
        names = list(dict.fromkeys(partition.topic for partition in plan))
        leads = {
            name: sorted(f"{p.partition}:{b}" for p in plan if p.topic == name for b in before[p]) for name in names
        }
        taken = {p: [b for b in plan[p] if b not in before[p]] for p in plan}
        follows = {
            name: sorted(f"{p.partition}:{b}" for p in plan if p.topic == name for b in taken[p]) for name in names
        }
        brokers = sorted({broker for p in plan for broker in (*before[p], *plan[p])})
        return [*_of_topics(leads, follows), *_of_brokers(brokers, rate)]
    existing, wanted = (
        list(partition_set(present, version.orders.collections)),
        list(partition_set(plan, version.orders.collections)),
    )
    names = list(dict.fromkeys(partition.topic for partition in wanted))
    moving = [p for p in existing if p in plan and not set(plan[p]) <= set(present[p].replicas)]
    leads = {
        name: [f"{p.partition}:{b}" for p in moving if p.topic == name for b in present[p].replicas] for name in names
    }
    follows = {
        name: [f"{p.partition}:{b}" for p in wanted if p.topic == name for b in plan[p] if b not in present[p].replicas]
        for name in names
    }
    of_all = [broker for p in existing for broker in present[p].replicas]
    brokers = list(dict.fromkeys([*of_all, *(broker for p in wanted for broker in plan[p])]))
    topics_first = version.number >= (0, 11, 0)
    of_topics, of_brokers = _of_topics(leads, follows), _of_brokers(brokers, rate)
    return [*of_topics, *of_brokers] if topics_first else [*of_brokers, *of_topics]


def _of_topics(leads: Mapping[str, list[str]], follows: Mapping[str, list[str]]) -> list[AlterConfigRequest]:
    return [
        AlterConfigRequest(
            f"topics/{name}", dict(zip(TOPIC_THROTTLES, (",".join(leads[name]), ",".join(follows[name])), strict=True))
        )
        for name in leads
    ]


def _of_brokers(brokers: list[int], rate: int) -> list[AlterConfigRequest]:
    return [AlterConfigRequest(f"brokers/{broker}", dict.fromkeys(RATES, str(rate))) for broker in brokers]
