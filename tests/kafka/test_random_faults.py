"""Random faults from a seed: first anything may break, then all heals and all must come back (safety, liveness)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from simzk.errors import SimzkError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.zookeeper_mode import paths
from simzk.simulation import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

BROKERS = (1, 2, 3, 4, 5)
BY_ZNODE = '{{"version":1,"partitions":[{{"topic":"t0","partition":0,"replicas":[{0},{1}]}}]}}'


def make(draw: random.Random, seed: int, log_dirs: int = 1) -> KafkaCluster:
    config: dict[str, str | int | bool] = {
        "zookeeper.session.timeout.ms": 6000,
        "unclean.leader.election.enable": draw.random() < 0.3,
        "auto.leader.rebalance.enable": draw.random() < 0.5,
        "replica.lag.time.max.ms": draw.choice([2000, 30_000]),
    }
    c = KafkaCluster(brokers=BROKERS, racks=draw.choice([None, 3]), seed=seed, config=config, log_dirs=log_dirs)
    for number in range(3):
        c.create_topic(f"t{number}", partitions=draw.randint(1, 6), replication_factor=draw.randint(1, 3))
    c.run_until_quiet()
    return c


def fault(c: KafkaCluster, draw: random.Random) -> Callable[[], object]:
    broker = draw.choice(BROKERS)
    end = f"broker {broker}"
    others = ["zookeeper", *(f"broker {other}" for other in BROKERS if other != broker)]
    wanted = draw.sample(BROKERS, draw.randint(1, 4))
    pair = draw.sample(BROKERS, 2)
    far, seconds, both, lost = draw.choice(others), draw.choice([1, 5, 20]), draw.random() < 0.7, draw.randint(1, 3)
    return draw.choice(
        [
            lambda: c.kill(broker),
            lambda: c.kill(broker),
            lambda: c.restart(broker),
            lambda: c.restart(broker),
            lambda: c.restart(broker),
            lambda: c.pause(broker, seconds),
            lambda: c.expire(broker),
            lambda: c.disconnect(broker),
            lambda: c.shutdown(broker),
            lambda: c.network.cut(end, far, both=both),
            lambda: c.network.heal_all(),
            lambda: c.network.drop_next(end, far, lost),
            lambda: c.network.drop_next(far, end, lost),
            lambda: c.reassign({("t0", 0): wanted}),
            lambda: c.reassign({("t0", 0): None}),
            lambda: c.write_znode(paths.REASSIGN_PARTITIONS, BY_ZNODE.format(*pair)),
            lambda: c.write_znode(paths.REASSIGN_PARTITIONS, "no JSON"),
            lambda: c.elect(draw.choice(["preferred", "unclean"])),
            lambda: c.create_topic("late", partitions=2, replication_factor=2),
            lambda: c.delete_topic("t1"),
            lambda: c.add_partitions("t2", draw.randint(2, 9)),
            lambda: c.delete_znode(paths.CONTROLLER),
            lambda: c.produce("t0", 0, 5),
        ]
    )


@pytest.mark.parametrize("seed", range(16))
def test_safety_under_faults_and_liveness_after_them(seed: int) -> None:
    draw = random.Random(seed)
    with make(draw, seed) as c:
        monitor = Monitor(c.history, c.invariants, seed=seed)
        for _ in range(draw.randint(5, 40)):
            try:
                fault(c, draw)()
            except SimzkError:
                continue  # such as a broker to kill that is dead
            c.run_for(draw.choice([0.01, 0.1, 1, 5, 10]))
            c.check()
        assert not monitor.violations, monitor.violations[0]
        heal(c)
        assert c.run_until_quiet(400), c.history.to_text()
        c.check()
        assert not monitor.violations, monitor.violations[0]
        assert_whole(c)


@pytest.mark.parametrize("seed", range(100, 108))
def test_safety_and_liveness_where_disks_fail_too(seed: int) -> None:
    draw = random.Random(seed)
    with make(draw, seed, log_dirs=2) as c:
        monitor = Monitor(c.history, c.invariants, seed=seed)
        for _ in range(draw.randint(5, 30)):
            try:
                if draw.random() < 0.2:
                    c.fail_log_dir(draw.choice(BROKERS), draw.choice([0, 1]))
                else:
                    fault(c, draw)()
            except SimzkError:
                continue
            c.run_for(draw.choice([0.01, 0.1, 1, 5]))
            c.check()
        assert not monitor.violations, monitor.violations[0]
        heal(c)
        for broker in c.brokers.values():
            if broker.log_dirs.failed and broker.alive:
                c.shutdown(broker.id)
                assert c.run_until_quiet(400), c.history.to_text()
                c.restart(broker.id)
        assert c.run_until_quiet(400), c.history.to_text()
        assert not monitor.violations, monitor.violations[0]
        assert_whole(c)


def heal(c: KafkaCluster) -> None:
    """End every fault, and start what is not running."""
    c.network.heal_all()
    for broker in c.brokers.values():
        if broker.paused:
            c.resume(broker.id)
    c.run_for(60)  # whoever is shutting down does so
    for broker in c.brokers.values():
        if not broker.alive:
            c.restart(broker.id)


def assert_whole(c: KafkaCluster) -> None:
    """Every partition has a leader and all its replicas in sync; nothing is under way any more."""
    for path, _ in c.server.tree.walk(paths.TOPICS):
        partition = paths.state_partition(path)
        if partition is not None:
            state = c.state(*partition)
            assignment = c.assignment(partition.topic)[partition.partition]
            assert sorted(state.isr) == sorted(assignment.replicas), path
            assert state.leader in state.isr, path
            assert not assignment.being_reassigned, path
    node = c.server.tree.get(paths.DELETE_TOPICS)
    assert node is not None
    assert node.child_names() == []
