"""Small clusters for tests, and what is asked of them again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.simulation import Monitor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOR_EVER = {"log.retention.ms": -1}
"""Records are kept for ever; those of tests have times of long ago, as those of recordings have."""
QUICK = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False}


def cluster(
    brokers: int | Sequence[int] = 4,
    *,
    controller: int | None = None,
    config: Mapping[str, str | int | bool] | None = None,
    seed: int = 0,
    racks: int | None = None,
) -> KafkaCluster:
    """A booted cluster; with `controller` that broker rules."""
    c = KafkaCluster(
        brokers=brokers, seed=seed, racks=racks, config=QUICK | dict(config or {}), boot=controller is None
    )
    if controller is not None:
        c.restart(controller)
        quiet(c)
        for broker in c.brokers:
            if broker != controller:
                c.restart(broker)
        quiet(c)
        assert c.controller == controller
    return c


def topic(c: KafkaCluster, name: str, assignment: Mapping[int, Sequence[int]], **config: str) -> None:
    """Make a topic and wait for it."""
    values = {key.replace("_", "."): value for key, value in config.items()}
    answer = c.create_topic(name, assignment=assignment, config=values)
    quiet(c)
    assert answer.result().error == ErrorCode.NONE, answer.result()


def quiet(c: KafkaCluster, limit_seconds: float = 120) -> None:
    assert c.run_until_quiet(limit_seconds), c.history.to_text()


def watch(c: KafkaCluster) -> Monitor:
    """Check the invariants from now on."""
    return Monitor(c.history, c.invariants, seed=c.seed)


def state_fields(c: KafkaCluster, name: str, partition: int = 0) -> tuple[int, tuple[int, ...], int, int]:
    """Return leader, ISR, leader epoch and version of a partition in ZooKeeper."""
    state = c.state(name, partition)
    return state.leader, state.isr, state.leader_epoch, state.version


def happened(c: KafkaCluster, what: str) -> list[str]:
    """Return the subjects, or else the authors, of all events of a kind in order."""
    return [event.subject or event.who for event in c.history if event.what == what]
