"""Plays a suite built on kazoo's harness, in a process of its own, against a server that is already running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def play_suite(arguments: list[str], where: dict[str, str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run tests of installed packages by kazoo_suite/plugin.py, whose account is the last line of what is printed.

    Args:
        arguments: pytest's, beginning with the packages or modules.
        where: the variables by which the plugin finds the server.
        limit_s: seconds after which the run is given up.
    """
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:simzk", "-p", "tests.conformance.kazoo_suite.plugin"]
    # Others' tests are run by their own rules: without this project's options.
    rules = ["-c", os.devnull, "--rootdir", str(ROOT), "--timeout", "120"]
    command = [sys.executable, "-m", "pytest", *options, *rules, "--pyargs", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **where}, capture_output=True, text=True, timeout=limit_s, check=False
    )
