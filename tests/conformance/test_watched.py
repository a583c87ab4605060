"""Suites are stopped when they print nothing for too long."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conformance.kazoo_suite.watched import SilentError, run_watched

QUICK_S = 1.0  # a limit that is to be reached
HANGING = """
import faulthandler, subprocess, sys, threading
faulthandler.enable()
print("so far", flush=True)
subprocess.run([sys.executable, "-c", "import threading; threading.Event().wait()"])
"""
PATIENT_S = 4.0  # a limit that is to be outlived, by many lines of which none is late
SLOW = f"""
import threading, time
end_s = time.monotonic() + {PATIENT_S * 1.1}
while time.monotonic() < end_s:
    threading.Event().wait(0.02)
    print("on and on", flush=True)
"""


def run(program: str, silent_s: float) -> tuple[int, str, str]:
    done = run_watched([sys.executable, "-c", program], cwd=Path.cwd(), env=os.environ, silent_s=silent_s)
    return done.returncode, done.stdout, done.stderr


def test_the_end_of_a_run_is_reported() -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    assert run(program, 120) == (3, "out\n", "err\n")


@pytest.mark.slow
def test_a_run_that_goes_on_may_take_longer_than_it_may_be_silent() -> None:
    assert run(SLOW, PATIENT_S)[0] == 0


def test_who_falls_silent_is_ended_with_all_its_processes_and_tells_where_it_stood() -> None:
    with pytest.raises(SilentError, match=r"(?s)for 1 s after:.so far.*Current thread.*subprocess\.py"):
        run(HANGING, QUICK_S)
