"""`/log_dir_event_notification/log_dir_event_N`: a broker says that a directory of its logs failed
(docs/reference/kafka.md §1.3, §2.13).
"""

from __future__ import annotations

from simzk.kafka.schemas.json_text import read_object, write
from simzk.kafka.schemas.reading import LENIENT, Reading

FAILURE = 1
"""The only event there is."""


def encode(broker: int) -> bytes:
    """What 1.0 and later write.

    >>> encode(3).decode()
    '{"version":1,"broker":3,"event":1}'
    """
    return write({"version": 1, "broker": broker, "event": FAILURE})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> int:
    """The broker that says so; nobody looks at which event it is.

    Raises:
        NoJsonError: it is no JSON, and passed over.
        ZnodeError: it cannot be used; path, field and why.
    """
    return read_object(path, data, reading).integer("broker")
