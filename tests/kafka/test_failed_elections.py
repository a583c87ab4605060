"""Preferred elections that fail, and what controllers up to 0.10 remember (docs/reference/kafka.md §2.2, §2.12)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.zookeeper_mode import paths
from simzk.scenarios.faults.fault import Target
from tests.kafka.clusters import QUICK, happened, quiet, state_fields, topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from simzk.zookeeper.transactions import Transaction

pytestmark = pytest.mark.slow

REMEMBERED = ["0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.2"]
FORGOTTEN = ["0.11", "1.0", "1.1", "2.1"]

TERMS_OF_0_10_2 = """
create /controller 22
setData /controller_epoch 4
setData /brokers/topics/t/partitions/2/state
delete /controller
create /controller 22
setData /controller_epoch 5
delete /controller
create /controller 22
setData /controller_epoch 6
delete /controller
"""
"""Transactions of broker 22 of 0.10.2.2 at 345558 to 345758 ms, with the failed election of `t-99` in its memory.

Broker 21, which was controller and led `t-2`, was killed. The first failover elects the leader and fails at the
election; the later ones fail before that, because the first has left its channels open.
"""
TERMS_OF_0_8_2 = """
create /controller 11
setData /controller_epoch 359
delete /controller
create /controller 11
setData /controller_epoch 360
setData /brokers/topics/v/partitions/1/state
delete /controller
create /controller 11
setData /controller_epoch 361
delete /controller
"""
"""Transactions of broker 11 of 0.8.2.2 at 354657 to 355038 ms; broker 21, which can lead `v-1`, registers meanwhile."""


def booted(
    line: str, controller: int, others: Iterable[int], config: Mapping[str, str | int | bool] | None = None
) -> KafkaCluster:
    """Return a cluster with a certain controller."""
    c = KafkaCluster(line, [controller, *others], config=QUICK | dict(config or {}), boot=False)
    for broker in (controller, *others):
        c.restart(broker)
        quiet(c)
    assert c.controller == controller
    if c.server.tree.get("/admin") is None:  # as in 0.8.0
        c.write_znode("/admin", "")
        quiet(c)
    return c


def request(c: KafkaCluster, *partitions: tuple[str, int]) -> None:
    """Write the election znode as an operator does."""
    named = ",".join(f'{{"topic":"{name}","partition":{number}}}' for name, number in partitions)
    c.write_znode(paths.PREFERRED_ELECTION, f'{{"version":1,"partitions":[{named}]}}')
    quiet(c)


def is_pending(c: KafkaCluster) -> bool:
    return c.server.tree.get(paths.PREFERRED_ELECTION) is not None


def record_transactions(c: KafkaCluster) -> list[str]:
    """Return a list that each write of a znode will be added to, in the form of the recordings above."""
    written: list[str] = []

    def note(transaction: Transaction) -> None:
        record = transaction.record
        path, operation = getattr(record, "path", ""), type(record).__name__.removesuffix("Txn")
        name = {"Create": "create", "Delete": "delete", "SetData": "setData"}.get(operation)
        if name is None:
            return
        data = getattr(record, "data", b"") or b""
        if path == paths.CONTROLLER and data:
            written.append(f"create {path} {int(data.split(b'brokerid')[1][2:].split(b',')[0])}")
        elif path == paths.CONTROLLER_EPOCH:
            written.append(f"{name} {path} {data.decode()}")
        else:
            written.append(f"{name} {path}")

    c.server.on_transaction.append(note)
    return written


def replace_controller(c: KafkaCluster, controller: int, winner: int) -> None:
    """Let another broker become controller while the controller is paused beyond its session."""
    c.prefer_controller(winner)
    c.pause(controller)
    c.run_for(12)
    assert c.controller == winner
    c.resume(controller)
    quiet(c)


def in_recorded_epochs(written: list[str], recorded: list[str]) -> list[str]:
    """Return transactions from the first `/controller` on, with epochs counted as in the recording."""
    tail = written[written.index(recorded[0]) :][: len(recorded)]
    epochs = [int(line.split()[-1]) for line in (*tail, *recorded) if paths.CONTROLLER_EPOCH in line]
    shift = epochs[len(epochs) // 2] - epochs[0]
    return [
        f"{line.rpartition(' ')[0]} {int(line.split()[-1]) + shift}" if paths.CONTROLLER_EPOCH in line else line
        for line in tail
    ]


def test_the_failovers_of_a_broker_that_remembers_an_election_are_those_recorded_in_0_10_2() -> None:
    with booted("0.10.2", 22, (21, 11, 12)) as c:
        topic(c, "t", {0: [11, 12], 1: [12, 21], 2: [21, 22]})
        request(c, ("t", 0), ("t", 99))
        assert is_pending(c)
        replace_controller(c, 22, 21)
        assert not is_pending(c)
        c.prefer_controller(22)
        c.kill(21)
        written = record_transactions(c)
        c.run_for(12)
        recorded = TERMS_OF_0_10_2.split("\n")[1:-1]
        assert in_recorded_epochs(written, recorded) == recorded


def test_the_failovers_of_a_broker_that_remembers_an_election_are_those_recorded_in_0_8_2() -> None:
    """Each failover goes as far as the election; the second one below finds broker 21, which leads `v-1` again."""
    with booted("0.8.2", 11, (21, 12)) as c:
        topic(c, "v", {0: [21, 11], 1: [21, 12]})
        request(c, ("v", 0), ("r", 77))
        replace_controller(c, 11, 12)
        c.kill(21)
        quiet(c)
        c.prefer_controller(11)
        c.kill(12)
        c.run_for(12)
        assert state_fields(c, "v", 1)[0] == 12
        written = record_transactions(c)
        c.restart(21)
        c.run_for(8)
        elected = "setData /brokers/topics/v/partitions/1/state"
        assert state_fields(c, "v", 1)[0] == 21
        written = [line for line in written if line != f"create {paths.broker(21)}"]
        recorded = TERMS_OF_0_8_2.split("\n")[1:-1]
        start = written.index(elected) - recorded.index(elected)
        assert in_recorded_epochs(written[start:], recorded) == recorded


@pytest.mark.parametrize("line", REMEMBERED)
def test_a_former_controller_that_remembers_an_election_fails_and_keeps_acting(line: str) -> None:
    """Once another broker won, broker 1 still handles what it watches (recorded in 0.10.2.2: ISR notifications)."""
    with booted(line, 1, (2, 3)) as c:
        topic(c, "t", {0: [2, 3]})
        request(c, ("t", 0), ("t", 9))
        replace_controller(c, 1, 2)
        c.prefer_controller(1)
        c.delete_znode(paths.CONTROLLER)
        c.run_for(1)
        assert happened(c, "failover failed")
        c.prefer_controller(3)
        c.run_for(1)
        c.delete_znode(paths.CONTROLLER)
        quiet(c)
        assert c.controller != 1
        c.create_topic("u", assignment={0: [3, 2]})
        quiet(c)
        c.kill(2)
        quiet(c)
        c.restart(2)
        quiet(c)
        assert state_fields(c, "t")[0] == 3
        c.check()
        c.expire(1)
        quiet(c)
        assert not c.brokers[1].controller.is_active


@pytest.mark.parametrize("line", [*REMEMBERED, *FORGOTTEN])
def test_the_partitions_of_a_failed_election_are_ignored_up_to_0_10(line: str) -> None:
    """Recorded in 0.8.2.2 and 0.10.2.2: a request that names only remembered partitions is deleted at once."""
    with booted(line, 1, (2, 3)) as c:
        topic(c, "t", {0: [2, 3], 1: [3, 2]})
        request(c, ("t", 7))
        assert is_pending(c)
        if line in ("1.1", "2.1"):  # a change of the znode is not seen
            c.delete_znode(paths.PREFERRED_ELECTION)
        request(c, ("t", 7))
        assert is_pending(c) == (line in FORGOTTEN)


@pytest.mark.parametrize(("line", "held"), [("0.8.2", True), ("0.10.2", True), ("0.11", False), ("1.1", False)])
def test_a_failed_election_holds_back_the_automatic_rebalance_up_to_0_10(line: str, held: bool) -> None:
    """Recorded in 0.8.2.2 and 0.10.2.2; the topic can be deleted all the same."""
    settings = {"auto.leader.rebalance.enable": True, "leader.imbalance.check.interval.seconds": 6}
    settings |= {"delete.topic.enable": True}
    with booted(line, 1, (2, 3), settings) as c:
        topic(c, "t", {0: [1, 2]})
        topic(c, "v", {0: [3, 2]})
        request(c, ("t", 0), ("t", 9))
        c.kill(3)
        quiet(c)
        c.restart(3)
        c.run_for(20)
        assert state_fields(c, "v")[0] == (2 if held else 3)
        c.delete_topic("t")
        quiet(c)
        assert c.server.tree.get(paths.topic("t")) is None
        assert c.server.tree.get(paths.delete_topic("t")) is None


@pytest.mark.parametrize(("line", "resumes"), [("0.10.2", True), ("0.11", False), ("1.1", False)])
def test_a_reassignment_that_another_controller_completed_is_resumed_up_to_0_10(line: str, resumes: bool) -> None:
    """Recorded in 0.10.2.2: elected again, the controller moves the partition back to the target of its first term."""
    with booted(line, 1, (2, 3)) as c:
        topic(c, "r", {0: [1, 2]})
        c.kill(3)
        quiet(c)
        c.write_znode(paths.REASSIGN_PARTITIONS, reassignment("r", 1, 3))
        c.run_for(3)
        replace_controller(c, 1, 2)
        c.restart(3)
        quiet(c)
        assert assignment(c, "r") == (1, 3)
        c.write_znode(paths.REASSIGN_PARTITIONS, reassignment("r", 2, 1))
        quiet(c)
        assert assignment(c, "r") == (2, 1)
        c.prefer_controller(1)
        c.delete_znode(paths.CONTROLLER)
        quiet(c)
        assert c.controller == 1
        assert assignment(c, "r") == ((1, 3) if resumes else (2, 1))
        assert c.server.tree.get(paths.REASSIGN_PARTITIONS) is None
        c.check()


def reassignment(name: str, *target: int) -> str:
    return f'{{"version":1,"partitions":[{{"topic":"{name}","partition":0,"replicas":{list(target)}}}]}}'


def assignment(c: KafkaCluster, name: str) -> tuple[int, ...]:
    node = c.server.tree.get(paths.topic(name))
    assert node is not None
    return tuple(json.loads(node.data or b"")["partitions"]["0"])


@pytest.mark.parametrize(("line", "stays"), [("0.10.2", True), ("1.1", True), ("2.1", True), ("2.2", False)])
def test_an_election_of_a_partition_that_never_had_a_leader_fails_before_2_2(line: str, stays: bool) -> None:
    with booted(line, 1, (2, 3)) as c:
        c.kill(3)
        quiet(c)
        c.create_topic("n", assignment={0: [3]})
        quiet(c)
        request(c, ("n", 0))
        assert is_pending(c) == stays


@pytest.mark.parametrize("line", ["0.8.2", "0.9", "0.10.2"])
def test_healing_ends_failovers_that_fail_for_ever(line: str) -> None:
    """A new partition without a state stops each failover; an operator deletes the request and restarts the brokers."""
    with booted(line, 11, (12, 21)) as c:
        topic(c, "t", {0: [11, 12]})
        c.write_znode(paths.topic("late"), '{"version":1,"partitions":{"0":[99]}}')
        quiet(c)
        c.write_znode(paths.PREFERRED_ELECTION, '{"version":1,"partitions":[{"topic":"late","partition":0}]}')
        c.run_for(1)
        c.expire(11)
        c.run_for(2)
        failed = len(happened(c, "failover failed"))
        assert failed > 10
        assert is_pending(c)
        Target(c).heal()
        c.run_for(20)
        failed = len(happened(c, "failover failed"))
        c.run_for(20)
        assert len(happened(c, "failover failed")) == failed
        assert not is_pending(c)
        assert c.controller is not None
        assert c.brokers[c.controller].controller.is_active
