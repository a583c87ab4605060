"""`simzk serve --kafka`: a scenario's brokers on wall time, or a layout's znodes, for any client on a TCP port."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.scenarios import report_text as telling
from simzk.scenarios.live import LiveScenario
from simzk.scenarios.reader import read_scenario
from simzk.serve.clock import WallClock
from simzk.serve.tcp.server import TcpServer
from simzk.serve.tcp.simulated_cluster import ClusterTcpServer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from simzk.serve.configuration.settings import Settings
    from simzk.simulation import Event


LAYOUTS = (".parquet", ".json")
"""How the names of layout files end."""

KAFKA_VERSION = "3.9"
"""In whose form a layout's znodes are written."""


def serve_kafka(settings: Settings, asked: argparse.Namespace) -> TcpServer:
    """A server, not yet started: of a layout file's znodes, or one on which a scenario's brokers live; what they do is
    told on stderr as it happens.

    Raises:
        LayoutError, ScenarioError: the file cannot be used.
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
    if Path(asked.kafka).suffix in LAYOUTS:
        return _serve_layout(settings, asked.kafka)
    scenario = read_scenario(asked.kafka)
    return ClusterTcpServer(settings, LiveScenario(scenario, start_ms=WallClock().now_ms(), tell=_tell, warn=_warn))


def _serve_layout(settings: Settings, file: str) -> TcpServer:
    """A server of a cluster's znodes as a layout has them; nobody lives there but who connects."""
    from simzk.kafka.columnar import describe_brokers, load_layout
    from simzk.kafka.releases.versions import kafka_version
    from simzk.partitions.layouts import read_layout

    layout, version = read_layout(file), kafka_version(KAFKA_VERSION)
    server = TcpServer(settings, WallClock())
    now_ms = server.clock.now_ms()
    load_layout(server.driver.server, layout, version, now_ms)
    describe_brokers(server.driver.server, layout, version, now_ms)
    return server


def _tell(events: Sequence[Event]) -> None:
    sys.stderr.write(telling.plain(telling.timeline(events)[:-1]))
    sys.stderr.flush()


def _warn(what: str) -> None:
    sys.stderr.write(f"simzk: left out: {what}\n")
