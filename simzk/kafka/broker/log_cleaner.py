"""Periodic work on the logs of one broker: old segments are deleted, dirty logs compacted, old producers forgotten.

Rules of this module (LogManager.cleanupLogs, LogCleaner.CleanerThread; docs/reference/kafka.md §2.21):
  - old segments of logs that are not compacted are deleted every `log.retention.check.interval.ms`, for the first time
    30 s after the broker has started. Leaders and followers each do so by themselves;
  - the cleaner looks for dirty logs at the start and every `log.cleaner.backoff.ms`, and compacts them, the dirtiest
    one first. Then it deletes old segments of compacted logs whose `cleanup.policy` contains `delete` too;
  - idempotent producers are forgotten `producer.id.expiration.ms` after their last batch, up to 3.3
    `transactional.id.expiration.ms` (KIP-854). It is looked for every 10 minutes, in Kafka by each log since it was
    opened, here by the broker since its start;
  - a broker without records of clients has nothing to look at, and no such timers. They begin with the first segment,
    at the times at which they would have been due;
  - without `log.cleaner.enable`, the default up to 0.9.0.0, compacted logs stay as they are;
  - logs of 0.8.0, which has no such settings, are kept for ever;
  - a compaction takes no time: no request sees one half done in a real broker either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.kafka.log.compaction import dirty_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.configs import TopicConfigs
    from simzk.kafka.broker.replica_logs import Replica, ReplicaLogs
    from simzk.kafka.log.compaction import DirtyPart
    from simzk.kafka.releases.profile import LogRules
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.simulation import Process

RETENTION_STARTS_US = 30_000_000
"""LogManager.InitialTaskDelayMs."""
_CHECK_INTERVAL, _CLEANER_INTERVAL = "log.retention.check.interval.ms", "log.cleaner.backoff.ms"
_EXPIRATION, _OLD_EXPIRATION = "producer.id.expiration.ms", "transactional.id.expiration.ms"
_EXPIRATION_INTERVAL = "producer.id.expiration.check.interval.ms"
_INTERVAL_BEFORE_SETTING_US = 600_000_000
"""LogManager.ProducerIdExpirationCheckIntervalMs, up to 3.3 no setting."""


@dataclass(eq=False)
class LogCleaner:
    """Retention and compaction of one broker's logs, from the start of its process to the end.

    Args:
        process: the broker's process.
        replicas: its logs.
        configs: the configuration of topics.
        config: how often the logs are looked at, and whether they are compacted.
        rules: rules of the release.
        now_ms: returns the present time, in ms since 1970.
    """

    process: Process
    replicas: ReplicaLogs
    configs: TopicConfigs
    config: BrokerConfig
    rules: LogRules
    now_ms: Callable[[], int]
    _started_us: int = field(default=0, init=False)
    _has_begun: bool = field(default=False, init=False)

    def start(self) -> None:
        """Begin to look at the logs: the broker has started."""
        self._started_us = self.process.scheduler.now_us
        self.replicas.on_first_segment = self._begin
        if self.replicas.with_segments():
            self._begin()

    def _begin(self) -> None:
        if self._has_begun or _CHECK_INTERVAL not in self.config.keys:
            return
        self._has_begun = True
        self._call_when_due(self._delete_periodically, RETENTION_STARTS_US, self._interval_us(_CHECK_INTERVAL))
        if self.config.boolean("log.cleaner.enable"):
            self._call_when_due(self._compact_periodically, 0, self._interval_us(_CLEANER_INTERVAL))
        if _OLD_EXPIRATION in self.config.keys:
            interval_us = self._expiration_interval_us()
            self._call_when_due(self._expire_periodically, interval_us, interval_us)

    def _call_when_due(self, work: Callable[[], None], first_us: int, interval_us: int) -> None:
        """Call a function at the next time after the start of the broker at which it is due."""
        passed_us = self.process.scheduler.now_us - self._started_us
        left_us = first_us - passed_us
        self.process.call_later(left_us if left_us >= 0 else left_us % interval_us, work)

    def _interval_us(self, key: str) -> int:
        """Return an interval; without one a real cleaner takes all the time that there is, here it takes some."""
        return max(1, self.config.integer(key)) * 1000

    def _delete_periodically(self) -> None:
        self._delete_old(compacted=False)
        self.process.call_later(self._interval_us(_CHECK_INTERVAL), self._delete_periodically)

    def _expiration_interval_us(self) -> int:
        is_setting = _EXPIRATION_INTERVAL in self.config.keys
        return self._interval_us(_EXPIRATION_INTERVAL) if is_setting else _INTERVAL_BEFORE_SETTING_US

    def _expire_periodically(self) -> None:
        """Forget idempotent producers that have sent nothing for long."""
        setting = _EXPIRATION if _EXPIRATION in self.config.keys else _OLD_EXPIRATION
        until_ms = self.now_ms() - self.config.integer(setting)
        for replica in self.replicas.with_segments():
            if replica.log.producers is not None:
                replica.log.producers.expire(until_ms)
        self.process.call_later(self._expiration_interval_us(), self._expire_periodically)

    def _compact_periodically(self) -> None:
        while (dirtiest := self._dirtiest()) is not None:
            self.replicas.compact(*dirtiest)
        self._delete_old(compacted=True)
        self.process.call_later(self._interval_us(_CLEANER_INTERVAL), self._compact_periodically)

    def _delete_old(self, *, compacted: bool) -> None:
        """Delete the old segments of logs that are, or are not, compacted."""
        for replica in self._replicas(compacted=compacted):
            self.replicas.delete_old_segments(replica)

    def _dirtiest(self) -> tuple[Replica, DirtyPart] | None:
        """Return the log that is to be compacted next, with its dirty part; None if no log is."""
        found: tuple[Replica, DirtyPart] | None = None
        for replica in self._replicas(compacted=True):
            config = self.configs.of_log(replica.partition.topic)
            dirty = dirty_part(replica.log, config, self.rules, self.now_ms())
            if dirty.is_due(config) and (found is None or dirty.ratio > found[1].ratio):
                found = replica, dirty
        return found

    def _replicas(self, *, compacted: bool) -> list[Replica]:
        of_log = self.configs.of_log
        return [one for one in self.replicas.with_segments() if of_log(one.partition.topic).compacts == compacted]
