"""Whether two streams of messages say the same, every field of every message looked at.

What can not be equal is replaced by what must be, field by field; this is the whole list:
  - session ids (ConnectResponse.session_id, Stat.ephemeral_owner): numbered in the order of their first appearance,
    since a real server makes them from its clock;
  - ConnectResponse.password: whether it is the one that belongs to the session id, since it is computed from it (§1.3);
  - Stat.ctime_ms, Stat.mtime_ms: whether it is the time of the transaction that czxid, or mzxid, names, since the
    clocks differ; times must not fall as zxids rise.
Everything else is compared as it is: the simulated server starts with the zxid at which the real one stands.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from sortedcontainers import SortedDict

from simzk.zookeeper.replies import ConnectResponse, Stat
from simzk.zookeeper.sessions import password_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Normaliser:
    """Makes one arm's messages comparable with another's.

    Args:
        times_ms: the time of each zxid where it is known; an arm whose clock is not ours is learned from what it says.
    """

    def __init__(self, times_ms: Mapping[int, int] | None = None) -> None:
        self._known_ms = times_ms
        self._learned_ms: SortedDict[int, int] = SortedDict({0: 0})
        self._sessions: dict[int, int] = {0: 0}

    def __call__(self, value: Any) -> Any:
        """The value with what cannot be equal replaced."""
        match value:
            case ConnectResponse():
                number = self._sessions.setdefault(value.session_id, len(self._sessions))
                password: object = "zeros" if value.password == bytes(16) else value.password
                if value.session_id and value.password == password_of(value.session_id):
                    password = "its own"
                return ("ConnectResponse", *value._replace(session_id=number, password=b""), password)
            case Stat():
                owner = self._sessions.get(value.ephemeral_owner, f"no session: {value.ephemeral_owner}")
                times = (self._time(value.czxid, value.ctime_ms), self._time(value.mzxid, value.mtime_ms))
                return ("Stat", *value._replace(ctime_ms=0, mtime_ms=0, ephemeral_owner=0), owner, *times)
            case tuple() | list():
                return (type(value).__name__, *map(self, value))
            case _:
                return value

    def _time(self, zxid: int, time_ms: int) -> str:
        if self._known_ms is not None:
            return "right" if self._known_ms.get(zxid) == time_ms else f"{time_ms}, not {self._known_ms.get(zxid)}"
        learned = self._learned_ms
        known = learned.get(zxid)
        if known is not None:
            return "right" if known == time_ms else f"{time_ms}, which was {known}"
        at = learned.bisect_left(zxid)
        before = learned.peekitem(at - 1)[1] if at else 0
        after = learned.peekitem(at)[1] if at < len(learned) else time_ms
        if not before <= time_ms <= after:
            return f"{time_ms}, though {before} was before it and {after} after it"
        learned[zxid] = time_ms
        return "right"


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Return the differences of two normalised values as lines `place: ours | theirs`."""
    if isinstance(ours, tuple) and isinstance(theirs, tuple) and len(ours) == len(theirs):
        return [
            line
            for index, pair in enumerate(zip(ours, theirs, strict=True))
            for line in differences(*pair, f"{place}[{index}]")
        ]
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        pairs = enumerate(zip_longest(ours, theirs, fillvalue="nothing"))
        index, pair = next((index, pair) for index, pair in pairs if pair[0] != pair[1])
        return [f"{place}: {len(ours)} | {len(theirs)}, unlike from [{index}] on: {pair[0]!r} | {pair[1]!r}"]
    return [] if type(ours) is type(theirs) and ours == theirs else [f"{place}: {ours!r} | {theirs!r}"]
