"""What `inter.broker.protocol.version` holds back: a release that still speaks as an older one.

Rules of the module (docs/reference/kafka.md §1.3 to §1.6, §2.8; Kafka's `MetadataVersion`, before 3.3 `ApiVersion`):
  - a rolling upgrade first runs the new code at the old protocol, broker by broker, then raises the protocol, broker by
    broker; so what others must understand depends on the protocol, and all else on the release;
  - a name without `-IVn` is the last of its line;
  - a protocol newer than the release is refused, as Kafka's configuration refuses it, and so is one that never was;
  - what brokers send to one another is not in bytes here: of protocols before 0.10.0-IV1 the registration tells.
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

Protocol = tuple[int, int, int, int]
Encode = Callable[[broker_registration.BrokerRegistration], bytes]

FIRST_RELEASE: Final = (0, 9, 0)
"""The first that can be told which protocol to speak."""
RACKS: Final = (0, 10, 0, 1)
"""Registrations of an older protocol are of version 2 (KAFKA-3100)."""
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
"""How many steps (`-IV0` and so on) the protocol of each line has."""
FEATURES: Final = (2, 7, 0, 0)
ALTER_ISR: Final = (2, 7, 0, 2)
TOPIC_IDS: Final = (2, 8, 0, 0)
PRODUCER_IDS: Final = (3, 0, 0, 0)
LEADER_RECOVERY: Final = (3, 2, 0, 0)
FEATURES_V2: Final = (3, 3, 0, 0)
_LAST_IV: Final = 99
_NAME: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:-IV(\d+))?")


def at_protocol(version: KafkaVersion, protocol: str) -> KafkaVersion:
    """What a release does at an inter-broker protocol.

    Args:
        version: the release.
        protocol: such as `2.7` or `2.7-IV1`.

    Raises:
        ConfigError: no such protocol, or one that the release does not speak.

    >>> from simzk.kafka.releases.versions import kafka_version
    >>> old = at_protocol(kafka_version("2.8"), "2.4")
    >>> old.broker.uses_alter_isr, old.znodes.has_topic_ids, old.controller.reassigns_in_topic_znode
    (False, False, True)
    """
    spoken = _parse(protocol)
    line = 2 if version.number >= (1, 0, 0) else 3
    if version.number < FIRST_RELEASE:
        what = f"Kafka {version.name} knows no other protocol than its own"
        raise ConfigError(what, where="inter.broker.protocol.version", right="none")
    if spoken[:line] > version.number[:line]:
        raise ConfigError(
            f"Kafka {version.name} does not speak the inter-broker protocol {protocol!r}",
            where="inter.broker.protocol.version",
            right=f"0.8.0 to {version.name}",
        )
    znodes, encode_broker, encode_feature = version.znodes, version.znodes.encode_broker, version.znodes.encode_feature
    if spoken < FEATURES and encode_broker is broker_registration.encode_v5:
        encode_broker = broker_registration.encode_v4
    if spoken < RACKS:
        encode_broker = _V2_BY_LATER.get(encode_broker, broker_registration.encode_v2)
    if spoken < FEATURES_V2 and encode_feature is feature.encode_v2:
        encode_feature = feature.encode_v1_of_3_3
    return replace(
        version,
        znodes=replace(
            znodes,
            encode_broker=encode_broker,
            encode_feature=encode_feature,
            has_features=znodes.has_features and spoken >= FEATURES,
            has_topic_ids=znodes.has_topic_ids and spoken >= TOPIC_IDS,
        ),
        broker=replace(version.broker, uses_alter_isr=version.broker.uses_alter_isr and spoken >= ALTER_ISR),
        controller=replace(
            version.controller,
            allocates_producer_ids=version.controller.allocates_producer_ids and spoken >= PRODUCER_IDS,
        ),
        rules=replace(version.rules, recovering=version.rules.recovering and spoken >= LEADER_RECOVERY),
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
"""How releases write version 2 that write a later one else (0.10.2 and later); the others as 0.9 does."""


def _parse(protocol: str) -> Protocol:
    """The numbers of a protocol's name, in an order that compares."""
    match = _NAME.fullmatch(protocol)
    if match is None:
        raise ConfigError(
            f"{protocol!r} is no inter-broker protocol",
            where="inter.broker.protocol.version",
            right="such as 2.7 or 2.7-IV2",
        )
    major, minor, patch, step = match.groups()
    line = (int(major), int(minor), int(patch or 0))[: 2 if int(major) else 3]
    steps = _STEPS.get(line)
    if steps is None or (step is not None and int(step) >= steps):
        last = f"{protocol.partition('-')[0]}-IV{steps - 1} at most" if steps else "a line from 0.8.0 to 3.9"
        what = f"there is no inter-broker protocol {protocol!r}"
        raise ConfigError(what, where="inter.broker.protocol.version", right=last)
    return int(major), int(minor), int(patch or 0), _LAST_IV if step is None else int(step)
