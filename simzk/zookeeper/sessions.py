"""Sessions: their ids, their passwords, and when they expire (§1.3, §1.8).

Rules of this module:
  - a session lives from its transaction to the transaction that closes it; connections come and go;
  - it expires on a tick of the server's clock: the first one after its timeout has run (`expiry_of`);
  - sessions of one tick expire in the order in which they were last touched; the real server has no order there.

Source: SessionTrackerImpl, ExpiryQueue, ZooKeeperServer.generatePasswd.
"""

from __future__ import annotations

from simzk.jvm.java_random import JavaRandom
from simzk.zookeeper.znode import int64

_PASSWORD_SALT = 0xB3415C00


def password_of(session_id: int) -> bytes:
    """The 16 bytes by which a client shows that a session is its own: `java.util.Random` seeded by the id (§1.3).

    >>> password_of(1).hex()
    '054cc74a37327db215e702e20c73f005'
    """
    return JavaRandom(session_id ^ _PASSWORD_SALT).next_bytes(16)


def first_session_id(server_id: int, now_ms: int) -> int:
    """The id of the first session of a server started now; later ones count up from it.

    >>> hex(first_session_id(1, 0x1234))
    '0x100000012340000'
    """
    return int64(((now_ms << 24) & 0xFFFFFFFFFFFFFFFF) >> 8 | server_id << 56)


class Session:
    """One live session."""

    __slots__ = ("expiry_ms", "session_id", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int) -> None:
        self.session_id: int = session_id
        self.timeout_ms: int = timeout_ms
        self.expiry_ms: int = -1

    def __repr__(self) -> str:
        return f"Session(0x{self.session_id:x}, timeout_ms={self.timeout_ms}, expiry_ms={self.expiry_ms})"


class SessionTracker:
    """The live sessions of a server, in buckets of one tick by when they expire.

    Args:
        tick_ms: the server's tick.
        first_id: the id of the first session.
    """

    def __init__(self, tick_ms: int, first_id: int) -> None:
        assert tick_ms > 0
        self._tick_ms = tick_ms
        self._next_id = first_id
        self._sessions: dict[int, Session] = {}
        self._buckets: dict[int, dict[int, Session]] = {}
        self._first_ms: int | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def get(self, session_id: int) -> Session | None:
        """The session of this id, or None where it never was or is no more."""
        return self._sessions.get(session_id)

    def ids(self) -> list[int]:
        """The ids of all live sessions, oldest first."""
        return list(self._sessions)

    def timeouts_ms(self) -> list[tuple[int, int]]:
        """The live sessions with the timeouts that they were made with, oldest first: what a snapshot keeps."""
        return [(session.session_id, session.timeout_ms) for session in self._sessions.values()]

    def new_id(self) -> int:
        """An id that no session of this server has."""
        while self._next_id in self._sessions:
            # Sessions of an earlier life of the server whose clock stood where this one's does.
            self._next_id = int64(self._next_id + 1)
        session_id = self._next_id
        self._next_id = int64(session_id + 1)
        return session_id

    def expiry_of(self, now_ms: int, timeout_ms: int) -> int:
        """The tick on which a session touched now expires: at the earliest after its timeout, at most a tick later."""
        return ((now_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms

    def add(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """A new session (or one known from elsewhere) lives from now on; one that is there has another timeout."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.timeout_ms = timeout_ms
            if timeout_ms < 0:
                return session  # the real server forgets it, until it is heard of again
        else:
            session = self._sessions[session_id] = Session(session_id, timeout_ms)
        self.touch(session, now_ms, timeout_ms)
        return session

    def touch(self, session: Session, now_ms: int, timeout_ms: int) -> None:
        """The session's client was heard: it has its whole timeout again."""
        expiry_ms = self.expiry_of(now_ms, timeout_ms)
        if expiry_ms != session.expiry_ms:
            self._leave_bucket(session)
            session.expiry_ms = expiry_ms
            bucket = self._buckets.get(expiry_ms)
            if bucket is None:
                bucket = self._buckets[expiry_ms] = {}
                if self._first_ms is None or expiry_ms < self._first_ms:
                    self._first_ms = expiry_ms
            bucket[session.session_id] = session

    def remove(self, session_id: int) -> None:
        """The session is over."""
        self._leave_bucket(self._sessions.pop(session_id))

    def _leave_bucket(self, session: Session) -> None:
        bucket = self._buckets.get(session.expiry_ms)
        if bucket is not None:
            bucket.pop(session.session_id, None)
            if not bucket:
                del self._buckets[session.expiry_ms]
                if session.expiry_ms == self._first_ms:
                    # There are at most (longest timeout / tick) buckets, a few dozen.
                    self._first_ms = min(self._buckets, default=None)

    def next_expiry_ms(self) -> int | None:
        """When the next session expires if nobody is heard of, or None."""
        return self._first_ms

    def due(self, now_ms: int) -> list[Session]:
        """The sessions that expire by now, by tick."""
        return [
            session
            for expiry_ms in sorted(self._buckets)
            if expiry_ms <= now_ms
            for session in self._buckets[expiry_ms].values()
        ]

    def check(self) -> None:
        """Assert all invariants of the structure."""
        bucketed = [(expiry_ms, session) for expiry_ms, bucket in self._buckets.items() for session in bucket.values()]
        assert all(self._buckets.values()), "an empty bucket is dropped"
        assert len(bucketed) == len(self._sessions)
        assert self._first_ms == min(self._buckets, default=None)
        for expiry_ms, session in bucketed:
            assert expiry_ms == session.expiry_ms
            assert expiry_ms % self._tick_ms == 0
            assert self._sessions[session.session_id] is session
