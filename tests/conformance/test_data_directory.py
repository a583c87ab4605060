"""Either server boots from what the other wrote, and reads it as the other's own tools do."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from simzk.errors import ConfigError
from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.data_directory import DataDirectory
from simzk.zookeeper.persistence import TransactionLogReader, encode_log_entry
from tests.conformance.data_directory_story import (
    CONFIG,
    SimulatedPlayer,
    chapter_one,
    chapter_two,
    dump_by_kazoo,
    dump_of,
    play,
    play_on_real_server,
)
from tests.conformance.java_tools import (
    log_by_java,
    log_by_simzk,
    sessions_sorted,
    snapshot_by_java,
    snapshot_by_simzk,
)
from tests.conformance.real_zookeeper import RealZooKeeper, four_letter_word

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.serve.storage.directory_reader import Loss
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.tree import DataTree

NOW_MS = 1_800_000_000_000
PLAIN = Storage(fsync=False)
pytestmark = [pytest.mark.slow, pytest.mark.java]


def written_by_simzk(place: Path, storage: Storage = PLAIN) -> Server:
    """Both chapters with a restart between, each request on disk before the next.

    What is in `place` is what a process leaves that is killed: copied before the directory is closed.
    """
    server = None
    for chapter, steps in enumerate((chapter_one(), chapter_two())):
        lived_in = place.with_name(f"{place.name}-{chapter}")
        if place.exists():
            place.rename(lived_in)
        now_ms = NOW_MS + chapter * 1000
        with closing(DataDirectory(lived_in, storage)) as directory:
            server = directory.load(CONFIG, now_ms)
            assert directory.losses == []
            player = SimulatedPlayer(server, now_ms)
            for step in steps:
                play(player, [step])
                directory.sync()
            server.check()
            shutil.copytree(lived_in, place)
    assert server is not None
    return server


def loaded_by_simzk(place: Path) -> tuple[DataTree, list[Loss]]:
    """The tree that simzk boots to, and what it says is lost."""
    with closing(DataDirectory(place, Storage(fsync=False))) as directory:
        server = directory.load(CONFIG, NOW_MS)
        server.check()
        return server.tree, directory.losses


def newest(place: Path, kind: str) -> Path:
    return max((place / "version-2").glob(f"{kind}.*"), key=lambda path: int(path.name.partition(".")[2], 16))


def digest_mismatches(server: RealZooKeeper) -> int:
    found = re.search(rb"zk_digest_mismatches_count\t(\d+)", four_letter_word(server.port, b"mntr"))
    assert found is not None
    return int(found.group(1))


@pytest.mark.parametrize(
    "storage",
    [
        PLAIN,
        Storage(fsync=False, snap_count=16),
        Storage(fsync=False, snap_count=16, compression="gz", log_step_kib=64),
        Storage(fsync=False, snap_count=16, compression="snappy", names_ephemerals=False, log_limit_kib=1),
        Storage(fsync=False, snap_count=16, tells_zxid=False, log_step_kib=1, log_limit_kib=2),
        Storage(fsync=False, digests=False, tells_zxid=False, names_ephemerals=False),
    ],
)
def test_a_real_server_boots_from_what_simzk_wrote(tmp_path: Path, storage: Storage) -> None:
    server = written_by_simzk(tmp_path / "data", storage)
    with RealZooKeeper(boot_from=tmp_path / "data", properties={"log4j2.level": "WARN"}) as real:
        assert digest_mismatches(real) == 0
        assert "not matching" not in real.said
        assert dump_by_kazoo(real.hosts) == dump_of(server.tree)


def test_a_real_server_would_notice_another_tree(tmp_path: Path) -> None:
    """Check that the digest comparison detects one wrong digest."""
    written_by_simzk(tmp_path / "data")
    log = newest(tmp_path / "data", "log")
    data = log.read_bytes()
    transaction, digest = next(iter(TransactionLogReader(io.BytesIO(data))))
    assert digest is not None
    frame = encode_log_entry(transaction, digest)
    assert data.count(frame) == 1
    log.write_bytes(data.replace(frame, encode_log_entry(transaction, digest ^ 1)))
    with RealZooKeeper(boot_from=tmp_path / "data", properties={"log4j2.level": "WARN"}) as real:
        assert digest_mismatches(real) > 0
        assert "not matching" in real.said
    _, losses = loaded_by_simzk(tmp_path / "data")
    assert ["digest" in loss.what for loss in losses] == [True]


def test_simzk_boots_from_what_a_real_server_wrote(tmp_path: Path) -> None:
    expected = play_on_real_server(tmp_path / "data")
    tree, losses = loaded_by_simzk(tmp_path / "data")
    assert losses == []
    assert dump_of(tree) == expected


@pytest.mark.parametrize("compression", ["gz", "snappy"])
def test_simzk_boots_from_what_a_real_server_packed(tmp_path: Path, compression: str) -> None:
    with RealZooKeeper(settings={"snapshot.compression.method": compression}) as real:
        shutil.copytree(real.data_directory, tmp_path / "data")
    assert [path.name for path in (tmp_path / "data" / "version-2").iterdir()] == [f"snapshot.0.{compression}"]
    tree, losses = loaded_by_simzk(tmp_path / "data")
    assert losses == []
    assert [path for path, _ in tree.walk()] == ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]


def test_the_real_tools_print_what_simzk_wrote_as_simzk_reads_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    written_by_simzk(data, Storage(fsync=False, snap_count=60))
    for log in (data / "version-2").glob("log.*"):
        assert log_by_java(log) == log_by_simzk(log)
    snapshot = newest(data, "snapshot")
    assert sessions_sorted(snapshot_by_java(snapshot)) == sessions_sorted(snapshot_by_simzk(snapshot))


def boots(data: Path) -> bool:
    """Whether a real server starts from a directory."""
    try:
        with RealZooKeeper(boot_from=data):
            return True
    except RuntimeError:
        return False


Harm = Callable[[bytes, int], bytes]
"""What happens to a log whose last entry starts at a position."""

PASSED_OVER: dict[str, Harm] = {
    "mark changed": lambda data, at: data[:-1] + b"C",
    "cut": lambda data, at: data[:-3],
    "cut, then padding": lambda data, at: data[:-3] + bytes(5000),
    "length beyond the end": lambda data, at: data[: at + 9] + b"\x10" + data[at + 10 :],
    "empty": lambda data, at: b"",
}
REFUSED: dict[str, Harm] = {
    "payload changed": lambda data, at: data[: at + 30] + bytes([data[at + 30] ^ 1]) + data[at + 31 :],
    "absurd length": lambda data, at: data[: at + 8] + b"\x7f" + data[at + 9 :],
    "null length": lambda data, at: data[: at + 8] + b"\xff\xff\xff\xff" + data[at + 12 :],
    "foreign": lambda data, at: b"something that is no log at all",
}


def harmed(place: Path, harm: Harm) -> Path:
    """A directory of simzk's whose newest log was harmed; that log."""
    written_by_simzk(place)
    log = newest(place, "log")
    data = log.read_bytes()
    *_, last = TransactionLogReader(io.BytesIO(data))
    log.write_bytes(harm(data, len(data) - len(encode_log_entry(*last))))
    return log


@pytest.mark.parametrize("what", PASSED_OVER)
def test_both_servers_pass_over_what_a_crash_leaves(tmp_path: Path, what: str) -> None:
    log = harmed(tmp_path / "data", PASSED_OVER[what])
    with RealZooKeeper(boot_from=tmp_path / "data") as real:
        expected = dump_by_kazoo(real.hosts)
    tree, losses = loaded_by_simzk(tmp_path / "data")
    assert [loss.file for loss in losses] == [log]
    assert dump_of(tree) == expected


@pytest.mark.parametrize("what", REFUSED)
def test_both_servers_refuse_what_no_crash_leaves(tmp_path: Path, what: str) -> None:
    log = harmed(tmp_path / "data", REFUSED[what])
    assert not boots(tmp_path / "data")
    with pytest.raises(ConfigError) as refused:
        DataDirectory(tmp_path / "data").load(CONFIG, NOW_MS)
    assert refused.value.where == str(log)


def split(place: Path) -> tuple[Path, Path]:
    """A directory of both kinds of file as two, of snapshots and of logs."""
    data, logs = place.with_name("snapshots"), place.with_name("logs")
    for target, kind in ((data, "snapshot"), (logs, "log")):
        (target / "version-2").mkdir(parents=True)
        for path in (place / "version-2").glob(f"{kind}.*"):
            shutil.copy(path, target / "version-2")
    return data, logs


def test_both_servers_keep_logs_in_a_directory_of_their_own(tmp_path: Path) -> None:
    server = written_by_simzk(tmp_path / "data")
    data, logs = split(tmp_path / "data")
    with RealZooKeeper(boot_from=data, settings={"dataLogDir": str(logs)}) as real:
        assert digest_mismatches(real) == 0
        client = KazooClient(real.hosts)
        client.start()
        client.create("/of-the-real-server", b"")
        expected = dump_by_kazoo(real.hosts)
        client.stop()
        client.close()
        shutil.copytree(real.data_directory, tmp_path / "later")
    assert expected.keys() == dump_of(server.tree).keys() | {"/of-the-real-server"}
    assert not list((tmp_path / "later" / "version-2").glob("log.*"))
    with closing(DataDirectory(tmp_path / "later", Storage(fsync=False), log_path=logs)) as directory:
        assert dump_of(directory.load(CONFIG, NOW_MS).tree) == expected
        assert directory.losses == []


@pytest.mark.parametrize("strayed", ["log", "snapshot"])
def test_both_servers_refuse_a_file_in_the_other_directory(tmp_path: Path, strayed: str) -> None:
    written_by_simzk(tmp_path / "data")
    data, logs = split(tmp_path / "data")
    wrong = data if strayed == "log" else logs
    shutil.copy(newest(tmp_path / "data", strayed), wrong / "version-2")
    with pytest.raises(RuntimeError, match=f"directory has {strayed} files"):
        RealZooKeeper(boot_from=data, settings={"dataLogDir": str(logs)}).start()
    with pytest.raises(ConfigError, match="which belongs in the other folder") as refused:
        DataDirectory(data, log_path=logs).load(CONFIG, NOW_MS)
    assert refused.value.where == str(wrong / "version-2")
