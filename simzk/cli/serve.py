"""Serve a ZooKeeper on a TCP port."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.cli.arguments import CommandParser
from simzk.cli.commands import COMMANDS
from simzk.cli.messages import say
from simzk.cli.signals import ended_by_signals
from simzk.documents import is_number
from simzk.errors import ConfigError
from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings
from simzk.serve.tcp.server import TcpServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.serve.admin_server.server import AdminServer, MetricsServer
    from simzk.serve.tcp.ensemble import TcpEnsemble
    from simzk.simulation import Event

LAYOUTS = (".parquet", ".json")
"""Suffixes of layout files."""

KAFKA_VERSION = "3.9"
"""Release of the znodes of a layout."""

DEFAULT_PORT = 2181

TOKEN_VARIABLE = "SIMZK_ADMIN_TOKEN"
"""Environment variable of the token: arguments are visible to other users of the machine."""

FAILED = 1

DESCRIPTION = """\
Serve a ZooKeeper on a TCP port, for any client. When it is ready, it prints `listening on HOST:PORT` on stdout.
SIGTERM or Ctrl-C stops it. Without --data-dir or --config the tree is in memory only."""


def main(arguments: list[str]) -> int:
    """Serve until a signal; return the exit status.

    Raises:
        ConfigError: an option, a configuration file, a port or a data directory is invalid.
    """
    options = make_parser().parse_args(arguments)
    files = [read_settings(options, config) for config in options.config or (None,)]
    server = _server(files, options)
    admins, metrics = _http_servers(server)
    for notice in server.notices:
        say("warning", str(notice))
    for loss in server.losses:
        say("lost", str(loss))
    _tune_garbage_collector()
    _allow_open_files()
    return asyncio.run(_serve(server, admins, metrics))


def _server(files: Sequence[Settings], options: argparse.Namespace) -> TcpServer | TcpEnsemble:
    settings = files[0]
    if len(files) > 1 or settings.belonging is not None:
        return _serve_files(files, options)
    if options.kafka is not None:
        return _serve_kafka(settings, options)
    if options.servers == 1 and not options.observers and not options.read_only:
        return TcpServer(settings, WallClock())
    from simzk.serve.configuration.ensemble_plan import numbered
    from simzk.serve.tcp.ensemble import TcpEnsemble

    plan = numbered(settings, options.servers, observers=options.observers, read_only=options.read_only)
    return TcpEnsemble(plan, WallClock())


def _reject_options(given: dict[str, bool], what: str, right: str = "") -> None:
    """Raise a ConfigError at the first option that is given, though it cannot be combined with others."""
    for option, is_given in given.items():
        if is_given:
            raise ConfigError(what, where=option, right=right)


def _serve_files(files: Sequence[Settings], options: argparse.Namespace) -> TcpEnsemble:
    """Return the servers of the zoo.cfg files of an ensemble, not started yet.

    Raises:
        ConfigError: the files do not describe one ensemble, or an option contradicts them.
    """
    from simzk.serve.configuration.ensemble_plan import of_files
    from simzk.serve.tcp.ensemble import TcpEnsemble

    given = {
        "--servers": options.servers != 1,
        "--observers": options.observers != 0,
        "--port": options.port is not None,
        "--data-dir": options.data_dir is not None,
        "--admin-port": options.admin_port is not None,
        "--kafka": options.kafka is not None,
    }
    _reject_options(given, "it cannot be combined with the files of an ensemble", "the setting in each file")
    return TcpEnsemble(of_files(files, read_only=options.read_only), WallClock())


def _serve_kafka(settings: Settings, options: argparse.Namespace) -> TcpServer:
    """Return a server that is not started yet, with a layout's znodes or the brokers of a scenario.

    Events of the brokers are printed on stderr.

    Raises:
        LayoutError, ScenarioError: the file is invalid.
        ConfigError: an option cannot be combined with --kafka.
    """
    given = {
        "--servers": options.servers != 1,
        "--observers": options.observers != 0,
        "--read-only": options.read_only,
        "--data-dir": settings.data_directory is not None,
        "--zookeeper-version": options.zookeeper_version is not None,
        "--jaas": options.jaas is not None,
    }
    _reject_options(given, "it cannot be combined with --kafka: simulated brokers use one server in memory")
    if Path(options.kafka).suffix in LAYOUTS:
        return _serve_layout(settings, options.kafka)
    from simzk.scenarios.live_scenario import LiveScenario
    from simzk.scenarios.reader import read_scenario
    from simzk.serve.tcp.simulated_cluster import ClusterTcpServer

    scenario = read_scenario(options.kafka)
    return ClusterTcpServer(
        settings, LiveScenario(scenario, start_ms=WallClock().now_ms(), tell=show_events, warn=show_skipped)
    )


def _serve_layout(settings: Settings, file: str) -> TcpServer:
    """Return a server with the znodes of a layout, without brokers."""
    from simzk.kafka.releases.versions import kafka_version
    from simzk.kafka.zookeeper_mode.columnar import describe_brokers, load_layout
    from simzk.partitions.layouts import read_layout

    layout, version = read_layout(file), kafka_version(KAFKA_VERSION)
    server = TcpServer(settings, WallClock())
    now_ms = server.clock.now_ms()
    load_layout(server.driver.server, layout, version, now_ms)
    describe_brokers(server.driver.server, layout, version, now_ms)
    return server


def show_events(events: Sequence[Event]) -> None:
    """Write events of simulated brokers to stderr."""
    from simzk.scenarios import report_text

    sys.stderr.write(report_text.plain(report_text.timeline(events)[:-1]))
    sys.stderr.flush()


def show_skipped(what: str) -> None:
    """Write to stderr which step of a scenario cannot be played on wall time."""
    say("skipped", what)


def read_settings(options: argparse.Namespace, config: Path | None) -> Settings:
    """Return the settings from the command line and a configuration file."""
    if config is not None:
        from simzk.serve.configuration.zoo_cfg import read_zoo_cfg

        settings = read_zoo_cfg(config)
    else:
        settings = Settings(port=DEFAULT_PORT)
    given = {
        "address": options.host,
        "port": options.port,
        "admin_port": options.admin_port,
        "admin_token": options.admin_token,
    }
    settings = settings._replace(**{key: value for key, value in given.items() if value is not None})
    if options.host is not None and settings.live_address is not None:
        settings = settings._replace(live_address=options.host)
    if options.data_dir is not None:
        settings = settings._replace(data_directory=options.data_dir, log_directory=None)
    settings = _with_tls(settings, options)
    if options.jaas is not None:
        from simzk.serve.configuration.file_formats import read_jaas

        settings = settings._replace(server=settings.server._replace(sasl_users=read_jaas(options.jaas)))
    for scheme in settings.server.required_schemes:
        if scheme not in settings.server.schemes:
            right = "--jaas FILE, with users" if scheme == "sasl" else ", ".join(sorted(settings.server.schemes))
            raise ConfigError(f"the required authentication scheme {scheme!r} is not configured", right=right)
    if settings.server.required_schemes and (options.servers > 1 or settings.belonging is not None):
        raise ConfigError("required authentication is supported by a single server only", where="--servers", right="1")
    if options.zookeeper_version is not None:
        settings = settings._replace(server=settings.server._replace(version=options.zookeeper_version))
    if options.no_fsync:
        settings = settings._replace(storage=settings.storage._replace(fsync=False))
    return settings


def number(what: str, least: int, most: int) -> Callable[[str], int]:
    """Return the parser of a number in a range."""

    def parse(text: str) -> int:
        if not is_number(text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}, {least} to {most}")
        return int(text)

    return parse


port = number("a port", 0, 65535)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    epilog = f"Example: {COMMANDS['serve'].example}"
    parser = CommandParser(prog="simzk serve", description=DESCRIPTION, epilog=epilog, allow_abbrev=False)
    parser.add_argument(
        "--host", metavar="H", help="interface to listen on [default: 127.0.0.1, or clientPortAddress of zoo.cfg]"
    )
    parser.add_argument(
        "--port", metavar="N", type=port, help=f"client port, 0 for any free one [default: {DEFAULT_PORT}]"
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        type=Path,
        help="persist to DIR (created if missing); an ensemble uses DIR/1, DIR/2, ...",
    )
    parser.add_argument("--no-fsync", action="store_true", help="do not flush writes to the disk")
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        action="append",
        help="zoo.cfg of a real server; for an ensemble, give --config once per server",
    )
    parser.add_argument(
        "--servers",
        metavar="N",
        type=number("a number of servers", 1, 254),
        default=1,
        help="number of servers of the ensemble, each on its own port [default: 1]",
    )
    parser.add_argument(
        "--observers",
        metavar="N",
        type=number("a number of observers", 0, 253),
        default=0,
        help="number of additional servers without a vote [default: 0]",
    )
    parser.add_argument(
        "--kafka",
        metavar="FILE",
        help="scenario to play with simulated brokers on wall time, or layout to load as znodes",
    )
    parser.add_argument("--read-only", action="store_true", help="serve read-only clients while there is no quorum")
    parser.add_argument(
        "--jaas", metavar="FILE", type=Path, help="JAAS file of a real server, with the users of SASL DIGEST-MD5"
    )
    parser.add_argument("--zookeeper-version", metavar="V", help="release to imitate, such as 3.4 or 3.9.1")
    parser.add_argument("--admin-port", metavar="N", type=port, help="HTTP port of the AdminServer [default: none]")
    parser.add_argument(
        "--admin-token",
        metavar="TOKEN",
        default=os.environ.get(TOKEN_VARIABLE) or None,
        help="token that clients need by HTTP, on every machine if it is set; without one only clients "
        f"on this machine may [default: the environment variable {TOKEN_VARIABLE}]",
    )
    _add_tls_options(parser)
    return parser


def _http_servers(server: TcpServer | TcpEnsemble) -> tuple[list[AdminServer], list[MetricsServer]]:
    """Return the AdminServers and the metrics endpoints (Prometheus) of a server or ensemble."""
    if not isinstance(server, TcpServer):
        return list(server.admins.values()), list(server.metrics.values())
    settings = server.settings
    if settings.admin_port is None and settings.metrics is None:
        return [], []
    from simzk.serve.admin_server.server import AdminServer, MetricsServer

    port, path = settings.admin_port, settings.admin_path
    return (
        [] if port is None else [AdminServer(server, settings.admin_address, port, path, brokers=server.brokers)],
        [] if settings.metrics is None else [MetricsServer(server, settings.metrics)],
    )


def _tune_garbage_collector() -> None:
    """Run the garbage collector rarely: a pass over a million znodes takes a second and frees nothing.

    Reference counting frees almost all garbage here; the rest, a few objects per closed connection, is found in the
    youngest generation.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 10)


def _allow_open_files() -> None:
    """Raise the limit of open files to the hard limit, as the JVM does."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(server: TcpServer | TcpEnsemble, admins: list[AdminServer], metrics: list[MetricsServer]) -> int:
    with ended_by_signals() as ended:
        server.on_failure = ended.set
        await server.start()
        for admin in admins:
            await admin.start()
            path = server.settings.admin_path
            sys.stderr.write(
                f"simzk: AdminServer on http://{admin.name}{path}, live page on http://{admin.live_name}/\n"
            )
        for endpoint in metrics:
            await endpoint.start()
            sys.stderr.write(f"simzk: metrics on http://{endpoint.name}/metrics\n")
        sys.stdout.write(f"listening on {server.name}\n")
        sys.stdout.flush()
        await ended.wait()
    server.stop()
    for listener in (*admins, *metrics):
        listener.stop()
    if server.failure is not None:
        say("error", str(server.failure))
        return FAILED
    return 0


_REST = {
    "tls_key": "--tls-key",
    "tls_ca": "--tls-ca",
    "tls_password_file": "--tls-password-file",
    "tls_client_auth": "--tls-client-auth",
}


def _add_tls_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("TLS")
    group.add_argument(
        "--secure-port", metavar="N", type=port, help="TLS port in addition to --port, 0 for any free one"
    )
    group.add_argument(
        "--tls-cert",
        metavar="FILE",
        type=Path,
        help="certificate of the server: PEM, .jks or .p12; without --secure-port, --port uses TLS",
    )
    group.add_argument("--tls-key", metavar="FILE", type=Path, help="private key, PEM [default: in --tls-cert]")
    group.add_argument(
        "--tls-ca", metavar="FILE", type=Path, help="trusted CA certificates: PEM, .jks or .p12 [default: none]"
    )
    group.add_argument(
        "--tls-password-file", metavar="FILE", type=Path, help="file with the password of key and stores"
    )
    group.add_argument(
        "--tls-client-auth",
        choices=("need", "want", "none"),
        help="whether clients must have a certificate [default: need with --tls-ca, else none]",
    )


def _with_tls(settings: Settings, options: argparse.Namespace) -> Settings:
    """Return the settings with the TLS options applied.

    Raises:
        ConfigError: the options contradict each other.
    """
    if options.tls_cert is None:
        for name, option in _REST.items():
            if getattr(options, name) is not None:
                raise ConfigError("it is used with --tls-cert only", where=option, right="--tls-cert FILE beside it")
        if options.secure_port is None:
            return settings
        if settings.tls is None:
            raise ConfigError("a secure port needs a certificate", where="--secure-port", right="--tls-cert FILE")
        return settings._replace(secure_port=options.secure_port)
    if options.tls_client_auth in ("need", "want") and options.tls_ca is None:
        raise ConfigError(
            "no certificate of a client would be trusted", where="--tls-client-auth", right="--tls-ca FILE beside it"
        )
    from simzk.serve.tcp.tls import Tls

    tls = Tls(
        options.tls_cert,
        key=options.tls_key,
        authorities=options.tls_ca,
        client_auth=options.tls_client_auth or ("none" if options.tls_ca is None else "need"),
        password_path=options.tls_password_file,
        trust_password_path=options.tls_password_file,
    )
    secure_port = settings.secure_port if options.secure_port is None else options.secure_port
    return settings._replace(tls=tls, secure_port=secure_port, server=settings.server._replace(x509=True))
