"""README tells the truth: what it shows runs, and what it names is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_the_tests_that_it_shows_pass(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "test_shown.py").write_text(shown)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "test_shown.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{shown.count('def test_')} passed" in done.stdout, done.stdout + done.stderr


def test_what_it_links_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_paths_that_it_names_are_there() -> None:
    named = re.findall(r"\b((?:tests|scenarios|benchmarks|docs)/[\w./-]*\w)", README)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_each_room_has_a_row() -> None:
    rooms = {path.parent.name for path in (ROOT / "simzk").glob("*/__init__.py")}
    rows = set(re.findall(r"^\| `simzk/(\w+)`", README, flags=re.MULTILINE))
    assert rows == rooms
