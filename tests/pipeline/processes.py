"""Processes that tests start and end: what they say line by line, and their children's children."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Self

from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Started:
    """A process whose lines, of stdout and stderr, are read as they come; it is killed at the end of the `with`.

    Args:
        command: the program and its arguments.
        folder: where it works.
        environment: all of its variables.
    """

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self._lines: list[str] = []
        self._is_over = False
        self._more = Condition()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self._lines.append(line.rstrip("\n"))
                self._more.notify_all()
        with self._more:
            self._is_over = True
            self._more.notify_all()

    def line(self, place: int) -> str | None:
        """The line of that number, from 0, when it has been said; None if it is over before."""
        with self._more:
            is_there = self._more.wait_for(lambda: len(self._lines) > place or self._is_over, PATIENCE_S)
            assert is_there, f"it said nothing more within {PATIENCE_S} s:\n{self.last_lines()}"
            return self._lines[place] if len(self._lines) > place else None

    def last_lines(self) -> str:
        """The end of what it said."""
        return "\n".join(self._lines[-40:])

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that it says, or has said, in which the pattern is found."""
        for place in itertools.count():
            line = self.line(place)
            assert line is not None, f"it never said {pattern!r}:\n{self.last_lines()}"
            if match := re.search(pattern, line):
                return match
        raise AssertionError

    def ask(self, line: str, each: Callable[[str], None] = lambda _: None) -> str:
        """Say a line to it; what it answers goes to `each` as it comes, up to a line that begins with `done`."""
        assert self._process.stdin is not None
        with self._more:
            said = len(self._lines)
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        for place in itertools.count(said):
            reported = self.line(place)
            assert reported is not None, f"it did not answer {line!r}:\n{self.last_lines()}"
            if reported.startswith("done"):
                return reported
            each(reported)
        raise AssertionError

    def kill(self) -> None:
        """End it as a power failure would, its children not."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        below = descendants(self.pid)
        self.kill()
        for pid in below:
            end(pid)
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def end(pid: int) -> None:
    """Kill a process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> dict[int, str]:
    """The processes below one, with the commands that they run: parents before their children."""
    children: dict[int, list[int]] = {}
    commands: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it is over
        children.setdefault(parent, []).append(int(folder.name))
    found: dict[int, str] = {}
    above = [pid]
    while above:
        for child in children.get(above.pop(), ()):
            found[child] = commands[child]
            above.append(child)
    return found
