"""Deletions of topics that are being reassigned (docs/reference/kafka.md §2.10)."""

from __future__ import annotations

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import QUICK, quiet, topic

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("line", ["0.8.2", "0.10.2", "1.1", "2.4", "3.9"])
def test_a_reassignment_in_progress_does_not_halt_the_deletion(line: str) -> None:
    """Recorded in 0.10.2.2, 1.1.1 and 3.9.1 with a paused target: the topic is gone once that broker has answered."""
    settings = QUICK | {"zookeeper.session.timeout.ms": 40_000, "delete.topic.enable": True}
    with KafkaCluster(line, 3, config=settings, boot=False) as c:
        for broker in (1, 2, 3):
            c.restart(broker)
            quiet(c)
        topic(c, "r", {0: [1, 2]})
        c.pause(3)
        request = '{"version":1,"partitions":[{"topic":"r","partition":0,"replicas":[1,3]}]}'
        c.write_znode(paths.REASSIGN_PARTITIONS, request)
        c.run_for(2)
        c.write_znode(paths.delete_topic("r"), "")
        c.run_for(4)
        assert c.state("r", 0).leader == -1
        c.resume(3)
        quiet(c)
        assert c.server.tree.get(paths.topic("r")) is None
        assert c.server.tree.get(paths.delete_topic("r")) is None
        assert c.server.tree.get(paths.REASSIGN_PARTITIONS) is not None
        c.check()
