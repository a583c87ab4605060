"""`simzk serve --kafka`: a scenario's brokers on wall time, or a layout's znodes, for any client on a TCP port."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.scenarios import report_text
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
"""Suffixes of layout files."""

KAFKA_VERSION = "3.9"
"""Release of the znodes of a layout."""


def serve_kafka(settings: Settings, asked: argparse.Namespace) -> TcpServer:
    """Return a server that is not started yet, with a layout's znodes or the brokers of a scenario.

    Events of the brokers are printed on stderr.

    Raises:
        LayoutError, ScenarioError: the file is invalid.
        ConfigError: an option cannot be combined with --kafka.
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
            raise ConfigError(
                "it cannot be combined with --kafka: simulated brokers use one server in memory", where=option
            )
    if Path(asked.kafka).suffix in LAYOUTS:
        return _serve_layout(settings, asked.kafka)
    scenario = read_scenario(asked.kafka)
    return ClusterTcpServer(settings, LiveScenario(scenario, start_ms=WallClock().now_ms(), tell=_show, warn=_warn))


def _serve_layout(settings: Settings, file: str) -> TcpServer:
    """Return a server with the znodes of a layout, without brokers."""
    from simzk.kafka.columnar import describe_brokers, load_layout
    from simzk.kafka.releases.versions import kafka_version
    from simzk.partitions.layouts import read_layout

    layout, version = read_layout(file), kafka_version(KAFKA_VERSION)
    server = TcpServer(settings, WallClock())
    now_ms = server.clock.now_ms()
    load_layout(server.driver.server, layout, version, now_ms)
    describe_brokers(server.driver.server, layout, version, now_ms)
    return server


def _show(events: Sequence[Event]) -> None:
    sys.stderr.write(report_text.plain(report_text.timeline(events)[:-1]))
    sys.stderr.flush()


def _warn(what: str) -> None:
    sys.stderr.write(f"simzk: skipped: {what}\n")
