"""Nodes that no parent lists, as real servers of six releases keep them: each answer, and what they write."""

from __future__ import annotations

import json
import lzma
import re
from base64 import b64decode
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.persistence import LOG_HEADER, Restoration, SnapshotReader, TransactionLogReader
from simzk.zookeeper.releases import Rules
from tests.conformance.orphan_story import RECORDED, RELEASES, STORIES, TICK_MS, written
from tests.serve.served import served, served_ensemble

if TYPE_CHECKING:
    from pathlib import Path

ZXID = re.compile(r"zxid=\d+")
FOUND: dict[str, dict[str, dict[str, Any]]] = json.loads(lzma.decompress(RECORDED.read_bytes()))


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("release", RELEASES)
def test_orphans_are_as_those_of_a_real_server(release: str, story: str, tmp_path: Path) -> None:
    directory, tell = STORIES[story]
    directory.write(tmp_path)
    config = ServerConfig(version=release, extended_types=True, tick_time_ms=TICK_MS, max_session_timeout_ms=40_000)
    clock = StillClock()
    clock.move_to(1_750_000_000_000)
    with served(Settings(server=config, data_directory=tmp_path), clock) as server:

        def wait(duration_ms: int) -> None:
            server.tcp.driver.advance(clock, duration_ms)

        told = [*tell(server.port, Rules(release), wait)]
        server.tcp.driver.server.check()
    told += written(tmp_path)
    recorded = FOUND[release][story]["told"]
    if not any(line.startswith("in the snapshot") for line in recorded):
        told = [line for line in told if not line.startswith("in the snapshot")]
    assert told == recorded


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("release", RELEASES[3:])
@pytest.mark.parametrize("is_lazy", [False, True])
def test_digests_count_orphans(release: str, story: str, is_lazy: bool) -> None:
    """The server's log has the digest of its tree after each transaction."""
    directory, _ = STORIES[story]
    restoration = Restoration(is_lazy=is_lazy, rules=Rules(release))
    assert restoration.load(SnapshotReader(BytesIO(directory.snapshot.encode())), directory.snapshot.zxid) is None
    first = b"".join(entry.encode() for entry in directory.log)
    written_later = TransactionLogReader(BytesIO(b64decode(FOUND[release][story]["log"])))
    for entry in TransactionLogReader(BytesIO(LOG_HEADER + first)):
        restoration.replay(entry)
    digests = 0
    for entry in written_later:
        restoration.replay(entry)
        digests += entry[1] is not None
    assert digests
    assert restoration.mismatch_zxid is None
    restoration.tree.check()


@pytest.mark.parametrize("story", ["requested", "expired", "closed"])
@pytest.mark.parametrize("server_id", [1, 3])
def test_members_of_an_ensemble_have_orphans_too(server_id: int, story: str, tmp_path: Path) -> None:
    """The same answers but for zxids, which have the epoch of the leader."""
    directory, tell = STORIES[story]
    for number in (1, 2, 3):
        directory.write(tmp_path / str(number))
    config = ServerConfig(extended_types=True, tick_time_ms=TICK_MS, max_session_timeout_ms=40_000)
    clock = StillClock()
    clock.move_to(1_750_000_000_000)
    with served_ensemble(Settings(server=config, data_directory=tmp_path), clock) as ensemble:

        def wait(duration_ms: int) -> None:
            ensemble.tcp.driver.advance(clock, duration_ms)

        told = list(tell(ensemble.ports[server_id], Rules("3.9.5"), wait))
        ensemble.tcp.ensemble.check()
    recorded = FOUND["3.9.5"][story]["told"]
    assert [ZXID.sub("", line) for line in told] == [ZXID.sub("", line) for line in recorded[: len(told)]]
