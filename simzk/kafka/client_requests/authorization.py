"""Check what clients may do with topics, records, groups and transactions, before the handlers of one broker.

Rules of this module (KafkaApis, AuthHelper; recorded 0.11 to 3.9 with an authorizer):
  - `WHOLE` names what a request needs as a whole, and `PARTS` what each topic, group or transaction in it needs. A
    request that is refused as a whole is answered with the error; of one that is refused in parts, the handler gets the
    rest, and the answer has both;
  - up to 0.11 a topic that a client may not describe is unknown to it;
  - who asks for all topics, groups or offsets gets those that it may describe;
  - authorized operations, if asked for, are those of the client;
  - without an authorizer nothing is checked. Configurations, quotas, users, tokens, log directories, features, ACLs,
    elections, reassignments, markers of transactions, requests of brokers and partitions of fetches, which a session
    remembers, are checked by their handlers.
"""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simzk.kafka.broker.authorizer import CLUSTER
from simzk.kafka.client_requests.admin.acls import OPERATIONS
from simzk.kafka.client_requests.coordinators.groups import GROUP_OPERATIONS
from simzk.kafka.client_requests.coordinators.transactions import is_addable
from simzk.kafka.client_requests.error_responses import error_response
from simzk.kafka.client_requests.metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from simzk.kafka.client_requests.records.produce import whole_entries
from simzk.kafka.log.record_batches import RecordDataError, entry_header
from simzk.kafka.metadata.entities import AclResource
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import MetadataResponse, OffsetDeleteResponse
from simzk.kafka.protocol.schema import ZERO_UUID
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.client_requests.handlers import Answer, Context, Handler, ServingBroker
    from simzk.kafka.protocol.structs import Message

PRODUCE, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS = 11, 12, 13, 14, 15, 16
CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 19, 20, 21, 22, 23
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
CREATE_PARTITIONS, DELETE_GROUPS, OFFSET_DELETE, DESCRIBE_CLUSTER, DESCRIBE_PRODUCERS = 37, 42, 47, 60, 61
DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 65, 66
TOPIC, GROUP, TRANSACTION = "Topic", "Group", "TransactionalId"
ERRORS: Final[Mapping[str, ErrorCode]] = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    CLUSTER.kind: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""Error of a resource of each kind that a client may not use."""


class Whole(NamedTuple):
    """Permission for a whole request: an operation on the resource that one of its fields names, if it does."""

    operation: str
    kind: str
    field: str = ""


class Parts(NamedTuple):
    """Permission for each item in a list of a request.

    Attributes:
        operation: the operation.
        kind: kind of the resource.
        items: field of the list in the request; its items are names, or have a field `name`.
        name: field with the name of the resource.
        answers: field of the list in the response.
        controller: whether a broker that is not controller refuses the request first.
    """

    operation: str
    kind: str
    items: str
    name: str
    answers: str
    controller: bool = False


WHOLE: Final[Mapping[int, tuple[Whole, ...]]] = {
    PRODUCE: (Whole("Write", TRANSACTION, "transactional_id"),),
    OFFSET_COMMIT: (Whole("Read", GROUP, "group_id"),),
    JOIN_GROUP: (Whole("Read", GROUP, "group_id"),),
    HEARTBEAT: (Whole("Read", GROUP, "group_id"),),
    LEAVE_GROUP: (Whole("Read", GROUP, "group_id"),),
    SYNC_GROUP: (Whole("Read", GROUP, "group_id"),),
    OFFSET_DELETE: (Whole("Delete", GROUP, "group_id"),),
    ADD_PARTITIONS_TO_TXN: (Whole("Write", TRANSACTION, "v3_and_below_transactional_id"),),
    ADD_OFFSETS_TO_TXN: (Whole("Write", TRANSACTION, "transactional_id"), Whole("Read", GROUP, "group_id")),
    END_TXN: (Whole("Write", TRANSACTION, "transactional_id"),),
    TXN_OFFSET_COMMIT: (Whole("Write", TRANSACTION, "transactional_id"), Whole("Read", GROUP, "group_id")),
}
"""What requests need as a whole, by API key; each need has to be met."""

PARTS: Final[Mapping[int, Parts]] = {
    PRODUCE: Parts("Write", TOPIC, "topic_data", "name", "responses"),
    LIST_OFFSETS: Parts("Describe", TOPIC, "topics", "name", "topics"),
    OFFSET_COMMIT: Parts("Read", TOPIC, "topics", "name", "topics"),
    DESCRIBE_GROUPS: Parts("Describe", GROUP, "groups", "", "groups"),
    DELETE_RECORDS: Parts("Delete", TOPIC, "topics", "name", "topics"),
    OFFSET_FOR_LEADER_EPOCH: Parts("Describe", TOPIC, "topics", "topic", "topics"),
    TXN_OFFSET_COMMIT: Parts("Read", TOPIC, "topics", "name", "topics"),
    CREATE_PARTITIONS: Parts("Alter", TOPIC, "topics", "name", "results", controller=True),
    DELETE_GROUPS: Parts("Delete", GROUP, "groups_names", "", "results"),
    DESCRIBE_PRODUCERS: Parts("Read", TOPIC, "topics", "name", "topics"),
    DESCRIBE_TRANSACTIONS: Parts("Describe", TRANSACTION, "transactional_ids", "", "transaction_states"),
}
"""What the parts of requests need, by API key."""

_CREATE: Final = Parts("Create", TOPIC, "topics", "name", "topics", controller=True)
_DELETE_NAMES: Final = Parts("Delete", TOPIC, "topic_names", "", "responses", controller=True)
_DELETE: Final = Parts("Delete", TOPIC, "topics", "name", "responses", controller=True)
_DELETE_BY_ID: Final = 6
_COORDINATORS: Final = {
    0: Parts("Describe", GROUP, "coordinator_keys", "", "coordinators"),
    1: Parts("Describe", TRANSACTION, "coordinator_keys", "", "coordinators"),
}
_MANY_KEYS: Final = 4
_MANY_GROUPS: Final = 8
_WITH_CONFIGS: Final = 5
_IDS: Final = 12
_WITH_OPERATIONS: Final = 8
_GROUPS_WITH_OPERATIONS: Final = 3
"""First versions of FindCoordinator, OffsetFetch, CreateTopics, Metadata and DescribeGroups with these."""
_NAMES_REFUSED: Final = (1, 0)
_CREATES_BY_TOPIC: Final = (2, 0)  # KIP-277
_LISTS_DESCRIBED: Final = (2, 1)  # KIP-231
_LEADER_EPOCHS_BY_TOPIC: Final = (2, 1)  # KIP-320
_WRITES_IDEMPOTENTLY: Final = (2, 8)  # KIP-679
_NO_EPOCH: Final = (2, 4)
"""First release that answers a refused producer with epoch -1."""
_FILLED: Final = (3, 0)
"""First release that answers refused parts with an empty list of these, and with a text about producers."""
_TEXTS: Final[Mapping[int, str]] = {
    CREATE_TOPICS: "Authorization failed.",
    CREATE_PARTITIONS: "The topic authorization is failed.",
    DESCRIBE_PRODUCERS: "Topic authorization failed.",
    FIND_COORDINATOR: "",
}
"""Messages of refused parts, where the response has a field for them."""


def guarded(broker: ServingBroker, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """Return handlers, by API key, that check each request first; the broker has an authorizer."""
    assert broker.authorizer.is_enabled, f"broker {broker.id} has no authorizer"
    checked = {*WHOLE, *PARTS, *_SPECIAL}
    return {**handlers, **{key: partial(_check, broker, handlers[key]) for key in checked}}


def _check(broker: ServingBroker, handler: Handler, context: Context, request: Message, answer: Answer) -> None:
    """Check a request, and let the handler serve it."""
    checked, key = _Guarded(broker, handler, context, request, answer), request.MESSAGE.api_key
    assert key in WHOLE or key in PARTS or key in _SPECIAL, f"nothing is checked of {request.MESSAGE.name}"
    if (refused := checked.lacks(*WHOLE.get(key, ()))) is not None:
        checked.refuse(refused)
    elif key in _SPECIAL:
        _SPECIAL[key](checked)
    elif key in PARTS:
        checked.serve_parts(PARTS[key])
    else:
        checked.serve()


class _Guarded(NamedTuple):
    """A request that is checked, its handler, and the way to the client."""

    broker: ServingBroker
    handler: Handler
    context: Context
    request: Any
    reply: Answer

    def _allows(self, operation: str, kind: str, name: str) -> bool:
        return self.broker.authorizer.allows(operation, AclResource(kind, name), self.context.principal)

    def _allows_cluster(self, operation: str) -> bool:
        return self.broker.allows_on_cluster(operation, self.context.principal)

    # -- requests as a whole, and in parts

    def serve(self, reply: Answer | None = None) -> None:
        """Let the handler serve the request."""
        self.handler(self.context, self.request, reply or self.reply)

    def _error(self, code: ErrorCode) -> Any:
        return error_response(self.request, self.context.version, code)

    def refuse(self, code: ErrorCode) -> None:
        """Answer the request with an error."""
        assert code != ErrorCode.NONE, "success is no refusal"
        self.reply(self._error(code))

    def lacks(self, *needs: Whole) -> ErrorCode | None:
        """Return the error of the first need of the request that is not met; None if all are."""
        for operation, kind, field in needs:
            name = getattr(self.request, field)
            if name and not self._allows(operation, kind, name):
                return ERRORS[kind]
        return None

    def serve_parts(self, need: Parts, reply: Answer | None = None) -> None:
        """Serve the parts of a request that the client may use, and refuse the others."""
        if need.controller and not self.broker.is_controller():
            self.serve(reply)
            return

        def may_use(item: Any) -> bool:
            return self._allows(need.operation, need.kind, getattr(item, need.name) if need.name else item)

        self._serve_some(need, may_use, reply or self.reply)

    def _serve_some(self, need: Parts, may_use: Callable[[Any], bool], reply: Answer) -> None:
        """Serve the items of a request for which a function returns true, and refuse the others."""
        kept: list[Any] = []
        refused: dict[ErrorCode, list[Any]] = {}
        for item in getattr(self.request, need.items) or ():
            if may_use(item):
                kept.append(item)
            else:
                name = getattr(item, need.name) if need.name else item
                refused.setdefault(self._code(need.kind, name), []).append(item)
        if not refused:
            self.serve(reply)
            return
        responses = [self._refusal(need, items, code) for code, items in refused.items()]
        parts = [part for response in responses for part in getattr(response, need.answers)]
        if not kept:
            setattr(responses[0], need.answers, parts)
            reply(responses[0])
            return

        def finish(response: Any) -> None:
            if hasattr(response, need.answers):  # else it closes the connection, or says nothing
                setattr(response, need.answers, parts + getattr(response, need.answers))
            reply(response)

        self.handler(self.context, _with(self.request, need.items, kept), finish)

    def _refusal(self, need: Parts, items: Sequence[Any], code: ErrorCode) -> Any:
        """Return the response to some items of a request, all of them refused."""
        key = self.request.MESSAGE.api_key
        text = None if key == DESCRIBE_PRODUCERS and self.broker.version.number < _FILLED else _TEXTS.get(key)
        response: Any = error_response(_with(self.request, need.items, items), self.context.version, code, text)
        assert len(getattr(response, need.answers)) == len(items), f"each item has a part in {need.answers}"
        if hasattr(response, "error_code"):
            response.error_code = ErrorCode.NONE
        return response

    def _code(self, kind: str, name: str) -> ErrorCode:
        """Return the error of a resource that the client may not use."""
        hides_names = kind == TOPIC and self.broker.version.number < _NAMES_REFUSED
        if hides_names and not self._allows("Describe", kind, name):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ERRORS[kind]

    def _operations(self, kind: str, name: str, possible: int) -> int:
        """Return which of some operations the client may do, as bits of AclOperation."""
        allowed = (
            number
            for number, operation in OPERATIONS.items()
            if possible >> number & 1 and self._allows(operation, kind, name)
        )
        return sum(1 << number for number in allowed)

    def _cluster_operations(self) -> int:
        if not self._allows_cluster("Describe"):
            return 0
        return self._operations(CLUSTER.kind, CLUSTER.name, CLUSTER_OPERATIONS)

    # -- records

    def produce(self) -> None:
        """Refuse topics that the client may not write; up to 2.7 all, if it may not write idempotently and does so.

        Without acknowledgements this closes the connection.
        """
        acks, topics = self.request.acks, self.request.topic_data
        if (
            self.broker.version.number < _WRITES_IDEMPOTENTLY
            and _is_idempotent(self.request)
            and not self._allows_cluster("IdempotentWrite")
        ):
            self.reply(self._error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED) if acks else None)
        elif acks == 0 and not all(self._allows("Write", TOPIC, topic.name) for topic in topics):
            self.reply(None)
        else:
            self.serve_parts(PARTS[PRODUCE])

    def leader_epochs(self) -> None:
        if self._allows_cluster("ClusterAction"):
            self.serve()
        elif self.broker.version.number >= _LEADER_EPOCHS_BY_TOPIC:
            self.serve_parts(PARTS[OFFSET_FOR_LEADER_EPOCH])
        else:
            self.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def init_producer_id(self) -> None:
        """Refuse transactions of a client that may not write them, and idempotence of one that may not write."""
        code = ErrorCode.NONE
        if self.request.transactional_id is not None:
            if not self._allows("Write", TRANSACTION, self.request.transactional_id):
                code = ERRORS[TRANSACTION]
        elif not self._may_write_idempotently():
            code = ERRORS[CLUSTER.kind]
        if code == ErrorCode.NONE:
            self.serve()
            return
        refused = self._error(code)
        if self.broker.version.number < _NO_EPOCH:
            refused.producer_epoch = 0
        self.reply(refused)

    def _may_write_idempotently(self) -> bool:
        later, allows_any = self.broker.version.number >= _WRITES_IDEMPOTENTLY, self.broker.authorizer.allows_any
        return self._allows_cluster("IdempotentWrite") or (later and allows_any("Write", TOPIC, self.context.principal))

    # -- topics

    def metadata(self) -> None:
        """Leave out topics that the client may not describe; refuse those that it names, or may not create."""
        topics = self.request.topics
        if topics is None or (self.context.version == 0 and not topics):
            self.serve(lambda found: self.reply(self._visible(found)))
            return
        if self.context.version < _IDS and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in topics):
            self.serve()
            return
        kept: list[Any] = []
        refused: list[Any] = []
        for topic in topics:
            (kept if self._may_see(topic) else refused).append(topic)

        def finish(found: Any) -> None:
            if isinstance(found, MetadataResponse):
                kind = MetadataResponse.MetadataResponseTopic
                parts = [
                    kind(error_code=self._code(TOPIC, one.name or ""), name=one.name, topic_id=one.topic_id)
                    for one in refused
                ]
                for part in parts if self.context.version >= _WITH_OPERATIONS else ():
                    part.topic_authorized_operations = self.broker.version.api.unasked_operations
                found.topics = [*found.topics, *parts]
                self._show_operations(found)
            self.reply(found)

        if kept or not refused:
            self.handler(self.context, _with(self.request, "topics", kept), finish)
        else:  # in version 0 an empty list stands for all topics
            context = self.context._replace(version=max(1, self.context.version))
            self.handler(context, _with(self.request, "topics", []), finish)

    def _may_see(self, topic: Any) -> bool:
        """Return whether a client may describe a topic that it names, and create it if there is none."""
        name = topic.name or self.broker.cache.topic_names.get(topic.topic_id, "")
        if name and not self._allows("Describe", TOPIC, name):
            return False
        is_created = self.broker.config.boolean("auto.create.topics.enable") and self.request.allow_auto_topic_creation
        return name in self.broker.cache.topics or not name or not is_created or self._may_create(name)

    def _may_create(self, name: str) -> bool:
        by_topic = self.broker.version.number >= _CREATES_BY_TOPIC
        return self._allows_cluster("Create") or (by_topic and self._allows("Create", TOPIC, name))

    def _visible(self, found: Any) -> Any:
        """Return an answer about all topics without those that the client may not describe."""
        if isinstance(found, MetadataResponse):
            found.topics = [one for one in found.topics if self._allows("Describe", TOPIC, one.name or "")]
            self._show_operations(found)
        return found

    def _show_operations(self, found: MetadataResponse) -> None:
        if self.request.include_topic_authorized_operations:
            for topic in found.topics:
                if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    topic.topic_authorized_operations = self._operations(TOPIC, topic.name or "", TOPIC_OPERATIONS)
        if self.request.include_cluster_authorized_operations:
            found.cluster_authorized_operations = self._cluster_operations()

    def describe_cluster(self) -> None:
        def finish(found: Any) -> None:
            if self.request.include_cluster_authorized_operations and found.error_code == ErrorCode.NONE:
                found.cluster_authorized_operations = self._cluster_operations()
            self.reply(found)

        self.serve(finish)

    def create_topics(self) -> None:
        """Refuse topics that the client may not create, and the configuration of those that it may not describe."""
        by_cluster = self.broker.version.number < _CREATES_BY_TOPIC
        if not self.broker.is_controller() or (by_cluster and self._allows_cluster("Create")):
            self.serve()
            return
        if by_cluster:
            self.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return

        def finish(found: Any) -> None:
            for topic in found.topics if self.context.version >= _WITH_CONFIGS else ():
                hides = not self._allows("DescribeConfigs", TOPIC, topic.name)
                if topic.error_code == ErrorCode.NONE and hides:
                    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, []
            self.reply(found)

        self._serve_some(_CREATE, lambda topic: self._may_create(topic.name), finish)

    def delete_topics(self) -> None:
        """Refuse topics that the client may not delete; a topic named by an id that it may not describe is unknown."""
        if self.context.version < _DELETE_BY_ID:
            self.serve_parts(_DELETE_NAMES)
            return

        def may_delete(topic: Any) -> bool:
            name = topic.name or self.broker.cache.topic_names.get(topic.topic_id, "")
            return not name or self._allows("Delete", TOPIC, name)

        def finish(found: Any) -> None:
            for topic in getattr(found, "responses", ()):
                if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.topic_id != ZERO_UUID:
                    name = self.broker.cache.topic_names.get(topic.topic_id, "")
                    if self._allows("Describe", TOPIC, name):
                        topic.name = name
                    else:
                        topic.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            self.reply(found)

        if self.broker.is_controller():
            self._serve_some(_DELETE, may_delete, finish)
        else:
            self.serve()

    # -- groups

    def find_coordinator(self) -> None:
        need = _COORDINATORS.get(self.request.key_type)
        if need is None:
            self.serve()
        elif self.context.version >= _MANY_KEYS:
            self.serve_parts(need)
        elif self._allows(need.operation, need.kind, self.request.key):
            self.serve()
        else:
            refused = self._error(ERRORS[need.kind])
            if not self.broker.version.groups.has_coordinator_texts:
                refused.error_message = None
            self.reply(refused)

    def describe_groups(self) -> None:
        def finish(found: Any) -> None:
            for group in getattr(found, "groups", ()) if self.context.version >= _GROUPS_WITH_OPERATIONS else ():
                if group.error_code != ErrorCode.NONE:
                    group.authorized_operations = self.broker.version.api.unasked_operations
                elif self.request.include_authorized_operations:
                    group.authorized_operations = self._operations(GROUP, group.group_id, GROUP_OPERATIONS)
            self.reply(found)

        self.serve_parts(PARTS[DESCRIBE_GROUPS], finish)

    def list_groups(self) -> None:
        def finish(found: Any) -> None:
            found.groups = [one for one in found.groups if self._allows("Describe", GROUP, one.group_id)]
            self.reply(found)

        if self._allows_cluster("Describe"):
            self.serve()
        elif self.broker.version.number >= _LISTS_DESCRIBED:
            self.serve(finish)
        else:
            self.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def fetch_offsets(self) -> None:
        """Refuse groups that the client may not describe, and leave out or refuse topics that it may not describe."""

        def finish(found: Any) -> None:
            if self.context.version < _MANY_GROUPS:
                self._hide_topics(found, all_topics=self.request.topics is None)
            else:
                asked = {group.group_id: group for group in self.request.groups}
                for group in getattr(found, "groups", ()):
                    self._hide_topics(group, all_topics=asked[group.group_id].topics is None)
            self.reply(found)

        if self.context.version >= _MANY_GROUPS:
            self.serve_parts(Parts("Describe", GROUP, "groups", "group_id", "groups"), finish)
        elif (refused := self.lacks(Whole("Describe", GROUP, "group_id"))) is not None:
            self.refuse(refused)
        else:
            self.serve(finish)

    def _hide_topics(self, found: Any, *, all_topics: bool) -> None:
        hidden = [one for one in getattr(found, "topics", ()) if not self._allows("Describe", TOPIC, one.name)]
        if all_topics and hidden:
            found.topics = [one for one in found.topics if one not in hidden]
        for topic in () if all_topics else hidden:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    partition.error_code = self._code(TOPIC, topic.name)
                    partition.committed_offset, partition.metadata = -1, ""
                    partition.committed_leader_epoch = -1

    def delete_offsets(self) -> None:
        """Refuse topics that the client may not read."""
        refused = [one.name for one in self.request.topics if not self._allows("Read", TOPIC, one.name)]
        if not refused:
            self.serve()
            return
        kind, part = OffsetDeleteResponse.OffsetDeleteResponseTopic, OffsetDeleteResponse.OffsetDeleteResponsePartition
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        parts = [
            kind(
                name=topic.name,
                partitions=[part(partition_index=one.partition_index, error_code=code) for one in topic.partitions],
            )
            for topic in self.request.topics
            if topic.name in refused
        ]

        def extend(found: Any) -> None:
            found.topics.extend(parts)
            self.reply(found)

        kept = [one for one in self.request.topics if one.name not in refused]
        self.handler(self.context, _with(self.request, "topics", kept), extend)

    # -- transactions

    def add_partitions(self) -> None:
        """Refuse all partitions if the client may not write to the topic of one: none of the others is attempted."""
        topics = self.request.v3_and_below_topics
        refused = {one.name for one in topics if not self._allows("Write", TOPIC, one.name)}
        if self.request.transactions and not self._allows_cluster("ClusterAction"):
            self.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            return
        if not refused:
            self.serve()
            return
        response = self._error(ErrorCode.OPERATION_NOT_ATTEMPTED)
        for topic in response.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                if topic.name in refused:
                    partition.partition_error_code = self._code(TOPIC, topic.name)
                    continue
                named = TopicPartition(topic.name, partition.partition_index)
                if not is_addable(named, self.broker.cache, self.broker.version.number):
                    partition.partition_error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.reply(response)

    def describe_transactions(self) -> None:
        """Leave out topics that the client may not describe."""

        def finish(found: Any) -> None:
            for state in getattr(found, "transaction_states", ()):
                state.topics = [one for one in state.topics if self._allows("Describe", TOPIC, one.topic)]
            self.reply(found)

        self.serve_parts(PARTS[DESCRIBE_TRANSACTIONS], finish)

    def list_transactions(self) -> None:
        def finish(found: Any) -> None:
            shown = found.transaction_states
            found.transaction_states = [
                one for one in shown if self._allows("Describe", TRANSACTION, one.transactional_id)
            ]
            self.reply(found)

        self.serve(finish)


_SPECIAL: Final[Mapping[int, Callable[[_Guarded], None]]] = {
    PRODUCE: _Guarded.produce,
    METADATA: _Guarded.metadata,
    OFFSET_FETCH: _Guarded.fetch_offsets,
    FIND_COORDINATOR: _Guarded.find_coordinator,
    DESCRIBE_GROUPS: _Guarded.describe_groups,
    LIST_GROUPS: _Guarded.list_groups,
    CREATE_TOPICS: _Guarded.create_topics,
    DELETE_TOPICS: _Guarded.delete_topics,
    INIT_PRODUCER_ID: _Guarded.init_producer_id,
    OFFSET_FOR_LEADER_EPOCH: _Guarded.leader_epochs,
    ADD_PARTITIONS_TO_TXN: _Guarded.add_partitions,
    OFFSET_DELETE: _Guarded.delete_offsets,
    DESCRIBE_CLUSTER: _Guarded.describe_cluster,
    DESCRIBE_TRANSACTIONS: _Guarded.describe_transactions,
    LIST_TRANSACTIONS: _Guarded.list_transactions,
}
"""Checks of requests that neither table describes, by API key."""


def _is_idempotent(request: Any) -> bool:
    """Return whether a request has records of an idempotent producer, and none of a transaction."""
    with suppress(RecordDataError):
        headers = [
            entry_header(entry)
            for topic in request.topic_data
            for part in topic.partition_data
            for entry in whole_entries(part.records or b"")
        ]
        return any(one.producer_id >= 0 for one in headers) and not any(one.is_transactional for one in headers)
    return False


def _with(request: Message, field: str, value: Any) -> Any:
    """Return a copy of a request with another value of a field."""
    changed = copy(request)
    setattr(changed, field, value)
    return changed
