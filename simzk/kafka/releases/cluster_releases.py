"""Release and inter-broker protocol of each broker of a cluster; broker ids and racks.

Rules of the module:
  - a broker's release and protocol are stored in its files: they change only when it is started with others;
  - the protocol defaults to that of the release;
  - the arguments of all brokers are checked before any takes effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.kafka.releases.inter_broker_protocol import at_protocol
from simzk.kafka.releases.settings import RESERVED, BrokerConfig
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.schemas.broker_registration import BrokerRegistration
from simzk.partitions.arrays import MAX_BROKER_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.releases.profile import KafkaVersion

    ByBroker = str | Mapping[int, str]
    Config = Mapping[str, str | int | bool]


class BrokerRelease(NamedTuple):
    """Profile of a broker's release at its protocol, and its settings."""

    version: KafkaVersion
    config: BrokerConfig


class _Chosen(NamedTuple):
    """Names of a release and, if given, of a protocol."""

    version: str
    protocol: str | None

    def resolve(self, config: Config | None) -> BrokerRelease:
        version = kafka_version(self.version)
        if self.protocol is not None:
            version = at_protocol(version, self.protocol)
        return BrokerRelease(version, BrokerConfig(version, config))


class Releases:
    """Releases of a cluster's brokers.

    Args:
        ids: broker ids.
        version: release of all brokers, or of each.
        protocol: inter-broker protocol of all brokers, or of some [default: that of the broker's release].
        config: settings of all brokers.

    Raises:
        ConfigError: a release or protocol is not simulated, a broker has no release, or an unknown broker is given.

    >>> releases = Releases([1, 2], {1: "2.4", 2: "2.8"}, {2: "2.4"})
    >>> releases.of(2).version.name, releases.of(2).version.broker.uses_alter_isr, releases.oldest.version.name
    ('2.8', False, '2.4')
    """

    def __init__(
        self, ids: Sequence[int], version: ByBroker, protocol: ByBroker | None = None, config: Config | None = None
    ) -> None:
        versions = _by_broker(ids, version, "version")
        protocols = {} if protocol is None else _by_broker(ids, protocol, "inter_broker_protocol")
        for broker in ids:
            if broker not in versions:
                raise ConfigError(f"broker {broker} has no version", where="version", right="one for each broker")
        self._config = config
        self._chosen = {broker: _Chosen(versions[broker], protocols.get(broker)) for broker in ids}
        self._releases = {broker: chosen.resolve(config) for broker, chosen in self._chosen.items()}

    @property
    def oldest(self) -> BrokerRelease:
        """The oldest release among the brokers."""
        return min(self._releases.values(), key=lambda release: release.version.number)

    @property
    def leaders_write(self) -> bool:
        """Whether leaders on any broker write ISRs themselves."""
        return any(not release.version.broker.uses_alter_isr for release in self._releases.values())

    def of(self, broker: int) -> BrokerRelease:
        """Return the release of a broker, running or not."""
        return self._releases[broker]

    def change(self, broker: int, version: str | None, protocol: str | None) -> None:
        """Change a broker's release or protocol; None keeps it."""
        before = self._chosen[broker]
        chosen = _Chosen(version or before.version, protocol or before.protocol)
        self._releases[broker] = chosen.resolve(self._config)
        self._chosen[broker] = chosen


def _by_broker(ids: Sequence[int], given: ByBroker, where: str) -> Mapping[int, str]:
    if isinstance(given, str):
        return dict.fromkeys(ids, given)
    for broker in given:
        if broker not in ids:
            raise ConfigError(f"broker {broker} does not exist", where=where, right=f"one of {list(ids)}")
    return given


def broker_ids(brokers: int | Sequence[int]) -> list[int]:
    """Return the broker ids for a number of brokers or a list of ids, ascending."""
    ids = list(range(1, brokers + 1)) if isinstance(brokers, int) else list(brokers)
    if not ids or len(dict.fromkeys(ids)) != len(ids) or not all(0 <= broker <= MAX_BROKER_ID for broker in ids):
        raise ConfigError(
            f"brokers are {brokers!r}", where="brokers", right="a number of brokers, or distinct ids from 0 on"
        )
    return sorted(ids)


def ids_above(config: Config | None, brokers: int | Sequence[int]) -> list[int]:
    """Return the ids that ZooKeeper generates for a number of brokers (`broker.id=-1`).

    Raises:
        ConfigError: a list of ids is given.

    >>> ids_above({"reserved.broker.max.id": 100}, 3)
    [101, 102, 103]
    """
    if not isinstance(brokers, int):
        raise ConfigError("the brokers have ids", where="brokers", right="a number of brokers, if ids are generated")
    reserved = BrokerConfig(kafka_version("3.9"), config).integer(RESERVED)
    return list(range(reserved + 1, reserved + brokers + 1))


def racks_of(ids: Sequence[int], racks: int | Mapping[int, str] | None) -> dict[int, str]:
    """Return the rack of each broker that has one; a number of racks is assigned in turn."""
    if racks is None:
        return {}
    if isinstance(racks, int):
        if racks < 1:
            raise ConfigError(f"racks are {racks}", where="racks", right="1 or more")
        return {broker: f"rack{index % racks + 1}" for index, broker in enumerate(ids)}
    for broker in racks:
        if broker not in ids:
            raise ConfigError(f"broker {broker} does not exist", where="racks", right=f"one of {ids}")
    return dict(racks)


def local_registration(port: int, rack: str | None) -> BrokerRegistration:
    """Return the registration of a broker on this machine."""
    return BrokerRegistration("127.0.0.1", port, rack, (f"PLAINTEXT://127.0.0.1:{port}",))
