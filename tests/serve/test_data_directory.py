"""Data directories: acknowledged writes survive a killed process; unreadable directories are rejected."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.data_directory import DataDirectory
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import ConnectResponse
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.sessions import password_of
from tests.zookeeper.persistence.strategies import contents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server

CONFIG = ServerConfig()
NEW_SESSION = req.ConnectRequest(0, 0, 10_000, 0, None, False)


class Life:
    """One run of a server on a directory."""

    def __init__(self, path: Path, *, fsync: bool = False, snap_count: int = 100_000, now_ms: int = 1000) -> None:
        self.directory = DataDirectory(path, Storage(fsync=fsync, snap_count=snap_count))
        self.server: Server = self.directory.load(CONFIG, now_ms)
        self.now_ms = now_ms
        self.connection: Connection | None = None

    def do(self, *requests: req.Request) -> None:
        """Apply requests of one session, and write them to the disk."""
        if self.connection is None:
            self.connection = self.server.connect(NEW_SESSION, self.now_ms)
        for request in requests:
            self.server.handle(self.connection, 1, request, self.now_ms)
        self.directory.sync()
        self.server.take_output()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Folder of runs; files that they leave open are closed after the test."""
    lives.clear()
    yield tmp_path / "data"
    for life in lives:
        life.directory.close()


lives: list[Life] = []


def live(path: Path, **settings: object) -> Life:
    """Start a run that ends with the test; if it is killed before, its files are copied to `path`."""
    life = Life(path, **settings)  # type: ignore[arg-type]
    lives.append(life)
    return life


def killed(path: Path) -> Path:
    """Return a copy of the directory as a process killed now leaves it."""
    left = path.with_name(f"{path.name}-left")
    shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(path, left)
    return left


def create(path: str, data: bytes = b"", flags: int = 0) -> req.Create:
    return req.Create(path, data, OPEN_ACL, flags)


def names(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "version-2").iterdir())


@pytest.mark.parametrize("fsync", [True, False])
def test_what_was_acknowledged_survives(place: Path, fsync: bool) -> None:
    life = live(place, fsync=fsync)
    life.do(create("/a", b"x"), create("/e", b"", 1), create("/a"))
    life.do(req.SetData("/a", b"y", 0))
    again = live(killed(place))
    again.server.check()
    assert contents(again.server.tree) == contents(life.server.tree)
    assert again.server.zxid == life.server.zxid == 5
    assert again.server.sessions.timeouts_ms() == life.server.sessions.timeouts_ms()
    assert again.directory.losses == []


def test_each_transaction_is_on_disk_when_sync_returns(place: Path) -> None:
    life = live(place)
    for number in range(20):
        life.do(create(f"/{number}"))
        again = DataDirectory(killed(place))
        with closing(again):
            assert f"/{number}" in again.load(CONFIG, 1).tree


def test_a_session_goes_on_in_the_next_life(place: Path) -> None:
    life = live(place)
    life.do(create("/e", b"", 1))
    assert life.connection is not None
    session_id = life.connection.session_id
    again = live(killed(place), now_ms=90_000)
    taken = again.server.connect(req.ConnectRequest(0, 0, 10_000, session_id, password_of(session_id), False), 90_001)
    assert isinstance(taken.outgoing[0], ConnectResponse)
    assert taken.outgoing[0].session_id == session_id
    # From the boot on it has its whole timeout; then it ends, and its ephemeral with it.
    again.server.disconnect(taken)
    again.server.tick(99_000)
    assert "/e" in again.server.tree
    again.server.tick(104_001)
    assert "/e" not in again.server.tree


def test_files_are_named_as_the_real_server_names_them(place: Path) -> None:
    life = live(place)
    assert names(place) == ["snapshot.0"]
    life.do(*[create(f"/{number}") for number in range(20)])
    assert names(place) == ["log.1", "snapshot.0"]
    again = live(killed(place))
    assert names(again.directory.folder.parent) == ["log.1", "snapshot.0", "snapshot.15"]
    again.do(create("/more"))
    assert "log.16" in names(again.directory.folder.parent)


def test_snapshots_come_every_so_often(place: Path) -> None:
    life = live(place, snap_count=100)
    for number in range(400):
        life.do(create(f"/{number}"))
    zxids = [int(name.partition(".")[2], 16) for name in names(place) if name.startswith("snapshot.")]
    gaps = [later - earlier for earlier, later in zip(sorted(zxids), sorted(zxids)[1:], strict=False)]
    assert len(gaps) >= 3
    assert all(50 < gap <= 100 for gap in gaps)
    again = live(killed(place))
    assert contents(again.server.tree) == contents(life.server.tree)


def test_a_large_snapshot_is_written_between_requests(place: Path) -> None:
    """It takes more than one `sync`; a kill meanwhile leaves the older one and the log."""
    life = live(place)
    for start in range(0, 6000, 1000):
        life.do(*[create(f"/{number}") for number in range(start, start + 1000)])
    second = live(killed(place), snap_count=2)
    folder = second.directory.folder
    second.do(create("/one"), create("/two"))
    partial = [path for path in folder.iterdir() if path.name.endswith(".partial")]
    assert len(partial) == 1
    third = live(killed(folder.parent))
    assert contents(third.server.tree) == contents(second.server.tree)
    assert third.directory.losses == []
    assert not list(third.directory.folder.glob(".*"))
    for number in range(5):
        second.do(req.Delete(f"/{number}", -1), create(f"/5/{number}"))
    assert not partial[0].exists()
    fourth = live(killed(folder.parent))
    assert contents(fourth.server.tree) == contents(second.server.tree)
    assert fourth.directory.losses == []


def test_a_damaged_snapshot_is_passed_over_for_an_older_one(place: Path) -> None:
    life = live(place)
    life.do(create("/a"))
    again = live(killed(place))
    again.do(create("/b"))
    folder = again.directory.folder
    newest = folder / "snapshot.2"
    newest.write_bytes(newest.read_bytes()[:-20])
    last = live(killed(folder.parent))
    assert [loss.file.name for loss in last.directory.losses] == ["snapshot.2"]
    assert "/b" in last.server.tree


def test_a_torn_log_is_kept_as_far_as_it_is_whole(place: Path) -> None:
    life = live(place)
    life.do(create("/a"), create("/b"))
    left = killed(place)
    log = left / "version-2" / "log.1"
    log.write_bytes(log.read_bytes()[:-4])
    again = live(left)
    assert "/a" in again.server.tree
    assert "/b" not in again.server.tree
    (loss,) = again.directory.losses
    assert str(loss).startswith(f"{log}: the file ends inside an entry, at byte ")
    assert str(loss).endswith("whole up to zxid 0x2")


def test_transactions_missing_in_between_are_said(place: Path) -> None:
    life = live(place)
    life.do(create("/a"))
    second = live(killed(place))
    second.do(create("/b"))
    third = live(killed(second.directory.folder.parent))
    third.do(create("/c"))
    left = killed(third.directory.folder.parent)
    folder = left / "version-2"
    for name in ("log.3", "snapshot.2", "snapshot.4"):
        (folder / name).unlink()
    # As a real server: since 3.9.4 it does not boot, before it does.
    with pytest.raises(ConfigError, match="the transactions 0x3 to 0x4 are missing before it; expected logs without"):
        live(left)
    directory = DataDirectory(left, Storage(fsync=False))
    with closing(directory):
        directory.load(ServerConfig(version="3.9.3"), 1000)
    assert [str(loss) for loss in directory.losses] == [
        f"{folder / 'log.5'}: the transactions 0x3 to 0x4 are missing before it",
        f"{folder}: the tree after 0x5 does not match its digest",
    ]


def test_a_snapshot_may_be_packed(place: Path) -> None:
    """As by zookeeper.snapshot.compression.method=gz."""
    life = live(place)
    life.do(create("/a"))
    again = live(killed(place))
    folder = again.directory.folder
    whole = folder / "snapshot.2"
    (folder / "snapshot.2.gz").write_bytes(gzip.compress(whole.read_bytes()))
    whole.unlink()
    (folder / "log.1").unlink()
    last = live(killed(folder.parent))
    assert "/a" in last.server.tree
    assert last.directory.losses == []


def test_a_packed_snapshot_that_is_cut_is_passed_over(place: Path) -> None:
    life = live(place)
    life.do(create("/a"))
    left = killed(place)
    whole = (left / "version-2" / "snapshot.0").read_bytes()
    (left / "version-2" / "snapshot.1.gz").write_bytes(gzip.compress(whole)[:-20])
    again = live(left)
    assert [loss.file.name for loss in again.directory.losses] == ["snapshot.1.gz"]
    assert "/a" in again.server.tree


def refusal(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        DataDirectory(path).load(CONFIG, 1)
    assert "\n" not in str(refused.value)
    return refused.value


def test_a_corrupt_log_is_refused(place: Path) -> None:
    life = live(place)
    life.do(create("/a"), create("/b"))
    left = killed(place)
    log = left / "version-2" / "log.1"
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    refused = refusal(left)
    assert refused.where == str(log)
    assert "checksum" in str(refused)
    assert log.read_bytes() == data, "what is damaged stays as it is"


def test_what_is_no_directory_of_zookeeper_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    assert str(tmp_path / "file") in str(refusal(tmp_path / "file"))
    foreign = tmp_path / "foreign" / "version-2"
    foreign.mkdir(parents=True)
    (foreign / "log.1").write_text("2026-11-21 some other program's log\n")
    assert "without a snapshot" in str(refusal(tmp_path / "foreign"))
    (foreign / "snapshot.0").write_text("a picture")
    assert "it contains only damaged snapshots" in str(refusal(tmp_path / "foreign"))


def test_snappy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()
    (tmp_path / "version-2" / "snapshot.5.snappy").write_bytes(b"\x82SNAPPY\0")
    assert "snappy" in str(refusal(tmp_path))


def test_logs_can_have_a_folder_of_their_own(tmp_path: Path) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    for name in ("/a", "/b"):
        with closing(DataDirectory(data, Storage(fsync=False), log_path=logs)) as directory:
            server = directory.load(CONFIG, 1000)
            connection = server.connect(NEW_SESSION, 1000)
            server.handle(connection, 1, req.Create(name, b"x", OPEN_ACL, 0), 1000)
            directory.sync()
            sizes = tuple(
                sum(file.stat().st_size for file in (place / "version-2").iterdir()) for place in (data, logs)
            )
            assert directory.size_bytes() == sizes
    assert {"/a", "/b"} <= {path for path, _ in server.tree.walk()}
    assert {path.name.partition(".")[0] for path in (data / "version-2").iterdir()} == {"snapshot"}
    assert {path.name.partition(".")[0] for path in (logs / "version-2").iterdir()} == {"log"}


def test_a_directory_is_one_servers_at_a_time(tmp_path: Path) -> None:
    data, logs, others = tmp_path / "data", tmp_path / "logs", tmp_path / "others"
    with closing(DataDirectory(data, Storage(fsync=False), log_path=logs)) as directory:
        directory.load(CONFIG, 1000)
        for second in (DataDirectory(data), DataDirectory(others, log_path=logs)):
            with pytest.raises(ConfigError, match="another server is using it"):
                second.load(CONFIG, 1000)
    with closing(DataDirectory(data, Storage(fsync=False), log_path=logs)) as directory:
        directory.load(CONFIG, 1000)


def test_a_server_that_was_refused_leaves_no_lock(place: Path) -> None:
    live(place).do(req.Create("/a", b"", OPEN_ACL, 0))
    copy = place.with_name("copy")
    shutil.copytree(place, copy)
    snapshot = copy / "version-2" / "snapshot.0"
    whole = snapshot.read_bytes()
    snapshot.write_bytes(b"")
    with pytest.raises(ConfigError, match="it contains only damaged snapshots"):
        DataDirectory(copy).load(CONFIG, 1000)
    snapshot.write_bytes(whole)
    with closing(DataDirectory(copy, Storage(fsync=False))) as directory:
        directory.load(CONFIG, 1000)


def test_a_snapshot_count_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="snap_count"):
        DataDirectory(tmp_path, Storage(snap_count=1))


def test_other_files_are_left_alone(place: Path) -> None:
    folder = place / "version-2"
    folder.mkdir(parents=True)
    for name in ("acceptedEpoch", "currentEpoch", "log.notes", "snapshot.old"):
        (folder / name).write_text("1")
    live(place)
    assert names(place) == ["acceptedEpoch", "currentEpoch", "log.notes", "snapshot.0", "snapshot.old"]


def test_after_a_failed_write_nothing_is_acknowledged_any_more(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = live(place, fsync=True)
    life.do(create("/a"))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(OSError, match="No space left"):
        life.do(create("/b"))
    monkeypatch.undo()
    with pytest.raises(OSError, match="No space left"):
        life.do(create("/c"))


def test_fsync_is_once_a_batch_and_can_be_left_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    life = live(place, fsync=True)
    life.do(*[create(f"/{number}") for number in range(50)])
    assert len(synced) == 1
    life.directory.sync()
    assert len(synced) == 1, "nothing new, nothing to force"
    quick = live(killed(place))
    quick.do(create("/a"))
    assert len(synced) == 1


ENDLESS_LIFE = """
import sys
from pathlib import Path
from simzk.serve.storage.data_directory import DataDirectory
from simzk.serve.configuration.settings import Storage
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig

directory = DataDirectory(Path(sys.argv[1]), Storage(snap_count=100))
server = directory.load(ServerConfig(), 0)
connection = server.connect(req.ConnectRequest(0, 0, 40000, 0, None, False), 0)
while True:
    for _ in range(7):
        path = "/%d" % (server.zxid + 1)
        server.handle(connection, 1, req.Create(path, b"data", req.OPEN_ACL, 0), 1)
    directory.sync()
    print(path, flush=True)
"""


def test_a_process_killed_at_work_has_kept_what_it_said(place: Path) -> None:
    for lines in (5, 60):
        process = subprocess.Popen([sys.executable, "-c", ENDLESS_LIFE, str(place)], stdout=subprocess.PIPE, text=True)
        with process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(lines)]
            process.kill()
            said += process.stdout.readlines()
        life = live(killed(place))
        life.server.check()
        assert all(path.strip() in life.server.tree for path in said if path.endswith("\n"))
        life.directory.close()
        lives.clear()
