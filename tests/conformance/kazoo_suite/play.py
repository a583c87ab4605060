"""Plays a suite built on kazoo's harness, in a process of its own, by one of this folder's plugins."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.kazoo_suite.watched import LIMITS, run_watched

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).resolve().parents[3]


def play_suite(
    arguments: list[str], where: dict[str, str], *, plugin: str = "plugin"
) -> subprocess.CompletedProcess[str]:
    """Run tests of installed packages by a plugin, whose account is the last line of what is printed.

    Args:
        arguments: pytest's, beginning with the packages or modules.
        where: the variables by which the plugin finds the server.
        plugin: its module in this folder.

    Raises:
        SilentError: it hangs.
    """
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:simzk", "-p", f"tests.conformance.kazoo_suite.{plugin}"]
    # Others' tests are run by their own rules: without this project's options, and without its conftest.py, which
    # would be found from here and brings in Hypothesis: kazoo counts objects by the names of their types.
    rules = ["-c", os.devnull, "--noconftest", "--rootdir", str(ROOT), *LIMITS]
    command = [sys.executable, "-m", "pytest", *options, *rules, "--pyargs", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}  # there kazoo waits 15 s more
    return run_watched(command, cwd=ROOT, env={**environment, **where})


def account(done: subprocess.CompletedProcess[str]) -> tuple[int, set[str]]:
    """How many tests of a suite passed, whether they talked to a server or not, and which ended otherwise, and how."""
    passed = re.search(r"^passed: (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout[-4000:] + done.stderr[-1000:]
    return int(passed[1]), set(re.findall(r"^not passed: (.*)$", done.stdout, re.MULTILINE))
