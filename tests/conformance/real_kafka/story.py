"""The recorded story as commands to real brokers and Kafka's own tools, by the names of the recorded steps.

What was chance in the recorded run is an input: which broker won an election (the others get no answer
until it has won), and where topics were placed.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.real_kafka.cluster import BROKERS, RealCluster, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.observation.recording import RecordedZnode

    Tree = dict[str, RecordedZnode]
    Action = Callable[["Story", str], None]

_RATES = "consumer_byte_rate=2048,producer_byte_rate=1024"
_MESSAGES = "a\nb\nc\n"


class Story:
    """One release's story on one cluster; `play` does a step of the recording.

    Args:
        cluster: no broker of it runs yet.
        trees: the recorded tree after each step, by the step's name.
    """

    def __init__(self, cluster: RealCluster, trees: dict[str, Tree]) -> None:
        self.cluster = cluster
        self.trees = trees
        self.number = cluster.release.number
        self._by_zookeeper: tuple[object, ...] = ("--zookeeper", cluster.hosts)
        self._by_broker: tuple[object, ...] = ("--bootstrap-server", cluster.bootstrap)

    def play(self, step: str) -> None:
        """Do what the step's name says: `d-kill9-controller-broker1`."""
        ACTIONS[step.partition("-")[0]](self, step)

    # Brokers

    def start(self, step: str) -> None:
        self.cluster.start(_broker(step))

    def kill(self, step: str) -> None:
        """Its session runs out by itself."""
        self.cluster.end(_broker(step), signal.SIGKILL)

    def kill_controller(self, step: str) -> None:
        broker = _broker(step)

        def end(session: int) -> None:
            self.cluster.end(broker, signal.SIGKILL)
            self.cluster.fault("expire", session=session)

        self._succeed(step, end)

    def shut_down_controller(self, step: str) -> None:
        # It may go on for half a minute after it has given up its place (0.8): so long the others are not kept.
        self._succeed(step, lambda _: self.cluster.signal(_broker(step), signal.SIGTERM))
        self.cluster.wait_for_end(_broker(step))

    def shut_down(self, step: str) -> None:
        self.cluster.end(_broker(step), signal.SIGTERM)

    def _succeed(self, step: str, end: Callable[[int], object]) -> None:
        """End the controller so that it is succeeded by whom the recording names."""
        ended = _broker(step)
        successor = json.loads(self.trees[step]["/controller"].data or "")["brokerid"]
        session = self.cluster.session(ended)
        assert session is not None
        losers = [broker for broker in BROKERS if broker not in (ended, successor)]
        with self.cluster.kept_from("/controller", losers):
            end(session)
            until(
                lambda: self.cluster.controller() == successor,
                lambda: f"broker {successor} did not become the controller: {self.cluster.said(successor)}",
            )

    # Topics

    def create_t1(self, step: str) -> None:
        self._create("t1", "1:2:3,2:3:1,3:1:2")

    def create_t2(self, step: str) -> None:
        self._create("t2", self._placement(step, "t2"), "max.message.bytes=65536")

    def _create(self, topic: str, placed: str, config: str = "") -> None:
        if self.number < (0, 8, 1):
            arguments = (*self._by_zookeeper, "--topic", topic, "--replica-assignment-list", placed)
            self.cluster.tool("kafka.admin.CreateTopicCommand", arguments=arguments)
            return
        settings = ("--config", config) if config else ()
        self._topics("--create", "--topic", topic, "--replica-assignment", placed, *settings)

    def create_t3(self, step: str) -> None:
        arguments = ("--create", "--topic", "t3", "--replica-assignment", self._placement(step, "t3"))
        self._topics(*arguments, by=self._by_zookeeper)

    def grow_t2(self, step: str) -> None:
        # New partitions are placed after the first, without chance (§3).
        if self.number < (0, 8, 1):
            arguments = (*self._by_zookeeper, "--topic", "t2", "--partition", 2)
            self.cluster.tool("kafka.admin.AddPartitionsCommand", arguments=arguments)
        else:
            self._topics("--alter", "--topic", "t2", "--partitions", 6)

    def delete_t2(self, step: str) -> None:
        if self.number < (0, 8, 1):
            self.cluster.tool("kafka.admin.DeleteTopicCommand", arguments=(*self._by_zookeeper, "--topic", "t2"))
        elif self.number < (0, 8, 2):
            # Its controller deletes topics; its tool does not ask it to.
            self.cluster.client.create("/admin/delete_topics/t2", b"", makepath=True)
        else:
            self._topics("--delete", "--topic", "t2")

    def _placement(self, step: str, topic: str) -> str:
        partitions = json.loads(self.trees[step][f"/brokers/topics/{topic}"].data or "")["partitions"]
        return ",".join(":".join(map(str, partitions[key])) for key in sorted(partitions, key=int))

    def _topics(self, *arguments: object, by: tuple[object, ...] | None = None) -> None:
        asked = by or (self._by_broker if self.number >= (2, 2) else self._by_zookeeper)
        classes = ("kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand")
        self.cluster.tool(*classes, arguments=(*asked, *arguments))

    # Configurations

    def configure(self, step: str) -> None:
        entity, change, since = CONFIGURATIONS[step.partition("-")[0]]
        if self.number < (0, 9):
            self._topics("--alter", "--topic", "t1", "--config", "retention.ms=3600000")
        else:
            asked = self._by_broker if self.number >= since else self._by_zookeeper
            if (0, 10, 1) <= self.number < (0, 11):
                # Its tool refuses a blank and a share of requests, and still exits with 0: recorded were other words.
                entity = tuple(word.replace(" ", "") for word in entity)
                change = tuple(word.replace("request_percentage=50", "producer_byte_rate=5") for word in change)
            self.cluster.tool("kafka.admin.ConfigCommand", arguments=(*asked, "--alter", *entity, *change))

    # Partitions

    def elect(self, step: str) -> None:
        if self.number < (2, 4):
            self.elect_by_zookeeper(step)
        else:
            classes = ("kafka.admin.LeaderElectionCommand", "org.apache.kafka.tools.LeaderElectionCommand")
            what = ("--election-type", "preferred", "--all-topic-partitions")
            self.cluster.tool(*classes, arguments=(*self._by_broker, *what))

    def elect_by_zookeeper(self, step: str) -> None:
        self.cluster.tool("kafka.admin.PreferredReplicaLeaderElectionCommand", arguments=self._by_zookeeper)

    def reassign(self, step: str) -> None:
        file = self.cluster.folder / "reassign.json"
        partition = {"topic": "t1", "partition": 0, "replicas": [2, 3]}
        file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        asked = self._by_broker if self.number >= (2, 6) else self._by_zookeeper
        name = "ReassignPartitionsCommand"
        classes = (f"kafka.admin.{name}", f"org.apache.kafka.tools.reassign.{name}")
        option = "--reassignment-json-file" if self.number >= (0, 8, 1) else "--manual-assignment-json-file"
        self.cluster.tool(*classes, arguments=(*asked, option, file, "--execute"))

    def reassign_by_api(self, step: str) -> None:
        self.cluster.source(Path(__file__).with_name("Reassign.java"), self.cluster.bootstrap, "t1", 1, "1,2")

    # Messages

    def produce(self, step: str) -> None:
        arguments: tuple[object, ...] = ("--broker-list", self.cluster.bootstrap, "--topic", "t1")
        if self.number >= (2, 5):
            arguments = (*self._by_broker, "--topic", "t1")
        if self.number >= (0, 11):
            arguments += ("--producer-property", "enable.idempotence=true", "--request-required-acks", "all")
        elif self.number >= (0, 9):
            arguments += ("--request-required-acks", "-1")  # by default it waits for none, and may lose some
        classes = ("kafka.tools.ConsoleProducer", "kafka.producer.ConsoleProducer")
        self.cluster.tool(*classes, arguments=arguments, given=_MESSAGES)

    def consume(self, step: str) -> None:
        properties = self.cluster.folder / "consumer.properties"
        properties.write_text("group.id=g1\n")
        arguments: tuple[object, ...] = (*self._by_broker, "--timeout-ms", 30000)
        configured: tuple[object, ...] = ("--consumer.config", properties)
        if self.number < (0, 8, 2):
            arguments = self._by_zookeeper
            configured = ("--group", "g1", "--autocommit.interval.ms", 500, "--consumer-timeout-ms", 30000)
        elif self.number < (0, 9):
            properties.write_text("group.id=g1\nauto.commit.interval.ms=500\nconsumer.timeout.ms=30000\n")
            arguments = self._by_zookeeper
        else:
            self._create_offsets(step)
            if self.number < (0, 11):
                arguments += ("--new-consumer",)
        logged, given = self._logged(), _MESSAGES.split()
        assert logged == given or (self.number < (0, 11) and set(logged) == set(given)), logged
        what = ("--topic", "t1", "--from-beginning", *configured, "--max-messages", len(logged))
        consumers = ("kafka.tools.", "org.apache.kafka.tools.consumer.", "kafka.consumer.")
        said = self.cluster.tool(*(f"{package}ConsoleConsumer" for package in consumers), arguments=(*arguments, *what))
        assert sorted(line for line in said.splitlines() if len(line) == 1) == logged, said

    def _logged(self) -> list[str]:
        """Return the messages in the logs of `t1`, sorted, as Kafka's own tool reads them from the files.

        A producer that is not idempotent (up to 0.10.2) appends a message again when it does not get the response to
        the first time, so that the log may have more than what was given.
        """
        found: list[str] = []
        for partition in self.cluster.client.get_children("/brokers/topics/t1/partitions"):
            state, _ = self.cluster.client.get(f"/brokers/topics/t1/partitions/{partition}/state")
            (file,) = (self.cluster.folder / f"log-{json.loads(state)['leader']}" / f"t1-{partition}").glob("*.log")
            what = ("--deep-iteration", "--print-data-log", "--files", file)
            said = self.cluster.tool("kafka.tools.DumpLogSegments", arguments=what)
            found += re.findall(r"payload: (\w)\s*$", said, re.MULTILINE)
        return sorted(found)

    def _create_offsets(self, step: str) -> None:
        """Create the offsets topic as a broker does for a group's first consumer, with the recorded placement."""
        config = json.loads(self.trees[step]["/config/topics/__consumer_offsets"].data or "")["config"]
        settings = [word for key, value in config.items() for word in ("--config", f"{key}={value}")]
        placed = self._placement(step, "__consumer_offsets")
        self._topics("--create", "--topic", "__consumer_offsets", "--replica-assignment", placed, *settings)

    # Who may do what

    def permit(self, step: str) -> None:
        connection = f"zookeeper.connect={self.cluster.hosts}"
        authorizer = ("--authorizer", "kafka.security.authorizer.AclAuthorizer") if self.number >= (2, 4) else ()
        rule = PERMISSIONS[step.partition("-")[0]]
        if "--force" in rule and self.number < (0, 10, 1):
            return  # the recorded tool did not know that option, and did nothing
        arguments = (*authorizer, "--authorizer-properties", connection, *rule)
        self.cluster.tool("kafka.admin.AclCommand", arguments=arguments)


def _broker(step: str) -> int:
    return int(step[-1])


_TOPIC = ("--entity-type", "topics", "--entity-name", "t1")
_CLIENT = ("--entity-type", "clients", "--entity-name", "c 1")
_USER = ("--entity-type", "users", "--entity-name", "u@1")
_BROKER = ("--entity-type", "brokers")
_ADDRESS = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
_SCRAM = "SCRAM-SHA-256=[iterations=4096,password=secret]"
# Entity, change, and since when the tool asks a broker for it.
CONFIGURATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]] = {
    "c1": (_TOPIC, ("--add-config", "retention.ms=3600000"), (2, 6)),
    "c2": (_CLIENT, ("--add-config", _RATES), (2, 6)),
    "c3": (_USER, ("--add-config", _RATES), (2, 6)),
    "c4": ((*_USER, *_CLIENT), ("--add-config", _RATES), (2, 6)),
    "c5": (("--entity-type", "users", "--entity-default"), ("--add-config", "request_percentage=50"), (2, 6)),
    "c6": (
        (*_BROKER, "--entity-name", "1"),
        ("--add-config", "leader.replication.throttled.rate=100000000"),
        (1, 1),
    ),
    "c7": ((*_BROKER, "--entity-default"), ("--add-config", "log.cleaner.threads=2"), (1, 1)),
    "c8": (("--entity-type", "users", "--entity-name", "alice"), ("--add-config", _SCRAM), (2, 7)),
    "c9": (_ADDRESS, ("--add-config", "connection_creation_rate=100"), (2, 8)),
    "ca": (_TOPIC, ("--delete-config", "retention.ms"), (2, 6)),
}
PERMISSIONS: dict[str, tuple[str, ...]] = {
    "l1": ("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "t1"),
    "l2": (
        "--add",
        "--deny-principal",
        "User:bob",
        "--deny-host",
        "127.0.0.9",
        "--operation",
        "Write",
        "--topic",
        "t1",
    ),
    "l3": (
        *("--add", "--allow-principal", "User:alice", "--operation", "All", "--topic", "pre"),
        *("--resource-pattern-type", "prefixed"),
    ),
    "l4": ("--remove", "--force", "--topic", "t1"),
}
ACTIONS: dict[str, Action] = {
    "a0": lambda story, step: None,
    "a1": Story.start,
    "a2": Story.start,
    "a3": Story.start,
    "b1": Story.create_t1,
    "b2": Story.create_t2,
    "b3": Story.create_t3,
    **dict.fromkeys(CONFIGURATIONS, Story.configure),
    "d": Story.kill_controller,
    "e": Story.start,
    "f": Story.elect,
    "f2": Story.elect_by_zookeeper,
    "g": Story.reassign,
    "g2": Story.reassign_by_api,
    "h": Story.grow_t2,
    "h1": Story.produce,
    "h2": Story.consume,
    "i": Story.shut_down_controller,
    "j": Story.start,
    "j2": Story.kill,
    "j3": Story.start,
    "k": Story.delete_t2,
    **dict.fromkeys(PERMISSIONS, Story.permit),
    "n": Story.shut_down,
}
