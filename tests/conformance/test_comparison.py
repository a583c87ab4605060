"""The comparison sees every field: any one changed by hand in a stream is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import ClientInfo, Closed, ConnectResponse, OperationResult, Reply, Stat, WatchedEvent
from simzk.zookeeper.requests import ACL, Id
from simzk.zookeeper.sessions import password_of
from tests.conformance.comparison import Normaliser, differences

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION = 0x0100_0000_0001_0000
OTHER_SESSION = SESSION + 1
TIMES_MS = {0: 0, 5: 50, 6: 60, 7: 70}
STAT = Stat(5, 6, 50, 60, 1, 2, 3, SESSION, 4, 5, 7)
STREAM: tuple[Any, ...] = (
    ConnectResponse(0, 30_000, SESSION, password_of(SESSION), False),
    ConnectResponse(0, 30_000, OTHER_SESSION, password_of(OTHER_SESSION), None),
    WatchedEvent(3, "/a", 7),
    Reply(1, 7, 0, (b"data", STAT)),
    Reply(2, 7, 0, (["a", "b"], STAT)),
    Reply(3, 7, 0, ((ACL(31, Id("world", "anyone")),), STAT)),
    Reply(4, 7, 0, [OperationResult(0, STAT), OperationResult(0, "/path"), OperationResult(-110, None)]),
    Reply(5, 7, 0, [ClientInfo("ip", "127.0.0.1")]),
    Reply(6, 7, -101, None),
    Reply(7, 7, 0, "/created"),
    Reply(8, 7, 0, ("/created", STAT)),
    Reply(9, 7, 0, STAT),
    Reply(10, 7, 0, ["a", "b"]),
    Reply(11, 7, 0, 5),
    Reply(12, 7, 0, [OperationResult(0, (b"data", STAT)), OperationResult(0, ["a"]), OperationResult(0, ("/p", STAT))]),
    Closed(),
)


def changed(value: Any) -> Iterator[Any]:
    """The value with one thing in it changed, in every way of one thing."""
    match value:
        case tuple() | list():
            for index, item in enumerate(value):
                for other in changed(item):
                    items = [*value[:index], other, *value[index + 1 :]]
                    yield type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
            if value and not hasattr(value, "_fields"):
                yield type(value)(list(value)[:-1])
        case bool():
            yield not value
        case int():
            yield value + 1
        case bytes():
            yield value[:-1] + bytes([value[-1] ^ 1])
            yield None
        case str():
            yield value + "x"
        case None:
            yield 0


def normalised(stream: tuple[Any, ...]) -> Any:
    normalise = Normaliser(TIMES_MS)
    return tuple(map(normalise, stream))


def test_equal_streams_do_not_differ() -> None:
    assert differences(normalised(STREAM), normalised(STREAM)) == []


MUTANTS = [
    (position, mutant) for position, message in enumerate(STREAM) for mutant in changed(message) if message != mutant
]


@pytest.mark.parametrize(("position", "mutant"), MUTANTS)
def test_any_change_is_noticed(position: int, mutant: Any) -> None:
    stream = (*STREAM[:position], mutant, *STREAM[position + 1 :])
    assert differences(normalised(STREAM), normalised(stream))


def test_a_message_more_or_less_is_noticed() -> None:
    for position in range(len(STREAM)):
        assert differences(normalised(STREAM), normalised(STREAM[:position] + STREAM[position + 1 :]))


def test_a_clock_that_is_not_ours_must_be_consistent() -> None:
    learn = Normaliser()
    assert learn(STAT)[-2:] == ("right", "right")
    assert learn(STAT._replace(ctime_ms=51))[-2] != "right"
    assert learn(STAT._replace(mzxid=8, mtime_ms=49))[-1] != "right"


def test_every_kind_of_message_is_in_the_stream() -> None:
    assert {type(message) for message in STREAM} == {ConnectResponse, Reply, WatchedEvent, Closed}
    assert req.OPEN_ACL in (STREAM[5].body[0],)
