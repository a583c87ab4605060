"""Which release each broker of a cluster runs, at which inter-broker protocol, and how brokers are laid out.

Rules of the module:
  - a broker's release and protocol stand in its files: they are what they were until it is started with others;
  - where no protocol was ever said, it is that of the release (the default of `inter.broker.protocol.version`);
  - what is asked for is checked for all brokers before any of it holds.
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


class Release(NamedTuple):
    """What one broker runs: the profile of its release at its protocol, and its configuration."""

    version: KafkaVersion
    config: BrokerConfig


class _Chosen(NamedTuple):
    """What was asked for: a release, and a protocol where one was."""

    version: str
    protocol: str | None

    def resolve(self, config: Config | None) -> Release:
        version = kafka_version(self.version)
        if self.protocol is not None:
            version = at_protocol(version, self.protocol)
        return Release(version, BrokerConfig(version, config))


class Releases:
    """The releases of a cluster's brokers.

    Args:
        ids: the brokers.
        version: the release of all, or of each.
        protocol: the inter-broker protocol of all, or of some; that of its release for any other.
        config: Kafka's configuration, of all.

    Raises:
        ConfigError: a release or protocol that is not simulated, a broker without release, or one that is not there.

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
    def oldest(self) -> Release:
        """The release of whichever broker runs the oldest."""
        return min(self._releases.values(), key=lambda release: release.version.number)

    @property
    def leaders_write(self) -> bool:
        """Whether leaders of any broker write ISRs themselves."""
        return any(not release.version.broker.uses_alter_isr for release in self._releases.values())

    def of(self, broker: int) -> Release:
        """What a broker runs, or would if it ran."""
        return self._releases[broker]

    def change(self, broker: int, version: str | None, protocol: str | None) -> None:
        """Install another release, or set another protocol; None leaves it as it is."""
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
    """The ids that are meant by a number of brokers, or by a list of ids; ascending."""
    ids = list(range(1, brokers + 1)) if isinstance(brokers, int) else list(brokers)
    if not ids or len(dict.fromkeys(ids)) != len(ids) or not all(0 <= broker <= MAX_BROKER_ID for broker in ids):
        raise ConfigError(f"brokers are {brokers!r}", where="brokers", right="how many, or distinct ids from 0 on")
    return sorted(ids)


def ids_above(config: Config | None, brokers: int | Sequence[int]) -> list[int]:
    """The ids that ZooKeeper gives to a number of brokers (`broker.id=-1`), above `reserved.broker.max.id`.

    Raises:
        ConfigError: their ids are given.

    >>> ids_above({"reserved.broker.max.id": 100}, 3)
    [101, 102, 103]
    """
    if not isinstance(brokers, int):
        raise ConfigError("the brokers have ids", where="brokers", right="how many, where ids are generated")
    reserved = BrokerConfig(kafka_version("3.9"), config).integer(RESERVED)
    return list(range(reserved + 1, reserved + brokers + 1))


def racks_of(ids: Sequence[int], racks: int | Mapping[int, str] | None) -> dict[int, str]:
    """The rack of each broker that has one, where they are spread over a number of racks in turn, or given."""
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
    """What a broker on this machine says of itself."""
    return BrokerRegistration("127.0.0.1", port, rack, (f"PLAINTEXT://127.0.0.1:{port}",))
