"""How many sessions may be asked for in how short a time: a bucket of tokens, and chance where it stays empty (BLUE).

Rules of this module:
  - who finds too few tokens, or has bad luck, is cut off before anything is looked at;
  - time comes in as a number; chance is drawn by whoever made the throttle.

Source: BlueThrottle, ZooKeeperServer.processConnectRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.zookeeper.requests import ConnectRequest


class Throttle(NamedTuple):
    """What is asked of it (connection_throttle_*).

    Attributes:
        tokens: how many the bucket holds; 0 for no throttle.
        fill_time_ms: after so long it gets
        fill_count: more.
        freeze_time_ms: how long the chance of being cut off stays as it is; -1 for no such chance.
        drop_increase: how much it grows where the bucket is found empty.
        drop_decrease: how much it falls where no more is gone than
        decrease_ratio: of the whole.
        weighs: whether sessions take tokens by their kind, and not one each; both `tokens` and `fill_count` are then
            those of sessions known to all servers.
        global_weight: of a new session.
        local_weight: of a new session that only its server knows.
        renew_weight: of a session that is taken up again.
    """

    tokens: int = 0
    fill_time_ms: int = 1
    fill_count: int = 1
    freeze_time_ms: int = -1
    drop_increase: float = 0.02
    drop_decrease: float = 0.002
    decrease_ratio: float = 0.0
    weighs: bool = False
    global_weight: int = 3
    local_weight: int = 1
    renew_weight: int = 2


class ConnectionThrottle:
    """The bucket of one server.

    Args:
        asked: how it works.
        now_ms: when it is full.
        chance: a number from 0 to 1, another one each time.
        local_sessions: whether new sessions are known only to their server.

    Attributes:
        drop_chance: of being cut off whatever the tokens.

    >>> throttle = ConnectionThrottle(Throttle(tokens=2, fill_time_ms=100), 0, lambda: 0.5)
    >>> throttle.takes(1, 0), throttle.takes(1, 0), throttle.takes(1, 100), throttle.takes(1, 101)
    (True, True, False, True)
    """

    def __init__(
        self, asked: Throttle, now_ms: int, chance: Callable[[], float], *, local_sessions: bool = False
    ) -> None:
        self._asked = asked
        self._chance = chance
        self._new_weight = asked.local_weight if local_sessions else max(asked.global_weight, asked.local_weight)
        factor = max(asked.global_weight, asked.local_weight) if asked.weighs else 1
        self._capacity, self._fill_count = factor * asked.tokens, factor * asked.fill_count
        self._tokens = self._capacity
        self._filled_ms = self._frozen_ms = now_ms
        self.drop_chance = 0.0

    @property
    def deficit(self) -> int:
        """How many tokens are gone."""
        return self._capacity - self._tokens

    def lets_in(self, request: ConnectRequest, now_ms: int) -> bool:
        """Whether a session may be asked for now; its tokens are gone then."""
        if not self._asked.weighs:
            return self.takes(1, now_ms)
        renew = max(self._asked.renew_weight, self._asked.local_weight)
        return self.takes(renew if request.session_id else self._new_weight, now_ms)

    def takes(self, need: int, now_ms: int) -> bool:
        """Whether so many tokens are there; they are gone then."""
        since_ms = now_ms - self._filled_ms
        if since_ms > self._asked.fill_time_ms:
            gained = since_ms * self._fill_count // self._asked.fill_time_ms
            self._tokens = min(self._tokens + gained, self._capacity)
            self._filled_ms = now_ms
        if (self._asked.freeze_time_ms != -1 and not self._is_lucky(now_ms)) or self._tokens < need:
            return False
        self._tokens -= need
        return True

    def _is_lucky(self, now_ms: int) -> bool:
        asked = self._asked
        if now_ms - self._frozen_ms > asked.freeze_time_ms:
            if self._tokens == 0 and self.drop_chance < 1:
                self.drop_chance = min(self.drop_chance + asked.drop_increase, 1.0)
            elif self.deficit <= round(self._capacity * asked.decrease_ratio) and self.drop_chance > 0:
                self.drop_chance = max(self.drop_chance - asked.drop_decrease, 0.0)
            self._frozen_ms = now_ms
        return self._chance() >= self.drop_chance
