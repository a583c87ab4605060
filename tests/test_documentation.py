"""The examples in docs/ run, and give what they show."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
RUNNABLE = sorted(path.name for path in DOCS.glob("*.md") if ">>> " in path.read_text())


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_examples_run(name: str) -> None:
    result = doctest.testfile(str(DOCS / name), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
