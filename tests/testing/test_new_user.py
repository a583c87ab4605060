"""As somebody meets it: an empty folder, a fresh environment, `pip install`, one test file, nothing to configure."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TEST_FILE = """
import sys


def test_a_lock_passes_on_when_its_holder_is_lost(kazoo_client, zookeeper):
    holder = zookeeper.client()
    holder.start()
    assert holder.Lock("/lock").acquire()
    mine = kazoo_client.Lock("/lock")
    assert not mine.acquire(blocking=False)
    zookeeper.expire(holder)
    assert mine.acquire(timeout=30)


def test_the_bare_install_is_small(zookeeper):
    assert not {"numpy", "pyarrow", "typer", "rich", "msgspec"} & set(sys.modules)


def test_a_cluster_needs_more(kafka_cluster):
    pass
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.timeout(280)
def test_an_empty_project_and_one_test_file(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        ROOT,
        "pytest",
    ]
    installed = run(*install, cwd=tmp_path)
    if "No matching distribution" in installed.stderr or "Could not find a version" in installed.stderr:
        pytest.skip(f"pip finds no package registry here, so nothing could be installed: {installed.stderr[-300:]}")
    assert installed.returncode == 0, installed.stderr
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_mine.py").write_text(TEST_FILE)
    listed = run(python, "-m", "pip", "list", "--format=freeze", cwd=project).stdout.split()
    assert {line.partition("==")[0].lower() for line in listed} - {"pip", "setuptools", "simzk"} == {
        *("kazoo", "sortedcontainers"),
        *("pytest", "iniconfig", "packaging", "pluggy", "pygments"),
    }
    done = run(python, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=project)
    assert "2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "pip install 'simzk[kafka]'" in done.stdout
