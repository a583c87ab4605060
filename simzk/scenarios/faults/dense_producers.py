"""Producers that send records all the time, to all partitions: many small batches meet every fault.

Rules of this module:
  - they begin with the run and end with it; `[faults.traffic] every` is the mean time from one batch to the next;
  - one in `STALE_IN` requests goes to any broker, as that of a producer with old metadata, and one in `LEADER_ACKS_IN`
    asks for acks of the leader only, all others for acks of all in the ISR;
  - all numbers are drawn from a stream of their own, so that the faults of a seed are the same with and without them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.cluster.producer import Acks

TIMEOUT_MS: Final = 10_000
STALE_IN: Final = 4
LEADER_ACKS_IN: Final = 6
_COMPONENT: Final = "producers"


class DenseProducers:
    """Producers of a cluster, from now on.

    Args:
        cluster: the cluster.
        partitions: number of partitions by topic.
        mean_gap_us: virtual time from one batch to the next, on average.
    """

    def __init__(self, cluster: KafkaCluster, partitions: Mapping[str, int], mean_gap_us: int) -> None:
        assert mean_gap_us > 0
        self._cluster, self._mean_gap_us = cluster, mean_gap_us
        self._partitions = [(topic, number) for topic, count in partitions.items() for number in range(count)]
        self._stream = cluster.scheduler.stream(_COMPONENT)
        self._wait()

    def _wait(self) -> None:
        self._cluster.scheduler.call_later(self._stream.between(1_000, 2 * self._mean_gap_us), _COMPONENT, self._send)

    def _send(self) -> None:
        cluster, stream = self._cluster, self._stream
        topic, partition = self._partitions[stream.below(len(self._partitions))]
        brokers = list(cluster.brokers)
        broker = brokers[stream.below(len(brokers))] if not stream.below(STALE_IN) else None
        acks: Acks = 1 if not stream.below(LEADER_ACKS_IN) else "all"
        records = stream.between(1, 3)
        with contextlib.suppress(SimzkError):  # the topic does not exist now
            cluster.produce(topic, partition, records, acks=acks, timeout_ms=TIMEOUT_MS, broker=broker)
        self._wait()
