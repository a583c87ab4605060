"""Moves of logs between the directories of one broker (ReplicaAlterLogDirsThread; KIP-113).

Rules of this module (recorded 2.8 and 3.9):
  - the log is copied to a future log in the new directory, in parts as large as a fetch; when that has all records, it
    replaces the log. One partition is copied at a time, the first by topic and number, to its end;
  - while the bytes of the last windows exceed `replica.alter.log.dirs.io.max.bytes.per.second` of the broker's dynamic
    configuration, nothing is copied, and the rate is compared again after a second (`replica.fetch.backoff.ms`);
  - a future log outlives the process, and is continued by the next one.

One thing is simpler than in Kafka: a copy takes no time. A move without a limit is over at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.jvm.numbers import parse_long

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.log_dirs import LogDirs
    from simzk.kafka.broker.replica_logs import ReplicaLogs
    from simzk.kafka.broker.replication_quotas import ReplicationQuota
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Process

RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"
"""The limit in a broker's dynamic configuration."""
BACKOFF_US = 1_000_000


@dataclass(eq=False)
class LogDirMoves:
    """Moves of one broker, from the start of its process to the end.

    Args:
        log_dirs: its directories, with the future logs.
        quota: how many bytes it may copy in a second.
        fetch_bytes: size of the parts (`replica.fetch.max.bytes`).
        rate: returns the value of the limit's key; None if it is not set.
    """

    _process: Process
    _replicas: ReplicaLogs
    _log_dirs: LogDirs
    _quota: ReplicationQuota
    _fetch_bytes: int
    _rate: Callable[[], str | None]
    _is_waiting: bool = field(default=False, init=False)
    _current: TopicPartition | None = field(default=None, init=False)

    def go_on(self) -> None:
        """Copy what may be copied now: there is a future log, or a replica that has one was opened."""
        if self._is_waiting:
            return
        scheduler = self._process.scheduler
        while (partition := self._next()) is not None:
            self._quota.limit = parse_long(self._rate() or "")
            if self._quota.is_exceeded(scheduler.now_us):
                self._is_waiting = True
                self._process.call_later(BACKOFF_US, self._retry)
                return
            self._quota.record(scheduler.now_us, self._copy(partition))

    def _retry(self) -> None:
        assert self._is_waiting, "a retry follows a wait"
        self._is_waiting = False
        self.go_on()

    def _next(self) -> TopicPartition | None:
        """Return the partition whose log is copied next; None if there is none."""
        ready = [partition for partition in self._log_dirs.futures if partition in self._replicas.replicas]
        if self._current not in ready:
            self._current = min(ready, default=None)
        return self._current

    def _copy(self, partition: TopicPartition) -> int:
        """Copy the next part of a log, and replace the log if the copy is complete; return the size of the part."""
        log, future = self._replicas.replicas[partition].log, self._log_dirs.futures[partition]
        future.follow(log)
        batches = log.read(future.end, max_bytes=self._fetch_bytes, limit=log.segment_end(future.end))
        if batches:
            future.end = batches[-1].next_offset
        elif future.end < log.end:  # compaction has removed the rest of the segment
            future.end = log.segment_end(future.end)
        if future.end >= log.end:
            self._log_dirs.finish_move(partition)
            self._current = None
        return sum(batch.size_bytes for batch in batches)
