"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete: offsets of consumer groups, in Kafka or in ZooKeeper.

Rules of this module (KafkaApis; recorded 0.8.2 to 3.9):
  - version 0 of OffsetCommit and OffsetFetch writes and reads znodes below `/consumers`, at any broker; later versions
    ask the coordinator, which keeps offsets in `__consumer_offsets`;
  - topics and partitions that the broker does not know are refused one by one;
  - up to version 1 of OffsetFetch each partition has the error of the coordinator, later the whole response;
  - TxnOffsetCommit commits with a transaction (KIP-98). Up to version 1 its clients do not understand
    COORDINATOR_LOAD_IN_PROGRESS; since 2.6 they get COORDINATOR_NOT_AVAILABLE instead (KAFKA-9656);
  - up to 2.0 a committed offset expires a fixed time after its commit; later only one whose client asks for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from simzk.jvm.numbers import wrapped_long
from simzk.kafka.broker.transaction_verification import VERIFICATION_KEY, TransactionBatch
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.coordinator.group_coordinator import FetchedOffset
from simzk.kafka.coordinator.group_records import NO_LEADER_EPOCH, NO_TIMESTAMP, CommittedOffset
from simzk.kafka.coordinator.transaction import ProducerIdentity
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from simzk.kafka.topic_partition import TopicPartition, grouped_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.kafka.broker.transaction_verification import TransactionVerification
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.coordinator.group_coordinator import GroupCoordinator
    from simzk.kafka.metadata.plane import GroupOffsetStore

OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT, OFFSET_DELETE = 8, 9, 28, 47
NO_OFFSET = -1
IN_ZOOKEEPER = 0
"""Version of OffsetCommit and OffsetFetch for offsets in ZooKeeper."""
_TIMESTAMPS, _MANY_GROUPS, _ERROR_OF_ALL = 1, 8, 2
_KNOWS_LOADING, _KNOWS_ABORTABLE = 2, 4
"""Versions of TxnOffsetCommit from which on clients understand COORDINATOR_LOAD_IN_PROGRESS, TRANSACTION_ABORTABLE."""
_MS_OF_MINUTE = 60_000
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

_Topic = TypeVar("_Topic")
Fetched = dict[TopicPartition, FetchedOffset]


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    serving = broker.serving_broker
    verifies = serving.version.groups.verifies_transactions and serving.config.boolean(VERIFICATION_KEY)
    return OffsetsApi(serving, broker.groups, broker.verification, verifies, broker.group_offsets).handlers


@dataclass(eq=False)
class OffsetsApi(ClientApi):
    """Requests about offsets to one broker.

    Args:
        coordinator: its groups.
        verification: asks the coordinators of transactions.
        verifies: whether they are asked: a setting of the broker.
        outside: offsets of version 0.
    """

    coordinator: GroupCoordinator
    verification: TransactionVerification
    verifies: bool
    outside: GroupOffsetStore

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            OFFSET_COMMIT: self.serve_commit,
            TXN_OFFSET_COMMIT: self.serve_txn_commit,
            OFFSET_FETCH: self.serve_fetch,
            OFFSET_DELETE: self.serve_delete,
        }

    def _may_commit(self, partition: TopicPartition, context: Context) -> bool:
        """Return whether the broker knows a partition; up to 1.1 its topic is enough, and in 0.8.2 nothing is asked."""
        if context.version != IN_ZOOKEEPER and not self.broker.version.groups.has_groups:
            return True
        if self.broker.version.groups.commits_to_unknown_partitions:
            return partition.topic in self.broker.cache.topics
        return partition in self.broker.cache.partitions

    # -- OffsetCommit

    def serve_commit(self, context: Context, request: OffsetCommitRequest, answer: Answer) -> None:
        """Commit offsets."""
        asked = {
            TopicPartition(topic.name, one.partition_index): one for topic in request.topics for one in topic.partitions
        }
        known = {partition: one for partition, one in asked.items() if self._may_commit(partition, context)}

        def finish(results: Mapping[TopicPartition, ErrorCode]) -> None:
            assert len(results) == len(known), "each partition that the broker knows has a result"
            response = OffsetCommitResponse
            topic, one = response.OffsetCommitResponseTopic, response.OffsetCommitResponsePartition
            answer(response(topics=_by_topic(asked, results, topic, one)))

        if not known:
            finish({})
        elif context.version == IN_ZOOKEEPER:
            self.broker.spawn(self._commit_to_zookeeper(request.group_id, known, finish), "commit to ZooKeeper")
        else:
            offsets = {partition: self._committed(context, request, one) for partition, one in known.items()}
            member = request.member_id, request.generation_id_or_member_epoch, request.group_instance_id
            self.coordinator.commit(request.group_id, member, offsets, finish)

    def _committed(
        self, context: Context, request: OffsetCommitRequest, one: OffsetCommitRequest.OffsetCommitRequestPartition
    ) -> CommittedOffset:
        is_given = context.version == _TIMESTAMPS and one.commit_timestamp != NO_TIMESTAMP
        commit_ms = one.commit_timestamp if is_given else self.broker.now_ms()
        return self._kept(one, commit_ms, request.retention_time_ms)

    def _kept(
        self,
        one: OffsetCommitRequest.OffsetCommitRequestPartition | TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition,
        commit_ms: int,
        retention_ms: int = NO_TIMESTAMP,
    ) -> CommittedOffset:
        """Return an offset with the time at which it expires: after the retention of the request, or of the broker."""
        if retention_ms == NO_TIMESTAMP and self.broker.version.groups.offsets_expire_in_active_groups:
            retention_ms = self.broker.config.integer("offsets.retention.minutes") * _MS_OF_MINUTE
        expire_ms = NO_TIMESTAMP if retention_ms == NO_TIMESTAMP else wrapped_long(commit_ms + retention_ms)
        epoch, metadata = one.committed_leader_epoch, one.committed_metadata or ""
        return CommittedOffset(one.committed_offset, epoch, metadata, commit_ms, expire_ms)

    # -- TxnOffsetCommit

    def serve_txn_commit(self, context: Context, request: TxnOffsetCommitRequest, answer: Answer) -> None:
        """Commit offsets with a transaction."""
        asked = {
            TopicPartition(topic.name, one.partition_index): one for topic in request.topics for one in topic.partitions
        }
        known = {partition: one for partition, one in asked.items() if self._may_commit(partition, context)}

        def finish(results: Mapping[TopicPartition, ErrorCode]) -> None:
            assert len(results) == len(known), "each partition that the broker knows has a result"
            shown = dict(results)
            if context.version < _KNOWS_LOADING and self.broker.version.groups.hides_loading_from_old_producers:
                hidden = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE}
                shown = {partition: hidden.get(code, code) for partition, code in shown.items()}
            response = TxnOffsetCommitResponse
            topic, one = response.TxnOffsetCommitResponseTopic, response.TxnOffsetCommitResponsePartition
            answer(response(topics=_by_topic(asked, shown, topic, one)))

        if not known:
            finish({})
            return
        offsets = {partition: self._kept(one, self.broker.now_ms()) for partition, one in known.items()}
        member = request.member_id, request.generation_id, request.group_instance_id
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        place = self.coordinator.place_of(request.group_id)

        def go_on(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                self.coordinator.commit(request.group_id, member, offsets, finish, producer)
            else:
                finish(dict.fromkeys(offsets, error))

        if isinstance(place, ErrorCode) or not self.verifies:
            go_on(place if isinstance(place, ErrorCode) else ErrorCode.NONE)
            return
        batch = TransactionBatch(request.transactional_id, *producer)
        knows_abortable = context.version >= _KNOWS_ABORTABLE
        self.verification.verify_offsets(batch, place, go_on, knows_abortable=knows_abortable)

    # -- version 0 of OffsetCommit

    async def _commit_to_zookeeper(
        self,
        group_id: str,
        asked: Mapping[TopicPartition, OffsetCommitRequest.OffsetCommitRequestPartition],
        finish: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        longest = self.broker.config.integer("offset.metadata.max.bytes")
        results = {}
        for partition, one in asked.items():
            if len(one.committed_metadata or "") > longest:
                results[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                is_stored = await self.outside.commit(group_id, partition, one.committed_offset)
                results[partition] = ErrorCode.NONE if is_stored else ErrorCode.UNKNOWN_SERVER_ERROR
        finish(results)

    # -- OffsetFetch

    def serve_fetch(self, context: Context, request: OffsetFetchRequest, answer: Answer) -> None:
        """Answer the committed offsets of a group, or of several."""
        if context.version >= _MANY_GROUPS:
            self._fetch_of_groups(request, answer)
            return
        asked = _partitions(request.topics)
        if context.version == IN_ZOOKEEPER:
            self.broker.spawn(self._fetch_from_zookeeper(request.group_id, asked or [], answer), "offsets in ZooKeeper")
            return
        if not asked and asked is not None and self.broker.version.groups.fetches_all_if_none_named:
            asked = None
        found = self.coordinator.fetch(request.group_id, asked, stable=request.require_stable)
        error = ErrorCode.NONE
        if isinstance(found, ErrorCode):
            if context.version >= _ERROR_OF_ALL:
                error, found = found, {}
            else:
                shown = asked if self.broker.version.groups.fetches_fail_by_partition else None
                found = dict.fromkeys(shown or (), FetchedOffset(None, found))
        elif not self.broker.version.groups.has_groups:  # 0.8.2
            unknown = [
                one for one, (offset, _) in found.items() if offset is None and one not in self.broker.cache.partitions
            ]
            found.update(dict.fromkeys(unknown, FetchedOffset(None, _UNKNOWN)))
        answer(OffsetFetchResponse(error_code=error, topics=self._topics(found)))

    def _fetch_of_groups(self, request: OffsetFetchRequest, answer: Answer) -> None:
        groups, kind = [], OffsetFetchResponse.OffsetFetchResponseGroup
        for group in request.groups:
            found = self.coordinator.fetch(group.group_id, _partitions(group.topics), stable=request.require_stable)
            if isinstance(found, ErrorCode):
                groups.append(kind(group_id=group.group_id, error_code=found))
            else:
                groups.append(kind(group_id=group.group_id, topics=self._topics(found, of_groups=True)))
        answer(OffsetFetchResponse(groups=groups))

    def _topics(self, found: Fetched, *, of_groups: bool = False) -> list[Any]:
        response = OffsetFetchResponse
        topic = response.OffsetFetchResponseTopics if of_groups else response.OffsetFetchResponseTopic
        kind = response.OffsetFetchResponsePartitions if of_groups else response.OffsetFetchResponsePartition
        nothing = CommittedOffset(NO_OFFSET, NO_LEADER_EPOCH, "", NO_TIMESTAMP)
        partitions: dict[str, list[Any]] = {}
        for (name, number), (committed, error) in found.items():
            part = kind(partition_index=number, error_code=error)
            part.committed_offset, part.committed_leader_epoch, part.metadata = (committed or nothing)[:3]
            partitions.setdefault(name, []).append(part)
        return [topic(name=name, partitions=of_topic) for name, of_topic in partitions.items()]

    async def _fetch_from_zookeeper(self, group_id: str, asked: list[TopicPartition], answer: Answer) -> None:
        found: Fetched = {}
        for partition in asked:
            offset = None
            if partition in self.broker.cache.partitions:
                offset = await self.outside.fetch(group_id, partition)
            found[partition] = FetchedOffset(None, _UNKNOWN)
            if offset is not None:
                found[partition] = FetchedOffset(CommittedOffset(offset, NO_LEADER_EPOCH, "", NO_TIMESTAMP))
        answer(OffsetFetchResponse(topics=self._topics(found)))

    # -- OffsetDelete

    def serve_delete(self, _context: Context, request: OffsetDeleteRequest, answer: Answer) -> None:
        """Delete offsets of a group."""
        asked = [
            TopicPartition(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions
        ]
        known = [partition for partition in asked if partition in self.broker.cache.partitions]
        deleted = self.coordinator.delete_offsets(request.group_id, known)
        if isinstance(deleted, ErrorCode):
            answer(OffsetDeleteResponse(error_code=deleted))
            return
        topic, one = OffsetDeleteResponse.OffsetDeleteResponseTopic, OffsetDeleteResponse.OffsetDeleteResponsePartition
        answer(OffsetDeleteResponse(topics=_by_topic(asked, deleted, topic, one)))


def _partitions(
    topics: Iterable[OffsetFetchRequest.OffsetFetchRequestTopic | OffsetFetchRequest.OffsetFetchRequestTopics] | None,
) -> list[TopicPartition] | None:
    """Return the partitions that a request names; None stands for all."""
    return None if topics is None else [TopicPartition(one.name, at) for one in topics for at in one.partition_indexes]


def _by_topic(
    partitions: Iterable[TopicPartition],
    results: Mapping[TopicPartition, ErrorCode],
    topic: Callable[..., _Topic],
    one: Callable[..., object],
) -> list[_Topic]:
    """Return the results of partitions, grouped by topic; a partition without one is unknown.

    Args:
        partitions: the partitions of the request.
        results: by partition.
        topic, one: the structs of a topic and of a partition in the response.
    """
    return [
        topic(
            name=name,
            partitions=[one(partition_index=at.partition, error_code=results.get(at, _UNKNOWN)) for at in found],
        )
        for name, found in grouped_by_topic(partitions).items()
    ]
