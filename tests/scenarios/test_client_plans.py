"""Clients of fault plans that speak Kafka's requests: drawn, written, read, checked and played."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ScenarioError
from simzk.scenarios.faults.calls import CALL_KINDS
from simzk.scenarios.faults.clients import CLIENT_ENTRIES, ClientLimits
from simzk.scenarios.faults.plan import FaultPlan
from simzk.scenarios.faults.plan_file import PlanFile, SavedPlan, write_plan
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.reader import read_scenario
from simzk.simulation import RandomStream
from tests.cli.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = read_scenario(ROOT / "scenarios" / "anything_breaks_clients.toml")
SETTING = setting_of(SCENARIO, "")
DELETED_BY_A_CLOGGED_LEADER = """
seed = 2
safety = "30s"
liveness = "10s"

[[fault]]
at = "1s"
kind = "produce_once"
topic = "payments"
partitions = 1
gap = "50ms"
for = "20s"

[[fault]]
at = "2s"
kind = "fetch_by_session"
topic = "payments"
partitions = 1
gap = "300ms"
for = "28s"

[[fault]]
at = "10s"
kind = "clog"
broker = 3
for = "10s"

[[fault]]
at = "10500ms"
kind = "delete_records"
topic = "payments"
partitions = 1
gap = "100ms"
for = "3s"
"""
"""A leader deletes records, tells it to a reader that has yet to read them, and loses its session before its followers
hear of it."""
TOPIC_THAT_LOSES_ITS_ID = """
seed = 8
safety = "60s"
liveness = "30s"

[[fault]]
at = "1s"
kind = "rolling_upgrade"
brokers = [3, 1, 4, 2]
gap = "2s"
version = "3.2"
protocol = "1.1"

[[fault]]
at = "25s"
kind = "transact"
topic = "orders"
partitions = 4
gap = "200ms"
transactional_id = "transactions-1"
for = "30s"

[[fault]]
at = "26s"
kind = "transact"
topic = "payments"
partitions = 2
gap = "600ms"
transactional_id = "transactions-1"
for = "7s"

[[fault]]
at = "30s"
kind = "add_partitions"
topic = "orders"
total = 7

[[fault]]
at = "40s"
kind = "expire"
broker = 1

[[fault]]
at = "44s"
kind = "expire"
broker = 2

[[fault]]
at = "48s"
kind = "expire"
broker = 3

[[fault]]
at = "52s"
kind = "expire"
broker = 4
"""
"""A tool of 1.1 drops the id of a topic, and the next controller gives it another one (KAFKA-14190): no broker leads it
in the next leader epoch."""


def drawn(seed: int, version: str = "", limits: dict[str, int] | None = None) -> FaultPlan:
    """Return the plan of a seed of the shipped scenario."""
    assert SCENARIO.faults is not None
    changed = replace(SCENARIO.faults, clients=ClientLimits(limits or {}))
    return FaultPlan.draw(partial(RandomStream, seed), changed, setting_of(SCENARIO, version))


def clients(plan: FaultPlan) -> list[str]:
    """Return the kinds of the clients of a plan."""
    return [fault.kind for fault in plan.faults if isinstance(fault, CLIENT_ENTRIES)]


def test_clients_do_not_change_the_faults() -> None:
    assert SCENARIO.faults is not None
    without = FaultPlan.draw(partial(RandomStream, 8), replace(SCENARIO.faults, clients=None), SETTING)
    kept = tuple(fault for fault in drawn(8).faults if not isinstance(fault, (*CLIENT_ENTRIES, *CALL_KINDS)))
    assert kept == without.faults
    assert not clients(without)


def test_weights_choose_the_roles() -> None:
    only = dict.fromkeys((entry.name for entry in CLIENT_ENTRIES), 0) | {"transact": 1}
    assert set(clients(drawn(3, limits=only))) == {"transact"}


def test_every_role_is_drawn_and_old_releases_have_fewer() -> None:
    kinds = {kind for seed in range(12) for kind in clients(drawn(seed))}
    assert kinds == {entry.name for entry in CLIENT_ENTRIES}
    old = {kind for seed in range(12) for kind in clients(drawn(seed, "1.0"))}
    assert old == kinds - {"fetch_by_session", "administer"}


def test_faults_of_single_calls_are_drawn_where_the_release_has_them() -> None:
    kinds = {fault.kind for seed in range(12) for fault in drawn(seed).faults if isinstance(fault, CALL_KINDS)}
    assert kinds == {kind.name for kind in CALL_KINDS}
    old = {fault.kind for seed in range(12) for fault in drawn(seed, "2.4").faults if isinstance(fault, CALL_KINDS)}
    assert old == {"lose_marker_answers"}


def test_a_plan_is_written_and_read(tmp_path: Path) -> None:
    plan = drawn(5)
    path = tmp_path / "plan.toml"
    path.write_text(write_plan(SavedPlan(5, "", plan)))
    assert PlanFile(path).plan(SETTING).faults == plan.faults


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        ("transact", 'transactional_id = "id"\npartitions = 9', "partitions: there are 9 partitions"),
        ("produce_once", "number = 2\npartitions = 2", "number: there is no partition 2"),
        ("delete_records", 'partitions = 2\ngap = "0ms"', "gap"),
    ],
)
def test_a_wrong_client_is_refused(tmp_path: Path, kind: str, text: str, wrong: str) -> None:
    path = tmp_path / "plan.toml"
    head = 'seed = 1\nsafety = "10s"\nliveness = "10s"\n[[fault]]\nat = "1s"\nfor = "2s"\ntopic = "payments"\n'
    path.write_text(f'{head}kind = "{kind}"\n{text}\n')
    with pytest.raises(ScenarioError, match=wrong):
        PlanFile(path).plan(SETTING)


def test_a_short_run_keeps_all_promises(tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    path.write_text(SCENARIO.path.read_text().replace('safety = "3m"', 'safety = "30s"'))
    play = Play(read_scenario(path), seed=7)
    with closing(play):
        play.run()
    assert play.held
    assert play.verdicts[-1].name == "after all faults, clients find what they were promised"
    assert play.clients is not None
    assert play.clients.counts["transactions committed"] > 0


def test_a_reader_leaves_out_what_only_a_former_leader_has_deleted(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(DELETED_BY_A_CLOGGED_LEADER)
    play = Play(SCENARIO, seed=2, plan=PlanFile(path).plan(SETTING))
    with closing(play):
        play.run()
    assert play.held
    assert play.clients is not None
    assert play.clients.counts["records that only a former leader had deleted"] > 0


def test_clients_are_not_promised_what_a_known_bug_of_kafka_takes(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(TOPIC_THAT_LOSES_ITS_ID)
    play = Play(SCENARIO, seed=8, version="1.1", plan=PlanFile(path).plan(setting_of(SCENARIO, "1.1")))
    with closing(play):
        play.run()
    assert play.held, play.verdicts
    assert {one.issue for one in play.known} >= {"KAFKA-14190"}
    assert play.clients is not None
    assert play.clients.counts["partitions that a known bug keeps from serving clients"] >= 4


@pytest.mark.slow
def test_a_run_keeps_all_promises_and_has_all_kinds_of_them() -> None:
    play = Play(SCENARIO, seed=7)
    with closing(play):
        play.run()
    assert play.held
    assert play.verdicts[-1].name == "after all faults, clients find what they were promised"
    assert "committed transactions are read whole, and no others" in play.invariants
    assert play.clients is not None
    assert {
        "assignments of groups",
        "offsets committed",
        "transactions committed",
        "transactions aborted",
        "incremental fetches",
        "deletions of records",
        "changes of administrators",
        "watches",
    } <= play.clients.counts.keys()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.11", "1.1", "2.0", "2.4", "2.8", "3.5"])
def test_older_releases_keep_the_promises_that_they_make(version: str) -> None:
    play = Play(SCENARIO, seed=2, version=version)
    with closing(play):
        play.run()
    assert play.held
