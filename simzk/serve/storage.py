"""What may be set about how a server's tree is kept on disk, by the names and defaults of zoo.cfg."""

from __future__ import annotations

from typing import Literal

from simzk.tuples import NamedTuple


class Storage(NamedTuple):
    """How a data directory is written, and what is made of one that is found.

    Attributes:
        fsync: whether what is acknowledged is forced to the disk (forceSync).
        slow_fsync_ms: what takes longer is counted as slow (fsync.warningthresholdms).
        log_step_kib: logs grow by so much at once, filled with zeros; 0 for as they are written (preAllocSize).
        log_limit_kib: a log that is longer is followed by another; 0 or less for no limit (txnLogSizeLimitInKb).
        snap_count: a snapshot is made every snap_count/2 to snap_count transactions, 2 or more (snapCount).
        snap_limit_kib: or every so much of logs, half of it at least; 0 or less for no limit (snapSizeLimitInKb).
        compression: how snapshots are packed (snapshot.compression.method).
        trusts_empty: whether logs without any snapshot begin with an empty tree (snapshot.trust.empty).
        makes_folders: whether folders that are not there are made (datadir.autocreate).
        digests: whether the tree's digest is written, and compared (digest.enabled).
        names_ephemerals: whether the log names what the end of a session removes (closeSessionTxn.enabled).
        tells_zxid: whether a snapshot ends with the last zxid applied (serializeLastProcessedZxid.enabled).
        snapshots_kept: of those that are purged, so many newest ones are kept (autopurge.snapRetainCount).
        purge_interval_h: how often older snapshots and their logs are removed; 0 or less for never
            (autopurge.purgeInterval).
    """

    fsync: bool = True
    slow_fsync_ms: int = 1000
    log_step_kib: int = 0
    log_limit_kib: int = 0
    snap_count: int = 100_000
    snap_limit_kib: int = 4 * 1024 * 1024
    compression: Literal["", "gz", "snappy"] = ""
    trusts_empty: bool = False
    makes_folders: bool = True
    digests: bool = True
    names_ephemerals: bool = True
    tells_zxid: bool = True
    snapshots_kept: int = 3
    purge_interval_h: int = 0
