"""Copies of the package in which one mistake is planted at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("simzk", "tests", "pyproject.toml")
READ_ONLY = ("scenarios",)


class Planted(Protocol):
    """A text of a file of the package, and what is written instead."""

    @property
    def file(self) -> str:
        """The file, below the package."""

    @property
    def right(self) -> str:
        """The text, which is there once."""

    @property
    def wrong(self) -> str:
        """The mistake."""


def copy_package(home: Path) -> Path:
    """Copy the package and its tests to a folder, and return it."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns(".hypothesis"))
        else:
            shutil.copy2(ROOT / name, home / name)
    for name in READ_ONLY:
        (home / name).symlink_to(ROOT / name)
    # Each planted mistake is tested in a process of its own, which then compiles the changed file alone.
    subprocess.run([sys.executable, "-m", "compileall", "-q", home / "simzk"], check=True)
    return home


@contextmanager
def planted(home: Path, mistake: Planted) -> Iterator[None]:
    """Let a copy have a mistake for a while."""
    source = home / "simzk" / mistake.file
    text = source.read_text()
    assert text.count(mistake.right) == 1, f"stands {text.count(mistake.right)} times in {source}:\n{mistake.right}"
    times = os.stat(source)
    source.write_text(text.replace(mistake.right, mistake.wrong))
    try:
        yield
    finally:
        source.write_text(text)
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))


def run_module(
    home: Path, *arguments: str, limit_s: float | None = None, keeps_bytecode: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run `python -m ARGUMENTS` in a process that knows of nothing but the copy.

    Args:
        home: the copy.
        arguments: module and arguments.
        limit_s: seconds that it may take; None for any number.
        keeps_bytecode: whether Python stores what it compiles; never with a planted mistake, which later ones of
            the same size and second would be taken for.

    Raises:
        subprocess.TimeoutExpired: it did not end in time.
    """
    environment = {**os.environ, "PYTHONPATH": str(home), "HYPOTHESIS_PROFILE": "canaries"}
    environment["PYTHONDONTWRITEBYTECODE"] = "" if keeps_bytecode else "1"
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
