"""The tutorial, the how-to guides and other pages of docs/, followed step by step as a reader does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.snippets import DOCS, PageRun, pages_with_code

if TYPE_CHECKING:
    from pathlib import Path

PAGES = pages_with_code(doctests=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_page_works(name: str, tmp_path: Path) -> None:
    with PageRun(DOCS / name, tmp_path) as page:
        page.run()


def test_there_is_a_guide_for_each_question() -> None:
    asked = {"own_client", "replace_container", "session_expiry", "what_if", "swarm", "real_kafka", "several_versions"}
    asked |= {"kafka_recipes"}
    assert {f"guides/{name}.md" for name in asked} | {"tutorial.md"} <= set(PAGES)
