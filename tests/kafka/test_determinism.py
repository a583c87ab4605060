"""The same seed gives the same history, byte for byte, in any process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.kafka.clusters import cluster, quiet

SCRIPT = """
import json
from simzk import KafkaCluster

c = KafkaCluster(brokers=5, racks=3, seed=11, config={"zookeeper.session.timeout.ms": 6000})
for number in range(4):
    c.create_topic(f"topic-{number}", partitions=5, replication_factor=3)
c.run_until_quiet()
c.kill(2)
c.pause(3, 9)
c.run_for(12)
c.restart(2)
c.reassign({("topic-1", 0): [5, 4], ("topic-2", 3): [1]})
c.expire(1)
c.run_until_quiet()
c.delete_topic("topic-3")
c.shutdown(c.controller)
c.run_until_quiet()
tree = [(path, str(node.data), tuple(node.stat())) for path, node in c.server.tree.walk()]
print(json.dumps([c.history.to_json(), tree]))
"""


def _run(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_history_does_not_depend_on_the_process() -> None:
    first, second = _run("1"), _run("2")
    assert len(json.loads(first)[0]) > 100
    assert first == second


def test_another_seed_gives_another_history() -> None:
    histories = []
    for seed in (1, 2):
        with cluster(3, seed=seed) as c:
            c.create_topic("t", partitions=3, replication_factor=2)
            quiet(c)
            histories.append(c.history.to_json())
    assert histories[0] != histories[1]
