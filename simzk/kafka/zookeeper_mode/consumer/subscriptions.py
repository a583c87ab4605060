r"""Subscriptions of the old consumer, and registrations and offsets in `/consumers/G` (docs/reference/kafka.md §4.1).

Rules of the module (TopicFilter, TopicCount):
  - a regex is cleaned first: commas become bars, spaces and enclosing quotes are removed; it must match a whole name;
  - from 0.8.2 on, `exclude.internal.topics` excludes internal topics (the default).

Forms of a registration by release (TopicCount, Json of the release):
  - 0.8.0: concatenated text with spaces, the fields sorted by their text; a regex is not escaped, so a backslash makes
    the znode unreadable;
  - 0.8.1 to 1.0.0: compact; a regex is escaped once;
  - 1.0.1 to 1.1: the same, but a regex is escaped twice, once before and once by Jackson: `\d` is read back as `\\d`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.errors import ConfigError, ZnodeError
from simzk.jvm.numbers import INT_MAX, parse_long
from simzk.kafka.zookeeper_mode.schemas.json_text import read_object, shown, write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STATIC, WHITE_LIST, BLACK_LIST = "static", "white_list", "black_list"

_ESCAPES: Final = {c: f"\\{letter}" for c, letter in zip('"\\/\b\f\n\r\t', '"\\/bfnrt', strict=True)}


class ConsumerRegistration(NamedTuple):
    """Content of a consumer's registration.

    Args:
        pattern: `static`, `white_list` or `black_list`.
        subscription: threads by topic; for a white or black list one key, the regex.
        timestamp_ms: time of registration; no reader uses it.
    """

    pattern: str
    subscription: dict[str, int]
    timestamp_ms: int = 0


def encode_spaced(registration: ConsumerRegistration) -> bytes:
    """Encode as Kafka 0.8.0 does.

    >>> encode_spaced(ConsumerRegistration("static", {"t1": 1, "t2": 2}, 7)).decode()
    '{ "pattern":"static", "subscription":{ "t1": 1,"t2": 2 }, "timestamp":"7", "version":1 }'
    """
    if registration.pattern == STATIC:
        counts = ",".join(f'"{topic}": {threads}' for topic, threads in registration.subscription.items())
    else:
        ((regex, threads),) = registration.subscription.items()
        counts = f'"{regex}" : {threads}'
    fields = f'"pattern":"{registration.pattern}", "subscription":{{ {counts} }}'
    return f'{{ {fields}, "timestamp":"{registration.timestamp_ms}", "version":1 }}'.encode()


def encode_compact(registration: ConsumerRegistration) -> bytes:
    r"""Encode as Kafka 0.8.1 to 1.0.0 does: a regex is escaped, nothing else.

    >>> encode_compact(ConsumerRegistration("white_list", {r"t\d": 1}, 7)).decode()
    '{"version":1,"subscription":{"t\\\\d":1},"pattern":"white_list","timestamp":"7"}'
    """
    listed = registration.pattern != STATIC
    assert not listed or len(registration.subscription) == 1, "a list has one regex"
    counts = ",".join(
        f'"{_escaped(topic) if listed else topic}":{threads}' for topic, threads in registration.subscription.items()
    )
    fields = f'"version":1,"subscription":{{{counts}}},"pattern":"{registration.pattern}"'
    return f'{{{fields},"timestamp":"{registration.timestamp_ms}"}}'.encode()


def encode_escaped_twice(registration: ConsumerRegistration) -> bytes:
    r"""Encode as Kafka 1.0.1 to 1.1 does.

    >>> decode("/c", encode_escaped_twice(ConsumerRegistration("white_list", {r"t\d": 1}))).subscription
    {'t\\\\d': 1}
    """
    subscription = registration.subscription
    if registration.pattern != STATIC:
        assert len(subscription) == 1, "a list has one regex"
        subscription = {_escaped(regex): threads for regex, threads in subscription.items()}
    fields = {"version": 1, "subscription": subscription, "pattern": registration.pattern}
    return write(fields | {"timestamp": str(registration.timestamp_ms)})


def decode(path: str, data: bytes | None) -> ConsumerRegistration:
    """Decode a registration of any release; `version` is ignored.

    An unknown pattern counts as `static`, and so does an empty subscription (TopicCount).

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    fields = read_object(path, data)
    pattern = fields.text("pattern")
    subscription = fields.fields.get("subscription")
    if not isinstance(subscription, dict):
        raise fields.wrong("subscription", "an object from topic to a number of threads")
    counts: dict[str, int] = {}
    for topic, threads in subscription.items():
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= INT_MAX:
            raise fields.wrong(f"subscription.{topic}", "1 thread or more")
        counts[topic] = threads
    timestamp = fields.fields.get("timestamp")
    known = pattern if counts and pattern in (WHITE_LIST, BLACK_LIST) else STATIC
    return ConsumerRegistration(known, counts, parse_long(timestamp) or 0 if isinstance(timestamp, str) else 0)


def encode_offset(offset: int) -> bytes:
    """Encode the offset of the next record in `offsets/T/P`."""
    return str(offset).encode()


def decode_offset(path: str, data: bytes | None) -> int:
    """Decode the offset in `offsets/T/P`.

    Raises:
        ZnodeError: the data are not a decimal number of 64 bits.

    >>> decode_offset("/consumers/g/offsets/t/0", b"17")
    17
    """
    text = (data or b"").decode(errors="replace")
    if (offset := parse_long(text)) is None:
        raise ZnodeError(f"contains {shown(text)}", where=path, right="an offset as decimal text")
    return offset


def _escaped(text: str) -> str:
    """Escape like JSONEscapeString of Kafka's Utils: slashes too, and control characters in hexadecimal."""
    return "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " or "\x7f" <= c <= "\x9f" else c) for c in text)


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
        assert self.is_list, "topics that are named are not selected"
        assert len(self.counts) == 1, "a list has one regex"
        regex = re.compile(self.counts[0][0])
        wanted = self.pattern == WHITE_LIST
        return [t for t in topics if (regex.fullmatch(t) is not None) is wanted and t not in self.excluded]

    def threads_by_topic(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of threads for each topic.

        Args:
            topics: all existing topics; used for a list only.
        """
        return dict.fromkeys(self.selected(topics), self.counts[0][1]) if self.is_list else dict(self.counts)


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


def white_list(regex: str, threads: int = 1) -> Subscription:
    """Return a subscription of all topics with a matching name.

    Raises:
        ConfigError: the regex is invalid, or there is less than one thread.

    >>> white_list("t1, t2").selected(["t1", "t3"])
    ['t1']
    """
    return _list(WHITE_LIST, regex, threads)


def black_list(regex: str, threads: int = 1) -> Subscription:
    """Return a subscription of all topics without a matching name.

    Raises:
        ConfigError: the regex is invalid, or there is less than one thread.

    >>> black_list("t1").selected(["t1", "t3"])
    ['t3']
    """
    return _list(BLACK_LIST, regex, threads)


def of_registration(registration: ConsumerRegistration, excluded: frozenset[str]) -> Subscription:
    """Return the subscription in a member's registration.

    Raises:
        ConfigError: its regex is invalid.
    """
    counts = tuple(registration.subscription.items())
    if registration.pattern == STATIC:
        return Subscription(STATIC, counts)
    return _list(registration.pattern, *counts[0])._replace(excluded=excluded)


def _list(pattern: str, regex: str, threads: int) -> Subscription:
    cleaned = regex.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        re.compile(cleaned)
    except re.error as error:
        raise ConfigError(f"{cleaned!r} is no regex ({error})", where=pattern, right="a regex of topics") from None
    if threads < 1:
        raise ConfigError(f"{threads} threads", where=pattern, right="1 or more")
    return Subscription(pattern, ((cleaned, threads),))
