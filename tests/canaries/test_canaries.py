"""The suite notices: each known mistake, made in a copy of the package, breaks the test that is named for it.

pytest tests/canaries              # all of them
pytest tests/canaries -k cversion  # one
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.canaries.mistakes import MISTAKES, Mistake

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("simzk", "tests", "pyproject.toml")
READ_ONLY = ("scenarios",)


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its tests, elsewhere."""
    home = tmp_path_factory.mktemp("canaries")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns(".hypothesis"))
        else:
            shutil.copy2(ROOT / name, home / name)
    for name in READ_ONLY:
        (home / name).symlink_to(ROOT / name)
    return home


def run_tests(home: Path, *caught_by: str) -> subprocess.CompletedProcess[str]:
    """Run some tests of the copy in a process that knows of nothing but the copy."""
    environment = {**os.environ, "PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "ci"}
    tests = [f"tests/{test}" for test in dict.fromkeys(caught_by)]
    plugins_off = ["-p", "no:xdist", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", *plugins_off, *tests],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_mistake_is_caught(copy: Path, mistake: Mistake) -> None:
    source = copy / "simzk" / mistake.file
    text = source.read_text()
    assert text.count(mistake.right) == 1, f"stands {text.count(mistake.right)} times in {source}:\n{mistake.right}"
    times = os.stat(source)
    source.write_text(text.replace(mistake.right, mistake.wrong))
    try:
        done = run_tests(copy, mistake.caught_by)
    finally:
        source.write_text(text)
        os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    # A test that cannot begin (a fixture that breaks) catches nothing.
    failed = done.returncode == pytest.ExitCode.TESTS_FAILED and "1 failed" in done.stdout
    assert failed, f"not caught:\n{done.stdout}{done.stderr}"


def test_without_a_mistake_the_same_tests_pass(copy: Path) -> None:
    done = run_tests(copy, *(mistake.caught_by for mistake in MISTAKES.values()))
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_named_text_and_test_exist(mistake: Mistake) -> None:
    """Notice a changed text or a renamed test at once: the slow run of the canary would report it late."""
    assert (ROOT / "simzk" / mistake.file).read_text().count(mistake.right) == 1
    file, name = mistake.caught_by.split("[")[0].split("::", 1)
    function = name.split("::")[-1]
    assert f"def {function}(" in (ROOT / "tests" / file).read_text()
