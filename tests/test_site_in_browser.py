"""The built documentation site in a headless Chromium, opened from its folder: the search finds, and fetches nothing.

`SIMZK_CHROMIUM` is the path of a Chromium; `mkdocs build --strict` comes first. Without both the test is skipped.
"""

from __future__ import annotations

import os

import pytest

from docs_site.links import ROOT

CHROMIUM = os.environ.get("SIMZK_CHROMIUM", "")
SITE = ROOT / "build" / "site"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHROMIUM or not SITE.exists(),
        reason="SIMZK_CHROMIUM is not set to the path of a Chromium, or no site is built",
    ),
]


@pytest.mark.parametrize("page", ["index.html", "guides/session_expiry.html"])
def test_the_search_works_without_a_server(page: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    fetched: list[str] = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page()
        shown.on("request", lambda request: fetched.append(request.url))
        shown.goto((SITE / page).as_uri())
        shown.locator("input.md-search__input").click()
        shown.keyboard.type("expire session", delay=20)
        shown.locator(".md-search-result__item a").first.wait_for(state="attached")
        found = [link.get_attribute("href") for link in shown.locator(".md-search-result__item a").all()]
        browser.close()
    assert any("session_expiry.html" in str(link) for link in found)
    assert [url for url in fetched if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
