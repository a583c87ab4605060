"""Fetch sessions of clients: requests that name only what changed, without I/O (FetchManager, KIP-227).

Rules of this module (recorded 1.1 to 3.9):
  - epoch -1 is a request without a session, and ends the named one; epoch 0 begins a session with all its partitions;
  - a later request has the next epoch; another one is INVALID_FETCH_SESSION_EPOCH, an unknown session
    FETCH_SESSION_ID_NOT_FOUND. A session without partitions ends;
  - a session names topics by id (version 13 and later) or by name, as its first request does; a later one that does
    otherwise is FETCH_SESSION_TOPIC_ID_ERROR. An id keeps the first name that it had, also when the topic is deleted;
    after a topic is made again, a session may have its old id and its new one (CachedPartition);
  - the response to a later request leaves out partitions without records, errors or new watermarks;
  - a session begins with the response to its first request, which also orders its partitions;
  - there are at most `max.incremental.fetch.session.cache.slots` sessions. A new one replaces the one that was not used
    for the longest time, if that is more than two minutes. Else it replaces the smallest one that has fewer partitions
    and is older than that, or, as a follower's, any one of a client (FetchSessionCache.tryEvict);
  - from 3.8 on there are eight caches of an eighth of the slots, which get new sessions in turn (KAFKA-9401).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_SESSION = 0
SLOTS = "max.incremental.fetch.session.cache.slots"
EVICTED_AFTER_MS = 120_000
"""KafkaServer.MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS."""
_MAX_EPOCH = 2**31 - 1
FetchKey: TypeAlias = tuple[str, int]
"""A partition of a fetch: the id of its topic, or its name where the request has no ids, and its number."""


class AskedPartition(NamedTuple):
    """One partition of a fetch.

    Args:
        topic: name of the topic; None if its id is unknown.
        offset: the first offset.
        max_bytes: size of the records, except for the first batch.
        leader_epoch: leader epoch that the client knows; -1 if it names none.
        last_epoch: epoch of the last record that it has; -1 if it names none.
        topic_id: id of the topic, if the request names it by that.
    """

    topic: str | None
    offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_epoch: int = -1
    topic_id: str = ""


class Sent(NamedTuple):
    """Offsets that the last response named: high watermark and log start offset."""

    high_watermark: int
    log_start: int


@dataclass(slots=True)
class ClientSession:
    """Fetch session of one client.

    Attributes:
        is_privileged: whether it is that of a follower.
        began_ms, used_ms: when it began and was last used.
        size: number of its partitions when it was last used.
    """

    id: int
    uses_topic_ids: bool = False
    is_privileged: bool = False
    began_ms: int = 0
    epoch: int = INITIAL_EPOCH
    partitions: dict[FetchKey, AskedPartition] = field(default_factory=dict)
    sent: dict[FetchKey, Sent] = field(default_factory=dict)
    used_ms: int = 0
    size: int = 0

    def use(self, now_ms: int) -> None:
        """Advance the epoch, and note the time and the number of partitions."""
        self.used_ms, self.size = now_ms, len(self.partitions)
        self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The place among sessions that may be replaced, the first one first."""
        return self.is_privileged, self.size, self.id

    def may_be_replaced(self, *, by_follower: bool) -> bool:
        """Return whether a session with a higher rank may replace it, by what it was when it was last used."""
        return self.used_ms - self.began_ms > EVICTED_AFTER_MS or (by_follower and not self.is_privileged)

    def is_due(self, partition: FetchKey, now: Sent, *, has_news: bool, has_records: bool) -> bool:
        """Return whether a response names a partition, and note what it then says.

        Args:
            partition: the partition.
            now: its present offsets.
            has_news: whether there are records, an error or a diverging epoch.
            has_records: whether there are records.
        """
        is_due = has_news or self.sent.get(partition) != now
        self.sent[partition] = now
        if has_records and partition in self.partitions:  # served last next time, so that none starves
            self.partitions[partition] = self.partitions.pop(partition)
        return is_due

    def update(self, asked: Mapping[FetchKey, AskedPartition], name_of: Callable[[str], str | None]) -> None:
        """Add or change the partitions that a request names, and resolve ids that were unknown before."""
        for key, one in asked.items():
            known = self.partitions.get(key)
            self.partitions[key] = one if known is None or known.topic is None else one._replace(topic=known.topic)
        for key, one in self.partitions.items():
            if one.topic is None:
                self.partitions[key] = one._replace(topic=name_of(one.topic_id))


class Fetching(NamedTuple):
    """What a request fetches.

    Args:
        partitions: the partitions in order.
        session: its session; None without one.
        opens: whether a session begins with the response.
        epoch: the epoch of the session after this request.
    """

    partitions: Mapping[FetchKey, AskedPartition]
    session: ClientSession | None = None
    opens: bool = False
    epoch: int = FINAL_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether all partitions are answered."""
        return self.session is None


class FetchSessionCache:
    """Fetch sessions of the clients of one broker.

    Args:
        slots: how many there can be.
        shards: number of caches that share the slots.
        new_id: returns a positive number that no other session has.
        name_of: returns the name of the topic with an id; None if it is unknown.
    """

    def __init__(
        self, slots: int, shards: int, new_id: Callable[[], int], name_of: Callable[[str], str | None]
    ) -> None:
        assert shards > 0, "there is a cache"
        self._shards: tuple[dict[int, ClientSession], ...] = tuple({} for _ in range(shards))
        self._slots = slots // shards
        self._opened = 0
        self._new_id = new_id
        self._name_of = name_of

    @property
    def sessions(self) -> dict[int, ClientSession]:
        """All sessions by id."""
        return {number: session for shard in self._shards for number, session in shard.items()}

    def begin(
        self,
        session_id: int,
        epoch: int,
        asked: Mapping[FetchKey, AskedPartition],
        forgotten: Iterable[FetchKey],
        now_ms: int,
        *,
        uses_topic_ids: bool = False,
    ) -> Fetching | ErrorCode:
        """Return what a request fetches, or the error that rejects it.

        Args:
            session_id, epoch: the session that the request names.
            asked: the partitions that it names, in order.
            forgotten: partitions that it removes from the session.
            now_ms: the present time.
            uses_topic_ids: whether the request names topics by id.
        """
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(session_id)
            return Fetching(asked, opens=epoch == INITIAL_EPOCH)
        session = self.sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(asked, self._name_of)
        for partition in forgotten:
            session.partitions.pop(partition, None)
            session.sent.pop(partition, None)
        if not session.partitions:
            self._end(session_id)
            return Fetching(asked)
        assert session.id == session_id, f"session {session.id} is kept as {session_id}"
        session.use(now_ms)
        return Fetching(dict(session.partitions), session, epoch=session.epoch)

    def _end(self, session_id: int) -> None:
        for shard in self._shards:
            shard.pop(session_id, None)

    def open(
        self,
        asked: Mapping[FetchKey, AskedPartition],
        sent: Mapping[FetchKey, Sent],
        now_ms: int,
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
    ) -> int:
        """Begin a session with a response; return its id, or `NO_SESSION` if there are too many.

        Args:
            asked: the partitions of the request.
            sent: what the response says of them, in the order of later responses.
            now_ms: the present time.
            is_privileged: whether a follower asks.
            uses_topic_ids: whether the request names topics by id.
        """
        shard = self._shards[self._opened % len(self._shards)]
        self._opened += 1
        if len(shard) >= self._slots and not _evict(shard, (is_privileged, len(sent), 0), now_ms):
            return NO_SESSION
        session = ClientSession(self._new_id(), uses_topic_ids, is_privileged, now_ms)
        assert session.id != NO_SESSION, "this id stands for no session"
        assert session.id not in self.sessions, f"session {session.id} exists"
        session.partitions, session.sent = {key: asked[key] for key in sent}, dict(sent)
        session.use(now_ms)
        shard[session.id] = session
        return session.id


def _evict(sessions: dict[int, ClientSession], rank: tuple[bool, int, int], now_ms: int) -> bool:
    """Remove a session for one with a rank; return whether there was one that may be removed."""
    oldest = min(sessions.values(), key=lambda session: (session.used_ms, session.id), default=None)
    if oldest is None:
        return False
    if now_ms - oldest.used_ms <= EVICTED_AFTER_MS:
        replaceable = (one for one in sessions.values() if one.may_be_replaced(by_follower=rank[0]))
        smallest = min(replaceable, key=lambda session: session.rank, default=None)
        if smallest is None or rank < smallest.rank:
            return False
        oldest = smallest
    del sessions[oldest.id]
    return True
