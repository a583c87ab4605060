"""The recorded stories of real clusters, one of each release, as calls on a simulated one.

What was chance in the real run is an input, read from the recording: which broker won an election or took a request,
where a topic without a given assignment was placed, ids. Everything else is computed.
"""

from __future__ import annotations

import contextlib
import json
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.observation import recording
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay import console_consumer, inputs
from simzk.kafka.zookeeper_mode.replay import transactions as recorded_transactions
from simzk.kafka.zookeeper_mode.schemas import config, scram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from simzk.kafka.observation.recording import RecordedZnode, Recording
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction
    from simzk.zookeeper.transactions import Transaction

    Act = Callable[[KafkaCluster], object]
    Step = tuple[str, Act]

LAYOUTS = Path(__file__).resolve().parents[2] / "scenarios" / "layouts"
RELEASES = (
    *(
        "3.9.1",
        "3.4.1",
        "3.0.2",
        "2.8.2",
        "2.7.2",
        "2.6.3",
        "2.4.1",
        "2.3.1",
        "2.2.2",
        "1.1.1",
        "1.0.2",
        "0.11.0.3",
        "0.10.2.2",
        "0.10.0.1",
        "0.9.0.1",
        "0.8.2.2",
        "0.8.1.1",
        "0.8.0",
    ),
)
CONFIG = {
    "zookeeper.session.timeout.ms": 6000,
    "auto.leader.rebalance.enable": False,
    "delete.topic.enable": True,
    "controlled.shutdown.enable": True,
}
TICK_TIME_MS = 500
MAX_SESSION_TIMEOUT_MS = 60_000
BOOT_MS = 500
KILLED_BEFORE_S = 4.5
"""How long before the end of its session a broker was killed."""
FIRST_AFTER_MS = 200
"""How long after the beginning of a step its first transaction came, at least."""
RACKS = {1: "rack1", 2: "rack2", 3: "rack3"}
QUOTA = {"producer_byte_rate": "1024", "consumer_byte_rate": "2048"}
OFFSETS_CONFIG = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": "104857600"}
CONFIGURED: dict[str, tuple[str, Mapping[str, str | None]]] = {
    "c1": ("topics/t1", {"retention.ms": "3600000"}),
    "c2": ("clients/c%201", QUOTA),
    "c3": ("users/u%401", QUOTA),
    "c4": ("users/u%401/clients/c%201", QUOTA),
    "c6": ("brokers/1", {"leader.replication.throttled.rate": "100000000"}),
    "c7": ("brokers/<default>", {"log.cleaner.threads": "2"}),
    "c9": ("ips/127.0.0.9", {"connection_creation_rate": "100"}),
    "ca": ("topics/t1", {"retention.ms": None}),
}


class Story:
    """The story of one release.

    Args:
        release: such as `2.8.2`.
        folder: where its recording is; among the layouts where not given.
        options: of the cluster.
    """

    def __init__(self, release: str, folder: Path | None = None, options: Mapping[str, Any] | None = None) -> None:
        self.release = release
        self._folder = folder or LAYOUTS / f"kafka-{release}"
        self._options = options or {}

    @cached_property
    def recorded(self) -> Recording:
        """The trees."""
        return recording.load(self._folder / "dumps.json")

    @cached_property
    def transactions(self) -> dict[str, list[RecordedTransaction]]:
        """The transactions of each step."""
        return recorded_transactions.by_step(recorded_transactions.load(self._folder / "txns.json"))

    @cached_property
    def steps(self) -> list[Step]:
        """The steps in order, from the first boot on."""
        names = [name for name in self.recorded.steps if not name.startswith("a0")]
        return [(name, self._act(name)) for name in names]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the steps in order."""
        return tuple(name for name, _ in self.steps)

    def play(self, c: KafkaCluster, step: str) -> None:
        """Do a step at the pace of the recorded story."""
        play(c, dict(self.steps)[step], self.paces_s[step])

    @cached_property
    def base_port(self) -> int:
        """Broker N listened on this port plus N."""
        port = _json(self.recorded.tree("a1-boot-broker1")["/brokers/ids/1"])["port"]
        assert isinstance(port, int)
        return port - 1

    def empty_cluster(self, seed: int = 0) -> KafkaCluster:
        """Three brokers that are not started yet, at an empty ZooKeeper."""
        last = self.recorded.tree(self.recorded.steps[-1])
        c = KafkaCluster(
            self.release,
            racks=RACKS,
            seed=seed,
            config=CONFIG,
            tick_time_ms=TICK_TIME_MS,
            max_session_timeout_ms=MAX_SESSION_TIMEOUT_MS,
            base_port=self.base_port,
            cluster_id=str(_json(last["/cluster/id"])["id"]) if "/cluster/id" in last else None,
            boot=False,
            **self._options,
        )
        if (
            kafka_version(self.release).controller.topic_deletion == "by znode"
        ):  # by whoever recorded the story, in a session open from the start
            c.delete_znode("/nothing")
            c.run_for(1)
        return c

    def cluster_from(self, tree: Mapping[str, RecordedZnode], seed: int = 0) -> KafkaCluster:
        """A cluster that goes on from a recorded tree."""
        return KafkaCluster.from_tree(
            tree,
            version=self.release,
            seed=seed,
            config=CONFIG,
            tick_time_ms=TICK_TIME_MS,
            base_port=self.base_port,
            racks=RACKS,
        )

    def _act(self, step: str) -> Act:
        code, _, what = step.partition("-")
        if code in CONFIGURED or code in ("c5", "c8"):
            return self._configure(step)
        if found := re.search(r"broker(\d)$", what):
            return self._broker(step, what, int(found[1]))
        match code:
            case "b1":
                return self._topic(step, "t1")
            case "b2":
                given = (
                    {"max.message.bytes": "65536"}
                    if "topics" in kafka_version(self.release).configs.entity_types
                    else None
                )
                return self._topic(step, "t2", given)
            case "b3":
                return self._topic(step, "t3", via="zookeeper")
            case "f":
                return lambda c: c.elect()
            case "f2":
                return lambda c: c.elect(via="zookeeper")
            case "g":
                return lambda c: c.reassign({("t1", 0): [2, 3]})
            case "g2":
                return lambda c: c.reassign({("t1", 1): [1, 2]}, via=c.controller)
            case "h":
                added = {number: ids for number, ids in self._assignment(step, "t2").items() if number > 3}
                return lambda c: c.add_partitions("t2", 6, assignment=added)
            case "h1":
                return self._produce(step)
            case "h2" if not self._makes_offsets_topic(step):  # the old consumer
                return lambda c: console_consumer.read(c, "t1", self.transactions[step])
            case "h2":
                return self._topic(step, "__consumer_offsets", self._offsets_config(step), via=self._writer(step))
            case "k":
                return lambda c: c.delete_topic("t2")
            case "l1":
                return lambda c: c.add_acls("topic", "t1", [AclEntry("User:alice", "Read")])
            case "l2":
                denied = AclEntry("User:bob", "Write", "Deny", "127.0.0.9")
                return lambda c: c.add_acls("topic", "t1", [denied])
            case "l3":
                return lambda c: c.add_acls("topic", "pre", [AclEntry("User:alice", "All")], prefixed=True)
            case "l4" if step not in self.transactions:  # the tool asked whether it should, and nobody answered
                return lambda c: None
            case "l4":
                return lambda c: c.remove_acls("topic", "t1")
        raise AssertionError(f"nobody plays {step}")

    def _assignment(self, step: str, name: str) -> dict[int, list[int]]:
        partitions = _json(self.recorded.tree(step)[f"/brokers/topics/{name}"])["partitions"]
        assert isinstance(partitions, dict)
        return {int(number): ids for number, ids in partitions.items()}

    def _topic(
        self, step: str, name: str, config: Mapping[str, str] | None = None, via: int | str | None = None
    ) -> Act:
        assignment = self._assignment(step, name)
        topic_id = _json(self.recorded.tree(step)[f"/brokers/topics/{name}"]).get("topic_id")

        def create(c: KafkaCluster) -> object:
            if topic_id is not None:  # a topic that a tool creates in ZooKeeper gets it from the controller
                c.set_topic_id(name, str(topic_id))
            return c.create_topic(name, assignment=assignment, config=config, via=via)

        return create

    def _makes_offsets_topic(self, step: str) -> bool:
        return "/brokers/topics/__consumer_offsets" in self.recorded.tree(step)

    def _offsets_config(self, step: str) -> dict[str, str]:
        """The configuration of the offsets' topic, where only how it compresses differs: a setting of the brokers."""
        values = _json(self.recorded.tree(step)["/config/topics/__consumer_offsets"])["config"]
        assert isinstance(values, dict)
        return OFFSETS_CONFIG | {"compression.type": values["compression.type"]}

    def _configure(self, step: str) -> Act:
        code = step.partition("-")[0]
        via = self._writer(step)
        if code in CONFIGURED:
            entity, changes = CONFIGURED[code]
            for taken in ("c1", "c 1"):  # the client id that was taken there, or how it stands in the path
                if f"/config/clients/{taken}" in self.recorded.tree(step):
                    entity = entity.replace("c%201", taken)
        elif code == "c8":
            (value,) = config.decode("", (self.recorded.tree(step)["/config/users/alice"].data or "").encode()).values()
            salt = scram.decode("/config/users/alice", "SCRAM-SHA-256", value).salt
            return lambda c: c.add_user("alice", "secret", salt=salt, via=via)
        else:  # what the client made of a number (50 or 50.0)
            entity = "users/<default>"
            values = _json(self.recorded.tree(step)[f"/config/{entity}"])["config"]
            assert isinstance(values, dict)
            changes = values
        return lambda c: c.alter_config(entity, changes, via=via)

    def _writer(self, step: str) -> int | None:
        """The broker that wrote first in a step: the one that was asked."""
        writers = [who for entry in self.transactions[step] if (who := entry.who).startswith("b")]
        return int(writers[0][1]) if writers else None

    def _broker(self, step: str, what: str, broker: int) -> Act:
        def next_controller() -> int:
            after = _json(self.recorded.tree(step)["/controller"])["brokerid"]
            assert isinstance(after, int)
            return after

        def kill(c: KafkaCluster) -> None:
            c.prefer_controller(next_controller())
            c.kill(broker)

        def shutdown(c: KafkaCluster) -> None:
            c.prefer_controller(next_controller())
            if late := inputs.late_joins(self.transactions[step], broker):
                inputs.LateFetch(c, late, broker)
            c.shutdown(broker)

        if what.startswith(("boot", "restart")):
            return lambda c: c.restart(broker)
        return kill if what.startswith("kill9") else shutdown

    def lasts_s(self, step: str) -> float | None:
        """Return the seconds of a step that ends before its cluster is quiet, with a stopped broker in an ISR.

        The leaders announce that, and take the broker out again, half a minute later at most; the recorded story went
        on before.
        """
        if "sigterm" not in step or not inputs.late_joins(self.transactions[step], int(step[-1])):
            return None
        names = list(self.transactions)
        first, last = (self.transactions[step][index].t for index in (0, -1))
        if step != names[-1]:
            last = self.transactions[names[names.index(step) + 1]][0].t - BOOT_MS
        return float(last - first) / 1000

    @cached_property
    def paces_s(self) -> dict[str, float | None]:
        """Return the seconds of each step at the pace of the recorded story, None for steps that end when quiet.

        The pace matters where a leader has something to announce while its follower is away: together with what comes
        next, or alone, is decided by the clock.
        """
        names = [name for name, _ in self.steps]
        if all(self.lasts_s(name) is None for name in names):
            return dict.fromkeys(names)
        begins = [self._begins_s(name) for name in names]
        starts = [min(found for found in begins[index:] if found is not None) for index in range(len(names))]
        ends = [*starts[1:], self.transactions[names[-1]][-1].t / 1000 + 1]
        return {name: end - begin for name, begin, end in zip(names, starts, ends, strict=True)}

    def _begins_s(self, step: str) -> float | None:
        """When a step began by the recording's clock, as far as its transactions show it."""
        entries = self.transactions.get(step, [])
        if not entries:
            return None
        first_ms = float(entries[0].t) - FIRST_AFTER_MS
        if "boot" in step or "restart" in step:
            first_ms = min(first_ms, *(e.t - BOOT_MS for e in entries if e.op == "createSession"))
        return first_ms / 1000 - (KILLED_BEFORE_S if "kill9" in step else 0)

    def _produce(self, step: str) -> Act:
        """The first idempotent producer makes its broker take a block of ids, from 3.0 on by the controller.

        Which partition takes the records is chance; only the offsets that the old consumer keeps show it.
        """
        partition = self._partition_read()
        if partition is not None:
            return lambda c: c.produce("t1", partition, 3)
        if not kafka_version(self.release).controller.allocates_producer_ids:
            return lambda c: c.produce("t1", 0, 3)
        writes = [entry for entry in self.transactions[step] if entry.path == paths.PRODUCER_IDS]
        brokers = [json.loads(str(entry.data))["broker"] for entry in writes]

        def allocate(c: KafkaCluster) -> None:
            for broker in brokers:
                c.allocate_producer_ids(broker)
                c.run_for(0.1)

        return allocate

    def _partition_read(self) -> int | None:
        return next(iter(console_consumer.offsets_read(self.recorded.tree(self.recorded.steps[-1]), "t1")), None)


def _json(znode: RecordedZnode) -> dict[str, object]:
    fields = json.loads(znode.data or "")
    assert isinstance(fields, dict)
    return fields


@contextlib.contextmanager
def in_sync_in_order(
    c: KafkaCluster, entries: list[RecordedTransaction], before: Mapping[str, RecordedZnode]
) -> Iterator[None]:
    """Let followers join ISRs in the recorded order in a `with` block."""
    joins = inputs.JoinOrder(entries, before)
    c.timing.may_join_isr = joins.allows

    def note(transaction: Transaction) -> None:
        joins.note(transaction)

    c.server.on_transaction.append(note)
    yield
    c.timing.may_join_isr = None
    c.server.on_transaction.remove(note)


def play(c: KafkaCluster, act: Act, lasts_s: float | None = None) -> None:
    """Do a step and let it come to rest, or go on for so long."""
    act(c)
    if lasts_s is not None:
        c.run_for(lasts_s)
        return
    assert c.run_until_quiet(60), c.history.to_text()
