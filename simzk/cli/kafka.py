"""Serve a simulated Kafka cluster on TCP ports."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simzk.cli.arguments import CommandParser
from simzk.cli.messages import say
from simzk.cli.serve import LAYOUTS, TOKEN_VARIABLE, number, port, show_events, show_skipped
from simzk.cli.signals import ENDING
from simzk.documents import is_number
from simzk.errors import ConfigError, IgnoredSettingWarning
from simzk.kafka.listeners import LISTENERS
from simzk.kafka.security.settings import PLAINTEXT, PROTOCOLS
from simzk.serve.configuration.file_formats import read_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka_server import KafkaServer, Listeners
    from simzk.serve.simulated_brokers import Json
    from simzk.serve.tcp.tls import Tls
    from simzk.simulation import Event

DEFAULT_VERSION, DEFAULT_BROKERS = "3.9", 3
DEFAULT_PORT, DEFAULT_ZOOKEEPER_PORT = 9092, 2181
DEFAULT_TICK_TIME_MS = 2000

DESCRIPTION = """\
Serve a simulated Kafka cluster and its ZooKeeper on TCP ports. When all brokers serve, the first line on stdout tells
where they listen. SIGTERM or Ctrl-C stops the cluster."""


def main(arguments: list[str]) -> int:
    """Serve until a signal; return the exit status.

    Raises:
        ConfigError: an option, a setting or a port is invalid.
    """
    from simzk.kafka_server import Listeners

    asked = make_parser().parse_args(arguments)
    default = 0 if asked.json else None
    listeners = Listeners(
        asked.host,
        _port_of(asked.port, default, DEFAULT_PORT),
        _port_of(asked.zookeeper_port, default, DEFAULT_ZOOKEEPER_PORT),
        asked.control_port,
        asked.control_token,
        asked.security,
        _tls(asked),
        asked.advertised_host,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IgnoredSettingWarning)  # named by their names in the file instead
        served = _server(asked, listeners)
    with served as server:
        _show_shortages(server)
        _announce(server, as_json=asked.json)
        _wait_for_signal()
    return 0


def _tls(asked: argparse.Namespace) -> Tls | None:
    """Return the TLS configuration of the brokers' ports; None for no TLS, or for a new certificate."""
    if asked.tls_cert is None:
        for option, value in (("--tls-key", asked.tls_key), ("--tls-ca", asked.tls_ca)):
            if value is not None:
                raise ConfigError("it is used with --tls-cert only", where=option, right="--tls-cert FILE beside it")
        return None
    from simzk.serve.tcp.tls import Tls

    auth: Literal["need", "none"] = "none" if asked.tls_ca is None else "need"
    return Tls(asked.tls_cert, asked.tls_key, asked.tls_ca, auth)


def _server(asked: argparse.Namespace, listeners: Listeners) -> KafkaServer:
    """Return the server of a new cluster, or of the one that a file describes."""
    from simzk.kafka_server import KafkaServer

    if asked.file is not None:
        return _server_of_file(asked, listeners)
    common, own = _settings(asked)
    if asked.port is not None and common.get(LISTENERS):
        raise ConfigError(f"it cannot be combined with {LISTENERS} in --config", where="--port", right="one of both")
    return KafkaServer(
        asked.version or DEFAULT_VERSION,
        asked.broker_ids or (DEFAULT_BROKERS if asked.brokers is None else asked.brokers),
        asked.racks or racks_of(own),
        asked.seed,
        config=common,
        broker_config=own,
        cluster_id=asked.cluster_id,
        tick_time_ms=DEFAULT_TICK_TIME_MS if asked.tick_time is None else asked.tick_time,
        zookeeper_servers=1 if asked.zookeeper_servers is None else asked.zookeeper_servers,
        **listeners._asdict(),
    )


def _server_of_file(asked: argparse.Namespace, listeners: Listeners) -> KafkaServer:
    """Return the server of a scenario, whose steps happen on wall time, or of a layout.

    Raises:
        ScenarioError, LayoutError: the file is invalid.
        ConfigError: an option cannot be combined with the file.
    """
    from simzk.kafka_server import KafkaServer

    given = {
        "--brokers": asked.brokers,
        "--broker-ids": asked.broker_ids,
        "--racks": asked.racks,
        "--zookeeper-servers": asked.zookeeper_servers,
        "--cluster-id": asked.cluster_id,
        "--tick-time": asked.tick_time,
    }
    is_layout = Path(asked.file).suffix in LAYOUTS
    if not is_layout:
        given |= {"--version": asked.version, "--config": asked.config, "--seed": asked.seed or None}
    refused = [option for option, value in given.items() if value is not None]
    if refused:
        raise ConfigError("it cannot be combined with a file, which describes the cluster", where=refused[0])
    if is_layout:
        from simzk.partitions.layouts import read_layout

        common, own = _settings(asked)
        if own:
            raise ConfigError("settings of single brokers cannot be combined with a layout", where=str(asked.config))
        version = asked.version or DEFAULT_VERSION
        return KafkaServer.from_layout(
            read_layout(asked.file), version=version, seed=asked.seed, config=common, listeners=listeners
        )
    return KafkaServer.from_scenario(asked.file, listeners=listeners, tell=show_events, warn=show_skipped)


_FACTORS = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
_STRICT_SINCE = (0, 11)
"""First release that creates no internal topic with fewer replicas than configured."""


def _show_shortages(server: KafkaServer) -> None:
    """Write to stderr why consumer groups or transactions cannot start with so few brokers."""
    from simzk.kafka.client_requests.metadata import SHORT_OF_BROKERS

    brokers = server.cluster.brokers
    first = next(iter(brokers.values()))
    needed = {key: first.config.integer(key) for key in _FACTORS if first.version.number >= _STRICT_SINCE}
    short = [f"{key}={factor}" for key, factor in needed.items() if factor > len(brokers)]
    if short:
        count = f"{len(brokers)} broker{'s' * (len(brokers) > 1)}"
        say("note", f"{count}: no consumer groups or transactions with {', '.join(short)}; --config can set them")

    def show(event: Event) -> None:
        if event.what == SHORT_OF_BROKERS:
            say("note", f"{event.subject}: {event.before}, {event.after}")

    server.history.observers.append(show)


def _port_of(given: int | None, by_default: int | None, well_known: int) -> int:
    if given is not None:
        return given
    return well_known if by_default is None else by_default


def announcement(server: KafkaServer) -> Json:
    """Return where a cluster listens, for clients in any language."""
    fields: Json = {
        "bootstrap_servers": server.bootstrap_servers,
        "brokers": {str(broker): address for broker, address in server.brokers.items()},
        "listeners": server.listeners,
        "zookeeper": server.zookeeper_hosts,
        "control": server.control_url,
        "cluster_id": server.cluster_id,
    }
    if server.certificate is not None:
        fields["certificate"] = str(server.certificate)
    return fields


def _announce(server: KafkaServer, *, as_json: bool) -> None:
    if as_json:
        line = json.dumps(announcement(server))
    else:
        line = f"listening on {server.bootstrap_servers}"
        for name, addresses in server.listeners.items():
            if addresses != server.bootstrap_servers:
                say("listener", f"{name} on {addresses}")
        sys.stderr.write(
            f"simzk: ZooKeeper on {server.zookeeper_hosts}\n"
            f"simzk: control on {server.control_url}, live page on {server.control_url}/\n"
        )
        if server.certificate is not None:
            sys.stderr.write(f"simzk: certificate in {server.certificate}\n")
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _wait_for_signal() -> None:
    stopped = threading.Event()
    for ending in ENDING:
        signal.signal(ending, lambda *_: stopped.set())
    stopped.wait()
    for ending in ENDING:
        signal.signal(ending, signal.SIG_IGN)  # a second signal does not interrupt the stop


def _settings(asked: argparse.Namespace) -> tuple[dict[str, str], dict[int, dict[str, str]]]:
    """Return the settings of all brokers and those of single brokers; name those that are not simulated on stderr."""
    if asked.config is None:
        return {}, {}
    try:
        text = asked.config.read_text(encoding="latin-1")
    except OSError as error:
        raise ConfigError(f"cannot read: {error.strerror}", where=str(asked.config)) from error
    common, own, ignored = settings_of(text, str(asked.config), asked.version or DEFAULT_VERSION)
    if ignored:
        say("not simulated, and ignored", ", ".join(map(partial(_with_suggestion, asked), ignored)))
    return common, own


def _with_suggestion(asked: argparse.Namespace, name: str) -> str:
    """Return an ignored setting, with the one that was probably meant if the release has no such setting."""
    from simzk.kafka.releases.settings import nearest_setting
    from simzk.kafka.releases.versions import kafka_version

    near = nearest_setting(_split(name)[1], kafka_version(asked.version or DEFAULT_VERSION))
    return f"{name} (did you mean {near}?)" if near else name


def settings_of(
    properties: str, where: str, version_name: str
) -> tuple[dict[str, str], dict[int, dict[str, str]], list[str]]:
    """Return the settings of all brokers, those of single brokers, and the names of those that are not simulated.

    Args:
        properties: Java properties; `broker.N.KEY` is for broker N.
        where: where they were found, for errors.
        version_name: the Kafka release.

    Raises:
        ConfigError: the properties or the release are invalid.
    """
    from simzk.kafka.releases.settings import has_effect, is_setting
    from simzk.kafka.releases.versions import kafka_version

    version = kafka_version(version_name)
    common: dict[str, str] = {}
    own: dict[int, dict[str, str]] = {}
    ignored = []
    for name, entry in read_properties(properties, where).items():
        broker, key = _split(name)
        if is_setting(key, version) or key == _RACK:
            (common if broker is None else own.setdefault(broker, {}))[key] = entry.value
        if not has_effect(key, version) and key != _RACK:
            ignored.append(name)
    common.pop(_RACK, None)
    return common, own, ignored


_RACK = "broker.rack"


def _split(name: str) -> tuple[int | None, str]:
    """Return the broker of a key, None for all, and the setting.

    >>> _split("broker.2.num.partitions"), _split("broker.rack")
    ((2, 'num.partitions'), (None, 'broker.rack'))
    """
    first, _, rest = name.partition(".")
    number, _, key = rest.partition(".")
    return (int(number), key) if first == "broker" and is_number(number) else (None, name)


def racks_of(own: dict[int, dict[str, str]]) -> Mapping[int, str] | None:
    """Return the racks among the settings of single brokers, and remove them there."""
    racks = {broker: values.pop(_RACK) for broker, values in own.items() if _RACK in values}
    return racks or None


def ids_of(text: str) -> list[int]:
    """Return ids that are separated by commas.

    Raises:
        ValueError: one of them is no number.

    >>> ids_of("0,1,2")
    [0, 1, 2]
    """
    return [int(part) for part in text.split(",")]


def _cluster_id(text: str) -> str:
    if re.fullmatch(r"[\w-]{1,64}", text, re.ASCII) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no cluster id: 1 to 64 of a-z A-Z 0-9 _ -")
    return text


def _ids(text: str) -> list[int]:
    try:
        return ids_of(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ids such as 0,1,2") from None


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = CommandParser(
        prog="simzk kafka", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="scenario (.toml, or a shipped one by name) whose steps happen on wall time, or layout (.parquet, .json) "
        "[default: a new cluster]",
    )
    _add_cluster_options(parser)
    _add_listener_options(parser)
    parser.add_argument("--json", action="store_true", help="write the first line as one JSON object")
    return parser


def _add_cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--version",
        metavar="V",
        help=f"Kafka release, 0.8.0 to 3.9 [default: {DEFAULT_VERSION}]",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--brokers", metavar="N", type=int, help="number of brokers, ids from 1 [default: 3]")
    which.add_argument("--broker-ids", metavar="IDS", type=_ids, help="ids of the brokers, such as 0,1,2")
    parser.add_argument("--racks", metavar="N", type=int, help="number of racks, assigned in turn [default: none]")
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="properties file with settings of all brokers; broker.N.KEY is for broker N",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of all random choices [default: 0]")
    parser.add_argument(
        "--cluster-id",
        metavar="ID",
        type=_cluster_id,
        help="id of the cluster [default: drawn from the seed, so clusters of one seed have one id]",
    )
    parser.add_argument(
        "--tick-time",
        metavar="MS",
        type=number("a number of ms", 1, 3_600_000),
        help=f"ZooKeeper's tickTime, which bounds session timeouts [default: {DEFAULT_TICK_TIME_MS}]",
    )


def _add_listener_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="H", default="127.0.0.1", help="interface to listen on [default: 127.0.0.1]")
    parser.add_argument(
        "--advertised-host",
        metavar="H",
        help="host that brokers give to clients, such as the name of the container "
        "[default: of advertised.listeners in --config, else --host]",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        help="port of the first broker, the others follow; 0 for any free; listeners in --config name their own "
        f"[default: {DEFAULT_PORT}, with --json 0]",
    )
    parser.add_argument(
        "--zookeeper-port",
        metavar="N",
        type=port,
        help=f"port of ZooKeeper [default: {DEFAULT_ZOOKEEPER_PORT}, with --json 0]",
    )
    parser.add_argument("--zookeeper-servers", metavar="N", type=int, help="number of ZooKeeper servers [default: 1]")
    parser.add_argument(
        "--control-port", metavar="N", type=port, default=0, help="port of the HTTP control [default: any free one]"
    )
    parser.add_argument(
        "--control-token",
        metavar="TOKEN",
        default=os.environ.get(TOKEN_VARIABLE) or None,
        help=f"token that clients need by HTTP [default: the environment variable {TOKEN_VARIABLE}]",
    )
    parser.add_argument(
        "--security",
        choices=PROTOCOLS,
        default=PLAINTEXT,
        help="protocol of the brokers' ports [default: PLAINTEXT]",
    )
    parser.add_argument(
        "--tls-cert",
        metavar="FILE",
        type=Path,
        help="certificate of ports with TLS: PEM, .jks or .p12 [default: a new self-signed one]",
    )
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="its private key, PEM [default: in --tls-cert]")
    parser.add_argument(
        "--tls-ca", metavar="FILE", type=Path, help="CA certificates of clients, which must have one [default: none]"
    )
