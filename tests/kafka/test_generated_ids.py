"""Broker ids generated in ZooKeeper (`broker.id=-1`; KafkaZkClient.generateBrokerSequenceId)."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from tests.kafka.clusters import QUICK, quiet


@pytest.mark.parametrize("version", ["3.9", "1.0", "0.9"])
def test_ids_are_counted_in_the_znodes_version_above_those_that_are_reserved(version: str) -> None:
    with KafkaCluster(version, brokers=3, config=QUICK, generated_ids=True) as c:
        assert c.live_brokers == [1001, 1002, 1003]
        node = c.tree.get("/brokers/seqid")
        assert node is not None
        assert (node.version, node.data) == (3, b"")
        c.kill(1002)
        quiet(c)
        c.restart(1002)  # it keeps what it was given
        quiet(c)
        assert c.live_brokers == [1001, 1002, 1003]
        assert node.version == 3


def test_reserved_ids_are_configured() -> None:
    config = QUICK | {"reserved.broker.max.id": 10}
    with KafkaCluster(brokers=2, config=config, generated_ids=True) as c:
        assert c.live_brokers == [11, 12]


def test_a_count_that_somebody_else_raised_stops_the_broker() -> None:
    with KafkaCluster(brokers=2, config=QUICK, generated_ids=True, boot=False) as c:
        c.restart(1001)
        quiet(c)
        c.write_znode("/brokers/seqid", "")
        c.run_for(1)
        c.restart(1002)
        c.run_for(5)
        assert c.live_brokers == [1001]
        reported = [event for event in c.history if event.what == "cannot start"]
        assert "generated the id 1003; expected 1002, the next one" in reported[0].after


def test_ids_are_not_both_given_and_generated() -> None:
    with pytest.raises(ConfigError, match="the brokers have ids"):
        KafkaCluster(brokers=[1, 2], generated_ids=True, boot=False)
    with pytest.raises(ConfigError, match=r"Kafka 0\.8\.2 cannot generate broker ids"):
        KafkaCluster("0.8.2", brokers=2, generated_ids=True, boot=False)
