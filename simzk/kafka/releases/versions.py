"""Release lines that are simulated, and the profile of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from simzk.errors import ConfigError
from simzk.kafka.releases import profile
from simzk.kafka.releases.profile import KafkaVersion
from simzk.kafka.releases.settings import broker_defaults
from simzk.kafka.releases.since import at_release
from simzk.kafka.releases.texts import TopicTexts
from simzk.kafka.zookeeper_mode.schemas.json_text import Reading
from simzk.partitions.rules import rules_of

LINES: Final = (
    *("3.9", "3.8", "3.7", "3.6", "3.5", "3.4", "3.3", "3.2", "3.1", "3.0"),
    *("2.8", "2.7", "2.6", "2.5", "2.4", "2.3", "2.2", "2.1", "2.0"),
    *("1.1", "1.0", "0.11", "0.10.2", "0.10.1", "0.10.0", "0.9", "0.8.2", "0.8.1", "0.8.0"),
)
"""Names of the release lines, newest first."""
_LAST_PATCH: Final = 99
"""A line stands for its last release."""


@cache
def kafka_version(name: str) -> KafkaVersion:
    """Return the profile of a release.

    Args:
        name: a line such as `3.9`, which stands for its last release, or a release such as `3.9.1`.

    Raises:
        ConfigError: no such line is simulated.

    >>> kafka_version("3.9.1").name
    '3.9'
    >>> [kafka_version(name).configs.checks_controller for name in ("3.7.0", "3.7.1", "3.7")]
    [False, True, True]
    """
    line = next((line for line in LINES if name == line or name.startswith(f"{line}.")), None)
    patches = [] if line is None else name[len(line) + 1 :].split(".")
    if line is None or not (name == line or all(patch.isascii() and patch.isdecimal() for patch in patches)):
        raise ConfigError(f"Kafka {name!r} is not simulated", where="version", right=f"one of {', '.join(LINES)}")
    release = tuple(map(int, (name if name != line else f"{line}.{_LAST_PATCH}").split(".")))
    major, minor, patch = (*map(int, line.split(".")), 0)[:3]
    number = (major, minor, patch)
    return KafkaVersion(
        name=line,
        number=number,
        rules=rules_of(number),
        reading=at_release(Reading, release),
        defaults=broker_defaults(number),
        znodes=at_release(profile.ZnodeRules, release),
        client=at_release(profile.ClientRules, release),
        controller=at_release(profile.ControllerRules, release),
        broker=at_release(profile.BrokerRules, release),
        log=at_release(profile.LogRules, release),
        api=at_release(profile.ApiRules, release),
        groups=at_release(profile.GroupRules, release),
        transactions=at_release(profile.TransactionRules, release),
        configs=at_release(profile.EntityConfigRules, release),
        tools=at_release(profile.ToolRules, release),
        orders=at_release(profile.OrderRules, release),
        texts=at_release(TopicTexts, release),
    )


class _Versions(Mapping[str, KafkaVersion]):
    """Profiles by line, built on first use: most processes need one of them."""

    def __getitem__(self, line: str) -> KafkaVersion:
        if line not in LINES:
            raise KeyError(line)
        return kafka_version(line)

    def __iter__(self) -> Iterator[str]:
        return iter(LINES)

    def __len__(self) -> int:
        return len(LINES)


VERSIONS: Final[Mapping[str, KafkaVersion]] = _Versions()
"""Profile of each release line, newest first."""
