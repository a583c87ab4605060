"""Order in which the followers of a broker that starts join ISRs (ReplicaManager.makeFollowers)."""

from __future__ import annotations

from itertools import permutations

from simzk.kafka.broker.fetching import order_added, order_fetched
from simzk.kafka.broker.replica_logs import Replica
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import LeaderAndIsr, TopicPartition

LEADERS = {("t", 2): (22, 5), ("t", 3): (22, 6), ("t", 4): (22, 7), ("w", 0): (21, 3)}
"""Leader and leader epoch of the partitions that real broker 11 of 0.10.2.2 followed when it started."""
JOINED = [TopicPartition("t", 4), TopicPartition("t", 2), TopicPartition("t", 3)]
"""The order in which leader 22 added it to ISRs."""


def local(broker: int) -> tuple[str, int]:
    """Return the endpoint of a recorded broker."""
    return "127.0.0.1", 24_090 + broker


def test_up_to_four_partitions_join_in_the_order_of_a_set_of_first_offsets() -> None:
    version = kafka_version("0.10.2.2")
    for given in permutations(LEADERS):
        added = {
            TopicPartition(*name): Replica(TopicPartition(*name), LeaderAndIsr(leader, epoch, (leader,), 1), ())
            for name, (leader, epoch) in ((name, LEADERS[name]) for name in given)
        }
        followed = [name for name in order_added(added, local, version) if LEADERS[name][0] == 22]
        assert order_fetched(followed, version.orders) == JOINED
