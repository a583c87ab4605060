"""Sessions: ids, passwords and expiry (§1.3, §1.8).

Rules of this module:
  - a session is live from the transaction that creates it to the one that closes it, with or without connections;
  - it expires on the first tick of the server's clock after its timeout (`expiry_of`);
  - sessions of one tick expire in the order in which they were last touched; the real server defines no order.

Source: SessionTrackerImpl, ExpiryQueue, ZooKeeperServer.generatePasswd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.numbers import JavaRandom, wrapped_long

if TYPE_CHECKING:
    from collections.abc import Iterator

_PASSWORD_SALT = 0xB3415C00


def password_of(session_id: int) -> bytes:
    """Return the 16-byte password of a session: `java.util.Random` seeded by its id (§1.3).

    >>> password_of(1).hex()
    '054cc74a37327db215e702e20c73f005'
    """
    return JavaRandom(session_id ^ _PASSWORD_SALT).next_bytes(16)


def first_session_id(server_id: int, now_ms: int) -> int:
    """Return the id of the first session of a server that starts now; later ids count up from it.

    >>> hex(first_session_id(1, 0x1234))
    '0x100000012340000'
    """
    return wrapped_long(((now_ms << 24) & 0xFFFFFFFFFFFFFFFF) >> 8 | server_id << 56)


class Session:
    """Live session."""

    __slots__ = ("expiry_ms", "session_id", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int) -> None:
        self.session_id: int = session_id
        self.timeout_ms: int = timeout_ms
        self.expiry_ms: int = -1

    def __repr__(self) -> str:
        return f"Session(0x{self.session_id:x}, timeout_ms={self.timeout_ms}, expiry_ms={self.expiry_ms})"


class SessionTracker:
    """Live sessions of a server, in buckets of one tick by expiry time.

    Args:
        tick_ms: tick of the server.
        first_id: id of the first session.
        origin_ms: time at which the first tick begins.
    """

    def __init__(self, tick_ms: int, first_id: int, origin_ms: int = 0) -> None:
        assert tick_ms > 0
        self._tick_ms = tick_ms
        self._origin_ms = origin_ms
        self._next_id = first_id
        self._sessions: dict[int, Session] = {}
        self._buckets: dict[int, dict[int, Session]] = {}
        self._emptied: set[int] = set()  # times of buckets that lost all sessions, as the real server keeps them
        self._first_ms: int | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def __iter__(self) -> Iterator[Session]:
        """Yield the live sessions, oldest first."""
        return iter(self._sessions.values())

    def get(self, session_id: int) -> Session | None:
        """Return the live session with an id, or None."""
        return self._sessions.get(session_id)

    def ids(self) -> list[int]:
        """Return the ids of all live sessions, oldest first."""
        return list(self._sessions)

    def timeouts_ms(self) -> list[tuple[int, int]]:
        """Return ids and timeouts of all live sessions, oldest first, as a snapshot stores them."""
        return [(session.session_id, session.timeout_ms) for session in self]

    def new_id(self) -> int:
        """Return an id that no live session has."""
        while self._next_id in self._sessions:
            # A restored session may have it if the clock was set back before the restart.
            self._next_id = wrapped_long(self._next_id + 1)
        session_id = self._next_id
        self._next_id = wrapped_long(session_id + 1)
        return session_id

    def expiry_of(self, now_ms: int, timeout_ms: int) -> int:
        """Return the tick on which a session touched now expires: after its timeout, at most one tick later."""
        return ((now_ms - self._origin_ms + timeout_ms) // self._tick_ms + 1) * self._tick_ms + self._origin_ms

    def add(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Add a new or restored session, or change the timeout of a live one."""
        session = self._sessions.get(session_id)
        if session is not None:
            session.timeout_ms = timeout_ms
            if timeout_ms < 0:
                return session  # the real server stops tracking its expiry until it is touched
        else:
            session = self._sessions[session_id] = Session(session_id, timeout_ms)
        self.touch(session, now_ms, timeout_ms)
        return session

    def touch(self, session: Session, now_ms: int, timeout_ms: int) -> None:
        """Start the timeout of a session anew."""
        expiry_ms = self.expiry_of(now_ms, timeout_ms)
        if expiry_ms != session.expiry_ms:
            assert self._sessions.get(session.session_id) is session, f"{session} has ended"
            assert expiry_ms - self._tick_ms <= now_ms + timeout_ms < expiry_ms, "the first tick after the timeout"
            self._leave_bucket(session)
            session.expiry_ms = expiry_ms
            bucket = self._buckets.get(expiry_ms)
            if bucket is None:
                bucket = self._buckets[expiry_ms] = {}
                if self._first_ms is None or expiry_ms < self._first_ms:
                    self._first_ms = expiry_ms
                assert self._first_ms <= expiry_ms, "no session expires before the first bucket"
            bucket[session.session_id] = session

    def remove(self, session_id: int) -> None:
        """Remove a live session."""
        assert session_id in self._sessions, f"session 0x{session_id:x} is not live"
        self._leave_bucket(self._sessions.pop(session_id))

    def _leave_bucket(self, session: Session) -> None:
        bucket = self._buckets.get(session.expiry_ms)
        if bucket is not None:
            bucket.pop(session.session_id, None)
            if not bucket:
                del self._buckets[session.expiry_ms]
                self._emptied.add(session.expiry_ms)
                if session.expiry_ms == self._first_ms:
                    # `min` is cheap: there are at most (longest timeout / tick) buckets, a few dozen.
                    self._first_ms = min(self._buckets, default=None)

    def next_expiry_ms(self) -> int | None:
        """Return the time of the next expiry unless sessions are touched, or None."""
        return self._first_ms

    def emptied(self, now_ms: int) -> list[int]:
        """Return the times in the future of buckets without sessions that had some."""
        return [expiry_ms for expiry_ms in self._emptied if expiry_ms > now_ms and expiry_ms not in self._buckets]

    def due(self, now_ms: int) -> list[Session]:
        """Return the sessions that have expired by now, in order of their tick."""
        self._emptied = {expiry_ms for expiry_ms in self._emptied if expiry_ms > now_ms}
        due = [
            session
            for expiry_ms in sorted(self._buckets)
            if expiry_ms <= now_ms
            for session in self._buckets[expiry_ms].values()
        ]
        assert bool(due) == (self._first_ms is not None and self._first_ms <= now_ms), "the first bucket is due first"
        return due

    def check(self) -> None:
        """Assert all invariants of the structure."""
        bucketed = [(expiry_ms, session) for expiry_ms, bucket in self._buckets.items() for session in bucket.values()]
        assert all(self._buckets.values()), "an empty bucket is dropped"
        assert len(bucketed) == len(self._sessions)
        assert self._first_ms == min(self._buckets, default=None)
        for expiry_ms, session in bucketed:
            assert expiry_ms == session.expiry_ms
            assert (expiry_ms - self._origin_ms) % self._tick_ms == 0
            assert self._sessions[session.session_id] is session
