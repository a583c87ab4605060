"""Brokers exchange values in memory; encoded and decoded by the codec, they leave the same history."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.rpc import Connections
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from tests.kafka.replication_as_bytes import Traffic, bytes_between

if TYPE_CHECKING:
    from simzk.kafka.rpc import Serve
    from simzk.simulation import Process

RECORDS = Path(__file__).parents[2] / "scenarios" / "anything_breaks_records.toml"


def played(version: str, seed: int) -> tuple[object, object]:
    """Play producers and consumers under faults; return the history and the znodes."""
    with closing(Play(read_scenario(RECORDS), seed=seed, version=version)) as play:
        play.run()
        assert play.crash is None, play.crash
        tree = [(path, node.data, node.stat()) for path, node in play.cluster.server.tree.walk()]
        return list(play.history), tree


SLOW = [pytest.param(version, 7, marks=pytest.mark.slow) for version in ("1.1", "2.1", "2.4", "2.8")]


@pytest.mark.parametrize(("version", "seed"), [*SLOW, ("3.9", 7)])
def test_replication_as_bytes_changes_no_history(version: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = played(version, seed)
    traffic, register = Traffic(), Connections.register

    def register_bytes(self: Connections, process: Process, serve: Serve) -> None:
        register(self, process, bytes_between(serve, kafka_version(version).number, traffic))

    monkeypatch.setattr(Connections, "register", register_bytes)
    assert played(version, seed) == expected
    assert traffic.exchanges > 1_000
    assert traffic.batches > 1_000
