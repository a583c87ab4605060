"""What a consumer subscribes: topics by name with threads for each, or all topics that a regex allows.

Rules of the module (docs/reference/kafka.md §4.1; TopicFilter, TopicCount):
  - a regex is cleaned first: commas become bars, spaces and enclosing quotes go; it must match a whole name;
  - from 0.8.2 on, internal topics are left out where `exclude.internal.topics` says so (it does by default).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.kafka.schemas.consumer import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TRIVIAL = re.compile(r"[A-Za-z0-9\-|]+")


class Subscription(NamedTuple):
    """A subscription in one form for all kinds.

    Args:
        pattern: `static`, `white_list` or `black_list`.
        counts: threads by topic; for a list one key, the regex as cleaned.
        excluded: topics that a regex never takes.
    """

    pattern: str
    counts: tuple[tuple[str, int], ...]
    excluded: frozenset[str] = frozenset()

    @property
    def is_list(self) -> bool:
        """Whether topics are chosen by a regex."""
        return self.pattern != STATIC

    @property
    def is_trivial(self) -> bool:
        """Whether it is a white list of plain names, for which 0.8.0 does not watch topics."""
        return self.pattern == WHITE_LIST and _TRIVIAL.fullmatch(self.counts[0][0]) is not None

    def allowed(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics that the regex takes, in the order given."""
        regex = re.compile(self.counts[0][0])
        wanted = self.pattern == WHITE_LIST
        return [t for t in topics if (regex.fullmatch(t) is not None) is wanted and t not in self.excluded]

    def threads_by_topic(self, topics: Iterable[str]) -> dict[str, int]:
        """How many threads take each topic.

        Args:
            topics: all that there are; looked at for a list only.
        """
        if not self.is_list:
            return dict(self.counts)
        return dict.fromkeys(self.allowed(topics), self.counts[0][1])


def static(topics: Mapping[str, int]) -> Subscription:
    """Topics by name.

    Raises:
        ConfigError: no topic, or fewer than one thread for one.
    """
    for topic, threads in topics.items():
        if threads < 1:
            raise ConfigError(f"{topic} gets {threads} threads", where=f"topics.{topic}", right="1 or more")
    if not topics:
        raise ConfigError("there is no topic", where="topics", right="threads by topic, such as {'orders': 1}")
    return Subscription(STATIC, tuple(topics.items()))


def white_list(regex: str, threads: int = 1, *, excluded: frozenset[str] = frozenset()) -> Subscription:
    """All topics whose name matches.

    Raises:
        ConfigError: it is no regex, or there is no thread.

    >>> white_list("t1, t2").allowed(["t1", "t3"])
    ['t1']
    """
    return _list(WHITE_LIST, regex, threads, excluded)


def black_list(regex: str, threads: int = 1, *, excluded: frozenset[str] = frozenset()) -> Subscription:
    """All topics whose name does not match.

    Raises:
        ConfigError: it is no regex, or there is no thread.

    >>> black_list("t1").allowed(["t1", "t3"])
    ['t3']
    """
    return _list(BLACK_LIST, regex, threads, excluded)


def of_registration(registration: ConsumerRegistration, excluded: frozenset[str]) -> Subscription:
    """The subscription that a member has registered.

    Raises:
        ConfigError: its regex is none.
    """
    counts = tuple(registration.subscription.items())
    if registration.pattern == STATIC:
        return Subscription(STATIC, counts)
    return _list(registration.pattern, counts[0][0], counts[0][1], excluded)


def _list(pattern: str, regex: str, threads: int, excluded: frozenset[str]) -> Subscription:
    cleaned = regex.strip().replace(",", "|").replace(" ", "")
    cleaned = re.sub("[\"']+$", "", re.sub("^[\"']+", "", cleaned))
    try:
        re.compile(cleaned)
    except re.error as error:
        raise ConfigError(f"{cleaned!r} is no regex ({error})", where=pattern, right="a regex of topics") from None
    if threads < 1:
        raise ConfigError(f"{threads} threads", where=pattern, right="1 or more")
    return Subscription(pattern, ((cleaned, threads),), excluded)
