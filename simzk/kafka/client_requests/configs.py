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
from simzk.kafka import paths
from simzk.kafka.broker.admin_handlers import name_problem
from simzk.kafka.broker.authorizer import CLUSTER
from simzk.kafka.broker.described_configs import DEFAULT, LOGGER, TOPIC, ConfigEntry
from simzk.kafka.client_requests.serving_broker import ClientApi
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
    TYPES,
    ConfigKey,
    belongs_to_one_broker,
    broker_keys,
    documentation,
    topic_config_keys,
    type_problem,
)
from simzk.kafka.releases.config_texts import ConfigTexts
from simzk.kafka.releases.settings import topic_keys, value_problem
from simzk.kafka.releases.since import at_release
from simzk.kafka.schemas.acl import AclResource
from simzk.kafka.zookeeper_client.session import SessionExpiredError
from simzk.kafka.zookeeper_client.zk_client import ZooKeeperRefused

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from simzk.kafka.broker.configs import EntityConfigs
    from simzk.kafka.broker.described_configs import DescribedConfigs
    from simzk.kafka.client_requests.broker_api import Answer, Context, Handler
    from simzk.simulation import Future

DESCRIBE_CONFIGS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 32, 33, 44
TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, METRICS_RESOURCE = 2, 4, 8, 16
_KINDS = {TOPIC_RESOURCE: "TOPIC", BROKER_RESOURCE: "BROKER", LOGGER_RESOURCE: "BROKER_LOGGER"}
_FIRST_KINDS = (TOPIC_RESOURCE, BROKER_RESOURCE)
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

Described = DescribeConfigsResponse.DescribeConfigsResult


class Refusal(NamedTuple):
    """Error of one resource."""

    code: ErrorCode
    text: str | None


class Change(NamedTuple):
    """A change of one key by IncrementalAlterConfigs."""

    name: str
    operation: int
    value: str | None


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
        """The handlers by API key."""
        return {
            DESCRIBE_CONFIGS: self.serve_describe,
            ALTER_CONFIGS: self.serve_alter,
            INCREMENTAL_ALTER_CONFIGS: self.serve_incremental_alter,
        }

    # -- DescribeConfigs

    def serve_describe(self, context: Context, request: DescribeConfigsRequest, answer: Answer) -> None:
        """Describe configurations."""
        self.broker.spawn(self._describe(context, request, answer), "describe configurations")

    async def _describe(self, context: Context, request: DescribeConfigsRequest, answer: Answer) -> None:
        resources = list(request.resources)
        if not self.texts.answers_each_resource:
            resources = list({(one.resource_type, one.resource_name): one for one in resources}.values())
        results = []
        for resource in resources:
            kind, name, names = resource.resource_type, resource.resource_name, resource.configuration_keys
            found = await _attempted(self._entries(context, kind, name))
            if isinstance(found, Refusal):
                code, text = found
                shown = self._shown_kind(kind)
                results.append(Described(error_code=code, error_message=text, resource_type=shown, resource_name=name))
                continue
            if names is not None and (names or not self.texts.no_keys_are_all):
                found = [entry for entry in found if entry.key.name in names]
            configs = [self._described(entry, kind, context.version, request) for entry in found]
            success = self.texts.described
            results.append(Described(error_message=success, resource_type=kind, resource_name=name, configs=configs))
        answer(DescribeConfigsResponse(results=results))

    def _shown_kind(self, kind: int) -> int:
        """Return the type of a resource in an answer: 0 for an unknown one, up to 2.7."""
        known = (TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE) if self.texts.has_loggers else _FIRST_KINDS
        return kind if kind in known or self.texts.keeps_unknown_type else 0

    async def _entries(self, context: Context, kind: int, name: str) -> list[ConfigEntry] | Refusal:
        """Return the configuration of a resource."""
        texts = self.texts
        if (refused := self._refusal(context, "DescribeConfigs", kind, name)) is not None:
            return refused
        match kind:
            case _ if kind == TOPIC_RESOURCE:
                if (illegal := name_problem(name, self.broker.version)) is not None:
                    return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
                if texts.requires_topic and name not in self.broker.cache.topics:
                    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, texts.described)
                return self.described.topic_entries(await self.broker.client.entity_config(f"topics/{name}"))
            case _ if kind == BROKER_RESOURCE:
                if not name and texts.has_broker_configs:
                    return self.described.entries_of_all()
                problem = self._broker_problem(kind, name, texts.other_broker)
                return problem or self.described.broker_entries()
            case _ if kind == LOGGER_RESOURCE and texts.has_loggers:
                problem = self._broker_problem(
                    kind, name, "Unexpected broker id, expected {broker} but received {name}"
                )
                return problem or [
                    ConfigEntry(ConfigKey(logger, "unknown", None, is_read_only=False), level, ())
                    for logger, level in self._levels.items()
                ]
            case _ if kind == METRICS_RESOURCE and texts.client_metrics_described is not None:
                return Refusal(ErrorCode.INVALID_REQUEST, texts.client_metrics_described)
            case _:
                return Refusal(ErrorCode.INVALID_REQUEST, texts.unknown_described.format(name=name))

    def _refusal(self, context: Context, operation: str, kind: int, name: str) -> Refusal | None:
        """Return why the client may not do something with a resource; None if it may."""
        is_topic = kind == TOPIC_RESOURCE
        if self.broker.authorizer.allows(
            operation, AclResource("Topic", name) if is_topic else CLUSTER, context.principal
        ):
            return None
        text = "Topic authorization failed." if is_topic else "Cluster authorization failed."
        code = self.texts.topic_denied if is_topic else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Refusal(code, text if self.texts.explains_denials else None)

    def _broker_problem(self, kind: int, name: str, text: str) -> Refusal | None:
        """Return why a name is not that of this broker; None if it is."""
        number = parse_int(name)
        if number is None:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        if number != self.broker.id:
            resource = self.texts.resource.format(kind=_KINDS[kind], name=name)
            shown = text.format(broker=self.broker.id, name=name, resource=resource)
            return Refusal(ErrorCode.INVALID_REQUEST, shown)
        return None

    def _described(
        self, entry: ConfigEntry, kind: int, version: int, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
        """Return an entry as a struct of the response."""
        key, texts = entry.key, self.texts
        source = LOGGER if kind == LOGGER_RESOURCE else entry.source
        is_own = source == TOPIC if kind == TOPIC_RESOURCE and not texts.has_broker_configs else source != DEFAULT
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
            documentation=self._documentation(kind, key.name, asked=request.include_documentation),
        )

    def _documentation(self, kind: int, name: str, *, asked: bool) -> str | None:
        """Return what a key means, if the client asks; of loggers always an empty text."""
        if kind == LOGGER_RESOURCE:
            return ""
        return (
            documentation("topic" if kind == TOPIC_RESOURCE else "broker", name, self.broker.version.number)
            if asked
            else None
        )

    # -- AlterConfigs

    def serve_alter(self, context: Context, request: AlterConfigsRequest, answer: Answer) -> None:
        """Replace configurations."""
        resources = list(request.resources)
        named = {(one.resource_type, one.resource_name): one for one in resources}
        if any(entry.value is None for one in resources for entry in one.configs) and self.texts.closes_at_null_value:
            answer(None)
        elif len(named) == len(resources) or not self.texts.fails_on_duplicate_resources:
            work = self._alter(context, list(named.values()), answer, validate_only=request.validate_only)
            self.broker.spawn(work, "alter configurations")

    async def _alter(
        self,
        context: Context,
        resources: Sequence[AlterConfigsRequest.AlterConfigsResource],
        answer: Answer,
        *,
        validate_only: bool,
    ) -> None:
        results = []
        for one in resources:
            work = self._replace(
                context, one.resource_type, one.resource_name, one.configs, validate_only=validate_only
            )
            code, text = await _attempted(work)
            results.append(
                AlterConfigsResponse.AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=text,
                    resource_type=self._shown_kind(one.resource_type),
                    resource_name=one.resource_name,
                )
            )
        answer(AlterConfigsResponse(responses=results))

    async def _replace(
        self,
        context: Context,
        kind: int,
        name: str,
        configs: Sequence[AlterConfigsRequest.AlterableConfig],
        *,
        validate_only: bool,
    ) -> Refusal:
        twice = self._duplicate_keys([entry.name for entry in configs])
        if twice is not None and self.texts.replaces_no_duplicate_keys:  # before authorization: ConfigAdminManager
            return twice
        if (refused := self._refusal(context, "AlterConfigs", kind, name)) is not None:
            return Refusal(refused.code, None)
        nulls = ",".join(entry.name for entry in configs if entry.value is None)
        if nulls:
            text = self.texts.null_value
            code = ErrorCode.UNKNOWN_SERVER_ERROR if text is None else ErrorCode.INVALID_REQUEST
            return Refusal(code, text and text.format(key=nulls))
        if kind == LOGGER_RESOURCE and self.texts.logger_in_alter is not None:
            return Refusal(ErrorCode.INVALID_REQUEST, self.texts.logger_in_alter)
        if kind not in (TOPIC_RESOURCE, BROKER_RESOURCE):
            return self._unknown_kind(kind)
        values = {entry.name: entry.value for entry in configs if entry.value is not None}
        return await self._write(kind, name, values, validate_only=validate_only)

    def _unknown_kind(self, kind: int) -> Refusal:
        text = self.texts.client_metrics_altered if kind == METRICS_RESOURCE else None
        return Refusal(ErrorCode.INVALID_REQUEST, text or self.texts.unknown_altered.format(number=kind))

    # -- IncrementalAlterConfigs

    def serve_incremental_alter(
        self, context: Context, request: IncrementalAlterConfigsRequest, answer: Answer
    ) -> None:
        """Change single keys."""
        self.broker.spawn(self._incremental_alter(context, request, answer), "alter configurations")

    async def _incremental_alter(
        self, context: Context, request: IncrementalAlterConfigsRequest, answer: Answer
    ) -> None:
        results = []
        for one in request.resources:
            changes = [Change(entry.name, entry.config_operation, entry.value) for entry in one.configs]
            work = self._change(
                context, one.resource_type, one.resource_name, changes, validate_only=request.validate_only
            )
            code, text = await _attempted(work)
            results.append(
                IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=text,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
            )
        answer(IncrementalAlterConfigsResponse(responses=results))

    async def _change(
        self, context: Context, kind: int, name: str, changes: Sequence[Change], *, validate_only: bool
    ) -> Refusal:
        if (denied := self._refusal(context, "AlterConfigs", kind, name)) is not None:
            return Refusal(denied.code, None)
        if (problem := self._change_problem(changes)) is not None:
            return problem
        match kind:
            case _ if kind == LOGGER_RESOURCE:
                return self._change_levels(name, changes, validate_only=validate_only)
            case _ if kind == TOPIC_RESOURCE:
                keys, entity = topic_config_keys(self.broker.version.number), f"topics/{name}"
                defaults = {entry.key.name: entry.value for entry in self.described.topic_entries({})}
            case _ if kind == BROKER_RESOURCE:
                keys, entity = broker_keys(self.broker.version.number), self._broker_path(name)
                defaults = {entry.key.name: entry.value for entry in self.described.broker_entries()}
                if name and (refused := self._broker_problem(kind, name, self.texts.other_altered)) is not None:
                    return refused
            case _:
                return self._unknown_kind(kind)
        values = dict(await self.broker.client.entity_config(entity))
        for change in changes:
            key = keys.get(change.name)
            if change.operation in (APPEND, SUBTRACT) and (key is None or key.kind != "list"):
                what = "append" if change.operation == APPEND else "subtract"
                text = f"Config value {what} is not allowed for config key: {change.name}"
                return Refusal(self.texts.invalid_value, text)
            if change.operation == DELETE:
                values.pop(change.name, None)
                continue
            assert change.value is not None
            if change.operation == SET:
                values[change.name] = change.value
                continue
            if change.name not in values and not self.texts.appends_to_defaults:
                return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, _NO_DEFAULT)
            values[change.name] = self._combined(change, values.get(change.name, defaults.get(change.name)))
        return await self._write(kind, name, values, validate_only=validate_only)

    def _duplicate_keys(self, names: Sequence[str]) -> Refusal | None:
        """Return the refusal of keys that are named twice; None if there are none."""
        twice = [name for name, times in Counter(names).items() if times > 1]
        text = self.texts.duplicate_keys.format(keys=",".join(twice))
        return Refusal(ErrorCode.INVALID_REQUEST, text) if twice else None

    def _change_problem(self, changes: Sequence[Change]) -> Refusal | None:
        """Return why changes are invalid, whatever they change."""
        twice = self._duplicate_keys([change.name for change in changes])
        if twice is not None:
            return twice
        if any(not SET <= change.operation <= SUBTRACT for change in changes):
            return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, self.texts.unknown_operation)
        nulls = ",".join(change.name for change in changes if change.operation != DELETE and change.value is None)
        if nulls:
            text_of_null = self.texts.null_set
            code = ErrorCode.UNKNOWN_SERVER_ERROR if text_of_null is None else ErrorCode.INVALID_REQUEST
            return Refusal(code, text_of_null and text_of_null.format(key=nulls))
        return None

    def _combined(self, change: Change, present: str | None) -> str:
        """Return a list with a value appended or removed."""
        assert change.value is not None
        old = [item for item in (present or "").split(",") if item]
        items = change.value.split(",")
        if change.operation == SUBTRACT:
            return ",".join(item for item in old if item not in items)
        return ",".join([*old, *(item for item in items if item not in old or not self.texts.appends_once)])

    def _change_levels(self, name: str, changes: Sequence[Change], *, validate_only: bool) -> Refusal:
        """Set and remove levels of loggers (KIP-412)."""
        problem = self._broker_problem(
            LOGGER_RESOURCE, name, "Unexpected broker id, expected {broker} but received {name}"
        )
        if problem is not None:
            return problem
        prefix = self._prefix(LOGGER_RESOURCE, name) if self.texts.prefixes_broker_errors else ""
        for change in changes:
            if change.name == ROOT_LOGGER and change.operation == DELETE:
                text = "Removing the log level of the root logger is not allowed"
                return Refusal(ErrorCode.INVALID_REQUEST, text)
            if change.operation == SET and change.value not in self.texts.levels.split(", "):
                text = (
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                    f"Valid log levels are {self.texts.levels}"
                )
                return Refusal(self.texts.invalid_value, prefix + text)
            if change.name != ROOT_LOGGER and not change.name.startswith(_LOGGERS):
                return Refusal(self.texts.invalid_value, f"{prefix}Logger {change.name} does not exist!")
        if not validate_only:
            for change in changes:
                if change.operation == DELETE:
                    self._levels.pop(change.name, None)
                elif change.operation == SET and change.value is not None:
                    self._levels[change.name] = change.value
        return Refusal(ErrorCode.NONE, None)

    # -- writing

    @staticmethod
    def _broker_path(name: str) -> str:
        return f"brokers/{name or paths.DEFAULT_ENTITY}"

    def _prefix(self, kind: int, name: str) -> str:
        resource = self.texts.resource.format(kind=_KINDS[kind], name=name)
        return f"Invalid config value for resource {resource}: "

    async def _write(self, kind: int, name: str, values: Mapping[str, str], *, validate_only: bool) -> Refusal:
        """Validate the whole configuration of a resource, and write it."""
        is_topic = kind == TOPIC_RESOURCE
        problem = self._topic_problem(name, values) if is_topic else self._value_problem(name, values)
        if problem is not None:
            return problem
        if is_topic and not (validate_only or await self.broker.client.exists(paths.topic(name))):
            code, text = self.texts.missing_topic
            return Refusal(code, text.format(name=name))
        if not validate_only:
            await self.written.replace(f"topics/{name}" if is_topic else self._broker_path(name), values)
        return Refusal(ErrorCode.NONE, None)

    def _topic_problem(self, name: str, values: Mapping[str, str]) -> Refusal | None:
        known = topic_keys(self.broker.version.number)
        if self.texts.appends_to_defaults and name not in self.broker.cache.topics:  # asked first from 2.8 on
            code, text = self.texts.missing_topic
            return Refusal(code, text.format(name=name))
        if (unknown := next((key for key in values if key not in known), None)) is not None:
            return Refusal(ErrorCode.INVALID_CONFIG, self.broker.version.texts.unknown_key.format(key=unknown))
        for key, value in values.items():
            if (reason := value_problem(key, value)) is not None:
                text = self.broker.version.texts.invalid_value.format(value=value, key=key, reason=reason)
                return Refusal(self.texts.invalid_value, self._prefix(TOPIC_RESOURCE, name) + text)
        return None

    def _value_problem(self, name: str, values: Mapping[str, str]) -> Refusal | None:
        """Return why a broker cannot have a dynamic configuration; None if it can."""
        if not self.texts.has_broker_configs:
            text = "AlterConfigs is only supported for topics, but resource type is BROKER"
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        if name and (refused := self._broker_problem(BROKER_RESOURCE, name, self.texts.other_altered)) is not None:
            return refused
        keys = broker_keys(self.broker.version.number)
        prefix = self._prefix(BROKER_RESOURCE, name) if self.texts.prefixes_broker_errors else ""
        fixed = [key for key in values if key in keys and keys[key].is_read_only]
        if fixed:
            text = f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
            return Refusal(ErrorCode.INVALID_REQUEST, prefix + text)
        single = [key for key in values if not name and belongs_to_one_broker(key)]
        if single:
            text = (
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"Set({', '.join(single)})"
            )
            return Refusal(ErrorCode.INVALID_REQUEST, prefix + text)
        for key, value in values.items():
            reason = type_problem(keys[key].kind, value) if key in keys else None
            if reason is not None:
                text = self.broker.version.texts.invalid_value.format(value=value, key=key, reason=reason)
                return Refusal(ErrorCode.INVALID_REQUEST, prefix + text)
        return None


async def _attempted(work: Coroutine[Future[Any], None, Any]) -> Any:
    """Return the result of work in ZooKeeper; an error if it fails or the session expires."""
    try:
        return await work
    except SessionExpiredError:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker's ZooKeeper session has expired")
    except (ZnodeError, ZooKeeperRefused) as problem:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
