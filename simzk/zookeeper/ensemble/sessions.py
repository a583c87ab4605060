"""Sessions as one server of an ensemble knows them.

Rules of this module:
  - the leader decides expiry, by its own clock. A server forwards every touch to the leader at once; a real follower
    does so with the leader's next ping;
  - a local session is created, closed and expired without a transaction, is unknown to other servers and snapshots, and
    ends when its server changes its role;
  - a session that creates an ephemeral znode must be global: a local one becomes global first by a transaction, or is
    rejected (localSessionsUpgradingEnabled).

Source: LearnerSessionTracker, LeaderSessionTracker, UpgradeableSessionTracker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.zookeeper.sessions import Session, SessionTracker

if TYPE_CHECKING:
    from collections.abc import Callable

NEW = -1
"""Expiry time of a session that was never touched."""


class MemberSessions(SessionTracker):
    """Sessions known to a member; touches are forwarded to the leader.

    Args:
        tick_ms: tick of the server.
        first_id: id of the first session created here.
        origin_ms: time at which the first tick begins.
        forward_touch: function called with the session id, the time and the timeout of each touch.

    Attributes:
        local: ids of local sessions, oldest first.
        upgrading: ids of local sessions that become global when the server applies their creation.
    """

    def __init__(
        self, tick_ms: int, first_id: int, origin_ms: int, forward_touch: Callable[[int, int, int], None]
    ) -> None:
        super().__init__(tick_ms, first_id, origin_ms)
        self._forward_touch = forward_touch
        self.local: dict[int, None] = {}
        self.upgrading: set[int] = set()

    def add(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Add a session."""
        self.upgrading.discard(session_id)
        return super().add(session_id, timeout_ms, now_ms)

    def upgrade(self, session_id: int) -> None:
        """Remove a local session whose connection goes on until the global one is added (UpgradeableSessionTracker)."""
        assert session_id in self.local, f"session 0x{session_id:x} is global already"
        assert session_id not in self.upgrading
        self.remove(session_id)
        self.upgrading.add(session_id)

    def add_local(self, session_id: int, timeout_ms: int, now_ms: int) -> Session:
        """Add a local session."""
        assert session_id not in self._sessions, f"session 0x{session_id:x} exists already"
        self.local[session_id] = None
        return self.add(session_id, timeout_ms, now_ms)

    def remove(self, session_id: int) -> None:
        """Remove a session, local or global."""
        self.local.pop(session_id, None)
        super().remove(session_id)

    def timeouts_ms(self) -> list[tuple[int, int]]:
        """Return ids and timeouts of global sessions."""
        return [session for session in super().timeouts_ms() if session[0] not in self.local]

    def local_sessions(self) -> list[Session]:
        """Return the local sessions."""
        return [self._sessions[session_id] for session_id in self.local]

    def touch(self, session: Session, now_ms: int, timeout_ms: int) -> None:
        """Start the timeout of a session anew, also at the leader; one that becomes global has none."""
        if session.session_id in self.upgrading:
            return
        is_new = session.expiry_ms == NEW  # the leader has it from the transaction
        super().touch(session, now_ms, timeout_ms)
        if not is_new:
            self._forward_touch(session.session_id, now_ms, timeout_ms)

    def touch_from_server(self, session_id: int, now_ms: int, timeout_ms: int) -> None:
        """Start the timeout of a session anew for a touch on another server."""
        session = self.get(session_id)
        if session is not None:
            super().touch(session, now_ms, timeout_ms)
