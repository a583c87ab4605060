"""What there is at each step of a scenario, brokers, topics, partitions, so that it can be checked before the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.errors import ConfigError, SimzkError
from simzk.kafka.cluster.zookeeper_access import access_of
from simzk.kafka.releases.cluster_releases import Releases
from simzk.scenarios import schema
from simzk.scenarios.beliefs import check_belief
from simzk.scenarios.source import FORM, did_you_mean, parse_duration
from simzk.zookeeper.paths import is_valid_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.observation.recording import Recording
    from simzk.scenarios.source import KeyPath, Source

ZOOKEEPER = "zookeeper"


NO_BROKER = -1
"""Whom a key names that is no number."""


@dataclass(slots=True)
class World:
    """The cluster as the steps so far must have left it, as far as a file can tell.

    Args:
        source: where errors point.
        brokers: ids, in the order of the file.
        racks: a rack a broker, or empty.
        recording: that the cluster starts from, or None.
        topics: how many partitions each has; a topic that only an operator's znode makes is not known here.
        releases: what each broker runs.
        log_dirs: how many log directories each broker has.
        down: brokers that were killed or shut down, or halted.
        failed_dirs: the directories that failed, by broker, as far as they are named by number.
        deleted: topics that steps above delete; brokers may still believe in them.
    """

    source: Source
    brokers: tuple[int, ...]
    racks: dict[int, str]
    recording: Recording | None
    topics: dict[str, int]
    releases: Releases
    log_dirs: int = 1
    down: set[int] = field(default_factory=set)
    failed_dirs: dict[int, set[int]] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)

    def check_step(self, step: schema.Action | schema.Expectation, at: KeyPath) -> None:
        """Check a step against what there is, and take in what it changes.

        Raises:
            ScenarioError: it names what does not exist, or cannot be.
        """
        for key in ("broker", "next_controller", "peer"):
            self.check_broker(getattr(step, key, None), (*at, key))
        match step:
            case schema.CreateTopic():
                self._create_topic(step, at)
            case schema.DeleteTopic():
                self._check_topic(step.topic, (*at, "topic"))
                self.deleted[step.topic] = self.topics.pop(step.topic)
            case schema.AddPartitions():
                self._add_partitions(step, at)
            case schema.Kill() | schema.Shutdown():
                self._check_up(step.broker, (*at, "broker"))
                self.down.add(step.broker)
            case schema.Pause() | schema.Expire():
                self._check_up(step.broker, (*at, "broker"))
            case schema.FailLogDir():
                self._check_up(step.broker, (*at, "broker"))
                self._check_log_dir(step, at)
            case schema.Restart():
                if step.broker not in self.down:
                    self.source.fail((*at, "broker"), f"broker {step.broker} is running", "one that is down")
                self.down.discard(step.broker)
                self.failed_dirs.pop(step.broker, None)
                self._install(step, at)
            case schema.Reassign():
                for name, replicas in step.replicas.items():
                    self._check_partition_name(name, (*at, "replicas"))
                    self._check_replicas(replicas, (*at, "replicas"))
            case schema.Produce():
                self._check_partition_name(f"{step.topic}-{step.partition}", (*at, "partition"))
                if not parse_duration(step.timeout):
                    self.source.fail((*at, "timeout"), f"{step.timeout!r} is no time to wait for", FORM)
            case schema.ExpectMetadata() | schema.ExpectLog() | schema.ExpectProduced():
                check_belief(self, step, at)
            case schema.Elect():
                if step.kind not in ("preferred", "unclean"):
                    self.source.fail((*at, "kind"), f"there is no election {step.kind!r}", "preferred or unclean")
                self._check_partition_names(step.partitions or (), (*at, "partitions"))
            case schema.WriteZnode() | schema.DeleteZnode() | schema.ExpectZnode() | schema.DropReply():
                self._check_path(step.path, (*at, "path"))
            case schema.ExpectPartition():
                self._check_partition(step, at)
            case schema.ExpectBrokers():
                for broker in step.registered:
                    self.check_broker(broker, (*at, "registered"))
            case schema.ExpectLeaders():
                for broker in _numbers(self.source, step.leaders, (*at, "leaders")):
                    self.check_broker(broker, (*at, "leaders"))
            case schema.ExpectController():
                if step.broker is None and step.epoch is None:
                    self.source.fail(at, "nothing is expected of the controller", "broker or epoch")
            case schema.ExpectOffline():
                self._check_partition_names(step.partitions, (*at, "partitions"))
            case schema.ExpectRecorded():
                self._check_recorded(step.step, (*at, "step"))
            case _:
                pass

    def _check_log_dir(self, step: schema.FailLogDir, at: KeyPath) -> None:
        if (step.directory is None) == (not step.partition):
            self.source.fail(at, "which log directory?", "either directory or partition")
        failed = self.failed_dirs.setdefault(step.broker, set())
        if step.directory is None:
            self._check_partition_name(step.partition, (*at, "partition"))
        elif step.directory >= self.log_dirs or step.directory in failed:
            live = sorted(set(range(self.log_dirs)) - failed)
            said = f"broker {step.broker} has no live directory {step.directory}"
            self.source.fail((*at, "directory"), said, f"one of {live} (log_dirs in [cluster] says how many)")
        else:
            failed.add(step.directory)
        if not self.releases.of(step.broker).version.broker.survives_log_dir_failure or self.log_dirs in (
            1,
            len(failed),
        ):
            self.down.add(step.broker)  # it halts

    def _install(self, step: schema.Restart, at: KeyPath) -> None:
        if self.recording is not None and (step.version or step.inter_broker_protocol):
            self.source.fail(at, "the brokers of a recording are of one release", "no version, no protocol")
        try:
            self.releases.change(step.broker, step.version or None, step.inter_broker_protocol or None)
        except ConfigError as error:
            self.source.fail((*at, "version" if step.version else "inter_broker_protocol"), error.what, error.right)

    def check_broker(self, broker: object, at: KeyPath) -> None:
        """Check that a broker is one of the cluster's, where one is named."""
        if broker is None or broker == "" or (broker == -1 and at[-1] == "broker"):
            return
        if at[-1] == "peer" and broker == ZOOKEEPER:
            return
        if broker not in self.brokers:
            also = " or zookeeper" if at[-1] == "peer" else ""
            right = f"one of {', '.join(map(str, self.brokers))}{also}"
            self.source.fail(at, f"broker {broker} does not exist", right)

    def _check_up(self, broker: int, at: KeyPath) -> None:
        if broker in self.down:
            self.source.fail(at, f"broker {broker} is down at this step", "one that is running")

    def _check_topic(self, topic: str, at: KeyPath) -> None:
        if topic not in self.topics:
            right = did_you_mean(topic, self.topics) if self.topics else "a topic that a step above creates"
            self.source.fail(at, f"there is no topic {topic} at this step", right)

    def _check_partition_name(self, name: str, at: KeyPath) -> None:
        topic, dash, number = name.rpartition("-")
        if not dash or not number.isdigit():
            self.source.fail(at, f"{name!r} names no partition", "a topic, a dash and a number, such as orders-0")
        self._check_topic(topic, at)
        if int(number) >= self.topics[topic]:
            self.source.fail(at, f"{topic} has no partition {number}", f"0 .. {self.topics[topic] - 1}")

    def _check_partition_names(self, names: Iterable[str], at: KeyPath) -> None:
        for name in names:
            self._check_partition_name(name, at)

    def _check_replicas(self, replicas: Sequence[int], at: KeyPath) -> None:
        if len(set(replicas)) != len(replicas):
            self.source.fail(at, f"{list(replicas)} names a broker twice", "each broker once")
        for broker in replicas:
            self.check_broker(broker, at)

    def _check_assignment(self, assignment: Sequence[Sequence[int]], at: KeyPath) -> None:
        for replicas in assignment:
            if not replicas:
                self.source.fail(at, "a partition without replicas", "one broker or more")
            self._check_replicas(replicas, at)
        if len({len(replicas) for replicas in assignment}) > 1:
            self.source.fail(at, "partitions of one topic have different numbers of replicas", "as many for each")

    def _create_topic(self, step: schema.CreateTopic, at: KeyPath) -> None:
        if step.topic in self.topics:
            self.source.fail((*at, "topic"), f"topic {step.topic} exists already", "another name")
        if not is_valid_path(f"/brokers/topics/{step.topic}") or "/" in step.topic:
            self.source.fail((*at, "topic"), f"{step.topic!r} is no name of a topic", "letters, digits, dot, dash, _")
        if step.assignment is None:
            if step.partitions is None or step.replication_factor is None:
                self.source.fail(at, "how many?", "partitions and replication_factor, or an assignment")
            if step.replication_factor > len(self.brokers):
                self.source.fail(
                    (*at, "replication_factor"),
                    f"{step.replication_factor} replicas on {len(self.brokers)} brokers",
                    f"at most {len(self.brokers)}",
                )
            self.topics[step.topic] = step.partitions
            return
        if step.partitions is not None or step.replication_factor is not None:
            self.source.fail((*at, "assignment"), "the assignment says already how many", "the assignment alone")
        self._check_assignment(step.assignment, (*at, "assignment"))
        self.topics[step.topic] = len(step.assignment)

    def _add_partitions(self, step: schema.AddPartitions, at: KeyPath) -> None:
        self._check_topic(step.topic, (*at, "topic"))
        present = self.topics[step.topic]
        if step.total <= present:
            self.source.fail((*at, "total"), f"{step.topic} has {present} partitions", f"more than {present}")
        if step.assignment is not None:
            if len(step.assignment) != step.total - present:
                more = step.total - present
                self.source.fail((*at, "assignment"), f"{len(step.assignment)} lists for {more} partitions", f"{more}")
            self._check_assignment(step.assignment, (*at, "assignment"))
        self.topics[step.topic] = step.total

    def _check_path(self, path: str, at: KeyPath) -> None:
        if not is_valid_path(path):
            right = "an absolute path such as /admin/x, without an empty part, '.', '..' or a control character"
            self.source.fail(at, f"ZooKeeper refuses the path {path!r}", right)

    def _check_partition(self, step: schema.ExpectPartition, at: KeyPath) -> None:
        self._check_topic(step.topic, (*at, "topic"))
        if step.partition >= self.topics[step.topic]:
            right = f"0 .. {self.topics[step.topic] - 1}"
            self.source.fail((*at, "partition"), f"{step.topic} has no partition {step.partition}", right)
        for broker in (*(step.isr or ()), *(step.replicas or ())):
            self.check_broker(broker, (*at, "isr" if broker in (step.isr or ()) else "replicas"))
        if step.leader not in (None, -1):
            self.check_broker(step.leader, (*at, "leader"))
        looked_at = (step.leader, step.isr, step.leader_epoch, step.controller_epoch, step.version, step.replicas)
        if all(value is None for value in looked_at):
            self.source.fail(at, "nothing is expected of the partition", "leader, isr, leader_epoch, version, replicas")

    def _check_recorded(self, step: str, at: KeyPath) -> None:
        if self.recording is None:
            self.source.fail(at, "the cluster starts from no recording", "[cluster] with from and step")
        if step not in self.recording.steps:
            self.source.fail(at, f"the recording has no step {step!r}", did_you_mean(step, self.recording.steps))


def start_world(source: Source, cluster: schema.ClusterTable) -> World:
    """Return what there is before the first step.

    Raises:
        ScenarioError: brokers and racks that do not fit, a recording that cannot be read or has no such step.
    """
    if cluster.recording:
        return _recorded_world(source, cluster)
    if cluster.step:
        source.fail(("cluster", "step"), "a step of which recording?", "from beside it")
    if cluster.brokers is None:
        source.fail(("cluster",), "the key brokers is missing", "brokers = 3, or from and step of a recording")
    brokers = tuple(range(1, cluster.brokers + 1)) if isinstance(cluster.brokers, int) else tuple(cluster.brokers)
    if len(set(brokers)) != len(brokers) or not brokers:
        source.fail(("cluster", "brokers"), f"{list(brokers)} are no distinct brokers", "each id once, and one or more")
    releases = _releases(source, cluster, brokers)
    try:
        access_of(cluster.zookeeper_chroot, secure=cluster.zookeeper_set_acl, oldest=releases.oldest.version)
    except ConfigError as error:
        source.fail(("cluster", error.where), error.what, error.right)
    world = World(source, brokers, _racks(source, cluster, brokers), None, {}, releases, cluster.log_dirs)
    world.check_broker(cluster.controller, ("cluster", "controller"))
    return world


def _racks(source: Source, cluster: schema.ClusterTable, brokers: tuple[int, ...]) -> dict[int, str]:
    if cluster.racks is None:
        return {}
    if isinstance(cluster.racks, int):
        return {broker: f"rack-{index % cluster.racks + 1}" for index, broker in enumerate(brokers)}
    at: KeyPath = ("cluster", "racks")
    racks = dict(zip(_numbers(source, cluster.racks, at), cluster.racks.values(), strict=True))
    for broker in racks:
        if broker not in brokers:
            source.fail(at, f"broker {broker} does not exist", f"one of {', '.join(map(str, brokers))}")
    for broker in brokers:
        if broker not in racks:
            source.fail(at, f"broker {broker} has no rack", "a rack for each broker, or for none")
    return racks


def _releases(source: Source, cluster: schema.ClusterTable, brokers: tuple[int, ...]) -> Releases:
    try:
        return Releases(brokers, by_broker(cluster.version), by_broker(cluster.inter_broker_protocol) or None)
    except ConfigError as error:
        key = "version" if error.where == "version" else "inter_broker_protocol"
        source.fail(("cluster", key), error.what, error.right)


def by_broker(given: str | dict[str, str]) -> str | dict[int, str]:
    """What is said of all brokers at once, or by the number of each; a key that is no number names no broker."""
    if isinstance(given, str):
        return given
    return {int(broker) if broker.isdigit() else NO_BROKER: said for broker, said in given.items()}


def _numbers(source: Source, table: dict[str, object] | dict[str, int] | dict[str, str], at: KeyPath) -> list[int]:
    for key in table:
        if not key.isdigit():
            source.fail(at, f"{key!r} is no broker", "ids of brokers as keys, such as 1")
    return [int(key) for key in table]


def _recorded_world(source: Source, cluster: schema.ClusterTable) -> World:
    from simzk.kafka.observation import recording

    for key in ("brokers", "racks", "controller"):
        if getattr(cluster, key) is not None:
            source.fail(("cluster", key), "the recording says already what there is", "from and step alone")
    for key in ("zookeeper_set_acl", "zookeeper_chroot"):
        if getattr(cluster, key):
            source.fail(("cluster", key), "a recorded tree is at the root and open to all", "from and step alone")
    path = source.path.parent / cluster.recording
    try:
        recorded = recording.load(path)
        if cluster.step not in recorded.steps:
            right = did_you_mean(cluster.step, recorded.steps)
            source.fail(("cluster", "step"), f"the recording has no step {cluster.step!r}", right)
        summary = recorded.summary(cluster.step)
    except OSError as error:
        source.fail(("cluster", "from"), f"cannot read {path}: {error.strerror}", "the dumps.json of a recording")
    except SimzkError as error:
        if error.where.startswith(str(source.path)):
            raise
        source.fail(("cluster", "from"), str(error))
    if not isinstance(cluster.version, str) or cluster.inter_broker_protocol:
        source.fail(("cluster", "version"), "the brokers of a recording are of one release", "one version, no protocol")
    releases = _releases(source, cluster, summary.brokers)
    return World(source, summary.brokers, summary.racks, recorded, dict(summary.topics), releases, cluster.log_dirs)
