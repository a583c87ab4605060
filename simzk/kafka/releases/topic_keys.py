"""The keys that a topic's configuration may have, by release (LogConfig.configNames of each release's last tag)."""

from __future__ import annotations

from typing import Final

_SINCE: Final[tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...]] = (
    (
        (0, 8, 1),
        (
            *("cleanup.policy", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms"),
            *("index.interval.bytes", "max.message.bytes", "min.cleanable.dirty.ratio", "retention.bytes"),
            *("retention.ms", "segment.bytes", "segment.index.bytes", "segment.ms"),
        ),
    ),
    ((0, 8, 2), ("min.insync.replicas", "segment.jitter.ms", "unclean.leader.election.enable")),
    ((0, 9, 0), ("compression.type", "preallocate")),
    ((0, 10, 0), ("message.format.version", "message.timestamp.difference.max.ms", "message.timestamp.type")),
    (
        (0, 10, 1),
        (
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "min.compaction.lag.ms",
        ),
    ),
    ((2, 0, 0), ("message.downconversion.enable",)),
    ((2, 3, 0), ("max.compaction.lag.ms",)),
    ((3, 0, 0), ("local.retention.bytes", "local.retention.ms", "remote.storage.enable")),
    ((3, 6, 0), ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")),
    ((3, 8, 0), ("compression.gzip.level", "compression.lz4.level", "compression.zstd.level")),
    ((3, 9, 0), ("remote.log.copy.disable", "remote.log.delete.on.disable")),
)


def keys_of(release: tuple[int, int, int]) -> frozenset[str]:
    """The keys that a release knows.

    >>> "min.insync.replicas" in keys_of((0, 8, 1)), "min.insync.replicas" in keys_of((0, 8, 2))
    (False, True)
    """
    return frozenset(key for since, keys in _SINCE if since <= release for key in keys)
