"""Processes: what runs, what waits, what dies."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simzk.simulation import CancelledError, Future, Process, Queue, Scheduler, Task, gather


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(seed=1)


@pytest.fixture
def process(scheduler: Scheduler) -> Process:
    return Process(scheduler, "broker-1")


async def result_of(value: int) -> int:
    return value


async def fail_with(message: str) -> int:
    raise ValueError(message)


def test_a_spawned_task_runs_in_the_next_event_and_not_before(scheduler: Scheduler, process: Process) -> None:
    task = process.spawn(result_of(3))
    assert not task.done
    scheduler.run_until(0)
    assert task.result() == 3


def test_sleep_takes_virtual_time(scheduler: Scheduler, process: Process) -> None:
    woke_us: list[int] = []

    async def work() -> None:
        await process.sleep(1_000)
        await process.sleep(500)
        woke_us.append(scheduler.now_us)

    process.spawn(work())
    scheduler.run_until(10_000)
    assert woke_us == [1_500]


def test_a_failure_reaches_who_awaits_it(scheduler: Scheduler, process: Process) -> None:
    async def parent() -> str:
        child = process.spawn(fail_with("no"))
        try:
            await child
        except ValueError as error:
            return str(error)
        return "nothing"

    task = process.spawn(parent())
    scheduler.run_until(0)
    assert task.result() == "no"


def test_a_failure_that_nobody_awaits_fails_the_run(scheduler: Scheduler, process: Process) -> None:
    process.spawn(fail_with("no"), name="worker")
    with pytest.raises(ValueError, match="no") as caught:
        scheduler.run_until(0)
    assert caught.value.__notes__ == ["in task worker of broker-1, which has no waiter"]
    process.check()


def test_awaiting_what_is_no_future_is_a_bug(scheduler: Scheduler, process: Process) -> None:
    class Foreign:
        def __await__(self):  # type: ignore[no-untyped-def]
            yield "something of another library"

    async def work() -> None:
        await Foreign()

    process.spawn(work())
    with pytest.raises(AssertionError, match="which is not a Future of simzk"):
        scheduler.run_until(0)


def test_gather_returns_all_in_order_and_the_first_failure(scheduler: Scheduler, process: Process) -> None:
    async def work() -> list[int]:
        return await gather([process.spawn(result_of(2)), process.spawn(result_of(1))])

    async def work_badly() -> str:
        try:
            await gather([process.spawn(result_of(2)), process.spawn(fail_with("a")), process.spawn(fail_with("b"))])
        except ValueError as error:
            return str(error)
        return "nothing"

    good, bad = process.spawn(work()), process.spawn(work_badly())
    scheduler.run_until(0)
    assert good.result() == [2, 1]
    assert bad.result() == "a"
    assert gather([]).result() == []


def test_kill_closes_coroutines_and_nothing_runs_after(scheduler: Scheduler, process: Process) -> None:
    reported: list[str] = []

    async def work() -> None:
        try:
            await process.sleep(1_000)
            reported.append("ran on")
        finally:
            reported.append("closed")

    task = process.spawn(work())
    process.call_later(1_000, lambda: reported.append("timer"))
    scheduler.run_until(500)
    process.deliver(lambda: reported.append("mail"))
    process.kill()
    process.check()
    process.deliver(lambda: reported.append("mail to the dead"))
    late = process.spawn(result_of(1))
    timer = process.call_later(1, lambda: reported.append("timer of the dead"))
    scheduler.run_until(5_000)
    assert reported == ["closed"]
    assert not timer.active
    for dead in (task, late):
        with pytest.raises(CancelledError, match="was cancelled"):
            dead.result()


def test_a_process_that_kills_itself_stops_at_its_next_await(scheduler: Scheduler, process: Process) -> None:
    reported: list[str] = []

    async def work() -> None:
        process.kill()
        reported.append("last words")
        await process.sleep(1)
        reported.append("a ghost")

    process.spawn(work())
    scheduler.run_until(10)
    assert reported == ["last words"]
    process.check()


def test_a_waiter_elsewhere_hears_of_the_death(scheduler: Scheduler, process: Process) -> None:
    other = Process(scheduler, "broker-2")
    never: Future[None] = Future()

    async def wait_for_ever() -> None:
        await never

    async def wait_for(task: Task[None]) -> str:
        try:
            await task
        except CancelledError as error:
            return str(error)
        return "nothing"

    waiter = other.spawn(wait_for(process.spawn(wait_for_ever())))
    scheduler.run_until(1)
    process.kill()
    scheduler.run_until(2)
    assert waiter.result() == "task wait_for_ever of broker-1 was cancelled"


def test_restart_is_empty_and_alive(scheduler: Scheduler, process: Process) -> None:
    ran: list[str] = []
    process.call_later(10, lambda: ran.append("of the first life"))
    process.kill()
    process.restart()
    assert process.incarnation == 2
    process.call_later(20, lambda: ran.append("of the second"))
    scheduler.run_until(100)
    assert ran == ["of the second"]


def test_what_a_future_wakes_after_a_restart_is_not_the_old_task(scheduler: Scheduler, process: Process) -> None:
    ran: list[str] = []
    reply: Future[str] = Future()

    async def work(life: str) -> None:
        ran.append(f"{life}: {await reply}")

    process.spawn(work("first"))
    scheduler.run_until(1)
    process.kill()
    process.restart()
    process.spawn(work("second"))
    scheduler.run_until(2)
    reply.set_result("hello")
    scheduler.run_until(3)
    assert ran == ["second: hello"]


def test_pause_holds_all_and_resume_runs_it_in_order(scheduler: Scheduler, process: Process) -> None:
    ran: list[str] = []
    process.deliver(lambda: ran.append("0 before"))
    process.pause(1_000)
    process.deliver(lambda: ran.append("1 mail"))
    process.call_later(10, lambda: ran.append("2 timer"))
    scheduler.run_until(20)
    process.deliver(lambda: ran.append("3 mail"))
    process.check()
    assert ran == []
    scheduler.run_until(999)
    assert ran == []
    scheduler.run_until(1_000)
    assert ran == ["0 before", "1 mail", "2 timer", "3 mail"]


def test_a_timer_that_came_due_in_a_pause_can_still_be_cancelled(scheduler: Scheduler, process: Process) -> None:
    timer = process.call_later(10, pytest.fail)
    process.pause(1_000)
    scheduler.run_until(500)
    timer.cancel()
    scheduler.run_until(2_000)


@pytest.mark.parametrize("seed", range(20))
def test_a_timer_does_not_overtake_what_arrived_before_it(seed: int) -> None:
    scheduler = Scheduler(seed)
    process = Process(scheduler, "a")
    ran: list[str] = []
    process.pause(100)
    process.call_later(100, lambda: ran.append("timer"))
    for index in range(3):
        process.deliver(lambda index=index: ran.append(f"mail {index}"))  # type: ignore[misc]
    scheduler.run_until(100)
    assert ran == ["mail 0", "mail 1", "mail 2", "timer"]


def test_a_failure_whose_only_waiter_was_cancelled_fails_the_run(scheduler: Scheduler, process: Process) -> None:
    async def fail_later() -> int:
        await process.sleep(10)
        return await fail_with("no")

    async def wait_for(task: Task[int]) -> int:
        return await task

    waiter = process.spawn(wait_for(process.spawn(fail_later())))
    scheduler.run_until(5)
    waiter.cancel()
    with pytest.raises(ValueError, match="no"):
        scheduler.run_until(20)


def test_a_second_pause_replaces_the_end_of_the_first(scheduler: Scheduler, process: Process) -> None:
    process.pause(1_000)
    process.pause()
    scheduler.run_until(5_000)
    assert process.paused
    process.resume()
    assert not process.paused


def test_killed_while_paused_stays_dead_and_can_restart(scheduler: Scheduler, process: Process) -> None:
    process.pause(1_000)
    process.deliver(pytest.fail)
    process.kill()
    process.restart()
    assert not process.paused
    scheduler.run_until(5_000)
    process.check()


def test_cancel_closes_one_task_only(scheduler: Scheduler, process: Process) -> None:
    async def work() -> int:
        await process.sleep(10)
        return 1

    cancelled, left = process.spawn(work()), process.spawn(work())
    scheduler.run_until(5)
    cancelled.cancel()
    cancelled.cancel()
    scheduler.run_until(20)
    assert isinstance(cancelled.exception(), CancelledError)
    assert left.result() == 1


def test_queue_is_first_in_first_out(scheduler: Scheduler, process: Process) -> None:
    queue: Queue[int] = Queue()
    got: list[int] = []

    async def consume() -> None:
        while True:
            got.append(await queue.get())

    process.spawn(consume())
    scheduler.run_until(1)
    for item in range(5):
        queue.put(item)
    scheduler.run_until(2)
    assert got == [0, 1, 2, 3, 4]
    queue.put(9)
    queue.clear()
    assert len(queue) == 0
    scheduler.run_until(3)
    assert got == [0, 1, 2, 3, 4]


def test_an_item_is_not_lost_with_the_waiter_it_woke(scheduler: Scheduler, process: Process) -> None:
    queue: Queue[str] = Queue()
    first, second = process.spawn(queue.get()), process.spawn(queue.get())
    scheduler.run_until(1)
    queue.put("item")
    first.cancel()
    queue.check()
    scheduler.run_until(2)
    assert second.result() == "item"


def test_a_waiter_that_dies_waiting_is_forgotten(scheduler: Scheduler, process: Process) -> None:
    queue: Queue[str] = Queue()
    first, second = process.spawn(queue.get()), process.spawn(queue.get())
    scheduler.run_until(1)
    first.cancel()
    queue.put("item")
    scheduler.run_until(2)
    assert second.result() == "item"


@given(st.lists(st.integers(0, 100), min_size=1, max_size=20), st.integers(0, 120), st.integers(0, 100))
def test_nothing_is_lost_or_reordered_by_a_pause(delays: list[int], pause_at_us: int, pause_us: int) -> None:
    """Mail sent at distinct times runs in the order sent, each once, whenever the pause falls."""
    scheduler = Scheduler(seed=9)
    process = Process(scheduler, "a")
    ran: list[int] = []
    at_us = 0
    for index, delay in enumerate(delays):
        at_us += delay + 1
        scheduler.call_at(at_us, "mail", lambda index=index: process.deliver(lambda: ran.append(index)))  # type: ignore[misc]
    scheduler.call_at(pause_at_us, "fault", lambda: process.pause(pause_us))
    scheduler.run_until(at_us + pause_at_us + pause_us + 1)
    assert ran == list(range(len(delays)))


class ProcessMachine(RuleBasedStateMachine):
    """A process under any order of spawn, timer, mail, pause, resume, kill and restart, beside a model of its life."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(seed=2)
        self.process = Process(self.scheduler, "p")
        self.tasks: list[tuple[int, Task[None]]] = []

    def _note(self, life: int) -> None:
        assert self.process.alive, "ran in a dead process"
        assert not self.process.paused, "ran in a paused process"
        assert self.process.incarnation == life, "ran in another life"

    async def _work(self, life: int, delay_us: int) -> None:
        self._note(life)
        await self.process.sleep(delay_us)
        self._note(life)

    @rule(delay_us=st.integers(0, 50))
    def spawn(self, delay_us: int) -> None:
        life = self.process.incarnation
        self.tasks.append((life, self.process.spawn(self._work(life, delay_us))))

    @rule(delay_us=st.integers(0, 50))
    def set_timer(self, delay_us: int) -> None:
        life = self.process.incarnation
        self.process.call_later(delay_us, lambda: self._note(life))

    @rule()
    def send_mail(self) -> None:
        life = self.process.incarnation
        self.process.deliver(lambda: self._note(life))

    @rule(duration_us=st.none() | st.integers(0, 50))
    @precondition(lambda self: self.process.alive)
    def pause(self, duration_us: int | None) -> None:
        self.process.pause(duration_us)

    @rule()
    def resume(self) -> None:
        self.process.resume()

    @rule()
    def kill(self) -> None:
        self.process.kill()

    @rule()
    @precondition(lambda self: not self.process.alive)
    def restart(self) -> None:
        self.process.restart()

    @rule(duration_us=st.integers(0, 40))
    def run(self, duration_us: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + duration_us)

    @invariant()
    def structures_hold(self) -> None:
        self.process.check()
        self.scheduler.check()

    def teardown(self) -> None:
        self.process.resume()
        self.scheduler.run_until(self.scheduler.now_us + 1_000)
        assert all(task.done for _, task in self.tasks), "a task was lost"


TestProcessMachine = ProcessMachine.TestCase


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize("order", ["tc", "ct", "tt", "t", "tct"])
def test_tasks_and_callbacks_run_in_the_order_in_which_they_began_to_wait(
    scheduler: Scheduler, process: Process, order: str, is_last: bool
) -> None:
    future, ran = Future[int](), []

    async def wait(number: int) -> None:
        ran.append((number, await future))

    def note(number: int, done: Future[int]) -> None:
        process.deliver(partial(ran.append, (number, done.result())))

    for number, kind in enumerate(order):
        if kind == "t":
            process.spawn(wait(number))
            scheduler.run_until(scheduler.now_us)
        else:
            future.add_done_callback(partial(note, number))
    (future.set_last_result if is_last else future.set_result)(7)
    scheduler.run_until(scheduler.now_us)
    assert ran == [(number, 7) for number in range(len(order))]


def test_a_task_that_is_cancelled_does_not_run_when_its_future_is_done(scheduler: Scheduler, process: Process) -> None:
    future, ran = Future[int](), []

    async def wait(number: int) -> None:
        ran.append((number, await future))

    first, _second = process.spawn(wait(1)), process.spawn(wait(2))
    scheduler.run_until(0)
    first.cancel()
    future.set_last_result(7)
    scheduler.run_until(0)
    assert ran == [(2, 7)]


def test_a_last_delivery_waits_behind_others_and_in_a_paused_process(scheduler: Scheduler, process: Process) -> None:
    ran: list[str] = []
    process.deliver(lambda: ran.append("first"))
    process.deliver_last(lambda: ran.append("second"))
    assert ran == []
    scheduler.run_until(0)
    assert ran == ["first", "second"]
    process.deliver_last(lambda: ran.append("at once"))
    assert ran[2:] == ["at once"]
    process.pause()
    process.deliver_last(lambda: ran.append("resumed"))
    assert ran[3:] == []
    process.resume()
    scheduler.run_until(0)
    assert ran[3:] == ["resumed"]
    process.kill()
    process.deliver_last(lambda: ran.append("dead"))
    scheduler.run_until(0)
    assert ran[4:] == []
