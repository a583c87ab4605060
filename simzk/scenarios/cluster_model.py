"""State of the cluster at each step of a scenario, as far as the file defines it, and the base class of steps.

Rules of this module:
  - a step is one class: its fields are the keys that a file may give (strict, with defaults), `check` compares them
    with the cluster as the steps above leave it, and `describe` names the step in reports;
  - an action is registered in `simzk.scenarios.actions.ACTIONS`, an expectation in
    `simzk.scenarios.expectations.EXPECTATIONS`; nothing else lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from simzk.documents import is_number
from simzk.errors import ConfigError, ScenarioError, SimzkError
from simzk.kafka.cluster.zookeeper_access import access_of
from simzk.kafka.releases.cluster_releases import Releases
from simzk.scenarios.network_links import ZOOKEEPER
from simzk.scenarios.source import BrokerId, Count, DependentError, Mistakes, TomlTable, did_you_mean
from simzk.zookeeper.znode import is_valid_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simzk.kafka.observation.recording import Recording, RecordingSummary
    from simzk.scenarios.source import KeyPath, Source

NO_BROKER = -1
"""Stands for a key that is not a broker id; no cluster has it, so the check of broker ids rejects it."""


class ClusterTable(TomlTable, kw_only=True):
    """`[cluster]`: the brokers of a new cluster, or a recorded tree to start from."""

    version: str | dict[str, str] = "3.9"
    inter_broker_protocol: str | dict[str, str] = ""
    controller: BrokerId | None = None
    brokers: Count | list[BrokerId] | None = None
    racks: Count | dict[str, str] | None = None
    config: dict[str, str | int | bool] = msgspec.field(default_factory=dict)
    log_dirs: Count = 1
    zookeeper_set_acl: bool = False
    zookeeper_chroot: Annotated[str, Meta(pattern="^((/[^/]+)+)?$")] = ""
    zookeeper_servers: Annotated[int, Meta(ge=1, le=15)] = 1
    costs: Literal["none", "measured"] = "none"
    recording: str = msgspec.field(name="from", default="")
    step: str = ""


@dataclass(slots=True)
class ClusterModel:
    """The cluster as the steps above leave it, as far as the file defines it.

    Args:
        source: the file, to report errors with their place in it.
        brokers: broker ids, in the order of the file.
        racks: the rack of each broker, or empty.
        recording: the recording that the cluster starts from, or None.
        topics: number of partitions by topic; without topics that only an operator's znode creates.
        releases: the release of each broker.
        log_dirs: number of log directories of each broker.
        zookeeper_servers: number of ZooKeeper servers.
        down: brokers that were killed or shut down, or that halted.
        failed_dirs: log directories that failed, by broker, as far as steps name them by number.
        deleted: number of partitions of deleted topics; metadata caches may still have them.
        at: place of the present step in the file.
        mistakes: those of the present step; its checks go on after a mistake.
    """

    source: Source
    brokers: tuple[int, ...]
    racks: dict[int, str]
    recording: Recording | None
    topics: dict[str, int]
    releases: Releases
    log_dirs: int = 1
    zookeeper_servers: int = 1
    down: set[int] = field(default_factory=set)
    failed_dirs: dict[int, set[int]] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    at: KeyPath = ()
    mistakes: Mistakes = field(default_factory=Mistakes)

    def note(self, key: str, what: str, right: str = "") -> None:
        """Collect a mistake at a key of the present step, or without a key of the whole step; as `Source.fail`."""
        self.mistakes.note(self.source.mistake(self._place(key), what, right))

    def note_after_steps(self, key: str, what: str, right: str = "") -> None:
        """Collect a mistake at a key: a step contradicts the steps above it; arguments as of `note`."""
        self.mistakes.note(self.source.mistake(self._place(key), what, right, DependentError))

    def _place(self, key: str) -> KeyPath:
        return (*self.at, key) if key else self.at

    def check_broker(self, broker: object, key: str) -> None:
        """Check that a broker exists, if one is given; `broker` may be -1 (no controller), `peer` ZooKeeper."""
        if broker is None or broker == "" or (broker == -1 and key == "broker"):
            return
        if key == "peer" and broker == ZOOKEEPER:
            return
        if broker not in self.brokers:
            right = f"one of {', '.join(map(str, self.brokers))}{' or zookeeper' * (key == 'peer')}"
            self.note(key, f"broker {broker} does not exist", right)

    def check_brokers(self, brokers: Iterable[int], key: str) -> None:
        """Check that every broker exists."""
        for broker in brokers:
            self.check_broker(broker, key)

    def check_broker_keys(self, table: Mapping[str, object], key: str) -> None:
        """Check that every key of a table is the id of a broker that exists."""
        with self.mistakes:
            self.check_brokers(_broker_ids(self.source, table, self._place(key)), key)

    def check_running(self, broker: int, key: str) -> None:
        """Check that a broker runs at this step."""
        if broker in self.down:
            self.note_after_steps(key, f"broker {broker} is down at this step", "a broker that is running")

    def check_new_topic(self, topic: str, key: str) -> None:
        """Check that a topic can be created under this name."""
        if topic in self.topics:
            self.note_after_steps(key, f"topic {topic} already exists", "another name")
        if not is_valid_path(f"/brokers/topics/{topic}") or "/" in topic:
            self.note(key, f"{topic!r} is not a valid topic name", "letters, digits, dot, dash, _")

    def check_topic(self, topic: str, key: str) -> bool:
        """Check that a topic exists at this step; return whether it does."""
        if topic not in self.topics:
            right = did_you_mean(topic, self.topics) if self.topics else "a topic that a step above creates"
            self.note_after_steps(key, f"topic {topic} does not exist at this step", right)
        return topic in self.topics

    def check_partition(self, topic: str, partition: int, key: str) -> None:
        """Check that a partition of an existing topic exists at this step."""
        if partition >= self.topics[topic]:
            self.note_after_steps(key, f"{topic} has no partition {partition}", f"0 .. {self.topics[topic] - 1}")

    def check_partition_name(self, name: str, key: str) -> None:
        """Check that a name such as `orders-0` names a partition that exists at this step."""
        topic, dash, number = name.rpartition("-")
        if not dash or not is_number(number):
            right = "a topic, a dash and a number, such as orders-0"
            self.note(key, f"{name!r} is not the name of a partition", right)
        elif self.check_topic(topic, key):
            self.check_partition(topic, int(number), key)

    def check_partition_names(self, names: Iterable[str], key: str) -> None:
        """Check that every name is that of a partition that exists at this step."""
        for name in names:
            self.check_partition_name(name, key)

    def check_replicas(self, replicas: Sequence[int], key: str) -> None:
        """Check the replicas of one partition: brokers that exist, each once."""
        if len(set(replicas)) != len(replicas):
            self.note(key, f"{list(replicas)} names a broker twice", "each broker once")
        self.check_brokers(dict.fromkeys(replicas), key)

    def check_assignment(self, assignment: Sequence[Sequence[int]], key: str) -> None:
        """Check the replicas of all partitions of a topic; Kafka requires one replication factor."""
        for replicas in assignment:
            if not replicas:
                self.note(key, "a partition without replicas", "one broker or more")
            self.check_replicas(replicas, key)
        if len({len(replicas) for replicas in assignment}) > 1:
            right = "the same number for each partition"
            self.note(key, "partitions of one topic have different numbers of replicas", right)

    def check_path(self, path: str, key: str) -> None:
        """Check that ZooKeeper accepts the path of a znode."""
        if not is_valid_path(path):
            right = "an absolute path such as /admin/x, without an empty part, '.', '..' or a control character"
            self.note(key, f"ZooKeeper rejects the path {path!r}", right)


def initial_model(source: Source, cluster: ClusterTable) -> ClusterModel:
    """Return the cluster before the first step.

    Raises:
        ScenarioError: brokers and racks do not match, or the recording cannot be read or has no such step.
        SeveralMistakesError: several mistakes.
    """
    if cluster.recording:
        return _recorded_model(source, cluster)
    mistakes = Mistakes()
    with mistakes:
        if cluster.step:
            source.fail(("cluster", "step"), "step is given without a recording", "from beside it")
    brokers = releases = None
    racks: dict[int, str] = {}
    with mistakes:
        brokers = _brokers(source, cluster)
    if brokers is not None:
        with mistakes:
            racks = _racks(source, cluster, brokers)
        with mistakes:
            releases = _releases(source, cluster, brokers)
            _check_access(source, cluster, releases)
        if cluster.controller is not None and cluster.controller not in brokers:
            mistakes.note(_no_such_broker(source, cluster.controller, brokers, ("cluster", "controller")))
    mistakes.report()
    assert brokers is not None
    assert releases is not None
    return ClusterModel(source, brokers, racks, None, {}, releases, cluster.log_dirs, cluster.zookeeper_servers)


def _brokers(source: Source, cluster: ClusterTable) -> tuple[int, ...]:
    if cluster.brokers is None:
        source.fail(("cluster",), "the key brokers is missing", "brokers = 3, or from and step of a recording")
    brokers = tuple(range(1, cluster.brokers + 1)) if isinstance(cluster.brokers, int) else tuple(cluster.brokers)
    if len(set(brokers)) != len(brokers) or not brokers:
        what = f"{list(brokers)} is empty or names a broker twice"
        source.fail(("cluster", "brokers"), what, "one or more ids, each once")
    return brokers


def _no_such_broker(source: Source, broker: object, brokers: Iterable[int], at: KeyPath) -> ScenarioError:
    return source.mistake(at, f"broker {broker} does not exist", f"one of {', '.join(map(str, brokers))}")


def _check_access(source: Source, cluster: ClusterTable, releases: Releases) -> None:
    try:
        access_of(cluster.zookeeper_chroot, secure=cluster.zookeeper_set_acl, oldest=releases.oldest.version)
    except ConfigError as error:
        source.fail(("cluster", error.where), error.what, error.right)


def by_broker(given: str | dict[str, str]) -> str | dict[int, str]:
    """Return a value for all brokers, or one value per broker id; an invalid key becomes `NO_BROKER`."""
    if isinstance(given, str):
        return given
    return {int(broker) if is_number(broker) else NO_BROKER: value for broker, value in given.items()}


def _racks(source: Source, cluster: ClusterTable, brokers: tuple[int, ...]) -> dict[int, str]:
    if cluster.racks is None:
        return {}
    if isinstance(cluster.racks, int):
        return {broker: f"rack-{index % cluster.racks + 1}" for index, broker in enumerate(brokers)}
    at: KeyPath = ("cluster", "racks")
    racks = dict(zip(_broker_ids(source, cluster.racks, at), cluster.racks.values(), strict=True))
    mistakes = Mistakes()
    for broker in racks:
        if broker not in brokers:
            mistakes.note(_no_such_broker(source, broker, brokers, at))
    without = ", ".join(str(broker) for broker in brokers if broker not in racks)
    if without:
        what = f"brokers {without} have no rack" if "," in without else f"broker {without} has no rack"
        mistakes.note(source.mistake(at, what, "a rack for each broker, or for none"))
    mistakes.report()
    return racks


def _releases(source: Source, cluster: ClusterTable, brokers: tuple[int, ...]) -> Releases:
    try:
        return Releases(brokers, by_broker(cluster.version), by_broker(cluster.inter_broker_protocol) or None)
    except ConfigError as error:
        key = "version" if error.where == "version" else "inter_broker_protocol"
        source.fail(("cluster", key), error.what, error.right)


def _broker_ids(source: Source, table: Mapping[str, object], at: KeyPath) -> list[int]:
    mistakes = Mistakes()
    for key in table:
        if not is_number(key):
            mistakes.note(source.mistake(at, f"{key!r} is not a broker id", "broker ids as keys, such as 1"))
    mistakes.report()
    return [int(key) for key in table]


def _recorded_model(source: Source, cluster: ClusterTable) -> ClusterModel:
    mistakes = Mistakes()

    def note(key: str, what: str, right: str) -> None:
        mistakes.note(source.mistake(("cluster", key), what, right))

    for key in ("brokers", "racks", "controller"):
        if getattr(cluster, key) is not None:
            note(key, f"the recording already defines {key}", "from and step alone")
    for key in ("zookeeper_set_acl", "zookeeper_chroot"):
        if getattr(cluster, key):
            note(key, "a recorded tree has no chroot and no ACLs", "from and step alone")
    if cluster.zookeeper_servers != 1:
        note("zookeeper_servers", "a recorded tree is of one ZooKeeper server", "1")
    if not isinstance(cluster.version, str) or cluster.inter_broker_protocol:
        right = "one version, and no inter_broker_protocol"
        note("version", "all brokers of a recorded cluster run one release", right)
    recorded = summary = None
    with mistakes:
        recorded, summary = _recording_and_summary(source, cluster)
    mistakes.report()
    assert recorded is not None
    assert summary is not None
    releases = _releases(source, cluster, summary.brokers)
    topics = dict(summary.topics)
    return ClusterModel(source, summary.brokers, summary.racks, recorded, topics, releases, cluster.log_dirs)


def _recording_and_summary(source: Source, cluster: ClusterTable) -> tuple[Recording, RecordingSummary]:
    from simzk.kafka.observation import recording

    path = source.path.parent / cluster.recording
    try:
        recorded = recording.load(path)
        if cluster.step not in recorded.steps:
            right = did_you_mean(cluster.step, recorded.steps)
            source.fail(("cluster", "step"), f"the recording has no step {cluster.step!r}", right)
        return recorded, recorded.summary(cluster.step)
    except OSError as error:
        source.fail(("cluster", "from"), f"cannot read {path}: {error.strerror}", "the dumps.json of a recording")
    except SimzkError as error:
        if error.where.startswith(str(source.path)):
            raise
        source.fail(("cluster", "from"), str(error))


BROKER_KEYS = ("broker", "next_controller", "peer")
"""Keys that name a broker in every step that has them."""


class Step(TomlTable, kw_only=True):
    """A step of a scenario.

    Args:
        at: its time since the start of the run.
        after: its time since the step above; without `at` and `after` it follows that step immediately.
    """

    at: str = ""
    after: str = ""

    def check(self, model: ClusterModel, at: KeyPath) -> None:
        """Check the step against the cluster before it, and apply its changes to the model.

        Raises:
            ScenarioError: the step names something that does not exist, or cannot happen at this point.
            SeveralMistakesError: several such mistakes.
        """
        model.at, model.mistakes = at, Mistakes()
        for key in BROKER_KEYS:
            model.check_broker(getattr(self, key, None), key)
        self._check(model)
        model.mistakes.report()

    def _check(self, model: ClusterModel) -> None:
        """Check the keys that only this kind of step has, by the checks of the model, which collect mistakes."""

    def describe(self) -> str:
        """Return the step in a few words, as reports show it."""
        raise NotImplementedError


def list_fields(*fields: tuple[str, object]) -> str:
    """Return the names and values of fields that are not None.

    >>> list_fields(("leader", 1), ("isr", None), ("version", 0))
    'leader 1, version 0'
    """
    return ", ".join(f"{name} {value}" for name, value in fields if value is not None)
