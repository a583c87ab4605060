"""The order in which the ephemerals of a closing session are deleted: the real server's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from simzk.zookeeper import requests as req
from simzk.zookeeper.releases import BUILDS
from simzk.zookeeper.replies import ConnectResponse, EventType, WatchedEvent
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.releases import fetched
from tests.conformance.test_sweep_order import names
from tests.conformance.test_versions import RELEASES
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(60)]

OLDER = ("3.4.9", "3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.6")
SIZES = (2, 5, 12, 13, 26, 60)
NEWEST = list(BUILDS)[-1]
NEW_SESSION = ConnectResponse(0, 30_000, 0, bytes(16), None)
"""Requested instead of none at all: 3.4 does not answer a null password."""


def deleted(port: int) -> list[list[str]]:
    """Return the paths that the end of each of some sessions deletes, in order."""
    found = []
    with TcpClient(port) as watcher:
        watcher.connect(30_000, NEW_SESSION)
        for size in SIZES:
            paths = names(size, size)
            with TcpClient(port) as client:
                client.connect(30_000, NEW_SESSION)
                for path in [*paths, "/gone-1", "/gone-2"]:
                    client.ask(req.Create(path, b"", req.OPEN_ACL, 1))
                for path in ("/gone-1", "/gone-2", paths[0]):
                    client.ask(req.Delete(path, -1))
                client.ask(req.Create(paths[0], b"", req.OPEN_ACL, 1))
                for path in paths:
                    watcher.ask(req.Exists(path, True))
                client.send(req.CloseSession())
                client.rest()
            events = [watcher.next() for _ in paths]
            found.append([event.path for event in events if isinstance(event, WatchedEvent)])
            assert {getattr(event, "type", None) for event in events} == {EventType.NODE_DELETED}
    return found


def compare(release: str, jars: Path | None, *, names_ephemerals: bool) -> list[list[str]]:
    """Compare the order of the real server with ours and return it."""
    lines = {"closeSessionTxn.enabled": str(names_ephemerals).lower()}
    with RealZooKeeper(settings=lines, jars_from=jars) as real:
        expected = deleted(real.port)
    file = "dataDir=/none\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    settings = parse_zoo_cfg(file + "".join(f"{key}={value}\n" for key, value in lines.items()))
    settings = settings._replace(data_directory=None, server=settings.server._replace(version=release))
    with served(settings, StillClock()) as ours:
        assert deleted(ours.port) == expected
    return expected


def test_a_closing_session_deletes_in_the_real_order() -> None:
    orders = [compare(NEWEST, None, names_ephemerals=named) for named in (True, False)]
    assert orders[0] != orders[1]


@pytest.mark.by_hand(RELEASES)
@pytest.mark.parametrize("release", OLDER)
def test_a_closing_session_of_an_older_release_deletes_in_its_order(release: str) -> None:
    jars = fetched(release, Path(os.environ[RELEASES]).expanduser().resolve())
    for named in (True, False):
        compare(release, jars, names_ephemerals=named)
