"""Subscriptions of a consumer: topics by name with threads for each, or all topics that a regex selects.

Rules of the module (docs/reference/kafka.md §4.1; TopicFilter, TopicCount):
  - a regex is cleaned first: commas become bars, spaces and enclosing quotes are removed; it must match a whole name;
  - from 0.8.2 on, `exclude.internal.topics` excludes internal topics (the default).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.kafka.consumer.registration import BLACK_LIST, STATIC, WHITE_LIST, ConsumerRegistration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TRIVIAL = re.compile(r"[A-Za-z0-9\-|]+")


class Subscription(NamedTuple):
    """Subscription by names, white list or black list.

    Args:
        pattern: `static`, `white_list` or `black_list`.
        counts: threads by topic; for a list one key, the cleaned regex.
        excluded: topics excluded from every regex.
    """

    pattern: str
    counts: tuple[tuple[str, int], ...]
    excluded: frozenset[str] = frozenset()

    @property
    def is_list(self) -> bool:
        """Return whether a regex selects the topics."""
        return self.pattern != STATIC

    @property
    def is_trivial(self) -> bool:
        """Return whether it is a white list of plain names: 0.8.0 does not watch topics for it."""
        return self.pattern == WHITE_LIST and _TRIVIAL.fullmatch(self.counts[0][0]) is not None

    def selected(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that the regex selects, in the given order."""
        regex = re.compile(self.counts[0][0])
        wanted = self.pattern == WHITE_LIST
        return [t for t in topics if (regex.fullmatch(t) is not None) is wanted and t not in self.excluded]

    def threads_by_topic(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of threads for each topic.

        Args:
            topics: all existing topics; used for a list only.
        """
        if not self.is_list:
            return dict(self.counts)
        return dict.fromkeys(self.selected(topics), self.counts[0][1])


def static(topics: Mapping[str, int]) -> Subscription:
    """Return a subscription of topics by name.

    Raises:
        ConfigError: there is no topic, or a topic has less than one thread.
    """
    for topic, threads in topics.items():
        if threads < 1:
            raise ConfigError(f"{topic} has {threads} threads", where=f"topics.{topic}", right="1 or more")
    if not topics:
        raise ConfigError("there is no topic", where="topics", right="threads by topic, such as {'orders': 1}")
    return Subscription(STATIC, tuple(topics.items()))


def white_list(regex: str, threads: int = 1, *, excluded: frozenset[str] = frozenset()) -> Subscription:
    """Return a subscription of all topics with a matching name.

    Raises:
        ConfigError: the regex is invalid, or there is less than one thread.

    >>> white_list("t1, t2").selected(["t1", "t3"])
    ['t1']
    """
    return _list(WHITE_LIST, regex, threads, excluded)


def black_list(regex: str, threads: int = 1, *, excluded: frozenset[str] = frozenset()) -> Subscription:
    """Return a subscription of all topics without a matching name.

    Raises:
        ConfigError: the regex is invalid, or there is less than one thread.

    >>> black_list("t1").selected(["t1", "t3"])
    ['t3']
    """
    return _list(BLACK_LIST, regex, threads, excluded)


def of_registration(registration: ConsumerRegistration, excluded: frozenset[str]) -> Subscription:
    """Return the subscription in a member's registration.

    Raises:
        ConfigError: its regex is invalid.
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
