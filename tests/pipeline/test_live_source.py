"""`zookeeper` on Spark: the tree of a live server, ours and a real one, is the tree that stands in its files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

import simzk
import simzk.pipeline
from simzk.serve.storage.directory_reader import DirectoryReader
from tests.conformance.real_zookeeper import RealZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    simzk.pipeline.register(spark)
    return spark


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the tree that real brokers left."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(KAFKA / "version-2", folder / "version-2")
    with simzk.ZooKeeperServer(data_directory=folder) as server:
        yield server.hosts


def load(session: SparkSession, path: str | None = None, **options: object) -> DataFrame:
    reader = session.read.format("zookeeper")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load() if path is None else reader.load(path)


def rows(frame: DataFrame) -> list[dict[str, object]]:
    return sorted(frame.toArrow().to_pylist(), key=lambda row: row["path"])


def test_a_live_real_server_tells_what_stands_in_its_files(session: SparkSession) -> None:
    with RealZooKeeper() as real:
        writer = KazooClient(real.hosts, timeout=30)
        writer.start()
        for name in ("b", "a", "ä"):
            writer.create(f"/kept/{name}", name.encode(), makepath=True)
            writer.create(f"/kept/{name}/n-", b"", sequence=True)
        writer.set("/kept/a", b"again")
        writer.set_acls("/kept/b", [READ_ACL_UNSAFE[0], make_digest_acl("me", "mine", all=True)])
        writer.create("/kept/open", b"", acl=OPEN_ACL_UNSAFE)
        writer.create("/kept/mine", b"", ephemeral=True)
        writer.delete("/kept/ä/n-0000000000")
        found = rows(load(session, "/kept", hosts=real.hosts, numPartitions=3))
        tree = DirectoryReader(real.data_directory).restore().tree
        owner = writer.client_id[0]
        writer.stop()
        writer.close()
    assert [row["path"] for row in found] == sorted(path for path, _ in tree.walk("/kept"))
    assert next(row for row in found if row["path"] == "/kept/mine")["ephemeral_owner"] == owner
    for row in found:
        node = tree.get(str(row["path"]))
        assert node is not None
        assert row["data"] == node.data
        # A hash is not shown to those who did not log in with it.
        shown = [("digest", "me:x") if entry.id.scheme == "digest" else tuple(entry.id) for entry in node.acl]
        assert row["acl"] == [
            {"perms": entry.perms, "scheme": scheme, "id": name}
            for entry, (scheme, name) in zip(node.acl, shown, strict=True)
        ]
        for column in ("czxid", "mzxid", "pzxid", "version", "cversion", "aversion", "ephemeral_owner"):
            assert row[column] == getattr(node, column)
        assert row["file"] == real.hosts
        assert row["damage"] is None


def test_the_rows_do_not_depend_on_tasks_or_manners(session: SparkSession, hosts: str) -> None:
    frame = load(session, hosts=hosts)
    assert frame.schema == session.read.format("zookeeper_snapshot").load(str(KAFKA)).schema
    whole = rows(frame)
    assert [row["path"] for row in whole][:3] == ["/", "/admin", "/admin/delete_topics"]
    assert rows(load(session, hosts=hosts, numPartitions=1)) == whole
    assert rows(load(session, hosts=hosts, numPartitions=9, maxInFlight=1, pauseMs=1)) == whole


def test_below_a_chroot_paths_begin_there(session: SparkSession, hosts: str) -> None:
    whole = rows(load(session, "/brokers/topics", hosts=hosts))
    for options in ({"hosts": hosts, "chroot": "/brokers"}, {"hosts": f"{hosts}/brokers"}):
        below = rows(load(session, "/topics", **options))
        assert [f"/brokers{row['path']}" for row in below] == [row["path"] for row in whole]
        assert {row["file"] for row in below} == {f"{hosts}/brokers"}


def test_a_filter_keeps_the_tasks_out_of_other_subtrees(session: SparkSession) -> None:
    with simzk.ZooKeeperServer() as server:
        writer = server.client()
        writer.start()
        for name in ("wanted", "other"):
            writer.create(f"/{name}/below", b"", makepath=True)
        asked = server.faults.fail("get", error="NO_AUTH", path="/other", below=True, times=None)
        found = rows(load(session, hosts=server.hosts).where("path like '/wanted/%'"))
        assert [row["path"] for row in found] == ["/wanted/below"]
        assert asked.fired == 0


def test_what_may_not_be_read_is_a_row_or_left_out_or_fatal(session: SparkSession) -> None:
    with simzk.ZooKeeperServer() as server:
        owner = server.client(auth_data=[("digest", "me:mine")])
        owner.start()
        owner.create("/a", b"")
        owner.create("/a/secret", b"s", acl=[make_digest_acl("me", "mine", all=True)])
        message = rows(load(session, "/a", hosts=server.hosts))
        assert [(row["path"], row["damage"]) for row in message] == [
            ("/a", None),
            ("/a/secret", "/a/secret may not be read by this session"),
        ]
        assert [row["path"] for row in rows(load(session, "/a", hosts=server.hosts, mode="DROPMALFORMED"))] == ["/a"]
        allowed = rows(load(session, "/a", hosts=server.hosts, auth="digest:me:mine"))
        assert [row["data"] for row in allowed] == [b"", b"s"]
        with pytest.raises(Exception, match="/a/secret may not be read by this session"):
            load(session, "/a", hosts=server.hosts, mode="FAILFAST").collect()


def test_no_session_stays_behind(session: SparkSession) -> None:
    with simzk.ZooKeeperServer() as server:
        load(session, hosts=server.hosts).collect()
        assert len(server.server.sessions) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "zookeeper reads a live server; expected option"),
        ({"hosts": "{hosts}", "path": "/nowhere"}, "/nowhere: the znode does not exist"),
        ({"hosts": "{hosts}", "path": "brokers"}, "path: 'brokers' is no znode's path"),
        ({"hosts": "{hosts}/a", "chroot": "/b"}, "already contains a chroot"),
        ({"hosts": "{hosts}", "chroot": "/b/"}, "chroot: '/b/' is no znode's path"),
        ({"hosts": "{hosts}", "maxInFlight": "0"}, "maxInFlight: '0' is invalid; expected 1 or more"),
        ({"hosts": "{hosts}", "pauseMs": "-1"}, "pauseMs: '-1' is invalid; expected 0 or more"),
        ({"hosts": "{hosts}", "auth": "me"}, "auth: it has no scheme"),
        ({"hosts": "{hosts}", "mode": "LAX"}, "unknown mode LAX"),
    ],
)
def test_bad_options_are_reported(session: SparkSession, hosts: str, options: dict[str, str], message: str) -> None:
    given = {name: value.format(hosts=hosts) for name, value in options.items()}
    with pytest.raises(Exception, match=re.escape(message)):
        load(session, **given).collect()
