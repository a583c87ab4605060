"""`run_until`: virtual time passes until a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import simzk

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def booted() -> Iterator[simzk.KafkaCluster]:
    with simzk.KafkaCluster(brokers=3, seed=5) as running:
        running.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1]})
        yield running


def test_it_stops_at_the_first_instant_at_which_the_condition_holds(booted: simzk.KafkaCluster) -> None:
    booted.run_until(lambda: len(booted.state("orders", 0).isr) == 3)
    booted.kill(1)
    checked_ms: list[int] = []

    def leader_moved() -> bool:
        checked_ms.append(booted.now_ms)
        return booted.state("orders", 0).leader != 1

    assert booted.run_until(leader_moved) is True
    assert booted.now_ms == checked_ms[-1]
    before_ms, at_ms = checked_ms[-2:]
    assert at_ms - before_ms <= 100, "the condition is checked after each instant, also between requests"
    booted.restart(1)
    booted.run_until(lambda: 1 in booted.state("orders", 0).isr)


def test_it_returns_what_the_condition_returned(booted: simzk.KafkaCluster) -> None:
    now_ms = booted.now_ms
    assert booted.run_until(lambda: booted.live_brokers) == [1, 2, 3]
    assert booted.now_ms == now_ms, "a condition that holds takes no time"


def test_a_topic_that_does_not_exist_yet_is_waited_for(booted: simzk.KafkaCluster) -> None:
    booted.create_topic("late", partitions=1, replication_factor=1)
    assert booted.run_until(lambda: booted.state("late", 0).leader, timeout_s=10) in (1, 2, 3)


def test_a_timeout_says_what_did_not_become_true_and_the_state(booted: simzk.KafkaCluster) -> None:
    now_ms = booted.now_ms

    def broker_9_leads() -> bool:
        return booted.state("orders", 0).leader == 9

    with pytest.raises(TimeoutError) as raised:
        booted.run_until(broker_9_leads, timeout_s=2.5)
    assert booted.now_ms == now_ms + 2500
    first, cluster, brokers, *partitions = str(raised.value).splitlines()
    assert first.startswith(f"broker_9_leads ({__file__}:")
    assert first.endswith("did not become true within 2.5 virtual seconds; at last it returned False")
    assert cluster == f"{booted!r}, seed 5"
    assert brokers == "registered brokers: 1, 2, 3"
    assert [line.partition(":")[0] for line in partitions if "orders" in line] == ["orders-0", "orders-1"]


def test_a_failed_assertion_is_the_cause(booted: simzk.KafkaCluster) -> None:
    def check() -> bool:
        assert booted.live_brokers == [7]
        return True

    with pytest.raises(TimeoutError, match="at last it raised AssertionError") as raised:
        booted.run_until(check, timeout_s=1)
    assert isinstance(raised.value.__cause__, AssertionError)


def test_other_errors_of_a_condition_are_raised_at_once(booted: simzk.KafkaCluster) -> None:
    now_ms = booted.now_ms
    with pytest.raises(ZeroDivisionError):
        booted.run_until(lambda: 1 // 0)
    assert booted.now_ms == now_ms
    with pytest.raises(simzk.ConfigError, match="timeout_s: time cannot go back by 1 s"):
        booted.run_until(lambda: True, timeout_s=-1)


def test_a_condition_may_use_a_client(booted: simzk.KafkaCluster) -> None:
    client = booted.zookeeper.client()
    client.start()
    booted.kill(2)
    booted.run_until(lambda: not client.exists("/brokers/ids/2"), timeout_s=60)
    assert booted.live_brokers == [1, 3]
    booted.restart(2)


def test_the_same_history_as_of_run_for() -> None:
    def story(*, waits: bool) -> list[str]:
        with simzk.KafkaCluster(brokers=3, seed=2) as cluster:
            cluster.create_topic("orders", partitions=3, replication_factor=2)
            start_ms = cluster.now_ms
            cluster.kill(1)
            if waits:
                cluster.run_until(lambda: 1 not in cluster.live_brokers)
            cluster.run_for(60 - (cluster.now_ms - start_ms) / 1000)
            return [str(event) for event in cluster.history]

    assert story(waits=True) == story(waits=False)


def test_a_cluster_describes_at_most_twenty_partitions() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:
        cluster.create_topic("big", partitions=30, replication_factor=1)
        cluster.run_for(2)
        lines = cluster.describe().splitlines()
        assert len(lines) == 2 + 20 + 1
        assert lines[-1] == "..."
