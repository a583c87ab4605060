"""Brokers exchange values in memory; encoded and decoded by the codec, they leave the same history."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
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

SEED = 11
HAS_SESSIONS = (1, 1)
"""The first release with fetch sessions (`replication_as_bytes`)."""
RECORDS = Path(__file__).parents[2] / "scenarios" / "anything_breaks_records.toml"


SAFETY_US = 90_000_000
"""How long faults happen: a third of what the scenario says."""


def played(version: str, seed: int) -> tuple[object, object]:
    """Play producers and consumers under faults; return the history and the znodes."""
    scenario = read_scenario(RECORDS)
    assert scenario.faults is not None
    shorter = replace(scenario, faults=replace(scenario.faults, safety_us=SAFETY_US))
    with closing(Play(shorter, seed=seed, version=version)) as play:
        play.run()
        assert play.crash is None, play.crash
        tree = [(path, node.data, node.stat()) for path, node in play.cluster.server.tree.walk()]
        return list(play.history), tree


SLOW = [pytest.param(version, marks=pytest.mark.slow) for version in ("0.9", "1.1", "2.1", "2.4", "2.8", "3.2")]


@pytest.mark.parametrize("version", [*SLOW, "3.9"])
def test_requests_of_brokers_as_bytes_change_no_history(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of followers, and those of the controller and to it, which pass the handlers of clients' requests."""
    expected, release = played(version, SEED), kafka_version(version).number
    counted, traffic, register = Counter[str](), Traffic(), Connections.register

    def register_bytes(self: Connections, process: Process, serve: Serve) -> None:
        broker = getattr(serve, "__self__", None)
        served = serve if release < HAS_SESSIONS else bytes_between(serve, release, traffic)
        if isinstance(broker, Broker):
            # made for each request, because a broker may be upgraded
            register(self, process, lambda *request: ControlBytes(broker, served, counted).serve(*request))
        else:
            register(self, process, served)

    monkeypatch.setattr(Connections, "register", register_bytes)
    assert played(version, SEED) == expected
    assert counted["LeadershipRequest"] > 50
    assert counted["MetadataUpdateRequest"] > 100
    assert counted["StopReplicasRequest"] > 1
    if release >= HAS_SESSIONS:
        assert traffic.exchanges > 1_000
        assert traffic.batches > 1_000
