"""Progress of a Spark job, and the reason of its failure in one line."""

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
    """Report from another thread how many tasks are done while a one-stage job runs in this thread."""
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
    """Report from another thread the current step and its finished tasks while jobs run in this thread.

    Args:
        spark: the session.
        tell: receives the current line.

    Returns:
        a function to call with the name of the next step.
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
    """Call a function; raise a Spark failure as an error with its innermost reason in one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return act()
    except (PySparkException, Py4JError) as error:
        raise SimzkError(f"Spark could not do it: {_innermost_reason(_text(error))}") from error


def _text(error: Exception) -> str:
    """Return the text of an error; a Java exception is read from Java, which may have exited."""
    try:
        return str(error)
    except Exception:
        return "its Java process has ended"


def _innermost_reason(text: str) -> str:
    """Return the last line of the first Python traceback in a text, or its first line.

    >>> _innermost_reason('failed:\\nTraceback (most recent call last):\\n  File "a.py"\\nOSError: no space\\nat java')
    'OSError: no space'
    """
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if line.startswith("Traceback"):
            after = [later for later in lines[place + 1 :] if later and not later[0].isspace()]
            return after[0] if after else line
    return lines[0] if lines else "no reason given"
