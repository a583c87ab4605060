"""A live tree read by a guest: all of it, politely, through lost connections, past what is hidden or gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.security import make_digest_acl
from pyspark.sql.datasource import EqualTo, Filter, In, StringStartsWith

import simzk
from simzk.errors import ConfigError
from simzk.pipeline.data_source import acl_value
from simzk.pipeline.logs.live import LiveReader, Options
from simzk.pipeline.logs.live_tree import Guest, Portion, session, split, tree_rows
from simzk.pipeline.logs.tables import snapshot_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kazoo.client import KazooClient

    from simzk.zookeeper.tree import DataTree

pytestmark = pytest.mark.slow

KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"
COLUMNS = snapshot_schema().names


@pytest.fixture
def server(tmp_path: Path) -> Iterator[simzk.ZooKeeperServer]:
    """Serve the tree that real brokers left; time stands still, so their ephemerals stay."""
    shutil.copytree(KAFKA / "version-2", tmp_path / "version-2")
    with simzk.ZooKeeperServer(data_directory=tmp_path) as running:
        yield running


@pytest.fixture
def client(server: simzk.ZooKeeperServer) -> Iterator[KazooClient]:
    client = server.client()
    client.start()
    yield client
    client.stop()


def rows_of(guest: Guest, portions: list[Portion]) -> list[dict[str, object]]:
    rows = [dict(zip(COLUMNS, row, strict=True)) for portion in portions for row in tree_rows(guest, "zk", portion)]
    return sorted(rows, key=lambda row: str(row["path"]))


def expected(tree: DataTree, root: str = "/") -> list[dict[str, object]]:
    return sorted(
        (
            {
                "file": "zk",
                "path": path,
                "data": node.data or b"",
                "acl": acl_value(node.acl),
                "czxid": node.czxid,
                "mzxid": node.mzxid,
                "pzxid": node.pzxid,
                "ctime": node.ctime_ms * 1000,
                "mtime": node.mtime_ms * 1000,
                "version": node.version,
                "cversion": node.cversion,
                "aversion": node.aversion,
                "ephemeral_owner": node.ephemeral_owner,
                "damage": None,
            }
            for path, node in tree.walk(root)
        ),
        key=lambda row: str(row["path"]),
    )


@pytest.mark.parametrize("tasks", [1, 2, 5])
@pytest.mark.parametrize("root", ["/", "/brokers", "/brokers/topics"])
def test_the_portions_together_are_the_tree(
    server: simzk.ZooKeeperServer, client: KazooClient, tasks: int, root: str
) -> None:
    guest = Guest(client, in_flight=3)
    portions = split(guest, root, tasks)
    assert len(portions) == tasks
    found = rows_of(guest, portions)
    for row in found:
        row["data"] = row["data"] or b""
    assert found == expected(server.server.tree, root)
    assert len(found) > 10


class Counted:
    """A client that counts the requests that are sent and not yet looked at."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self.under_way = self.most = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not name.endswith("_async"):
            return method

        def ask(path: str) -> Counted.Request:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            return Counted.Request(self, method(path))

        return ask

    class Request:
        def __init__(self, counted: Counted, request: Any) -> None:
            self._counted, self._request = counted, request

        def get(self, timeout: float) -> Any:
            self._counted.under_way -= 1
            return self._request.get(timeout=timeout)


@pytest.mark.parametrize("in_flight", [1, 4])
def test_no_more_is_under_way_than_was_agreed_and_pauses_are_made(client: KazooClient, in_flight: int) -> None:
    counted, pauses = Counted(client), list[float]()
    guest = Guest(counted, in_flight, 0.25, pauses.append)
    paths = [str(row["path"]) for row in rows_of(guest, split(guest, "/", 2))]
    assert (counted.most, counted.under_way) == (in_flight, 0)
    pauses.clear()
    assert [path for path, _ in guest.ask("get", paths)] == paths
    assert pauses == [0.25] * -(-len(paths) // in_flight)


@pytest.mark.parametrize("error", [ConnectionLoss, SessionExpiredError])
@pytest.mark.parametrize("method", ["get", "get_acls", "get_children"])
def test_a_connection_that_is_lost_is_waited_for(
    server: simzk.ZooKeeperServer, client: KazooClient, method: str, error: type[Exception]
) -> None:
    guest = Guest(client, in_flight=8)
    before = rows_of(guest, split(guest, "/brokers", 1))
    portions = split(guest, "/brokers", 1)
    server.fail_next(method, error)
    assert rows_of(guest, [Portion((), ("/brokers",))]) == before
    assert rows_of(guest, portions) == before


@pytest.mark.parametrize(("version", "stat_is_told"), [("3.7", True), ("3.9", False)])
def test_an_unreadable_znode_is_reported_with_its_stat(version: str, stat_is_told: bool) -> None:
    with simzk.ZooKeeperServer(version=version) as server:
        owner = server.client(auth_data=[("digest", "me:mine")])
        owner.start()
        owner.create("/secret", b"s", acl=[make_digest_acl("me", "mine", all=True)])
        owner.create("/secret/below", b"")
        with session(server.hosts) as stranger:
            for portions in ([Portion((), ("/secret",))], split(Guest(stranger), "/secret", 1)):
                (row,) = rows_of(Guest(stranger), portions)
                assert (row["damage"], row["data"]) == ("/secret may not be read by this session", None)
                assert row["czxid"] == (owner.exists("/secret").czxid if stat_is_told else None)
        with session(server.hosts, "digest:me:mine") as allowed:
            rows = rows_of(Guest(allowed), split(Guest(allowed), "/secret", 1))
        assert [(row["path"], row["data"], row["damage"]) for row in rows] == [
            ("/secret", b"s", None),
            ("/secret/below", b"", None),
        ]


def test_what_is_gone_when_its_turn_comes_is_left_out(client: KazooClient) -> None:
    client.create("/a/b/c", b"", makepath=True)
    guest = Guest(client)
    portions = [Portion(("/a", "/never"), ("/a/b",))]
    rows = tree_rows(guest, "zk", portions[0])
    assert next(rows)[1] == "/a"
    client.delete("/a/b", recursive=True)
    assert list(rows) == []


def test_a_tree_that_is_deep_or_wide_is_read_to_its_end(client: KazooClient) -> None:
    deep = "/deep" + "/d" * 40
    client.create(deep, b"", makepath=True)
    client.ensure_path("/wide")
    for number in range(100):
        client.create(f"/wide/{number:03}", b"")
    guest = Guest(client, in_flight=7)
    for tasks in (1, 3):
        assert len(rows_of(guest, split(guest, "/deep", tasks))) == 41
        assert [row["path"] for row in rows_of(guest, split(guest, "/wide", tasks))] == [
            "/wide",
            *(f"/wide/{number:03}" for number in range(100)),
        ]


FILTERS: list[tuple[list[Filter], Callable[[str], bool]]] = [
    ([EqualTo(("path",), "/brokers/ids")], lambda path: path == "/brokers/ids"),
    (
        [In(("path",), ("/brokers/ids", "/admin", "/nowhere", "/admin/", "admin", "/a/../b"))],
        lambda path: path in ("/brokers/ids", "/admin"),
    ),
    ([StringStartsWith(("path",), "/brokers/")], lambda path: path.startswith("/brokers/")),
    ([StringStartsWith(("path",), "/brokers/to")], lambda path: path.startswith("/brokers/to")),
    ([StringStartsWith(("path",), "/nowhere/")], lambda path: False),
    (
        [StringStartsWith(("path",), "/"), StringStartsWith(("path",), "/config"), EqualTo(("version",), 0)],
        lambda path: path.startswith("/config"),
    ),
    ([StringStartsWith(("path",), "/brokers/"), EqualTo(("path",), "/admin")], lambda path: False),
    ([EqualTo(("path",), "/brokers"), EqualTo(("path",), "/admin")], lambda path: False),
    ([StringStartsWith(("path",), "b")], lambda path: False),
]


@pytest.mark.parametrize("root", ["/", "/brokers", "/brokers/topics"])
@pytest.mark.parametrize(("filters", "holds"), FILTERS, ids=[str(number) for number in range(len(FILTERS))])
def test_filters_leave_out_subtrees_and_nothing_that_is_wanted(
    server: simzk.ZooKeeperServer, filters: list[Filter], holds: Callable[[str], bool], root: str
) -> None:
    def read(filters: list[Filter]) -> list[str]:
        reader = LiveReader(Options(server.hosts, "", root, tasks=2, in_flight=32, pause_ms=0, mode="FAILFAST"))
        assert list(reader.pushFilters(filters)) == filters, "Spark applies all of them once more"
        batches = [batch for portion in reader.partitions() for batch in reader.read(portion)]
        return sorted(path for batch in batches for path in batch.column("path").to_pylist())

    everything, found = read([]), read(filters)
    wanted = [path for path in everything if holds(path)]
    assert [path for path in found if holds(path)] == wanted
    # Beside what is wanted only what stands above it was read.
    assert all(any(one.startswith(path) for one in wanted) or path == root for path in set(found) - set(wanted))


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ("127.0.0.1:1", "127.0.0.1:1: no server answers; expected a running ZooKeeper, HOST:PORT"),
        ("127.0.0.1:port", "127.0.0.1:port: invalid server address; expected HOST:PORT"),
    ],
)
def test_a_server_that_is_not_there_is_named(hosts: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simzk.pipeline.logs.live_tree.PATIENCE_S", 0.2)
    with pytest.raises(ConfigError) as caught, session(hosts):
        pass
    assert message in str(caught.value)


def test_a_root_that_is_not_there_is_named(client: KazooClient) -> None:
    with pytest.raises(ConfigError, match="/nowhere: the znode does not exist"):
        split(Guest(client), "/nowhere", 1)
