"""Timing of brokers that in a real cluster is chance, as inputs of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.topic_partition import TopicPartition


@dataclass
class BrokerTiming:
    """Decisions about time that depend on the machines and threads of a real cluster.

    By default the simulation decides: by the typical times of real brokers, or by its seed.

    Attributes:
        first_fetch_us: returns how long a new fetcher of a broker takes to start, in µs; None for the typical time.
        reconnect_pause_us: returns the pause in µs before a broker reconnects to ZooKeeper; None for a random one.
        may_join_isr: returns whether a leader may add a follower to the ISR now (partition, id of the follower). If
            not, the leader considers the follower again at its next fetch.
        answer_pause_us: returns how long a resumed broker works until it answers a LeaderAndIsr with a new replica, in
            µs.
        announces_isr_changes: whether the leaders of 0.9 to 2.6 announce ISR changes by their own timers, every 2.5 s;
            otherwise only in `KafkaCluster.announce_isr_changes`.
        checks_isrs: whether leaders check for lagging followers by their own timers; otherwise only in
            `KafkaCluster.check_isrs`.
        election_head_start_us: how much slower than the preferred broker all others are in a controller election, in
            µs; the preferred one must win, and a controller that fails at once must find the others waiting.
        registration_pause_us: returns how long a broker that starts or has a new session waits before it registers, in
            µs; None for the typical time.
        failed_start_us: returns how long a broker whose start fails keeps its session, in µs: until its parts have shut
            down, the client last; None for the typical time.
        restarts_brokers: whether a broker whose start fails is started again after a second.
    """

    first_fetch_us: Callable[[int], int | None] | None = None
    reconnect_pause_us: Callable[[int], int | None] | None = None
    may_join_isr: Callable[[TopicPartition, int], bool] | None = None
    registration_pause_us: Callable[[int], int | None] | None = None
    answer_pause_us: Callable[[int], int] | None = None
    announces_isr_changes: bool = True
    checks_isrs: bool = True
    election_head_start_us: int = 50_000
    failed_start_us: Callable[[int], int | None] | None = None
    restarts_brokers: bool = True
