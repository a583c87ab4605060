"""The documentation site: links between the repository's files become links between pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs_site.links import ROOT, SHARED_PAGES, resolve_links

if TYPE_CHECKING:
    from pathlib import Path

DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    ("markdown", "page", "resolved"),
    [
        ("[a](docs/testing.md#fixtures)", "index.md", "[a](testing.md#fixtures)"),
        ("[a](../README.md)", "testing.md", "[a](index.md)"),
        ("[a](../scenarios.md)", "guides/swarm.md", "[a](../scenarios.md)"),
        ("[a](../../tests/README.md)", "guides/swarm.md", "[a](../tests.md)"),
        ("[`code`](../simzk/api.py), [b](https://example.org)", "faults.md", "`code`, [b](https://example.org)"),
        ("[a](missing.md) and [b](#here)", "faults.md", "[a](missing.md) and [b](#here)"),
        ("![a](docs/images/run.png)", "index.md", "![a](images/run.png)"),
        ("```\n[a](../simzk/api.py)\n```", "faults.md", "```\n[a](../simzk/api.py)\n```"),
    ],
)
def test_links_are_resolved(markdown: str, page: str, resolved: str) -> None:
    assert resolve_links(markdown, page) == resolved


def test_each_page_of_docs_is_in_the_navigation() -> None:
    named = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} | set(SHARED_PAGES.values())
    assert pages - named == set()


@pytest.mark.parametrize("path", sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in SHARED_PAGES)]), ids=str)
def test_relative_links_lead_to_files(path: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\((?!\w+:)([^)#\s]+)", text)
    assert [link for link in links if not (path.parent / link).exists()] == []
