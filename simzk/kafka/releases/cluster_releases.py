"""Release and inter-broker protocol of each broker of a cluster; broker ids and racks.

Rules of the module (docs/reference/kafka.md §1.3 to §1.6, §2.8; Kafka's `MetadataVersion`, before 3.3 `ApiVersion`):
  - a broker's release and protocol are stored in its files: they change only when it is started with others;
  - the protocol is the one that is given, else the one of the broker's settings; it defaults to that of the release;
  - the arguments of all brokers are checked before any takes effect;
  - a rolling upgrade first restarts each broker with the new code at the old protocol, then each broker with the new
    protocol: everything that other brokers must understand depends on the protocol, the rest on the release;
  - a name without `-IVn` is the last protocol of its line;
  - a protocol that is newer than the release, or does not exist, is rejected, as in Kafka's configuration;
  - requests between brokers are not encoded, so a protocol before 0.10.0-IV1 changes only the registration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.errors import ConfigError
from simzk.kafka.listeners import Listener
from simzk.kafka.releases.settings import PROTOCOL, RESERVED, BrokerConfig
from simzk.kafka.releases.versions import LINES, kafka_version
from simzk.kafka.security.settings import PLAINTEXT
from simzk.kafka.zookeeper_mode.schemas import broker_registration, feature
from simzk.kafka.zookeeper_mode.schemas.broker_registration import BrokerRegistration
from simzk.partitions.arrays import MAX_BROKER_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.releases.since import Release

    ByBroker = str | Mapping[int, str]
    Config = Mapping[str, str | int | bool]

ProtocolNumber = tuple[int, int, int, int]
"""Numbers of a protocol such as `2.7-IV1`: major, minor, patch, IV."""
Encode = Callable[[broker_registration.BrokerRegistration], bytes]

BROKERS_MAX = 10_000
"""Most brokers of a cluster of objects; a layout may describe more."""
FIRST_RELEASE: Final = (0, 9, 0)
"""First release with the setting."""
RACKS: Final = (0, 10, 0, 1)
"""First protocol with racks; registrations at an older one are of version 2 (KAFKA-3100)."""
_LINES_BY_STEPS: Final[dict[int, tuple[Release, ...]]] = {
    0: ((0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9, 0)),
    1: ((0, 10, 2), (1, 0), (1, 1), (2, 5), (2, 6), (3, 1), (3, 2), (3, 4), (3, 8), (3, 9)),
    2: ((0, 10, 0), (2, 0), (2, 2), (2, 3), (2, 4), (2, 8), (3, 0)),
    3: ((0, 10, 1), (0, 11, 0), (2, 1), (2, 7), (3, 5), (3, 6)),
    4: ((3, 3),),
    5: ((3, 7),),
}
"""Release lines by the number of steps (`-IV0`, `-IV1`, …) of their protocol."""
_OFFSET_VALUES: Final = {(0, 8, 0, 0): 1, (2, 1, 0, 0): 2, (2, 1, 0, 1): 3}
_GROUP_VALUES: Final = {(0, 8, 0, 0): 0, (0, 10, 1, 0): 1, (2, 1, 0, 0): 2, (2, 3, 0, 0): 3}
"""First protocol of each version of the records of `__consumer_offsets` (GroupMetadataManager)."""
_LAST_IV: Final = 99
_NAME: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:-IV(\d+))?")


def at_protocol(version: KafkaVersion, protocol: str) -> KafkaVersion:
    """Return the profile of a release at an inter-broker protocol.

    Args:
        version: profile of the release at its own protocol.
        protocol: name of the protocol, such as `2.7` or `2.7-IV1`.

    Raises:
        ConfigError: the protocol does not exist, or the release does not support it.

    >>> from simzk.kafka.releases.versions import LINES, kafka_version
    >>> old = at_protocol(kafka_version("2.8"), "2.4")
    >>> old.broker.uses_alter_isr, old.znodes.has_topic_ids, old.controller.reassigns_in_topic_znode
    (False, False, True)
    """
    number = _parse(protocol)
    if version.number < FIRST_RELEASE:
        raise ConfigError(f"Kafka {version.name} has no {PROTOCOL}", where=PROTOCOL, right="none")
    line = 2 if version.number >= (1, 0, 0) else 3
    if number[:line] > version.number[:line]:
        what = f"Kafka {version.name} does not support the inter-broker protocol {protocol!r}"
        raise ConfigError(what, where=PROTOCOL, right=f"0.8.0 to {version.name}")
    znodes, broker, controller, groups = version.znodes, version.broker, version.controller, version.groups
    has_features = znodes.has_features and number >= (2, 7, 0, 0)  # KIP-584
    encode_broker, encode_feature = znodes.encode_broker, znodes.encode_feature
    if not has_features and encode_broker is broker_registration.encode_v5:
        encode_broker = broker_registration.encode_v4
    if number < RACKS:
        encode_broker = _V2_BY_LATER.get(encode_broker, broker_registration.encode_v2)
    if number < (3, 3, 0, 0) and encode_feature is feature.encode_v2:
        encode_feature = feature.encode_v1_of_3_3
    return replace(
        version,
        znodes=znodes.replace(
            encode_broker=encode_broker,
            encode_feature=encode_feature,
            has_features=has_features,
            has_topic_ids=znodes.has_topic_ids and number >= (2, 8, 0, 0),  # KIP-516
        ),
        broker=broker.replace(
            uses_alter_isr=broker.uses_alter_isr and number >= (2, 7, 0, 2),  # KIP-497
            fetches_have_leader_epochs=broker.fetches_have_leader_epochs and number >= (2, 1, 0, 2),  # KIP-320
            truncates_to_epoch_end=broker.truncates_to_epoch_end and number >= (0, 11, 0, 2),  # KIP-101
            epoch_ends_name_epochs=broker.epoch_ends_name_epochs and number >= (2, 0, 0, 0),  # KIP-279
            truncates_on_fetch=broker.truncates_on_fetch and number >= (2, 7, 0, 1),  # KIP-595
        ),
        log=version.log.replace(obeys_format=version.log.obeys_format or number < (3, 0, 0, 0)),  # KIP-724
        controller=controller.replace(
            sends_topic_ids=controller.sends_topic_ids and number >= (2, 8, 0, 1),  # KIP-516
            allocates_producer_ids=controller.allocates_producer_ids and number >= (3, 0, 0, 0),  # KIP-730
        ),
        groups=groups.replace(
            offset_value_version=_value_version(groups.offset_value_version, _OFFSET_VALUES, number),
            group_value_version=_value_version(groups.group_value_version, _GROUP_VALUES, number),
        ),
        rules=replace(version.rules, recovering=version.rules.recovering and number >= (3, 2, 0, 0)),  # KIP-704
    )


def _value_version(of_release: int, by_protocol: Mapping[ProtocolNumber, int], number: ProtocolNumber) -> int:
    """Return the version of a record that a release writes at a protocol."""
    return min(of_release, max(version for first, version in by_protocol.items() if first <= number))


KEEPS_LAST_MEMBER: Final = (1, 1, 0)
"""First release whose controller removes no last member from an ISR."""

_V2_BY_LATER: Final[dict[Encode, Encode]] = {
    broker_registration.encode_v4_of_2_12: broker_registration.encode_v2_of_2_12,
    broker_registration.encode_v4: broker_registration.encode_v2_of_2_13,
}
"""Encoders of version 2 in releases that otherwise write a later one (0.10.2 and later); others encode as 0.9."""


def _parse(protocol: str) -> ProtocolNumber:
    """Return the numbers of a protocol's name."""
    if (match := _NAME.fullmatch(protocol)) is None:
        what = f"{protocol!r} is not an inter-broker protocol"
        raise ConfigError(what, where=PROTOCOL, right="such as 2.7 or 2.7-IV2")
    major, minor, patch, step = match.groups()
    line = (int(major), int(minor), int(patch or 0))[: 2 if int(major) else 3]
    steps = next((steps for steps, lines in _LINES_BY_STEPS.items() if line in lines), None)
    if steps is None or (step is not None and int(step) >= steps):
        last = f"{protocol.partition('-')[0]}-IV{steps - 1} at most" if steps else f"a line from 0.8.0 to {LINES[0]}"
        what = f"the inter-broker protocol {protocol!r} does not exist"
        raise ConfigError(what, where=PROTOCOL, right=last)
    return int(major), int(minor), int(patch or 0), _LAST_IV if step is None else int(step)


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
        protocol = self.protocol if self.protocol is not None else (config or {}).get(PROTOCOL)
        if protocol is not None:
            version = at_protocol(version, str(protocol))
        return BrokerRelease(version, BrokerConfig(version, config))


class Releases:
    """Releases of a cluster's brokers.

    Args:
        ids: broker ids.
        version: release of all brokers, or of each.
        protocol: inter-broker protocol of all brokers, or of some [default: that of the broker's release].
        config: settings of all brokers.
        own: settings of some brokers, which win.

    Raises:
        ConfigError: a release, protocol or setting is not simulated, a broker has no release, or an unknown broker is
            given.

    >>> releases = Releases([1, 2], {1: "2.4", 2: "2.8"}, {2: "2.4"})
    >>> releases.of(2).version.name, releases.of(2).version.broker.uses_alter_isr, releases.oldest.version.name
    ('2.8', False, '2.4')
    """

    def __init__(
        self,
        ids: Sequence[int],
        version: ByBroker,
        protocol: ByBroker | None = None,
        config: Config | None = None,
        own: Mapping[int, Config] | None = None,
    ) -> None:
        versions = _by_broker(ids, version, "version")
        protocols = {} if protocol is None else _by_broker(ids, protocol, "inter_broker_protocol")
        for broker in ids:
            if broker not in versions:
                raise ConfigError(f"broker {broker} has no version", where="version", right="one for each broker")
        _require_known(own or (), ids, "broker_config")
        self._configs = {broker: {**(config or {}), **(own or {}).get(broker, {})} for broker in ids}
        self._chosen = {broker: _Chosen(versions[broker], protocols.get(broker)) for broker in ids}
        self._releases = {broker: chosen.resolve(self._configs[broker]) for broker, chosen in self._chosen.items()}
        self._record_defects: str | None = None  # computed when they are first asked for

    @property
    def oldest(self) -> BrokerRelease:
        """The oldest release among the brokers."""
        return min(self._releases.values(), key=lambda release: release.version.number)

    @property
    def leaders_write(self) -> bool:
        """Whether leaders on any broker write ISRs themselves."""
        return any(not release.version.broker.uses_alter_isr for release in self._releases.values())

    @property
    def empties_isr(self) -> bool:
        """Whether a controller on any broker can remove the last member of an ISR (§2.6).

        The number of the release decides, not its rule: an invariant has to notice a wrong rule.
        """
        return any(release.version.number < KEEPS_LAST_MEMBER for release in self._releases.values())

    @property
    def leaders_read_again(self) -> bool:
        """Whether every leader writes ISRs itself, and reads the state again after a conflict (0.8.2 to 2.6)."""
        rules = [release.version.broker for release in self._releases.values()]
        return all(one.accepts_own_isr_after_conflict and not one.uses_alter_isr for one in rules)

    @property
    def elects_in_steps(self) -> bool:
        """Whether a controller on any broker creates `/controller` before it raises the controller epoch."""
        return any(not release.version.client.fences_writes for release in self._releases.values())

    @property
    def former_controllers_issue(self) -> str:
        """The bug of Kafka by which a former controller on any broker goes on writing; empty for none."""
        if any(release.version.client.retries_across_sessions for release in self._releases.values()):
            return "KAFKA-3083"
        return "KAFKA-6082" if self.elects_in_steps else ""

    @property
    def resigned_controllers_issue(self) -> str:
        """The bug of Kafka by which a former controller on any broker handles requests; empty for none."""
        rules = [release.version.controller for release in self._releases.values()]
        if any(one.acts_after_resignation for one in rules):
            return "KAFKA-1578" if any(one.keeps_request_watchers for one in rules) else "KAFKA-4447"
        return self.former_controllers_issue

    @property
    def assigns_last(self) -> bool:
        """Whether a controller on any broker writes a topic's znode only at the end of a reassignment (0.8.0)."""
        return any(not release.version.controller.writes_union_assignment for release in self._releases.values())

    @property
    def supersedes_reassignments(self) -> bool:
        """Whether a controller on any broker lets a request replace or cancel a reassignment (KIP-455)."""
        return any(release.version.controller.reassigns_in_topic_znode for release in self._releases.values())

    @property
    def lacks_topic_ids(self) -> bool:
        """Whether a broker cannot tell a log from that of a deleted topic of the same name (KIP-516)."""
        return any(not release.version.znodes.has_topic_ids for release in self._releases.values())

    def topic_id_issue(self) -> str:
        """Return the bug of Kafka by which a controller on any broker drops the ids of topics; empty for none."""
        versions = [release.version for release in self._releases.values()]
        if any(version.controller.forgets_unused_topic_ids for version in versions):
            return "KAFKA-12835"
        return "" if all(version.reading.has_topic_ids for version in versions) else "KAFKA-14190"

    @property
    def unclean_allowed(self) -> bool:
        """Whether the configuration of any broker allows unclean elections."""
        return any(
            not release.version.rules.always_unclean and release.config.boolean("unclean.leader.election.enable")
            for release in self._releases.values()
        )

    def unclean_issue(self) -> str:
        """Return the bug of Kafka by which a controller on any broker always elects uncleanly; empty for none."""
        return "KAFKA-1028" if any(one.version.rules.always_unclean for one in self._releases.values()) else ""

    def record_defects(self) -> str:
        """Return the defects by which a release of the cluster loses acknowledged records; empty for none."""
        if self._record_defects is None:
            defects = (release.version.broker.record_defects for release in self._releases.values())
            self._record_defects = next(filter(None, defects), "")
        return self._record_defects

    def of(self, broker: int) -> BrokerRelease:
        """Return the release of a broker, running or not."""
        return self._releases[broker]

    def change(
        self,
        broker: int,
        version: str | None,
        protocol: str | None,
        config: Config | None = None,
        check: Callable[[BrokerRelease], object] = lambda _: None,
    ) -> None:
        """Change a broker's release or protocol, None keeps it; and set settings of the broker.

        Args:
            broker, version, protocol, config: what changes.
            check: called with the new release before anything changes; may raise an error.
        """
        assert self._chosen.keys() == self._releases.keys() == self._configs.keys(), "a broker has all three"
        before = self._chosen[broker]
        chosen = _Chosen(version or before.version, protocol or before.protocol)
        values = {**self._configs[broker], **(config or {})}
        changed = chosen.resolve(values)
        check(changed)
        self._releases[broker], self._chosen[broker], self._configs[broker] = changed, chosen, values
        self._record_defects = None


def _by_broker(ids: Sequence[int], given: ByBroker, where: str) -> Mapping[int, str]:
    if isinstance(given, str):
        return dict.fromkeys(ids, given)
    _require_known(given, ids, where)
    return given


def _require_known(brokers: Iterable[int], ids: Sequence[int], where: str) -> None:
    for broker in brokers:
        if broker not in ids:
            raise ConfigError(f"broker {broker} does not exist", where=where, right=f"one of {list(ids)}")


def broker_ids(brokers: int | Sequence[int]) -> list[int]:
    """Return the broker ids for a number of brokers or a list of ids, ascending."""
    _require_count(brokers if isinstance(brokers, int) else len(brokers))
    ids = list(range(1, brokers + 1)) if isinstance(brokers, int) else list(brokers)
    if not ids or len(dict.fromkeys(ids)) != len(ids) or not all(0 <= broker <= MAX_BROKER_ID for broker in ids):
        right = f"a number of brokers, or distinct ids from 0 to {MAX_BROKER_ID}"
        raise ConfigError(f"brokers are {brokers!r}", where="brokers", right=right)
    return sorted(ids)


def _require_count(brokers: int) -> None:
    if brokers > BROKERS_MAX:
        raise ConfigError(f"{brokers} brokers are too many", where="brokers", right=f"1 to {BROKERS_MAX}")


def ids_above(config: Config | None, brokers: int | Sequence[int]) -> list[int]:
    """Return the ids that ZooKeeper generates for a number of brokers (`broker.id=-1`).

    Raises:
        ConfigError: a list of ids is given.

    >>> ids_above({"reserved.broker.max.id": 100}, 3)
    [101, 102, 103]
    """
    if not isinstance(brokers, int):
        raise ConfigError("the brokers have ids", where="brokers", right="a number of brokers, if ids are generated")
    _require_count(brokers)
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
    _require_known(racks, ids, "racks")
    return dict(racks)


def local_registration(
    port: int, rack: str | None, host: str = "127.0.0.1", security: str = PLAINTEXT
) -> BrokerRegistration:
    """Return the registration of a broker with one listener, on this machine and plain by default."""
    return registration_of([Listener(security, security, host, port)], rack)


def registration_of(advertised: Sequence[Listener], rack: str | None) -> BrokerRegistration:
    """Return the registration of a broker with some advertised listeners (BrokerIdZNode.apply)."""
    # The fields `host` and `port` are of plain listeners only.
    host, port = next((one.address for one in advertised if one.security == PLAINTEXT), ("", -1))
    protocols = tuple((one.name, one.security) for one in advertised)
    return BrokerRegistration(host, port, rack, tuple(map(str, advertised)), protocols)
