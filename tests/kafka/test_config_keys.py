"""Configuration keys of all releases, as their brokers listed them."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError
from simzk.kafka.releases.config_keys import TYPES, broker_keys, documentation, topic_config_keys
from simzk.kafka.releases.settings import BrokerConfig, broker_defaults, topic_keys
from simzk.kafka.releases.versions import VERSIONS, kafka_version

COUNTS = """0.11 154 24, 1.0 155 24, 1.1 171 24, 2.0 181 25, 2.1 184 25, 2.2 188 25, 2.3 190 26, 2.4 192 26, 2.5 207 26,
2.6 208 26, 2.7 216 26, 2.8 218 26, 3.0 232 26, 3.1 246 26, 3.2 246 26, 3.3 248 26, 3.4 252 26, 3.5 252 26, 3.6 270 31,
3.7 285 31, 3.8 299 34, 3.9 314 36"""
"""Keys of a broker and of a topic that a real broker of each release listed."""


def test_each_release_has_as_many_keys_as_its_brokers_listed() -> None:
    recorded = {line.split()[0]: tuple(map(int, line.split()[1:])) for line in COUNTS.split(",")}
    made = {}
    for name, version in VERSIONS.items():
        if broker_keys(version.number):
            made[name] = (len(broker_keys(version.number)), len(topic_config_keys(version.number)))
    assert made == recorded


@pytest.mark.parametrize("name", [name for name, version in VERSIONS.items() if version.number >= (0, 11)])
def test_the_simulated_settings_have_the_defaults_of_the_release(name: str) -> None:
    number = kafka_version(name).number
    keys = broker_keys(number)
    for key, default in broker_defaults(number).items():
        if key in keys:
            assert (keys[key].default or "") == default, key
    assert set(topic_config_keys(number)) <= topic_keys(number)
    assert {key.kind for key in keys.values()} <= set(TYPES)
    assert all(key.synonym is None or key.synonym in keys for key in topic_config_keys(number).values())


def test_settings_of_the_release_are_accepted_by_type() -> None:
    version = kafka_version("3.9")
    config = BrokerConfig(version, {"num.io.threads": 3, "log.preallocate": True})
    assert config.given == {"num.io.threads": "3", "log.preallocate": "true"}
    for key, value in (("num.io.threads", "x"), ("log.preallocate", "maybe"), ("no.such", 1)):
        with pytest.raises(ConfigError, match=key):
            BrokerConfig(version, {key: value})


def test_documentation_begins_with_2_6() -> None:
    assert documentation("topic", "retention.ms", (2, 5)) is None
    assert documentation("topic", "retention.ms", (2, 6)) != documentation("topic", "retention.ms", (3, 9))
