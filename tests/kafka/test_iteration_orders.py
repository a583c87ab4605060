"""Orders in which recorded controllers wrote partition states, and those in which simulated ones do.

Each story was recorded on real brokers: `grown` creates topics of up to 40 partitions, adds partitions, writes topic
znodes by hand, and kills and restarts both brokers; in `few` a broker that dies has at most four replicas. `writes` are
the creations of states and the changes of leader epochs in each step: what the controller decides.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.zookeeper_mode.replay.transactions import TransactionLog

pytestmark = pytest.mark.slow

RECORDED: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(
    (Path(__file__).parent / "data" / "iteration_orders.json").read_text()
)
RACKS = {11: "ra", 12: "ra", 21: "rb", 22: "rb"}
CONFIG = {"auto.leader.rebalance.enable": "false"}
STATE = re.compile(r'(?:create|setData) /brokers/topics/([a-z]+)/partitions/(\d+)/state .*?"leader_epoch":(\d+)')
STEP_S = 12


def act(c: KafkaCluster, what: str, *arguments: Any) -> None:
    match what, arguments:
        case "start", [broker]:
            c.restart(broker)
        case "kill", [broker]:
            c.kill(broker)
        case "create_topic", [name, lists]:
            c.create_topic(name, assignment=dict(enumerate(lists)), via="zookeeper")
        case "add_partitions", [name, lists]:
            old = len(c.assignment(name))
            c.add_partitions(name, len(lists), assignment=dict(list(enumerate(lists))[old:]))
        case "write", [path, text]:
            c.write_znode(path, text)


@pytest.mark.parametrize(("story", "release"), [(story, release) for story, of in RECORDED.items() for release in of])
def test_a_controller_writes_states_in_the_recorded_order(story: str, release: str) -> None:
    steps = RECORDED[story][release]
    brokers = sorted({arguments[0] for step in steps for what, *arguments in step["acts"] if what == "start"})
    racks = {broker: RACKS[broker] for broker in brokers}
    epochs: dict[tuple[str, str], str] = {}
    with KafkaCluster(release, brokers, racks, config=CONFIG, boot=False, max_session_timeout_ms=60_000) as c:
        log = TransactionLog(c)
        for step in steps:
            c.prefer_controller(step["controller"])
            for what, *arguments in step["acts"]:
                act(c, what, *arguments)
            c.run_for(STEP_S)
            written = []
            for topic, partition, epoch in STATE.findall("\n".join(reported.text for reported in log.take())):
                if epochs.get((topic, partition)) != epoch:  # else the leader changed the ISR
                    written.append(f"{topic}-{partition}")
                epochs[topic, partition] = epoch
            assert written == step["writes"], step["step"]
