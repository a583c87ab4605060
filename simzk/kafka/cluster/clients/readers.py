"""Consumers in virtual time that read by fetch sessions, and what a consumer makes of the bytes of a log.

Rules of this module (FetchSessionHandler, CompletedFetch; KIP-227):
  - a session reader asks three times, on one connection, without waiting: by a full request, by its session, by a full
    request. Where both full answers are equal, what the session says, with all it said before, must be equal to them;
  - a reader of committed records skips those of aborted transactions, up to their markers;
  - a reader whose offset is below the log start of its leader goes on there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.kafka.cluster.clients.wire import WireClient
from simzk.kafka.log.record_batches import decode_entry, entry_header, split_entries
from simzk.kafka.observation.client_ledger import LogRecord
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from simzk.kafka.rpc import Disconnected
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simzk.kafka.cluster.clients.wire import Ports
    from simzk.kafka.observation.client_ledger import ClientLedger
    from simzk.simulation import Process

EARLIEST, LATEST = -2, -1
"""Timestamps that stand for the log start and for the end of what the isolation level allows to read."""
LIST_OFFSETS = 7
FETCH, WITH_TOPIC_IDS = 17, 13
"""Highest version of Fetch, and the first one that names topics by their ids."""
COMMITTED, UNCOMMITTED = 1, 0
"""Isolation levels."""
NO_SESSION, FINAL_EPOCH, INITIAL_EPOCH = 0, -1, 0
MAX_BYTES: Final = 65_536
PAUSES_IN: Final = 6
"""In one of so many fetches a partition is left out, as a consumer does that has paused it."""
FEW_BYTES: Final = 400
"""Size of the records of one partition in an answer: a few batches."""
_LENGTH_AT, _LENGTH_END = 8, 12


class Answered(NamedTuple):
    """One partition in an answer to a fetch."""

    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    records: bytes
    aborted: tuple[tuple[int, int], ...]

    @property
    def offsets(self) -> tuple[int, int, int]:
        """High watermark, last stable offset and log start offset."""
        return self.high_watermark, self.last_stable_offset, self.log_start


def whole_entries(data: bytes) -> list[memoryview]:
    """Return the whole batches at the beginning of some data; the last one may be cut."""
    at = 0
    while len(data) - at >= _LENGTH_END:
        size = int.from_bytes(data[at + _LENGTH_AT : at + _LENGTH_END], "big") + _LENGTH_END
        if len(data) - at < size:
            break
        at += size
    return split_entries(data[:at])


@dataclass(slots=True)
class LogReader:
    """Reader of the fetched batches of one partition, with the state that a consumer keeps.

    Attributes:
        position: the next offset.
        aborted: producers whose transaction is aborted at the position.
    """

    position: int = 0
    aborted: set[int] = field(default_factory=set)

    def read(self, answered: Answered) -> Iterator[LogRecord]:
        """Yield the records of an answer, also those of aborted transactions, and move on."""
        listed = sorted(answered.aborted, key=lambda one: one[1])
        for entry in whole_entries(answered.records):
            header = entry_header(entry)
            end = header.base_offset + header.last_offset_delta + 1
            if end <= self.position:
                continue
            while listed and listed[0][1] <= header.base_offset:
                self.aborted.add(listed.pop(0)[0])
            if header.is_control:
                self.aborted.discard(header.producer_id)
            else:
                is_committed = not (header.is_transactional and header.producer_id in self.aborted)
                for record in decode_entry(entry):
                    if record.offset >= self.position:
                        yield LogRecord(record.offset, record.key, record.value, is_committed)
            self.position = end


class FetchingClient(WireClient):
    """A client that fetches records and lists offsets."""

    async def list_offset(
        self, broker: int, partition: TopicPartition, timestamp: int, isolation: int = UNCOMMITTED
    ) -> int | None:
        """Return an offset that a broker tells; None if it has an error. Raise `Disconnected` without an answer."""
        part = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=partition.topic, partitions=[part])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic])
        found = (await self.call(broker, request, ListOffsetsResponse, LIST_OFFSETS)).topics[0].partitions[0]
        return None if found.error_code else found.offset

    def fetch_request(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        isolation: int,
        session: tuple[int, int] = (NO_SESSION, FINAL_EPOCH),
        forgotten: Sequence[TopicPartition] = (),
        max_bytes: int = MAX_BYTES,
        highest: int = FETCH,
    ) -> FetchRequest:
        """Return a request that does not wait for records."""
        one, topics = FetchRequest.FetchPartition, dict[str, list[FetchRequest.FetchPartition]]()
        for partition, offset in positions.items():
            part = one(partition=partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
            topics.setdefault(partition.topic, []).append(part)
        by_id = self.ports.version(1, highest) >= WITH_TOPIC_IDS
        gone, asked, ids = FetchRequest.ForgottenTopic, FetchRequest.FetchTopic, self.topic_ids
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=[
                asked(topic="" if by_id else name, topic_id=ids[name], partitions=parts)
                for name, parts in topics.items()
            ],
            forgotten_topics_data=[
                gone(topic="" if by_id else one.topic, topic_id=ids[one.topic], partitions=[one.partition])
                for one in forgotten
            ],
        )

    def answered(self, response: FetchResponse) -> dict[TopicPartition, Answered]:
        """Return what an answer says of each partition that it names."""
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        found: dict[TopicPartition, Answered] = {}
        for topic in response.responses:
            for part in topic.partitions:
                aborted = tuple((one.producer_id, one.first_offset) for one in part.aborted_transactions or ())
                found[TopicPartition(topic.topic or names.get(topic.topic_id, ""), part.partition_index)] = Answered(
                    part.error_code,
                    part.high_watermark,
                    part.last_stable_offset,
                    part.log_start_offset,
                    bytes(part.records or b""),
                    aborted,
                )
        return found


class SessionReader(FetchingClient):
    """A consumer that reads partitions of one topic by a fetch session with one broker after another.

    Args:
        process, ports, ledger: as of every client.
        partitions: what it reads.
        gap_us: time between two fetches.
        highest: highest version of Fetch that it speaks.
    """

    def __init__(
        self,
        process: Process,
        ports: Ports,
        ledger: ClientLedger,
        *,
        partitions: Sequence[TopicPartition],
        gap_us: int,
        highest: int,
    ) -> None:
        super().__init__(process, ports)
        self._ledger = ledger
        self._gap_us = gap_us
        self._highest = highest
        self._readers = {partition: LogReader() for partition in partitions}
        self._session = (NO_SESSION, INITIAL_EPOCH)
        self._asked: dict[TopicPartition, int] = {}  # the offsets that the broker has for the session
        self._said: dict[TopicPartition, tuple[int, int, int]] = {}  # the offsets that the session has said last
        self._lost: dict[TopicPartition, None] = {}  # partitions whose log does not have the position
        self._broker = -1
        process.spawn(self._run(), "session reader")

    async def _run(self) -> None:
        while True:
            await self.process.sleep(self._gap_us)
            try:
                led = await self._led_partitions()
                if len(led) > 1 and not self.stream.below(PAUSES_IN):
                    led.pop(self.stream.choice(list(led)))
                if not led:  # no leader is known
                    continue
                await self._fetch(led)
                for partition in list(self._lost):
                    await self._find_position(partition)
            except Disconnected:
                self._begin_anew()

    def _begin_anew(self) -> None:
        self._session, self._broker = (NO_SESSION, INITIAL_EPOCH), -1
        self._asked, self._said = {}, {}
        for partition in self._readers:
            self.forget_leader(partition)

    async def _led_partitions(self) -> dict[TopicPartition, LogReader]:
        """Return the partitions of the broker that leads the first of them, or leads most of its session."""
        leaders = {partition: await self.leader(partition) for partition in self._readers}
        broker = self._broker if self._broker in leaders.values() else next(iter(leaders.values()))
        if broker is None:
            return {}
        if broker != self._broker:
            self._session, self._broker, self._asked, self._said = (NO_SESSION, INITIAL_EPOCH), broker, {}, {}
        return {one: self._readers[one] for one, leader in leaders.items() if leader == broker}

    async def _fetch(self, led: Mapping[TopicPartition, LogReader]) -> None:
        """Fetch by the session, between two full fetches, and compare."""
        positions = {partition: reader.position for partition, reader in led.items()}
        if self._session[1] == INITIAL_EPOCH:
            changed, forgotten = positions, []
        else:
            changed = {one: offset for one, offset in positions.items() if self._asked.get(one) != offset}
            forgotten = [one for one in self._asked if one not in positions]
            for one in forgotten:  # when it is added again, the session has to name it, changed or not
                self._said.pop(one, None)
        full = self.fetch_request(positions, isolation=COMMITTED, max_bytes=FEW_BYTES, highest=self._highest)
        by_session = self.fetch_request(
            changed,
            isolation=COMMITTED,
            session=self._session,
            forgotten=forgotten,
            max_bytes=FEW_BYTES,
            highest=self._highest,
        )
        sent, broker, highest = self._ledger.moment(), self._broker, self._highest
        calls = [self.call(broker, one, FetchResponse, highest) for one in (full, by_session, full)]
        before, found, after = [await one for one in calls]
        if found.error_code:
            self._note_error(found.error_code)
            return
        full_before, full_after = self.answered(before), self.answered(after)
        if any(one.error == ErrorCode.UNKNOWN_TOPIC_ID for one in full_before.values()):  # the broker has just started
            self._begin_anew()
            return
        self._asked = positions
        if found.session_id != NO_SESSION and self._session[1] != INITIAL_EPOCH != found.session_id:
            assert found.session_id == self._session[0], "a session keeps its id"
        is_first = self._session[1] == INITIAL_EPOCH
        self._session = (found.session_id, self._session[1] + 1) if found.session_id else (NO_SESSION, INITIAL_EPOCH)
        self._ledger.counts["incremental fetches"] += not is_first
        answers = self.answered(found)
        if not answers.keys() <= led.keys():
            odd = ", ".join(map(str, answers.keys() - led.keys()))
            self._ledger.sessions.violate(f"{self._session} of broker {broker} answers for {odd}, which it forgot")
        for partition in led:
            if full_before.get(partition) == full_after.get(partition):
                self._compare(partition, answers.get(partition), full_before.get(partition), is_first=is_first)
        self._note_answers({one: answers[one] for one in led if one in answers}, sent)

    def _note_error(self, code: int) -> None:
        """Begin anew; a session whose broker lives on must be known, and its epoch be the next."""
        if code == ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            self._ledger.sessions.violate(f"broker {self._broker} refuses the next epoch of session {self._session}")
        self._session = (NO_SESSION, INITIAL_EPOCH)
        self._asked, self._said = {}, {}

    def _compare(
        self, partition: TopicPartition, by_session: Answered | None, full: Answered | None, *, is_first: bool
    ) -> None:
        """Compare what the session says of a partition, now or by leaving it out, with a full answer."""
        if full is None:
            self._ledger.sessions.violate(f"a full fetch from broker {self._broker} has no answer for {partition}")
            return
        if by_session is None:
            said = self._said.get(partition)
            if is_first or full.error or full.records or said != full.offsets:
                self._ledger.sessions.violate(
                    f"{self._session} of broker {self._broker} says nothing of {partition}, which has"
                    f" {full.offsets}, error {full.error} and {len(full.records)} bytes; it has said {said}"
                )
        elif by_session.offsets != full.offsets or by_session.error != full.error:
            self._ledger.sessions.violate(
                f"{self._session} of broker {self._broker} says {by_session.offsets} of {partition}, not {full.offsets}"
            )
        elif by_session.records != full.records:
            self._ledger.sessions.violate(
                f"{self._session} of broker {self._broker} has {len(by_session.records)} bytes of {partition}"
                f" at {self._readers[partition].position}, not {len(full.records)}"
            )

    def _note_answers(self, answers: Mapping[TopicPartition, Answered], sent: int) -> None:
        for partition, answered in answers.items():
            self._said[partition] = answered.offsets
            if answered.error:
                self._note_partition_error(partition, answered)
                continue
            self._ledger.on_log_start(partition, answered.log_start, broker=self._broker, sent=sent)
            for record in self._readers[partition].read(answered):
                if record.is_committed:
                    self._ledger.on_read(self.process.name, partition, record)

    def _note_partition_error(self, partition: TopicPartition, answered: Answered) -> None:
        if answered.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._lost[partition] = None
        else:
            self.forget_leader(partition)

    async def _find_position(self, partition: TopicPartition) -> None:
        """Go on at the log start, if the position is below it."""
        sent = self._ledger.moment()
        start = await self.list_offset(self._broker, partition, EARLIEST)
        if start is not None:
            del self._lost[partition]
            self._ledger.on_log_start(partition, start, broker=self._broker, sent=sent)
            reader = self._readers[partition]
            if start > reader.position:
                self._ledger.on_left_out(self.process.name, partition, reader.position, start)
                reader.position, reader.aborted = start, set()
