"""The suite notices: each known mistake, made in a copy of the package, breaks the test that is named for it.

pytest tests/canaries -m "slow and not full"  # those whose file or test changed since all were caught, as in CI
pytest tests/canaries -k cversion             # one
python -m tests.canaries.catch_all            # all of them, and store what they looked like
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.canaries.caught import unchanged
from tests.canaries.mistakes import MISTAKES, Mistake
from tests.canaries.planting import ROOT, copy_package, planted, run_module

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

UNCHANGED = unchanged()


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its tests, elsewhere, compiled."""
    home = copy_package(tmp_path_factory.mktemp("canaries"))
    files = (mistake.caught_by.split("::")[0] for mistake in MISTAKES.values())
    done = run_tests(home, *files, collects_only=True)
    assert done.returncode == pytest.ExitCode.OK, done.stdout + done.stderr
    return home


def run_tests(home: Path, *tests: str, collects_only: bool = False) -> subprocess.CompletedProcess[str]:
    """Run, or only collect and compile, some tests of the copy, named below its folder of tests."""
    options = ["-x", "-q", "--no-header", "-p", "no:xdist", "-p", "no:cacheprovider"]
    options += ["--collect-only"] * collects_only
    paths = [f"tests/{test}" for test in dict.fromkeys(tests)]
    return run_module(home, "pytest", *options, *paths, keeps_bytecode=collects_only)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(mistake, id=name, marks=[pytest.mark.full] if name in UNCHANGED else [])
        for name, mistake in MISTAKES.items()
    ],
)
def test_the_mistake_is_caught(copy: Path, mistake: Mistake) -> None:
    with planted(copy, mistake):
        done = run_tests(copy, mistake.caught_by)
    # A test that cannot begin (a fixture that breaks) catches nothing.
    failed = done.returncode == pytest.ExitCode.TESTS_FAILED and "1 failed" in done.stdout
    assert failed, f"not caught:\n{done.stdout}{done.stderr}"


@pytest.mark.slow
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
