"""What a server of an ensemble is doing."""

from __future__ import annotations

from enum import Enum


class Role(Enum):
    """The states of a server; the values are what `srvr` calls its mode, empty while it does not serve."""

    LEADING = "leader"
    FOLLOWING = "follower"
    LOOKING = ""
    READ_ONLY = "read-only"
    DOWN = "down"

    @property
    def serves(self) -> bool:
        """Whether clients can have connections to a server in this state."""
        return self in _SERVING


_SERVING = (Role.LEADING, Role.FOLLOWING, Role.READ_ONLY)
