"""Addresses that brokers give to clients: `advertised.listeners` and the older keys for host and port.

A simulated broker has one listener, so of several advertised ones it uses the one of the listener's protocol, else the
first. Source: KafkaConfig.validateValues, KafkaServer.createBrokerInfo; docs/kafka_server.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.since import Release

LISTENERS: Final = "advertised.listeners"
HOST, PORT = "advertised.host.name", "advertised.port"
_SINCE: Final = {LISTENERS: (0, 9), HOST: (0, 8), PORT: (0, 8)}
_UNTIL: Final = {HOST: (3, 0), PORT: (3, 0)}
_META_ADDRESS: Final = "0.0.0.0"
_LISTENER: Final = re.compile(
    r"(?P<name>[^:/,\s]+)://(?:\[(?P<address>[0-9a-fA-F:.%]+)\]|(?P<host>[-0-9a-zA-Z._]*)):(?P<port>[0-9]{1,5})"
)
_PORT_MAX: Final = 65535


def is_advertised_key(key: str, number: Release) -> bool:
    """Return whether a release has a setting of the advertised address.

    >>> [is_advertised_key("advertised.listeners", number) for number in ((0, 8, 2), (0, 9, 0), (3, 9, 1))]
    [False, True, True]
    """
    return key in _SINCE and number >= _SINCE[key] and (key not in _UNTIL or number < _UNTIL[key])


def advertised_address(
    given: Mapping[str, str], bound: tuple[str, int], host: str | None, security: str
) -> tuple[str, int]:
    """Return host and port that a broker registers.

    Args:
        given: the broker's settings.
        bound: host and port on which it listens.
        host: the host to advertise; None for the one of the settings.
        security: protocol of its listener, which is the listener's name.

    Raises:
        ConfigError: a setting is invalid, or clients cannot connect to the address.
    """
    at_host, at_port = bound
    if host is not None:
        at_host = host
    elif given.get(LISTENERS, "").strip():
        at_host, at_port = _of_listeners(given[LISTENERS], security)
        at_host = at_host or bound[0]
    else:
        at_host, at_port = given.get(HOST) or at_host, int(given.get(PORT) or at_port)
    if at_host == _META_ADDRESS:
        text = f"{LISTENERS} cannot use the nonroutable meta-address {_META_ADDRESS}. Use a routable IP address."
        raise ConfigError(
            text, where="host", right=f"advertised_host, --advertised-host, or {LISTENERS} in the settings"
        )
    return at_host, at_port


def check_distinct(addresses: Mapping[int, tuple[str, int]]) -> None:
    """Raise ConfigError if two brokers advertise one address."""
    owners: dict[tuple[str, int], int] = {}
    for broker, address in addresses.items():
        owner = owners.setdefault(address, broker)
        if owner != broker:
            listed = "{}:{}".format(*address)
            text = f"Configured end points {listed} in advertised listeners are already registered by broker {owner}"
            raise ConfigError(text, where=f"broker.{broker}.{LISTENERS}", right="an address for each broker")


def _of_listeners(text: str, security: str) -> tuple[str, int]:
    found = [_LISTENER.fullmatch(part.strip()) for part in text.split(",")]
    listeners = [match for match in found if match is not None and int(match["port"]) <= _PORT_MAX]
    if len(listeners) < len(found):
        raise ConfigError(
            f"{text!r} is no list of listeners", where=LISTENERS, right=f"such as {security}://kafka:9092"
        )
    chosen = next((match for match in listeners if match["name"] == security), listeners[0])
    return chosen["address"] or chosen["host"], int(chosen["port"])
