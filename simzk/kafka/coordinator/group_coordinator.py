"""Groups that one broker coordinates: those of the partitions of `__consumer_offsets` that it leads.

Rules of this module (GroupCoordinator, GroupMetadataManager; recorded 0.8.2 to 3.9):
  - the hash of a group's id decides its partition of `__consumer_offsets`, and the leader of that is its coordinator;
  - a broker that becomes leader of a partition reads its log; until then its groups answer
    COORDINATOR_LOAD_IN_PROGRESS, a heartbeat NONE, and a SyncGroup REBALANCE_IN_PROGRESS. A log without records is
    loaded at once;
  - a broker that ceases to lead answers who waits with NOT_COORDINATOR, and forgets the groups;
  - groups and offsets are appended as records that all in the ISR must have before a client is answered;
  - offsets of a transaction are appended in batches of its producer, and are pending until its marker is in the same
    partition: then they are committed, or dropped (KIP-98). A later commit outside of transactions keeps them out;
  - offsets of a deleted topic are removed, and those of an empty group, or of a consumer without a group, after
    `offsets.retention.minutes` (KIP-211). A group without members and offsets is removed;
  - from 2.4 on the coordinator knows the topics that consumers have subscribed to, if it can parse the metadata of all
    members (KIP-496). Offsets of other topics can be deleted, and expire while the group is stable.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.coordinator.coordinator_log import (
    ERRORS_OF_APPEND,
    LOAD_US,
    OFFSETS_TOPIC,
    CoordinatorBatch,
    CoordinatorLog,
    CoordinatorRecord,
    partition_of,
)
from simzk.kafka.coordinator.group import (
    Group,
    GroupHost,
    GroupSettings,
    GroupState,
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from simzk.kafka.coordinator.group_records import (
    NO_TIMESTAMP,
    CommittedOffset,
    GroupKey,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_group_key,
    encode_offset,
    encode_offset_key,
)
from simzk.kafka.coordinator.record_fields import RecordError, fits
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simzk.kafka.coordinator.group import GroupSnapshot
    from simzk.kafka.coordinator.transaction import ProducerIdentity
    from simzk.kafka.releases.profile import GroupRules
    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.simulation import Process, Timer

    CommitDone = Callable[[dict[TopicPartition, ErrorCode]], None]
    """Called with the result of a commit for each partition."""

_UNLIMITED = (1 << 31) - 1
_MS_OF_MINUTE = 60_000
_CONSUMERS = "consumer"
"""Protocol type of groups of consumers."""

_OF_STORED_GROUP = ERRORS_OF_APPEND | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS}
"""Errors of members, by the error of the append of their group."""
_OF_COMMIT = ERRORS_OF_APPEND | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE: ErrorCode.INVALID_TXN_STATE,
}
"""Errors of a commit, by the error of its append."""


def uuid_text(number: int) -> str:
    """Return 128 bits in the form of Java's UUID, as random of version 4, for the ids of members.

    >>> uuid_text(2**128 - 1)
    'ffffffff-ffff-4fff-bfff-ffffffffffff'
    """
    digits = f"{number & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


Offsets = dict[TopicPartition, tuple[int, CommittedOffset]]
"""Committed offsets, each with the number of its commit: an earlier commit does not replace a later one."""


def _commit_pending(offsets: Offsets, pending: Mapping[TopicPartition, tuple[int, CommittedOffset]]) -> None:
    """Commit the offsets of a transaction where no later commit has replaced them."""
    for partition, one in pending.items():
        if partition not in offsets or offsets[partition][0] < one[0]:
            offsets[partition] = one


class _Loaded:
    """Groups and offsets of a log, each by group id.

    Args:
        batches: the batches of the log.
        next_commit: returns the number of the next commit.

    Raises:
        RecordError: a record is malformed.
    """

    def __init__(self, batches: Iterable[CoordinatorBatch], next_commit: Callable[[], int]) -> None:
        self.groups: dict[str, GroupSnapshot] = {}
        self.offsets: dict[str, Offsets] = {}
        self.pending: dict[int, dict[str, Offsets]] = {}
        self._next_commit = next_commit
        for records, producer in batches:
            if producer is not None and producer.marker is not None:
                ended = self.pending.pop(producer.producer_id, {})
                for group_id, pending in ended.items() if producer.marker == "commit" else ():
                    _commit_pending(self.offsets.setdefault(group_id, {}), pending)
                continue
            of = self.offsets if producer is None else self.pending.setdefault(producer.producer_id, {})
            for record in records:
                self._read(record, of)

    def _read(self, record: CoordinatorRecord, offsets: dict[str, Offsets]) -> None:
        key = decode_key(record.key)
        if isinstance(key, GroupKey):
            self.groups.pop(key.group_id, None)
            if record.value is not None:
                self.groups[key.group_id] = decode_group(key.group_id, record.value)
        elif isinstance(key, OffsetKey):
            of_group = offsets.setdefault(key.group_id, {})
            of_group.pop(key.partition, None)
            if record.value is not None:
                of_group[key.partition] = self._next_commit(), decode_offset(record.value)

    @property
    def group_ids(self) -> list[str]:
        """The ids of all groups that are stored, or have offsets, committed or not."""
        with_offsets = (self.offsets, *self.pending.values())
        named = (group_id for of_groups in with_offsets for group_id, found in of_groups.items() if found)
        return list(dict.fromkeys((*self.groups, *named)))


def _texts_of(request: JoinRequest) -> list[str | None]:
    """Return the texts that a request adds to the record of its group, the id of a new member among them."""
    new_id = f"{request.instance_id or request.client_id}-{uuid_text(0)}"
    return [new_id, request.client_id, request.protocol_type, *(name for name, _ in request.protocols)]


class FetchedOffset(NamedTuple):
    """A committed offset as it is answered: the offset, None if there is none, or an error."""

    committed: CommittedOffset | None
    error: ErrorCode = ErrorCode.NONE


class GroupOverview(NamedTuple):
    """A group in a list."""

    group_id: str
    protocol_type: str
    state: GroupState


class GroupDescription(NamedTuple):
    """A group with its members."""

    state: GroupState
    snapshot: GroupSnapshot


@dataclass(eq=False)
class _Entry:
    """A group with its offsets."""

    group: Group
    offsets: Offsets = field(default_factory=dict)
    pending: dict[TopicPartition, int] = field(default_factory=dict)
    """Commits that are not stored yet, by partition the number of the last one."""
    in_transactions: dict[int, Offsets] = field(default_factory=dict)
    """Offsets of open transactions, by producer id."""

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Return whether the offset of a partition is being committed."""
        return partition in self.pending or any(partition in one for one in self.in_transactions.values())


@dataclass(eq=False)
class _Shard:
    """Groups of one partition; `loading` is the timer of its load."""

    partition: TopicPartition
    entries: dict[str, _Entry] = field(default_factory=dict)
    loading: Timer | None = None


@dataclass(eq=False)
class GroupCoordinator:
    """Coordinator of the groups of one broker, from the start of its process to the end.

    Args:
        process: the broker's process; its end cancels all timers.
        partitions: returns how many partitions `__consumer_offsets` has, or will have.
        topic_exists: returns whether a topic exists, as far as the broker knows.
        watch_topics: calls back after each change of the metadata cache with the topics that may have changed.
        now_ms: returns the present time, in ms since 1970.
        new_id: returns a new unique text.
    """

    process: Process
    rules: GroupRules
    config: BrokerConfig
    log: CoordinatorLog
    partitions: Callable[[], int]
    topic_exists: Callable[[str], bool]
    watch_topics: Callable[[Callable[[set[str]], None]], None]
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    _shards: dict[int, _Shard] = field(default_factory=dict, init=False)
    _commits: int = field(default=0, init=False)
    _cleans: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        def number(key: str, otherwise: int) -> int:
            """Return a setting, or what stands for it in releases without it."""
            return self.config.integer(key) if key in self.config.keys else otherwise

        self._settings = GroupSettings(
            number("group.min.session.timeout.ms", 0),
            number("group.max.session.timeout.ms", 0),
            number("group.initial.rebalance.delay.ms", 0),
            number("group.max.size", _UNLIMITED),
        )

    # -- partitions

    def on_leadership(self, partition: TopicPartition) -> None:
        """Load or unload the groups of a partition that this broker began or ceased to lead."""
        assert partition.topic == OFFSETS_TOPIC
        if self.log.leads(partition):
            if partition.partition not in self._shards:
                loaded = self._shards[partition.partition] = _Shard(partition)
                if not self.log.is_empty(partition):
                    loaded.loading = self.process.call_later(LOAD_US, lambda: self._load(loaded))
        elif (shard := self._shards.pop(partition.partition, None)) is not None:
            if shard.loading is not None:
                shard.loading.cancel()
            for entry in shard.entries.values():
                entry.group.unload()

    def _load(self, shard: _Shard) -> None:
        assert self._shards[shard.partition.partition] is shard, "a broker that ceases to lead cancels the load"
        assert not shard.entries
        shard.loading = None
        try:
            loaded = _Loaded(self.log.read_batches(shard.partition), self._next_commit)
        except RecordError:  # a log that is malformed has no groups (GroupMetadataManager.loadGroupsAndOffsets)
            return
        for group_id in loaded.group_ids:
            entry = self._new_entry(shard, group_id)
            entry.offsets = loaded.offsets.get(group_id, {})
            entry.in_transactions = {
                producer: pending for producer, of in loaded.pending.items() if (pending := of.get(group_id))
            }
            if group_id in loaded.groups:
                entry.group.load(loaded.groups[group_id])
        if shard.entries:
            self._start_cleaning()

    def _new_entry(self, shard: _Shard, group_id: str) -> _Entry:
        assert group_id not in shard.entries
        store = partial(self._store_group, shard.partition)
        host = GroupHost(self.process.call_later, self.now_ms, self.new_id, store)
        entry = _Entry(Group(group_id, host, self.rules, self._settings))
        shard.entries[group_id] = entry
        return entry

    def _next_commit(self) -> int:
        self._commits += 1
        return self._commits

    def _shard_of(self, group_id: str) -> _Shard | ErrorCode:
        """Return the loaded partition of a group, or the error of requests for it."""
        shard = self._shards.get(self._partition(group_id).partition)
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loading is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def _find(self, group_id: str, *, may_be_empty: bool = False) -> _Entry | ErrorCode | None:
        """Return a group; None if it does not exist, or the error of requests for it; some accept an empty id."""
        if not group_id and not may_be_empty:
            return ErrorCode.INVALID_GROUP_ID
        if not fits(group_id):
            return ErrorCode.UNKNOWN_SERVER_ERROR
        shard = self._shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        entry = shard.entries.get(group_id)
        return entry if entry is not None and entry.group.exists else None

    def _find_or_create(self, group_id: str) -> _Entry:
        shard = self._shard_of(group_id)
        assert isinstance(shard, _Shard), f"`_find` has not refused {group_id}: {shard}"
        self._start_cleaning()
        return shard.entries.get(group_id) or self._new_entry(shard, group_id)

    # -- members

    def join(self, group_id: str, request: JoinRequest, respond: Callable[[JoinResult], None]) -> None:
        """Let a client join a group."""
        found = self._find(group_id)
        settings = self._settings
        if isinstance(found, ErrorCode):
            respond(JoinResult(found, request.member_id))
        elif not settings.min_session_ms <= request.session_ms <= settings.max_session_ms:
            respond(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        elif not fits(*_texts_of(request)):
            respond(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id))
        elif found is None and request.member_id:
            respond(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        else:
            self._find_or_create(group_id).group.join(request, respond)

    def sync(self, group_id: str, request: SyncRequest, respond: Callable[[SyncResult], None]) -> None:
        """Send a member its assignment."""
        found = self._find(group_id)
        if found == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # the members have to join again
            respond(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        elif isinstance(found, ErrorCode):
            respond(SyncResult(found))
        elif found is None:
            respond(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            found.group.sync(request, respond)

    def heartbeat(self, group_id: str, member_id: str, generation: int, instance_id: str | None) -> ErrorCode:
        """Note that a member is alive."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return ErrorCode.NONE if found == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else found
        return (
            ErrorCode.UNKNOWN_MEMBER_ID if found is None else found.group.heartbeat(member_id, generation, instance_id)
        )

    def leave(self, group_id: str, members: Sequence[tuple[str, str | None]]) -> ErrorCode | list[ErrorCode]:
        """Remove members, each by its id and instance id; return the result of each, or an error for all."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found
        if found is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(members)
        return [found.group.leave(member_id, instance_id) for member_id, instance_id in members]

    def _store_group(
        self, partition: TopicPartition, snapshot: GroupSnapshot, done: Callable[[ErrorCode], None]
    ) -> None:
        """Append a group to its partition; a group without members is removed where it then does not exist."""
        value: bytes | None = encode_group(snapshot, self.rules.group_value_version)
        if not snapshot.members and not self.rules.keeps_empty_groups:
            value = None

        record = CoordinatorRecord(encode_group_key(snapshot.group_id), value)
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        self.log.append(partition, [record], lambda error: done(_OF_STORED_GROUP.get(error, unknown)))

    # -- offsets

    def commit(
        self,
        group_id: str,
        member: tuple[str, int, str | None],
        offsets: Mapping[TopicPartition, CommittedOffset],
        respond: CommitDone,
        producer: ProducerIdentity | None = None,
    ) -> None:
        """Commit offsets, at once or with a transaction.

        Args:
            group_id: the group.
            member: its member id, generation and instance id; a consumer without a group has no generation.
            offsets: by partition.
            respond: is called with the result of each partition.
            producer: the producer of the transaction; None for a commit at once.
        """
        in_txn = producer is not None
        found = self._find(group_id, may_be_empty=not in_txn)
        member_id, generation, instance_id = member
        if isinstance(found, ErrorCode):
            error = found
        elif not self.rules.has_groups:
            found, error = found or self._find_or_create(group_id), ErrorCode.NONE
        elif found is None and generation >= 0 and not in_txn:
            error = ErrorCode.ILLEGAL_GENERATION
        else:
            found = self._find_or_create(group_id) if found is None else found
            error = found.group.commit_error(member_id, generation, instance_id, in_txn=in_txn)
        longest, too_large = self.config.integer("offset.metadata.max.bytes"), ErrorCode.OFFSET_METADATA_TOO_LARGE
        stored = {p: one for p, one in offsets.items() if len(one.metadata) <= longest and fits(one.metadata)}
        if error != ErrorCode.NONE or not stored:
            respond(dict.fromkeys(offsets, error if error != ErrorCode.NONE else too_large))
            return
        assert isinstance(found, _Entry), "a commit without an error has a group"

        def finish(results: dict[TopicPartition, ErrorCode]) -> None:
            respond({partition: results.get(partition, too_large) for partition in offsets})

        self._store_offsets(found, stored, finish, producer)

    def _store_offsets(
        self,
        entry: _Entry,
        stored: Mapping[TopicPartition, CommittedOffset],
        respond: CommitDone,
        producer: ProducerIdentity | None,
    ) -> None:
        assert stored
        group_id, number = entry.group.group_id, self._next_commit()
        if producer is None:
            entry.pending.update(dict.fromkeys(stored, number))
        else:
            in_transaction = entry.in_transactions.setdefault(producer.producer_id, {})
            in_transaction.update({partition: (number, committed) for partition, committed in stored.items()})

        def finish(error: ErrorCode) -> None:
            code = _OF_COMMIT.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
            if producer is None:
                self._end_commit(entry, stored, number, is_stored=code == ErrorCode.NONE)
            elif code != ErrorCode.NONE:
                self._drop_pending(entry, producer.producer_id, stored)
            respond(dict.fromkeys(stored, code))

        version = self.rules.offset_value_version
        records = [
            CoordinatorRecord(encode_offset_key(OffsetKey(group_id, partition)), encode_offset(committed, version))
            for partition, committed in stored.items()
        ]
        self.log.append(self._partition(group_id), records, finish, producer)

    def _end_commit(
        self, entry: _Entry, stored: Mapping[TopicPartition, CommittedOffset], number: int, *, is_stored: bool
    ) -> None:
        """Note that a commit outside of transactions is stored, or has failed."""
        assert 0 < number <= self._commits
        for partition, committed in stored.items():
            is_pending = partition in entry.pending  # else the offset was deleted meanwhile
            if entry.pending.get(partition) == number:
                del entry.pending[partition]
            if is_stored and is_pending and entry.offsets.get(partition, (0,))[0] < number:
                entry.offsets[partition] = number, committed

    def _drop_pending(self, entry: _Entry, producer_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Forget offsets of a transaction."""
        in_transaction = entry.in_transactions.get(producer_id, {})
        for partition in partitions:
            in_transaction.pop(partition, None)
        if not in_transaction:
            entry.in_transactions.pop(producer_id, None)

    def end_transaction(self, partition: TopicPartition, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the offsets of a transaction whose marker is committed in a partition.

        A partition that is being loaded has the marker in its log.
        """
        assert partition.topic == OFFSETS_TOPIC
        shard = self._shards.get(partition.partition)
        for entry in () if shard is None else shard.entries.values():
            pending = entry.in_transactions.pop(producer_id, {})
            if is_commit:
                _commit_pending(entry.offsets, pending)

    def place_of(self, group_id: str) -> TopicPartition | ErrorCode:
        """Return the partition of `__consumer_offsets` of a group, or the error of requests with offsets for it."""
        found = self._find(group_id)
        return found if isinstance(found, ErrorCode) else self._partition(group_id)

    def _partition(self, group_id: str) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, partition_of(group_id, self.partitions()))

    def fetch(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, *, stable: bool
    ) -> ErrorCode | dict[TopicPartition, FetchedOffset]:
        """Return committed offsets, of all partitions with one if none is named, or an error for all.

        If the client wants them `stable`, an offset that is being committed is an error (KIP-447).
        """
        shard = self._shard_of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        entry = shard.entries.get(group_id)
        if entry is None:
            return dict.fromkeys(partitions or (), FetchedOffset(None))
        found = {}
        for partition in list(entry.offsets) if partitions is None else partitions:
            if stable and entry.is_unstable(partition):
                found[partition] = FetchedOffset(None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            else:
                _, committed = entry.offsets.get(partition, (0, None))
                found[partition] = FetchedOffset(committed)
        return found

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> ErrorCode | dict[TopicPartition, ErrorCode]:
        """Delete offsets of topics that no member reads, or return an error for all (KIP-496)."""
        found = self._find(group_id)
        if isinstance(found, ErrorCode):
            return found
        if found is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        group, read = found.group, set[str]()
        if group.state != GroupState.EMPTY:
            if group.protocol_type != _CONSUMERS:
                return ErrorCode.NON_EMPTY_GROUP
            known = _subscribed_topics(group)
            read = {partition.topic for partition in partitions} if known is None else known
        deleted = [partition for partition in partitions if partition.topic not in read]
        self._remove_offsets(found, deleted)
        refused = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        return {partition: refused if partition.topic in read else ErrorCode.NONE for partition in partitions}

    # -- groups

    def describe(self, group_id: str) -> ErrorCode | GroupDescription | None:
        """Return a group with its members; None if it does not exist, or an error."""
        found = self._find(group_id, may_be_empty=True)
        if isinstance(found, ErrorCode) or found is None:
            return found
        return GroupDescription(found.group.state, found.group.snapshot())

    def groups(self) -> tuple[ErrorCode, list[GroupOverview]]:
        """Return all groups, with an error if some are not loaded yet."""
        is_loading = any(shard.loading is not None for shard in self._shards.values())
        visible = [entry.group for entry in self._entries() if entry.group.exists]
        found = [GroupOverview(one.group_id, one.protocol_type or "", one.state) for one in visible]
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE, found

    def delete(self, group_id: str) -> ErrorCode:
        """Delete a group without members, with its offsets."""
        found = self._find(group_id, may_be_empty=self.rules.deletes_empty_ids)
        if isinstance(found, ErrorCode):
            return found
        if found is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if found.group.state != GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        self._remove_offsets(found, list(found.offsets))
        return ErrorCode.NONE

    # -- removal

    def _remove_offsets(self, entry: _Entry, partitions: Sequence[TopicPartition]) -> None:
        """Remove offsets, and the group if nothing is left of it."""
        group, records = entry.group, []
        assert group.state != GroupState.DEAD
        for partition in partitions:
            entry.pending.pop(partition, None)
            for producer_id in list(entry.in_transactions):
                self._drop_pending(entry, producer_id, [partition])
            if entry.offsets.pop(partition, None) is not None:
                records.append(CoordinatorRecord(encode_offset_key(OffsetKey(group.group_id, partition)), None))
        has_offsets = entry.offsets or entry.pending or entry.in_transactions
        if group.state == GroupState.EMPTY and not has_offsets:
            group.unload()
            del self._shards[self._partition(group.group_id).partition].entries[group.group_id]
            if group.generation > 0:
                records.append(CoordinatorRecord(encode_group_key(group.group_id), None))
        if records:
            self.log.append(self._partition(group.group_id), records, None)

    def _entries(self) -> list[_Entry]:
        return [entry for shard in self._shards.values() for entry in shard.entries.values()]

    def on_topics_changed(self, topics: set[str]) -> None:
        """Remove the offsets of those topics that were deleted, and groups without members and offsets.

        The broker cleans all its groups, also those that never had offsets of a deleted topic (recorded;
        GroupCoordinator.handleDeletedPartitions).
        """
        gone = {topic for topic in topics if not self.topic_exists(topic)}
        for entry in self._entries() if gone else ():
            known = dict.fromkeys((*entry.offsets, *(one for of in entry.in_transactions.values() for one in of)))
            self._remove_offsets(entry, [partition for partition in known if partition.topic in gone])

    def _start_cleaning(self) -> None:
        if not self._cleans:
            self._cleans = True
            self.watch_topics(self.on_topics_changed)
            self._clean_later()

    def _clean_later(self) -> None:
        self.process.call_later(self.config.integer("offsets.retention.check.interval.ms") * 1000, self._clean)

    def _clean(self) -> None:
        """Remove expired offsets, periodically."""
        now_ms = self.now_ms()
        for entry in self._entries():
            self._remove_offsets(entry, [p for p in entry.offsets if self._has_expired(entry, p, now_ms)])
        self._clean_later()

    def _has_expired(self, entry: _Entry, partition: TopicPartition, now_ms: int) -> bool:
        group, committed = entry.group, entry.offsets[partition][1]
        expires_in_active = self.rules.offsets_expire_in_active_groups  # up to 2.0
        if partition in entry.pending:
            return False
        if not expires_in_active and group.state != GroupState.EMPTY:
            if not self.rules.expires_unsubscribed or group.state != GroupState.STABLE:
                return False
            read = _subscribed_topics(group) if group.protocol_type == _CONSUMERS else None
            if read is None or partition.topic in read:
                return False
        if committed.expire_ms != NO_TIMESTAMP:
            return now_ms >= committed.expire_ms
        since_ms = committed.commit_ms
        was_read = group.state == GroupState.EMPTY and group.protocol_type is not None
        if not expires_in_active and was_read and group.state_since_ms != NO_TIMESTAMP:
            since_ms = group.state_since_ms
        return now_ms - since_ms >= self.config.integer("offsets.retention.minutes") * _MS_OF_MINUTE

    def check(self) -> None:
        """Assert every invariant."""
        for number, shard in self._shards.items():
            assert shard.partition == TopicPartition(OFFSETS_TOPIC, number)
            assert self.log.leads(shard.partition)
            assert shard.loading is None or not shard.entries
            for group_id, entry in shard.entries.items():
                assert entry.group.group_id == group_id
                assert entry.group.state != GroupState.DEAD
                assert all(entry.in_transactions.values()), f"a transaction without offsets in {group_id}"
                entry.group.check()


def _subscribed_topics(group: Group) -> set[str] | None:
    """Return the topics that the members of a group of consumers have subscribed to (computeSubscribedTopics).

    None: the group has had no protocol yet, or the metadata of a member are malformed.
    """
    stored = group.snapshot()
    if stored.protocol_name is None:
        return set() if stored.generation else None
    topics: set[str] = set()
    try:
        for member in stored.members:
            topics.update(_topics_of_subscription(member.subscription))
    except (struct.error, UnicodeDecodeError):
        return None
    return topics


def _topics_of_subscription(data: bytes) -> list[str]:
    """Return the topics of a subscription: a version, names, and bytes of the client (ConsumerProtocol, version 0).

    Raises:
        struct.error: it is cut short.

    >>> _topics_of_subscription(bytes((0, 1, 0, 0, 0, 1, 0, 1, 97, 255, 255, 255, 255)))
    ['a']
    """
    (count,) = struct.unpack_from(">i", data, 2)
    topics, at = [], 6
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data, at)
        (name,) = struct.unpack_from(f"{max(length, 0)}s", data, at + 2)
        topics.append(name.decode())
        at += 2 + max(length, 0)
    (length,) = struct.unpack_from(">i", data, at)
    struct.unpack_from(f"{max(length, 0)}s", data, at + 4)
    return topics
