"""Pages in a headless Chromium: light, dark, 390 pixels wide, and printed.

`SIMZK_CHROMIUM` is the path of a Chromium; without it the tests are skipped. `pip install '.[browser]'` brings
Playwright, which drives it, and pypdf, which reads what it prints.
"""

from __future__ import annotations

import csv
import os
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import simzk
from simzk.report.pages import layout_page, results_page
from simzk.report.run_page import runs_page
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from simzk.scenarios.results import document_of
from simzk.scenarios.run_tables import tables_of
from simzk.testing import failure_report
from tests.report.test_layout_page import tables as layout_tables
from tests.report.test_pages import long_run, run_tables
from tests.report.test_saved_page import RISK, SWARM, SWEEP, TIMELINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHROMIUM = os.environ.get("SIMZK_CHROMIUM", "")
ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="SIMZK_CHROMIUM is not set to the path of a Chromium"),
]

MODES: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "print": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
}


def played(name: str) -> str:
    """Return the page of a scenario."""
    play = Play(read_scenario(str(ROOT / "scenarios" / f"{name}.toml")), seed=1, logs_znodes=True)
    try:
        play.run()
        assert play.znodes is not None
        document = document_of(play, f"simzk run scenarios/{name}.toml --seed 1")
        return runs_page([tables_of(document, play.znodes.to_json())])
    finally:
        play.close()


def failed_test() -> str:
    """Return the page of a failed test of a ZooKeeper and of a cluster."""
    with simzk.ZooKeeper() as zookeeper, simzk.KafkaCluster() as cluster:
        starts = [failure_report.start_of(type(one).__name__, one, pages=True) for one in (zookeeper, cluster)]
        client = zookeeper.client()
        client.start()
        client.create("/<b>", b"1", ephemeral=True)
        client.exists("/none")
        zookeeper.expire(client)
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        cluster.run_for(5)
        cluster.kill(1)
        cluster.run_for(30)
        parts = [failure_report.tables_of_start(start) for start in starts]
    return failure_report.page_of("test_it.py::test_it", "pytest test_it.py::test_it", parts, "assert 1 == 2")


PAGES: dict[str, Callable[[], str]] = {
    "failed test": failed_test,
    "run": lambda: played("broker_failure"),
    "many events": lambda: played("anything_breaks"),
    "failed run": lambda: runs_page([run_tables(held=False)]),
    "long run": lambda: runs_page([long_run()]),
    "runs": lambda: runs_page([run_tables(f"run {number}", held=number > 0) for number in range(9)]),
    "results": lambda: results_page([TIMELINES, SWEEP, RISK, SWARM]),
    "layout": lambda: layout_page(layout_tables(3)),
    "large layout": lambda: layout_page(layout_tables(500, rack="a-rack-with-a-very-long-name-" * 4)),
}
LAST_EVENTS = {
    "run": "orders-1 has leader 2, leader epoch 2",
    "many events": "after all faults",
    "failed run": "leader lost",
    "long run": "999.900 controller 1 ISR shrunk orders-499",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def opened(browser: Any, html: str, folder: Path, mode: str) -> Iterator[Any]:
    """Open a page from a file; assert that it requests nothing else, and that the console stays empty."""
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    context = browser.new_context(**MODES[mode], accept_downloads=True)
    page = context.new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    try:
        page.goto(file.as_uri())
        page.locator("html[data-ready]").wait_for()
        yield page
        assert messages == []
        assert [url for url in requests if not url.startswith("blob:")] == [file.as_uri()]
    finally:
        context.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_is_whole(browser: Any, tmp_path: Path, name: str, mode: str) -> None:
    from pypdf import PdfReader

    with opened(browser, PAGES[name](), tmp_path, mode) as page:
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(width) == 0, "nothing is wider than the window"
        background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        red = int(background.removeprefix("rgb(").split(",")[0])
        assert red < 60 if MODES[mode]["color_scheme"] == "dark" else red > 240
        if mode == "print":
            page.pdf(path=str(tmp_path / "page.pdf"), format="A4", print_background=True)
            text = " ".join(" ".join(sheet.extract_text() for sheet in PdfReader(tmp_path / "page.pdf").pages).split())
            assert LAST_EVENTS.get(name, "") in text


def tree(page: Any) -> list[str]:
    lines: list[str] = page.evaluate("[...document.querySelectorAll('.tree li')].map((line) => line.title)")
    return lines


def test_the_slider_shows_the_znodes_of_a_moment_by_keyboard(browser: Any, tmp_path: Path) -> None:
    with opened(browser, PAGES["run"](), tmp_path, "light") as page:
        assert "/brokers/ids/2" in tree(page)
        slider = page.get_by_label("Moment")
        slider.focus()
        page.keyboard.press("Home")
        assert "0.000 s" in page.locator(".moment output").inner_text()
        assert "/brokers/ids/2" not in tree(page)
        for _ in range(200):
            page.keyboard.press("ArrowRight")
            if "36.000 s" in page.locator(".moment output").inner_text():
                break
        assert "registration gone" in page.locator(".moment output").inner_text()
        assert page.locator(".tree .gone").get_attribute("title") == "/brokers/ids/2"
        page.keyboard.press("ArrowRight")
        assert "/brokers/ids/2" not in tree(page)
        changed = page.evaluate("[...document.querySelectorAll('.tree .set')].map((line) => line.title)")
        assert changed, "states of partitions are written"
        assert page.locator("tr.now").count() > 0, "the events of the moment are marked"


def test_events_are_filtered_and_so_is_the_chart(browser: Any, tmp_path: Path) -> None:
    with opened(browser, PAGES["many events"](), tmp_path, "light") as page:
        rows = page.locator(".events tbody tr:visible")
        count = rows.count()
        page.locator("[data-filter=kind]").select_option("fault")
        shown = [row.split("\t")[1:3] for row in rows.all_inner_texts()]
        assert shown
        assert all(who == "fault" or what.startswith("fault: ") for who, what in shown)
        page.locator("[data-filter=kind]").select_option("")
        page.locator("[data-filter=topic]").select_option("payments")
        assert 0 < rows.count() < count
        lanes = page.evaluate(
            "[...document.querySelectorAll('.lane[data-topic]:not([hidden])')].map((lane) => lane.dataset.topic)"
        )
        assert set(lanes) == {"payments"}
        page.locator("[data-filter=broker]").select_option("2")
        assert page.locator(".lane[data-broker]:visible").count() == 1
        page.get_by_role("button", name="Show all").click()
        assert rows.count() == count


def test_the_script_adds_the_compressed_events_in_their_places(browser: Any, tmp_path: Path) -> None:
    run = long_run()
    with opened(browser, runs_page([run]), tmp_path, "light") as page:
        cells = (
            "[...document.querySelectorAll('.events tbody tr')].map((row) => [...row.cells].map((c) => c.textContent))"
        )
        columns = [run.events[name] for name in ("at, s", "who", "what", "subject", "before", "after")]
        expected = [
            [f"{at:.3f}", who, what, subject, f"{before} → {after}"]
            for at, who, what, subject, before, after in zip(*columns, strict=True)
        ]
        assert page.evaluate(cells) == expected
        assert page.locator(".cut:visible").count() == 0
        page.get_by_label("Moment").focus()
        page.keyboard.press("End")
        assert page.locator(".moment output").inner_text().startswith("999.900 s")
        (line,) = [path for path in tree(page) if path.endswith("/499/state")]
        state = page.locator(f"li[title='{line}'] span").inner_text()
        assert state == '{"leader":0,"leader_epoch":9999,"isr":[1,2,3]}'


def test_tables_are_sorted_and_saved(browser: Any, tmp_path: Path) -> None:
    with opened(browser, results_page([SWARM, SWEEP]), tmp_path, "light") as page:
        table = page.locator("table", has=page.get_by_role("button", name="fails")).first
        with page.expect_download() as download:
            page.get_by_role("button", name="Save CSV").nth(2).click()
        rows = list(csv.reader(Path(download.value.path()).read_text(encoding="utf-8").splitlines()))
        assert rows == [["fails", "offline", "under min ISR", "leaders moved"], ["brokers 1, 2", "8", "48", "51"]]
        assert table.count() == 1
    with opened(browser, PAGES["run"](), tmp_path, "light") as page:
        heading = page.locator(".events th").first
        heading.get_by_role("button").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == "descending"
        times = page.evaluate("[...document.querySelectorAll('.events td:first-child')].map((td) => +td.textContent)")
        assert times == sorted(times, reverse=True)


def test_a_chart_is_saved_as_a_picture_of_its_own(browser: Any, tmp_path: Path) -> None:
    with opened(browser, PAGES["run"](), tmp_path, "light") as page:
        with page.expect_download() as download:
            page.get_by_role("button", name="Save SVG").click()
        text = Path(download.value.path()).read_text(encoding="utf-8")
        assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert "20.000 s: kill broker 2" in text
        saved = tmp_path / "chart.svg"
        saved.write_text(text, encoding="utf-8")
        page.evaluate("1")
    context = browser.new_context(viewport={"width": 1200, "height": 700})
    picture = context.new_page()
    picture.goto(saved.as_uri())
    colour = picture.evaluate("getComputedStyle(document.querySelector('rect.dead')).fill")
    context.close()
    assert colour.startswith("rgb(")
    assert colour != "rgb(0, 0, 0)"


def test_the_chart_can_be_zoomed(browser: Any, tmp_path: Path) -> None:
    with opened(browser, PAGES["run"](), tmp_path, "narrow") as page:
        width = "document.querySelector('.chart .wide').clientWidth"
        before = page.evaluate(width)
        page.get_by_role("button", name="Zoom in").click()
        page.get_by_role("button", name="Zoom in").click()
        assert page.evaluate(width) > 3.5 * before
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
