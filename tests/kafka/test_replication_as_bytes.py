"""Brokers exchange values in memory; encoded and decoded by the codec, they leave the same history."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.broker.broker import Broker
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.rpc import Connections
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from tests.kafka.control_as_bytes import ControlBytes
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


SLOW_CONTROL = [
    pytest.param(version, 7, marks=pytest.mark.slow) for version in ("0.9", "1.0", "2.2", "2.4", "2.8", "3.2")
]


@pytest.mark.parametrize(("version", "seed"), [*SLOW_CONTROL, ("3.9", 7)])
def test_control_requests_as_bytes_change_no_history(version: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of the controller, and of brokers to it, pass the handlers of clients' requests, too."""
    expected = played(version, seed)
    counted: Counter[str] = Counter()
    register = Connections.register

    def register_bytes(self: Connections, process: Process, serve: Serve) -> None:
        broker = getattr(serve, "__self__", None)
        if isinstance(broker, Broker):
            serve = lambda request, respond: ControlBytes(broker, counted).serve(request, respond)  # noqa: E731
        register(self, process, serve)

    monkeypatch.setattr(Connections, "register", register_bytes)
    assert played(version, seed) == expected
    assert all(counted[name] for name in ("LeaderAndIsrRequest", "UpdateMetadataRequest", "StopReplicaRequest"))
