"""`simzk serve --kafka`: the brokers of a scenario on wall time, and their ZooKeeper on a TCP port for any client."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.scenarios import telling
from simzk.scenarios.live import LiveScenario
from simzk.scenarios.reader import read_scenario
from simzk.serve.clock import WallClock
from simzk.serve.world_tcp import WorldTcp

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from simzk.serve.settings import Settings
    from simzk.simulation import Event


def serve_scenario(settings: Settings, asked: argparse.Namespace) -> WorldTcp:
    """A server, not yet started, on which a scenario's brokers live; what they do is told on stderr as it happens.

    Raises:
        ScenarioError: the file cannot be used.
        ConfigError: an option that brokers in memory cannot be combined with.
    """
    cannot = {
        "--servers": asked.servers != 1,
        "--observers": asked.observers != 0,
        "--read-only": asked.read_only,
        "--data-dir": settings.data_directory is not None,
        "--zookeeper-version": asked.zookeeper_version is not None,
        "--jaas": asked.jaas is not None,
    }
    for option, given in cannot.items():
        if given:
            raise ConfigError("simulated brokers live on one server in memory", where=option, right="not with --kafka")
    scenario = read_scenario(asked.kafka)
    return WorldTcp(settings, LiveScenario(scenario, start_ms=WallClock().now_ms(), tell=_tell, warn=_warn))


def _tell(events: Sequence[Event]) -> None:
    sys.stderr.write(telling.plain(telling.timeline(events)[:-1]))
    sys.stderr.flush()


def _warn(what: str) -> None:
    sys.stderr.write(f"simzk: left out: {what}\n")
