"""Control of a running cluster's brokers: its state, each verb, and the same over HTTP while the brokers run."""

from __future__ import annotations

import json
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import simzk
from simzk.scenarios.broker_control import EVENTS_MAX, PARTITIONS_MAX, STATES, BrokerControl
from simzk.scenarios.live_scenario import LiveScenario
from simzk.scenarios.reader import read_scenario
from simzk.serve.configuration.settings import Settings
from tests.serve.http_client import fetch
from tests.serve.served import ServedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCENARIO = """
title = "Three brokers and a topic"
why = "A cluster to be controlled over HTTP."

[cluster]
version = "3.9"
brokers = 3

[[step]]
at = "1s"
action = "create_topic"
topic = "orders"
assignment = [[1, 2, 3], [2, 3, 1]]

[[step]]
within = "5s"
expect = "whole"
"""


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    with simzk.KafkaCluster(brokers=3, racks=3, seed=1) as running:
        running.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1]})
        running.advance(2)
        yield running


def broker(control: BrokerControl, number: int) -> dict[str, Any]:
    brokers: Any = control.state()["brokers"]
    found = next(one for one in brokers if one["id"] == number)
    assert isinstance(found, dict)
    return found


def partitions(control: BrokerControl) -> list[tuple[str, str]]:
    found: Any = control.state()["partitions"]
    return [(one["name"], one["state"]) for one in found]


def test_the_state_names_brokers_partitions_and_events(cluster: simzk.KafkaCluster) -> None:
    state: Any = BrokerControl(cluster).state()
    json.dumps(state)
    assert (state["version"], state["controller"]) == ("3.9", cluster.controller)
    assert [(one["id"], one["state"], one["registered"]) for one in state["brokers"]] == [
        (number, "running", True) for number in (1, 2, 3)
    ]
    assert len({one["rack"] for one in state["brokers"]}) == 3
    assert partitions(BrokerControl(cluster)) == [("orders-0", "in sync"), ("orders-1", "in sync")]
    assert state["counts"] == {**dict.fromkeys(STATES, 0), "in sync": 2}
    assert state["partitions"][0]["replicas"] == [1, 2, 3]
    assert len(state["events"]) <= EVENTS_MAX


def test_what_needs_attention_comes_first(cluster: simzk.KafkaCluster) -> None:
    control = BrokerControl(cluster)
    control.act(2, "kill", None)
    assert partitions(control) == [("orders-1", "leader stopped"), ("orders-0", "in sync")]
    cluster.advance(30)
    assert partitions(control) == [("orders-0", "under-replicated"), ("orders-1", "under-replicated")]
    for number in (1, 3):
        control.act(number, "kill", None)
    cluster.advance(60)
    assert {state for _, state in partitions(control)} <= {"offline", "leader stopped"}


def test_each_verb_does_what_it_says(cluster: simzk.KafkaCluster) -> None:
    control = BrokerControl(cluster)
    control.act(1, "pause", None)
    assert broker(control, 1)["state"] == "paused"
    control.act(1, "resume", None)
    assert broker(control, 1)["state"] == "running"
    control.act(1, "cut", None)
    assert broker(control, 1)["cut_off"] == ["zookeeper", "broker 2", "broker 3"]
    control.act(1, "heal", None)
    control.act(1, "cut", 3)
    assert (broker(control, 1)["cut_off"], broker(control, 3)["cut_off"]) == (["broker 3"], ["broker 1"])
    control.act(1, "heal", 3)
    assert broker(control, 1)["cut_off"] == []
    session_id = cluster.brokers[2].session_id
    control.act(2, "disconnect", None)
    cluster.advance(3)
    assert cluster.brokers[2].session_id == session_id
    control.act(2, "expire", None)
    assert not broker(control, 2)["registered"]
    cluster.advance(5)
    assert broker(control, 2)["registered"]
    assert cluster.brokers[2].session_id != session_id
    control.act(3, "stop", None)
    cluster.advance(10)
    assert (broker(control, 3)["state"], broker(control, 3)["registered"]) == ("stopped", False)
    control.act(3, "start", None)
    cluster.advance(10)
    assert (broker(control, 3)["state"], broker(control, 3)["registered"]) == ("running", True)
    events = [event.what for event in cluster.history if event.who == "operator"]
    assert {"cut broker 1", "expire broker 2", "stop broker 3", "start broker 3"} <= set(events)


@pytest.mark.parametrize(
    ("number", "verb", "peer", "said"),
    [
        (9, "kill", None, "broker 9 does not exist; expected one of 1, 2, 3"),
        (1, "fly", None, "unknown verb 'fly'; expected one of kill, stop, start"),
        (1, "start", None, "broker 1 is running"),
        (1, "kill", 2, "kill has no peer 2"),
        (1, "cut", 1, "cut has no peer 1"),
        (1, "cut", 9, "broker 9 does not exist"),
    ],
)
def test_the_impossible_is_refused_and_changes_nothing(
    cluster: simzk.KafkaCluster, number: int, verb: str, peer: int | None, said: str
) -> None:
    control = BrokerControl(cluster)
    before = control.state()
    with pytest.raises(simzk.ConfigError, match=said):
        control.act(number, verb, peer)
    assert control.state() == before


def test_many_partitions_are_counted_and_the_first_shown() -> None:
    with simzk.KafkaCluster(brokers=2) as cluster:
        cluster.create_topic("wide", partitions=PARTITIONS_MAX + 5, replication_factor=1)
        cluster.advance(5)
        state: Any = BrokerControl(cluster).state()
    assert (len(state["partitions"]), state["partitions_read"]) == (PARTITIONS_MAX, PARTITIONS_MAX + 5)


def test_an_invalid_znode_is_named_and_does_not_hide_the_others(cluster: simzk.KafkaCluster) -> None:
    cluster.write_znode("/brokers/topics/orders/partitions/0/state", "{")
    cluster.advance(1)
    state: Any = BrokerControl(cluster).state()
    assert [(one["name"], one["state"], "problem" in one) for one in state["partitions"]] == [
        ("orders-0", "offline", True),
        ("orders-1", "in sync", False),
    ]


@contextmanager
def running(tmp_path: Path) -> Iterator[ServedCluster]:
    file = tmp_path / "live.toml"
    file.write_text(SCENARIO)
    start_ms = time.time_ns() // 1_000_000
    scenario = read_scenario(str(file))
    with closing(LiveScenario(scenario, start_ms=start_ms, tell=lambda _: None, warn=pytest.fail)) as live:
        served = ServedCluster(Settings(admin_port=0), live)
        try:
            yield served
        finally:
            served.stop()
        assert served.tcp.failure is None


def test_over_http_a_killed_leader_is_replaced_as_time_passes(tmp_path: Path) -> None:
    with running(tmp_path) as served:

        def ask(target: str, method: str = "GET") -> dict[str, Any]:
            status, _, body = fetch(served.admin_port, target, method)
            found = json.loads(body)
            assert isinstance(found, dict)
            return {**found, "status": status}

        def post(target: str) -> dict[str, Any]:
            return ask(target, "POST")

        assert post("/advance?seconds=10")["status"] == 200
        cluster = ask("/live/state")["cluster"]
        assert cluster["counts"]["in sync"] == 2
        leader = cluster["partitions"][0]["leader"]
        assert post(f"/brokers/{leader}/kill") == {"error": None, "status": 200}
        assert ask("/brokers")["partitions"][0]["state"] == "leader stopped"
        again = post(f"/brokers/{leader}/kill")
        assert (again["status"], "is not running" in again["error"]) == (409, True)
        assert post("/advance?seconds=30")["status"] == 200
        found = ask("/brokers")
        assert found["counts"] == {**dict.fromkeys(STATES, 0), "under-replicated": 2}
        assert all(one["leader"] not in (leader, -1) for one in found["partitions"])
        assert any(event["what"] == f"kill broker {leader}" for event in found["events"])
        for target in ("/brokers/x/kill", "/brokers/1", "/brokers/1/kill/now", "/brokers/99999999999/kill"):
            assert post(target)["status"] == 409
        assert post("/brokers/1/cut?peer=x")["status"] == 409
