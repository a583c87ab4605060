"""Controllers of 0.8.0, which never resign (docs/reference/kafka.md §2.2), as recorded from four real brokers.

From 0.8.1 to 0.10.1 they handle what waits behind their resignation (KAFKA-4447).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.zookeeper_mode import paths
from simzk.zookeeper.transactions import DeleteTxn, SetDataTxn
from tests.kafka.clusters import happened, quiet, state_fields, topic
from tests.kafka.test_failed_elections import booted, is_pending, replace_controller, request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.zookeeper.transactions import Transaction

REASSIGN = paths.REASSIGN_PARTITIONS

OF_FORMER_IN_G1 = [f"setData {REASSIGN}", f"setData {REASSIGN}", "setData /brokers/topics/u", f"delete {REASSIGN}"]
"""Transactions of broker 11, the former controller, at 151792 to 152217 ms.

`u-0` moves to 11 and 21; two entries of the request name unknown partitions.
"""
OF_FORMER_IN_H1 = [
    "setData /brokers/topics/t",
    f"setData {REASSIGN}",
    f"setData {REASSIGN}",
    "setData /brokers/topics/u",
    f"delete {REASSIGN}",
]
"""Transactions of broker 11 at 159297 to 169418 ms: `t-0` moves to replicas in sync, `u-1` to one that joins later."""


def former_and_present(config: Mapping[str, str | int | bool] | None = None) -> KafkaCluster:
    """Return a cluster of 0.8.0 where broker 22 has replaced broker 11, with the topics of the recording."""
    c = booted("0.8.0", 11, (12, 21, 22), config)
    topic(c, "t", {0: [11, 12, 21], 1: [12, 21, 22]})
    topic(c, "u", {0: [22, 12], 1: [21, 11]})
    replace_controller(c, 11, 22)
    return c


def written_by(c: KafkaCluster, broker: int) -> list[str]:
    """Return a list that the writes of a broker will be added to, without states of partitions."""
    written: list[str] = []

    def note(transaction: Transaction) -> None:
        record = transaction.record
        if transaction.session_id != c.brokers[broker].session.session_id:
            return
        if isinstance(record, (SetDataTxn, DeleteTxn)) and not record.path.endswith("/state"):
            written.append(f"{'delete' if isinstance(record, DeleteTxn) else 'setData'} {record.path}")

    c.server.on_transaction.append(note)
    return written


def reassign(c: KafkaCluster, moves: Mapping[tuple[str, int], list[int]]) -> None:
    entries = [{"topic": name, "partition": number, "replicas": target} for (name, number), target in moves.items()]
    c.write_znode(REASSIGN, json.dumps({"version": 1, "partitions": entries}))


def replicas(c: KafkaCluster, name: str) -> dict[str, list[int]]:
    node = c.server.tree.get(paths.topic(name))
    assert node is not None
    found: dict[str, list[int]] = json.loads(node.data or b"")["partitions"]
    return found


def test_the_former_controller_deletes_the_znode_of_an_election() -> None:
    """Recorded in step e3: broker 11 deletes it while broker 22 elects."""
    with former_and_present() as c:
        assert state_fields(c, "t")[0] != 11
        written = written_by(c, 11)
        request(c, ("t", 0), ("t", 1), ("u", 0))
        assert written == [f"delete {paths.PREFERRED_ELECTION}"]
        assert state_fields(c, "t")[0] == 11
        assert not is_pending(c)


def test_the_former_controller_takes_part_in_a_reassignment() -> None:
    with former_and_present() as c:
        written = written_by(c, 11)
        reassign(c, {("u", 0): [11, 21], ("u", 9): [11, 12], ("nope", 0): [12]})
        quiet(c)
        assert written == OF_FORMER_IN_G1
        assert replicas(c, "u")["0"] == [11, 21]
        assert c.server.tree.get(REASSIGN) is None
        assert sorted(state_fields(c, "u")[1]) == [11, 21]
        c.check()


def test_the_former_controller_completes_what_is_in_sync_and_waits_for_the_rest() -> None:
    with former_and_present() as c:
        written = written_by(c, 11)
        c.pause(12)
        reassign(c, {("u", 1): [12, 11], ("t", 0): [21, 12]})
        c.run_for(2)
        assert written == OF_FORMER_IN_H1[:3]
        c.resume(12)
        quiet(c)
        assert written == OF_FORMER_IN_H1
        assert (replicas(c, "t")["0"], replicas(c, "u")["1"]) == ([21, 12], [12, 11])
        c.check()


def test_an_election_that_fails_outlives_the_failover_and_ends_with_the_former_controller() -> None:
    """Recorded in steps l1 to l5.

    Broker 11's failover fails, but it stays controller. Broker 22, which remembers the election, deletes the znode when
    it comes back, and its own failover fails later.
    """
    with booted("0.8.0", 22, (11, 12, 21)) as c:
        topic(c, "t", {0: [11, 12], 1: [12, 22], 2: [22, 21]})
        request(c, ("t", 1), ("t", 99), ("t", 0))
        assert is_pending(c)
        c.prefer_controller(11)
        c.pause(22)
        c.run_for(12)
        assert c.controller == 11
        assert len(happened(c, "failover failed")) == 1
        assert is_pending(c)
        assert state_fields(c, "t", 2)[0] == 21
        written = written_by(c, 22)
        c.resume(22)
        c.run_for(0.2)
        written += written_by(c, 22)
        quiet(c)
        assert not is_pending(c)
        assert sorted(state_fields(c, "t", 1)[1]) == [12, 22]
        c.prefer_controller(22)
        c.kill(11)
        quiet(c)
        assert c.controller == 22
        assert len(happened(c, "failover failed")) == 2
        assert state_fields(c, "t")[0] == 12
        c.restart(11)
        quiet(c)
        assert sorted(state_fields(c, "t")[1]) == [11, 12]
        c.check()


@pytest.mark.parametrize(("line", "is_handled"), [("0.9", True), ("0.10.1", True), ("0.10.2", False), ("1.1", False)])
def test_what_waits_behind_a_resignation_is_handled(line: str, is_handled: bool) -> None:
    """The session lives: another broker is found in /controller, and the notification of the election is next."""
    with booted(line, 11, (12, 21), {"zookeeper.session.timeout.ms": 30_000}) as c:
        topic(c, "t", {0: [12, 21]})
        c.pause(11)
        c.delete_znode(paths.CONTROLLER)
        c.run_for(2)
        assert c.controller in (12, 21)
        for broker in (12, 21):
            c.pause(broker)
        c.write_znode(paths.PREFERRED_ELECTION, '{"version":1,"partitions":[{"topic":"t","partition":0}]}')
        c.run_for(1)
        assert is_pending(c)
        c.resume(11)
        c.run_for(1)
        assert happened(c, "resigned") == ["controller 11"]
        assert is_pending(c) is not is_handled
