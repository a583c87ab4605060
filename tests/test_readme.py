"""README and the pages it links to: the shown tests pass, and every named path exists."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def test_shown_tests_pass(tmp_path: Path) -> None:
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


def test_links_exist() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_a_package_index_shows_no_relative_links() -> None:
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"][
        "fancy-pypi-readme"
    ]
    (rule,) = hook["substitutions"]
    shown = re.sub(rule["pattern"], rule["replacement"], README)
    assert [link for link in re.findall(r"\]\(([^)]*)\)", shown) if "://" not in link] == []
    assert re.sub(r"\]\([^)]*\)|[\[\]]", "", shown) == re.sub(r"\]\([^)]*\)|[\[\]]", "", README)


def test_named_paths_exist() -> None:
    named = re.findall(r"\b((?:tests|scenarios|benchmarks|docs)/[\w./-]*\w)", README)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_each_package_has_a_row_in_the_architecture() -> None:
    rooms = {path.parent.name for path in (ROOT / "simzk").glob("*/__init__.py")}
    rows = set(re.findall(r"^\| `simzk/(\w+)`", (ROOT / "docs/architecture.md").read_text(), flags=re.MULTILINE))
    assert rows == rooms
