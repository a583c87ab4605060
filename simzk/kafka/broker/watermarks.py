"""How far all in sync have a partition's log: the high watermark that its leader may set (Partition; §2.8).

Rules of the module (Partition.maybeIncrementLeaderHW; docs/reference/kafka.md §2.8):
  - the least log end of the ISR; while another ISR is asked for, of both;
  - from 0.10.2 on a follower that is not in the ISR but was caught up within `replica.lag.time.max.ms` counts as well,
    so that it can join; from 3.6 on only one that the leader believes to live;
  - it never falls by this. From 3.7 on it does not rise either while the ISR is smaller than `min.insync.replicas`
    (KAFKA-15583).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.replica_manager import Replica
    from simzk.kafka.release_profile import KafkaVersion


def least_log_end(
    replica: Replica, version: KafkaVersion, *, now_us: int, lag_max_us: int, is_alive: Callable[[int], bool]
) -> int:
    """How far everybody who counts has the log.

    Args:
        replica: the leader's own, with what it knows of its followers.
        version: its release.
        now_us: virtual time.
        lag_max_us: how long a follower may be behind.
        is_alive: whether the leader believes that a broker lives.
    """
    members = dict.fromkeys((*replica.state.isr, *(replica.proposed or ())))
    least = replica.log_end
    for follower, progress in replica.followers.items():
        if progress.log_end < least and (
            follower in members
            or (
                version.watermark_waits
                and now_us - progress.caught_up_us <= lag_max_us
                and (not version.watermark_waits_for_live or is_alive(follower))
            )
        ):
            least = progress.log_end
    return least
