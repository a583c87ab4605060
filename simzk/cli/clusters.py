"""Start and stop simulated Kafka clusters on request, over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from simzk.cli.arguments import CommandParser
from simzk.cli.kafka import DEFAULT_BROKERS, DEFAULT_VERSION, announcement, ids_of, racks_of, settings_of
from simzk.cli.serve import TOKEN_VARIABLE, port
from simzk.cli.signals import ended_by_signals
from simzk.errors import ConfigError
from simzk.kafka.listeners import LISTENERS
from simzk.kafka.security.settings import PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka_server import KafkaServer
    from simzk.serve.admin_server.clusters import ClustersServer
    from simzk.serve.simulated_brokers import Json

DEFAULT_PORT = 9090
BROKERS_MAX = 1000
SERVERS_MAX = 25
DESCRIPTION = """\
Start and stop simulated Kafka clusters on request, over HTTP: POST /clusters starts one, and tells where its brokers,
its ZooKeeper and its own HTTP control listen. The first line on stdout tells where requests go. SIGTERM or Ctrl-C stops
all clusters."""


def main(arguments: list[str]) -> int:
    """Serve until a signal; return the exit status.

    Raises:
        ConfigError: an option or a port is invalid.
    """
    from simzk.serve.admin_server.clusters import ClustersServer

    asked = make_parser().parse_args(arguments)
    server = ClustersServer(
        asked.host, asked.port, asked.token, partial(_Hosted, asked.host, asked.advertised_host, asked.token)
    )
    _prepare()
    return asyncio.run(_serve(server))


def _prepare() -> None:
    """Import and run once what every cluster needs, so that the first request takes no longer than the others."""
    from simzk.kafka_server import KafkaServer

    with KafkaServer(DEFAULT_VERSION, DEFAULT_BROKERS, control_port=0):
        pass


async def _serve(server: ClustersServer) -> int:
    with ended_by_signals() as ended:
        await server.start()
        sys.stdout.write(f"listening on http://{server.name}\n")
        sys.stdout.flush()
        await ended.wait()
    server.stop()
    return 0


class _Hosted:
    """A cluster on any free ports.

    Args:
        host: the interface to listen on.
        advertised: the host that brokers give to clients; None for `host`.
        token: token of its HTTP control; None if none is needed.
        options: what the request asks for.
        properties: settings of the brokers.

    Raises:
        ConfigError: an option or a setting is invalid.
    """

    def __init__(
        self, host: str, advertised: str | None, token: str | None, options: Mapping[str, str], properties: str
    ) -> None:
        from simzk.kafka_server import KafkaServer

        asked = {name: _value(name, text) for name, text in options.items()}
        if "brokers" in asked and "broker_ids" in asked:
            raise ConfigError("it is given beside brokers", where="broker_ids", right="one of both")
        version = str(asked.pop("version", DEFAULT_VERSION))
        brokers = asked.pop("broker_ids", None) or asked.pop("brokers", DEFAULT_BROKERS)
        common, own, _ = settings_of(properties, "body", version)
        for settings in (common, *own.values()):
            settings.pop(LISTENERS, None)  # who may start clusters does not choose where this machine listens
        racks = asked.pop("racks", None) or racks_of(own)
        self._server: KafkaServer = KafkaServer(
            version,
            brokers,  # type: ignore[arg-type]  # `_OPTIONS` says of which type each option is
            racks,  # type: ignore[arg-type]
            config=common,
            broker_config=own,
            host=host,
            control_port=0,
            control_token=token,
            advertised_host=advertised,
            **asked,  # type: ignore[arg-type]
        )

    def announcement(self) -> Json:
        return announcement(self._server)

    def close(self) -> None:
        self._server.close()


def _protocol(text: str) -> str:
    if text not in PROTOCOLS:
        raise ValueError(text)
    return text


def _number(least: int, most: int) -> Callable[[str], int]:
    """Return the reader of a number within limits, which raises a ValueError outside of them."""

    def read(text: str) -> int:
        number = int(text)
        if not least <= number <= most:
            raise ValueError(text)
        return number

    return read


def _ids(text: str) -> list[int]:
    ids = ids_of(text)
    if len(ids) > BROKERS_MAX:
        raise ValueError(text)
    return ids


_OPTIONS: Mapping[str, tuple[Callable[[str], object], str]] = {
    "version": (str, "a Kafka release"),
    "brokers": (_number(1, BROKERS_MAX), f"a number from 1 to {BROKERS_MAX}"),
    "broker_ids": (_ids, f"at most {BROKERS_MAX} ids such as 0,1,2"),
    "racks": (_number(1, BROKERS_MAX), f"a number from 1 to {BROKERS_MAX}"),
    "seed": (_number(-(2**63), 2**63 - 1), "a number of 64 bits"),
    "zookeeper_servers": (_number(1, SERVERS_MAX), f"a number from 1 to {SERVERS_MAX}"),
    "security": (_protocol, f"one of {', '.join(PROTOCOLS)}"),
}
"""Options of a request, as those of `simzk kafka`: how each is read, and what is accepted."""


def _value(name: str, text: str) -> object:
    if name not in _OPTIONS:
        raise ConfigError("there is no such option", where=name, right=f"one of {', '.join(_OPTIONS)}, hold")
    read, right = _OPTIONS[name]
    try:
        return read(text)
    except ValueError:
        raise ConfigError(f"{text!r} is invalid", where=name, right=right) from None


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    parser = CommandParser(
        prog="simzk clusters", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", metavar="H", default="127.0.0.1", help="interface to listen on [default: 127.0.0.1]")
    parser.add_argument("--advertised-host", metavar="H", help="host that brokers give to clients [default: --host]")
    parser.add_argument(
        "--port",
        metavar="N",
        type=port,
        default=DEFAULT_PORT,
        help=f"port for requests; 0 for any free one [default: {DEFAULT_PORT}]",
    )
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        default=os.environ.get(TOKEN_VARIABLE) or None,
        help=f"token that clients need [default: the environment variable {TOKEN_VARIABLE}]",
    )
    return parser
