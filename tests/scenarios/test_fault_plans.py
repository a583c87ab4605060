"""Fault plans: drawn from a seed, written, read, checked, and played again byte for byte."""

from __future__ import annotations

import tomllib
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.errors import ScenarioError
from simzk.scenarios.faults.calls import CALL_KINDS
from simzk.scenarios.faults.fault import Setting
from simzk.scenarios.faults.plan import FAULT_KINDS, FaultPlan, SwarmLimits, SwarmOptions
from simzk.scenarios.faults.plan_file import PlanFile, SavedPlan, fault_fields, write_plan
from simzk.scenarios.faults.zookeeper import ENSEMBLE_KINDS, SERVER_KINDS
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.reader import read_scenario
from simzk.simulation import RandomStream
from tests.cli.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ANYTHING = ROOT / "scenarios" / "anything_breaks.toml"
SAFETY_US = 120_000_000
LIMITS = SwarmLimits(SAFETY_US, 60_000_000)


def setting(brokers: int = 3, version: str = "3.9", log_dirs: int = 2) -> Setting:
    return Setting(range(1, brokers + 1), version, {"orders": 3, "payments": 1}, log_dirs)


def drawn(seed: int, *, brokers: int = 3, version: str = "3.9", limits: SwarmLimits = LIMITS) -> FaultPlan:
    return FaultPlan.draw(lambda name: RandomStream(seed, name), limits, setting(brokers, version))


def read(path: Path, text: str, of: Setting) -> FaultPlan:
    path.write_text(text, encoding="utf-8")
    return PlanFile(path).plan(of)


@given(st.integers(0, 2**64), st.integers(1, 9), st.sampled_from(["3.9", "2.8", "2.1", "0.10.2", "0.8.1"]))
def test_a_drawn_plan_keeps_to_its_options(seed: int, brokers: int, version: str) -> None:
    plan = drawn(seed, brokers=brokers, version=version)
    options = plan.options
    assert options is not None
    assert drawn(seed, brokers=brokers, version=version) == plan
    for fault in plan.faults:
        assert options.weights[fault.kind] > 0
        assert 0 <= fault.at_us < plan.safety_us
        assert fault.end_us <= plan.safety_us
        assert FAULT_KINDS[fault.kind].is_possible(setting(brokers, version))
    lasting = [fault for fault in plan.faults if hasattr(fault, "broker") and fault.duration_us]
    for fault in lasting:
        assert fault.duration_us <= options.longest_us
        broken = [other for other in lasting if other.at_us <= fault.at_us < other.end_us]
        assert len(broken) <= options.broken_max
        assert len({other.broker for other in broken}) == len(broken)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(["3.9", "2.8", "1.1", "0.8.2"]))
def test_a_plan_survives_its_file(tmp_path_factory: pytest.TempPathFactory, seed: int, version: str) -> None:
    plan = drawn(seed, version=version)
    path = tmp_path_factory.mktemp("plans") / "plan.toml"
    text = write_plan(SavedPlan(seed, version, plan), ["a comment"])
    found = read(path, text, setting(version=version))
    assert (found.safety_us, found.liveness_us, found.faults) == (plan.safety_us, plan.liveness_us, plan.faults)
    file = PlanFile(path)
    assert (file.seed, file.version) == (seed, version)
    assert [fault["kind"] for fault in tomllib.loads(text).get("fault", [])] == [fault.kind for fault in plan.faults]


def test_plans_differ_from_seed_to_seed_and_print_every_option() -> None:
    plans = [drawn(seed) for seed in range(50)]
    assert len({plan.faults for plan in plans}) == 50
    assert len({str(plan.options) for plan in plans}) == 50
    for plan in plans:
        printed = {kind for kind in FAULT_KINDS.values() if f" {kind.name}=" in str(plan.options)}
        assert printed == set(FAULT_KINDS.values()) - {*ENSEMBLE_KINDS, *SERVER_KINDS, *CALL_KINDS}


def test_a_hundred_seeds_draw_every_kind() -> None:
    upgrade, of_calls = {"rolling_upgrade"}, {kind.name for kind in CALL_KINDS}
    of_ensemble = {kind.name for kind in (*ENSEMBLE_KINDS, *SERVER_KINDS)}
    for path, limits in (
        (ANYTHING, upgrade | of_ensemble | of_calls),
        (ROOT / "scenarios" / "anything_breaks_upgrade.toml", of_ensemble | of_calls),
        (ROOT / "scenarios" / "anything_breaks_ensemble.toml", upgrade | of_calls),
    ):
        scenario = read_scenario(path)
        assert scenario.faults is not None
        found: set[str] = set()
        for seed in range(1, 101):
            stream_of = partial(RandomStream, seed)
            plan = FaultPlan.draw(stream_of, scenario.faults, setting_of(scenario, ""))
            found |= {fault.kind for fault in plan.faults}
        assert FAULT_KINDS.keys() - found == limits, path


def test_a_scenario_limits_what_is_drawn() -> None:
    limits = SwarmLimits(SAFETY_US, 1, weights=dict.fromkeys(FAULT_KINDS, 0) | {"pause": 2}, gap_us=1_000_000)
    for seed in range(10):
        plan = drawn(seed, limits=limits)
        assert {fault.kind for fault in plan.faults} == {"pause"}
        assert plan.options is not None
        assert plan.options.gap_us == 1_000_000
    nothing = SwarmLimits(SAFETY_US, 1, weights=dict.fromkeys(FAULT_KINDS, 0))
    assert drawn(1, limits=nothing).faults == ()
    options = SwarmOptions.draw(RandomStream(1, "x"), SwarmLimits(1, 1, broken_max=2, longest_us=5), setting())
    assert (options.broken_max, options.longest_us) == (2, 5)


@pytest.mark.parametrize("seed", [8])
def test_a_saved_plan_gives_the_history_of_its_seed(tmp_path: Path, seed: int) -> None:
    scenario = read_scenario(ANYTHING)
    with closing(Play(scenario, seed=seed)) as first:
        first.run()
        assert first.plan is not None
        text = write_plan(SavedPlan(seed, "", first.plan))
    plan = read(tmp_path / "plan.toml", text, setting_of(scenario, ""))
    with closing(Play(scenario, seed=seed, plan=plan)) as second:
        second.run()
    assert first.history.to_text() == second.history.to_text()
    assert first.verdicts == second.verdicts


HEAD = 'seed = 1\nsafety = "1m"\nliveness = "1m"\n'
KILL = '[[fault]]\nat = "1s"\nkind = "kill"\nbroker = 1\nfor = "3s"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + KILL.replace('"kill"', '"kil"'), ":6: kind: unknown kind 'kil'; expected kill"),
        (
            HEAD + KILL.replace("broker = 1", "broker = 9"),
            ":7: broker: broker 9 does not exist; expected one of",
        ),
        (HEAD + KILL.replace("broker = 1", "brokr = 1"), ":7: brokr: unknown key; expected broker"),
        (HEAD + KILL.replace('"3s"', '"0s"'), ":8: for: '0s' is not a positive duration"),
        (HEAD + KILL.replace('"3s"', '"-3s"'), ":8: for: '-3s' is not a positive duration"),
        (HEAD + KILL.replace('"3s"', "3"), ":8: for: the value is a whole number; expected text in quotes"),
        (HEAD + KILL.replace('"1s"', '"1m"'), ":5: at: the fault begins at 1m; expected less than the safety of 1m"),
        (HEAD + KILL.replace('"1s"', '"soon"'), ":5: at: 'soon' is not a duration"),
        (HEAD + KILL.replace('kind = "kill"\n', ""), ":4: fault: the key kind is missing"),
        (HEAD.replace('"1m"', '"0s"', 1) + KILL, ":2: safety: '0s' is not a positive duration"),
        (HEAD.replace("seed = 1\n", ""), "the key seed is missing"),
        (HEAD + 'kafka_version = "4.0"\n', ":4: kafka_version: Kafka '4.0' is not simulated"),
        ("seed = ", ":1: invalid TOML"),
    ],
)
def test_a_bad_plan_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(tmp_path / "plan.toml", text, setting())
    assert message in str(refused.value)


def test_every_kind_has_its_keys_in_order() -> None:
    for seed in range(20):
        for fault in drawn(seed).faults:
            keys = [key for key, _ in fault_fields(fault)]
            assert keys[:2] == ["at", "kind"]
