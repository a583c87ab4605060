"""A directory that a real ZooKeeper 3.9.5 wrote, read without Java: the tree, and each record as its tools print it.

`python -m tests.conformance.data_directory_story tests/zookeeper/persistence/data/real` records it anew.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.data_directory import DataDirectory
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.persistence import Restoration, SnapshotReader, TransactionLogReader
from tests.conformance.data_directory_story import CONFIG, copy_directory, dump_of
from tests.conformance.java_tools import log_by_simzk, sessions_sorted, snapshot_by_simzk

RECORDED = Path(__file__).parent / "data" / "real"
FILES = sorted(path.name for path in (RECORDED / "version-2").iterdir())
SNAPSHOTS = [name for name in FILES if name.startswith("snapshot.")]
EXPECTED = json.loads((RECORDED / "tree.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_each_file_reads_as_the_real_tools_print_it(name: str) -> None:
    path = RECORDED / "version-2" / name
    ours = log_by_simzk(path) if name.startswith("log.") else sessions_sorted(snapshot_by_simzk(path))
    assert ours == (RECORDED / "printed" / f"{name}.txt").read_bytes().decode("utf-8")


def test_the_record_holds_every_kind_of_transaction() -> None:
    seen: set[type] = set()
    for name in FILES:
        if name.startswith("log."):
            with (RECORDED / "version-2" / name).open("rb") as stream:
                for entry in TransactionLogReader(stream):
                    record = entry.transaction.record
                    seen.add(type(record))
                    seen.update(map(type, record.records if isinstance(record, txns.MultiTxn) else ()))
                    assert (entry.tree_digest is None) == isinstance(record, txns.ErrorTxn)
    assert seen == set(get_args(txns.Record))


def test_it_boots_to_the_tree_that_a_client_read(tmp_path: Path) -> None:
    copy_directory(RECORDED, tmp_path / "data")
    with closing(DataDirectory(tmp_path / "data", Storage(fsync=False))) as directory:
        server = directory.load(CONFIG, now_ms=0)
        server.check()
        assert directory.losses == []
        assert dump_of(server.tree) == EXPECTED


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_from_each_snapshot_the_logs_lead_to_the_same_tree(name: str) -> None:
    """Restore a fuzzy snapshot with any part of the later changes; every digest on the way is the real server's."""
    restoration = Restoration()
    with (RECORDED / "version-2" / name).open("rb") as stream:
        assert restoration.load(SnapshotReader(stream), int(name.partition(".")[2], 16)) is None
    for log in sorted(path for path in FILES if path.startswith("log.")):
        with (RECORDED / "version-2" / log).open("rb") as stream:
            for entry in TransactionLogReader(stream):
                restoration.replay(entry)
    assert restoration.mismatch_zxid is None
    assert dump_of(restoration.tree) == EXPECTED
