"""Ledger of the requests and answers of clients, which checks that a cluster keeps what it has acknowledged.

Rules of this module (docs/reference/kafka.md §2.17 to §2.21):
  - a client reports a request when it sends it and its answer when it arrives. "Before" means: answered before the
    other request was sent. What overlaps may have either order, and what has no answer may have happened or not;
  - a generation is decided when a SyncGroup of it is answered: its assignments are stored then. Before, a generation
    that a coordinator has announced may be given again by the next one;
  - a group without members and offsets is removed (GroupMetadataManager.cleanupGroupMetadata), and begins with
    generation 1 again;
  - a coordinator that was replaced and does not know it goes on with its last generation in memory: it answers
    heartbeats and fetches of offsets, but commits nothing, because no follower acknowledges;
  - a transaction is in doubt if its commit was sent and not answered; then all of its records are read, or none. One
    whose commit was never sent, or was refused at once, is aborted;
  - values are unique, so that each record of the log is known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.observation.records import RecordInvariant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.kafka.topic_partition import TopicPartition

NO_OFFSET = -1
"""The offset of a group that has committed none."""


class Outcome(Enum):
    """Outcome of a transaction as its client knows it."""

    OPEN = "open"
    IN_DOUBT = "in doubt"
    COMMITTED = "committed"
    ABORTED = "aborted"

    @property
    def may_be_committed(self) -> bool:
        """Whether its records may be read."""
        return self in (Outcome.IN_DOUBT, Outcome.COMMITTED)


class ProducerEpoch(NamedTuple):
    """Identity of a producer with a transactional id."""

    producer_id: int
    epoch: int


@dataclass(slots=True)
class SentTransaction:
    """A transaction: its producer, its acknowledged values and offsets of a group, and what is known of its end."""

    number: int
    transactional_id: str
    producer: ProducerEpoch
    acknowledged: list[bytes] = field(default_factory=list)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    outcome: Outcome = Outcome.OPEN


@dataclass(slots=True)
class SentRecord:
    """A record that was sent: its place among those of its producer, its transaction, its acknowledged offset."""

    partition: TopicPartition
    producer: str
    place: int
    transaction: SentTransaction | None = None
    key: bytes | None = None
    is_tombstone: bool = False
    offset: int | None = None


class LogRecord(NamedTuple):
    """A record as a consumer reads it; `is_committed` is false in an aborted transaction."""

    offset: int
    key: bytes | None
    value: bytes | None
    is_committed: bool = True


class _Highest:
    """The largest number that was noted before a moment."""

    def __init__(self) -> None:
        self._moments: list[int] = []
        self._numbers: list[int] = []

    def note(self, moment: int, number: int) -> None:
        """Note a number."""
        highest = max(number, self._numbers[-1]) if self._numbers else number
        self._moments.append(moment)
        self._numbers.append(highest)

    def before(self, moment: int) -> int:
        """Return the largest number that was noted before a moment; -1 for none."""
        at = bisect_left(self._moments, moment)
        return self._numbers[at - 1] if at else -1


class _Group:
    """Generations, members and committed offsets of one group."""

    def __init__(self) -> None:
        self.synced = _Highest()
        self.by_broker: dict[int, _Highest] = {}
        self.last_of: dict[int, int] = {}
        self.proposed: dict[int, list[Mapping[str, bytes]]] = {}
        self.attempted: dict[TopicPartition, set[int]] = {}
        self.committed: dict[TopicPartition, list[tuple[int, int, int]]] = {}  # moment, generation, offset

    def begin_anew(self) -> None:
        """Forget the generations: the group was removed."""
        self.synced, self.by_broker, self.last_of = _Highest(), {}, {}


class ClientLedger:
    """Promises to the clients of a cluster, and the violations among them.

    Attributes:
        counts: how often each thing was promised, for the report of a run.
    """

    def __init__(self) -> None:
        one = RecordInvariant
        self.assigned = one("members of a group get what the leader of their generation assigned")
        self.generations = one("generations of a group rise")
        self.old_members = one("a group takes no heartbeat and no offset of an old generation")
        self.offsets_kept = one("committed offsets of a group do not go back")
        self.epochs = one("a transactional id keeps its producer id, and its epochs rise")
        self.fenced = one("a fenced producer ends no transaction")
        self.atomic = one("committed transactions are read whole, and no others")
        self.once = one("records of idempotent producers are in the log once, in order, where it was acknowledged")
        self.sessions = one("an incremental fetch equals a full one")
        self.log_start = one("a log begins where its leader has deleted it to, and is whole from there on")
        self.newest_kept = one("compaction keeps the newest value of each key")
        self.administered = one("a change that an administrator was confirmed is there")
        self.watches = one("a watch of a znode gives one event, before its client sees the change")
        self.session_kept = one("a session keeps its timeout, and its ephemerals as long, and no longer")
        self.quotas = one("the totals of a quota are those of its znodes")
        self.counts = Counter[str]()
        self.records: dict[bytes, SentRecord] = {}
        self.transactions: list[SentTransaction] = []
        self.deleted_to: dict[tuple[TopicPartition, int], _Highest] = {}
        self.asked_to_delete: dict[TopicPartition, int] = {}
        self.read_by: dict[str, dict[TopicPartition, list[tuple[int, bytes]]]] = {}
        self.left_out: dict[tuple[str, TopicPartition], list[range]] = {}
        self._moments = count(1)
        self._groups: dict[str, _Group] = {}
        self._epochs: dict[str, _Highest] = {}
        self._producer_ids: dict[str, int] = {}
        self._numbers = count(1)
        self._values: dict[tuple[TopicPartition, int], bytes | None] = {}
        self._offsets: dict[bytes, int] = {}

    @property
    def invariants(self) -> tuple[RecordInvariant, ...]:
        """All promises."""
        return tuple(one for one in vars(self).values() if isinstance(one, RecordInvariant))

    def moment(self) -> int:
        """Return a number for the present moment, larger than all before."""
        return next(self._moments)

    def group(self, name: str) -> _Group:
        """Return what is known of a group."""
        return self._groups.setdefault(name, _Group())

    # -- groups

    def on_proposed(self, group: str, generation: int, assignments: Mapping[str, bytes]) -> None:
        """Note the assignments that the leader of a generation sends, by member."""
        self.group(group).proposed.setdefault(generation, []).append(dict(assignments))

    def on_synced(self, group: str, generation: int, member: str, assignment: bytes, *, broker: int, sent: int) -> None:
        """Check the answer to a SyncGroup, and note that the generation is decided."""
        known = self.group(group)
        self.counts["assignments of groups"] += 1
        highest = known.synced.before(sent)
        if generation == 1 < highest and not known.committed:
            known.begin_anew()
            highest = generation
        if generation < highest and known.last_of.get(broker) != generation:
            self.generations.violate(
                f"broker {broker} gives {member} of {group} generation {generation} after generation {highest}"
            )
        fitting = [one for one in known.proposed.get(generation, []) if one.get(member, b"") == assignment]
        if not fitting:
            self.assigned.violate(
                f"{member} of {group} gets {assignment!r} in generation {generation}, not what was sent"
            )
        else:
            known.proposed[generation] = fitting
        moment = self.moment()
        known.synced.note(moment, generation)
        known.by_broker.setdefault(broker, _Highest()).note(moment, generation)
        known.last_of[broker] = generation

    def on_heartbeat(self, group: str, generation: int, member: str, *, broker: int, sent: int) -> None:
        """Check a heartbeat that was accepted: its broker must not have decided a later generation."""
        by_broker = self.group(group).by_broker.get(broker)
        later = -1 if by_broker is None else by_broker.before(sent)
        if later > generation:
            self.old_members.violate(
                f"broker {broker} accepts a heartbeat of {member} of {group} in generation {generation} after {later}"
            )

    def on_commit_sent(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Note an offset that may be committed from now on."""
        self.group(group).attempted.setdefault(partition, set()).add(offset)

    def on_committed(self, group: str, generation: int, partition: TopicPartition, offset: int, *, sent: int) -> None:
        """Check an offset that was accepted, and note it."""
        known = self.group(group)
        self.counts["offsets committed"] += 1
        later = known.synced.before(sent)
        if later > generation >= 0:
            self.old_members.violate(
                f"offset {offset} of {partition} is committed for {group} in generation {generation} after {later}"
            )
        known.committed.setdefault(partition, []).append((self.moment(), generation, offset))

    def on_fetched(
        self, group: str, generation: int | None, partition: TopicPartition, offset: int, *, sent: int
    ) -> None:
        """Check a fetched offset; generation None is that of a reader after all members have ended."""
        known = self.group(group)
        least = max(
            (
                one
                for moment, number, one in known.committed.get(partition, ())
                if moment < sent and (generation is None or number <= generation)
            ),
            default=NO_OFFSET,
        )
        if offset < least or (offset != NO_OFFSET and offset not in known.attempted.get(partition, ())):
            self.offsets_kept.violate(f"{group} is told offset {offset} of {partition}; it has committed {least}")

    # -- producers

    def on_producer(self, transactional_id: str, producer: ProducerEpoch, *, sent: int) -> None:
        """Check the identity that a producer was given, and note it: all earlier ones are fenced."""
        self.counts["producers of transactions"] += 1
        epochs = self._epochs.setdefault(transactional_id, _Highest())
        before = self._producer_ids.setdefault(transactional_id, producer.producer_id)
        highest = epochs.before(sent)
        if before != producer.producer_id:
            self.epochs.violate(f"{transactional_id} gets producer id {producer.producer_id} after {before}")
        elif producer.epoch <= highest:
            self.epochs.violate(f"{transactional_id} gets epoch {producer.epoch} after {highest}")
        epochs.note(self.moment(), producer.epoch)

    def begin(self, transactional_id: str, producer: ProducerEpoch) -> SentTransaction:
        """Return a new transaction."""
        made = SentTransaction(next(self._numbers), transactional_id, producer)
        self.transactions.append(made)
        return made

    def on_ended(self, ended: SentTransaction, outcome: Outcome, *, sent: int) -> None:
        """Note the end of a transaction, and check that its producer was not fenced if it was confirmed."""
        assert ended.outcome in (Outcome.OPEN, Outcome.IN_DOUBT), "a transaction ends once"
        ended.outcome = outcome
        self.counts[f"transactions {outcome.value}"] += 1
        highest = self._epochs[ended.transactional_id].before(sent)
        if outcome is Outcome.COMMITTED and highest > ended.producer.epoch:
            producer = f"{ended.transactional_id} of epoch {ended.producer.epoch}"
            self.fenced.violate(f"{producer} commits transaction {ended.number} after epoch {highest}")

    def on_sent(self, value: bytes, record: SentRecord) -> None:
        """Note a record that may be in the log from now on."""
        assert value not in self.records, f"{value!r} is sent twice"
        self.records[value] = record

    def on_acknowledged(self, value: bytes, offset: int | None) -> None:
        """Note a record that is in the log; None for an offset that the answer does not tell."""
        record = self.records[value]
        record.offset = offset if offset is not None else NO_OFFSET
        self.counts["records acknowledged to idempotent producers"] += 1
        if record.transaction is not None:
            record.transaction.acknowledged.append(value)

    # -- readers

    def on_read(self, reader: str, partition: TopicPartition, record: LogRecord) -> None:
        """Check a record that a consumer of committed transactions reads."""
        self.counts["committed records read"] += 1
        self._check_place(partition, record)
        sent = self.records.get(record.value or b"")
        if sent is not None and sent.transaction is not None and not sent.transaction.outcome.may_be_committed:
            self.atomic.violate(
                f"{reader} reads {record.value!r} of {partition} at {record.offset};"
                f" transaction {sent.transaction.number} is {sent.transaction.outcome.value}"
            )
        places = self.read_by.setdefault(reader, {}).setdefault(partition, [])
        if places and places[-1][0] >= record.offset:
            self.once.violate(f"{reader} reads offset {record.offset} of {partition} after {places[-1][0]}")
        places.append((record.offset, record.value or b""))

    def on_left_out(self, reader: str, partition: TopicPartition, offset: int, start: int) -> None:
        """Note that a consumer at an offset goes on at the log start of its leader.

        The records between may be read again from the next leader: a leader raises its log start offset at once, and
        is gone before its followers have heard of it (Partition.deleteRecordsOnLeader, DelayedDeleteRecords; 0.11 on).
        """
        self.left_out.setdefault((reader, partition), []).append(range(offset, start))

    def _check_place(self, partition: TopicPartition, record: LogRecord) -> None:
        """Check that an offset has one value, and a value of an idempotent producer one offset."""
        value = record.value
        known = self._values.setdefault((partition, record.offset), value)
        if known != value:
            self.once.violate(f"{partition} has {value!r} at {record.offset}, and had {known!r}")
        if value is None or value not in self.records:
            return
        offset = self._offsets.setdefault(value, record.offset)
        sent = self.records[value]
        wanted = offset if sent.offset in (None, NO_OFFSET) else sent.offset
        if {offset, record.offset} != {wanted} or sent.partition != partition:
            self.once.violate(f"{value!r} is in {partition} at {record.offset}, and at {wanted} of {sent.partition}")

    # -- deletion

    def on_delete_sent(self, partition: TopicPartition, offset: int) -> None:
        """Note how far records may be deleted from now on."""
        self.asked_to_delete[partition] = max(offset, self.asked_to_delete.get(partition, 0))

    def on_deleted(self, partition: TopicPartition, offset: int, low_watermark: int, *, broker: int) -> None:
        """Note that a leader has deleted the records below an offset, and check the log start offset in its answer."""
        if not offset <= low_watermark <= self.asked_to_delete[partition]:
            self.log_start.violate(f"{partition} is deleted to {low_watermark} after a request to {offset}")
        self.counts["deletions of records"] += 1
        self.deleted_to.setdefault((partition, broker), _Highest()).note(self.moment(), offset)

    def on_log_start(self, partition: TopicPartition, offset: int, *, broker: int, sent: int) -> None:
        """Check the log start offset in an answer of a leader.

        Another leader may have an older one: a replica that was not live when records were deleted joins the ISR with
        its first fetch, and is told the log start offset with the answer, which waits for records.
        """
        deleted = self.deleted_to.get((partition, broker))
        least = 0 if deleted is None else max(0, deleted.before(sent))
        most = self.asked_to_delete.get(partition, 0)
        if not least <= offset <= most:
            self.log_start.violate(
                f"the log of {partition} begins at {offset}; it was deleted to {least}, {most} was asked"
            )

    # -- the end

    def judge_log(self, partition: TopicPartition, start: int, records: Sequence[LogRecord], *, compacts: bool) -> None:
        """Check the whole log of a partition, after all clients have ended and all transactions too."""
        last: dict[str, tuple[int, bytes]] = {}
        for record in records:
            self._check_place(partition, record)
            sent = self.records.get(record.value or b"")
            if sent is None or record.value is None:
                continue
            before, value = last.get(sent.producer, (-1, b""))
            if sent.place < before:
                self.once.violate(f"{partition} has {record.value!r} at {record.offset} after {value!r}")
            last[sent.producer] = sent.place, record.value
        if compacts:
            self._judge_keys(partition, records)
            return
        present = {record.value for record in records}
        for value, sent in self.records.items():
            if (
                sent.partition == partition
                and sent.offset is not None
                and value not in present
                and sent.offset >= start
            ):
                self.log_start.violate(f"{partition} has lost {value!r} at {sent.offset}; its log begins at {start}")
        committed = [(one.offset, one.value or b"") for one in records if one.is_committed]
        for reader, read in self.read_by.items():
            seen = [one for one in read.get(partition, ()) if one[0] >= start]
            if seen:
                known = [one for one in committed if seen[0][0] <= one[0] <= seen[-1][0]]
                left_out = self.left_out.get((reader, partition), ())
                wanted = [one for one in known if not any(one[0] in offsets for offsets in left_out)]
                self.counts["records that only a former leader had deleted"] += len(known) - len(wanted)
                if seen != wanted:
                    odd = min(set(seen) ^ set(wanted))
                    self.atomic.violate(f"{reader} has read {partition} otherwise than it is, first at {odd}")

    def _judge_keys(self, partition: TopicPartition, records: Sequence[LogRecord]) -> None:
        """Check that the last value of each key is the newest that was acknowledged, or a later one."""
        found: dict[bytes | None, int] = {}
        for record in records:
            sent = self.records.get(record.value or b"")
            if record.value is None:
                found.pop(record.key, None)
            elif sent is not None:
                found[record.key] = sent.place
        newest: dict[bytes | None, tuple[int, bool]] = {}
        later_tombstone: dict[bytes | None, int] = {}
        for sent in self.records.values():
            if sent.partition != partition or sent.key is None:
                continue
            if sent.offset is not None and sent.place > newest.get(sent.key, (-1, False))[0]:
                newest[sent.key] = sent.place, sent.is_tombstone
            if sent.is_tombstone:
                later_tombstone[sent.key] = max(sent.place, later_tombstone.get(sent.key, -1))
        for key, (place, is_tombstone) in newest.items():
            is_gone = key not in found
            may_be_gone = is_tombstone or later_tombstone.get(key, -1) > place
            if (is_gone and not may_be_gone) or (not is_gone and found[key] < place):
                has = "nothing" if is_gone else f"value {found[key]}"
                self.newest_kept.violate(f"{partition} has {has} of key {key!r}; value {place} was acknowledged")

    def judge_transactions(self, logs: Mapping[TopicPartition, tuple[int, Sequence[LogRecord]]]) -> None:
        """Check that each transaction is in the logs as a whole, or aborted as a whole."""
        committed = {one.value for _, records in logs.values() for one in records if one.is_committed}
        aborted = {one.value for _, records in logs.values() for one in records if not one.is_committed}
        for one in self.transactions:
            values = [value for value in one.acknowledged if self._is_kept(value, logs)]
            read = [value for value in values if value in committed]
            if one.outcome is Outcome.COMMITTED and len(read) < len(values):
                lacking = next(value for value in values if value not in committed)
                state = "aborted" if lacking in aborted else "missing"
                self.atomic.violate(f"transaction {one.number} is committed, but {lacking!r} is {state}")
            elif read and not one.outcome.may_be_committed:
                self.atomic.violate(f"transaction {one.number} is {one.outcome.value}, but {read[0]!r} is committed")
            elif read and len(read) < len(values):
                self.atomic.violate(f"transaction {one.number} has {len(read)} of {len(values)} records committed")

    def judge_offsets(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Check the offset that transactions of one transactional id have committed, when all have ended."""
        sent = [one for one in self.transactions if one.transactional_id == group and partition in one.offsets]
        least = max((one.offsets[partition] for one in sent if one.outcome is Outcome.COMMITTED), default=NO_OFFSET)
        possible = {one.offsets[partition] for one in sent if one.outcome.may_be_committed}
        if offset < least or offset not in possible | {NO_OFFSET}:
            self.atomic.violate(f"{group} has offset {offset} of {partition}; its transactions have committed {least}")

    def _is_kept(self, value: bytes, logs: Mapping[TopicPartition, tuple[int, Sequence[LogRecord]]]) -> bool:
        """Return whether a record is not deleted."""
        sent = self.records[value]
        return sent.partition in logs and (sent.offset or 0) >= logs[sent.partition][0]
