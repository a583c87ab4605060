"""Totals of quotas and zk_approximate_data_size, live and after each boot: the real server's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import BUILDS
from simzk.zookeeper.replies import Code, ConnectResponse, Reply
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.releases import fetched
from tests.conformance.test_versions import RELEASES
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient, word

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(150)]

OLDER = ("3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.6")
NEW_SESSION = ConnectResponse(0, 30_000, 0, bytes(16), None)
QUOTA, LIMITS, STATS = "/zookeeper/quota", "zookeeper_limits", "zookeeper_stats"


def create(path: str, data: bytes = b"") -> req.Create:
    return req.Create(path, data, req.OPEN_ACL, 0)


def quota_of(path: str) -> list[req.Request]:
    """Return requests that make a quota without its stats node."""
    parts = path.strip("/").split("/")
    above = [create(f"{QUOTA}/{'/'.join(parts[:depth])}") for depth in range(1, len(parts) + 1)]
    return [*above, create(f"{QUOTA}{path}/{LIMITS}", b"count=100,bytes=-1")]


def stats_of(path: str) -> req.Create:
    return create(f"{QUOTA}{path}/{STATS}", b"count=0,bytes=0")


STORY: list[req.Request] = [
    req.SetData("/", b"root", -1),
    create("/a", b"12345"),
    *quota_of("/a"),
    stats_of("/a"),
    create("/a/b", b"123"),
    *quota_of("/a/b"),
    create("/a/b/c", b"x" * 100),  # counted nowhere: the deepest quota has no totals yet
    stats_of("/a/b"),
    *(create(f"/a/b/{number}", b"z" * number) for number in range(20)),
    req.SetData("/a", b"", -1),
    create("/s", b"s"),
    *quota_of("/s"),
    stats_of("/s"),
    create("/s/t", b"tt"),
    req.SetData(f"{QUOTA}/s/{STATS}", b"count=70,bytes=7000", -1),
    create("/s/u", b"u"),
    *quota_of("/late"),
    create("/late", b"99"),
    stats_of("/late"),
    create("/late/r", b"1"),
    # limits with a child are not armed at the next boot
    *quota_of("/odd"),
    create("/odd"),
    stats_of("/odd"),
    create(f"{QUOTA}/odd/{LIMITS}/x"),
    req.SetData("/", b"the root, longer", -1),
    req.Delete("/s/t", -1),
]
LATER: list[req.Request] = [
    create("/a/b/later", b"later"),
    create("/odd/later", b"later"),
    req.Delete("/a/b/c", -1),
    req.SetData("/", b"", -1),
    req.Delete(f"{QUOTA}/late/{STATS}", -1),
]


def after(port: int, story: list[req.Request]) -> list[object]:
    """Return the totals of all quotas, and the data size, before and after a story."""
    found: list[object] = []
    with TcpClient(port) as client:
        client.connect(30_000, NEW_SESSION)

        def look() -> None:
            for path in ("/a", "/a/b", "/s", "/late", "/odd"):
                client.send(req.GetData(f"{QUOTA}{path}/{STATS}", False))
                reply = client.next()
                assert isinstance(reply, Reply)
                found.append((path, reply.body[0] if isinstance(reply.body, tuple) else reply.error))
            found.append([line for line in word(port, b"mntr").splitlines() if "data_size" in line])

        look()
        for request in story:
            client.send(request)
            reply = client.next()
            assert isinstance(reply, Reply)
            assert reply.error in (0, Code.NODE_EXISTS), request
        look()
        client.send(req.CloseSession())
        client.rest()
    return found


def compare(release: str, jars: Path | None, folder: Path) -> None:
    """Compare a new server, one that boots from its logs, and one that boots from the snapshot of the second."""
    boot_from: Path | None = None
    for boot, story in enumerate((STORY, [], LATER, LATER[:2], [])):
        if boot == 3:
            story = [create("/a/b/last", b"last"), create("/odd/last", b"last")]
        copy = None
        if boot_from is not None:
            copy = folder / f"ours-{boot}"
            shutil.copytree(boot_from, copy)
        with RealZooKeeper(settings={"preAllocSize": "64"}, boot_from=boot_from, jars_from=jars) as real:
            expected = after(real.port, story)
            boot_from = folder / f"real-{boot}"
            shutil.copytree(real.data_directory, boot_from)
        config = ServerConfig(version=release, extended_types=True)
        if copy is not None and not list(copy.glob("version-2/snapshot.*")):
            assert release.startswith("3.4"), "3.4 writes no snapshot of an empty tree, and boots from logs alone"
            continue
        with served(Settings(server=config, data_directory=copy), StillClock()) as ours:
            assert after(ours.port, story) == expected, boot


def test_totals_are_the_real_ones_after_each_boot(tmp_path: Path) -> None:
    compare(list(BUILDS)[-1], None, tmp_path)


@pytest.mark.by_hand(RELEASES)
@pytest.mark.parametrize("release", OLDER)
def test_totals_are_those_of_an_older_release_after_each_boot(release: str, tmp_path: Path) -> None:
    compare(release, fetched(release, Path(os.environ[RELEASES]).expanduser().resolve()), tmp_path)
