"""`simzk serve` with the zoo.cfg files of an ensemble: all its servers in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.serve.clock import WallClock
from simzk.serve.configuration.ensemble_plan import of_files
from simzk.serve.tcp.ensemble import TcpEnsemble

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from simzk.serve.configuration.settings import Settings


def serve_files(files: Sequence[Settings], asked: argparse.Namespace) -> TcpEnsemble:
    """Return the servers of these files, not started yet.

    Raises:
        ConfigError: the files do not describe one ensemble, or an option contradicts them.
    """
    cannot = {
        "--servers": asked.servers != 1,
        "--observers": asked.observers != 0,
        "--port": asked.port is not None,
        "--data-dir": asked.data_dir is not None,
        "--admin-port": asked.admin_port is not None,
        "--kafka": asked.kafka is not None,
    }
    for option, given in cannot.items():
        if given:
            raise ConfigError(
                "it cannot be combined with the files of an ensemble", where=option, right="the setting in each file"
            )
    return TcpEnsemble(of_files(files, read_only=asked.read_only), WallClock())
