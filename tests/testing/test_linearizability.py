"""The checker against what is known: planted violations, and a slow search that tries every order."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import SimzkError
from simzk.testing.linearizability import (
    CompareAndSet,
    Get,
    HistoryRecorder,
    Model,
    Operation,
    Register,
    RegisterCall,
    RegisterModel,
    RegisterResult,
    SeenStat,
    Set,
    TreeCall,
    TreeModel,
    TreeResult,
    find_violation,
)
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import OPEN_ACL

History = list[Operation[Any, Any]]
X, Y = "/x", "/y"


def unknown(client: str, called_at: int, asked: object) -> Operation[Any, Any]:
    return Operation(client, called_at, None, asked, None)


VIOLATIONS: dict[str, History] = {
    "a stale read after a write": [
        Operation("a", 1, 2, Set(X, b"new"), 1),
        Operation("b", 3, 4, Get(X), (b"", 0)),
    ],
    "a lost update": [
        Operation("a", 1, 4, Set(X, b"1"), 1),
        Operation("b", 2, 5, Set(X, b"2"), 1),
    ],
    "two successes of one conditional set": [
        Operation("a", 1, 4, CompareAndSet(X, b"a", 0), 1),
        Operation("b", 2, 3, CompareAndSet(X, b"b", 0), 1),
    ],
    "one client sees the new value, then the old one, while the write still goes on": [
        Operation("a", 1, 9, Set(X, b"new"), 1),
        Operation("b", 2, 3, Get(X), (b"new", 1)),
        Operation("b", 4, 5, Get(X), (b"", 0)),
    ],
    "two clients see two writes in different order": [
        Operation("a", 1, 9, Set(X, b"1"), 1),
        Operation("b", 1, 9, Set(X, b"2"), 2),
        Operation("c", 2, 3, Get(X), (b"2", 1)),
        Operation("d", 4, 5, Get(X), (b"1", 2)),
    ],
    "a value that nobody wrote": [
        Operation("a", 1, 2, Set(X, b"1"), 1),
        Operation("b", 1, 3, Get(X), (b"7", 1)),
    ],
    "a conditional set that failed for no reason": [
        Operation("a", 1, 2, CompareAndSet(X, b"1", 0), None),
    ],
    "a write of unknown outcome is seen, then not": [
        unknown("a", 1, Set(X, b"1")),
        Operation("b", 2, 3, Get(X), (b"1", 1)),
        Operation("b", 4, 5, Get(X), (b"", 0)),
    ],
    "a write of unknown outcome is seen before it was called": [
        Operation("b", 1, 2, Get(X), (b"1", 1)),
        unknown("a", 3, Set(X, b"1")),
    ],
    "a write of unknown outcome is done twice": [
        unknown("a", 1, Set(X, b"1")),
        Operation("b", 2, 3, Get(X), (b"1", 2)),
    ],
    "only the second of two keys is wrong": [
        Operation("a", 1, 2, Set(X, b"1"), 1),
        Operation("a", 3, 4, Set(Y, b"1"), 1),
        Operation("a", 5, 6, Get(X), (b"1", 1)),
        Operation("a", 7, 8, Get(Y), (b"", 0)),
    ],
}


@pytest.mark.parametrize("history", VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_planted_violation_is_rejected(history: History) -> None:
    assert find_violation(RegisterModel(), history) is not None
    assert find_violation(RegisterModel(), history[::-1]) is not None


ACCEPTED: dict[str, History] = {
    "nothing": [],
    "a read beside a write may see the old or the new": [
        Operation("a", 1, 9, Set(X, b"new"), 1),
        Operation("b", 2, 3, Get(X), (b"", 0)),
        Operation("c", 2, 4, Get(X), (b"new", 1)),
        Operation("c", 5, 6, Get(X), (b"new", 1)),
    ],
    "one of two conditional sets wins": [
        Operation("a", 1, 4, CompareAndSet(X, b"a", 0), None),
        Operation("b", 2, 3, CompareAndSet(X, b"b", 0), 1),
    ],
    "a write of unknown outcome that never happened": [
        unknown("a", 1, Set(X, b"1")),
        Operation("b", 2, 3, Get(X), (b"", 0)),
        Operation("b", 4, 5, Set(X, b"2"), 1),
    ],
    "a write of unknown outcome that happened at once": [
        unknown("a", 1, Set(X, b"1")),
        Operation("b", 2, 3, Get(X), (b"1", 1)),
    ],
    "a write of unknown outcome that happened long after": [
        unknown("a", 1, CompareAndSet(X, b"late", 2)),
        Operation("b", 2, 3, Set(X, b"1"), 1),
        Operation("b", 4, 5, Set(X, b"2"), 2),
        Operation("b", 6, 7, Get(X), (b"2", 2)),
        Operation("b", 8, 9, Get(X), (b"late", 3)),
    ],
    "only what is of unknown outcome": [unknown("a", 1, Set(X, b"1")), unknown("b", 2, Get(X))],
}


@pytest.mark.parametrize("history", ACCEPTED.values(), ids=ACCEPTED)
def test_what_some_order_explains_is_accepted(history: History) -> None:
    assert find_violation(RegisterModel(), history) is None


def test_a_violation_says_how_far_an_order_goes() -> None:
    violation = find_violation(RegisterModel(), VIOLATIONS["a stale read after a write"])
    assert violation is not None
    assert [operation.client for operation in violation.explained] == ["a"]
    assert [(operation.client, right) for operation, right in violation.blocked] == [("b", (b"new", 1))]


def test_time_that_goes_back_is_an_error_of_the_user() -> None:
    with pytest.raises(SimzkError, match="returned at 1"):
        find_violation(RegisterModel(), list[Operation[Any, Any]]([Operation("a", 1, 1, Get(X), (b"", 0))]))


def test_what_raises_and_what_goes_on_have_unknown_outcomes() -> None:
    recorder = HistoryRecorder[RegisterCall, RegisterResult]()

    def lost() -> RegisterResult:
        assert recorder.history() == [unknown("a", 1, Set(X, b"1"))]
        raise ConnectionError

    with pytest.raises(ConnectionError):
        recorder.call("a", Set(X, b"1"), lost)
    assert recorder.call("a", Get(X), lambda: (b"1", 1)) == (b"1", 1)
    assert recorder.history() == [unknown("a", 1, Set(X, b"1")), Operation("a", 2, 3, Get(X), (b"1", 1))]


# Against a search that tries every order.


class WholeRegister(RegisterModel):
    """Never split."""

    def partition(self, history: Any) -> list[list[Operation[RegisterCall, RegisterResult]]]:
        return Model.partition(self, history)


def some_order_explains(history: History) -> bool:
    """Every order of every choice of the operations with unknown outcome, tried."""
    known = [operation for operation in history if operation.returned_at is not None]
    lost = [operation for operation in history if operation.returned_at is None]
    choices = [[one for bit, one in enumerate(lost) if chosen >> bit & 1] for chosen in range(1 << len(lost))]
    return any(is_right(order) for some in choices for order in permutations(known + some))


def is_right(order: tuple[Operation[Any, Any], ...]) -> bool:
    for at, later in enumerate(order):
        for earlier in order[:at]:
            if later.returned_at is not None and later.returned_at < earlier.called_at:
                return False
    state = Register(b"", 0)
    for operation in order:
        state, result = RegisterModel().step(state, operation.asked)
        if operation.returned_at is not None and result != operation.result:
            return False
    return True


VALUES = st.sampled_from([b"", b"1", b"2"])
VERSIONS = st.integers(0, 2)
ASKED_AND_RESULT = st.one_of(
    st.tuples(st.builds(Get, st.just(X)), st.tuples(VALUES, VERSIONS)),
    st.tuples(st.builds(Set, st.just(X), VALUES), st.integers(1, 3)),
    st.tuples(st.builds(CompareAndSet, st.just(X), VALUES, VERSIONS), st.none() | st.integers(1, 3)),
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Any few operations with any results, mostly overlapping."""
    history: History = []
    for number in range(draw(st.integers(1, 5))):
        asked, result = draw(ASKED_AND_RESULT)
        called_at = draw(st.integers(0, 6))
        returned_at = draw(st.none() | st.integers(called_at + 1, 9))
        history.append(Operation(str(number), called_at, returned_at, asked, result))
    return history


@st.composite
def possible_histories(draw: st.DrawFn) -> History:
    """Results that clients could have observed: operations done one by one, each at an instant within its interval."""
    state, history = Register(b"", 0), list[Operation[Any, Any]]()
    for instant in range(10, 10 * draw(st.integers(2, 9)), 10):
        asked, _ = draw(ASKED_AND_RESULT)
        called_at = instant - draw(st.integers(1, 25))
        if draw(st.integers(0, 4)) == 0:
            history.append(Operation(str(instant), called_at, None, asked, None))
            if draw(st.booleans()):
                continue
            state, _ = RegisterModel().step(state, asked)
        else:
            state, result = RegisterModel().step(state, asked)
            history.append(Operation(str(instant), called_at, instant + draw(st.integers(1, 25)), asked, result))
    return draw(st.permutations(history))


@given(histories())
def test_the_answer_is_that_of_trying_every_order(history: History) -> None:
    assert (find_violation(WholeRegister(), history) is None) == some_order_explains(history)


@given(possible_histories())
def test_what_can_happen_is_accepted(history: History) -> None:
    assert find_violation(WholeRegister(), history) is None


@given(possible_histories(), st.data())
def test_one_result_changed_is_judged_as_by_trying_every_order(history: History, data: st.DataObject) -> None:
    known = [at for at, operation in enumerate(history[:6]) if operation.returned_at is not None]
    history = history[:6]
    if known:
        at = data.draw(st.sampled_from(known))
        history[at] = history[at]._replace(result=data.draw(ASKED_AND_RESULT)[1])
    assert (find_violation(WholeRegister(), history) is None) == some_order_explains(history)


# Trees


def done(session_id: int, called_at: int, request: req.Request, error: int, body: Any = None) -> Operation[Any, Any]:
    """An operation on a tree that overlaps none that is called two instants later."""
    return Operation(f"s{session_id}", called_at, called_at + 1, TreeCall(session_id, request), TreeResult(error, body))


def create(path: str, flags: int = 0) -> req.Create:
    return req.Create(path, b"", OPEN_ACL, flags)


def stat(version: int = 0, cversion: int = 0, owner: int = 0, length: int = 0, children: int = 0) -> SeenStat:
    return SeenStat(version, cversion, 0, owner, length, children)


HALF_DONE = req.Multi((req.SetData("/a", b"1", 0), create("/b")))

TREE_VIOLATIONS: dict[str, History] = {
    "a node that was deleted is still there": [
        done(1, 1, create("/a"), 0, "/a"),
        done(1, 3, req.Delete("/a", 0), 0),
        done(2, 5, req.Exists("/a", False), 0, stat()),
    ],
    "two nodes get one sequence number": [
        done(1, 1, create("/a"), 0, "/a"),
        done(1, 3, create("/a/n-", 2), 0, "/a/n-0000000000"),
        done(1, 5, req.Delete("/a/n-0000000000", 0), 0),
        done(2, 7, create("/a/n-", 2), 0, "/a/n-0000000000"),
    ],
    "an ephemeral outlives its session": [
        done(1, 1, create("/e", 1), 0, "/e"),
        done(1, 3, req.CloseSession(), 0),
        done(2, 5, req.Exists("/e", False), 0, stat(owner=1)),
    ],
    "a session is served after its end": [
        done(1, 1, create("/e"), 0, "/e"),
        done(1, 3, req.CloseSession(), 0),
        done(1, 5, req.Delete("/e", 0), 0),
    ],
    "a multi is seen half done": [
        done(1, 1, create("/a"), 0, "/a"),
        Operation("s1", 3, 10, TreeCall(1, HALF_DONE), TreeResult(0, ((0, stat(1, length=1)), (0, "/b")))),
        done(2, 4, req.GetData("/a", False), 0, (b"1", stat(1, length=1))),
        done(2, 6, req.Exists("/b", False), Code.NO_NODE),
    ],
    "a multi that failed has done something": [
        done(1, 1, create("/a"), 0, "/a"),
        done(1, 3, create("/b"), 0, "/b"),
        done(1, 5, HALF_DONE, 0, ((0, None), (Code.NODE_EXISTS, None))),
        done(2, 7, req.GetData("/a", False), 0, (b"1", stat(1, length=1))),
    ],
    "a cversion that does not count a child": [
        done(1, 1, create("/a"), 0, "/a"),
        done(1, 3, create("/a/b"), 0, "/a/b"),
        done(2, 5, req.Exists("/a", False), 0, stat(children=1)),
    ],
    "a sequence number under the root, which all its children count up": [
        done(1, 1, create("/a"), 0, "/a"),
        done(2, 3, create("/n-", 2), 0, "/n-0000000000"),
    ],
}


@pytest.mark.parametrize("history", TREE_VIOLATIONS.values(), ids=TREE_VIOLATIONS)
def test_a_violation_planted_in_a_tree_is_rejected(history: History) -> None:
    assert find_violation(TreeModel(), history) is not None
    assert find_violation(TreeModel(), history[:-1]) is None, "and it is the last operation that breaks it"


def test_a_closing_session_takes_its_ephemerals_under_every_node() -> None:
    history = [
        done(1, 1, create("/a", 1), 0, "/a"),
        done(1, 3, create("/b", 1), 0, "/b"),
        done(1, 5, req.CloseSession(), 0),
        done(2, 7, create("/c"), 0, "/c"),
        done(2, 9, req.Exists("/b", False), Code.NO_NODE),
    ]
    assert find_violation(TreeModel(), history) is None
    assert sorted(map(len, TreeModel().partition(history))) == [1, 4]


def test_a_tree_is_split_unless_somebody_looks_at_the_root() -> None:
    history = [
        done(1, 1, create("/a"), 0, "/a"),
        done(1, 3, create("/b"), 0, "/b"),
        done(1, 5, create("/b/c"), 0, "/b/c"),
    ]
    assert sorted(map(len, TreeModel().partition(history))) == [1, 2]
    root = done(1, 7, req.GetChildren("/", False), 0, frozenset({"a", "b", "zookeeper"}))
    assert list(map(len, TreeModel().partition([*history, root]))) == [4]
    assert find_violation(TreeModel(), [*history, root]) is None
    assert find_violation(TreeModel(), [*history[1:], root]) is not None


def test_a_model_may_begin_with_nodes() -> None:
    read = done(1, 1, req.GetData("/a/b", False), 0, (b"x", stat(length=1)))
    parent = done(1, 3, req.Exists("/a", False), 0, stat(cversion=1, children=1))
    assert find_violation(TreeModel({"/a": b"", "/a/b": b"x"}), [read, parent]) is None
    with pytest.raises(SimzkError, match="no parent"):
        TreeModel({"/a/b": b"x"})


def test_a_request_that_is_not_modelled_is_an_error_of_the_user() -> None:
    with pytest.raises(SimzkError, match="AddWatch is not modelled"):
        find_violation(TreeModel(), [done(1, 1, req.AddWatch("/a", 0), 0)])


def test_requests_of_the_same_fields_are_not_mistaken_for_each_other() -> None:
    history = [
        done(1, 1, create("/a"), 0, "/a"),
        done(1, 3, req.GetData("/a", False), 0, (b"", stat())),
        done(1, 5, req.Exists("/a", False), 0, stat()),
        done(1, 7, req.GetChildren("/a", False), 0, frozenset()),
    ]
    assert find_violation(TreeModel(), history) is None
