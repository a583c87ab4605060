"""`RemoteZooKeeper`, the verbs of tests against a real server; here the server is of simzk and can be disturbed."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

import simzk
from simzk.errors import SimzkError
from simzk.testing.remote_zookeeper import RemoteZooKeeper
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[simzk.ZooKeeperServer]:
    with simzk.ZooKeeperServer() as made:
        yield made


@pytest.fixture
def remote(server: simzk.ZooKeeperServer) -> Iterator[RemoteZooKeeper]:
    with RemoteZooKeeper(server.hosts) as made:
        yield made


def with_lock(remote: RemoteZooKeeper) -> KazooClient:
    client = remote.client()
    client.start(timeout=PATIENCE_S)
    client.create("/lock", ephemeral=True)
    return client


@pytest.mark.parametrize("lost", range(3))
def test_a_session_ends_although_the_client_takes_it_back(
    server: simzk.ZooKeeperServer, remote: RemoteZooKeeper, lost: int
) -> None:
    """The client that is to be expired reconnects at once, so that the close of the other one may come too late."""
    client, other = with_lock(remote), remote.client()
    other.start(timeout=PATIENCE_S)
    if lost:
        server.faults.drop_request("close", times=lost)
    remote.expire(client)
    assert other.exists("/lock") is None


def test_a_session_ends_although_it_is_taken_back_at_once(
    remote: RemoteZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may close the connection of the second client as soon as it is made; kazoo then has no `client_id`."""
    client, other = with_lock(remote), remote.client()
    other.start(timeout=PATIENCE_S)
    client_id, seen = KazooClient.client_id, count()

    def lost_twice(closing: KazooClient) -> tuple[int, bytes] | None:
        found: tuple[int, bytes] | None = client_id.fget(closing)
        return None if closing not in (client, other) and next(seen) < 2 else found

    monkeypatch.setattr(KazooClient, "client_id", property(lost_twice))
    remote.expire(client)
    assert other.exists("/lock") is None
    assert next(seen) > 2


def test_a_client_without_a_session_cannot_expire(remote: RemoteZooKeeper) -> None:
    with pytest.raises(SimzkError, match="no session"):
        remote.expire(remote.client())
    with simzk.ZooKeeper() as zookeeper, pytest.raises(SimzkError, match="belongs to another server"):
        remote.expire(zookeeper.client())
