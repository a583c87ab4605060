"""The count of tests that need Java goes by their marker alone, and one that did not run fails a run of CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
import pytest

class java:
    def test_of_a_class_of_that_name(self): pass

@pytest.mark.parametrize("client", ["java"])
def test_with_that_parameter(client): pass


@pytest.mark.java
def test_marked(): pass

@pytest.mark.java
class TestMarked:
    def test_of_a_marked_class(self): pass
    def test_that_skips(self):
        {body}

@pytest.mark.java
@pytest.mark.by_hand("A_VARIABLE_THAT_NOBODY_SETS")
def test_by_hand(): raise AssertionError
"""


def run(folder: Path, *options: str, body: str, path: str = os.environ["PATH"]) -> tuple[int, str]:
    """Run these tests and return the exit status and the output."""
    tests = folder / "java"  # a name that ends up in each test's keywords
    tests.mkdir()
    (tests / "conftest.py").write_text((HERE / "conftest.py").read_text())
    (tests / "test_some.py").write_text(TESTS.format(body=body))
    (tests / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    java: needs Java\n    by_hand: skipped\npython_classes = java Test\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:simzk", *options, str(tests)]
    environment = {**os.environ, "CI": "true", "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tests, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.java
def test_only_the_marker_counts_in_other_processes_too(tmp_path: Path) -> None:
    status, said = run(tmp_path, "-n", "1", body="pass")
    assert (status, "3 tests that need Java ran" in said) == (0, True), said


@pytest.mark.java
def test_a_marked_test_that_is_skipped_fails_a_run_of_ci(tmp_path: Path) -> None:
    status, said = run(tmp_path, body="pytest.skip('no jar')")
    assert status == 1
    assert "1 tests that need Java did not run: Skipped: no jar" in said


@pytest.mark.java
def test_one_that_runs_by_hand_is_skipped_and_fails_nothing(tmp_path: Path) -> None:
    status, said = run(tmp_path, "-rs", body="pass")
    assert (status, "by hand, where A_VARIABLE_THAT_NOBODY_SETS is set" in said) == (0, True), said


@pytest.mark.slow  # in CI it needs the packages of the slow tests
def test_without_java_none_of_them_runs(tmp_path: Path) -> None:
    status, said = run(tmp_path, body="pass", path="/nonexistent")
    assert status == 1
    assert "3 tests that need Java did not run: Skipped: needs Java 17 or newer, and there is no java on PATH" in said
