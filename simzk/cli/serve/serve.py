"""Serve a ZooKeeper on a TCP port."""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.cli.serve.tls import add_options, with_tls
from simzk.errors import ConfigError
from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings
from simzk.serve.tcp.server import TcpServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.serve.admin_server.server import AdminServer, MetricsServer
    from simzk.serve.tcp.ensemble import TcpEnsemble

DEFAULT_PORT = 2181
FAILED = 1

DESCRIPTION = """\
Serve a ZooKeeper on a TCP port, for any client. Once it is ready, the first line on stdout says where it listens.
SIGTERM or Ctrl-C stops it. Without --data-dir or --config the tree is kept in memory only."""


def main(arguments: list[str]) -> int:
    """Serve until a signal comes; return the exit status.

    Raises:
        ConfigError: an option, a configuration file, a port or a data directory that cannot be.
    """
    asked = _parser().parse_args(arguments)
    files = [read_settings(asked, config) for config in asked.config or (None,)]
    server = _server(files, asked)
    admins, metrics = _admins(server), _metrics(server)
    for notice in server.notices:
        sys.stderr.write(f"simzk: warning: {notice}\n")
    for loss in server.losses:
        sys.stderr.write(f"simzk: lost: {loss}\n")
    _spare_the_living()
    _allow_open_files()
    return asyncio.run(_serve(server, admins, metrics))


def _server(files: Sequence[Settings], asked: argparse.Namespace) -> TcpServer | TcpEnsemble:
    settings = files[0]
    if len(files) > 1 or settings.belonging is not None:
        from simzk.cli.serve.ensemble import serve_files

        return serve_files(files, asked)
    if asked.kafka is not None:
        from simzk.cli.serve.kafka import serve_kafka

        return serve_kafka(settings, asked)
    if asked.servers == 1 and not asked.observers and not asked.read_only:
        return TcpServer(settings, WallClock())
    from simzk.serve.configuration.ensemble_plan import numbered
    from simzk.serve.tcp.ensemble import TcpEnsemble

    plan = numbered(settings, asked.servers, observers=asked.observers, read_only=asked.read_only)
    return TcpEnsemble(plan, WallClock())


def read_settings(asked: argparse.Namespace, config: Path | None) -> Settings:
    """What the command line, and a configuration file that it names, ask for."""
    if config is not None:
        from simzk.serve.configuration.zoo_cfg import read_zoo_cfg

        settings = read_zoo_cfg(config)
    else:
        settings = Settings(port=DEFAULT_PORT)
    if asked.host is not None:
        settings = settings._replace(address=asked.host)
    if asked.port is not None:
        settings = settings._replace(port=asked.port)
    if asked.data_dir is not None:
        settings = settings._replace(data_directory=asked.data_dir, log_directory=None)
    if asked.admin_port is not None:
        settings = settings._replace(admin_port=asked.admin_port)
    settings = with_tls(settings, asked)
    if asked.jaas is not None:
        from simzk.serve.configuration.file_formats import read_jaas

        settings = settings._replace(server=settings.server._replace(sasl_users=read_jaas(asked.jaas)))
    for scheme in settings.server.required_schemes:
        if scheme not in settings.server.schemes:
            right = "--jaas FILE, with users" if scheme == "sasl" else ", ".join(sorted(settings.server.schemes))
            raise ConfigError(f"nobody can show an identity of the scheme {scheme!r}, which is required", right=right)
    if settings.server.required_schemes and (asked.servers > 1 or settings.belonging is not None):
        raise ConfigError("authentication is enforced by one server only", where="--servers", right="1")
    if asked.zookeeper_version is not None:
        settings = settings._replace(server=settings.server._replace(version=asked.zookeeper_version))
    if asked.no_fsync:
        settings = settings._replace(storage=settings.storage._replace(fsync=False))
    return settings


def _servers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 254:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of servers, 1 to 254")
    return int(text)


def _observers(text: str) -> int:
    if not text.isdecimal() or int(text) > 253:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of observers, 0 to 253")
    return int(text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # argparse's own exits in a form of its own
        raise ConfigError(message, right="what simzk serve --help says")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, 0 to 65535")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="simzk serve", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--host", metavar="H", help="interface to listen on (default 127.0.0.1, or what zoo.cfg says)")
    parser.add_argument("--port", metavar="N", type=_port, help=f"port, 0 for any free one (default {DEFAULT_PORT})")
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        help="load this data directory, and write to it; an ensemble its DIR/N",
    )
    parser.add_argument("--no-fsync", action="store_true", help="do not force what is written to the disk")
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        action="append",
        help="the real server's own zoo.cfg; of an ensemble those of all servers, each with --config",
    )
    parser.add_argument("--servers", metavar="N", type=_servers, default=1, help="an ensemble of N, a port each")
    parser.add_argument(
        "--observers", metavar="N", type=_observers, default=0, help="N servers more, which have no vote"
    )
    parser.add_argument(
        "--kafka",
        metavar="FILE",
        help="simulated brokers on it: this scenario, on wall time; or the znodes of this layout",
    )
    parser.add_argument("--read-only", action="store_true", help="without a majority, serve read-only clients")
    parser.add_argument("--jaas", metavar="FILE", type=Path, help="users of SASL DIGEST-MD5, as the real server's file")
    parser.add_argument("--zookeeper-version", metavar="V", help="behave as this release, as 3.4 or 3.9.1")
    parser.add_argument("--admin-port", metavar="N", type=_port, help="serve the AdminServer's commands there (HTTP)")
    add_options(parser, _port)
    return parser


def _admins(server: TcpServer | TcpEnsemble) -> list[AdminServer]:
    """A lone server's AdminServer, where one is asked for, or those that an ensemble has."""
    if not isinstance(server, TcpServer):
        return list(server.admins.values())
    settings = server.settings
    if settings.admin_port is None:
        return []
    from simzk.serve.admin_server.server import AdminServer

    return [AdminServer(server, settings.admin_address, settings.admin_port, settings.admin_path)]


def _metrics(server: TcpServer | TcpEnsemble) -> list[MetricsServer]:
    """The port for Prometheus, where one is asked for, or those that an ensemble has."""
    if not isinstance(server, TcpServer):
        return list(server.metrics.values())
    if server.settings.metrics is None:
        return []
    from simzk.serve.admin_server.server import MetricsServer

    return [MetricsServer(server, server.settings.metrics)]


def _spare_the_living() -> None:
    """Let the garbage collector look at znodes rarely: it finds nothing in them, and a million of them cost a second.

    A tree only grows; by Python's defaults it would be looked through again and again. What is garbage here is freed
    without the collector, but for a few objects of each closed connection, which it still finds while they are young.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 10)


def _allow_open_files() -> None:
    """Open as many connections as the system lets us, whatever the shell's softer limit; Java does the same."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(server: TcpServer | TcpEnsemble, admins: list[AdminServer], metrics: list[MetricsServer]) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server.on_failure = stopped.set
    await server.start()
    for admin in admins:
        await admin.start()
        sys.stderr.write(f"simzk: AdminServer on http://{admin.name}{server.settings.admin_path}\n")
    for endpoint in metrics:
        await endpoint.start()
        sys.stderr.write(f"simzk: metrics on http://{endpoint.name}/metrics\n")
    sys.stdout.write(f"listening on {server.name}\n")
    sys.stdout.flush()
    await stopped.wait()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)  # it is stopping already
    server.stop()
    for door in (*admins, *metrics):
        door.stop()
    if server.failure is not None:
        sys.stderr.write(f"simzk: error: {server.failure}\n")
        return FAILED
    return 0
