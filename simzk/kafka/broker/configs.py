"""What a broker knows of its topics' configuration (LogConfig, TopicConfigHandler; docs/reference/kafka.md §1.8).

Rules of the module:
  - a topic's configuration is read once its first log on the broker is opened; until the answer is there, and where
    the topic says nothing, the broker's own defaults hold;
  - from then on it is what the last notification of a change found.

Configuration of topics, clients, users, addresses and brokers, as it is written below `/config`
(docs/reference/kafka.md §1.3, §1.8; AdminZkClient.changeEntityConfig, KafkaZkClient.setOrCreateEntityConfigs).

Rules of the module:
  - nothing is written before all is found valid: the release knows the type, and the name may stand in a path;
  - configuration is written in a multi with a check that `/controller` is still the one that was read (KAFKA-16539),
    created where it is not there yet, and announced;
  - a quota without keys goes from 3.5 on, with its parents where they hold nothing else (KAFKA-14285).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.kafka import paths
from simzk.kafka.releases.settings import topic_keys
from simzk.kafka.requests import AdminResponse, AlterConfigRequest, Error
from simzk.kafka.schemas import config
from simzk.kafka.zookeeper_client.session import SessionExpiredError, stat_of
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, PERSISTENT_SEQUENTIAL, KafkaZooKeeperClient
from simzk.zookeeper.replies import Code, OperationResult
from simzk.zookeeper.requests import Check, Delete, GetData, Multi, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.zookeeper_client.zk_client import KafkaZooKeeperClient
    from simzk.simulation import Process

MIN_ISR_KEY = "min.insync.replicas"


class TopicConfigs:
    """The configuration of topics, as one broker knows it.

    Args:
        process: the broker's.
        client: its use of ZooKeeper.
        config: its own configuration, where a topic has none.
        on_change: told of the topic whose configuration was read.
    """

    def __init__(
        self, process: Process, client: KafkaZooKeeperClient, config: BrokerConfig, on_change: Callable[[str], None]
    ) -> None:
        self._process = process
        self._client = client
        self._config = config
        self._on_change = on_change
        self._values: dict[str, dict[str, str]] = {}

    def open(self, topic: str) -> None:
        """The first log of a topic is opened here."""
        if self._client.version.broker.has_min_insync_replicas and topic not in self._values:
            self._values[topic] = {}
            self._process.spawn(self._read(topic), f"configuration of {topic}")

    def update(self, topic: str, values: dict[str, str]) -> None:
        """A notification: the topic's configuration is another now."""
        self._values[topic] = dict(values)
        self._on_change(topic)

    def min_isr(self, topic: str) -> int:
        """How many replicas must be in sync for a write that all of them must have; 1 before there was such a thing."""
        if not self._client.version.broker.has_min_insync_replicas:
            return 1
        own = parse_int(self._values.get(topic, {}).get(MIN_ISR_KEY, ""))
        return self._config.integer(MIN_ISR_KEY) if own is None else own

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


OK = AdminResponse(Error.NONE)
QUOTAS = frozenset({"clients", "users", "ips"})
"""Types whose znodes may go."""


class EntityConfigs:
    """Writes configuration, in a broker's session or a tool's."""

    def __init__(self, client: KafkaZooKeeperClient) -> None:
        self._client = client

    async def alter(self, request: AlterConfigRequest) -> AdminResponse:
        """Set and remove keys of an entity's configuration, and announce it."""
        path = request.entity_path
        if (refused := self._refusal(path)) is not None:
            return AdminResponse(Error.INVALID_REQUEST, refused)
        kind, _, name = path.partition("/")
        if kind == "topics" and not await self._client.exists(paths.topic(name)):
            return AdminResponse(Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        wanted = {key: value for key, value in request.changes.items() if value is not None}
        if (unknown := self.refused_keys(path, wanted)) is not None:
            return unknown
        values = await self._client.entity_config(path)
        for key, value in request.changes.items():
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        if values or kind not in QUOTAS or not await self._clean(path):
            await self.write(path, config.in_properties_order(values))
        await self._client.ensure(paths.CONFIG_CHANGES)
        change = self._client.version.znodes.encode_config_change(path)
        await self._client.create(paths.CONFIG_CHANGE_PREFIX, change, PERSISTENT_SEQUENTIAL)
        return OK

    def refused_keys(self, path: str, values: Mapping[str, str]) -> AdminResponse | None:
        """The answer where a topic is to have a key that the release does not know (LogConfig.validateNames)."""
        if not path.startswith("topics/") or "topics" not in self._client.version.configs.entity_types:
            return None  # 0.8.0 has nothing to configure: what is asked for is passed over
        known = topic_keys(self._client.version.number)
        unknown = [key for key in values if key not in known]
        return AdminResponse(Error.INVALID_CONFIG, f"Unknown topic config name: {unknown[0]}") if unknown else None

    def _refusal(self, path: str) -> str | None:
        """Why the release takes no configuration of such an entity."""
        version = self._client.version
        kind, _, name = path.partition("/")
        if kind not in version.configs.entity_types:
            return f"Kafka {version.name} configures {', '.join(sorted(version.configs.entity_types))}, and no {kind}"
        parts = name.split("/")
        if not all(parts) or (len(parts) > 1 and (kind != "users" or len(parts) != 3 or parts[1] != "clients")):
            return f"{path} names no entity"
        if version.configs.restricts_client_ids and (kind == "clients" or len(parts) == 3) and "%" in parts[-1]:
            return f"client id {parts[-1]} contains more than plain characters"
        if paths.DEFAULT_ENTITY in parts and not version.configs.has_default_entities:
            return f"Kafka {version.name} has no defaults of {kind}"
        if kind == "ips" and not _is_address(name):
            return f"{name} is not a valid IP or resolvable host"
        return None

    async def write(self, entity_path: str, values: Mapping[str, str]) -> None:
        """Set, or create where it is not there; from 3.7.1 on while the controller is the one that was seen."""
        path, data = paths.config(entity_path), config.encode(values)
        write = SetData(path, data, ANY_VERSION)
        if not self._client.version.configs.checks_controller:
            reply = await self._client.session.call(write)
            if reply.error:
                await self._client.create_below(path, data)
            return
        controller = await self._client.session.call(
            GetData(paths.CONTROLLER, paths.CONTROLLER in self._client.session.data_handlers)
        )
        if controller.error:
            reply = await self._client.session.call(write)
            code = reply.error
        else:
            check = Check(paths.CONTROLLER, stat_of(controller).version)
            reply = await self._client.session.call(Multi((check, write)))
            results = reply.body
            assert isinstance(results, (list, tuple))
            result = results[1]
            assert isinstance(result, OperationResult)
            code = result.error
        if code != Code.OK:
            await self._client.create_recursive(path, data)

    async def _clean(self, entity_path: str) -> bool:
        """Delete a quota's znode if nothing stands below it, and what is then empty above; whether that was done."""
        client = self._client
        if not client.version.configs.deletes_empty_quotas or await client.children(paths.config(entity_path)):
            return False
        doomed = [paths.config(entity_path)]
        kind, user, *below = entity_path.split("/")
        if below:
            clients = paths.config(f"{kind}/{user}/clients")
            if await client.children(clients) == [below[-1]]:
                doomed.append(clients)
                own = paths.config(f"{kind}/{user}")
                values = await client.entity_config(f"{kind}/{user}")
                if not values and await client.children(own) == ["clients"]:
                    doomed.append(own)
        for path in doomed:
            await client.session.call(Delete(path, ANY_VERSION))
        return True


def _is_address(name: str) -> bool:
    """Whether it is an address; of names that resolve only this machine's is known here."""
    if name in (paths.DEFAULT_ENTITY, "localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
