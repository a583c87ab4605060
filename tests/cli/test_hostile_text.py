"""Control characters, forged lines and markup in names from files and clients: nothing of it reaches a terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simzk.cli import console, messages, serve
from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout
from simzk.report.markup import escape
from simzk.scenarios.report_text import timeline
from simzk.simulation.history import Event, History, format_timeline
from simzk.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

HOSTILE = "\x1b]0;pwn\x07\x1b[2J[red]b[/red]\u202e\x9b5m\r\nFAKE LINE"
SHOWN = r"\x1b]0;pwn\x07\x1b[2J[red]b[/red]\u202e\x9b5m\r\nFAKE LINE"
IN_TOML = HOSTILE.encode("unicode_escape").decode().replace("\\x", "\\u00")

SCENARIO = f"""
title = "T{IN_TOML}"
why = "W{IN_TOML}"
[cluster]
brokers = 2
racks = {{ 1 = "R{IN_TOML}", 2 = "b" }}
[[step]]
at = "1s"
action = "write_znode"
path = "/a"
data = "D{IN_TOML}"
[[step]]
at = "2s"
expect = "znode"
path = "/a"
name = "N{IN_TOML}"
"""


def assert_harmless(text: str) -> None:
    lines = text.split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert not any(line.lstrip().startswith("FAKE") for line in lines)


def test_a_scenario(simzk: Simzk, tmp_path: Path) -> None:
    file, page = tmp_path / "evil.toml", tmp_path / "page.html"
    file.write_text(SCENARIO, encoding="utf-8")
    done = simzk("run", file, "--html", page)
    assert done.status == 0
    for name in "TRDN":
        assert f"{name}{SHOWN}" in done.out
    assert_harmless(done.out + done.err)
    html = page.read_text(encoding="utf-8")
    assert all(line.isprintable() for line in html.replace("\t", "").split("\n"))


def test_a_mistake_in_a_file(simzk: Simzk, tmp_path: Path) -> None:
    file = tmp_path / "evil.toml"
    file.write_text(f'title = "T"\n"K{IN_TOML}" = 1\n', encoding="utf-8")
    done = simzk("run", file)
    assert done.status == 2
    assert r"\x1b]0;pwn" in done.err
    assert all(line.isprintable() for line in done.err.split("\n"))


@pytest.mark.parametrize("command", ["show", "plan"])
def test_a_layout(simzk: Simzk, tmp_path: Path, command: str) -> None:
    layout = generate_layout(brokers_in_racks(3, 3), topics=1, partitions=3, replication_factor=2, seed=1)
    brokers = replace(layout.brokers, racks=(HOSTILE, "b", "c"))
    file = tmp_path / "evil.json"
    write_layout(replace(layout, brokers=brokers), file)
    words = ["show", file] if command == "show" else ["plan", file, file]
    done = simzk("layout", *words)
    assert done.status == 0, done.err
    assert_harmless(done.out + done.err)


def test_events_of_served_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    events = [Event(0, f"broker 1{HOSTILE}", f"refused{HOSTILE}", f"user {HOSTILE}", HOSTILE, HOSTILE)]
    serve.show_events(events)
    serve.show_skipped(HOSTILE)
    messages.say("error", f"two lines\n{HOSTILE}")
    console.show_in_colours(timeline(events))
    written = capsys.readouterr()
    assert_harmless(written.err.replace("\nFAKE", "FAKE"))
    assert_harmless(written.out)
    assert SHOWN in written.out


def test_a_history() -> None:
    history = History(Scheduler(seed=1))
    history.record("broker 1", "refused", HOSTILE)
    assert history.to_json()[0]["subject"] == HOSTILE, "values stay as they are"
    for text in (str(history[0]), history.to_text(), format_timeline(history)):
        assert_harmless(text)
        assert SHOWN in text


def test_a_page() -> None:
    assert escape(HOSTILE) == SHOWN.replace(r"\nFAKE", "\nFAKE")
