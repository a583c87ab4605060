"""Throttle of session establishment: a bucket of tokens, and random rejection while it stays empty (BLUE).

Rules of this module:
  - a connection that finds too few tokens, or is drawn for rejection, is closed before its request is looked at;
  - time comes in as a number; the random number is drawn by whoever made the throttle.

Source: BlueThrottle, ZooKeeperServer.processConnectRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.serve.configuration.settings import Throttle
    from simzk.zookeeper.requests import ConnectRequest


class ConnectionThrottle:
    """Bucket of tokens of one server.

    Args:
        config: its size and rates.
        now_ms: the present time, at which it is full.
        chance: returns a random number from 0 to 1.
        local_sessions: whether new sessions are local to their server.

    Attributes:
        drop_chance: probability that a connection is rejected although there are tokens.

    >>> from simzk.serve.configuration.settings import Throttle
    >>> throttle = ConnectionThrottle(Throttle(tokens=2, fill_time_ms=100), 0, lambda: 0.5)
    >>> throttle.takes(1, 0), throttle.takes(1, 0), throttle.takes(1, 100), throttle.takes(1, 101)
    (True, True, False, True)
    """

    def __init__(
        self, config: Throttle, now_ms: int, chance: Callable[[], float], *, local_sessions: bool = False
    ) -> None:
        self._config = config
        self._chance = chance
        self._new_weight = config.local_weight if local_sessions else max(config.global_weight, config.local_weight)
        factor = max(config.global_weight, config.local_weight) if config.weighs else 1
        self._capacity, self._fill_count = factor * config.tokens, factor * config.fill_count
        self._tokens = self._capacity
        self._filled_ms = self._frozen_ms = now_ms
        self.drop_chance = 0.0

    @property
    def deficit(self) -> int:
        """Number of tokens used."""
        return self._capacity - self._tokens

    def lets_in(self, request: ConnectRequest, now_ms: int) -> bool:
        """Return whether a session may be requested now, and use its tokens."""
        if not self._config.weighs:
            return self.takes(1, now_ms)
        renew = max(self._config.renew_weight, self._config.local_weight)
        return self.takes(renew if request.session_id else self._new_weight, now_ms)

    def takes(self, need: int, now_ms: int) -> bool:
        """Return whether there are enough tokens, and use them."""
        since_ms = now_ms - self._filled_ms
        if since_ms > self._config.fill_time_ms:
            gained = since_ms * self._fill_count // self._config.fill_time_ms
            self._tokens = min(self._tokens + gained, self._capacity)
            self._filled_ms = now_ms
        if (self._config.freeze_time_ms != -1 and not self._is_lucky(now_ms)) or self._tokens < need:
            return False
        self._tokens -= need
        return True

    def _is_lucky(self, now_ms: int) -> bool:
        config = self._config
        if now_ms - self._frozen_ms > config.freeze_time_ms:
            if self._tokens == 0 and self.drop_chance < 1:
                self.drop_chance = min(self.drop_chance + config.drop_increase, 1.0)
            elif self.deficit <= round(self._capacity * config.decrease_ratio) and self.drop_chance > 0:
                self.drop_chance = max(self.drop_chance - config.drop_decrease, 0.0)
            self._frozen_ms = now_ms
        return self._chance() >= self.drop_chance
