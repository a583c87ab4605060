"""The order of paths and sessions in wchp, wchc, wchs and dump: the real server's."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from simzk.jvm.hash_codes import long_hash
from simzk.jvm.hash_map import concurrent_order
from simzk.serve.clock import StillClock
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import BUILDS
from simzk.zookeeper.replies import ConnectResponse
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.releases import fetched
from tests.conformance.test_sweep_order import names
from tests.conformance.test_versions import RELEASES
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient, word

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(90)]

OLDER = ("3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.6")
NEW_SESSION = ConnectResponse(0, 30_000, 0, bytes(16), None)
WORDS = (b"wchs", b"wchc", b"wchp", b"dump")
PATHS = tuple(dict.fromkeys(names(4, 40)[::3] + names(5, 12)[:9] + [f"/n{number}" for number in range(20)]))


def shown(port: int) -> list[str]:
    """Return the answers that depend on maps, without session ids; of dump, the ephemerals."""
    texts = [word(port, name) for name in WORDS]
    texts[3] = texts[3].partition("ephemeral nodes dump:")[2].partition("Connections dump:")[0]
    return [re.sub(r"0x[0-9a-f]+", "SESSION", text) for text in texts]


def reported(port: int, release: tuple[int, ...]) -> list[list[str]]:
    """Return these answers after each step of a story of one client."""
    found = []
    with TcpClient(port) as client:
        client.connect(30_000, NEW_SESSION)
        for path in PATHS:
            client.ask(req.Exists(path, True))
            if path in PATHS[::11]:
                found.append(shown(port))
        for path in PATHS[:30]:
            client.send(req.Create(path, b"", req.OPEN_ACL, 1))
            client.next()
            client.next()
        found.append(shown(port))
        for path in PATHS[4:20]:
            client.ask(req.Delete(path, -1))
            client.ask(req.Exists(path, True))
        found.append(shown(port))
        if release >= (3, 5):
            for path in PATHS[35:]:
                client.ask(req.RemoveWatches(path, 3))
            found.append(shown(port))
            with TcpClient(port) as other:
                other.connect(30_000, NEW_SESSION)
                other.ask(req.Exists("/other", True))
                other.ask(req.RemoveWatches("/other", 3))
                found.append(shown(port)[:1])
                other.send(req.CloseSession())
                other.rest()
        if release >= (3, 6):
            for path in PATHS[:7]:
                client.ask(req.AddWatch(path, 1))
                client.ask(req.GetData(path, True))
            found.append(shown(port))
    return found


def compare(release: str, jars: Path | None) -> None:
    number = tuple(map(int, release.split(".")))
    with RealZooKeeper(jars_from=jars) as real:
        expected = reported(real.port, number)
    with served(Settings(server=ServerConfig(version=release)), StillClock()) as ours:
        assert reported(ours.port, number) == expected


def test_words_list_in_the_real_order() -> None:
    compare(list(BUILDS)[-1], None)


@pytest.mark.by_hand(RELEASES)
@pytest.mark.parametrize("release", OLDER)
def test_words_of_an_older_release_list_in_its_order(release: str) -> None:
    compare(release, fetched(release, Path(os.environ[RELEASES]).expanduser().resolve()))


def test_dump_lists_sessions_with_ephemerals_in_the_order_of_a_concurrent_hash_map() -> None:
    with RealZooKeeper() as real, ExitStack() as stack:
        ids = []
        for number in range(30):
            client = stack.enter_context(TcpClient(real.port))
            ids.append(client.connect(30_000).session_id)
            client.ask(req.Create(f"/{number}", b"", req.OPEN_ACL, 1))
        ephemerals = word(real.port, b"dump").partition("ephemeral nodes dump:")[2].partition("Connections dump:")[0]
        listed = [int(text, 16) for text in re.findall(r"^0x([0-9a-f]+):", ephemerals, re.MULTILINE)]
        assert listed == concurrent_order(ids, long_hash)


def test_dump_keeps_the_times_at_which_no_session_expires_any_more() -> None:
    with RealZooKeeper(tick_time_ms=500) as real, served(Settings(server=ServerConfig(tick_time_ms=500))) as ours:
        for port in (real.port, ours.port):
            with TcpClient(port) as client:
                client.connect(5000)
                with TcpClient(port) as other:
                    other.connect(10_000)
                    other.send(req.CloseSession())
                    other.rest()
                sessions = word(port, b"dump").partition("ephemeral nodes")[0]
            assert re.search(r"^Session Sets \([2-9]\)/\(1\):$", sessions, re.MULTILINE)
            assert re.search(r"^0 expire at .*:$", sessions, re.MULTILINE)
