"""Fetch sessions of clients: requests that name only what changed, without I/O (FetchManager, KIP-227).

Rules of this module (recorded 1.1 to 3.9):
  - epoch -1 is a request without a session, and ends the named one; epoch 0 begins a session with all its partitions;
  - a later request has the next epoch; another one is INVALID_FETCH_SESSION_EPOCH, an unknown session
    FETCH_SESSION_ID_NOT_FOUND. A session without partitions ends;
  - a session names topics by id (version 13 and later) or by name, as its first request does; a later one that does
    otherwise is FETCH_SESSION_TOPIC_ID_ERROR. An id keeps the first name that it had, also when the topic is deleted;
    after a topic is made again, a session may have its old id and its new one (CachedPartition);
  - the response to a later request leaves out partitions without records, errors or new watermarks;
  - there are at most 1,000 sessions; a new one replaces one that was not used for two minutes, or has no session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.kafka.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_SESSION = 0
SLOTS = 1000
"""`max.incremental.fetch.session.cache.slots`."""
EVICTED_AFTER_MS = 120_000
"""`min.incremental.fetch.session.eviction.ms`."""
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
    """Fetch session of one client."""

    id: int
    uses_topic_ids: bool = False
    epoch: int = INITIAL_EPOCH
    partitions: dict[FetchKey, AskedPartition] = field(default_factory=dict)
    sent: dict[FetchKey, Sent] = field(default_factory=dict)
    used_ms: int = 0

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

    def begin(self, sent: Mapping[FetchKey, Sent]) -> None:
        """Note the first response, which names all partitions; its order is that of later ones."""
        self.sent = dict(sent)
        self.partitions = {key: self.partitions[key] for key in sent if key in self.partitions}

    def update(self, asked: Mapping[FetchKey, AskedPartition], name_of: Callable[[str], str | None]) -> None:
        """Add or change the partitions that a request names, and resolve ids that were unknown before."""
        for key, one in asked.items():
            known = self.partitions.get(key)
            self.partitions[key] = one if known is None or known.topic is None else one._replace(topic=known.topic)
        for key, one in self.partitions.items():
            if one.topic is None:
                self.partitions[key] = one._replace(topic=name_of(one.topic_id))


class Fetching(NamedTuple):
    """Partitions of a request in order, its session (None without one), and whether all partitions are answered."""

    partitions: Mapping[FetchKey, AskedPartition]
    session: ClientSession | None
    is_full: bool


class FetchSessionCache:
    """Fetch sessions of the clients of one broker.

    Args:
        new_id: returns a positive number that no other session has.
        name_of: returns the name of the topic with an id; None if it is unknown.
    """

    def __init__(self, new_id: Callable[[], int], name_of: Callable[[str], str | None]) -> None:
        self.sessions: dict[int, ClientSession] = {}
        self._new_id = new_id
        self._name_of = name_of

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
            self.sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return Fetching(asked, None, True)
            session = self._opened(now_ms)
            if session is not None:
                session.partitions, session.uses_topic_ids = dict(asked), uses_topic_ids
            return Fetching(asked, session, True)
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
            del self.sessions[session_id]
            return Fetching(asked, None, True)
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
