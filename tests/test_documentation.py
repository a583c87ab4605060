"""Pages of docs/: links and navigation, and doctests that give what they show; test_guides.py runs the other pages."""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import tomllib
from typing import TYPE_CHECKING

import msgspec
import pytest

import simzk
import simzk.testing
from docs_site.links import ROOT, SHARED_PAGES
from docs_site.pages import PAGES
from simzk.scenarios.faults.plan_file import PlanFile
from simzk.scenarios.reader import BugTable, FaultsTable, read_scenario
from tests.snippets import DOCS, PageRun, Snippet, pages_with_code, snippets

if TYPE_CHECKING:
    from pathlib import Path

ALL = {str(page.relative_to(DOCS)): snippets(page) for page in sorted(DOCS.rglob("*.md"))}
EXEMPT_MAX = 12
"""Number of blocks that may say why they are not run."""
TABLES = {"faults": FaultsTable, "bug": BugTable}
SHOWN = {"text", "mermaid", ""}
"""Languages of blocks that are no code: output and pictures."""


@pytest.mark.parametrize("name", pages_with_code(doctests=True))
def test_the_examples_run(name: str, tmp_path: Path) -> None:
    with PageRun(DOCS / name, tmp_path) as page:
        page.run()


def test_every_block_is_code_that_runs_or_says_why_not() -> None:
    languages = {snippet.language for blocks in ALL.values() for snippet in blocks}
    assert languages - SHOWN <= {"python", "sh", "console", "toml", "json"}
    exempt = [f"{name}:{snippet.line}" for name, blocks in ALL.items() for snippet in blocks if snippet.exempt]
    assert len(exempt) <= EXEMPT_MAX, exempt


def shown_toml(*, whole: bool) -> list[tuple[str, str]]:
    """Return the scenarios that pages show, or the fragments of scenarios, with their places."""
    return [
        (f"{name}:{snippet.line}", snippet.text)
        for name, blocks in ALL.items()
        for snippet in blocks
        if snippet.language == "toml"
        and "[[fault]]" not in snippet.text
        and (whole == ("[cluster]" in snippet.text))
        and snippet.title != "rates.toml"
    ]


@pytest.mark.parametrize(("place", "text"), shown_toml(whole=True))
def test_shown_scenarios_are_valid(place: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "shown.toml"
    path.write_text(text)
    assert read_scenario(path).title == tomllib.loads(text)["title"]


@pytest.mark.parametrize(("place", "text"), shown_toml(whole=False))
def test_shown_tables_of_scenarios_are_valid(place: str, text: str) -> None:
    for key, table in tomllib.loads(text).items():
        msgspec.convert(table, TABLES[key])


def test_shown_plans_are_valid(tmp_path: Path) -> None:
    plans = [snippet.text for blocks in ALL.values() for snippet in blocks if "[[fault]]" in snippet.text]
    assert plans
    for text in plans:
        (tmp_path / "plan.toml").write_text(text)
        assert PlanFile(tmp_path / "plan.toml").seed == tomllib.loads(text)["seed"]


def undefined_names(code: str) -> set[str]:
    """Return the names that a block uses and does not define, such as those of a block before it."""
    if ">>>" in code:
        code = "\n".join(example.source for example in doctest.DocTestParser().get_examples(code))
    used, defined = set(), set(dir(builtins))
    nodes = list(ast.walk(ast.parse(code)))
    augmented = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    for node in nodes:
        match node:
            case ast.Name(name) if isinstance(node.ctx, ast.Load) or node in augmented:
                used.add(name)
            case ast.Name(name):
                defined.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                defined |= {(one.asname or one.name).partition(".")[0] for one in names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.arg(name) | ast.ExceptHandler(name=str(name)):
                defined.add(name)
    return used - defined


APPLICATION = {"state_machines.md": {"my_tool"}}
"""Names of the reader's own code."""


@pytest.mark.parametrize("name", ALL)
def test_a_block_can_be_copied_alone_or_the_page_says_that_it_continues(name: str) -> None:
    lines = (DOCS / name).read_text().splitlines()
    says = [number for number, line in enumerate(lines, 1) if re.search(r"continues? (each other|the example)", line)]
    for snippet in ALL[name]:
        if snippet.language != "python" or snippet.exempt:
            continue
        if missing := undefined_names(snippet.text) - APPLICATION.get(name, set()):
            section = max(
                number for number, line in enumerate(lines[: snippet.line], 1) if line.startswith(("# ", "## "))
            )
            first = min(number for number, line in enumerate(lines, 1) if line.startswith("## "))
            near = [number for number in says if section <= number < snippet.line or number < first]
            assert near, f"{name}:{snippet.line} uses {missing} of an earlier block, and does not say so"


def test_names_of_an_earlier_block_are_found() -> None:
    assert undefined_names("import a.b\nx = a.b(y)\nz += 1\ndef f(q): return q + x\n") == {"y", "z"}
    assert undefined_names(">>> import simzk\n>>> zookeeper.close()\n") == {"zookeeper"}


def test_the_search_of_the_site_loads_nothing_from_elsewhere() -> None:
    """Pages that are opened from a folder search in `search_index.js`, by a worker in a frame."""
    text = (ROOT / "mkdocs.yml").read_text()
    assert re.search(r"^  - search\n  - offline\b", text, re.MULTILINE)
    assert "use_directory_urls: false" in text
    (shim,) = re.findall(r"^  polyfills: \[(\S*iframe-worker\S*)\]", text, re.MULTILINE)
    script = (DOCS / shim).read_text()
    assert "Permission is hereby granted" in script
    assert 'location.protocol==="file:"&&(window.Worker=' in script


def test_a_wrong_example_is_found(tmp_path: Path) -> None:
    wrong = {
        "doctest": "```python\n>>> 1 + 1\n3\n```\n",
        "script": "```python\nassert False\n```\n",
        "test": "```python\ndef test_it():\n    assert False\n```\n",
        "command": "```sh\nfalse\n```\n",
        "output": "```console\n$ echo one\ntwo\n```\n",
    }
    for kind, text in wrong.items():
        (tmp_path / kind).mkdir()
        page = tmp_path / kind / "page.md"
        page.write_text(text)
        with pytest.raises(AssertionError), PageRun(page, page.parent) as run:
            run.run()
        page.write_text(f"<!-- not run: it is wrong -->\n{text}")
        assert [snippet.exempt for snippet in snippets(page)] == ["it is wrong"]
        with PageRun(page, page.parent) as run:
            run.run()


def test_a_block_knows_its_title_and_line() -> None:
    (first, *_) = [snippet for snippet in ALL["tutorial.md"] if snippet.title]
    assert isinstance(first, Snippet)
    assert (first.language, first.title) == ("python", "election.py")
    assert DOCS.joinpath("tutorial.md").read_text().splitlines()[first.line - 1].startswith('```python title="election')


def test_each_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert written & PAGES.keys() == set()
    assert written | set(SHARED_PAGES.values()) | PAGES.keys() == named


@pytest.mark.parametrize("path", sorted([*(f"docs/{name}" for name in ALL), *SHARED_PAGES]))
def test_relative_links_lead_to_files_or_generated_pages(path: str) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / path).read_text(), flags=re.DOTALL)
    targets = [(ROOT / path).parent / link for link in re.findall(r"\]\((?!\w+:)([^)#\s]+)", text)]
    generated = {DOCS / name for name in PAGES}
    assert [target for target in targets if not target.exists() and target.resolve() not in generated] == []


def test_each_public_name_is_documented() -> None:
    pages = "".join(make() for path, make in PAGES.items() if path.startswith("reference/api_"))
    documented = set(re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE))
    public = {f"simzk.{name}" for name in simzk.__all__ if name != "pytest"}
    public |= {f"simzk.testing.{name}" for name in simzk.testing.__all__}
    public |= {f"simzk.pytest.{name}" for name in simzk.pytest.__all__}
    assert public - documented == set()
