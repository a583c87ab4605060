"""Configuration of a broker and of topics as DescribeConfigs answers it: values with their sources and synonyms.

Rules of this module (AdminManager, ConfigHelper, DynamicBrokerConfig; recorded):
  - a value of a broker comes from its own dynamic configuration, the dynamic configuration of all brokers, its
    properties file, or the default of the release, in this order;
  - a value of a topic comes from the topic, otherwise from the broker's key for it;
  - a synonym is any of these sources that sets the key, or another key for the same setting, from the first source with
    the key's own name on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.kafka.releases.config_keys import (
    ConfigKey,
    alternatives,
    broker_keys,
    default_values,
    in_milliseconds,
    internal_keys,
    other_key,
    topic_config_keys,
)
from simzk.kafka.releases.settings import FIRST_DESCRIBED, NEWEST, broker_defaults
from simzk.kafka.zookeeper_mode import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.releases.since import Release

TOPIC, DYNAMIC, DYNAMIC_DEFAULT, STATIC, DEFAULT, LOGGER = 1, 2, 3, 4, 5, 6
"""Sources of values by their number in DescribeConfigs (KIP-226)."""
LISTS_OTHER_KEYS = (1, 1)
"""The first release that describes keys which it does not know."""
Layers: TypeAlias = "tuple[tuple[int, Mapping[str, str]], ...]"
"""Values by key of each source."""


class Synonym(NamedTuple):
    """A source that sets a key: the name there, its value, and which source it is."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A key with its value; a sensitive one is None."""

    key: ConfigKey
    value: str | None
    synonyms: tuple[Synonym, ...]

    @property
    def source(self) -> int:
        """The source of the value."""
        return self.synonyms[0].source if self.synonyms else DEFAULT


@dataclass(eq=False)
class DescribedConfigs:
    """Configuration of one broker.

    Args:
        static: returns the values of its properties file.
    """

    release: Release
    broker_id: int
    static: Callable[[], Mapping[str, str]]
    own: dict[str, str] = field(default_factory=dict, init=False)
    """Dynamic configuration of this broker."""
    of_all: dict[str, str] = field(default_factory=dict, init=False)
    """Dynamic configuration of all brokers."""

    def update(self, name: str, values: Mapping[str, str]) -> None:
        """Set the dynamic configuration of this broker or of all, by the name of the znode below `/config/brokers`."""
        if name == paths.DEFAULT_ENTITY:
            self.of_all = dict(values)
        elif name == str(self.broker_id):
            self.own = dict(values)

    @property
    def given(self) -> list[str]:
        """The keys of the properties file, then those of the dynamic configurations."""
        return list(dict.fromkeys([*self.static(), *self.of_all, *self.own]))

    def effective(self, name: str | None = None, values: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the values that the broker has besides the defaults.

        Args:
            name: the broker, or all brokers if it is empty, whose dynamic configuration is exchanged.
            values: the configuration instead.
        """
        own = self.own if values is None or not name else values
        of_all = self.of_all if values is None or name else values
        found: dict[str, str] = {}
        for layer in (self.static(), of_all, own):
            for key in layer:  # another key for the same setting does not win over a stronger source
                for other in alternatives(key):
                    found.pop(other, None)
            found.update(layer)
        return found

    def broker_entries(self) -> list[ConfigEntry]:
        """Return all keys of the broker: those of the release, from 1.1 on also others that are set.

        Others are internal keys, throttle rates, and keys of plug-ins and of listeners.
        """
        layers, keys = self._layers(), dict(broker_keys(self.release))
        if self.release >= LISTS_OTHER_KEYS:
            others = [name for _, values in layers[:-1] for name in values if name not in keys]
            keys |= {name: other_key(name, keys, self.release) for name in others}
        return [
            ConfigEntry(key, None if key.is_sensitive else _value(layers, name), self._synonyms(layers, key))
            for name, key in keys.items()
        ]

    def entries_of_all(self) -> list[ConfigEntry]:
        """Return the dynamic configuration of all brokers."""
        keys = broker_keys(self.release)
        entries = []
        for name, value in self.of_all.items():
            key = keys.get(name) or other_key(name, keys, self.release)
            shown = None if key.is_sensitive else value
            entries.append(ConfigEntry(key, shown, (Synonym(name, shown, DYNAMIC_DEFAULT),)))
        return entries

    def topic_entries(self, values: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all keys of a topic with some values of its own."""
        layers, entries = self._layers(), []
        for name, key in topic_config_keys(self.release).items():
            synonyms = self._synonyms(layers, broker_keys(self.release)[key.synonym]) if key.synonym is not None else ()
            if name in values:
                entries.append(ConfigEntry(key, values[name], (Synonym(name, values[name], TOPIC), *synonyms)))
            else:
                entries.append(ConfigEntry(key, _topic_default(layers, key), synonyms))
        for name, key in internal_keys("topic", self.release).items():
            if name in values:
                entries.append(ConfigEntry(key, values[name], (Synonym(name, values[name], TOPIC),)))
        return entries

    def topic_default(self, name: str) -> str:
        """Return the value of a topic's key that the topic does not set; empty if there is none.

        Before 0.11, of which no broker described its keys, it is that of 0.11, except for the simulated settings. A key
        that the release does not have is as by default in the newest one.
        """
        release = max(self.release, FIRST_DESCRIBED)
        keys = topic_config_keys(NEWEST) | topic_config_keys(release)
        defaults = default_values(NEWEST) | default_values(release) | broker_defaults(self.release)
        return _topic_default((*self._layers()[:-1], (DEFAULT, defaults)), keys[name]) or ""

    def _layers(self) -> Layers:
        """Return the values of each source, the strongest first."""
        internal = internal_keys("broker", self.release).values()
        defaults = default_values(self.release) | {key.name: key.default for key in internal if key.default is not None}
        return ((DYNAMIC, self.own), (DYNAMIC_DEFAULT, self.of_all), (STATIC, self.static()), (DEFAULT, defaults))

    def _synonyms(self, layers: Layers, key: ConfigKey) -> tuple[Synonym, ...]:
        name, is_sensitive = key.name, key.is_sensitive
        names = alternatives(name)
        found = [
            Synonym(one, None if is_sensitive else values[one], source)
            for source, values in layers
            for one in names
            if one in values
        ]
        first = next((place for place, synonym in enumerate(found) if synonym.name == name), len(found))
        return tuple(found[first:])


def _value(layers: Layers, name: str) -> str | None:
    return next((values[name] for _, values in layers if name in values), None)


def _topic_default(layers: Layers, key: ConfigKey) -> str | None:
    """Return the broker's value for a key of a topic."""
    if key.synonym is None:
        return key.default
    if not key.name.endswith(".ms"):
        return _value(layers, key.synonym)
    found = ((name, _value(layers, name)) for name in alternatives(key.synonym))
    return next((in_milliseconds(name, value) for name, value in found if value is not None), None)
