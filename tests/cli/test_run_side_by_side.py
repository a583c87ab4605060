"""`simzk run` with several versions: what differs between them is seen, what does not is folded."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.scenarios.player import OPERATOR, Play
from simzk.scenarios.reader import read_scenario
from simzk.scenarios.side_by_side import align, histories
from simzk.simulation import Event
from tests.cli.commands import ROOT, altered, run_in_new_process
from tests.report.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

SCENARIOS = ROOT / "scenarios"
SMALLEST = SCENARIOS / "broker_failure.toml"
BOUNCED = SCENARIOS / "bugs" / "kafka_7235_bounced_broker.toml"
OLD_AND_NEW = ("--kafka-version", "1.1", "--kafka-version", "3.9")


@pytest.fixture
def out(simzk: Simzk) -> str:
    done = simzk("run", SMALLEST, *OLD_AND_NEW)
    assert (done.status, done.err) == (0, "")
    return done.out


def rows(out: str) -> Iterator[tuple[str, str, str]]:
    """The mark and both columns of each row of two histories, without times, spaces and what is wrapped as one."""
    row = ["", "", ""]
    for line in out[out.index("  Kafka 1.1 ") :].split("\n\n")[0].splitlines()[1:]:
        left, _, right = line[2:].partition(" | ")
        if re.search(r"^ *\d+\.\d{3} s ", left) or re.search(r"^ *\d+\.\d{3} s ", right) or left.strip()[:1] == "(":
            if any(row):
                yield (row[0], row[1], row[2])
            row = [line[0], "", ""]
        for column, text in enumerate((left, right), start=1):
            row[column] = f"{row[column]} {text}".strip()
    yield (row[0], row[1], row[2])


def test_what_releases_are_known_to_do_otherwise_is_marked(out: str) -> None:
    seen = list(rows(out))
    # KIP-537 raised the default session timeout from 6 to 18 s: the same event, later.
    assert ("~", "26.000 s  broker 2  registration gone", "36.000 s  broker 2  registration gone") in seen
    # KIP-497: since 2.7 the controller writes the ISR that a leader asks for; before, the leader itself.
    grown = [row for row in seen if "ISR expanded" in row[1] + row[2] and row[0] == "*"]
    assert any("broker 3  ISR expanded" in old for _, old, _ in grown)
    assert not any("broker 3  ISR expanded" in new for _, _, new in grown)
    # KIP-460: the preferred election was asked for by a znode.
    asked, done = [row for row in seen if "preferred election by znode" in row[1]]
    assert (asked[0], asked[2]) == (done[0], done[2]) == ("*", "")


def test_steps_stand_beside_each_other_and_are_never_folded(out: str) -> None:
    steps = [row for row in rows(out) if "> " in row[1][:16]]
    assert [re.sub(r"^.*> ", "", old) for _, old, _ in steps] == [re.sub(r"^.*> ", "", new) for _, _, new in steps]
    assert [mark for mark, _, _ in steps] == [" "] * 5
    assert "after the last step" in steps[-1][1]
    assert "(4 equal)" in out


def test_znodes_that_differ_at_the_end_are_listed(out: str) -> None:
    message = out[out.index("Znodes that differ at the end") : out.index("Expectations")]
    assert '* /brokers/topics/orders\n    1.1  {"version":1,"partitions":' in message
    assert '* /feature\n    1.1  none\n    3.9  {"features":{},"version":2,"status":1}\n' in message
    assert "/brokers/topics/orders/partitions/1/state" not in message, "it is the same in both"


def test_releases_of_one_line_differ_in_nothing(simzk: Simzk) -> None:
    done = simzk("run", SMALLEST, "--kafka-version", "3.9", "--kafka-version", "3.9.1")
    assert done.status == 0
    assert not re.search(r"^[*~]", done.out, re.MULTILINE)
    assert re.search(r"\nThe znodes are equal at the end \(Kafka 3\.9 quiet at [\d.]+ s, ", done.out)


def test_three_versions_have_three_columns_and_partial_comparisons_are_named(simzk: Simzk) -> None:
    done = simzk("run", BOUNCED, *OLD_AND_NEW, "--kafka-version", "2.4")
    assert done.status == 0
    assert f"{BOUNCED}, seed 1, Kafka 1.1 and 3.9 and 2.4, brokers " in done.out
    assert re.search(r"^  Kafka 1\.1 +\| Kafka 3\.9 +\| Kafka 2\.4$", done.out, re.MULTILINE)
    assert re.search(r"^\* holds   -       -       line \d+ +the controller has not seen", done.out, re.MULTILINE)
    assert re.search(
        r"^\* -       holds   holds   line \d+ +broker 1 has failed and come back$", done.out, re.MULTILINE
    )


def test_what_holds_in_one_version_only_is_exit_1_with_the_command_that_plays_that_one(
    simzk: Simzk, tmp_path: Path
) -> None:
    path = altered(tmp_path, SMALLEST, 'within = "25s"', 'within = "10s"')
    done = simzk("run", path, *OLD_AND_NEW, "--json", tmp_path / "out.json")
    assert done.status == 1
    assert re.search(r"^\* holds   BROKEN  line \d+ +orders-1 has leader 3", done.out, re.MULTILINE)
    assert "\n      Kafka 3.9: orders-1 leader is 2, expected 3" in done.out
    assert f"\nKafka 1.1: {path}: all 9 expectations held (seed 1)\n" in done.out
    command = done.out.splitlines()[-1].removeprefix("replay with: ")
    assert command == f"simzk run {path} --seed 1 --kafka-version 3.9"
    assert simzk(*shlex.split(command)[1:]).status == 1
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert [(run["kafka_version"], run["held"]) for run in runs] == [("1.1", True), ("3.9", False)]


def test_each_run_is_the_one_that_its_version_plays_alone(simzk: Simzk, tmp_path: Path) -> None:
    anything = SCENARIOS / "anything_breaks.toml"
    simzk("run", anything, "--seed", "3", *OLD_AND_NEW, "--json", tmp_path / "both.json")
    both = json.loads((tmp_path / "both.json").read_text())["runs"]
    for run in both:
        simzk("run", anything, "--seed", "3", "--kafka-version", run["kafka_version"], "--json", tmp_path / "one.json")
        assert json.loads((tmp_path / "one.json").read_text())["runs"] == [run]
    assert [run["kafka_version"] for run in both] == ["1.1", "3.9"]


def test_what_is_compared_at_the_end_is_at_rest_and_the_leader_is_named_for_what_it_did(simzk: Simzk) -> None:
    done = simzk("run", SMALLEST, "--kafka-version", "0.8.2", "--kafka-version", "3.9")
    message = done.out[done.out.index("Znodes that differ at the end") :]
    assert re.match(r"Znodes that differ at the end \(Kafka 0\.8\.2 quiet at [\d.]+ s, Kafka 3\.9 quiet at", message)
    assert "/admin/preferred_replica_election" not in message, "the controller has taken it away"
    assert "preferred election by znode: done" in done.out
    # Broker 1 is controller too; in 0.8.2 it expands the ISR of what it leads as a leader does.
    left = [line.split(" | ")[0] for line in done.out.splitlines()]
    grown = [line for line in left if "ISR expanded" in line]
    assert len(grown) == 3
    assert sum("broker 1  ISR expanded  orders-0" in line for line in grown) == 1
    assert not any("controller" in line for line in grown)


def test_what_does_not_come_to_rest_is_said(simzk: Simzk, tmp_path: Path) -> None:
    cut = '[[step]]\naction = "kill"\nbroker = 3\n\n[[step]]\naction = "pause"\nbroker = 1\nfor = "1h"\n'
    path = tmp_path / "paused.toml"
    path.write_text(SMALLEST.read_text() + "\n" + cut)
    done = simzk("run", path, *OLD_AND_NEW)
    assert re.search(r"Kafka 3\.9 NOT quiet at [\d.]+ s, work is still in progress", done.out)


def test_the_page_has_the_versions_beside_each_other(simzk: Simzk, tmp_path: Path) -> None:
    assert simzk("run", SMALLEST, *OLD_AND_NEW, "--html", tmp_path / "page.html").status == 0
    read = Reader((tmp_path / "page.html").read_text())
    assert read.texts["h2"] == [
        "All runs",
        "A broker fails: Kafka 1.1 and Kafka 3.9 side by side",
        "A broker fails, Kafka 1.1",
        "A broker fails, Kafka 3.9",
    ]
    cells = read.texts["td"]
    grown = "broker 3  ISR expanded  orders-1  leader 3 epoch 1 isr [3, 1] -> leader 3 epoch 1 isr [3, 1, 2]"
    assert any(cell.endswith(grown) for cell in cells)
    assert "/feature" in cells


def test_the_same_bytes_in_any_process() -> None:
    words = ("run", "scenarios/anything_breaks.toml", *OLD_AND_NEW)
    printed = [run_in_new_process(seed, *words) for seed in ("0", "77")]
    assert [(done.returncode, done.stderr) for done in printed] == [(0, b"")] * 2
    assert printed[0].stdout == printed[1].stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kafka-version", "3.9", "--kafka-version", "7.1"), "7.1"),
        (
            ("--kafka-version", "3.9", "--kafka-version", "3.9"),
            "version 3.9 is given twice; expected each version once",
        ),
        ((*OLD_AND_NEW, "--seeds", "2"), "expected neither --seeds, --jobs, --master, --plan nor --out"),
        ((*OLD_AND_NEW, "--jobs", "2"), "expected neither --seeds, --jobs, --master, --plan nor --out"),
    ],
)
def test_what_cannot_stand_side_by_side_is_exit_2_and_nothing_is_played(
    simzk: Simzk, words: tuple[str, ...], message: str
) -> None:
    done = simzk("run", SMALLEST, *words)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_a_run_that_ends_early_by_a_failure_of_the_simulation_leaves_the_rest_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plays = [Play(read_scenario(SMALLEST), seed=1, version=version) for version in ("1.1", "3.9")]

    def fail(broker: int) -> None:
        raise AssertionError(f"two and two are five for {broker}")

    monkeypatch.setattr(plays[1].cluster, "restart", fail)
    for play in plays:
        play.run()
        play.close()
    assert plays[1].crash is not None
    seen = ["".join(text for text, _ in line) for line in histories(plays)]
    assert not any(event.what.startswith("elect ") for event in plays[1].history if event.who == OPERATOR)
    elected = r"\*   \d+\.\d{3} s  > elect preferred leaders of all partitions +\|"
    assert any(re.fullmatch(elected, line) for line in seen)


RUN = st.lists(st.builds(Event, st.just(0), st.just("broker 1"), st.sampled_from("abcd")), max_size=12)


@given(st.lists(RUN, min_size=2, max_size=4))
def test_every_column_is_its_run_whole_and_in_order(runs: list[list[Event]]) -> None:
    aligned = align(runs)
    for column, run in enumerate(runs):
        assert [row[column] for row in aligned if row[column] is not None] == run
    assert all(any(event is not None for event in row) for row in aligned)


@given(RUN)
def test_equal_runs_stand_beside_each_other_line_by_line(run: list[Event]) -> None:
    assert align([run, run, run]) == [(event, event, event) for event in run]
