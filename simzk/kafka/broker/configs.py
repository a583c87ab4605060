"""Configuration of topics, clients, users, addresses and brokers below `/config`, read and written by brokers.

Rules of this module (LogConfig, TopicConfigHandler, AdminZkClient; docs/reference/kafka.md §1.3, §1.8):
  - a broker reads a topic's configuration when it opens the first log of the topic. Until then, and for keys that the
    topic does not set, the broker's own configuration applies. Later, notifications change it;
  - nothing is written unless the whole request is valid: the release has the entity type, and the name is legal;
  - since 3.7.1 configuration is written in a multi with a check that `/controller` has not changed (KAFKA-16539);
  - since 3.5 a quota without keys is deleted, and so are parents that become empty (KAFKA-14285).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka.broker.notifications import Notifications
from simzk.kafka.log.segments import LogConfig, log_config
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.config_values import topic_problem
from simzk.kafka.releases.settings import topic_keys
from simzk.kafka.requests import AdminResponse, AlterConfigRequest
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError, stat_of
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION, PERSISTENT_SEQUENTIAL, KafkaZooKeeperClient
from simzk.kafka.zookeeper_mode.schemas import config
from simzk.kafka.zookeeper_mode.schemas.json_text import NoJsonError
from simzk.zookeeper.replies import Code, OperationResult
from simzk.zookeeper.requests import Check, Delete, GetData, Multi, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.simulation import Process


@dataclass(eq=False)
class TopicConfigs:
    """Configuration of topics, cached by one broker.

    Args:
        default_of: returns the broker's value for a key that a topic does not set.
        on_change: called with each topic whose configuration was read.
    """

    _process: Process
    _client: KafkaZooKeeperClient
    _default_of: Callable[[str], str]
    _on_change: Callable[[str], None]
    _values: dict[str, dict[str, str]] = field(default_factory=dict, init=False)
    _of_logs: dict[str, LogConfig] = field(default_factory=dict, init=False)
    _default: LogConfig | None = field(default=None, init=False)

    def open(self, topic: str) -> None:
        """Read the configuration of a topic if this is its first open log."""
        if self._client.version.broker.has_min_insync_replicas and topic not in self._values:
            self._values[topic] = {}
            self._process.spawn(self._read(topic), f"configuration of {topic}")

    def update(self, topic: str, values: dict[str, str]) -> None:
        """Set the configuration of a topic."""
        self._values[topic] = dict(values)
        self._of_logs.pop(topic, None)
        self._on_change(topic)

    def on_broker_config(self) -> None:
        """Read the defaults again: the broker's own configuration has changed."""
        self._of_logs.clear()
        self._default = None

    def of_log(self, topic: str) -> LogConfig:
        """Return the configuration of a topic's logs."""
        found = self._of_logs.get(topic)
        if found is None:
            values = self._values.get(topic)
            found = self._of_logs[topic] = self._with(values) if values else self._without_values()
        return found

    def _with(self, values: Mapping[str, str]) -> LogConfig:
        version = self._client.version
        magic = version.api.batch_magic
        if version.log.obeys_format:
            magic = min(magic, magic_of(values.get(_FORMAT) or self._default_of(_FORMAT)))
        config = log_config(lambda key: values.get(key) or self._default_of(key), self._default_of)
        return config._replace(magic=magic)

    def _without_values(self) -> LogConfig:
        """Return the configuration that most topics have."""
        if self._default is None:
            self._default = self._with({})
        return self._default

    def min_isr(self, topic: str) -> int:
        """Return `min.insync.replicas` of a topic; 1 in releases without it."""
        if not self._client.version.broker.has_min_insync_replicas:
            return 1
        return (self._of_logs.get(topic) or self.of_log(topic)).min_isr

    def own_text(self, topic: str, key: str) -> str:
        """Return the value that a topic sets for a key; empty if it does not."""
        return self._values.get(topic, {}).get(key, "")

    async def _read(self, topic: str) -> None:
        try:
            values = await self._client.entity_config(f"topics/{topic}")
        except SessionExpiredError:
            self._values.pop(topic, None)  # read again when the next log is opened
            return
        except ZnodeError as problem:
            self._client.unusable(problem)
            return
        self.update(topic, values)


@dataclass(eq=False)
class ConfigChanges(Notifications):
    """Notifications of configuration changes.

    Args:
        on_change: called with the entity's path below `/config` and its configuration.
    """

    _on_change: Callable[[str, dict[str, str]], None]

    async def handle(self, path: str, data: bytes | None) -> None:
        """Read the configuration of an entity that changed; skip a notification of another release that is not JSON."""
        try:
            entity_path = config.decode_change(path, data, self._client.version.reading)
        except NoJsonError as problem:
            self._client.unusable(problem)
            return
        known = self._client.version.configs.entity_types
        if entity_path.partition("/")[0] not in known:
            raise ZnodeError(f"names the entity {entity_path}", where=path, right=f"one of {', '.join(sorted(known))}")
        self._on_change(entity_path, await self._client.entity_config(entity_path))


_FORMAT = "message.format.version"


def magic_of(version: str) -> int:
    """Return the format of records that a `message.format.version` stands for (KIP-32, KIP-98).

    >>> [magic_of(text) for text in ("0.9.0", "0.10.0-IV0", "0.10.2", "0.11.0-IV0", "2.4", "3.0-IV1")]
    [0, 1, 1, 2, 2, 2]
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))
    return 0 if numbers < (0, 10) else 1 if numbers < (0, 11) else 2


OK = AdminResponse(ErrorCode.NONE)
QUOTAS = frozenset({"clients", "users", "ips"})
"""Entity types whose empty znodes are deleted."""


@dataclass(eq=False)
class EntityConfigs:
    """Configuration of entities, written in the session of a broker or a tool."""

    _client: KafkaZooKeeperClient
    _usual: Callable[[str], str] | None = None
    """Returns the broker's value for a key of topics; those of Kafka if None, as a tool has them."""

    async def alter(self, request: AlterConfigRequest) -> AdminResponse:
        """Set and remove configuration keys of an entity, and write the notification."""
        path = request.entity_path
        if (refused := self._problem(path)) is not None:
            return AdminResponse(ErrorCode.INVALID_REQUEST, refused)
        kind, _, name = path.partition("/")
        if kind == "topics" and not await self._client.exists(paths.topic(name)):
            return AdminResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
        set_keys = {key: value for key, value in request.changes.items() if value is not None}
        if (unknown := self.invalid_keys(path, set_keys)) is not None:
            return unknown
        values = await self._client.entity_config(path)
        for key, value in request.changes.items():
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        if (invalid := self.invalid_values(path, values)) is not None:
            return invalid
        await self.replace(path, values)
        return OK

    async def replace(self, path: str, values: Mapping[str, str]) -> None:
        """Set the whole configuration of a valid entity, and write the notification."""
        if values or path.partition("/")[0] not in QUOTAS or not await self._delete_empty(path):
            await self.write(path, config.in_properties_order(values))
        await self._client.ensure(paths.CONFIG_CHANGES)
        change = self._client.version.znodes.encode_config_change(path)
        await self._client.create(paths.CONFIG_CHANGE_PREFIX, change, PERSISTENT_SEQUENTIAL)

    def invalid_keys(self, path: str, values: Mapping[str, str]) -> AdminResponse | None:
        """Return an error if the release has no such key for topics (LogConfig.validateNames)."""
        if not path.startswith("topics/") or "topics" not in self._client.version.configs.entity_types:
            return None  # 0.8.0 has no topic configuration, and ignores the request
        known = topic_keys(self._client.version.number)
        unknown = [key for key in values if key not in known]
        text = self._client.version.texts.unknown_key
        return AdminResponse(ErrorCode.INVALID_CONFIG, text.format(key=unknown[0])) if unknown else None

    def invalid_values(self, path: str, values: Mapping[str, str]) -> AdminResponse | None:
        """Return an error if a topic cannot have these values (LogConfig.validate)."""
        version = self._client.version
        if not path.startswith("topics/") or "topics" not in version.configs.entity_types:
            return None
        if (problem := topic_problem(values, version.number, self._usual)) is None:
            return None
        fails = problem.is_value and version.api.fails_on_invalid_values
        return AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR if fails else ErrorCode.INVALID_CONFIG, problem.text)

    def _problem(self, path: str) -> str | None:
        """Return why the entity cannot be configured in this release; None if it can."""
        version = self._client.version
        kind, _, name = path.partition("/")
        if kind not in version.configs.entity_types:
            return f"Kafka {version.name} configures {', '.join(sorted(version.configs.entity_types))}, not {kind}"
        parts = name.split("/")
        if not all(parts) or (len(parts) > 1 and (kind != "users" or len(parts) != 3 or parts[1] != "clients")):
            return f"{path} is not an entity path"
        if version.configs.restricts_client_ids and (kind == "clients" or len(parts) == 3) and "%" in parts[-1]:
            return f"client id {parts[-1]} has characters that are not allowed"
        if paths.DEFAULT_ENTITY in parts and not version.configs.has_default_entities:
            return f"Kafka {version.name} has no defaults of {kind}"
        if kind == "ips" and not is_address(name):
            return f"{name} is not a valid IP or resolvable host"
        return None

    async def write(self, entity_path: str, values: Mapping[str, str]) -> None:
        """Set the configuration of an entity, or create its znode; since 3.7.1 while the controller is the same."""
        path, data, session = paths.config(entity_path), config.encode(values), self._client.session
        write = SetData(path, data, ANY_VERSION)
        if not self._client.version.configs.checks_controller:
            if (await session.call(write)).error:
                await self._client.create_below(path, data)
            return
        controller = await session.call(GetData(paths.CONTROLLER, paths.CONTROLLER in session.data_handlers))
        if controller.error:
            code = (await session.call(write)).error
        else:
            reply = await session.call(Multi((Check(paths.CONTROLLER, stat_of(controller).version), write)))
            assert isinstance(reply.body, (list, tuple))
            result = reply.body[1]
            assert isinstance(result, OperationResult)
            code = result.error
        if code != Code.OK:
            await self._client.create_recursive(path, data)

    async def _delete_empty(self, entity_path: str) -> bool:
        """Delete a quota's znode if it has no children, and parents that become empty; return whether that was done."""
        client = self._client
        if not client.version.configs.deletes_empty_quotas or await client.children(paths.config(entity_path)):
            return False
        deleted = [paths.config(entity_path)]
        kind, user, *below = entity_path.split("/")
        assert kind in QUOTAS, f"{entity_path} is no quota"
        if below:
            clients = paths.config(f"{kind}/{user}/clients")
            if await client.children(clients) == [below[-1]]:
                deleted.append(clients)
                own = paths.config(f"{kind}/{user}")
                values = await client.entity_config(f"{kind}/{user}")
                if not values and await client.children(own) == ["clients"]:
                    deleted.append(own)
        for path in deleted:
            await client.session.call(Delete(path, ANY_VERSION))
        return True


def is_address(name: str) -> bool:
    """Return whether a name is an IP address; of host names only `localhost` resolves here."""
    if name in (paths.DEFAULT_ENTITY, "localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
