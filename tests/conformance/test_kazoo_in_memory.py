"""kazoo's own tests of its client and its recipes, unmodified, against a server in memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.conformance.kazoo_suite.watched import LIMITS, WHOLE_S, run_watched

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Those of kazoo's test modules that talk to a server; the others are about kazoo alone.
MODULES = (
    *("barrier", "cache", "client", "connection", "counter", "election", "interrupt", "lease", "lock"),
    *("partitioner", "party", "queue", "watchers"),
)
# What cannot pass here, and why.
DIFFERENT = {
    "test_connection_dropped": "a request is answered before the connection can be dropped: the server answers at once",
}
PASSED_MIN = 180


def outcomes(report: Path) -> Iterator[tuple[str, str]]:
    """Each test's name and what came of it."""
    for case in ElementTree.parse(report).iter("testcase"):
        verdicts = {child.tag for child in case} & {"failure", "error", "skipped"}
        yield case.get("name", ""), min(verdicts, default="passed")


@pytest.mark.timeout(WHOLE_S)
def test_kazoos_own_tests_pass_in_memory(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    report = tmp_path / "report.xml"
    modules = [f"kazoo.tests.test_{name}" for name in MODULES]
    # Most of these tests wait rather than work, so more of them than there are cores may run side by side.
    unwanted = [f"-pno:{name}" for name in ("cacheprovider", "randomly", "logging")]
    options = ["-q", "-n6", *LIMITS, "-Wignore", *unwanted, "-ptests.conformance.kazoo_in_memory"]
    done = run_watched(
        [sys.executable, "-m", "pytest", *options, f"--junit-xml={report}", "--pyargs", *modules],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CI": "true", "ZOOKEEPER_VERSION": "3.9.5"},
    )
    assert report.exists(), done.stdout + done.stderr
    found = list(outcomes(report))
    failed = {name for name, outcome in found if outcome in ("failure", "error")}
    assert failed == set(DIFFERENT), done.stdout
    assert sum(outcome == "passed" for _, outcome in found) >= PASSED_MIN
