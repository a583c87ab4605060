"""The examples in docs/ run, and give what they show."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
RUNNABLE = sorted(path.name for path in DOCS.glob("*.md") if ">>> " in path.read_text())


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_examples_run(name: str) -> None:
    result = doctest.testfile(str(DOCS / name), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_shown_tests_pass(tmp_path: Path) -> None:
    """Assert that each block of docs/testing.md is a test module that passes."""
    shown = re.findall(r"```python\n(.*?)```", (DOCS / "testing.md").read_text(), flags=re.DOTALL)
    for number, block in enumerate(shown):
        (tmp_path / f"test_shown_{number}.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    tests = sum(len(re.findall(r"^ *def test_", block, flags=re.MULTILINE)) for block in shown)
    assert f"{tests} passed" in done.stdout.splitlines()[-1], done.stdout + done.stderr
