"""Exact linearizability check for small histories of concurrent operations.

A history is linearizable if each operation can be given one instant between its call and its return, so that the
operations, done one at a time in the order of these instants, have the results that were seen (Herlihy and Wing 1990).

Rules of this module:
  - a history says what clients saw, a model says what one client alone would have seen; nothing here knows a server;
  - an operation of which the outcome is unknown (the connection was lost before the reply) may have happened at any
    instant after its call, or never;
  - a history whose parts cannot influence each other is checked part by part (P-compositionality), as the model says;
  - the search is Wing and Gong's, with Lowe's memory: a set of done operations that led to a state is not tried again.

Source of the method: Wing, Gong, "Testing and verifying concurrent objects" (1993); Lowe, "Testing for
linearizability" (2016); the checkers Knossos and porcupine.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from simzk.errors import SimzkError

State = TypeVar("State", bound=Hashable)
Asked = TypeVar("Asked")
Result = TypeVar("Result")


class Operation(NamedTuple, Generic[Asked, Result]):
    """One operation of a history.

    Attributes:
        client: who asked; for the reader of a violation.
        called_at: when it was called, in any unit; times of one history are comparable.
        returned_at: when its result was known, later than `called_at`; None where it never was.
        asked: what was asked.
        result: what came back; means nothing where `returned_at` is None.
    """

    client: str
    called_at: int
    returned_at: int | None
    asked: Asked
    result: Result | None


class Model(ABC, Generic[State, Asked, Result]):
    """Sequential specification of an object; states are hashable and immutable."""

    @abstractmethod
    def init(self) -> State:
        """Return the state before the history."""

    @abstractmethod
    def step(self, state: State, asked: Asked) -> tuple[State, Result]:
        """Return the state after an operation, and its result."""

    def equal(self, expected: Result, seen: Result | None) -> bool:
        """Return whether the result of a step equals the one that a client observed."""
        return expected == seen

    def partition(self, history: Sequence[Operation[Asked, Result]]) -> list[list[Operation[Asked, Result]]]:
        """Return independent parts of the history, each starting from `init()`; by default one part."""
        return [list(history)]


@dataclass(frozen=True)
class Violation(Generic[Asked, Result]):
    """A history that no order of its operations explains.

    Attributes:
        explained: the longest order that was found, in which every result is right.
        blocked: the operations that could have come next, each with the result that it should have had there.
    """

    explained: tuple[Operation[Asked, Result], ...]
    blocked: tuple[tuple[Operation[Asked, Result], Result], ...]

    def __str__(self) -> str:
        lines = ["not linearizable; after these, in this order:"]
        lines += [f"  {_describe(operation)}" for operation in self.explained]
        lines.append("none of these can be next:")
        lines += [
            f"  {_describe(operation)}, where {expected!r} would be right" for operation, expected in self.blocked
        ]
        return "\n".join(lines)


def _describe(operation: Operation[Asked, Result]) -> str:
    client, called_at, returned_at, asked, result = operation
    outcome = "outcome unknown" if returned_at is None else repr(result)
    return f"{client} [{called_at}, {'...' if returned_at is None else returned_at}] {asked!r}: {outcome}"


def find_violation(
    model: Model[State, Asked, Result], history: Sequence[Operation[Asked, Result]]
) -> Violation[Asked, Result] | None:
    """Return why a history is not linearizable, or None if it is.

    Exact: it answers None if and only if there is an order. The time it takes grows with how many operations overlap,
    not with the length of the history, but may be exponential in the former.

    Args:
        model: what the operations should do.
        history: the operations, in any order.

    Returns:
        The violation in the first part of the history that has one, or None.

    Raises:
        SimzkError: an operation that returned before it was called.

    >>> from simzk.testing.linearizability.models import CompareAndSet, Get, RegisterModel
    >>> won, also_won = CompareAndSet("/leader", b"a", 0), CompareAndSet("/leader", b"b", 0)
    >>> found = find_violation(RegisterModel(), [Operation("a", 1, 3, won, 1), Operation("b", 2, 4, also_won, 1)])
    >>> print(found)
    not linearizable; after these, in this order:
      a [1, 3] CompareAndSet(key='/leader', value=b'a', version=0): 1
    none of these can be next:
      b [2, 4] CompareAndSet(key='/leader', value=b'b', version=0): 1, where None would be right
    >>> lost = Operation("b", 2, None, also_won, None)
    >>> seen = Operation("a", 5, 6, Get("/leader"), (b"b", 1))
    >>> find_violation(RegisterModel(), [lost, seen]) is None
    True
    """
    for operation in history:
        if operation.returned_at is not None and operation.returned_at <= operation.called_at:
            raise SimzkError(
                f"returned at {operation.returned_at}", where=_describe(operation), right=f"after {operation.called_at}"
            )
    for part in model.partition(history):
        violation = _Search(model, part).violation()
        if violation is not None:
            return violation
    return None


class _Search(Generic[State, Asked, Result]):
    """Depth-first search for an order of one part; sets of operations are integers, bit i for `_operations[i]`."""

    def __init__(self, model: Model[State, Asked, Result], history: Sequence[Operation[Asked, Result]]) -> None:
        self._model = model
        known = sorted((one for one in history if one.returned_at is not None), key=lambda one: one.called_at)
        unknown = sorted((one for one in history if one.returned_at is None), key=lambda one: one.called_at)
        self._operations = known + unknown
        self._known_count = len(known)
        self._all_known = (1 << len(known)) - 1

    def violation(self) -> Violation[Asked, Result] | None:
        """Return None if an order of all operations with known outcome exists; it may contain some of the others."""
        if not self._known_count:
            return None
        init = self._model.init()
        tried: set[tuple[int, State]] = {(0, init)}
        order: list[int] = []
        longest: list[int] = []
        path: list[tuple[int, Iterator[tuple[int, State]]]] = [(0, self._successors(0, init))]
        while path:
            done, successors = path[-1]
            if len(order) > len(longest):
                longest = order.copy()
            for index, state in successors:
                after = done | 1 << index
                if (after, state) not in tried:
                    tried.add((after, state))
                    order.append(index)
                    if after & self._all_known == self._all_known:
                        return None
                    path.append((after, self._successors(after, state)))
                    break
            else:
                path.pop()
                if order:
                    order.pop()
        return self._explain(longest)

    def _successors(self, done: int, state: State) -> Iterator[tuple[int, State]]:
        """Return the operations that can be next, with the state after each."""
        changing: list[tuple[int, State]] = []
        for index in self._next(done):
            operation = self._operations[index]
            after, result = self._model.step(state, operation.asked)
            if operation.returned_at is None:
                # An operation of unknown outcome that changes nothing can be left out.
                if after != state:
                    changing.append((index, after))
            elif self._model.equal(result, operation.result):
                if after == state:
                    # If any order exists from here, one exists that begins with this operation: no other needs a try.
                    return iter([(index, after)])
                changing.append((index, after))
        return iter(changing)

    def _next(self, done: int) -> list[int]:
        """Return the operations that were called before the first remaining one returned, unknown outcomes last."""
        operations = self._operations
        first_open = (~done & (done + 1)).bit_length() - 1
        able: list[int] = []
        limit: int | None = None
        for index in range(first_open, self._known_count):
            if done >> index & 1:
                continue
            _, called_at, returned_at, _, _ = operations[index]
            if limit is not None and called_at > limit:
                break
            assert returned_at is not None
            limit = returned_at if limit is None else min(limit, returned_at)
            able.append(index)
        assert limit is not None, "as long as a known outcome is to be explained, one of them limits the next"
        able += [index for index in range(self._known_count, len(operations)) if not done >> index & 1]
        return [index for index in able if operations[index].called_at <= limit]

    def _explain(self, order: Sequence[int]) -> Violation[Asked, Result]:
        state, done = self._model.init(), 0
        for index in order:
            state, _ = self._model.step(state, self._operations[index].asked)
            done |= 1 << index
        blocked = [
            (operation, self._model.step(state, operation.asked)[1])
            for operation in map(self._operations.__getitem__, self._next(done))
            if operation.returned_at is not None
        ]
        return Violation(tuple(self._operations[index] for index in order), tuple(blocked))


class HistoryRecorder(Generic[Asked, Result]):
    """Recorder of a history of clients in several threads; its times are positions in one order of calls and returns.

    >>> from simzk.testing.linearizability.models import Get, RegisterModel
    >>> recorder = HistoryRecorder()
    >>> recorder.call("a", Get("/x"), lambda: (b"", 0))
    (b'', 0)
    >>> find_violation(RegisterModel(), recorder.history()) is None
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self._operations: list[Operation[Asked, Result]] = []

    def call(self, client: str, asked: Asked, do: Callable[[], Result]) -> Result:
        """Run an operation and record it.

        Args:
            client: who asks.
            asked: what is asked, in the model's terms.
            do: asks it, and gives the result in the model's terms, an error that is a result included. If it raises,
                the outcome is unknown.

        Returns:
            What `do` returned.
        """
        with self._lock:
            self._now += 1
            index = len(self._operations)
            self._operations.append(Operation(client, self._now, None, asked, None))
        result = do()
        with self._lock:
            self._now += 1
            self._operations[index] = self._operations[index]._replace(returned_at=self._now, result=result)
        return result

    def history(self) -> list[Operation[Asked, Result]]:
        """Return all operations so far; the outcome of those in progress is unknown."""
        with self._lock:
            return list(self._operations)
