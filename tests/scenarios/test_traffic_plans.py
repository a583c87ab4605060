"""Traffic of fault plans: drawn beside the same faults, written, read, checked, played again and counted."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simzk.errors import ScenarioError
from simzk.scenarios.faults.clients import CLIENT_ENTRIES
from simzk.scenarios.faults.fault import Setting
from simzk.scenarios.faults.plan import FAULT_KINDS, PLAN_KINDS, FaultPlan, SwarmLimits
from simzk.scenarios.faults.plan_file import PlanFile, SavedPlan, write_plan
from simzk.scenarios.faults.traffic import CLIENT_ROLES, ROLES, TRAFFIC_KINDS, ConfigureTopic, Produce, TrafficLimits
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.reader import read_scenario
from simzk.scenarios.report_text import OF_EACH_BATCH, plain, timeline_of
from simzk.scenarios.results import result_of
from simzk.simulation import RandomStream
from tests.cli.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SAFETY_US = 120_000_000
SETTING = Setting(range(1, 4), "3.9", {"orders": 3, "payments": 1}, 2)
SCENARIO = """
title = "Three brokers"
why = "Traffic is tested on it."
[cluster]
version = "3.9"
brokers = 3
controller = 3
[[step]]
at = "5s"
action = "create_topic"
topic = "orders"
assignment = [[1, 2, 3]]
[[step]]
within = "10s"
expect = "whole"
"""
HEAD = 'seed = 1\nsafety = "1m"\nliveness = "1m"\n'
PRODUCE = """[[fault]]
at = "1s"
kind = "produce"
partition = "orders-0"
gap = "100ms"
acks = 1
records = 2
for = "50s"
"""
CONSUME = '[[fault]]\nat = "2s"\nkind = "consume"\npartition = "orders-0"\ngap = "200ms"\nfor = "50s"\n'
CONFIGURE = (
    '[[fault]]\nat = "3s"\nkind = "configure_topic"\ntopic = "orders"\nkey = "min.insync.replicas"\nvalue = "2"\n'
)
CUT = '[[fault]]\nat = "10s"\nkind = "cut"\nbroker = 1\nfor = "30s"\n'


def drawn(seed: int, traffic: TrafficLimits | None, version: str = "3.9") -> FaultPlan:
    of = Setting(SETTING.brokers, version, SETTING.topics, SETTING.log_dirs)
    return FaultPlan.draw(partial(RandomStream, seed), SwarmLimits(SAFETY_US, 60_000_000, traffic=traffic), of)


def is_traffic(fault: object) -> bool:
    return isinstance(fault, TRAFFIC_KINDS)


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(["3.9", "2.4", "0.10.2", "0.8.1", "0.8.0"]))
def test_a_seed_has_the_same_faults_with_traffic_and_without(seed: int, version: str) -> None:
    plain_plan, plan = drawn(seed, None, version), drawn(seed, TrafficLimits(), version)
    assert tuple(fault for fault in plan.faults if not is_traffic(fault)) == plain_plan.faults
    assert not any(map(is_traffic, plain_plan.faults))
    assert drawn(seed, TrafficLimits(), version) == plan
    assert str(plain_plan.options) == str(plan.options).partition(", traffic: ")[0]
    assert all(f" {role}=" in str(plan.options) for role in ROLES)
    assert all(fault.end_us <= SAFETY_US for fault in plan.faults)
    text = write_plan(SavedPlan(seed, "", plan))
    assert text.count('kind = "produce"') == sum(fault.kind == "produce" for fault in plan.faults)


def test_twenty_seeds_draw_every_role() -> None:
    found: set[object] = set()
    for seed in range(20):
        for fault in drawn(seed, TrafficLimits()).faults:
            found |= {fault.acks, fault.idempotent} if isinstance(fault, Produce) else set()
            found |= {fault.key} if isinstance(fault, ConfigureTopic) else {fault.kind}
    assert found >= {0, 1, "all", "consume", "unclean.leader.election.enable", "min.insync.replicas"}


def test_weights_choose_roles_and_gaps_how_many() -> None:
    weights = dict.fromkeys(ROLES, 0) | {"acks_all": 1}
    plans = [drawn(seed, TrafficLimits(weights, gap_us=5_000_000, longest_us=9_000_000)) for seed in range(20)]
    clients = [fault for plan in plans for fault in plan.faults if is_traffic(fault)]
    assert {type(fault) for fault in clients} == {Produce}
    assert {fault.acks for fault in clients if isinstance(fault, Produce)} == {"all"}
    assert max(fault.duration_us for fault in clients) <= 9_000_000
    assert 20 <= len(clients) / 20 <= 28
    assert not any(map(is_traffic, drawn(1, TrafficLimits(dict.fromkeys(ROLES, 0))).faults))


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_clients_use_topics_that_are_not_deleted_yet(seed: int) -> None:
    plan = drawn(seed, TrafficLimits())
    topics = dict(SETTING.topics)
    for fault in plan.faults:
        if fault.kind in ("create_topic", "add_partitions", "delete_topic"):
            fault.change(topics)  # type: ignore[attr-defined]  # a step with one topic
        elif fault.kind in ("produce", "consume"):
            topic, _, number = fault.partition.rpartition("-")  # type: ignore[attr-defined]  # a client
            assert int(number) < topics[topic]


def test_a_plan_with_traffic_survives_its_file(tmp_path: Path) -> None:
    plan = drawn(3, TrafficLimits())
    assert {"produce", "consume"} <= {fault.kind for fault in plan.faults}
    path = tmp_path / "plan.toml"
    path.write_text(write_plan(SavedPlan(3, "", plan)), encoding="utf-8")
    assert PlanFile(path).plan(SETTING).faults == plan.faults


def play_of(tmp_path: Path, *faults: str, version: str = "") -> Play:
    (tmp_path / "scenario.toml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "plan.toml").write_text(HEAD + "".join(faults), encoding="utf-8")
    scenario = read_scenario(tmp_path / "scenario.toml")
    plan = PlanFile(tmp_path / "plan.toml").plan(setting_of(scenario, version))
    return Play(scenario, seed=1, version=version, plan=plan)


def test_what_a_replaced_leader_acknowledged_is_a_named_loss(tmp_path: Path) -> None:
    with closing(play_of(tmp_path, PRODUCE, CONSUME, CONFIGURE, CUT)) as play:
        play.run()
        assert play.held, play.violations
        records = result_of(play, "", documented=False).records
        # The broker is cut off for 6 s before its session expires, but not from the client.
        assert records["lost, acks=1: acks=1"] > 50
        assert records["read by consumers"] > 200
        assert not [name for name in records if name.startswith("lost") and name != "lost, acks=1: acks=1"]
        lines = plain(timeline_of(play))
        assert "traffic       produces 2 records to orders-0 every 100ms, acks 1, 0 retries" in lines
        assert "sets min.insync.replicas=2 of topic orders" in lines
        assert "acknowledged records lost" in lines
        assert "events of single batches are left out" in lines
        assert not [line for line in lines.splitlines() if any(f"  {what}  " in line for what in OF_EACH_BATCH)]
        with closing(play_of(tmp_path, PRODUCE, CONSUME, CONFIGURE, CUT)) as again:
            again.run()
            assert again.history.to_text() == play.history.to_text()
            assert again.cluster.traffic.counts() == play.cluster.traffic.counts()


def test_traffic_reaches_its_probes(tmp_path: Path) -> None:
    kill = CUT.replace('"cut"', '"kill"').replace('"10s"', '"45s"').replace('"30s"', '"5s"')
    to_all = PRODUCE.replace("acks = 1", 'acks = "all"').replace('"1s"', '"1.05s"') + 'retries = 100\ntimeout = "1s"\n'
    with closing(play_of(tmp_path, PRODUCE, to_all, CONSUME, CUT, kill)) as play:
        play.run()
        assert play.held, play.violations
        assert play.probes is not None
        assert {
            "leader was replaced while a producer waited for acks",
            "leader that was replaced appended records",
            "batch that was sent again was appended twice",
            "acknowledged or read records were lost",
        } <= play.probes.counts.keys()


def test_clients_stop_after_their_duration_and_when_everything_heals(tmp_path: Path) -> None:
    short = PRODUCE.replace('"50s"', '"5s"')
    with closing(play_of(tmp_path, short, CONSUME.replace('"50s"', '"600s"'))) as play:
        play.run()
        times = [event.at_us for event in play.history if event.what == "acknowledged"]
        assert play.faults_from_us is not None
        begin_us = play.faults_from_us + 1_000_000
        assert begin_us < min(times) <= begin_us + 1_000_000
        assert begin_us + 4_000_000 < max(times) <= begin_us + 5_000_000
        assert not play.cluster.traffic.consumers[0].process.alive


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PRODUCE.replace("acks = 1", "acks = 2"), ":9: acks: "),
        (PRODUCE.replace('"orders-0"', '"orders"'), ":7: partition: 'orders' is not the name of a partition"),
        (PRODUCE.replace('"100ms"', '"10us"'), ":8: gap: 10us is less than 1 ms; expected 1ms or more"),
        (PRODUCE.replace("records = 2", "records = 0"), ":10: records: "),
        (PRODUCE + "idempotent = true\n", ":9: acks: an idempotent producer has acks 1; expected"),
        (PRODUCE + "retries = -1\n", ":12: retries: there are -1 retries; expected 0 or more"),
        (PRODUCE.replace('for = "50s"\n', ""), "the key for is missing"),
        (CONSUME + 'timeout = "0s"\n', ":10: timeout: '0s' is not a positive duration"),
        (CONFIGURE.replace('"orders"', '""'), ":7: topic: '' is not a valid topic name"),
    ],
)
def test_impossible_traffic_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        play_of(tmp_path, text)
    assert message in str(caught.value)


def test_a_release_without_topic_configurations_has_no_settings(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"topics of Kafka 0\.8\.0 have no configuration"):
        play_of(tmp_path, CONFIGURE, version="0.8.0")


def test_a_release_without_idempotence_has_no_such_producer(tmp_path: Path) -> None:
    idempotent = PRODUCE.replace("acks = 1", 'acks = "all"\nidempotent = true')
    with pytest.raises(ScenarioError, match=r"Kafka 0\.10\.2 has no idempotent producers; expected 0\.11 or later"):
        play_of(tmp_path, idempotent, version="0.10.2")
    old = drawn(5, TrafficLimits(dict.fromkeys(ROLES, 0) | {"idempotent": 1}), "0.10.2")
    assert not any(map(is_traffic, old.faults))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('gap = "0s"', "gap: '0s' is not positive"),
        ('longest = "soon"', "longest: 'soon' is not a duration"),
        ("weights = { acks_2 = 1 }", "acks_2: unknown role 'acks_2'; expected acks_1"),
        ("weights = { consume = -1 }", "weights: expected `int` >= 0"),
        ("producers = 3", "producers: unknown key"),
    ],
)
def test_limits_of_traffic_are_checked(tmp_path: Path, table: str, message: str) -> None:
    faults = f'[faults]\nsafety = "1m"\nliveness = "1m"\n[faults.traffic]\n{table}\n'
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO + faults, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    assert message in str(caught.value)


def test_a_scenario_limits_its_traffic(tmp_path: Path) -> None:
    table = 'gap = "2s"\nlongest = "9s"\nweights = { consume = 0, acks_all = 5 }'
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO + f'[faults]\nsafety = "1m"\nliveness = "1m"\n[faults.traffic]\n{table}\n', "utf-8")
    scenario = read_scenario(path)
    assert scenario.faults is not None
    assert scenario.faults.traffic == TrafficLimits({"consume": 0, "acks_all": 5}, 2_000_000, 9_000_000)


def test_the_shipped_swarm_has_traffic_and_the_other_one_the_same_faults() -> None:
    plans = []
    for name in ("anything_breaks", "anything_breaks_records"):
        scenario = read_scenario(ROOT / "scenarios" / f"{name}.toml")
        assert scenario.faults is not None
        plans.append(FaultPlan.draw(partial(RandomStream, 8), scenario.faults, setting_of(scenario, "")))
    without, with_traffic = plans
    assert {fault.kind for fault in with_traffic.faults} & {"produce", "consume"}
    kept = tuple(fault for fault in with_traffic.faults if not is_traffic(fault))
    assert [fault.at for fault in kept] == [fault.at for fault in without.faults[: len(kept)]]
    assert PLAN_KINDS.keys() - FAULT_KINDS.keys() == {kind.name for kind in (*TRAFFIC_KINDS, *CLIENT_ENTRIES)}
    assert CLIENT_ROLES.keys() <= set(ROLES)
