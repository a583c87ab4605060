"""Search for failing runs: seeds, bred plans, shrinking, probes; each with a mistake that is planted on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.scenarios.faults.brokers import Kill
from simzk.scenarios.faults.plan import FAULT_KINDS, FaultPlan
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.probes import PROBES
from simzk.scenarios.reader import read_scenario
from simzk.scenarios.results import Result, play_scenario
from simzk.scenarios.search import Search, mutate, shrink_run
from simzk.scenarios.swarm import Run, probe_lines, probes_of
from simzk.simulation import Monitor, RandomStream
from tests.scenarios.test_fault_kinds import SCENARIO, fault_text, lines_of, played

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from simzk.scenarios.reader import Scenario
    from simzk.simulation import Event

FAULTS = '[faults]\nsafety = "1m"\nliveness = "1m"\ngap = "4s"\n'


def scenario_in(folder: Path) -> Scenario:
    path = folder / "scenario.toml"
    path.write_text(SCENARIO.replace("VERSION", "3.9") + FAULTS, encoding="utf-8")
    return read_scenario(path)


def first_run(scenario: Scenario) -> Run:
    return Run(0, str(scenario.path), str(scenario.path), 1, "")


class NothingExpires:
    """A planted invariant: false as soon as the session of broker 2 expires while broker 1 is dead."""

    name = "broker 2 stays while broker 1 is dead"

    def __init__(self) -> None:
        self._dead = False

    def check(self, event: Event) -> str | None:
        if event.who == "broker 1" and event.what in ("killed", "started"):
            self._dead = event.what == "killed"
        is_expiry = event.who == "broker 2" and event.what == "session expired by hand"
        return "it did not" if is_expiry and self._dead else None


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the planted invariant to each play."""
    init = Play.__init__

    def with_planted(play: Play, *arguments: object, **options: object) -> None:
        init(play, *arguments, **options)  # type: ignore[arg-type]
        play._monitor = Monitor(play.history, (*play.cluster.invariants, NothingExpires()), seed=play.seed)

    monkeypatch.setattr(Play, "__init__", with_planted)


@pytest.mark.slow
@pytest.mark.usefixtures("planted")
def test_a_failing_plan_is_cut_to_its_causes(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path)
    texts = [
        fault_text("pause", 'broker = 3\nfor = "5s"', "1s"),
        fault_text("kill", 'broker = 1\nfor = "40s"', "2.5s"),
        fault_text("elect", "", "4s"),
        fault_text("expire", "broker = 2", "20.3s"),
        fault_text("cut", 'broker = 3\nfor = "5s"', "30s"),
    ]
    plan = played(tmp_path, "".join(texts), "3.9").plan
    assert plan is not None
    scenario = scenario_in(tmp_path)
    failure = play_scenario(scenario, 1, "", documented=False, plan=plan)
    assert failure.failed[0] == NothingExpires.name
    assert failure.failed_at_us == 20_300_000
    shrunk = shrink_run(scenario, first_run(scenario), plan, failure, lambda: False)
    assert shrunk.is_complete
    assert [fault.kind for fault in shrunk.plan.faults] == ["kill", "expire"]
    kill, expire = shrunk.plan.faults
    assert (kill.at_us % 1_000_000, expire.at_us % 1_000_000) == (0, 0), "times are whole seconds"
    assert kill.duration_us == expire.at_us - kill.at_us + 1_000_000, "no longer than it must be"
    assert shrunk.plan.safety_us < 30_000_000
    again = play_scenario(scenario, 1, "", documented=False, plan=shrunk.plan)
    assert again.failed[0] == failure.failed[0]
    stopped = shrink_run(scenario, first_run(scenario), plan, failure, lambda: True)
    assert (stopped.plan, stopped.runs, stopped.is_complete) == (plan, 0, False)


@pytest.mark.slow
@pytest.mark.usefixtures("planted")
def test_a_search_finds_the_planted_mistake_and_is_the_same_in_any_batches(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path)
    assert scenario.faults is not None
    weights = dict.fromkeys(FAULT_KINDS, 0) | {"kill": 1, "expire": 1}
    scenario = replace(scenario, faults=replace(scenario.faults, weights=weights))

    def one_by_one(runs: Sequence[Run]) -> list[Result]:
        return [play_scenario(scenario, run.seed, "", documented=False, plan=run.plan) for run in runs]

    def backwards(runs: Sequence[Run]) -> list[Result]:
        return one_by_one(runs[::-1])[::-1]

    found = [[*runs_until_failure(scenario, play)] for play in (one_by_one, backwards)]
    assert found[0] == found[1]
    assert found[0][-1][1].failed[0] == NothingExpires.name
    assert all(result.held for _, result in found[0][:-1])


def runs_until_failure(scenario: Scenario, play: Callable[[Sequence[Run]], list[Result]]) -> list[tuple[Run, Result]]:
    search = Search(scenario, first_run(scenario), None, breeds=True)
    failed: list[bool] = []
    found = []
    for run, result in search.run(play, lambda: not any(failed) and len(failed) < 200):
        found.append((run, result))
        failed.append(not result.held)
    assert any(failed)
    return found


def fake_result(run: Run, probes: Sequence[str]) -> Result:
    return Result(run.file, run.seed, "3.9", (), "", "", {}, {}, None, probes=dict.fromkeys(probes, 1))


def test_seeds_that_reach_something_new_breed(tmp_path: Path) -> None:
    """After the seeds, plans are bred: from those runs alone whose combination of probes was new."""
    scenario = scenario_in(tmp_path)
    search = Search(scenario, first_run(scenario), 10, breeds=True)
    played_runs: list[Run] = []

    def play(runs: Sequence[Run]) -> list[Result]:
        played_runs.extend(runs)
        return [fake_result(run, ["a"] if run.seed == 7 else ["b"]) for run in runs]

    for _ in search.run(play, lambda: len(played_runs) < 40):
        pass
    seeds, bred = played_runs[:10], played_runs[10:]
    assert [run.seed for run in seeds] == list(range(1, 11))
    assert all(run.plan is None for run in seeds)
    assert {run.seed for run in bred} == {1, 7}, "the first with b, and the only one with a"
    assert all(run.plan is not None and run.plan_file for run in bred)
    assert (search.seeds_played, search.bred) == (10, len(bred))
    assert len({run.plan for run in bred}) > 1


def test_without_new_seeds_or_breeding_a_search_ends(tmp_path: Path) -> None:
    scenario = scenario_in(tmp_path)
    search = Search(scenario, first_run(scenario), 3, breeds=False)
    found = list(search.run(lambda runs: [fake_result(run, []) for run in runs], lambda: True))
    assert [run.seed for run, _ in found] == [1, 2, 3]


@pytest.mark.parametrize("seed", range(6))
def test_a_mutated_plan_is_a_plan(tmp_path: Path, seed: int) -> None:
    scenario = scenario_in(tmp_path)
    assert scenario.faults is not None
    setting = setting_of(scenario, "")
    parent, other = (
        FaultPlan.draw(lambda name, s=s: RandomStream(s, name), scenario.faults, setting)  # type: ignore[misc]
        for s in (seed, seed + 1)
    )
    bred = mutate(parent, other, RandomStream(seed, "mutations"), setting)
    assert bred == mutate(parent, other, RandomStream(seed, "mutations"), setting)
    assert play_scenario(scenario, seed, "", documented=False, plan=bred).held


def test_probes_count_what_a_run_reached(tmp_path: Path) -> None:
    play = played(tmp_path, fault_text("kill", 'broker = 2\nfor = "1s"'))
    assert play.probes is not None
    assert "broker 2 started" in lines_of(play)
    assert play.probes.counts.keys() == {"broker started while it was still registered"}
    texts = [
        fault_text("clog", 'broker = 3\nfor = "80s"', "1s"),
        fault_text("reassign", 'partition = "orders-0"\nreplicas = [3, 2]', "45s"),  # waits for broker 3
        fault_text("kill", 'broker = 1\nfor = "30s"', "46s"),
    ]
    play = played(tmp_path, "".join(texts))
    assert play.probes is not None
    assert "controller failed over during a reassignment" in play.probes.counts
    assert play.probes.counts.keys() <= PROBES.keys()


def test_probes_of_many_runs_name_those_that_none_reached(tmp_path: Path) -> None:
    first, second = sorted(PROBES)[:2]
    scenario = scenario_in(tmp_path)
    results = [fake_result(first_run(scenario), names) for names in ([first], [first, second], [])]
    counts = probes_of(results)
    assert (counts[first], counts[second], sum(counts.values())) == (2, 1, 3)
    assert counts.keys() == PROBES.keys()
    assert len(probe_lines(counts, 3)) == 1 + len(PROBES)
    assert probes_of([fake_result(first_run(scenario), [])]) == {}


def test_a_refused_verb_or_an_error_in_a_fault_fails_only_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = scenario_in(tmp_path)
    plan = played(tmp_path, fault_text("kill", 'broker = 1\nfor = "5s"'), "3.9").plan
    assert plan is not None
    scenario = scenario_in(tmp_path)

    def begin(fault: Kill, target: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Kill, "begin", begin)
    result = play_scenario(scenario, 4, "", documented=True, plan=plan)
    assert (result.held, result.failed) == (False, ("ZeroDivisionError: planted",))
    assert "--seed 4" in result.replay

    def refuse(fault: Kill, target: object) -> None:
        raise ConfigError("planted")

    monkeypatch.setattr(Kill, "begin", refuse)
    assert play_scenario(scenario, 4, "", documented=False, plan=plan).held
