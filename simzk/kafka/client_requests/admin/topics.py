"""CreateTopics, DeleteTopics and CreatePartitions, served by the controller's broker.

Rules of this module (KafkaApis, ZkAdminManager, DelayedCreatePartitions, DelayedDeleteTopics; recorded):
  - a broker that is not controller answers NOT_CONTROLLER for each topic;
  - each topic of a request succeeds or fails by itself;
  - what was written is answered when this broker's metadata cache shows it: leaders of all new partitions, or the topic
    gone. After the timeout, or at once with a timeout of 0, the answer is REQUEST_TIMED_OUT, and the work goes on;
  - a request that only validates writes nothing and does not wait;
  - a topic whose deletion the controller knows of gets no partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from simzk.errors import ZnodeError
from simzk.kafka.broker.admin_handlers import BY_DEFAULT, PlannedPartitions, PlannedTopic
from simzk.kafka.client_requests.cache_wait import wait_for_cache
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.metadata.plane import MetadataRefusedError, MetadataUnavailableError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from simzk.kafka.protocol.schema import ZERO_UUID
from simzk.kafka.requests import AddPartitionsRequest, AdminResponse, CreateTopicRequest, DeleteTopicRequest
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from simzk.kafka.broker.admin_handlers import AdminHandlers
    from simzk.kafka.broker.described_configs import ConfigEntry
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.simulation import Future

METADATA_TOPIC = "__cluster_metadata"
"""The topic of KRaft's metadata, which clients must not create."""
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
UNKNOWN_COUNT = -1
PARTITIONS_MAX = 100_000
"""Partitions of a topic that clients may ask for; a real topic's znode exceeds jute.maxbuffer about there."""
TOO_MANY = f"more than {PARTITIONS_MAX} partitions of one topic are not simulated"

T = TypeVar("T")
Topic = CreateTopicsResponse.CreatableTopicResult
Deleted = DeleteTopicsResponse.DeletableTopicResult
Grown = CreatePartitionsResponse.CreatePartitionsTopicResult


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return TopicsApi(
        broker.serving_broker,
        broker.admin,
        broker.described_configs.topic_entries,
        is_queued_for_deletion=lambda topic: topic in broker.controller.context.to_be_deleted,
    ).handlers


@dataclass(eq=False)
class TopicsApi(ClientApi):
    """CreateTopics, DeleteTopics and CreatePartitions of one broker.

    Args:
        admin: plans and writes topics.
        topic_entries: returns the configuration of a topic, from the values of its own.
        is_queued_for_deletion: whether the controller of this broker is to delete a topic.
    """

    admin: AdminHandlers
    topic_entries: Callable[[Mapping[str, str]], Sequence[ConfigEntry]]
    is_queued_for_deletion: Callable[[str], bool]

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            CREATE_TOPICS: self.serve_create_topics,
            DELETE_TOPICS: self.broker.waiting(self._delete_topics, "delete topics"),
            CREATE_PARTITIONS: self.broker.waiting(self._create_partitions, "create partitions"),
        }

    # -- CreateTopics

    def serve_create_topics(self, context: Context, request: CreateTopicsRequest, answer: Answer) -> None:
        """Create topics."""
        has_null = any(entry.value is None for topic in request.topics for entry in topic.configs)
        if has_null and self.broker.version.api.closes_at_null_config:
            answer(None)
            return
        self.broker.spawn(self._create_topics(context, request, answer), "create topics")

    async def _create_topics(self, context: Context, request: CreateTopicsRequest, answer: Answer) -> None:
        names = [topic.name for topic in request.topics]
        api, texts = self.broker.version.api, self.broker.version.texts
        results: list[Topic] = []
        created: dict[str, Sequence[int]] = {}
        for topic in request.topics:
            if not self.broker.is_controller():
                results.append(_failed(topic.name, ErrorCode.NOT_CONTROLLER, texts.not_controller))
            elif topic.name == METADATA_TOPIC and api.rejects_metadata_topic:
                refused = api.rejects_metadata_topic
                results.append(_failed(topic.name, refused, texts.metadata_topic))
                if refused == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    results[-1].topic_config_error_code = refused
            elif names.count(topic.name) == 1:
                results.append(await self._create_topic(topic, created, validate_only=request.validate_only))
            elif api.answers_each_duplicate or all(topic.name != one.name for one in results):
                twice = ", ".join(name for name in dict.fromkeys(names) if names.count(name) > 1)
                text = texts.twice_in_request.format(client=context.client_id, names=twice)
                results.append(_failed(topic.name, ErrorCode.INVALID_REQUEST, text))
        assert {one.name for one in results} == set(names), "each topic has a result"
        waiting = [one for one in results if one.name in created]

        def is_led(one: Topic) -> bool:
            return self._has_leaders(one.name, created[one.name])

        def finish() -> None:
            for one in waiting:
                assert one.error_code == ErrorCode.NONE, f"{one.name} was created"
                if request.timeout_ms <= 0 or not is_led(one):
                    one.error_code = ErrorCode.REQUEST_TIMED_OUT
                    one.num_partitions = one.replication_factor = UNKNOWN_COUNT
                    one.configs = []
            answer(CreateTopicsResponse(topics=results))

        wait_for_cache(self.broker, lambda: all(map(is_led, waiting)), request.timeout_ms, finish)

    async def _create_topic(
        self, topic: CreateTopicsRequest.CreatableTopic, created: dict[str, Sequence[int]], *, validate_only: bool
    ) -> Topic:
        """Create a topic, and note its partitions; or only plan it."""
        version, nulls = self.broker.version, [entry.name for entry in topic.configs if entry.value is None]
        if nulls:
            text, is_bad_request = version.texts.null_value, version.api.rejects_null_as_request
            if text is None:
                return _failed(topic.name, ErrorCode.UNKNOWN_SERVER_ERROR, None)
            code = ErrorCode.INVALID_REQUEST if is_bad_request else ErrorCode.INVALID_CONFIG
            return _failed(topic.name, code, text.format(key=",".join(nulls)))
        counts = topic.num_partitions, topic.replication_factor
        if topic.assignments and counts != (BY_DEFAULT, BY_DEFAULT):
            return _failed(topic.name, ErrorCode.INVALID_REQUEST, version.texts.counts_and_assignment)
        if topic.num_partitions > PARTITIONS_MAX:
            return _failed(topic.name, ErrorCode.UNKNOWN_SERVER_ERROR, TOO_MANY)
        if not version.api.has_default_counts:
            counts = tuple(0 if count == BY_DEFAULT else count for count in counts)  # type: ignore[assignment]
        wanted = CreateTopicRequest(
            topic.name,
            *counts,
            {one.partition_index: tuple(one.broker_ids) for one in topic.assignments} if topic.assignments else None,
            {entry.name: entry.value for entry in topic.configs if entry.value is not None},
            None,
        )
        made = await _attempted(self.admin.plan_topic(wanted))
        if not isinstance(made, PlannedTopic):
            return _failed(topic.name, made.error, made.message)
        written = AdminResponse(ErrorCode.NONE) if validate_only else await _attempted(self.admin.write_topic(made))
        if written.error != ErrorCode.NONE:
            return _failed(topic.name, written.error, written.message)
        if not validate_only:
            created[topic.name] = list(made.assignment)
        return Topic(
            name=topic.name,
            topic_id=written.topic_id or ZERO_UUID,
            error_message=None,
            num_partitions=len(made.assignment),
            replication_factor=len(next(iter(made.assignment.values()))),
            configs=[
                CreateTopicsResponse.CreatableTopicConfigs(
                    name=entry.key.name,
                    value=entry.value,
                    read_only=entry.key.is_read_only,
                    config_source=entry.source,
                    is_sensitive=entry.key.is_sensitive,
                )
                for entry in self.topic_entries(made.config)
            ],
        )

    # -- DeleteTopics

    async def _delete_topics(self, context: Context, request: DeleteTopicsRequest, answer: Answer) -> None:
        asked: list[tuple[str | None, str]] = [(name, ZERO_UUID) for name in request.topic_names]
        asked += [(topic.name, topic.topic_id) for topic in request.topics]
        if not self.broker.version.api.answers_each_duplicate:
            asked = list(dict.fromkeys(asked))
        names = self.broker.cache.topic_names
        name_of = {topic_id: names.get(topic_id) for _, topic_id in asked}  # before any is deleted
        results: list[Deleted] = []
        done: dict[str, ErrorCode] = {}
        for name, topic_id in asked:
            found = name if topic_id == ZERO_UUID else name_of[topic_id]
            if not self.broker.is_controller():
                code = ErrorCode.NOT_CONTROLLER
            elif name is not None and topic_id != ZERO_UUID:
                code = ErrorCode.INVALID_REQUEST
            elif found is None:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if topic_id == ZERO_UUID else ErrorCode.UNKNOWN_TOPIC_ID
            elif found in done:
                code = done[found]
            else:
                code = done[found] = await self._delete_topic(found, context)
            results.append(Deleted(name=name or found, topic_id=topic_id, error_code=code))

        assert len(results) == len(asked), "each topic has a result"

        def is_gone(result: Deleted) -> bool:
            return result.error_code != ErrorCode.NONE or result.name not in self.broker.cache.topics

        def finish() -> None:
            for result in results:
                if result.error_code == ErrorCode.NONE and (request.timeout_ms <= 0 or not is_gone(result)):
                    result.error_code = ErrorCode.REQUEST_TIMED_OUT
            answer(DeleteTopicsResponse(responses=results))

        wait_for_cache(self.broker, lambda: all(map(is_gone, results)), request.timeout_ms, finish)

    async def _delete_topic(self, name: str, context: Context) -> ErrorCode:
        is_enabled = self.broker.config.boolean("delete.topic.enable")
        if self.broker.version.api.rejects_deletion_if_disabled and not is_enabled:
            return ErrorCode.TOPIC_DELETION_DISABLED if context.version >= 3 else ErrorCode.INVALID_REQUEST
        if name not in self.broker.cache.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        made = await _attempted(self.admin.delete_topic(DeleteTopicRequest(name)))
        # A deletion that has begun is no error (KafkaApis): the answer waits for its end.
        return ErrorCode.NONE if made.error == ErrorCode.INVALID_REQUEST else made.error

    # -- CreatePartitions

    async def _create_partitions(self, _context: Context, request: CreatePartitionsRequest, answer: Answer) -> None:
        names = [topic.name for topic in request.topics]
        results: list[Grown] = []
        added: dict[str, Sequence[int]] = {}
        for topic in request.topics:
            name = topic.name
            if not self.broker.is_controller():
                results.append(Grown(name=name, error_code=ErrorCode.NOT_CONTROLLER, error_message=None))
            elif names.count(name) > 1:
                if all(name != one.name for one in results):
                    text = "Duplicate topic in request."
                    results.append(Grown(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message=text))
            elif self.is_queued_for_deletion(name):
                text = self.broker.version.texts.queued_for_deletion
                results.append(Grown(name=name, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=text))
            else:
                made = await self._add_partitions(topic, validate_only=request.validate_only)
                if isinstance(made, AdminResponse):
                    code, told = made.error, made.message or None
                    results.append(Grown(name=name, error_code=code, error_message=told))
                else:
                    results.append(Grown(name=name, error_message=None))
                    added[name] = list(made.added)
        assert {one.name for one in results} == set(names), "each topic has a result"
        if request.validate_only:
            added.clear()

        def finish() -> None:
            for result in results:
                if result.name in added and not self._has_leaders(result.name, added[result.name]):
                    result.error_code = ErrorCode.REQUEST_TIMED_OUT
            answer(CreatePartitionsResponse(results=results))

        def is_led() -> bool:
            return all(self._has_leaders(name, partitions) for name, partitions in added.items())

        wait_for_cache(self.broker, is_led, request.timeout_ms, finish)

    async def _add_partitions(
        self, topic: CreatePartitionsRequest.CreatePartitionsTopic, *, validate_only: bool
    ) -> PlannedPartitions | AdminResponse:
        if topic.count > PARTITIONS_MAX:
            return AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, TOO_MANY)
        assignment: Mapping[int, tuple[int, ...]] | None = None
        if topic.assignments is not None:
            first = len(self.broker.cache.topics.get(topic.name, ()))
            assignment = {first + place: tuple(one.broker_ids) for place, one in enumerate(topic.assignments)}
        made = await _attempted(self.admin.plan_partitions(AddPartitionsRequest(topic.name, topic.count, assignment)))
        if isinstance(made, AdminResponse) or validate_only:
            return made
        written = await _attempted(self.admin.write_partitions(made))
        return made if written.error == ErrorCode.NONE else written

    def _has_leaders(self, topic: str, partitions: Sequence[int]) -> bool:
        """Return whether the cache has live leaders of some partitions."""
        states = (self.broker.cache.partitions.get(TopicPartition(topic, number)) for number in partitions)
        return all(state is not None and state.leader in self.broker.cache.live_brokers for state in states)


def _failed(name: str, code: ErrorCode, text: str | None) -> Topic:
    """Return the result of a topic that was not created."""
    return Topic(
        name=name,
        error_code=code,
        error_message=text,
        num_partitions=UNKNOWN_COUNT,
        replication_factor=UNKNOWN_COUNT,
        configs=[],
    )


async def _attempted(work: Coroutine[Future[Any], None, T]) -> T | AdminResponse:
    """Return the result of work in ZooKeeper; an error if it fails or the session expires."""
    try:
        return await work
    except MetadataUnavailableError:
        return AdminResponse(ErrorCode.NOT_CONTROLLER)
    except (ZnodeError, MetadataRefusedError) as problem:
        return AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
