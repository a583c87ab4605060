"""Check what clients may do with topics, records, groups and transactions, before the handlers of one broker.

Rules of this module (KafkaApis, AuthHelper; recorded 0.11 to 3.9 with an authorizer):
  - `WHOLE` names what a request needs as a whole, and `PARTS` what each topic, group or transaction in it needs. A
    request that is refused as a whole is answered with the error; of one that is refused in parts, the handler gets the
    rest, and the answer has both;
  - up to 0.11 a topic that a client may not describe is unknown to it;
  - who asks for all topics, groups or offsets gets those that it may describe;
  - authorized operations, if asked for, are those of the client;
  - without an authorizer nothing is checked. Configurations, quotas, users, tokens, log directories, features, ACLs,
    elections, reassignments and markers of transactions are checked by their handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simzk.kafka.broker.authorizer import CLUSTER
from simzk.kafka.client_requests.acls import OPERATIONS
from simzk.kafka.client_requests.error_responses import error_response
from simzk.kafka.client_requests.groups import GROUP_OPERATIONS
from simzk.kafka.client_requests.metadata import CLUSTER_OPERATIONS, NO_ID, TOPIC_OPERATIONS
from simzk.kafka.client_requests.produce import whole_entries
from simzk.kafka.client_requests.transactions import is_addable
from simzk.kafka.log.record_batches import RecordDataError, entry_header
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import FetchResponse, MetadataResponse
from simzk.kafka.schemas.acl import AclResource
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.client_requests.broker_api import Answer, Context, Handler
    from simzk.kafka.client_requests.serving_broker import ServingBroker
    from simzk.kafka.protocol.structs import Message

Check = Callable[["Handler", "Context", Any, "Answer"], None]
"""Check a request, and let the handler serve it."""
PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
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
_NULL_ABORTED, _REPLICA_STATES = 4, 15
"""First versions of Fetch with aborted transactions, and with the replica in a struct."""
_FILLED: Final = (3, 0)
"""First release that answers refused parts with an empty list of these, and with a text about producers."""
_TEXTS: Final[Mapping[int, str]] = {
    CREATE_TOPICS: "Authorization failed.",
    CREATE_PARTITIONS: "The topic authorization is failed.",
    DESCRIBE_PRODUCERS: "Topic authorization failed.",
    FIND_COORDINATOR: "",
}
"""Messages of refused parts, where the response has a field for them."""


@dataclass(eq=False)
class Authorization:
    """Checks of the requests to one broker."""

    broker: ServingBroker

    def guard(self, handlers: Mapping[int, Handler], unknown: Handler) -> dict[int, Handler]:
        """Return handlers that check each request first; the same handlers without an authorizer.

        Args:
            handlers: by API key.
            unknown: serves requests of all other APIs.
        """
        if not self.broker.authorizer.is_enabled:
            return dict(handlers)
        special = self._special()
        keys = dict.fromkeys((*handlers, *WHOLE, *PARTS, *special))
        return {key: self._guarded(key, special, handlers.get(key, unknown)) for key in keys}

    def _guarded(self, key: int, special: Mapping[int, Check], handler: Handler) -> Handler:
        checked = handler
        if key in special:
            checked = partial(special[key], checked)
        elif key in PARTS:
            checked = partial(self._serve_parts, PARTS[key], checked)
        return partial(self._serve_whole, WHOLE[key], checked) if key in WHOLE else checked

    def _special(self) -> dict[int, Check]:
        """Return the checks of requests that neither table describes, by API key."""
        return {
            PRODUCE: self._produce,
            FETCH: self._fetch,
            METADATA: self._metadata,
            OFFSET_FETCH: self._fetch_offsets,
            FIND_COORDINATOR: self._find_coordinator,
            DESCRIBE_GROUPS: self._describe_groups,
            LIST_GROUPS: self._list_groups,
            CREATE_TOPICS: self._create_topics,
            DELETE_TOPICS: self._delete_topics,
            INIT_PRODUCER_ID: self._init_producer_id,
            OFFSET_FOR_LEADER_EPOCH: self._leader_epochs,
            ADD_PARTITIONS_TO_TXN: self._add_partitions,
            OFFSET_DELETE: self._delete_offsets,
            DESCRIBE_CLUSTER: self._describe_cluster,
            DESCRIBE_TRANSACTIONS: self._describe_transactions,
            LIST_TRANSACTIONS: self._list_transactions,
        }

    def _allows(self, context: Context, operation: str, kind: str, name: str) -> bool:
        return self.broker.authorizer.allows(operation, AclResource(kind, name), context.principal)

    def _allows_cluster(self, context: Context, operation: str) -> bool:
        return self.broker.allows_on_cluster(operation, context.principal)

    # -- requests as a whole, and in parts

    def _serve_whole(
        self, needs: tuple[Whole, ...], handler: Handler, context: Context, request: Any, answer: Answer
    ) -> None:
        """Refuse a request that needs what the client may not do."""
        for operation, kind, field in needs:
            name = getattr(request, field)
            if name and not self._allows(context, operation, kind, name):
                answer(error_response(request, context.version, ERRORS[kind]))
                return
        handler(context, request, answer)

    def _serve_parts(self, need: Parts, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Serve the parts of a request that the client may use, and refuse the others."""
        if need.controller and not self.broker.is_controller():
            handler(context, request, answer)
            return

        def may_use(item: Any) -> bool:
            return self._allows(context, need.operation, need.kind, getattr(item, need.name) if need.name else item)

        self._serve_some(need, may_use, handler, context, request, answer)

    def _serve_some(
        self,
        need: Parts,
        may_use: Callable[[Any], bool],
        handler: Handler,
        context: Context,
        request: Any,
        answer: Answer,
    ) -> None:
        """Serve the items of a request for which a function returns true, and refuse the others."""
        items = getattr(request, need.items) or ()
        kept: list[Any] = []
        refused: dict[ErrorCode, list[Any]] = {}
        for item in items:
            if may_use(item):
                kept.append(item)
            else:
                name = getattr(item, need.name) if need.name else item
                refused.setdefault(self._code(context, need.kind, name), []).append(item)
        if not refused:
            handler(context, request, answer)
            return
        parts = [
            part
            for code, of_code in refused.items()
            for part in getattr(self._refusal(request, need, of_code, context.version, code), need.answers)
        ]
        if not kept:
            code, of_code = next(iter(refused.items()))
            response = self._refusal(request, need, of_code, context.version, code)
            setattr(response, need.answers, parts)
            answer(response)
            return

        def finish(response: Any) -> None:
            if hasattr(response, need.answers):  # else it closes the connection, or says nothing
                setattr(response, need.answers, parts + getattr(response, need.answers))
            answer(response)

        handler(context, _with(request, need.items, kept), finish)

    def _refusal(self, request: Any, need: Parts, items: Sequence[Any], version: int, code: ErrorCode) -> Any:
        """Return the response to some items of a request, all of them refused."""
        key = request.MESSAGE.api_key
        text = None if key == DESCRIBE_PRODUCERS and self.broker.version.number < _FILLED else _TEXTS.get(key)
        response: Any = error_response(_with(request, need.items, items), version, code, text)
        if hasattr(response, "error_code"):
            response.error_code = ErrorCode.NONE
        return response

    def _code(self, context: Context, kind: str, name: str) -> ErrorCode:
        """Return the error of a resource that the client may not use."""
        if (
            kind == TOPIC
            and self.broker.version.number < _NAMES_REFUSED
            and not self._allows(context, "Describe", kind, name)
        ):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ERRORS[kind]

    def _operations(self, context: Context, kind: str, name: str, possible: int) -> int:
        """Return which of some operations the client may do, as bits of AclOperation."""
        resource = AclResource(kind, name)
        allowed = (
            number
            for number, operation in OPERATIONS.items()
            if possible >> number & 1 and self.broker.authorizer.allows(operation, resource, context.principal)
        )
        return sum(1 << number for number in allowed)

    def _cluster_operations(self, context: Context) -> int:
        if not self._allows_cluster(context, "Describe"):
            return 0
        return self._operations(context, CLUSTER.kind, CLUSTER.name, CLUSTER_OPERATIONS)

    # -- records

    def _produce(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse topics that the client may not write; up to 2.7 all, if it may not write idempotently and does so.

        Without acknowledgements this closes the connection.
        """
        if (
            self.broker.version.number < _WRITES_IDEMPOTENTLY
            and _is_idempotent(request)
            and not self._allows_cluster(context, "IdempotentWrite")
        ):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            answer(error_response(request, context.version, code) if request.acks else None)
            return
        if request.acks == 0 and not all(
            self._allows(context, "Write", TOPIC, topic.name) for topic in request.topic_data
        ):
            answer(None)
            return
        self._serve_parts(PARTS[PRODUCE], handler, context, request, answer)

    def _fetch(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse topics that the client may not read; who fetches as a broker needs to act for the cluster."""
        replica = request.replica_id if context.version < _REPLICA_STATES else request.replica_state.replica_id
        is_broker = replica >= 0
        acts = is_broker and self._allows_cluster(context, "ClusterAction")
        by_kind = is_broker and self.broker.version.number < _NAMES_REFUSED
        kept: list[Any] = []
        refused: list[Any] = []
        for topic in request.topics:
            name = topic.topic or self.broker.cache.topic_names.get(topic.topic_id, "")
            may = acts if is_broker else not name or self._allows(context, "Read", TOPIC, name)
            (kept if may else refused).append(topic)
        if not refused:
            handler(context, request, answer)
            return
        partition = FetchResponse.PartitionData
        aborted: list[Any] | None = (
            None if context.version >= _NULL_ABORTED and self.broker.version.number < _FILLED else []
        )
        parts = [
            FetchResponse.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    partition(
                        partition_index=one.partition,
                        error_code=ERRORS[CLUSTER.kind] if by_kind else self._code(context, TOPIC, topic.topic),
                        high_watermark=-1,
                        aborted_transactions=aborted,
                        records=b"",
                    )
                    for one in topic.partitions
                ],
            )
            for topic in refused
        ]

        def finish(response: Any) -> None:
            if isinstance(response, FetchResponse):
                response.responses = [*response.responses, *parts]
            answer(response)

        handler(context, _with(request, "topics", kept), finish)

    def _leader_epochs(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        if self._allows_cluster(context, "ClusterAction"):
            handler(context, request, answer)
        elif self.broker.version.number >= _LEADER_EPOCHS_BY_TOPIC:
            self._serve_parts(PARTS[OFFSET_FOR_LEADER_EPOCH], handler, context, request, answer)
        else:
            answer(error_response(request, context.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    def _init_producer_id(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse transactions of a client that may not write them, and idempotence of one that may not write."""
        code = ErrorCode.NONE
        if request.transactional_id is not None:
            if not self._allows(context, "Write", TRANSACTION, request.transactional_id):
                code = ERRORS[TRANSACTION]
        elif not self._may_write_idempotently(context):
            code = ERRORS[CLUSTER.kind]
        if code == ErrorCode.NONE:
            handler(context, request, answer)
            return
        refused: Any = error_response(request, context.version, code)
        if self.broker.version.number < _NO_EPOCH:
            refused.producer_epoch = 0
        answer(refused)

    def _may_write_idempotently(self, context: Context) -> bool:
        if self._allows_cluster(context, "IdempotentWrite"):
            return True
        later = self.broker.version.number >= _WRITES_IDEMPOTENTLY
        return later and self.broker.authorizer.allows_any("Write", TOPIC, context.principal)

    # -- topics

    def _metadata(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Leave out topics that the client may not describe; refuse those that it names, or may not create."""
        topics = request.topics
        if topics is None or (context.version == 0 and not topics):
            handler(context, request, lambda found: answer(self._visible(context, request, found)))
            return
        if context.version < _IDS and any(topic.name is None or topic.topic_id != NO_ID for topic in topics):
            handler(context, request, answer)
            return
        kept: list[Any] = []
        refused: list[Any] = []
        for topic in topics:
            (kept if self._may_see(context, request, topic) else refused).append(topic)

        def finish(found: Any) -> None:
            if isinstance(found, MetadataResponse):
                kind = MetadataResponse.MetadataResponseTopic
                parts = [
                    kind(
                        error_code=self._code(context, TOPIC, topic.name or ""),
                        name=topic.name,
                        topic_id=topic.topic_id,
                    )
                    for topic in refused
                ]
                for part in parts if context.version >= _WITH_OPERATIONS else ():
                    part.topic_authorized_operations = self.broker.version.api.unasked_operations
                found.topics = [*found.topics, *parts]
                self._show_operations(context, request, found)
            answer(found)

        if kept or not refused:
            handler(context, _with(request, "topics", kept), finish)
        else:  # in version 0 an empty list stands for all topics
            handler(context._replace(version=max(1, context.version)), _with(request, "topics", []), finish)

    def _may_see(self, context: Context, request: Any, topic: Any) -> bool:
        """Return whether a client may describe a topic that it names, and create it if there is none."""
        name = topic.name or self.broker.cache.topic_names.get(topic.topic_id, "")
        if name and not self._allows(context, "Describe", TOPIC, name):
            return False
        if (
            name in self.broker.cache.topics
            or not name
            or not (self.broker.config.boolean("auto.create.topics.enable") and request.allow_auto_topic_creation)
        ):
            return True
        return self._may_create(context, name)

    def _may_create(self, context: Context, name: str) -> bool:
        if self._allows_cluster(context, "Create"):
            return True
        return self.broker.version.number >= _CREATES_BY_TOPIC and self._allows(context, "Create", TOPIC, name)

    def _visible(self, context: Context, request: Any, found: Any) -> Any:
        """Return an answer about all topics without those that the client may not describe."""
        if isinstance(found, MetadataResponse):
            found.topics = [one for one in found.topics if self._allows(context, "Describe", TOPIC, one.name or "")]
            self._show_operations(context, request, found)
        return found

    def _show_operations(self, context: Context, request: Any, found: MetadataResponse) -> None:
        if request.include_topic_authorized_operations:
            for topic in found.topics:
                if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    topic.topic_authorized_operations = self._operations(
                        context, TOPIC, topic.name or "", TOPIC_OPERATIONS
                    )
        if request.include_cluster_authorized_operations:
            found.cluster_authorized_operations = self._cluster_operations(context)

    def _describe_cluster(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        def finish(found: Any) -> None:
            if request.include_cluster_authorized_operations and found.error_code == ErrorCode.NONE:
                found.cluster_authorized_operations = self._cluster_operations(context)
            answer(found)

        handler(context, request, finish)

    def _create_topics(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse topics that the client may not create, and the configuration of those that it may not describe."""
        if not self.broker.is_controller():
            handler(context, request, answer)
            return
        if self.broker.version.number < _CREATES_BY_TOPIC:
            if self._allows_cluster(context, "Create"):
                handler(context, request, answer)
            else:
                answer(error_response(request, context.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return

        def finish(found: Any) -> None:
            for topic in found.topics if context.version >= _WITH_CONFIGS else ():
                hides = not self._allows(context, "DescribeConfigs", TOPIC, topic.name)
                if topic.error_code == ErrorCode.NONE and hides:
                    topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    topic.num_partitions, topic.replication_factor, topic.configs = -1, -1, []
            answer(found)

        self._serve_some(
            _CREATE, lambda topic: self._may_create(context, topic.name), handler, context, request, finish
        )

    def _delete_topics(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse topics that the client may not delete; a topic named by an id that it may not describe is unknown."""
        if context.version < _DELETE_BY_ID:
            self._serve_parts(_DELETE_NAMES, handler, context, request, answer)
            return

        def may_delete(topic: Any) -> bool:
            name = topic.name or self.broker.cache.topic_names.get(topic.topic_id, "")
            return not name or self._allows(context, "Delete", TOPIC, name)

        def finish(found: Any) -> None:
            for topic in getattr(found, "responses", ()):
                if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and topic.topic_id != NO_ID:
                    name = self.broker.cache.topic_names.get(topic.topic_id, "")
                    if self._allows(context, "Describe", TOPIC, name):
                        topic.name = name
                    else:
                        topic.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            answer(found)

        if self.broker.is_controller():
            self._serve_some(_DELETE, may_delete, handler, context, request, finish)
        else:
            handler(context, request, answer)

    # -- groups

    def _find_coordinator(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        need = _COORDINATORS.get(request.key_type)
        if need is None:
            handler(context, request, answer)
        elif context.version >= _MANY_KEYS:
            self._serve_parts(need, handler, context, request, answer)
        elif self._allows(context, need.operation, need.kind, request.key):
            handler(context, request, answer)
        else:
            refused: Any = error_response(request, context.version, ERRORS[need.kind])
            if not self.broker.version.groups.has_coordinator_texts:
                refused.error_message = None
            answer(refused)

    def _describe_groups(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        def finish(found: Any) -> None:
            for group in getattr(found, "groups", ()) if context.version >= _GROUPS_WITH_OPERATIONS else ():
                if group.error_code != ErrorCode.NONE:
                    group.authorized_operations = self.broker.version.api.unasked_operations
                elif request.include_authorized_operations:
                    shown = self._operations(context, GROUP, group.group_id, GROUP_OPERATIONS)
                    group.authorized_operations = shown
            answer(found)

        self._serve_parts(PARTS[DESCRIBE_GROUPS], handler, context, request, finish)

    def _list_groups(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        def finish(found: Any) -> None:
            found.groups = [one for one in found.groups if self._allows(context, "Describe", GROUP, one.group_id)]
            answer(found)

        if self._allows_cluster(context, "Describe"):
            handler(context, request, answer)
        elif self.broker.version.number >= _LISTS_DESCRIBED:
            handler(context, request, finish)
        else:
            answer(error_response(request, context.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    def _fetch_offsets(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse groups that the client may not describe, and leave out or refuse topics that it may not describe."""

        def finish(found: Any) -> None:
            if context.version < _MANY_GROUPS:
                self._hide_topics(context, found, all_topics=request.topics is None)
            else:
                asked = {group.group_id: group for group in request.groups}
                for group in getattr(found, "groups", ()):
                    self._hide_topics(context, group, all_topics=asked[group.group_id].topics is None)
            answer(found)

        if context.version < _MANY_GROUPS:
            self._serve_whole((Whole("Describe", GROUP, "group_id"),), handler, context, request, finish)
        else:
            need = Parts("Describe", GROUP, "groups", "group_id", "groups")
            self._serve_parts(need, handler, context, request, finish)

    def _hide_topics(self, context: Context, found: Any, *, all_topics: bool) -> None:
        hidden = [one for one in getattr(found, "topics", ()) if not self._allows(context, "Describe", TOPIC, one.name)]
        if all_topics and hidden:
            found.topics = [one for one in found.topics if one not in hidden]
        for topic in () if all_topics else hidden:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.NONE:
                    partition.error_code = self._code(context, TOPIC, topic.name)
                    partition.committed_offset, partition.metadata = -1, ""
                    partition.committed_leader_epoch = -1

    def _delete_offsets(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse topics that the client may not read."""
        refused = [one.name for one in request.topics if not self._allows(context, "Read", TOPIC, one.name)]
        if not refused:
            handler(context, request, answer)
            return
        response: Any = error_response(request, context.version, ErrorCode.NONE)
        kind, part = type(response).OffsetDeleteResponseTopic, type(response).OffsetDeleteResponsePartition
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        parts = [
            kind(
                name=topic.name,
                partitions=[part(partition_index=one.partition_index, error_code=code) for one in topic.partitions],
            )
            for topic in request.topics
            if topic.name in refused
        ]

        def extend(found: Any) -> None:
            found.topics.extend(parts)
            answer(found)

        kept = [one for one in request.topics if one.name not in refused]
        handler(context, _with(request, "topics", kept), extend)

    # -- transactions

    def _add_partitions(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Refuse all partitions if the client may not write to the topic of one: none of the others is attempted."""
        topics = request.v3_and_below_topics
        refused = {one.name for one in topics if not self._allows(context, "Write", TOPIC, one.name)}
        if request.transactions and not self._allows_cluster(context, "ClusterAction"):
            answer(error_response(request, context.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        if not refused:
            handler(context, request, answer)
            return
        response: Any = error_response(request, context.version, ErrorCode.OPERATION_NOT_ATTEMPTED)
        for topic in response.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                if topic.name in refused:
                    partition.partition_error_code = self._code(context, TOPIC, topic.name)
                    continue
                named = TopicPartition(topic.name, partition.partition_index)
                if not is_addable(named, self.broker.cache, self.broker.version.number):
                    partition.partition_error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer(response)

    def _describe_transactions(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        """Leave out topics that the client may not describe."""

        def finish(found: Any) -> None:
            for state in getattr(found, "transaction_states", ()):
                state.topics = [one for one in state.topics if self._allows(context, "Describe", TOPIC, one.topic)]
            answer(found)

        self._serve_parts(PARTS[DESCRIBE_TRANSACTIONS], handler, context, request, finish)

    def _list_transactions(self, handler: Handler, context: Context, request: Any, answer: Answer) -> None:
        def finish(found: Any) -> None:
            shown = found.transaction_states
            found.transaction_states = [
                one for one in shown if self._allows(context, "Describe", TRANSACTION, one.transactional_id)
            ]
            answer(found)

        handler(context, request, finish)


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
