"""The comparison sees every field: any one changed by hand in a stream is noticed.

Which fields there are is read from the types of what a server sends, and which bodies a reply may have from the table
of operations; a stream that lacks one of them fails here.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, get_args

import pytest

from simzk.wire.operations import OPERATIONS
from simzk.zookeeper import replies
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import (
    ClientInfo,
    Closed,
    ConnectResponse,
    OperationResult,
    Outgoing,
    Reply,
    Stat,
    WatchedEvent,
)
from simzk.zookeeper.requests import ACL, Id
from simzk.zookeeper.sessions import password_of
from tests.conformance.comparison import Normaliser, differences

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION = 0x0100_0000_0001_0000
OTHER_SESSION = SESSION + 1
TIMES_MS = {0: 0, 5: 50, 6: 60, 7: 70}
STAT = Stat(5, 6, 50, 60, 1, 2, 3, SESSION, 4, 5, 7)
READ_RESULTS = [OperationResult(0, (b"data", STAT)), OperationResult(0, ["a"]), OperationResult(-101, None)]
WRITE_RESULTS = [OperationResult(0, STAT), OperationResult(0, "/path"), OperationResult(0, ("/path", STAT))]
BODIES: dict[type, Any] = {
    **dict.fromkeys((req.Delete, req.DeleteContainer, req.Ping, req.Auth, req.CreateSession, req.CloseSession)),
    **dict.fromkeys((req.CheckWatches, req.RemoveWatches, req.SetWatches, req.SetWatches2)),
    **dict.fromkeys((req.Create, req.Sync), "/path"),
    **dict.fromkeys((req.Create2, req.CreateContainer, req.CreateTTL), ("/path", STAT)),
    **dict.fromkeys((req.Exists, req.SetData, req.SetACL), STAT),
    **dict.fromkeys((req.GetData, req.Reconfig), (b"data", STAT)),
    **{kind: ["a", "b"] for kind in (req.GetChildren, req.GetEphemerals)},
    **dict.fromkeys((req.GetAllChildrenNumber, req.AddWatch), 5),
    req.GetChildren2: (["a", "b"], STAT),
    req.GetACL: ((ACL(31, Id("world", "anyone")), ACL(1, Id("ip", "::1"))), STAT),
    req.WhoAmI: [ClientInfo("ip", "127.0.0.1")],
    req.Sasl: b"token",
    req.Multi: WRITE_RESULTS,
    req.MultiRead: READ_RESULTS,
}
STREAM: tuple[Outgoing, ...] = (
    ConnectResponse(0, 30_000, SESSION, password_of(SESSION), False),
    ConnectResponse(0, 30_000, OTHER_SESSION, password_of(OTHER_SESSION), None),
    WatchedEvent(3, "/a", 7),
    *(Reply(xid, 7, 0, body) for xid, body in enumerate(BODIES.values(), 1)),
    Reply(-4, 7, -101, None),
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


def fields_of(value: Any) -> Iterator[tuple[type, str]]:
    """Every field of every record in a value, with the record's class."""
    if isinstance(value, tuple | list):
        for name in getattr(value, "_fields", ()):
            yield type(value), name
        for item in value:
            yield from fields_of(item)


def test_every_field_of_every_message_is_in_the_stream() -> None:
    sent = {kind for _, kind in inspect.getmembers(replies, inspect.isclass) if issubclass(kind, tuple)}
    assert set(get_args(Outgoing)) <= sent
    assert {type(message) for message in STREAM} == set(get_args(Outgoing))
    assert set(fields_of(STREAM)) == {(kind, name) for kind in (*sent, ACL, Id) for name in vars(kind)["_fields"]}


def test_every_body_of_a_reply_is_in_the_stream() -> None:
    assert BODIES.keys() == {operation.request for operation in OPERATIONS}
    for operation in OPERATIONS:
        body = BODIES[operation.request]
        if operation.reply is not None:
            assert operation.reply.decode(operation.reply.encode(body)) == body
        else:
            assert all(isinstance(result, OperationResult) for result in body)


def test_every_field_is_changed_by_some_mutant() -> None:
    """Check that an unchanged field is not reported as noticed."""
    changed_fields = set()
    for position, mutant in MUTANTS:
        changed_fields |= set(unlike_fields(STREAM[position], mutant))
    assert changed_fields == set(fields_of(STREAM))


def unlike_fields(one: Any, other: Any) -> Iterator[tuple[type, str]]:
    """The fields, with their records, that hold different values in two values of one form."""
    if type(one) is not type(other) or not isinstance(one, tuple | list) or one == other:
        return
    names = getattr(one, "_fields", None)
    for index, (ours, theirs) in enumerate(zip(one, other, strict=False)):
        if ours != theirs:
            if names is not None:
                yield type(one), names[index]
            yield from unlike_fields(ours, theirs)


class Blind(Normaliser):
    """A comparison that leaves out one field."""

    def __init__(self, kind: type, name: str) -> None:
        super().__init__(TIMES_MS)
        self._kind, self._name = kind, name

    def __call__(self, value: Any) -> Any:
        is_such = type(value) is self._kind
        return super().__call__(value._replace(**{self._name: None}) if is_such else value)


@pytest.mark.parametrize(("kind", "name"), sorted(set(fields_of(STREAM)), key=str))
def test_a_comparison_that_leaves_out_a_field_fails_the_test_above(kind: type, name: str) -> None:
    def seen(stream: tuple[Any, ...]) -> Any:
        blind = Blind(kind, name)
        return tuple(map(blind, stream))

    assert any(
        not differences(seen(STREAM), seen((*STREAM[:position], mutant, *STREAM[position + 1 :])))
        for position, mutant in MUTANTS
    )
