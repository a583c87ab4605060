"""What `kafka-reassign-partitions --throttle` writes (ReassignPartitionsCommand; KIP-73); `--verify` takes it away.

Rules of the module:
  - the rate stands in the configuration of every broker that takes part, the replicas that it holds for in that of the
    topics: `partition:broker`, those that may lead while the data moves, and those that are moved to;
  - the tool that works in ZooKeeper (0.10.1 to 2.5) writes topics before brokers (up to 0.10.2 brokers first), counts
    every broker of a topic that moves, and lists replicas in the order of Scala's maps; the one that asks brokers (2.6
    and later) counts the partitions that move, and sorts;
  - it only says how fast data may move. Records have no size here: nothing moves slower for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.controller.scala_set import partition_set
from simzk.kafka.protocol import AlterConfigRequest
from simzk.kafka.reassign_tool import BROKER_THROTTLES, TOPIC_THROTTLES, asks_brokers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.reassign_tool import Plan
    from simzk.kafka.release_profile import KafkaVersion
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
    >>> from simzk.kafka.versions import kafka_version
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
    existing, wanted = list(partition_set(present, version.collections)), list(partition_set(plan, version.collections))
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
