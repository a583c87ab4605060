"""The sessions as one server of an ensemble knows them: those that its applied transactions show.

Rules of this module:
  - the leader decides who expires, by its own tracker; whatever a server hears of a client it passes on to the leader
    at once (a real follower does so with the leader's next ping);
  - a server's own tracker follows the transactions, so it lags as its tree does; beside those sessions it has local
    ones, which no transaction shows, no snapshot holds and no other server knows.

Source: LearnerSessionTracker, LeaderSessionTracker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.sessions import Session, SessionTracker

if TYPE_CHECKING:
    from collections.abc import Callable

NEW = -1
"""When a session expires that was never touched."""


class MemberSessions(SessionTracker):
    """A tracker that passes touches on.

    Args:
        tick_ms: the server's tick.
        first_id: the id of the first session that is made here.
        tell_leader: told of each touch: the session's id, the time, the timeout.

    Attributes:
        local: the ids of the local ones, oldest first.
    """

    def __init__(self, tick_ms: int, first_id: int, tell_leader: Callable[[int, int, int], None]) -> None:
        super().__init__(tick_ms, first_id)
        self._tell_leader = tell_leader
        self.local: dict[int, None] = {}

    def add_local(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """A local session begins."""
        self.local[session_id] = None
        return self.add(session_id, timeout_ms, now_ms)

    def remove(self, session_id: int) -> None:
        """A session is over, of whichever kind."""
        self.local.pop(session_id, None)
        super().remove(session_id)

    def timeouts_ms(self) -> list[tuple[int, int]]:
        """The sessions that all servers know."""
        return [session for session in super().timeouts_ms() if session[0] not in self.local]

    def local_sessions(self) -> list[Session]:
        """The local ones."""
        return [self._sessions[session_id] for session_id in self.local]

    def touch(self, session: Session, now_ms: int, timeout_ms: int) -> None:
        """The session's client was heard."""
        is_new = session.expiry_ms == NEW  # the transaction that makes it is no news to the leader
        super().touch(session, now_ms, timeout_ms)
        if not is_new:
            self._tell_leader(session.session_id, now_ms, timeout_ms)

    def touch_as_told(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        """Another server has heard a session's client."""
        session = self.get(session_id)
        if session is not None:
            super().touch(session, now_ms, timeout_ms)
