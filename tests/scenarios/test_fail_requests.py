"""The step `fail_requests`: faults of requests of Kafka clients, at times of a scenario."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.errors import ScenarioError
from simzk.scenarios.examples import find_scenario
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its resources with a deprecated function
    from kafka import KafkaProducer
    from kafka.errors import NotEnoughReplicasError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
title = "Requests fail"
why = "Because."

[cluster]
brokers = 1

[[step]]
at = "5s"
action = "create_topic"
topic = "orders"
assignment = [[1]]

[[step]]
at = "10s"
action = "fail_requests"
"""
TAIL = '\n[[step]]\nat = "60s"\nexpect = "whole"\n'


def played(folder: Path, step: str, until_s: float) -> Play:
    """Return a run of a scenario with a step, played up to a time."""
    path = folder / "scenario.toml"
    path.write_text(HEAD + step + TAIL)
    play = Play(read_scenario(path), seed=1, cluster_type=simzk.KafkaCluster)
    play.run_until(round(until_s * 1_000_000))
    return play


def client_of(play: Play, **options: object) -> KafkaProducer:
    assert isinstance(play.cluster, simzk.KafkaCluster)
    return play.cluster.client(KafkaProducer, acks=1, enable_idempotence=False, linger_ms=0, **options)


def seconds_to_send(play: Play, producer: KafkaProducer) -> float:
    before_us = play.cluster.scheduler.now_us
    producer.send("orders", b"1").get(60)
    return (play.cluster.scheduler.now_us - before_us) / 1_000_000


def test_a_rule_fails_as_many_requests_as_it_says(tmp_path: Path) -> None:
    step = 'api = "Produce"\ntopic = "orders"\nerror = "NOT_ENOUGH_REPLICAS"\ntimes = 2'
    with played(tmp_path, step, 11).cluster as cluster:
        assert isinstance(cluster, simzk.KafkaCluster)
        producer = cluster.client(KafkaProducer, acks=1, retries=0, enable_idempotence=False)
        for _ in range(2):
            with pytest.raises(NotEnoughReplicasError):
                producer.send("orders", b"1").get(10)
        assert producer.send("orders", b"1").get(10).offset == 0


def test_a_rule_ends_after_its_time(tmp_path: Path) -> None:
    play = played(tmp_path, 'error = "NOT_ENOUGH_REPLICAS"\napi = "Produce"\ntimes = "all"\nfor = "4s"', 11)
    with play.cluster:
        assert seconds_to_send(play, client_of(play)) > 2
        assert play.cluster.broker_faults.rules == []


def test_a_request_waits_for_the_delay(tmp_path: Path) -> None:
    play = played(tmp_path, 'fault = "delay"\nby = "700ms"\nclient_id = "slow"\nbroker = 1', 11)
    with play.cluster:
        assert seconds_to_send(play, client_of(play)) < 0.5
        assert 0.7 < seconds_to_send(play, client_of(play, client_id="slow")) < 1


def test_a_request_is_held_back_for_a_time(tmp_path: Path) -> None:
    play = played(tmp_path, 'fault = "hold"\napi = "Produce"\nfor = "9s"', 11)
    with play.cluster:
        assert 6 < seconds_to_send(play, client_of(play)) < 9


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ('fault = "lose"', "fault: unknown fault 'lose'; expected one of drop_request, drop_reply, delay, hold, fail"),
        ('api = "Produced"\nerror = "NOT_ENOUGH_REPLICAS"', "api: unknown request 'Produced'; expected Produce"),
        ('error = "NOT_ENOUGH_REPLICA"', "error: NOT_ENOUGH_REPLICA is not an error of Kafka's protocol"),
        ('api = "Produce"', "fail needs error; expected error with the fault fail, and only there"),
        ('fault = "delay"', "delay needs by; expected by with the fault delay, and only there"),
        ('fault = "drop_reply"\nerror = "NONE"', "error: drop_reply has no error"),
        ('error = "NOT_CONTROLLER"\nby = "2s"', "by: fail has no by"),
        ('fault = "delay"\nby = "soon"', "by: 'soon' is not a positive duration; expected a duration such as 250ms"),
        ('fault = "hold"', "nobody releases the requests that are held back; expected for"),
        ('error = "NOT_CONTROLLER"\nfor = "0s"', "for: '0s' is not a positive duration"),
        ('error = "NOT_CONTROLLER"\nbroker = 7', "broker: "),
        ('error = "NOT_CONTROLLER"\ntopic = ""', "topic: the name of the topic is empty"),
        ('error = "NOT_CONTROLLER"\ntimes = 0', "times: "),
    ],
)
def test_a_wrong_step_says_what_is_accepted(tmp_path: Path, step: str, said: str) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(HEAD + step + TAIL)
    with pytest.raises(ScenarioError) as caught:
        read_scenario(path)
    assert said in str(caught.value)


def test_a_producer_without_idempotence_writes_twice_in_the_shipped_scenario() -> None:
    scenario = read_scenario(find_scenario("client_requests_fail"))
    play = Play(scenario, seed=1, cluster_type=simzk.KafkaCluster)
    play.run_until(11_000_000)
    with play.cluster:
        producer = client_of(play, request_timeout_ms=5000)
        assert seconds_to_send(play, producer) > 20  # until the first rule ends
        play.run_until(41_000_000)
        assert 0.5 < seconds_to_send(play, producer) < 2
        play.run_until(51_000_000)
        assert seconds_to_send(play, producer) < 10
        assert play.cluster.record_ledger.by_acks == {"acks=1": 4}
        play.run_until(61_000_000)
        assert [verdict.held for verdict in play.verdicts] == [True]
