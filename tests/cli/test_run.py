"""`simzk run`: its output and exit status; the same seed gives the same bytes."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from simzk.cli import console as console_output
from simzk.scenarios import report_text
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from tests.cli.commands import ROOT, altered, run_in_new_process

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

SCENARIOS = ROOT / "scenarios"
SHIPPED = sorted(SCENARIOS.glob("*.toml"))
SMALLEST = SCENARIOS / "broker_failure.toml"
REAL = SCENARIOS / "real_cluster.toml"
RECORDING = SCENARIOS / "layouts" / "kafka-3.9.1" / "dumps.json"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario_holds(simzk: Simzk, path: Path) -> None:
    done = simzk("run", path)
    assert done.status == 0, done.out
    assert done.err == ""
    assert done.out.splitlines()[-1].startswith((f"{path}: all ", f"{path}: the expectation held"))


@pytest.mark.parametrize("path", [path for path in SHIPPED if path != REAL], ids=lambda path: path.stem)
def test_every_shipped_scenario_holds_whatever_the_seed(simzk: Simzk, path: Path) -> None:
    done = simzk("run", path, "--seeds", "3", "--seed", "100")
    assert done.status == 0, done.out


def test_a_run_prints_timeline_final_state_and_verdicts(simzk: Simzk) -> None:
    out = simzk("run", SMALLEST).out
    assert out.startswith("A broker fails\n  The smallest story there is:")
    assert f"{SMALLEST}, seed 1, Kafka 3.9, brokers 1, 2, 3\n" in out
    assert "\n  20.000 s  > kill broker 2\n  20.000 s  broker 2      killed\n" in out
    moved = "leader 2 epoch 0 isr [2, 3, 1] -> leader 3 epoch 1 isr [3, 1]"
    assert f"controller 1  leader moved       orders-1  {moved}\n" in out or "orders-1  " + moved in out
    assert "\n  partition  replicas  leader  isr      epoch  version\n" in out
    assert "\n  controller broker " in out
    assert "\n  holds     25.000 s  line " in out
    assert not any(line != line.rstrip() for line in out.splitlines())


def test_a_failed_expectation_is_exit_1_with_the_replay_command(
    simzk: Simzk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = altered(tmp_path, SMALLEST, "leader_epoch = 1\nversion = 1", "leader_epoch = 7\nversion = 1")
    done = simzk("run", path, "--seed", "5", "--json", tmp_path / "out.json")
    assert done.status == 1
    assert "orders-1 leader epoch is 1, expected 7" in done.out
    command = done.out.splitlines()[-1].removeprefix("replay with: ")
    assert command == f"simzk run {path} --seed 5"
    monkeypatch.chdir(tmp_path)
    again = simzk(*shlex.split(command)[1:])
    assert (again.status, again.out) == (1, done.out)
    (run,) = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert run["replay"] == command
    broken = [expectation for expectation in run["expectations"] if not expectation["held"]]
    assert [expectation["failures"] for expectation in broken] == [["orders-1 leader epoch is 1, expected 7"]]


def test_json_has_what_scripts_need(simzk: Simzk, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    simzk("run", SMALLEST, SCENARIOS / "last_replica.toml", "--json", out)
    runs = json.loads(out.read_text())["runs"]
    assert [run["file"] for run in runs] == [str(SMALLEST), str(SCENARIOS / "last_replica.toml")]
    for run in runs:
        assert run["seed"] == 1
        assert run["violations"] == []
        assert all(set(expectation) >= {"name", "held"} for expectation in run["expectations"])
        assert [event["at_us"] for event in run["timeline"]] == sorted(event["at_us"] for event in run["timeline"])
    (one,) = [seen for seen in runs[0]["partitions"] if seen["partition"] == 1]
    assert one == {
        "topic": "orders",
        "partition": 1,
        "replicas": [2, 3, 1],
        "leader": 2,
        "isr": [3, 1, 2],
        "leader_epoch": 2,
        "controller_epoch": 1,
        "version": 3,
    }


@pytest.mark.parametrize("name", ["broker_failure", "anything_breaks", "real_cluster"])
def test_the_same_seed_prints_the_same_bytes_in_any_process(name: str) -> None:
    printed = [run_in_new_process(seed, "run", f"scenarios/{name}.toml", "--seed", 8) for seed in ("0", "1", "77")]
    assert [done.returncode for done in printed] == [0, 0, 0]
    assert len({done.stdout for done in printed}) == 1
    assert printed[0].stderr == b""


def test_another_seed_is_another_run(simzk: Simzk) -> None:
    path = SCENARIOS / "anything_breaks.toml"
    one, other = simzk("run", path, "--seed", "1").out, simzk("run", path, "--seed", "2").out
    plans = [next(line for line in out.splitlines() if "faults drawn from seed" in line) for out in (one, other)]
    assert plans[0] != plans[1]
    for out, plan in zip((one, other), plans, strict=True):
        assert out.index(plan) < out.index(" 0.000 s"), "the plan stands before the run"


def test_many_seeds_have_a_summary_and_replay_commands(simzk: Simzk, tmp_path: Path) -> None:
    # Without an input, which broker is controller is the seed's business.
    path = altered(tmp_path, SCENARIOS / "controller_failover.toml", "controller = 1\n", "")
    done = simzk("run", path, "--seeds", "6", "--json", tmp_path / "out.json")
    held = {run["seed"]: run["held"] for run in json.loads((tmp_path / "out.json").read_text())["runs"]}
    assert list(held) == [1, 2, 3, 4, 5, 6]
    assert set(held.values()) == {True, False}
    assert done.status == 1
    for seed, seed_held in held.items():
        assert (f"replay with: simzk run {path} --seed {seed}\n" in done.out) is not seed_held
    assert f"{path}: {list(held.values()).count(False)} of 6 seeds failed" in done.out


def test_output_does_not_depend_on_the_number_of_processes(simzk: Simzk, tmp_path: Path) -> None:
    one = simzk("run", SMALLEST, "--seeds", "3", "--json", tmp_path / "one.json")
    two = simzk("run", SMALLEST, "--seeds", "3", "--jobs", "2", "--json", tmp_path / "two.json")
    assert one == two
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_an_invalid_file_is_exit_2_before_any_run(simzk: Simzk, tmp_path: Path) -> None:
    bad = altered(tmp_path, SMALLEST, "broker = 2", "broker = 9")
    done = simzk("run", SMALLEST, bad, "--json", tmp_path / "out.json")
    assert done.status == 2
    assert done.out == ""
    assert done.err.endswith("broker: broker 9 does not exist; expected one of 1, 2, 3\n")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out.json").exists()


def test_an_unknown_version_is_exit_2(simzk: Simzk) -> None:
    done = simzk("run", SMALLEST, "--kafka-version", "7.1")
    assert done.status == 2
    assert done.out == ""
    assert "7.1" in done.err


def test_json_that_cannot_be_written_is_exit_2(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("run", SMALLEST, "--json", tmp_path / "none" / "out.json")
    assert done.status == 2
    right = "a file in an existing directory"
    assert done.err.endswith(f"out.json: cannot write the file: No such file or directory; expected {right}\n")


def test_a_changed_leader_epoch_in_the_recording_is_reported(simzk: Simzk, tmp_path: Path) -> None:
    """The comparison is of the recording and of nothing else: one digit of it makes the run fail."""
    folder = tmp_path / "layouts" / "kafka-3.9.1"
    folder.mkdir(parents=True)
    shutil.copy(REAL, tmp_path)
    document = json.loads(RECORDING.read_text())
    path = "/brokers/topics/t1/partitions/2/state"
    (step,) = [step for step in document if step["step"] == "d-kill9-controller-broker1"]
    znode = step["changed"][path]
    assert '"leader_epoch":1,' in znode["data"]
    znode["data"] = znode["data"].replace('"leader_epoch":1,', '"leader_epoch":2,')
    (folder / "dumps.json").write_text(json.dumps(document))
    done = simzk("run", tmp_path / REAL.name)
    assert done.status == 1
    assert f"{path}: leader_epoch is 1, recorded was 2" in done.out
    assert "1 of " in done.out.splitlines()[-2]


def test_a_terminal_gets_the_same_text_in_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    play = Play(read_scenario(SMALLEST), seed=1)
    play.run()
    lines = [*report_text.heading(play), *report_text.timeline(list(play.history)), *report_text.closing(play)]
    lines += [*report_text.verdicts(play), *report_text.conclusion(play, "again")]
    screen = io.StringIO()
    console = Console(force_terminal=True, color_system="standard", width=40, file=screen, highlight=False)
    monkeypatch.setattr(console_output, "Console", lambda **_: console)
    console_output.show_in_colours(lines)
    assert "\x1b[1;36m> kill broker 2" in screen.getvalue()
    shown = [line.rstrip() for line in uncoloured(screen.getvalue()).splitlines()]
    assert shown == report_text.plain(lines).splitlines()


def test_a_crash_of_the_simulation_is_reported_with_its_seed(simzk: Simzk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("two and two are five")

    monkeypatch.setattr("simzk.kafka.cluster.cluster.KafkaCluster.kill", fail)
    done = simzk("run", SMALLEST, "--seed", "4")
    assert done.status == 1
    assert "AssertionError: two and two are five\n" in done.out
    assert "the simulation itself failed (seed 4)" in done.out
    assert done.out.endswith(f"replay with: simzk run {SMALLEST} --seed 4\n")
    many = simzk("run", SMALLEST, "--seeds", "2")
    assert many.status == 1
    assert "    seed 2: AssertionError: two and two are five\n" in many.out


def test_an_impossible_step_is_exit_2_with_its_line(simzk: Simzk, tmp_path: Path) -> None:
    # A controlled shutdown takes a moment: at the same instant the broker runs still.
    path = altered(
        tmp_path, SCENARIOS / "rolling_restart.toml", 'within = "5s"\nexpect = "brokers"', 'expect = "brokers"'
    )
    text = path.read_text().replace('after = "5s"\naction = "restart"\nbroker = 1', 'action = "restart"\nbroker = 1')
    path.write_text(text)
    done = simzk("run", path)
    assert done.status == 2
    line = text[: text.index('[[step]]\naction = "restart"')].count("\n") + 1
    assert (
        done.err
        == f"simzk: error: {path}:{line}: step at 20.000 s: broker 1 is running; expected a broker that is not\n"
    )


def test_an_invalid_state_written_by_an_operator_does_not_end_the_run(simzk: Simzk, tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    text = SMALLEST.read_text(encoding="utf-8")
    write = 'action = "write_znode"\npath = "/brokers/topics/orders/partitions/0/state"\ndata = "no state"\n'
    path.write_text(text + f'\n[[step]]\n{write}\n[[step]]\nafter = "1s"\nexpect = "topics"\ntopics = ["orders"]\n')
    done = simzk("run", path)
    assert done.status == 1
    assert "orders-0" in done.out
    assert "no state" in done.out
    assert "BROKEN  invariant a leader is in its ISR" in done.out


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    with console_output.Progress() as silent:
        silent.show("1/2 runs", 0.5)
    assert screen.getvalue() == ""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(screen, "isatty", lambda: True)
    with console_output.Progress() as shown:
        shown.show("starting")
        shown.show("1/2 runs", 0.5)
    assert "1/2 runs" in screen.getvalue()
    assert re.search(r"[-:\d]+ left", uncoloured(screen.getvalue()))
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K"), "the line is removed at the end"


def uncoloured(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_executors_exclude_each_other_and_output_is_not_overwritten(simzk: Simzk, tmp_path: Path) -> None:
    done = simzk("run", SMALLEST, "--jobs", "2", "--master", "local[1]")
    assert (done.status, done.out) == (2, "")
    assert "--jobs and --master exclude each other" in done.err
    assert simzk("run", SMALLEST, "--seeds", "2", "--out", tmp_path / "swarm").status == 0
    again = simzk("run", SMALLEST, "--seeds", "2", "--out", tmp_path / "swarm")
    assert (again.status, again.out) == (2, "")
    assert "the directory already contains a swarm" in again.err
    (tmp_path / "file").touch()
    assert simzk("run", SMALLEST, "--out", tmp_path / "file" / "swarm").status == 2
