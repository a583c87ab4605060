"""Expected traces of docs/reference/kafka.md §2.16: one partition with replicas 1, 2, 3 through failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kafka.clusters import cluster, quiet, state_fields, topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.cluster.cluster import KafkaCluster

    Row = tuple[Callable[[KafkaCluster], object], int, tuple[int, ...], int, int]

# Event, then leader, ISR, leader epoch and version of the state after it.
TRACE: list[Row] = [
    (lambda c: None, 1, (1, 2, 3), 0, 0),
    (lambda c: c.kill(1), 2, (2, 3), 1, 1),
    (lambda c: c.kill(3), 2, (2,), 2, 2),
    (lambda c: c.kill(2), -1, (2,), 3, 3),
    (lambda c: c.restart(1), -1, (2,), 3, 3),
    (lambda c: c.restart(2), 2, (2, 1), 4, 5),
    (lambda c: c.elect(), 1, (2, 1), 5, 6),
    (lambda c: c.shutdown(1), 2, (2,), 6, 7),
]


def test_one_partition_through_all_failures() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2, 3]})
        for act, *expected in TRACE:
            act(c)
            quiet(c)
            assert state_fields(c, "t") == tuple(expected), c.history.to_text()


def test_a_replica_that_catches_up_costs_one_write() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2, 3]})
        for broker in (1, 3, 2):
            c.kill(broker)
            quiet(c)
        c.restart(2)
        quiet(c)
        assert state_fields(c, "t") == (2, (2,), 4, 4)
        c.restart(1)
        quiet(c)
        assert state_fields(c, "t") == (2, (2, 1), 4, 5)


@pytest.mark.parametrize("how", ["cluster", "topic"])
def test_unclean_election_when_a_replica_outside_the_isr_starts(how: str) -> None:
    key = "unclean.leader.election.enable"
    with cluster(4, controller=4, config={key: how == "cluster"}) as c:
        topic(c, "t", {0: [1, 2, 3]}, **({"unclean_leader_election_enable": "true"} if how == "topic" else {}))
        for broker in (1, 3, 2):
            c.kill(broker)
            quiet(c)
        assert state_fields(c, "t") == (-1, (2,), 3, 3)
        c.restart(1)
        quiet(c)
        state = c.state("t", 0)
        assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), 4)
        # The election writes RECOVERING, which stays until the ISR changes (KIP-704; recorded in 3.9.1).
        assert state.recovering
        c.restart(2)
        quiet(c)
        assert not c.state("t", 0).recovering


def test_unclean_election_turned_on_later_takes_effect_at_once() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(1)
        quiet(c)
        c.kill(2)
        quiet(c)
        c.restart(1)
        quiet(c)
        assert c.state("t", 0).leader == -1
        c.alter_config("topics/t", {"unclean.leader.election.enable": "true"})
        quiet(c)
        assert c.state("t", 0).leader == 1


def test_an_unclean_election_on_request() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(1)
        quiet(c)
        c.kill(2)
        quiet(c)
        c.restart(1)
        quiet(c)
        answer = c.elect("unclean", [("t", 0)])
        quiet(c)
        assert c.state("t", 0).leader == 1
        assert [error.name for error in answer.result().partition_errors.values()] == ["NONE"]


def test_the_controller_that_dies_with_its_partition_costs_two_writes() -> None:
    """From 2.3 on the new controller first removes the dead replica from the ISR (write A), then elects (write B)."""
    with cluster(4, controller=1) as c:
        topic(c, "t", {0: [1, 2, 3], 1: [2, 1, 3]})
        c.kill(1)
        quiet(c)
        assert state_fields(c, "t", 0) == (2, (2, 3), 2, 2)
        writes = [(event.before, event.after) for event in c.history if event.subject == "t-0"][1:]
        assert writes == [
            ("leader 1 epoch 0 isr [1, 2, 3]", "leader none epoch 1 isr [2, 3]"),
            ("leader none epoch 1 isr [2, 3]", "leader 2 epoch 2 isr [2, 3]"),
        ]
        # A dead follower found at a failover costs one write.
        assert state_fields(c, "t", 1) == (2, (2, 3), 1, 1)


def test_znodes_of_a_topic() -> None:
    """A topic has three znodes, and two more for each partition."""
    with cluster(3) as c:
        before = len(list(c.server.tree.walk()))
        topic(c, "t", {number: [1, 2, 3] for number in range(5)})
        assert len(list(c.server.tree.walk())) - before == 3 + 2 * 5
