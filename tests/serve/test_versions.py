"""A version is asked for by name, and kazoo finds it."""

from __future__ import annotations

import pytest
from kazoo.exceptions import ConnectionLoss, UnimplementedError

import simzk


def test_kazoo_learns_that_an_old_server_does_not_know_a_request() -> None:
    with simzk.ZooKeeper(version="3.4") as zookeeper:
        client = zookeeper.client()
        client.start()
        client.create("/a", b"x")
        assert client.get_children("/zookeeper") == ["quota"]
        # The server refuses, and cuts the connection; kazoo may tell of either first.
        with pytest.raises((UnimplementedError, ConnectionLoss)):
            client.create("/b", b"", include_data=True)


def test_the_newest_is_the_default() -> None:
    with simzk.ZooKeeper() as zookeeper:
        assert zookeeper.server.config.rules.release == (3, 9, 5)


def test_a_version_that_is_not_simulated_is_refused() -> None:
    with pytest.raises(simzk.ConfigError, match=r"version: there is no ZooKeeper '4' here; expected one of 3\.4, 3\.4\.14"):
        simzk.ZooKeeper(version="4")
