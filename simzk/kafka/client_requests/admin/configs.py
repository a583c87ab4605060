"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, served by the broker that is asked.

Rules of this module (KafkaApis, AdminManager, ConfigAdminManager; recorded 0.11 to 3.9):
  - a topic's configuration is read from ZooKeeper at each request; that of the broker is what notifications have
    brought;
  - a broker describes and alters itself, all brokers (the name is empty), and any topic; it writes to ZooKeeper itself,
    also if it is not controller;
  - each resource of a request succeeds or fails by itself;
  - AlterConfigs replaces the whole configuration, IncrementalAlterConfigs changes single keys (KIP-339);
  - log levels are those of one process. They change nothing else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.errors import ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.jvm.scala_collections import mutable_order
from simzk.kafka.broker.admin_handlers import name_problem
from simzk.kafka.broker.authorizer import CLUSTER
from simzk.kafka.broker.described_configs import DEFAULT, LOGGER, TOPIC, ConfigEntry
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.metadata.entities import AclResource
from simzk.kafka.metadata.plane import MetadataRefusedError, MetadataUnavailableError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from simzk.kafka.releases.config_keys import (
    RATES,
    TYPES,
    ConfigKey,
    belongs_to_one_broker,
    broker_keys,
    documentation,
    internal_keys,
    topic_config_keys,
)
from simzk.kafka.releases.config_orders import described_order, parsed_order
from simzk.kafka.releases.config_texts import ConfigTexts
from simzk.kafka.releases.config_values import broker_problem, resizing_problem, topic_problem, value_problem
from simzk.kafka.releases.settings import topic_keys
from simzk.kafka.releases.since import at_release
from simzk.kafka.security.settings import base_key
from simzk.kafka.zookeeper_mode import paths

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from simzk.kafka.broker.configs import EntityConfigs
    from simzk.kafka.broker.described_configs import DescribedConfigs
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.releases.since import Release
    from simzk.simulation import Future

DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, METRICS_RESOURCE = 2, 4, 8, 16
_KINDS = {TOPIC_RESOURCE: "TOPIC", BROKER_RESOURCE: "BROKER", LOGGER_RESOURCE: "BROKER_LOGGER"}
SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations of IncrementalAlterConfigs."""
ROOT_LOGGER, ROOT_LEVEL = "root", "INFO"
_LOGGERS = ("kafka.", "org.apache.", "state.change.logger")
"""Beginnings of the names of loggers that a broker has."""
_NO_DEFAULT = (
    'Cannot invoke "String.split(String)" because the return value of "java.util.Properties.getProperty(String)" '
    "is null"
)
"""Text of an exception that 2.3 to 2.7 answer (recorded with 2.4)."""
_OTHER_LOGGERS = "Unexpected broker id, expected {broker} but received {name}"

Described = DescribeConfigsResponse.DescribeConfigsResult
Change = IncrementalAlterConfigsRequest.AlterableConfig


class ResourceError(NamedTuple):
    """Error of one resource."""

    code: ErrorCode
    text: str | None


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return ConfigsApi(broker.serving_broker, broker.described_configs, broker.entity_configs).handlers


@dataclass(eq=False)
class ConfigsApi(ClientApi):
    """Configurations for clients of one broker.

    Args:
        described: its configuration.
        written: writes configurations.
    """

    described: DescribedConfigs
    written: EntityConfigs
    _levels: dict[str, str] = field(default_factory=lambda: {ROOT_LOGGER: ROOT_LEVEL}, init=False)

    def __post_init__(self) -> None:
        self.texts = at_release(ConfigTexts, self.broker.version.number)

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            DESCRIBE_CONFIGS: self.broker.waiting(self._describe, "describe configurations"),
            ALTER_CONFIGS: self.serve_alter,
            INCREMENTAL_ALTER_CONFIGS: self.broker.waiting(self._incremental_alter, "alter configurations"),
        }

    # -- DescribeConfigs

    async def _describe(self, context: Context, request: DescribeConfigsRequest, answer: Answer) -> None:
        resources = list(request.resources)
        if not self.texts.answers_each_resource:
            resources = list({(one.resource_type, one.resource_name): one for one in resources}.values())
        results = []
        for resource in resources:
            kind, name, names = resource.resource_type, resource.resource_name, resource.configuration_keys
            found = await _attempted(self._entries(context, kind, name))
            if isinstance(found, ResourceError):
                code, text = found
                shown = self._shown_kind(kind)
                results.append(Described(error_code=code, error_message=text, resource_type=shown, resource_name=name))
                continue
            is_all = names is None or (not names and self.texts.no_keys_are_all)
            asked = [entry for entry in found if is_all or entry.key.name in (names or ())]
            found = asked if kind == LOGGER_RESOURCE else self._in_order(kind, name, found, asked)
            configs = [self._described(entry, kind, context.version, request) for entry in found]
            success = self.texts.described
            results.append(Described(error_message=success, resource_type=kind, resource_name=name, configs=configs))
        answer(DescribeConfigsResponse(results=results))

    def _in_order(
        self, kind: int, name: str, entries: list[ConfigEntry], asked: list[ConfigEntry]
    ) -> list[ConfigEntry]:
        """Return the entries that are asked for in the order of the map that holds them.

        It is Java's HashMap up to 2.5, and Scala's since (AbstractConfig.originals as a Scala map, filtered).
        """
        by_name, scala = {entry.key.name: entry for entry in asked}, self.broker.version.orders.scala
        assert len(by_name) == len(asked), "no key is described twice"
        if scala == "2.13" or (kind == BROKER_RESOURCE and not name):
            return [by_name[one] for one in mutable_order(sorted(by_name), scala)]
        names = [entry.key.name for entry in entries]
        owner = "topic" if kind == TOPIC_RESOURCE else "broker"
        given = [one.key.name for one in entries if one.source != DEFAULT] if owner == "topic" else self.described.given
        return [by_name[one] for one in described_order(owner, names, given, by_name.__contains__, self._release)]

    @property
    def _release(self) -> Release:
        return self.broker.version.number

    def _shown_kind(self, kind: int) -> int:
        """Return the type of a resource in an answer: 0 for an unknown one, up to 2.7."""
        is_known = kind in _KINDS and (kind != LOGGER_RESOURCE or self.texts.has_loggers)
        return kind if is_known or self.texts.keeps_unknown_type else 0

    async def _entries(self, context: Context, kind: int, name: str) -> list[ConfigEntry] | ResourceError:
        """Return the configuration of a resource."""
        texts = self.texts
        if (refused := self._refusal(context, "DescribeConfigs", kind, name)) is not None:
            return refused
        if kind == TOPIC_RESOURCE:
            if (illegal := name_problem(name, self.broker.version)) is not None:
                return ResourceError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
            if texts.requires_topic and name not in self.broker.cache.topics:
                return ResourceError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, texts.described)
            return self.described.topic_entries(await self.broker.entities.entity_config(f"topics/{name}"))
        if kind == BROKER_RESOURCE:
            if not name and texts.has_broker_configs:
                return self.described.entries_of_all()
            return self._broker_problem(kind, name, texts.other_broker) or self.described.broker_entries()
        if kind == LOGGER_RESOURCE and texts.has_loggers:
            return self._broker_problem(kind, name, _OTHER_LOGGERS) or [
                ConfigEntry(ConfigKey(logger, "unknown", None, is_read_only=False), level, ())
                for logger, level in self._levels.items()
            ]
        metrics = texts.client_metrics_described if kind == METRICS_RESOURCE else None
        return ResourceError(ErrorCode.INVALID_REQUEST, metrics or texts.unknown_described.format(name=name))

    def _refusal(self, context: Context, operation: str, kind: int, name: str) -> ResourceError | None:
        """Return why the client may not do something with a resource; None if it may."""
        is_topic, texts = kind == TOPIC_RESOURCE, self.texts
        resource = AclResource("Topic", name) if is_topic else CLUSTER
        if self.broker.authorizer.allows(operation, resource, context.principal):
            return None
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_topic else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ResourceError(
            texts.topic_denied if is_topic else denied, denied.text if texts.explains_denials else None
        )

    def _broker_problem(self, kind: int, name: str, text: str) -> ResourceError | None:
        """Return why a name is not that of this broker; None if it is."""
        number = parse_int(name)
        if number is None:
            return ResourceError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if number != self.broker.id:
            resource = self.texts.resource.format(kind=_KINDS[kind], name=name)
            shown = text.format(broker=self.broker.id, name=name, resource=resource)
            return ResourceError(ErrorCode.INVALID_REQUEST, shown)
        return None

    def _described(
        self, entry: ConfigEntry, kind: int, version: int, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
        """Return an entry as a struct of the response."""
        key, texts = entry.key, self.texts
        source = LOGGER if kind == LOGGER_RESOURCE else entry.source
        is_own = source == TOPIC if kind == TOPIC_RESOURCE and not texts.has_broker_configs else source != DEFAULT
        meaning = "" if kind == LOGGER_RESOURCE else None
        if request.include_documentation and meaning is None:
            what = "topic" if kind == TOPIC_RESOURCE else "broker"
            meaning = documentation(what, key.name, self.broker.version.number)
        synonyms = [
            DescribeConfigsResponse.DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in entry.synonyms
            if request.include_synonyms
        ]
        return DescribeConfigsResponse.DescribeConfigsResourceResult(
            name=key.name,
            value=entry.value,
            read_only=key.is_read_only,
            is_default=version == 0 and texts.names_defaults and not is_own,
            config_source=source if version else -1,
            is_sensitive=key.is_sensitive,
            synonyms=synonyms,
            config_type=TYPES.index(key.kind),
            documentation=meaning,
        )

    # -- AlterConfigs

    def serve_alter(self, context: Context, request: AlterConfigsRequest, answer: Answer) -> None:
        """Replace configurations."""
        resources = request.resources
        named = {(one.resource_type, one.resource_name) for one in resources}
        if any(entry.value is None for one in resources for entry in one.configs) and self.texts.closes_at_null_value:
            answer(None)
        elif len(named) == len(resources) or not self.texts.fails_on_duplicate_resources:
            self.broker.spawn(self._alter(context, request, answer), "alter configurations")

    async def _alter(self, context: Context, request: AlterConfigsRequest, answer: Answer) -> None:
        altered, results = AlterConfigsResponse.AlterConfigsResourceResponse, []
        for one in {(one.resource_type, one.resource_name): one for one in request.resources}.values():
            code, text = await _attempted(self._replace(context, one, validate_only=request.validate_only))
            kind, name = self._shown_kind(one.resource_type), one.resource_name
            results.append(altered(error_code=code, error_message=text, resource_type=kind, resource_name=name))
        answer(AlterConfigsResponse(responses=results))

    async def _replace(
        self, context: Context, asked: AlterConfigsRequest.AlterConfigsResource, *, validate_only: bool
    ) -> ResourceError:
        kind, name, configs = asked.resource_type, asked.resource_name, asked.configs
        twice = self._duplicate_keys([entry.name for entry in configs])
        if twice is not None and self.texts.replaces_no_duplicate_keys:  # before authorization: ConfigAdminManager
            return twice
        if (refused := self._refusal(context, "AlterConfigs", kind, name)) is not None:
            return ResourceError(refused.code, None)
        nulls = [entry.name for entry in configs if entry.value is None]
        if nulls:
            return _refused_nulls(nulls, self.texts.null_value)
        if kind == LOGGER_RESOURCE and self.texts.logger_in_alter is not None:
            return ResourceError(ErrorCode.INVALID_REQUEST, self.texts.logger_in_alter)
        if kind not in (TOPIC_RESOURCE, BROKER_RESOURCE):
            return self._unknown_kind(kind)
        values = {entry.name: entry.value for entry in configs if entry.value is not None}
        return await self._write(kind, name, values, validate_only=validate_only)

    def _unknown_kind(self, kind: int) -> ResourceError:
        text = self.texts.client_metrics_altered if kind == METRICS_RESOURCE else None
        return ResourceError(ErrorCode.INVALID_REQUEST, text or self.texts.unknown_altered.format(number=kind))

    # -- IncrementalAlterConfigs

    async def _incremental_alter(
        self, context: Context, request: IncrementalAlterConfigsRequest, answer: Answer
    ) -> None:
        altered, results = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse, []
        for one in request.resources:
            kind, name = one.resource_type, one.resource_name
            work = self._change(context, kind, name, one.configs, validate_only=request.validate_only)
            code, text = await _attempted(work)
            results.append(altered(error_code=code, error_message=text, resource_type=kind, resource_name=name))
        answer(IncrementalAlterConfigsResponse(responses=results))

    async def _change(
        self, context: Context, kind: int, name: str, changes: Sequence[Change], *, validate_only: bool
    ) -> ResourceError:
        if (denied := self._refusal(context, "AlterConfigs", kind, name)) is not None:
            return ResourceError(denied.code, None)
        if (problem := self._change_problem(changes)) is not None:
            return problem
        if kind == LOGGER_RESOURCE:
            return self._change_levels(name, changes, validate_only=validate_only)
        if kind == TOPIC_RESOURCE:
            keys, entity = topic_config_keys(self.broker.version.number), f"topics/{name}"
            defaults = {entry.key.name: entry.value for entry in self.described.topic_entries({})}
        elif kind == BROKER_RESOURCE:
            keys, entity = broker_keys(self.broker.version.number), _broker_path(name)
            defaults = {entry.key.name: entry.value for entry in self.described.broker_entries()}
            if name and (refused := self._broker_problem(kind, name, self.texts.other_altered)) is not None:
                return refused
        else:
            return self._unknown_kind(kind)
        values = dict(await self.broker.entities.entity_config(entity))
        for change in changes:
            key, operation = keys.get(change.name), change.config_operation
            if operation in (APPEND, SUBTRACT) and (key is None or key.kind != "list"):
                what = "append" if operation == APPEND else "subtract"
                text = f"Config value {what} is not allowed for config key: {change.name}"
                return ResourceError(self.texts.invalid_value, text)
            if operation == DELETE:
                values.pop(change.name, None)
                continue
            assert change.value is not None, "null is refused before"
            if operation == SET:
                values[change.name] = change.value
                continue
            if change.name not in values and not self.texts.appends_to_defaults:
                return ResourceError(ErrorCode.UNKNOWN_SERVER_ERROR, _NO_DEFAULT)
            values[change.name] = self._combined(change, values.get(change.name, defaults.get(change.name)))
        return await self._write(kind, name, values, validate_only=validate_only)

    def _duplicate_keys(self, names: Sequence[str]) -> ResourceError | None:
        """Return the refusal of keys that are named twice; None if there are none."""
        twice = [name for name, times in Counter(names).items() if times > 1]
        text = self.texts.duplicate_keys.format(keys=",".join(twice))
        return ResourceError(ErrorCode.INVALID_REQUEST, text) if twice else None

    def _change_problem(self, changes: Sequence[Change]) -> ResourceError | None:
        """Return why changes are invalid, whatever they change."""
        if (twice := self._duplicate_keys([change.name for change in changes])) is not None:
            return twice
        if any(not SET <= change.config_operation <= SUBTRACT for change in changes):
            return ResourceError(ErrorCode.UNKNOWN_SERVER_ERROR, self.texts.unknown_operation)
        nulls = [change.name for change in changes if change.config_operation != DELETE and change.value is None]
        return _refused_nulls(nulls, self.texts.null_set) if nulls else None

    def _combined(self, change: Change, present: str | None) -> str:
        """Return a list with a value appended or removed."""
        assert change.value is not None
        old = [item for item in (present or "").split(",") if item]
        items = change.value.split(",")
        assert change.config_operation in (APPEND, SUBTRACT), change.config_operation
        if change.config_operation == SUBTRACT:
            return ",".join(item for item in old if item not in items)
        return ",".join([*old, *(item for item in items if item not in old or not self.texts.appends_once)])

    def _change_levels(self, name: str, changes: Sequence[Change], *, validate_only: bool) -> ResourceError:
        """Set and remove levels of loggers (KIP-412)."""
        if (problem := self._broker_problem(LOGGER_RESOURCE, name, _OTHER_LOGGERS)) is not None:
            return problem
        prefix = self._prefix(LOGGER_RESOURCE, name) if self.texts.prefixes_broker_errors else ""
        for change in changes:
            if change.name == ROOT_LOGGER and change.config_operation == DELETE:
                return ResourceError(
                    ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
                )
            if change.config_operation == SET and change.value not in self.texts.levels.split(", "):
                text = (
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                    f"Valid log levels are {self.texts.levels}"
                )
                return ResourceError(self.texts.invalid_value, prefix + text)
            if change.name != ROOT_LOGGER and not change.name.startswith(_LOGGERS):
                return ResourceError(self.texts.invalid_value, f"{prefix}Logger {change.name} does not exist!")
        if not validate_only:
            for change in changes:
                if change.config_operation == DELETE:
                    self._levels.pop(change.name, None)
                elif change.config_operation == SET and change.value is not None:
                    self._levels[change.name] = change.value
        return ResourceError(ErrorCode.NONE, None)

    # -- writing

    def _prefix(self, kind: int, name: str) -> str:
        resource = self.texts.resource.format(kind=_KINDS[kind], name=name)
        return f"Invalid config value for resource {resource}: "

    async def _write(self, kind: int, name: str, values: Mapping[str, str], *, validate_only: bool) -> ResourceError:
        """Validate the whole configuration of a resource, and write it."""
        assert kind in (TOPIC_RESOURCE, BROKER_RESOURCE), f"resources of type {kind} are not written"
        is_topic = kind == TOPIC_RESOURCE
        if is_topic and (missing := await self._missing_topic(name)) is not None:
            return missing
        problem = self._topic_problem(name, values) if is_topic else self._value_problem(name, values)
        if problem is not None:
            return problem
        if not validate_only:
            await self.written.replace(f"topics/{name}" if is_topic else _broker_path(name), values)
        return ResourceError(ErrorCode.NONE, None)

    async def _missing_topic(self, name: str) -> ResourceError | None:
        """Return why a name is not that of a topic; None if it is (AdminZkClient.validateTopicConfig)."""
        code, text = self.texts.missing_topic
        missing = ResourceError(code, text.format(name=name))
        if self.texts.asks_metadata_cache and name not in self.broker.cache.topics:
            return missing
        if (illegal := name_problem(name, self.broker.version)) is not None:
            return ResourceError(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        return None if await self.broker.entities.topic_exists(name) else missing

    def _topic_problem(self, name: str, values: Mapping[str, str]) -> ResourceError | None:
        known = topic_keys(self.broker.version.number)
        if (unknown := next((key for key in values if key not in known), None)) is not None:
            return ResourceError(ErrorCode.INVALID_CONFIG, self.broker.version.texts.unknown_key.format(key=unknown))
        if (problem := topic_problem(values, self._release, self.described.topic_default)) is None:
            return None
        if not problem.is_value:
            return ResourceError(ErrorCode.INVALID_CONFIG, problem.text)
        return ResourceError(self.texts.invalid_value, self._prefix(TOPIC_RESOURCE, name) + problem.text)

    def _value_problem(self, name: str, values: Mapping[str, str]) -> ResourceError | None:
        """Return why a broker cannot have a dynamic configuration; None if it can."""
        if not self.texts.has_broker_configs:
            text = "AlterConfigs is only supported for topics, but resource type is BROKER"
            return ResourceError(ErrorCode.INVALID_REQUEST, text)
        if name and (refused := self._broker_problem(BROKER_RESOURCE, name, self.texts.other_altered)) is not None:
            return refused
        prefix = self._prefix(BROKER_RESOURCE, name) if self.texts.prefixes_broker_errors else ""
        problem = self._dynamic_problem(name, values)
        return None if problem is None else ResourceError(ErrorCode.INVALID_REQUEST, prefix + problem)

    def _dynamic_problem(self, name: str, values: Mapping[str, str]) -> str | None:
        """Return why a broker rejects a dynamic configuration, in the order of DynamicBrokerConfig.validate."""
        release = self.broker.version.number
        keys = internal_keys("broker", release) | broker_keys(release)
        fixed = [key for key in values if key in keys and keys[key].is_read_only]
        if fixed:
            return f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
        for key in sorted(parsed_order("broker", values, release), key=lambda key: key not in RATES):
            if (problem := value_problem("broker", base_key(key) or key, values[key], release)) is not None:
                return problem
        single = [key for key in values if not name and belongs_to_one_broker(key)]
        if single:
            what = "Cannot update these configs at default cluster level, broker id must be specified"
            return f"{what}: Set({', '.join(single)})"
        present, changed = self.described.effective(), self.described.effective(name, values)
        return broker_problem(changed, release) or resizing_problem(present, changed, release)


def _broker_path(name: str) -> str:
    return f"brokers/{name or paths.DEFAULT_ENTITY}"


def _refused_nulls(keys: Sequence[str], text: str | None) -> ResourceError:
    """Return the refusal of keys without values; without a text it is that of a server that did not expect them."""
    assert keys, "nothing is refused"
    if text is None:
        return ResourceError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    return ResourceError(ErrorCode.INVALID_REQUEST, text.format(key=",".join(keys)))


async def _attempted(work: Coroutine[Future[Any], None, Any]) -> Any:
    """Return the result of work in ZooKeeper; an error if it fails or the session expires."""
    try:
        return await work
    except MetadataUnavailableError:
        return ResourceError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's ZooKeeper session has expired")
    except (ZnodeError, MetadataRefusedError) as problem:
        return ResourceError(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
