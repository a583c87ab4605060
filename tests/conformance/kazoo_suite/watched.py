"""Runs a suite in a process of its own for as long as it goes on: what bounds it is silence, and not a total.

Rules of this module:
  - a machine with many jobs makes a suite slow, each test and the start of its processes alike; a suite that hangs says
    nothing more. So a run is given up when nothing was printed for so long, however much was printed before;
  - who falls silent is asked where it stands: its processes get SIGABRT, at which pytest's faulthandler prints the
    stack of every thread;
  - nothing of a run outlives it: it is a process group of its own, ended with it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TEST_S = 120
"""A suite's tests are given so long each, by pytest-timeout."""
SILENT_S = 240.0
"""Longer than that, so that a test that hangs is named first."""
LIMITS = ("--timeout", str(TEST_S), "--maxfail", "8")
"""Arguments of a suite's pytest: after eight failures, as of a server that does not answer, it stops."""
WHOLE_S = 1500
"""The limit of the test that runs a suite: eight tests that hang one after another, and the rest of a slow suite."""
LAST_WORDS_S = 10.0
CHUNK_BYTES = 65536


class SilentError(AssertionError):
    """A run has printed nothing for too long."""


def run_watched(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], silent_s: float = SILENT_S
) -> subprocess.CompletedProcess[str]:
    """Run a command, whatever time it takes, as long as it goes on printing.

    Args:
        silent_s: seconds without a byte on stdout after which it is given up.

    Raises:
        SilentError: it fell silent; with what it had printed, and the stacks of its threads.
    """
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
        )
        assert process.stdout is not None
        reported: list[bytes] = []
        try:
            with process.stdout as stdout:
                ended = _read(stdout.fileno(), reported, silent_s)
                if not ended:
                    os.killpg(process.pid, signal.SIGABRT)
                    _read(stdout.fileno(), reported, LAST_WORDS_S)
            process.wait(silent_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        stderr.seek(0)
        printed, complained = _text(reported), _text([stderr.read()])
    if not ended:
        raise SilentError(f"nothing was printed for {silent_s:g} s after:\n{printed}\nstacks:\n{complained}")
    return subprocess.CompletedProcess(command, process.returncode, printed, complained)


def _read(descriptor: int, reported: list[bytes], silent_s: float) -> bool:
    """Read to the end; False when nothing came for `silent_s`."""
    while select.select([descriptor], [], [], silent_s)[0]:
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return True
        reported.append(chunk)
    return False


def _text(reported: Sequence[bytes]) -> str:
    return b"".join(reported).decode(errors="replace")
