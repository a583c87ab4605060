"""The order in which containers and TTL nodes are removed that expire in one sweep: the real server's."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import BUILDS
from simzk.zookeeper.replies import EventType, Reply, WatchedEvent
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.releases import fetched
from tests.conformance.test_versions import RELEASES
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(120)]

INTERVAL_MS = 3000
OLDER = ("3.5.10", "3.6.4", "3.7.2", "3.8.6")


def names(seed: int, count: int) -> list[str]:
    """Return paths, some of which have the same hash code."""
    chance = random.Random(seed)
    parts = ["".join(chance.choice(("Aa", "BB", "C#", "x", "y")) for _ in range(3)) for _ in range(4 * count)]
    return [f"/{part}" for part in dict.fromkeys(parts)][:count]


def changes(paths: list[str]) -> list[req.Request]:
    """Return requests that leave each path as an empty container that had a child, or as a TTL node."""
    asked: list[req.Request] = []
    for number, path in enumerate(paths):
        if number % 3 == 0:
            asked.append(req.CreateTTL(path, b"", req.OPEN_ACL, 5, 1))
        else:
            asked += [req.CreateContainer(path, b"", req.OPEN_ACL, 4), req.Create(f"{path}/c", b"", req.OPEN_ACL, 0)]
    asked += [req.Delete(path, -1) for path in paths[::9]]
    asked += [req.CreateTTL(path, b"", req.OPEN_ACL, 5, 1) for path in paths[::9]]
    return asked + [req.Delete(f"{path}/c", -1) for number, path in enumerate(paths) if number % 3]


def removed(port: int, rounds: list[list[str]]) -> list[list[str]]:
    """Return the paths that each sweep removes, in order; each round's nodes are made behind a sweep."""
    found = []
    with TcpClient(port) as watcher, TcpClient(port) as client:
        watcher.connect(timeout_ms=30_000)
        client.connect(timeout_ms=30_000)

        def deleted(count: int) -> list[str]:
            paths: list[str] = []
            while len(paths) < count:
                message = watcher.next()
                if isinstance(message, WatchedEvent) and message.type == EventType.NODE_DELETED:
                    assert message.path is not None
                    paths.append(message.path)
            return paths

        for paths in rounds:
            client.ask(req.CreateTTL("/marker", b"", req.OPEN_ACL, 5, 1))
            watcher.send(req.Exists("/marker", True))
            deleted(1)
            asked = changes(paths)
            client.send(*asked)
            replies = [client.next() for _ in asked]
            assert all(isinstance(reply, Reply) and reply.error == 0 for reply in replies)
            watcher.send(*(req.Exists(path, True) for path in paths))
            found.append(deleted(len(paths)))
    return found


def compare(release: str, jars: Path | None) -> None:
    rounds = [names(1, 30), names(2, 9), names(3, 60)]
    properties = {"znode.container.checkIntervalMs": str(INTERVAL_MS)}
    with RealZooKeeper(properties=properties, jars_from=jars) as real:
        expected = removed(real.port, rounds)
    config = ServerConfig(version=release, extended_types=True, container_check_interval_ms=INTERVAL_MS // 3)
    with served(Settings(server=config), WallClock()) as ours:
        found = removed(ours.port, rounds)
    assert found == expected


def test_one_sweep_removes_in_the_real_order() -> None:
    compare(list(BUILDS)[-1], None)


@pytest.mark.by_hand(RELEASES)
@pytest.mark.parametrize("release", OLDER)
def test_one_sweep_of_an_older_release_removes_in_its_order(release: str) -> None:
    compare(release, fetched(release, Path(os.environ[RELEASES]).expanduser().resolve()))
