"""Fetch sessions of clients: requests that name only what changed, without I/O (FetchManager, KIP-227).

Rules of this module (recorded 1.1 to 3.9):
  - epoch -1 is a request without a session, and ends the named one; epoch 0 begins a session with all its partitions;
  - a later request has the next epoch; another one is INVALID_FETCH_SESSION_EPOCH, an unknown session
    FETCH_SESSION_ID_NOT_FOUND. A session without partitions ends;
  - the response to a later request leaves out partitions without records, errors or new watermarks;
  - there are at most 1,000 sessions; a new one replaces one that was not used for two minutes, or has no session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from simzk.kafka.topic_partition import TopicPartition

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_SESSION = 0
SLOTS = 1000
"""`max.incremental.fetch.session.cache.slots`."""
EVICTED_AFTER_MS = 120_000
"""`min.incremental.fetch.session.eviction.ms`."""
_MAX_EPOCH = 2**31 - 1


class AskedPartition(NamedTuple):
    """One partition of a fetch.

    Args:
        offset: the first offset.
        max_bytes: size of the records, except for the first batch.
        leader_epoch: leader epoch that the client knows; -1 if it names none.
        last_epoch: epoch of the last record that it has; -1 if it names none.
        topic_id: id of the topic, if the request names it by that.
    """

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
    """Fetch session of one client."""

    id: int
    epoch: int = INITIAL_EPOCH
    partitions: dict[TopicPartition, AskedPartition] = field(default_factory=dict)
    sent: dict[TopicPartition, Sent] = field(default_factory=dict)
    used_ms: int = 0

    def is_due(self, partition: TopicPartition, now: Sent, *, has_news: bool) -> bool:
        """Return whether a response names a partition, and note what it then says.

        Args:
            partition: the partition.
            now: its present offsets.
            has_news: whether there are records, an error or a diverging epoch.
        """
        is_due = has_news or self.sent.get(partition) != now
        self.sent[partition] = now
        if has_news and partition in self.partitions:  # served last next time, so that none starves
            self.partitions[partition] = self.partitions.pop(partition)
        return is_due


class Fetching(NamedTuple):
    """Partitions of a request in order, its session (None without one), and whether all partitions are answered."""

    partitions: Mapping[TopicPartition, AskedPartition]
    session: ClientSession | None
    is_full: bool


class FetchSessionCache:
    """Fetch sessions of the clients of one broker.

    Args:
        new_id: returns a positive number that no other session has.
    """

    def __init__(self, new_id: Callable[[], int]) -> None:
        self.sessions: dict[int, ClientSession] = {}
        self._new_id = new_id

    def begin(
        self,
        session_id: int,
        epoch: int,
        asked: Mapping[TopicPartition, AskedPartition],
        forgotten: Iterable[TopicPartition],
        now_ms: int,
    ) -> Fetching | ErrorCode:
        """Return what a request fetches, or the error that rejects it.

        Args:
            session_id, epoch: the session that the request names.
            asked: the partitions that it names, in order.
            forgotten: partitions that it removes from the session.
            now_ms: the present time.
        """
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self.sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return Fetching(asked, None, True)
            session = self._opened(now_ms)
            if session is not None:
                session.partitions = dict(asked)
            return Fetching(asked, session, True)
        session = self.sessions.get(session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.partitions.update(asked)
        for partition in forgotten:
            session.partitions.pop(partition, None)
            session.sent.pop(partition, None)
        if not session.partitions:
            del self.sessions[session_id]
            return Fetching({}, None, True)
        assert session.id == session_id, f"session {session.id} is kept as {session_id}"
        self._use(session, now_ms)
        return Fetching(dict(session.partitions), session, False)

    def _opened(self, now_ms: int) -> ClientSession | None:
        """Return a new session; None if there are too many."""
        if len(self.sessions) >= SLOTS:
            oldest = next(iter(self.sessions.values()))
            if now_ms - oldest.used_ms <= EVICTED_AFTER_MS:
                return None
            del self.sessions[oldest.id]
        session = ClientSession(self._new_id())
        assert session.id != NO_SESSION, "this id stands for no session"
        assert session.id not in self.sessions, f"session {session.id} exists"
        self.sessions[session.id] = session
        self._use(session, now_ms)
        return session

    def _use(self, session: ClientSession, now_ms: int) -> None:
        """Advance the epoch, and move the session to the end of those that may be evicted."""
        session.used_ms = now_ms
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        self.sessions[session.id] = self.sessions.pop(session.id)
