"""`reset`: a server that was used is like a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

import simzk
from tests.serve.test_settle import MAKE, started
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.serve.verbs import TestServer


@pytest.fixture(params=list(MAKE))
def server(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    with MAKE[request.param]() as made:
        yield made


def test_nothing_of_the_test_before_is_left(server: TestServer) -> None:
    client, other = started(server), started(server)
    client.create("/a/b/c", b"x", makepath=True, ephemeral=True)
    client.create("/container", include_data=True)
    client.create("/secret", acl=[make_digest_acl("user", "password", all=True)])
    with pytest.raises(NoAuthError):
        other.get("/secret")
    client.create("/zookeeper/quota/a", b"")
    client.set("/", b"data of the root")
    client.set_acls("/", [make_digest_acl("user", "password", all=True)])
    server.faults.fail("create", error="NO_AUTH")
    server.pause(other)
    server.advance(5)

    server.reset()

    assert server.clients == ()
    assert len(server.server.sessions) == 0
    assert server.faults.rules == []
    assert server.requests() == []
    fresh = started(server)
    with MAKE["memory"]() as new:
        paths = [path for path, _ in new.server.tree.walk()]
    assert sorted(path for path, _ in server.server.tree.walk()) == sorted(paths)
    assert fresh.get("/")[0] == b""
    fresh.create("/a")
    server.server.check()
    server.settle(PATIENCE_S)


def test_a_kept_client_goes_on(server: TestServer) -> None:
    kept, other = started(server), started(server)
    session = kept.client_id
    kept.create("/a")
    seen: list[object] = []
    kept.exists("/a", watch=seen.append)
    server.reset(keep=[kept])
    assert server.clients == (kept,)
    assert kept.client_id == session
    assert not other.connected
    assert kept.get_children("/") == ["zookeeper"]
    server.settle(PATIENCE_S)
    assert len(seen) == 1


def test_an_ensemble_is_whole_again() -> None:
    with simzk.ZooKeeperServer(servers=3) as server:
        client = started(server)
        client.create("/a")
        client.stop()
        server.ensemble.stop(2)
        server.ensemble.stop(3)
        server.reset()
        assert sorted(server.ensemble.modes.values()) == ["follower", "follower", "leader"]
        started(server).create("/a")
        server.ensemble.cut(1)
        server.ensemble.lag(2, seconds=5)
        server.reset()
        assert sorted(server.ensemble.modes.values()) == ["follower", "follower", "leader"]
        for number in (1, 2, 3):
            client = started(server, hosts=server.ensemble.hosts(number))
            assert client.get_children("/") == ["zookeeper"]


def test_the_server_of_a_cluster_cannot_be_reset() -> None:
    with (
        simzk.KafkaCluster(brokers=1) as cluster,
        pytest.raises(simzk.SimzkError, match="belongs to a cluster; expected a new cluster"),
    ):
        cluster.zookeeper.reset()
