r"""Registrations and offsets of the old consumer in `/consumers/G` (docs/reference/kafka.md §4.1).

Forms by release (TopicCount, Json of the release):
  - 0.8.0: concatenated text with spaces, the fields sorted by their text; a regex is not escaped, so a backslash makes
    the znode unreadable;
  - 0.8.1 to 1.0.0: compact; a regex is escaped once;
  - 1.0.1 to 1.1: the same, but a regex is escaped twice, once before and once by Jackson: `\d` is read back as `\\d`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from simzk.errors import ZnodeError
from simzk.jvm.numbers import INT_MAX, parse_long
from simzk.kafka.schemas.json_text import read_object, shown, write

STATIC, WHITE_LIST, BLACK_LIST = "static", "white_list", "black_list"

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "/": "\\/",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


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
    fields = [
        '"version":1',
        f'"subscription":{{ {counts} }}',
        f'"pattern":"{registration.pattern}"',
        f'"timestamp":"{registration.timestamp_ms}"',
    ]
    return f"{{ {', '.join(sorted(fields))} }}".encode()


def encode_compact(registration: ConsumerRegistration) -> bytes:
    r"""Encode as Kafka 0.8.1 to 1.0.0 does: a regex is escaped, nothing else.

    >>> encode_compact(ConsumerRegistration("white_list", {r"t\d": 1}, 7)).decode()
    '{"version":1,"subscription":{"t\\\\d":1},"pattern":"white_list","timestamp":"7"}'
    """
    listed = registration.pattern != STATIC
    counts = ",".join(
        f'"{_escaped(topic) if listed else topic}":{threads}' for topic, threads in registration.subscription.items()
    )
    return (
        f'{{"version":1,"subscription":{{{counts}}},"pattern":"{registration.pattern}"'
        f',"timestamp":"{registration.timestamp_ms}"}}'
    ).encode()


def encode_escaped_twice(registration: ConsumerRegistration) -> bytes:
    r"""Encode as Kafka 1.0.1 to 1.1 does.

    >>> decode("/c", encode_escaped_twice(ConsumerRegistration("white_list", {r"t\d": 1}))).subscription
    {'t\\\\d': 1}
    """
    subscription = registration.subscription
    if registration.pattern != STATIC:
        subscription = {_escaped(regex): threads for regex, threads in subscription.items()}
    fields = {
        "version": 1,
        "subscription": subscription,
        "pattern": registration.pattern,
        "timestamp": str(registration.timestamp_ms),
    }
    return write(fields)


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
    offset = parse_long(text)
    if offset is None:
        raise ZnodeError(f"contains {shown(text)}", where=path, right="an offset as decimal text")
    return offset


def _escaped(text: str) -> str:
    """Escape like JSONEscapeString of Kafka's Utils: slashes too, and control characters in hexadecimal."""
    return "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " or "\x7f" <= c <= "\x9f" else c) for c in text)
