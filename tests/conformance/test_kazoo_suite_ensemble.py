"""kazoo's own tests of what only an ensemble has: a quorum that is lost, members that go, clients that move.

The whole suite over an ensemble takes minutes; kazoo_suite/ensemble_plugin.py says how it is run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE_S = 150


@pytest.mark.timeout(SUITE_S + 30)
def test_kazoos_own_tests_of_an_ensemble_pass() -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:simzk", "-p", "tests.conformance.kazoo_suite.ensemble_plugin"]
    # kazoo's tests are run by kazoo's rules: without this project's options.
    rules = [
        "-c",
        os.devnull,
        "--rootdir",
        str(ROOT),
        "--timeout",
        "120",
        "-k",
        "TestReadOnlyMode or update_host_list or TestReconfig",
    ]
    tests = ["--pyargs", "kazoo.tests.test_connection", "kazoo.tests.test_client"]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}  # there kazoo waits 15 s more
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *rules, *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SUITE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "5 passed, 0 failed, 0 skipped" in done.stdout
