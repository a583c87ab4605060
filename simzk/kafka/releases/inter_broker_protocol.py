"""Profile of a release at an older `inter.broker.protocol.version`.

Rules of the module (docs/reference/kafka.md §1.3 to §1.6, §2.8; Kafka's `MetadataVersion`, before 3.3 `ApiVersion`):
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
from typing import TYPE_CHECKING, Final

from simzk.errors import ConfigError
from simzk.kafka.schemas import broker_registration, feature

if TYPE_CHECKING:
    from simzk.kafka.releases.profile import KafkaVersion

ProtocolNumber = tuple[int, int, int, int]
"""Numbers of a protocol such as `2.7-IV1`: major, minor, patch, IV."""
Encode = Callable[[broker_registration.BrokerRegistration], bytes]

FIRST_RELEASE: Final = (0, 9, 0)
"""First release with the setting."""
RACKS: Final = (0, 10, 0, 1)
"""First protocol with racks; registrations at an older one are of version 2 (KAFKA-3100)."""
_STEPS: Final = {
    (0, 8, 0): 0,
    (0, 8, 1): 0,
    (0, 8, 2): 0,
    (0, 9, 0): 0,
    (0, 10, 0): 2,
    (0, 10, 1): 3,
    (0, 10, 2): 1,
    (0, 11, 0): 3,
    (1, 0): 1,
    (1, 1): 1,
    (2, 0): 2,
    (2, 1): 3,
    (2, 2): 2,
    (2, 3): 2,
    (2, 4): 2,
    (2, 5): 1,
    (2, 6): 1,
    (2, 7): 3,
    (2, 8): 2,
    (3, 0): 2,
    (3, 1): 1,
    (3, 2): 1,
    (3, 3): 4,
    (3, 4): 1,
    (3, 5): 3,
    (3, 6): 3,
    (3, 7): 5,
    (3, 8): 1,
    (3, 9): 1,
}
"""Number of steps (`-IV0`, `-IV1`, …) of each line's protocol."""
FEATURES: Final = (2, 7, 0, 0)
"""KIP-584."""
ALTER_ISR: Final = (2, 7, 0, 2)
"""KIP-497."""
TOPIC_IDS: Final = (2, 8, 0, 0)
"""KIP-516."""
PRODUCER_IDS: Final = (3, 0, 0, 0)
"""KIP-730."""
LEADER_RECOVERY: Final = (3, 2, 0, 0)
"""KIP-704."""
FEATURES_V2: Final = (3, 3, 0, 0)
_LAST_IV: Final = 99
_NAME: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:-IV(\d+))?")


def at_protocol(version: KafkaVersion, protocol: str) -> KafkaVersion:
    """Return the profile of a release at an inter-broker protocol.

    Args:
        version: profile of the release at its own protocol.
        protocol: name of the protocol, such as `2.7` or `2.7-IV1`.

    Raises:
        ConfigError: the protocol does not exist, or the release does not support it.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> old = at_protocol(kafka_version("2.8"), "2.4")
    >>> old.broker.uses_alter_isr, old.znodes.has_topic_ids, old.controller.reassigns_in_topic_znode
    (False, False, True)
    """
    number = _parse(protocol)
    line = 2 if version.number >= (1, 0, 0) else 3
    if version.number < FIRST_RELEASE:
        what = f"Kafka {version.name} has no inter.broker.protocol.version"
        raise ConfigError(what, where="inter.broker.protocol.version", right="none")
    if number[:line] > version.number[:line]:
        raise ConfigError(
            f"Kafka {version.name} does not support the inter-broker protocol {protocol!r}",
            where="inter.broker.protocol.version",
            right=f"0.8.0 to {version.name}",
        )
    znodes, encode_broker, encode_feature = version.znodes, version.znodes.encode_broker, version.znodes.encode_feature
    if number < FEATURES and encode_broker is broker_registration.encode_v5:
        encode_broker = broker_registration.encode_v4
    if number < RACKS:
        encode_broker = _V2_BY_LATER.get(encode_broker, broker_registration.encode_v2)
    if number < FEATURES_V2 and encode_feature is feature.encode_v2:
        encode_feature = feature.encode_v1_of_3_3
    return replace(
        version,
        znodes=replace(
            znodes,
            encode_broker=encode_broker,
            encode_feature=encode_feature,
            has_features=znodes.has_features and number >= FEATURES,
            has_topic_ids=znodes.has_topic_ids and number >= TOPIC_IDS,
        ),
        broker=replace(version.broker, uses_alter_isr=version.broker.uses_alter_isr and number >= ALTER_ISR),
        controller=replace(
            version.controller,
            allocates_producer_ids=version.controller.allocates_producer_ids and number >= PRODUCER_IDS,
        ),
        rules=replace(version.rules, recovering=version.rules.recovering and number >= LEADER_RECOVERY),
    )


_V2_BY_LATER: Final[
    dict[
        Callable[[broker_registration.BrokerRegistration], bytes],
        Callable[[broker_registration.BrokerRegistration], bytes],
    ]
] = {
    broker_registration.encode_v4_of_2_12: broker_registration.encode_v2_of_2_12,
    broker_registration.encode_v4: broker_registration.encode_v2_of_2_13,
}
"""Encoders of version 2 in releases that otherwise write a later one (0.10.2 and later); others encode as 0.9."""


def _parse(protocol: str) -> ProtocolNumber:
    """Return the numbers of a protocol's name."""
    match = _NAME.fullmatch(protocol)
    if match is None:
        raise ConfigError(
            f"{protocol!r} is not an inter-broker protocol",
            where="inter.broker.protocol.version",
            right="such as 2.7 or 2.7-IV2",
        )
    major, minor, patch, step = match.groups()
    line = (int(major), int(minor), int(patch or 0))[: 2 if int(major) else 3]
    steps = _STEPS.get(line)
    if steps is None or (step is not None and int(step) >= steps):
        last = f"{protocol.partition('-')[0]}-IV{steps - 1} at most" if steps else "a line from 0.8.0 to 3.9"
        what = f"the inter-broker protocol {protocol!r} does not exist"
        raise ConfigError(what, where="inter.broker.protocol.version", right=last)
    return int(major), int(minor), int(patch or 0), _LAST_IV if step is None else int(step)
