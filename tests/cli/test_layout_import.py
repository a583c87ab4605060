"""`simzk layout import`: the same layout out of a recording, a data directory and a live ZooKeeper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import simzk as package
from simzk.kafka.observation.recording import load
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode.columnar.layouts import describe_brokers, load_layout
from simzk.partitions.layouts import read_layout
from simzk.serve.storage.directory_reader import new_compressor
from simzk.zookeeper.persistence import TreeDigest, encode_snapshot
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).parents[2] / "scenarios" / "layouts" / "kafka-3.9.1" / "dumps.json"
STEP = "d-kill9-controller-broker1"
ROOTS = ("/brokers", "/config")


def fill(server: package.ZooKeeperServer, chroot: str) -> None:
    """Write the recorded znodes, as clients would."""
    client = server.client()
    client.start()
    for path, znode in load(RECORDED).tree(STEP).items():
        if path.startswith(ROOTS):
            client.create(f"{chroot}{path}", (znode.data or "").encode(), makepath=True)
    client.stop()


@pytest.mark.parametrize("chroot", ["", "/kafka"])
def test_all_sources_give_the_same_layout(simzk: Simzk, tmp_path: Path, chroot: str) -> None:
    data, files = tmp_path / "data", [tmp_path / f"{source}.json" for source in ("dump", "live", "directory")]
    assert simzk("layout", "import", "--dump", RECORDED, "--step", STEP, "--out", files[0]).status == 0
    with package.ZooKeeperServer(data_directory=data) as server:
        fill(server, chroot)
        live = simzk("layout", "import", "--zookeeper", f"{server.hosts}{chroot}", "--out", files[1])
        # It is another server's, which is running: it is only read.
        kept = simzk("layout", "import", "--data-dir", data, "--chroot", chroot, "--out", files[2])
    assert (live.status, live.err, kept.status, kept.err) == (0, "", 0, "")
    assert live.out == f"wrote {files[1]}: 7 partitions on 3 brokers\n"
    assert len({file.read_bytes() for file in files}) == 1


@pytest.mark.parametrize("source", ["live", "directory"])
def test_a_reassignment_is_imported_or_reported(simzk: Simzk, tmp_path: Path, source: str) -> None:
    """Return what the topic's znode defines, with the reassignment of releases before 2.4."""
    data, out = tmp_path / "data", tmp_path / "layout.parquet"
    moved = b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1,2]}'
    with package.ZooKeeperServer(data_directory=data) as server:
        client = server.client()
        client.start()
        client.create(
            "/brokers/topics/t", b'{"version":2,"partitions":{"0":[3,1,2],"1":[1]},%b}' % moved, makepath=True
        )
        host = b'{"version":1,"host":"a","port":9092,"jmx_port":-1,"timestamp":"0"}'
        client.create("/brokers/ids/1", host, makepath=True)
        asked = b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2]}]}'
        client.create("/admin/reassign_partitions", asked, makepath=True)
        client.stop()
        place = ("--zookeeper", server.hosts) if source == "live" else ("--data-dir", data)
        done = simzk("layout", "import", *place, "--out", out)
    assert done.status == 0
    assert done.err.startswith(
        "simzk: not imported: /admin/reassign_partitions requests the move of 1 partition: a layout"
    )
    shown = {" ".join(line.split()) for line in simzk("layout", "show", out).out.splitlines()}
    assert "being reassigned 1 of 2 (50.0%); brokers that gain: 3; lose: 1, 2" in shown
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}')
    refused = simzk("layout", "plan", out, plan, "--kafka-version", "2.4")
    assert refused.status == 2
    assert "the plan has partitions that are already being reassigned: t-0; expected" in refused.err


def test_a_torn_log_is_reported_and_its_whole_entries_are_read(simzk: Simzk, tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "layout.json"
    with package.ZooKeeperServer(data_directory=data) as server:
        fill(server, "")
    (snapshot,) = (data / "version-2").glob("snapshot.*")
    (log,) = (data / "version-2").glob("log.*")
    log.write_bytes(log.read_bytes().rstrip(b"\0") + b"torn")
    before = {path: path.read_bytes() for path in (snapshot, log)}
    done = simzk("layout", "import", "--data-dir", data, "--out", out)
    assert done.status == 0
    assert f"simzk: lost: {log}: " in done.err
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("packing", ["", "gz", "snappy"])
def test_the_snapshot_of_a_layout_holds_that_layout(simzk: Simzk, tmp_path: Path, packing: str) -> None:
    """Of some size, so that it is read in several pieces; packed or not."""
    made, out = tmp_path / "made.json", tmp_path / "layout.json"
    sizes = ("--brokers", "7", "--topics", "10", "--partitions", "5000", "--rf", "2", "--min-insync-replicas", "2")
    assert simzk("layout", "make", *sizes, "--out", made).status == 0
    layout, version = read_layout(made), kafka_version("3.9")
    server = Server()
    load_layout(server, layout, version, now_ms=0)
    describe_brokers(server, layout, version, now_ms=0)
    digest = TreeDigest(server.tree).value
    pack = new_compressor(packing)
    folder = tmp_path / "data" / "version-2"
    folder.mkdir(parents=True)
    with (folder / f"snapshot.{server.zxid:x}{packing and '.'}{packing}").open("wb") as stream:
        for piece in encode_snapshot(server.tree, [], lambda: (server.zxid, digest)):
            stream.write(pack.compress(piece))
        stream.write(pack.flush())
    done = simzk("layout", "import", "--data-dir", tmp_path / "data", "--out", out)
    assert (done.status, done.err) == (0, "")
    assert out.read_bytes() == made.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no source is given; expected one of --dump, --data-dir, --zookeeper"),
        (("--dump", RECORDED, "--zookeeper", "localhost:1"), "--dump and --zookeeper exclude each other"),
        (("--dump", RECORDED, "--chroot", "/k"), "--chroot"),
        (("--data-dir", "nowhere"), "nowhere"),
        (("--zookeeper", "localhost:1", "--step", "a0-empty"), "--step"),
    ],
)
def test_what_cannot_be_is_one_line(
    simzk: Simzk, tmp_path: Path, arguments: tuple[str | Path, ...], message: str
) -> None:
    done = simzk("layout", "import", *arguments, "--out", tmp_path / "layout.json")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert message in done.err
    assert not (tmp_path / "layout.json").exists()


def test_invalid_topics_are_left_out_on_request_and_named(simzk: Simzk, tmp_path: Path) -> None:
    registration = b'{"jmx_port":-1,"timestamp":"0","host":"h","version":1,"port":9092}'
    with package.ZooKeeperServer() as server:
        client = server.client()
        client.start()
        client.create("/brokers/ids/1", registration, makepath=True)
        client.create("/brokers/topics/good", b'{"version":1,"partitions":{"0":[1]}}', makepath=True)
        client.create("/brokers/topics/zombie", b"")
        source = ("layout", "import", "--zookeeper", server.hosts, "--out", tmp_path / "layout.json")
        assert simzk(*source).status == 2
        done = simzk(*source, "--skip-invalid", "--json", tmp_path / "said.json")
    assert done.status == 1
    reason = "topic zombie: /brokers/topics/zombie: has no data; expected JSON"
    assert f"simzk: left out: {reason}\n" in done.err
    said = json.loads((tmp_path / "said.json").read_text())
    assert (said["topics"], said["left_out"]) == (1, [reason])
    assert read_layout(tmp_path / "layout.json").topics == ("good",)


def test_a_server_that_is_not_there_is_named(simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simzk.pipeline.logs.live_tree.PATIENCE_S", 0.2)
    hosts = "127.0.0.1:1"  # where nobody may listen
    done = simzk("layout", "import", "--zookeeper", hosts, "--out", tmp_path / "layout.json")
    assert done.status == 2
    assert f"{hosts}: no server answers" in done.err
