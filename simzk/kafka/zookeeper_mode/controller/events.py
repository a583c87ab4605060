"""Event queue of a controller, and its records in the history.

Rules of the module (ControllerEventManager; docs/reference/kafka.md §2.1):
  - watchers and requests only add events; the queue processes one event at a time, in order;
  - an event that the controller cannot process any more calls its `preempt` instead;
  - as in Kafka, an assignment that an operator wrote wrong is carried out; the history records warnings (§2.11, "What
    operators write wrong").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVarTuple, Unpack

from simzk.simulation import Future, Queue, Task

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from simzk.kafka.protocol.errors import ErrorCode
    from simzk.kafka.topic_partition import ReplicaAssignment
    from simzk.simulation import History, Process
    from simzk.zookeeper.replies import EventType

Args = TypeVarTuple("Args")
Work = Callable[[], Coroutine[Future[Any], None, None]]


class Watched(StrEnum):
    """Name of an event that a watcher adds, and that a former controller may handle too; in zkclient's order."""

    ISR_CHANGES = "ISR changes"
    DELETIONS = "topic deletion"
    ELECTION = "preferred election by znode"
    REASSIGNMENT = "reassignment by znode"


class ControllerEvent(NamedTuple):
    """Work to do in order.

    Args:
        name: identifies the event in the history.
        work: processes the event.
        always: whether the event is processed also while this broker is not the controller.
        preempt: is called instead of `work` if the event cannot be processed.
    """

    name: str
    work: Work
    always: bool = False
    preempt: Callable[[], None] | None = None

    def cancel(self) -> None:
        """Answer whoever waits for the event: it is not processed."""
        if self.preempt is not None:
            self.preempt()


@dataclass(eq=False, slots=True)
class Watcher:
    """Handler of a session that adds an event at each notification of some kinds.

    A controller has one for each topic: a function with its cells would be nine objects instead of one for the garbage
    collector, which may walk all of them during a failover.
    """

    _events: ControllerEventManager
    _kinds: Collection[EventType]
    _name: str
    _work: Callable[..., Coroutine[Future[Any], None, None]]
    _args: tuple[object, ...]

    def __call__(self, notified: EventType) -> None:
        """Add the event if the notification is of one of the kinds."""
        if notified in self._kinds:
            self._events.put(self._name, partial(self._work, *self._args))


class ControllerEventManager:
    """Queue of events, and the task of `process` that processes them, each by `process_event`."""

    def __init__(
        self, process: Process, process_event: Callable[[ControllerEvent], Coroutine[Future[Any], None, None]]
    ) -> None:
        self._process = process
        self._process_event = process_event
        self._queue: Queue[ControllerEvent] = Queue()
        # Events that have not begun. An event leaves `_queue` as soon as the task is woken, and this list only when
        # the task runs: between the two, an expired session must still find the event here.
        self._waiting: deque[ControllerEvent] = deque()
        self._task: Task[None] | None = None

    def start(self) -> None:
        """Start to process events."""
        assert self._task is None, "the event queue was started before"
        self._task = self._process.spawn(self._run(), "controller")

    def put(self, name: str, work: Work, *, always: bool = False, preempt: Callable[[], None] | None = None) -> None:
        """Add an event at the end of the queue."""
        event = ControllerEvent(name, work, always, preempt)
        self._waiting.append(event)
        self._queue.put(event)
        assert len(self._queue) <= len(self._waiting), "an event waits until it begins"

    def watcher(
        self,
        kinds: Collection[EventType],
        name: str,
        work: Callable[[Unpack[Args]], Coroutine[Future[Any], None, None]],
        *args: *Args,
    ) -> Watcher:
        """Return a watcher that adds an event at each notification of some kinds; the event calls `work(*args)`."""
        assert kinds, f"{name}: a watcher without a kind of event never acts"
        return Watcher(self, kinds, name, work, args)

    def cancel_all(self) -> None:
        """Remove all waiting events and cancel each."""
        waiting, self._waiting = self._waiting, deque()
        self._queue.clear()
        for event in waiting:
            event.cancel()

    def stop(self) -> None:
        """Stop at once, also in the middle of an event, and remove all waiting events without a word."""
        if self._task is not None:
            self._task.cancel()
        self._waiting.clear()
        self._queue.clear()

    async def _run(self) -> None:
        while True:
            event = await self._queue.get()
            if self._waiting and self._waiting[0] is event:
                self._waiting.popleft()
            await self._process_event(event)


class ControllerLog:
    """Records of one controller in the history."""

    def __init__(self, history: History, broker_id: int) -> None:
        self._history = history
        self._name = f"controller {broker_id}"

    def record(self, kind: str, subject: str = "", after: str = "") -> None:
        """Record an event of this controller."""
        self._history.record(self._name, kind, subject, "", after)

    def record_refusal(self, path: str, request: str, error: ErrorCode) -> None:
        """Record a request by znode that the controller does not carry out."""
        assert error.name != "NONE", f"{request} is refused without an error"
        self.record("refused", request, f"{path}: {error.name}")

    def record_warnings(self, path: str, warnings: Sequence[str]) -> None:
        """Record what is unusual about an assignment that an operator wrote and that the controller carries out."""
        for warning in warnings:
            self.record("doubtful", path, warning)


_MAX_WARNINGS = 5


def warnings_of_topic(partitions: Mapping[int, ReplicaAssignment], is_live: Callable[[int], bool]) -> list[str]:
    """Return the first few warnings about a new topic.

    >>> from simzk.kafka.topic_partition import ReplicaAssignment
    >>> warnings_of_topic({0: ReplicaAssignment((1, 1)), 2: ReplicaAssignment((1,))}, lambda broker: broker == 1)
    ['partition 0: duplicate broker in [1, 1]', 'partition numbers are not consecutive from 0']
    """
    if not partitions:
        return ["no partitions: the topic stays empty"]
    warnings = []
    for number, assignment in partitions.items():
        warning = _warning_of_replicas(assignment.replicas, is_live)
        if warning:
            warnings.append(f"partition {number}: {warning}")
    if max(partitions) != len(partitions) - 1:
        warnings.append("partition numbers are not consecutive from 0")
    return warnings[:_MAX_WARNINGS]


def _warning_of_replicas(replicas: Sequence[int], is_live: Callable[[int], bool]) -> str:
    if not replicas:
        return "no replicas: no leader can be elected"
    if not any(is_live(broker) for broker in replicas):
        return f"no broker of {list(replicas)} is live: the partition waits for a leader"
    return f"duplicate broker in {list(replicas)}" if len({*replicas}) < len(replicas) else ""


def warnings_of_target(target: Sequence[int], is_live: Callable[[int], bool]) -> list[str]:
    """Return the warnings about the target of a reassignment.

    >>> warnings_of_target((2, 2, 9), lambda broker: broker == 2)
    ['duplicate broker in [2, 2, 9]', '[9] not live: the reassignment waits']
    """
    if not target:
        return ["empty target"]
    warnings = [f"duplicate broker in {list(target)}"] if len({*target}) < len(target) else []
    dead = [broker for broker in dict.fromkeys(target) if not is_live(broker)]
    return [*warnings, f"{dead} not live: the reassignment waits"] if dead else warnings
