"""Listeners of a broker: where it listens, which addresses it gives to clients, and the protocol of each.

Rules of this module:
  - a broker without `listeners` has one, which is named as its protocol; its address is an option of the cluster;
  - a client gets the addresses of the listener at which it asks, in Metadata, FindCoordinator and DescribeCluster;
  - settings with which a broker does not start are refused in Kafka's words.

Source: KafkaConfig.validateValues, CoreUtils.listenerListToEndPoints, EndPoint, KafkaServer.createBrokerInfo;
docs/kafka_server.md.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from simzk.errors import ConfigError
from simzk.jvm.numbers import INT_MAX
from simzk.kafka.security.settings import PLAINTEXT, PROTOCOLS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.releases.since import Release
    from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration

LISTENERS, ADVERTISED, PROTOCOL_MAP = "listeners", "advertised.listeners", "listener.security.protocol.map"
HOST, PORT = "advertised.host.name", "advertised.port"
INTER_BROKER, INTER_BROKER_PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"
CONTROL_PLANE: Final = "control.plane.listener.name"
_SINCE: Final[Mapping[str, Release]] = {
    **dict.fromkeys((HOST, PORT), (0, 8)),
    **dict.fromkeys((LISTENERS, ADVERTISED, INTER_BROKER_PROTOCOL), (0, 9)),
    **dict.fromkeys((PROTOCOL_MAP, INTER_BROKER), (0, 10, 2)),  # KIP-103
    CONTROL_PLANE: (2, 2),  # KIP-291
}
_UNTIL: Final = {HOST: (3, 0), PORT: (3, 0)}
_SHARED_ADVERTISED_PORTS: Final[Release] = (2, 7)
"""First release in which advertised listeners may have one port (KAFKA-10478)."""
_SHARED_PORTS: Final[Release] = (3, 6)
"""First release in which an IPv4 and an IPv6 listener may have one port (KAFKA-13299)."""
_LOWER_CASE: Final[Release] = (0, 10)
"""First release in which the name of a listener may be in lower case."""
_UNDERSCORES: Final[Release] = (0, 10, 1)
"""First release in which a host may have an underscore (KAFKA-3719)."""
_META_ADDRESS: Final = "0.0.0.0"
_ENDPOINT: Final = re.compile(r"(?P<name>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)", re.ASCII)
_COMMAS: Final = re.compile(r"\s*,\s*")
_PORT_MAX, _DIGITS_MAX = 65535, 10
_FREE_PORTS_APART: Final = 1000
"""Distance of the ports that listeners of one broker have in memory if any free one is asked for."""


class Listener(NamedTuple):
    """A listener, with the address at which it listens or the one that it gives to clients."""

    name: str
    security: str
    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def __str__(self) -> str:
        return f"{self.name}://{address_text(self.host, self.port)}"


class BrokerListeners(NamedTuple):
    """The listeners of a broker.

    Attributes:
        bound: where it listens, in the order of the settings.
        advertised: what it registers and gives to clients, in the order of the settings.
        inter_broker: name of the listener to which other brokers connect.
        for_brokers: names of the listeners to which only other brokers connect.
    """

    bound: tuple[Listener, ...]
    advertised: tuple[Listener, ...]
    inter_broker: str
    for_brokers: frozenset[str] = frozenset()

    def at(self, name: str) -> tuple[str, int] | None:
        """Return the advertised address of a listener; None if it has none."""
        return next((one.address for one in self.advertised if one.name == name), None)

    @property
    def of_clients(self) -> Listener:
        """The first advertised listener that is not for other brokers; else the one to which they connect."""
        fitting = [one for one in self.advertised if one.name not in self.for_brokers]
        return fitting[0] if fitting else next(one for one in self.advertised if one.name == self.inter_broker)


def is_listener_key(key: str, number: Release) -> bool:
    """Return whether a release has a setting of listeners and their addresses.

    >>> [is_listener_key("advertised.listeners", number) for number in ((0, 8, 2), (0, 9, 0), (3, 9, 1))]
    [False, True, True]
    """
    return key in _SINCE and number >= _SINCE[key] and (key not in _UNTIL or number < _UNTIL[key])


def address_text(host: str, port: int) -> str:
    """Return an address as clients write it (Utils.formatAddress).

    >>> address_text("kafka", 9092), address_text("::1", 9092)
    ('kafka:9092', '[::1]:9092')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listeners_of(
    given: Mapping[str, str],
    release: Release,
    own: Listener,
    *,
    advertised_host: str | None = None,
    bound_before: Mapping[str, tuple[str, int]] | None = None,
) -> BrokerListeners:
    """Return the listeners of a broker.

    Args:
        given: the broker's settings.
        release: its release.
        own: its listener without the setting `listeners`; its host stands for an empty one in the settings.
        advertised_host: the host that all listeners advertise; None for those of the settings.
        bound_before: host and port at which each listener listens already, by name; None if it is to be decided.

    Raises:
        ConfigError: a broker does not start with the settings, clients cannot connect to the address, or a listener
            would listen elsewhere than before.

    >>> own = Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)
    >>> found = listeners_of({"advertised.listeners": "PLAINTEXT://kafka:19092"}, (3, 9), own)
    >>> found.at("PLAINTEXT"), str(found.bound[0])
    (('kafka', 19092), 'PLAINTEXT://127.0.0.1:9092')
    """
    protocols = _protocols(given, release)
    settings = {key: value for key, value in given.items() if is_listener_key(key, release)}
    text = settings.get(LISTENERS, "").strip()
    bound = _parse(text, protocols, release, LISTENERS) if text else [own]
    _check_ports(text, bound, release, LISTENERS)
    bound = [one._replace(host=one.host or own.host) for one in bound]
    if bound_before:
        bound = _as_before(bound, bound_before)
    bound = [one._replace(port=one.port or _free(own, place)) for place, one in enumerate(bound)]
    advertised = _advertised(settings, bound, protocols, release, advertised_host)
    listening = {one.name: one.port for one in bound}
    advertised = [
        one._replace(host=one.host or own.host, port=one.port or listening.get(one.name, 0)) for one in advertised
    ]
    inter_broker = _inter_broker(settings, protocols, own if not text else None)
    found = BrokerListeners(tuple(bound), tuple(advertised), inter_broker)
    control_plane = _check(found, settings, protocols, release)
    return found._replace(for_brokers=frozenset({inter_broker} | control_plane))


def registered_listeners(registration: BrokerRegistration) -> BrokerListeners:
    """Return the listeners of a broker by its registration.

    >>> from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration
    >>> registered_listeners(BrokerRegistration("h", 1, None, ("PLAINTEXT://h:1",))).at("PLAINTEXT")
    ('h', 1)
    """
    security = dict(registration.protocols)
    found = []
    for text in registration.endpoints:
        match = _ENDPOINT.fullmatch(text)
        assert match is not None, "endpoints are checked when a registration is decoded"
        found.append(Listener(match["name"], security[match["name"]], match["host"], int(match["port"])))
    if not found:
        found = [Listener(PLAINTEXT, PLAINTEXT, registration.host, registration.port)]
    plain = next((one for one in found if one.security == PLAINTEXT), found[0])
    return BrokerListeners(tuple(found), tuple(found), plain.name)


def _refuse(problem: str, where: str, right: str = "settings with which a broker starts") -> NoReturn:
    raise ConfigError(problem, where=where, right=right)


def _require(problem: str, where: str, right: str = "settings with which a broker starts") -> NoReturn:
    _refuse(f"requirement failed: {problem}", where, right)


def check_distinct(listeners: Mapping[int, BrokerListeners]) -> None:
    """Raise ConfigError if two brokers advertise one address (KafkaServer.createBrokerInfo)."""
    owners: dict[tuple[str, int], int] = {}
    for broker, of_broker in listeners.items():
        shared = [one for one in of_broker.advertised if owners.get(one.address, broker) != broker]
        if shared:
            listed, owner = ",".join(f"{one.host}:{one.port}" for one in shared), owners[shared[0].address]
            text = f"Configured end points {listed} in advertised listeners are already registered by broker {owner}"
            right = f"a single broker, or broker.{broker}.{LISTENERS} and broker.{broker}.{ADVERTISED}"
            raise ConfigError(text, where=f"broker.{broker}.{ADVERTISED}", right=right)
        owners |= {one.address: broker for one in of_broker.advertised}


def _as_before(bound: Sequence[Listener], before: Mapping[str, tuple[str, int]]) -> list[Listener]:
    """Return the listeners with the ports that they have; refuse others than before."""
    found = [one._replace(port=one.port or before.get(one.name, ("", 0))[1]) for one in bound]
    if {one.name: one.address for one in found} != before:
        listed = ", ".join(f"{name}://{address_text(*address)}" for name, address in before.items())
        _refuse("the ports of a served broker do not change", LISTENERS, listed)
    return found


def _free(own: Listener, place: int) -> int:
    """Return the port that a listener has if the settings ask for any free one."""
    return min(own.port + place * _FREE_PORTS_APART, _PORT_MAX) if own.port else 0


def _protocols(given: Mapping[str, str], release: Release) -> dict[str, str]:
    """Return the protocol of each name of a listener."""
    text = given.get(PROTOCOL_MAP, "").strip() if is_listener_key(PROTOCOL_MAP, release) else ""
    if not text:
        return {protocol: protocol for protocol in PROTOCOLS}
    found = {}
    for pair in _COMMAS.split(text):
        name, colon, protocol = pair.rpartition(":")
        if not colon:
            reason = f"begin 0, end -1, length {len(pair)}"  # Csv.parseCsvMap: a substring up to the missing colon
            _refuse(f"Error parsing configuration property '{PROTOCOL_MAP}': {reason}", PROTOCOL_MAP)
        if protocol.strip().upper() not in PROTOCOLS:
            _refuse(f"Invalid security protocol `{protocol.strip()}` defined in {PROTOCOL_MAP}", PROTOCOL_MAP)
        found[name.strip().upper()] = protocol.strip().upper()
    return found


def _parse(text: str, protocols: Mapping[str, str], release: Release, key: str) -> list[Listener]:
    """Return the listeners of a setting; an empty host is not replaced."""
    found = []
    for part in filter(None, _COMMAS.split(text)):
        match, problem = _ENDPOINT.fullmatch(part), ""
        if match is None or ("_" in match["host"] and release < _UNDERSCORES):
            problem = f"Unable to parse {part} to a broker endpoint"
        else:
            name = match["name"] if release < _LOWER_CASE else match["name"].upper()
            if name not in protocols:
                problem = f"No security protocol defined for listener {name}"
                if not is_listener_key(PROTOCOL_MAP, release):
                    problem = f"No enum constant org.apache.kafka.common.protocol.SecurityProtocol.{match['name']}"
            elif len(match["port"]) > _DIGITS_MAX or int(match["port"]) > INT_MAX:
                problem = f'For input string: "{match["port"]}"'
        if problem or match is None:
            _refuse(f"Error creating broker listeners from '{text}': {problem}", key)
        if not 0 <= int(match["port"]) <= _PORT_MAX:  # when it binds the port (InetSocketAddress)
            _refuse(f"port out of range:{match['port']}", key)
        found.append(Listener(name, protocols[name], match["host"], int(match["port"])))
    return found


def _check_ports(text: str, found: Sequence[Listener], release: Release, key: str) -> None:
    """Refuse two listeners of one name or port."""
    has_names = is_listener_key(PROTOCOL_MAP, release)
    of_text = f", listeners: {text}" if has_names else ""
    if len({one.name for one in found}) < len(found):
        _require(f"Each listener must have a different {'name' if has_names else 'protocol'}{of_text}", key)
    if key == ADVERTISED and release >= _SHARED_ADVERTISED_PORTS:
        return
    counts = Counter(one.port for one in found if one.port)
    for port in (port for port, count in counts.items() if count > 1):
        families = [_family(one.host) for one in found if one.port == port]
        names, addresses = families.count(None), [family for family in families if family is not None]
        if release < _SHARED_PORTS or names > 1:
            _require(f"Each listener must have a different port{of_text}", key)
        if len(addresses) != 2:
            rule = (
                "Each listener must have a different port unless exactly one listener has an IPv4 address and the other"
            )
            _refuse(f"{rule} IPv6 address, listeners: {text}, port: {port}", key)
        rule = "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6"
        if set(addresses) != {4, 6}:
            _require(f"{rule}, listeners: {text}, port: {port}", key)
        if names:
            _refuse(f"{rule}, listeners: {text}, port: {port}", key)


def _family(host: str) -> int | None:
    """Return the version of an IP address; None for a name."""
    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return None


def _advertised(
    settings: Mapping[str, str],
    bound: Sequence[Listener],
    protocols: Mapping[str, str],
    release: Release,
    host: str | None,
) -> list[Listener]:
    if host is not None:
        return [one._replace(host=host) for one in bound]
    if text := settings.get(ADVERTISED, "").strip():
        found = _parse(text, protocols, release, ADVERTISED)
        _check_ports(text, found, release, ADVERTISED)
        return found
    if bound and (settings.get(HOST) or settings.get(PORT)):
        plain = next((one for one in bound if one.name == PLAINTEXT), bound[0])
        at_port = int(settings.get(PORT) or plain.port)
        return [Listener(plain.name, plain.security, settings.get(HOST) or plain.host, at_port)]
    return list(bound)


def _inter_broker(settings: Mapping[str, str], protocols: Mapping[str, str], own: Listener | None) -> str:
    """Return the name of the listener to which other brokers connect; without a setting that of `own`."""
    named, protocol = settings.get(INTER_BROKER, "").strip().upper(), settings.get(INTER_BROKER_PROTOCOL)
    if named and protocol is not None:
        _refuse(f"Only one of {INTER_BROKER} and {INTER_BROKER_PROTOCOL} should be set.", INTER_BROKER)
    if named and named not in protocols:
        _refuse(f"Listener with name {named} defined in {INTER_BROKER} not found in {PROTOCOL_MAP}.", INTER_BROKER)
    if protocol is not None and protocol.upper() not in PROTOCOLS:
        _refuse(f"Invalid security protocol `{protocol}` defined in {INTER_BROKER_PROTOCOL}", INTER_BROKER_PROTOCOL)
    return named or (protocol or (PLAINTEXT if own is None else own.name)).upper()


def _check(
    found: BrokerListeners, settings: Mapping[str, str], protocols: Mapping[str, str], release: Release
) -> set[str]:
    """Refuse listeners that do not fit together; return the name of the control plane's, if there is one."""
    bound, advertised = [one.name for one in found.bound], [one.name for one in found.advertised]
    key, kind, named = INTER_BROKER, "listener", "a listener name defined in"
    if not is_listener_key(PROTOCOL_MAP, release):
        key, kind, named = INTER_BROKER_PROTOCOL, "protocol", "a protocol in the configured set of"
    shown, options = _names(advertised, kind), f"The valid options based on currently configured {kind}s are"
    if found.inter_broker not in advertised:
        _require(f"{key} must be {named} {ADVERTISED}. {options} {shown}", key)
    if not {*advertised} <= {*bound}:
        subset = "listener names must be equal to or a subset of the ones defined in listeners"
        if kind == "protocol":
            subset = "protocols must be equal to or a subset of listeners protocols"
        current = "the current configuration" if kind == "listener" else "currently configured protocols"
        options = f"The valid options based on {current} are {_names(bound, kind)}"
        _require(f"{ADVERTISED} {subset}. Found {shown}. {options}", ADVERTISED)
    if any(one.host == _META_ADDRESS for one in found.advertised):
        text = f"{ADVERTISED} cannot use the nonroutable meta-address {_META_ADDRESS}. Use a routable IP address."
        _require(text, "host", f"advertised_host, --advertised-host, or {ADVERTISED} in the settings")
    name = settings.get(CONTROL_PLANE, "").strip().upper()
    if not name:
        return set()
    if name not in protocols:
        _refuse(f"Listener with {name} defined in {CONTROL_PLANE} not found in {PROTOCOL_MAP}.", CONTROL_PLANE)
    if name not in advertised:
        _require(f"{CONTROL_PLANE} must be {named} {ADVERTISED}. {options} {shown}", CONTROL_PLANE)
    if name == found.inter_broker:
        other = "when defined, should have a different value from the inter broker listener name."
        _require(f"{CONTROL_PLANE}, {other} Currently they both have the value ListenerName({name})", CONTROL_PLANE)
    return {name}


def _names(names: Sequence[str], kind: str) -> str:
    return ",".join(names) if kind == "listener" else f"Set({', '.join(names)})"
