"""Examples of Hypothesis are the same in every run; only the profile `explore` draws them anew."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
SCRIPT = """
import tests.conftest
from hypothesis import given, strategies as st

@given(st.lists(st.text()), st.sets(st.text()))
def draw(texts, names):
    print(ascii((texts, sorted(names))))

draw()
"""


def examples(hash_seed: int, **environment: str) -> str:
    """Return the examples that a process draws."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), **environment}
    environment.pop("CI", None)
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, env=environment, cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout


def test_every_process_draws_the_same_examples() -> None:
    first = examples(1)
    assert first.count("\n") == 50
    assert examples(2) == first


def test_explore_draws_others_each_time() -> None:
    assert examples(1, HYPOTHESIS_PROFILE="explore") != examples(1, HYPOTHESIS_PROFILE="explore")


# A profile of a test's own, or a generator that nobody seeded: such a test fails by chance.
CHANCE = re.compile(r"derandomize=False|\bRandom\(\)")


def test_no_test_draws_anew_by_itself() -> None:
    own = {Path(__file__), TESTS / "conftest.py"}
    files = [file for file in TESTS.rglob("*.py") if file not in own]
    assert len(files) > 400
    assert [f"{file}: {found.group()}" for file in files for found in CHANCE.finditer(file.read_text())] == []
