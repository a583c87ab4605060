"""A job of Spark as its user sees it: how far it is, and why it failed, in one line each."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

T = TypeVar("T")

POLL_S = 0.2


@contextmanager
def watched(spark: SparkSession, tasks: int, progress: Callable[[float], None] | None) -> Iterator[None]:
    """While a job of one stage runs in this thread, say from another how many of its tasks are done."""
    if progress is None:
        yield
        return
    tracker = spark.sparkContext.statusTracker()
    over = Event()

    def watch() -> None:
        done = 0
        while not over.wait(POLL_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            # Between its last task and its end a stage is no longer active.
            done = max(done, sum(stage.numCompletedTasks for stage in stages if stage is not None))
            progress(min(done / tasks, 1.0))

    watcher = Thread(target=watch, name="simzk-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@contextmanager
def told(spark: SparkSession, tell: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """While jobs run in this thread, say from another what is being done, and how many of its tasks are.

    Args:
        spark: the session.
        tell: called with the line that stands now.

    Returns:
        what is to be called with what is done next.
    """
    tracker = spark.sparkContext.statusTracker()
    over, doing = Event(), [""]

    def watch() -> None:
        while not over.wait(POLL_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            tasks = sum(stage.numTasks for stage in stages if stage is not None)
            if tasks:
                tell(f"{doing[0]}: {done:,} of {tasks:,} tasks")

    def say(what: str) -> None:
        doing[0] = what
        tell(what)

    watcher = Thread(target=watch, name="simzk-progress", daemon=True)
    watcher.start()
    try:
        yield say
    finally:
        over.set()
        watcher.join()


def in_words(act: Callable[[], T]) -> T:
    """Do it; a failure of Spark becomes an error of one line, the innermost reason, not a page of two stacks."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return act()
    except (PySparkException, Py4JError) as error:
        raise SimzkError(f"Spark could not do it: {_innermost_reason(_text(error))}") from error


def _text(error: Exception) -> str:
    """What it says; of a Java exception that is asked of Java, which may be gone."""
    try:
        return str(error)
    except Exception:
        return "its Java process has ended"


def _innermost_reason(text: str) -> str:
    """The last line of the first Python traceback in the text, or its first line.

    >>> _innermost_reason('failed:\\nTraceback (most recent call last):\\n  File "a.py"\\nOSError: no space\\nat java')
    'OSError: no space'
    """
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("Traceback"):
            after = [later for later in lines[place + 1 :] if later and not later[0].isspace()]
            return after[0] if after else line
    return lines[0] if lines else "no reason given"
