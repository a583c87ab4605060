"""Error codes, compared with those of kafka-python."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

from simzk.kafka.protocol.errors import ErrorCode

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    import kafka.errors

RENAMED = {
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "NO_ERROR": "NONE",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
}
"""Names in kafka-python that differ from Kafka's, or are earlier ones."""


def test_codes_are_those_of_kafka_python() -> None:
    classes: list[Any] = [found for _, found in inspect.getmembers(kafka.errors, inspect.isclass)]
    known: dict[int, str] = {
        found.errno: found.message
        for found in classes
        if issubclass(found, kafka.errors.BrokerResponseError) and found.errno is not None
    }
    assert len(known) > 100
    named = {code: RENAMED.get(name, name) for code, name in known.items()}
    assert named == {code: ErrorCode(code).name for code in known}


def test_every_error_between_brokers_has_a_code() -> None:
    assert {error.name for error in ErrorCode} <= {code.name for code in ErrorCode}
