"""Data directories by settings of zoo.cfg: compression, preallocation, purge, digests."""

from __future__ import annotations

import gzip
import random
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.data_directory import DataDirectory, padded_size
from simzk.serve.storage.directory_reader import Numbered, purgeable_files
from simzk.snappy import STREAM_HEAD, SnappyError, Unpacker, pack_block, unpack_block
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.persistence import SnapshotReader, TransactionLogReader
from simzk.zookeeper.transactions import CloseSessionTxn

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = ServerConfig()
NEW_SESSION = req.ConnectRequest(0, 0, 10_000, 0, None, False)


def lived(path: Path, storage: Storage, count: int = 3) -> list[str]:
    """Run a server that creates some znodes, one batch each; return the names of its files."""
    with closing(DataDirectory(path, storage)) as directory:
        server = directory.load(CONFIG, 1000)
        connection = server.connect(NEW_SESSION, 1000)
        server.handle(connection, 1, req.Create("/e", b"", req.OPEN_ACL, 1), 1000)
        for number in range(count):
            server.handle(connection, 1, req.Create(f"/{number}-{server.zxid}", b"x" * 100, req.OPEN_ACL, 0), 1000)
            directory.sync()
        server.handle(connection, 1, req.CloseSession(), 1000)
    return sorted(file.name for file in (path / "version-2").iterdir())


def tree_of(path: Path, storage: Storage) -> list[str]:
    with closing(DataDirectory(path, storage)) as directory:
        tree = directory.load(CONFIG, 1).tree
        assert directory.losses == []
        return [name for name, _ in tree.walk()]


@pytest.mark.parametrize(("compression", "magic"), [("", b"ZKSN"), ("gz", b"\x1f\x8b"), ("snappy", b"\x82SNAPPY\x00")])
def test_snapshots_are_packed_as_asked_and_read_back(tmp_path: Path, compression: str, magic: bytes) -> None:
    storage = Storage(fsync=False, compression=compression)  # type: ignore[arg-type]  # one of these
    lived(tmp_path, storage)
    whole = tree_of(tmp_path, storage)
    newest = max((tmp_path / "version-2").glob("snapshot.*"), key=lambda file: file.name)
    assert newest.suffix == (f".{compression}" if compression else ".6")
    assert newest.read_bytes().startswith(magic)
    for log in (tmp_path / "version-2").glob("log.*"):
        log.unlink()
    assert tree_of(tmp_path, Storage(fsync=False)) == whole


def test_a_packed_snapshot_that_is_cut_is_passed_over(tmp_path: Path) -> None:
    storage = Storage(fsync=False, compression="snappy")
    lived(tmp_path, storage)
    tree_of(tmp_path, storage)
    newest = max((tmp_path / "version-2").glob("snapshot.*"), key=lambda file: file.name)
    newest.write_bytes(newest.read_bytes()[:-3])
    with closing(DataDirectory(tmp_path, storage)) as directory:
        directory.load(CONFIG, 1)
        assert [loss.file for loss in directory.losses] == [newest]


def test_a_log_grows_by_steps_and_ends_where_it_is_written(tmp_path: Path) -> None:
    storage = Storage(fsync=False, log_step_kib=8)
    lived(tmp_path, storage, 60)
    (log,) = (tmp_path / "version-2").glob("log.*")
    assert log.stat().st_size == 16 + 3 * 8192
    assert log.read_bytes().endswith(bytes(4096))
    assert len(tree_of(tmp_path, storage)) == 4 + 60


@pytest.mark.parametrize(
    ("position", "size", "step", "padded"),
    [(16, 16, 100, 116), (16, 116, 0, 116), (16, 9000, 100, 9000), (5000, 9000, 100, 9100), (9050, 9000, 100, 9100)],
)
def test_padding_is_the_real_servers(position: int, size: int, step: int, padded: int) -> None:
    # FilePadding.calculateFileSizeWithPadding: near the end a step more, behind it the next multiple.
    assert padded_size(position, size, step) == padded


def test_a_log_that_is_full_is_followed_by_another(tmp_path: Path) -> None:
    names = lived(tmp_path, Storage(fsync=False, log_limit_kib=1), 20)
    assert len([name for name in names if name.startswith("log.")]) > 2
    assert len(tree_of(tmp_path, Storage(fsync=False))) == 4 + 20


def test_snapshots_come_by_the_size_of_logs_too(tmp_path: Path) -> None:
    names = lived(tmp_path, Storage(fsync=False, snap_limit_kib=2), 40)
    assert len([name for name in names if name.startswith("snapshot.")]) > 2


def test_logs_without_a_snapshot_are_believed_where_asked(tmp_path: Path) -> None:
    lived(tmp_path, Storage(fsync=False))
    (tmp_path / "version-2" / "snapshot.0").unlink()
    with pytest.raises(ConfigError, match="transaction logs without a snapshot"):
        DataDirectory(tmp_path, Storage(fsync=False)).load(CONFIG, 1)
    assert len(tree_of(tmp_path, Storage(fsync=False, trusts_empty=True))) == 4 + 3


def test_a_folder_that_is_not_to_be_made_is_missed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the folder does not exist"):
        DataDirectory(tmp_path / "data", Storage(makes_folders=False)).load(CONFIG, 1)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("digests", "tells_zxid"), [(False, False), (False, True), (True, False)])
def test_parts_can_be_left_out(tmp_path: Path, digests: bool, tells_zxid: bool) -> None:
    storage = Storage(fsync=False, digests=digests, tells_zxid=tells_zxid, names_ephemerals=False)
    lived(tmp_path, storage)
    folder = tmp_path / "version-2"
    with (folder / "log.1").open("rb") as stream:
        entries = list(TransactionLogReader(stream))
    assert {entry[1] is not None for entry in entries} == {digests}
    assert entries[-1].transaction.record == CloseSessionTxn(())
    assert "/e" not in tree_of(tmp_path, storage)
    with (folder / "snapshot.6").open("rb") as stream:
        snapshot = SnapshotReader(stream)
        assert len(list(snapshot)) == 4 + 3
    assert (snapshot.digest is not None, snapshot.last_zxid) == (digests, 6 if tells_zxid else None)


def test_older_files_are_purged_at_the_start(tmp_path: Path) -> None:
    for _ in range(5):
        lived(tmp_path, Storage(fsync=False))
    storage = Storage(fsync=False, purge_interval_h=1, snapshots_kept=3)
    with closing(DataDirectory(tmp_path, storage)) as directory:
        directory.load(CONFIG, 1)
        left = sorted(
            (file.name for file in (tmp_path / "version-2").iterdir()), key=lambda name: (name[0], len(name), name)
        )
    assert left == ["log.7", "log.d", "log.13", "log.19", "snapshot.c", "snapshot.12", "snapshot.18", "snapshot.1e"]


def test_what_a_purge_leaves_can_be_booted_from(tmp_path: Path) -> None:
    chance = random.Random(7)
    snapshots: list[Numbered] = []
    logs: list[Numbered] = []
    for zxid in sorted(chance.sample(range(1, 200), 30)):
        kind = chance.choice((snapshots, logs))
        path = tmp_path / f"{'snapshot' if kind is snapshots else 'log'}.{zxid:x}"
        path.write_bytes(bytes(20) + b"\0\0\0\1/" if zxid % 5 else b"")
        kind.append(Numbered(zxid, path))
    for kept in range(3, 12):
        gone = set(purgeable_files(snapshots, logs, kept))
        whole = [one.zxid for one in snapshots if one.zxid % 5][-kept:]
        assert {one.zxid for one in snapshots if one.path not in gone} >= set(whole)
        assert all(one.path in gone for one in snapshots if one.zxid < whole[0])
        held = [one.zxid for one in logs if one.path not in gone]
        assert held == [one.zxid for one in logs if one.zxid >= max(n.zxid for n in logs if n.zxid <= whole[0])]
    assert purgeable_files([], logs, 3) == []


@pytest.mark.parametrize("alphabet", [b"a", b"ab", b"/brokers0123456789", bytes(range(256))])
def test_snappy_gives_back_what_was_packed(alphabet: bytes) -> None:
    chance = random.Random(len(alphabet))
    for size in (0, 1, 3, 4, 59, 60, 61, 255, 256, 257, 5000, 32768, 65536):
        data = bytes(chance.choice(alphabet) for _ in range(size))
        packed = pack_block(data)
        assert unpack_block(packed) == data
        assert len(packed) <= size + size // 256 + 10


# Made by the reference implementation, with copies of all three kinds and one that repeats itself.
@pytest.mark.parametrize(
    ("packed", "data"),
    [
        (b"\x00", b""),
        (b"\x10\x0cabcd.\x04\x00", b"abcd" * 4),
        (b"\x0c\x0cabcd\x11\x04", b"abcd" * 3),
        (b"\x0c\x0cabcd\x1f\x04\x00\x00\x00", b"abcd" * 3),
        (b"\x05\xf0\x04hello", b"hello"),
    ],
)
def test_snappy_blocks_of_others(packed: bytes, data: bytes) -> None:
    assert unpack_block(packed) == data


@pytest.mark.parametrize(
    "packed",
    [b"", b"\x05", b"\x05\x10hell", b"\x04\x01\x04", b"\x04\x0cabcd\x01", b"\xff\xff\xff\xff\xff\x01", b"\x01\x04ab"],
)
def test_what_is_no_snappy_is_refused(packed: bytes) -> None:
    with pytest.raises(SnappyError):
        unpack_block(packed)


def test_a_stream_may_come_byte_by_byte() -> None:
    block = pack_block(b"abcdabcd")
    stream = STREAM_HEAD + len(block).to_bytes(4, "big") + block
    unpacker = Unpacker()
    assert b"".join(unpacker.feed(stream[at : at + 1]) for at in range(len(stream))) == b"abcdabcd"
    with pytest.raises(SnappyError):
        Unpacker().feed(gzip.compress(b"abcdabcd"))
