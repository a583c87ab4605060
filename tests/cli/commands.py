"""Runner of `simzk` commands and their inputs, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

ROOT = Path(__file__).parents[2]


class Finished(NamedTuple):
    """The exit status of a command, and what it wrote."""

    status: object
    out: str
    err: str


Simzk: TypeAlias = Callable[..., Finished]
"""`simzk("layout", "show", path)` runs that command."""


def altered(folder: Path, path: Path, good: str, bad: str) -> Path:
    """A copy of a scenario in which one thing is another."""
    text = path.read_text(encoding="utf-8")
    assert good in text
    copy = folder / path.name
    copy.write_text(text.replace(good, bad, 1), encoding="utf-8")
    return copy


def run_in_new_process(hash_seed: str, *words: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command as another process would, with another order of hashed strings."""
    program = f"import sys; sys.argv = {['simzk', *map(str, words)]!r}; from simzk.cli import main; main()"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=False)
