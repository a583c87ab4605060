"""The live page in a headless Chromium: light, dark, wide and narrow, with names that are markup, and its buttons.

`SIMZK_CHROMIUM` is the path of a Chromium; without it, or without Playwright, the tests are skipped.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import simzk
from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from tests.serve.served import Served, served, served_ensemble
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = os.environ.get("SIMZK_CHROMIUM", "")
MARKUP = "<img src=x onerror=alert(1)>"
TOKEN = "a-token-of-this-test"

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="SIMZK_CHROMIUM is not set to the path of a Chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@contextmanager
def page_of(
    browser: Any, server: Served | int, *, width: int = 1200, scheme: str = "light", after: str = ""
) -> Iterator[Any]:
    """Open the live page; fail on a message of the console, a dialog, and a request to anybody else."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    problems: list[str] = []
    own = f"http://localhost:{server if isinstance(server, int) else server.admin_port}/"

    def note_request(request: Any) -> None:
        if not request.url.startswith((own, "data:")):
            problems.append(request.url)

    def note_dialog(dialog: Any) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", note_dialog)
    page.on("request", note_request)
    page.goto(f"{own}{after}")
    yield page
    context.close()
    # Chromium reports each answer of an error status.
    assert [problem for problem in problems if not problem.startswith("Failed to load resource")] == []


@pytest.fixture
def server() -> Iterator[Served]:
    with served(Settings(admin_port=0)) as running, TcpClient(running.port) as client:
        client.connect()
        long = "a-very-long-name-of-a-znode-" * 5
        for path in (f"/{MARKUP}", "/app", f"/app/{long}", f"/app/{long}/{long}"):
            assert client.ask(req.Create(path, MARKUP.encode(), OPEN_ACL, 0)).error == 0
        client.ask(req.GetData(f"/app/{long}", True))
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_all_is_shown_without_overflow(browser: Any, server: Served, width: int, scheme: str) -> None:
    with page_of(browser, server, width=width, scheme=scheme) as page:
        page.get_by_label("znode /app", exact=True).click()
        page.get_by_label(f"znode /{MARKUP}", exact=True).click()
        page.wait_for_selector("#node pre")
        assert page.inner_text("#node pre") == MARKUP
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert "a-very-long-name" in page.inner_text("#sessions")


def test_a_button_expires_a_session_and_time_passes(browser: Any, server: Served) -> None:
    with page_of(browser, server) as page:
        page.get_by_role("button", name="expire session").click()
        page.wait_for_selector("#sessions tr", state="detached")
        page.fill("#seconds", "7.25")
        page.get_by_role("button", name="advance").click()
        page.get_by_text("7.250 s").wait_for()
    with server.tcp.driver.lock:
        assert server.tcp.driver.server.sessions.ids() == []
        assert server.tcp.driver.now_ms() == 7250


def test_a_rejection_is_shown(browser: Any, server: Served) -> None:
    with page_of(browser, server) as page:
        page.wait_for_selector("#sessions tr")
        page.evaluate("document.getElementById('seconds').removeAttribute('max')")
        page.evaluate("document.getElementById('seconds').value = '4000'")
        page.get_by_role("button", name="advance").click()
        page.wait_for_selector("#problem:not([hidden])")
        assert page.inner_text("#problem") == "seconds: 4000 s cannot pass at once; expected 0 to 3600 seconds"


def test_the_token_is_asked_for_or_taken_from_the_address(browser: Any) -> None:
    with served(Settings(admin_port=0, admin_token=TOKEN)) as guarded:
        with page_of(browser, guarded) as page:
            page.wait_for_selector("#locked:not([hidden])")
            page.fill("#token", TOKEN)
            page.get_by_role("button", name="use it").click()
            page.wait_for_selector("#tree li")
            assert not page.is_visible("#locked")
        with page_of(browser, guarded, after=f"#token={TOKEN}") as page:
            page.wait_for_selector("#tree li")
            assert TOKEN not in page.url


def test_servers_are_stopped_cut_and_started(browser: Any) -> None:
    with (
        served_ensemble(Settings(admin_port=0)) as ensemble,
        page_of(browser, ensemble.admin_ports[1], width=390) as page,
    ):
        for name, shown in (("stop", "stopped"), ("start", "follower"), ("cut", "cut off"), ("heal", "follower")):
            page.get_by_role("button", name=f"{name} server 2").click()
            page.locator("#servers tr", has_text="2").get_by_text(shown).first.wait_for()
        page.get_by_role("button", name="stop server 1").click()
        page.get_by_text("This server is stopped.").wait_for()
        page.get_by_role("button", name="start server 1").click()
        page.wait_for_selector("#problem", state="hidden")
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_picture_is_drawn_in_a_frame_of_its_own(browser: Any) -> None:
    with simzk.KafkaServer(brokers=2, control_port=0, control_token=TOKEN, racks={1: MARKUP, 2: "b"}) as server:
        server.create_topic("orders", partitions=2, replication_factor=2)
        server.run_until_quiet()
        port = urlsplit(server.control_url).port
        assert port is not None
        with page_of(browser, port, after=f"#token={TOKEN}") as page:
            page.get_by_role("button", name="draw").click()
            frame = page.frame_locator("#picture")
            frame.get_by_text("2 of 2 brokers run; controller 1.").wait_for()
            assert frame.get_by_text("orders-1").count()
            assert frame.locator("h1").evaluate("one => getComputedStyle(one).fontSize") != "32px"  # its style applies
            assert frame.locator("h1").evaluate("() => window.origin") == "null"
            page.get_by_role("button", name="draw again").wait_for()
            assert page.locator("#problem").is_hidden()
