"""Files of a ZooKeeper data directory as bytes, without IO: transaction logs, snapshots, the digest of a tree.

Reading a log: `TransactionLogReader`; a snapshot: `SnapshotReader`; both into a tree: `Restoration`.
Writing: `encode_log_entry` behind `LOG_HEADER`, `encode_snapshot`, with a `TreeDigest` updated with the tree.
"""

from simzk.zookeeper.persistence.files import Damage, DamageKind, Readable
from simzk.zookeeper.persistence.records import LogEntry
from simzk.zookeeper.persistence.restore import Restoration
from simzk.zookeeper.persistence.snapshot import SnapshotDigest, SnapshotReader, TreeDigest, encode_snapshot
from simzk.zookeeper.persistence.transaction_log import (
    LOG_HEADER,
    MAX_ENTRY_BYTES,
    TransactionLogReader,
    encode_log_entry,
)
from simzk.zookeeper.transactions import touched_paths

__all__ = [
    "LOG_HEADER",
    "MAX_ENTRY_BYTES",
    "Damage",
    "DamageKind",
    "LogEntry",
    "Readable",
    "Restoration",
    "SnapshotDigest",
    "SnapshotReader",
    "TransactionLogReader",
    "TreeDigest",
    "encode_log_entry",
    "encode_snapshot",
    "touched_paths",
]
