"""`RemoteZooKeeper`, the verbs of tests against a real server; here the server is of simzk and can be disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.errors import SimzkError
from simzk.testing.remote_zookeeper import RemoteZooKeeper
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kazoo.client import KazooClient


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


def test_a_client_without_a_session_cannot_expire(remote: RemoteZooKeeper) -> None:
    with pytest.raises(SimzkError, match="no session"):
        remote.expire(remote.client())
    with simzk.ZooKeeper() as zookeeper, pytest.raises(SimzkError, match="belongs to another server"):
        remote.expire(zookeeper.client())
