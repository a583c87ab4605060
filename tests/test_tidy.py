"""Checks of the source: import contracts, no import circle, short functions, no clock and no chance in the cores.

The cores decide and never wait. The tables below list what they may not use; a planted offence tests each row.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "simzk"
CORES = ("zookeeper", "wire", "simulation", "partitions", "kafka")

# Modules that wait, read a clock, reach outside or draw chance of their own. `random` is let into the one module that
# wraps a `random.Random` seeded by an integer; what it may use of it is checked there.
FORBIDDEN_MODULES = {
    "asyncio", "concurrent", "datetime", "multiprocessing", "os", "random", "secrets", "select", "selectors", "signal",
    "socket", "ssl", "subprocess", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
SEEDED_CHANCE = PACKAGE / "simulation" / "streams.py"
# Files are input and output of a layout or a recording, at the rim of their room: the path comes in as an argument.
FORBIDDEN_CALLS = {"hash", "id", "input", "print", "open"}
FILE_READERS = {"open"}
LONGEST_FUNCTION = 72
FORBIDDEN_ATTRIBUTES = {("numpy", "random"), ("np", "random")}


def sources(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (PACKAGE / room).rglob("*.py"))


def imported_modules(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.lineno, node.module


def offences(text: str, *, may_draw: bool = False, may_read_files: bool = False) -> list[str]:
    """Return the statements in `text` that wait, read a clock or draw unseeded random numbers."""
    tree = ast.parse(text)
    forbidden = FORBIDDEN_MODULES - ({"random"} if may_draw else set())
    found = [f"line {line}: imports {name}" for line, name in imported_modules(tree) if name.split(".")[0] in forbidden]
    calls = FORBIDDEN_CALLS - (FILE_READERS if may_read_files else set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in calls:
            found.append(f"line {node.lineno}: calls {node.func.id}()")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            pair = (node.value.id, node.attr)
            if pair in FORBIDDEN_ATTRIBUTES:
                found.append(f"line {node.lineno}: uses {'.'.join(pair)}")
            if node.value.id == "random" and node.attr != "Random":
                found.append(f"line {node.lineno}: draws from the module's own generator, random.{node.attr}")
    return found


@pytest.mark.parametrize("path", sources(*CORES), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_cores_use_no_clock_and_no_unseeded_random_numbers(path: Path) -> None:
    reads_files = path.parent.name in {"partitions", "kafka", "layouts"}
    assert offences(path.read_text(), may_draw=path == SEEDED_CHANCE, may_read_files=reads_files) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import time\n",
        "from time import monotonic\n",
        "import os\n",
        "from threading import Lock\n",
        "import random\n",
        "import numpy as np\nx = np.random.default_rng()\n",
        "x = hash('a')\n",
        "from uuid import uuid4\n",
        "from datetime import datetime\n",
    ],
)
def test_planted_offences_are_found(planted: str) -> None:
    assert offences(planted) != []


def test_the_one_seeded_stream_uses_no_module_generator() -> None:
    assert offences(SEEDED_CHANCE.read_text(), may_draw=True) == []
    assert offences("import random\nrandom.shuffle([])\n", may_draw=True) != []


def test_import_contracts_hold() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    assert lint_imports.exists(), "import-linter is not installed: pip install import-linter"
    done = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def imports_between(modules: dict[str, str]) -> dict[str, set[str]]:
    """Return which of some modules each imports, by name: at the top, in functions and for types only.

    Args:
        modules: the source of each module by its name.
    """
    found: dict[str, set[str]] = {}
    for module, text in modules.items():
        names = set[str]()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= {name if name in modules else node.module for name in inner}
        found[module] = names & modules.keys()
    return found


def import_circle(modules: dict[str, str]) -> list[str]:
    """Return the modules of one import circle, first one last again; empty if there is none."""
    graph, done = imports_between(modules), set[str]()

    def search(module: str, trail: list[str]) -> list[str]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module not in done:
            for imported in sorted(graph[module]):
                circle = search(imported, [*trail, module])
                if circle:
                    return circle
            done.add(module)
        return []

    return next(filter(None, (search(module, []) for module in sorted(graph))), [])


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_modules_form_no_import_circle() -> None:
    """Count imports inside functions and for types only too: they hide a circle, but do not remove it."""
    modules = {module_name(path): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert {"simzk", "simzk.api", "simzk.cli.commands"} <= modules.keys()
    assert import_circle(modules) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import p.a\n",
        "from p import a\n",
        "from p.a import x\n",
        "def f():\n    from p.a import x\n",
        "if TYPE_CHECKING:\n    from p.a import x\n",
    ],
)
def test_a_planted_import_circle_is_found(planted: str) -> None:
    modules = {"p": "", "p.a": "def g():\n    import p.b\n", "p.b": "", "p.c": "import p.a\n"}
    assert import_circle(modules) == []
    assert import_circle(modules | {"p.b": planted}) == ["p.a", "p.b", "p.a"]


def tracked_text_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return sorted(path for path in PACKAGE.rglob("*.py"))
    endings = {".py", ".md", ".toml", ".sh", ".yml", ""}
    return [ROOT / name for name in listed.stdout.splitlines() if Path(name).suffix in endings]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_function_fits_on_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{path.name}: {node.name} has {lines} lines"


def test_no_file_contains_a_path_of_a_machine() -> None:
    """Assert that no tracked file contains an absolute path of a developer's machine."""
    machine_path = re.compile(r"(?<![\w.])/(?:root|home/\w+|work)/[\w.]")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in tracked_text_files()
        if path.is_file() and path.name != "test_tidy.py"
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if machine_path.search(line)
    ]
    assert found == []
