"""Replication quotas of one broker: how fast throttled replicas are copied (ReplicationQuotaManager; KIP-73).

Rules of this module (0.10.1 and later):
  - a topic's configuration names its throttled replicas, a broker's configuration how many bytes it may copy in a
    second: as leader what it sends to followers, as follower what it receives;
  - only a replica out of sync is held back, and only while the quota is exceeded (`shouldLeaderThrottle`,
    `shouldFollowerThrottle`): the leader sends it no records, the follower leaves it out of its fetches. A replica in
    sync goes on, and its bytes count as well;
  - the rate is that of the last windows, from the beginning of the oldest; the first window counts in full length
    (SimpleRate);
  - every response to a follower counts a few bytes, also without records. So a quota of 1 byte/s holds throttled
    replicas back for ever, which Kafka's own tests of reassignments rely on.

One thing is simpler than in Kafka: a broker reads its rates from ZooKeeper with the first throttled topic, not at its
start.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_long
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas.config import RATE_KEYS, REPLICAS_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.topic_partition import TopicPartition

WINDOWS_KEY, WINDOW_KEY = "replication.quota.window.num", "replication.quota.window.size.seconds"
"""Settings of 0.10.1 and later."""
MOVES_WINDOWS_KEY = "alter.log.dirs.replication.quota.window.num"
MOVES_WINDOW_KEY = "alter.log.dirs.replication.quota.window.size.seconds"
"""Settings of 1.1 and later, for moves between log directories."""
EMPTY_RESPONSE_BYTES = 16
"""Size of a Fetch response without partitions: 16 to 18 bytes, by version (FetchResponse.sizeOf)."""
_LISTED = re.compile(r"([0-9]{1,9}:[0-9]{1,9})?(,[0-9]{1,9}:[0-9]{1,9})*")  # ThrottledReplicaListValidator


@dataclass(slots=True)
class _Window:
    """One sample of the rate."""

    begin_us: int
    size_bytes: int


class ReplicationQuota:
    """How many bytes of throttled replicas a broker may send, or receive, in a second.

    Args:
        rate_key: the key of the limit in the broker's configuration.
        replicas_key: the key of the throttled replicas in a topic's configuration.
        windows_max: the number of windows (`replication.quota.window.num`).
        window_us: the length of a window (`replication.quota.window.size.seconds`).

    Attributes:
        limit: bytes in a second; None for no limit.

    >>> quota = ReplicationQuota(RATE_KEYS[0], REPLICAS_KEYS[0], windows_max=11, window_us=1_000_000)
    >>> quota.limit = 1_000
    >>> quota.record(0, 3_000)
    >>> [quota.is_exceeded(at_us) for at_us in (0, 2_999_999, 3_000_000)]
    [True, True, False]
    """

    def __init__(self, rate_key: str, replicas_key: str, windows_max: int, window_us: int) -> None:
        assert windows_max > 0, f"{windows_max} windows"
        assert window_us > 0, f"a window of {window_us} us"
        self.limit: int | None = None
        self.rate_key = rate_key
        self.replicas_key = replicas_key
        self._window_us = window_us
        self._windows_max = windows_max
        self._windows: deque[_Window] = deque()
        self._throttled: dict[str, frozenset[int] | None] = {}  # partitions by topic; None for all

    @property
    def has_topics(self) -> bool:
        """Whether a topic has throttled replicas here."""
        return bool(self._throttled)

    def is_throttled(self, partition: TopicPartition) -> bool:
        """Return whether the replica of a partition is throttled."""
        if partition.topic not in self._throttled:
            return False
        throttled = self._throttled[partition.topic]
        return throttled is None or partition.partition in throttled

    def throttle(self, topic: str, partitions: frozenset[int] | None) -> None:
        """Set the throttled partitions of a topic: some, none, or all (None)."""
        if partitions is not None and not partitions:
            self._throttled.pop(topic, None)
        else:
            self._throttled[topic] = partitions

    def record(self, now_us: int, size_bytes: int) -> None:
        """Count bytes of throttled replicas, also while there is no limit: one that is set later looks back."""
        assert size_bytes >= 0, f"{size_bytes} bytes"
        windows = self._windows
        if windows and now_us - windows[-1].begin_us < self._window_us:
            windows[-1].size_bytes += size_bytes
        else:
            windows.append(_Window(now_us, size_bytes))
            if len(windows) > self._windows_max:
                windows.popleft()

    def is_exceeded(self, now_us: int) -> bool:
        """Return whether the rate of the last windows is above the limit."""
        if self.limit is None:
            return False
        windows, kept_us = self._windows, self._window_us * self._windows_max
        while windows and now_us - windows[0].begin_us >= kept_us:
            windows.popleft()
        if not windows:
            return False
        elapsed_us = max(now_us - windows[0].begin_us, self._window_us)
        return sum(window.size_bytes for window in windows) * 1_000_000 > self.limit * elapsed_us


def moves_quota(version: KafkaVersion, config: BrokerConfig) -> ReplicationQuota:
    """Return the quota of moves between log directories, which knows no throttled replicas: it holds for all."""
    if MOVES_WINDOWS_KEY not in version.defaults:
        return ReplicationQuota("", "", 1, 1)
    return ReplicationQuota("", "", config.integer(MOVES_WINDOWS_KEY), config.integer(MOVES_WINDOW_KEY) * 1_000_000)


class ReplicationQuotas:
    """The quotas of one broker, as leader and as follower.

    Args:
        broker_id: the broker, whose replicas the topics' lists are searched for.
        version: its release.
        config: the number and the length of the windows.
    """

    def __init__(self, broker_id: int, version: KafkaVersion, config: BrokerConfig) -> None:
        has_quotas = WINDOWS_KEY in version.defaults
        windows_max = config.integer(WINDOWS_KEY) if has_quotas else 1
        window_us = config.integer(WINDOW_KEY) * 1_000_000 if has_quotas else 1
        self.leader, self.follower = (
            ReplicationQuota(rate_key, replicas_key, windows_max, window_us)
            for rate_key, replicas_key in zip(RATE_KEYS, REPLICAS_KEYS, strict=True)
        )
        self._has_quotas = has_quotas
        self._broker_id = broker_id
        self._rates_known = False

    @property
    def needs_rates(self) -> bool:
        """Whether a topic is throttled and the broker's configuration has not been read."""
        return not self._rates_known and (self.leader.has_topics or self.follower.has_topics)

    def set_rates(self, values: Mapping[str, str]) -> None:
        """Set the limits by the broker's configuration; without a key there is none.

        Raises:
            ZnodeError: a rate is no number; nothing is changed.
        """
        quotas = self.leader, self.follower
        texts = [values.get(quota.rate_key) for quota in quotas]
        limits = [None if text is None else self._rate(quota, text) for quota, text in zip(quotas, texts, strict=True)]
        self._rates_known = True
        for quota, limit in zip(quotas, limits, strict=True):
            quota.limit = limit

    def _rate(self, quota: ReplicationQuota, text: str) -> int:
        rate = parse_long(text)
        if rate is None:
            where = paths.config(f"brokers/{self._broker_id}")
            raise ZnodeError(f"{quota.rate_key} is {text}", where=where, right="a number of bytes per second")
        return rate

    def set_topic(self, topic: str, values: Mapping[str, str]) -> None:
        """Set the throttled replicas of a topic by its configuration (TopicConfigHandler.parseThrottledPartitions).

        Raises:
            ZnodeError: a list is neither `*` nor `partition:broker,...`; the topic keeps what it had.
        """
        if not self._has_quotas:
            return
        quotas = self.leader, self.follower
        lists = [self._own(quota, topic, values.get(quota.replicas_key, "").strip()) for quota in quotas]
        for quota, partitions in zip(quotas, lists, strict=True):
            quota.throttle(topic, partitions)

    def _own(self, quota: ReplicationQuota, topic: str, text: str) -> frozenset[int] | None:
        """Return the partitions of a list whose replica on this broker is throttled; None for all."""
        if text == "*":
            return None
        if not _LISTED.fullmatch(text):
            where, right = paths.config(f"topics/{topic}"), "* or a list such as 0:1,0:2"
            raise ZnodeError(f"{quota.replicas_key} is {text}", where=where, right=right)
        pairs = [entry.split(":") for entry in text.split(",") if entry]
        return frozenset(int(partition) for partition, broker in pairs if int(broker) == self._broker_id)
