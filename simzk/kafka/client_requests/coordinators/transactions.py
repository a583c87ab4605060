"""Requests about transactions: begin a producer, add partitions and offsets, end, write markers, describe, list.

Rules of this module (KafkaApis, TransactionCoordinator; recorded 0.11 to 3.9):
  - InitProducerId without a transactional id gets a new producer id, with epoch 0, whatever ids it names (KIP-98). An
    empty transactional id is INVALID_REQUEST, and so is a producer id without epoch, or the other way round (KIP-360);
  - WriteTxnMarkers needs ClusterAction of the cluster, from 3.8 on Alter is enough. Otherwise each partition has the
    error. A request without markers is answered with an empty response (KIP-664);
  - a fenced producer gets PRODUCER_FENCED in the versions that know it, INVALID_PRODUCER_EPOCH in earlier ones;
  - if one partition of AddPartitionsToTxn cannot be added, the others are OPERATION_NOT_ATTEMPTED. Internal topics
    are closed to clients;
  - from version 4 on AddPartitionsToTxn is a request of brokers for many transactions, which may only verify (KIP-890);
  - AddOffsetsToTxn adds the partition of `__consumer_offsets` of a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.broker.transaction_markers import marker_partitions, marker_result
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.coordinator.coordinator_log import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, partition_of
from simzk.kafka.coordinator.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity, TransactionState
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from simzk.kafka.topic_partition import TopicPartition, grouped_by_topic, numbers_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simzk.kafka.broker.producer_ids import ProducerIds
    from simzk.kafka.broker.transaction_markers import TransactionMarkers
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.coordinator.transaction_coordinator import TransactionCoordinator, TransactionOverview
    from simzk.kafka.metadata.cache import MetadataCache
    from simzk.kafka.releases.since import Release

INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END, WRITE_MARKERS, DESCRIBE, LIST = 22, 24, 25, 26, 27, 65, 66
_INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
_FENCED_SINCE = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}
"""First version of each API that knows PRODUCER_FENCED."""
_OF_BROKERS, _ABORTABLE = 4, 5
"""First versions of AddPartitionsToTxn for brokers, and with TRANSACTION_ABORTABLE."""
_STATES = {state.value: state for state in TransactionState}

TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult

_TOPICS_ONLY = (1, 0), (2, 0)
"""First release that looks only for the topic of a partition, and first one that does not; recorded 0.11 to 2.2."""


def is_addable(partition: TopicPartition, cache: MetadataCache, release: Release) -> bool:
    """Return whether a broker with this metadata cache lets a client add a partition to a transaction."""
    first, end = _TOPICS_ONLY
    return partition.topic in cache.topics if first <= release < end else partition in cache.partitions


class _Asked(NamedTuple):
    """One transaction of AddPartitionsToTxn, in any version."""

    transactional_id: str
    producer: ProducerIdentity
    only_verifies: bool
    partitions: list[TopicPartition]


def _partitions(topics: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _code(error: ErrorCode, api: str, version: int) -> ErrorCode:
    """Return an error as a version of an API knows it."""
    if error == ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _topic_results(errors: Mapping[TopicPartition, ErrorCode], version: int) -> list[TopicResult]:
    one = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
    codes = {partition: _code(error, "AddPartitionsToTxn", version) for partition, error in errors.items()}
    return [
        TopicResult(
            name=topic,
            results_by_partition=[one(partition_index=at.partition, partition_error_code=codes[at]) for at in found],
        )
        for topic, found in grouped_by_topic(errors).items()
    ]


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return transactions_api(broker).handlers


def transactions_api(broker: ApiBroker) -> TransactionsApi:
    """Return the API of a broker's transactions."""
    return TransactionsApi(
        broker.serving_broker,
        broker.transactions,
        broker.producer_ids,
        lambda: broker.markers,
        lambda group_id: partition_of(group_id, broker.partitions_of_internal(OFFSETS_TOPIC)),
    )


@dataclass(eq=False)
class TransactionsApi(ClientApi):
    """Requests about transactions to one broker.

    Args:
        coordinator: its transactions.
        producer_ids: its producer ids.
        markers: returns the transaction markers in the logs that it leads.
        offsets_partition_of: returns the partition of `__consumer_offsets` of a group.
    """

    coordinator: TransactionCoordinator
    producer_ids: ProducerIds
    markers: Callable[[], TransactionMarkers]
    offsets_partition_of: Callable[[str], int]

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            INIT_PRODUCER_ID: self.serve_init,
            WRITE_MARKERS: self.serve_markers,
            ADD_PARTITIONS: self.serve_add_partitions,
            ADD_OFFSETS: self.serve_add_offsets,
            END: self.serve_end,
            DESCRIBE: self.serve_describe,
            LIST: self.serve_list,
        }

    # -- InitProducerId

    def serve_init(self, context: Context, request: InitProducerIdRequest, answer: Answer) -> None:
        """Answer InitProducerId."""
        is_whole = (request.producer_id == NO_PRODUCER_ID) == (request.producer_epoch == NO_PRODUCER_EPOCH)
        if request.transactional_id and is_whole:
            self._init_transactional(context, request, answer)
            return
        if request.transactional_id is not None or not is_whole:
            answer(InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1))
            return

        def respond(producer_id: int | None) -> None:
            if producer_id is None:
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                answer(InitProducerIdResponse(error_code=code, producer_epoch=-1))
            else:
                assert producer_id >= 0, f"{producer_id} identifies no producer"
                answer(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0))

        self.producer_ids.take(respond, waits=self.broker.version.api.waits_for_producer_ids)

    def _init_transactional(self, context: Context, request: InitProducerIdRequest, answer: Answer) -> None:
        """Answer InitProducerId with a transactional id."""
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)

        def respond(result: ProducerIdentity | ErrorCode) -> None:
            if isinstance(result, ErrorCode):
                code = _code(result, "InitProducerId", context.version)
                answer(InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH))
            else:
                answer(InitProducerIdResponse(producer_id=result.producer_id, producer_epoch=result.epoch))

        is_new = expected == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        self.coordinator.init_producer_id(
            request.transactional_id or "", request.transaction_timeout_ms, None if is_new else expected, respond
        )

    # -- WriteTxnMarkers

    def serve_markers(self, context: Context, request: WriteTxnMarkersRequest, answer: Answer) -> None:
        """Append markers."""
        operations = ("Alter", "ClusterAction") if self.broker.version.api.alter_writes_markers else ("ClusterAction",)
        if any(self.broker.allows_on_cluster(operation, context.principal) for operation in operations):
            self.markers().serve(request, answer)
            return
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        results = [
            marker_result(one.producer_id, dict.fromkeys(marker_partitions(one), refused)) for one in request.markers
        ]
        answer(WriteTxnMarkersResponse(markers=results))

    # -- AddPartitionsToTxn

    def serve_add_partitions(self, context: Context, request: AddPartitionsToTxnRequest, answer: Answer) -> None:
        """Add partitions to transactions, or verify that they belong to them."""
        if context.version < _OF_BROKERS:
            producer = ProducerIdentity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
            partitions = _partitions(request.v3_and_below_topics)
            asked = [_Asked(request.v3_and_below_transactional_id, producer, False, partitions)]
        else:
            asked = [
                _Asked(
                    one.transactional_id,
                    ProducerIdentity(one.producer_id, one.producer_epoch),
                    one.verify_only,
                    _partitions(one.topics),
                )
                for one in request.transactions
            ]
        results: dict[int, list[TopicResult]] = {}

        def note(number: int, errors: Mapping[TopicPartition, ErrorCode]) -> None:
            assert number not in results, "each transaction has one result"
            results[number] = _topic_results(errors, context.version)
            if len(results) < len(asked):
                return
            response, kind = AddPartitionsToTxnResponse(), AddPartitionsToTxnResponse.AddPartitionsToTxnResult
            if context.version < _OF_BROKERS:
                response.results_by_topic_v3_and_below = results[0]
            else:
                response.results_by_transaction = [
                    kind(transactional_id=one.transactional_id, topic_results=results[number])
                    for number, one in enumerate(asked)
                ]
            answer(response)

        for number, one in enumerate(asked):
            self._add(context, one, partial(note, number))
        if not asked:
            answer(AddPartitionsToTxnResponse())

    def _add(
        self, context: Context, asked: _Asked, respond: Callable[[Mapping[TopicPartition, ErrorCode]], None]
    ) -> None:
        transactional_id, producer, only_verifies, partitions = asked
        refused: dict[TopicPartition, ErrorCode] = {}
        for partition in partitions:
            if partition.topic in _INTERNAL and context.version < _OF_BROKERS:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif not is_addable(partition, self.broker.cache, self.broker.version.number):
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if refused:
            respond({one: refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions})
        elif only_verifies:
            errors = self.coordinator.verify_partitions(transactional_id, producer, partitions)
            if context.version >= _ABORTABLE:
                missing, abortable = ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE
                errors = [abortable if error == missing else error for error in errors]
            respond(dict(zip(partitions, errors, strict=True)))
        else:
            self.coordinator.add_partitions(
                transactional_id, producer, partitions, lambda error: respond(dict.fromkeys(partitions, error))
            )

    # -- AddOffsetsToTxn, EndTxn

    def serve_add_offsets(self, context: Context, request: AddOffsetsToTxnRequest, answer: Answer) -> None:
        """Add the partition with the offsets of a group to a transaction."""
        partition = TopicPartition(OFFSETS_TOPIC, self.offsets_partition_of(request.group_id))
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        self.coordinator.add_partitions(
            request.transactional_id,
            producer,
            [partition],
            lambda error: answer(AddOffsetsToTxnResponse(error_code=_code(error, "AddOffsetsToTxn", context.version))),
        )

    def serve_end(self, context: Context, request: EndTxnRequest, answer: Answer) -> None:
        """Commit or abort a transaction."""
        self.coordinator.end(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            is_commit=request.committed,
            respond=lambda error: answer(EndTxnResponse(error_code=_code(error, "EndTxn", context.version))),
        )

    # -- descriptions

    def serve_describe(self, _context: Context, request: DescribeTransactionsRequest, answer: Answer) -> None:
        """Describe transactions by their transactional ids."""
        described = [self._described(name) for name in request.transactional_ids]
        answer(DescribeTransactionsResponse(transaction_states=described))

    def _described(self, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
        one, of_topic = DescribeTransactionsResponse.TransactionState, DescribeTransactionsResponse.TopicData
        found = self.coordinator.describe(transactional_id)
        if isinstance(found, ErrorCode):
            return one(error_code=found, transactional_id=transactional_id)
        topics = numbers_by_topic(found.partitions)
        return one(
            transactional_id=transactional_id,
            transaction_state=found.state.value,
            transaction_timeout_ms=found.timeout_ms,
            transaction_start_time_ms=found.start_ms,
            producer_id=found.producer_id,
            producer_epoch=found.epoch,
            topics=[of_topic(topic=topic, partitions=numbers) for topic, numbers in topics.items()],
        )

    def serve_list(self, _context: Context, request: ListTransactionsRequest, answer: Answer) -> None:
        """List the transactional ids of this broker in some states, of some producers, open for some time."""
        found = self.coordinator.transactions()
        if isinstance(found, ErrorCode):
            answer(ListTransactionsResponse(error_code=found))
            return
        states = {_STATES[name] for name in request.state_filters if name in _STATES}
        oldest_ms = self.broker.now_ms() - request.duration_filter

        def is_listed(one: TransactionOverview) -> bool:
            return (
                (not request.producer_id_filters or one.stored.producer_id in request.producer_id_filters)
                and (not request.state_filters or one.stored.state in states)
                and (request.duration_filter < 0 or one.stored.start_ms < oldest_ms)
            )

        listed = ListTransactionsResponse.TransactionState
        answer(
            ListTransactionsResponse(
                unknown_state_filters=[name for name in request.state_filters if name not in _STATES],
                transaction_states=[
                    listed(
                        transactional_id=one.transactional_id,
                        producer_id=one.stored.producer_id,
                        transaction_state=one.stored.state.value,
                    )
                    for one in found
                    if is_listed(one)
                ],
            )
        )
