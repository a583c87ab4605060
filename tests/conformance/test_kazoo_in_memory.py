"""kazoo's own tests, unmodified, against `simzk serve`: the share that a CI run has time for.

The whole suite takes minutes; kazoo_suite/plugin.py says how it is run. A real ZooKeeper 3.9.5 reaches 386 passed, 0
failed, 14 skipped of the tests that talk to a server; so does simzk.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_serve import serving

ROOT = Path(__file__).resolve().parents[2]
SUITE_S = 240
RECIPES = [f"kazoo.tests.test_{name}" for name in ("barrier", "counter", "party", "partitioner", "queue", "watchers")]
# These wait for seconds of wall time.
SLOW = ("steals_the_lock", "during_the_lock", "remove_session_watcher", "stop_on_session_loss")
CALLS = "TestClientTransactions or TestCallbacks or TestNonChrootClient or TestSession"
SHARE = {
    "recipes": ([*RECIPES, "-k", " and ".join(f"not {name}" for name in SLOW)], 55),
    "calls": (["kazoo.tests.test_client", "-k", CALLS], 15),
}


@pytest.mark.timeout(SUITE_S + 30)
@pytest.mark.parametrize("share", SHARE)
def test_kazoos_own_tests_pass(share: str) -> None:
    arguments, least = SHARE[share]
    with serving("--port", "0") as process:
        environment = {**os.environ, "ZOOKEEPER_HOSTS": f"127.0.0.1:{process.port}"}
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:simzk", "-p", "tests.conformance.kazoo_in_memory.plugin"]
        # kazoo's tests are run by kazoo's rules: without this project's options.
        rules = ["-c", os.devnull, "--rootdir", str(ROOT), "--timeout", "120"]
        command = [sys.executable, "-m", "pytest", *options, *rules, "--pyargs", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SUITE_S, check=False
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    last = done.stdout.strip().splitlines()[-1]
    passed = int(last.partition(": ")[2].split(" ")[0])
    assert "0 failed" in last
    assert passed >= least, last
