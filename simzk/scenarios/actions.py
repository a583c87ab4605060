"""Actions of a scenario: one class per kind of step that changes the cluster, and the table of them.

To add one, write its class here and add it to `ACTIONS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, field

from simzk.errors import ConfigError
from simzk.kafka.client_requests.broker_faults import API_VOCABULARY, BROKER_FAULTS, FAULTS, WhichRequests
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.topic_partition import TopicPartition
from simzk.scenarios.cluster_model import Step
from simzk.scenarios.network_links import cut, end_of, heal
from simzk.scenarios.source import FORM, BrokerId, Count, Index, did_you_mean, parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.scenarios.cluster_model import ClusterModel
    from simzk.simulation.request_faults import RequestFault

AclResource = Literal["cluster", "topic", "group", "transactional_id", "delegation_token", "user"]
Operation = Literal["create", "set", "delete", "get", "exists", "get_children", "transaction"]
ResourceName = Annotated[str, Meta(pattern="^[^/]+$")]

BROKERS_CHOICE = -1
"""Number of partitions or replicas in a request that leaves it to the broker, or that gives an assignment."""


class Action(Step, kw_only=True):
    """A step that changes the cluster or lets time pass."""

    action: str

    def run(self, cluster: KafkaCluster) -> None:
        """Apply the action to a cluster at the current virtual time."""
        raise NotImplementedError

    @property
    def word(self) -> str:
        """The word of the file that names the action, with spaces."""
        return self.action.replace("_", " ")


class CreateTopicStep(Action, kw_only=True):
    """Create a topic, with replicas placed by Kafka's rule or as given."""

    topic: str
    partitions: Count | None = None
    replication_factor: Count | None = None
    assignment: list[list[BrokerId]] | None = None
    config: dict[str, str | int | bool] = field(default_factory=dict)
    topic_id: str = ""

    def _check(self, model: ClusterModel) -> None:
        model.check_new_topic(self.topic, "topic")
        if self.assignment is None:
            if self.partitions is None or self.replication_factor is None:
                right = "partitions and replication_factor, or an assignment"
                model.note("", "the number of partitions or replicas is missing", right)
            if self.replication_factor is not None and self.replication_factor > len(model.brokers):
                what = f"{self.replication_factor} replicas on {len(model.brokers)} brokers"
                model.note("replication_factor", what, f"at most {len(model.brokers)}")
            model.topics[self.topic] = self.partitions or 0
            return
        if self.partitions is not None or self.replication_factor is not None:
            what = "the assignment already gives the numbers of partitions and replicas"
            model.note("assignment", what, "the assignment alone")
        model.check_assignment(self.assignment, "assignment")
        model.topics[self.topic] = len(self.assignment)

    def run(self, cluster: KafkaCluster) -> None:
        cluster.create_topic(
            self.topic,
            partitions=BROKERS_CHOICE if self.partitions is None else self.partitions,
            replication_factor=BROKERS_CHOICE if self.replication_factor is None else self.replication_factor,
            assignment=None if self.assignment is None else dict(enumerate(self.assignment)),
            config=config_text(self.config),
            topic_id=self.topic_id or None,
        )

    def describe(self) -> str:
        if self.assignment is None:
            return f"{self.word} {self.topic}: {self.partitions} partitions, {self.replication_factor} replicas each"
        return f"{self.word} {self.topic}: " + " ".join(str(ids).replace(" ", "") for ids in self.assignment)


class DeleteTopicStep(Action, kw_only=True):
    """Delete a topic."""

    topic: str

    def _check(self, model: ClusterModel) -> None:
        if model.check_topic(self.topic, "topic"):
            model.deleted[self.topic] = model.topics.pop(self.topic)

    def run(self, cluster: KafkaCluster) -> None:
        cluster.delete_topic(self.topic)

    def describe(self) -> str:
        return f"{self.word} {self.topic}"


class AddPartitionsStep(Action, kw_only=True):
    """Add partitions to a topic up to a total, with replicas placed by Kafka's rule or as given."""

    topic: str
    total: Count
    assignment: list[list[BrokerId]] | None = None

    def _check(self, model: ClusterModel) -> None:
        if model.check_topic(self.topic, "topic"):
            present = model.topics[self.topic]
            added = self.total - present
            if added <= 0:
                model.note_after_steps("total", f"{self.topic} has {present} partitions", f"more than {present}")
            elif self.assignment is not None and len(self.assignment) != added:
                model.note_after_steps("assignment", f"{len(self.assignment)} lists for {added} partitions", f"{added}")
            model.topics[self.topic] = self.total
        if self.assignment is not None:
            model.check_assignment(self.assignment, "assignment")

    def run(self, cluster: KafkaCluster) -> None:
        assignment = None
        if self.assignment is not None:
            assignment = dict(enumerate(self.assignment, self.total - len(self.assignment)))
        cluster.add_partitions(self.topic, self.total, assignment=assignment)

    def describe(self) -> str:
        return f"{self.word} to {self.topic}: {self.total} in all"


class BrokerAction(Action, kw_only=True):
    """An action on one broker."""

    broker: BrokerId

    def describe(self) -> str:
        return f"{self.word} broker {self.broker}"


class BrokerFailure(BrokerAction, kw_only=True):
    """A failure or stop of a running broker, after which the controller may be elected anew.

    Args:
        next_controller: the broker that wins elections from now on; without it the seed decides.
    """

    next_controller: BrokerId | None = None

    def _check(self, model: ClusterModel) -> None:
        model.check_running(self.broker, "broker")

    def run(self, cluster: KafkaCluster) -> None:
        if self.next_controller is not None:
            cluster.prefer_controller(self.next_controller)
        self._fail(cluster)

    def _fail(self, cluster: KafkaCluster) -> None:
        raise NotImplementedError


class KillStep(BrokerFailure, kw_only=True):
    """Kill a broker as `kill -9` does; its session expires later."""

    def _check(self, model: ClusterModel) -> None:
        super()._check(model)
        model.down.add(self.broker)

    def _fail(self, cluster: KafkaCluster) -> None:
        cluster.kill(self.broker)


class PowerOffStep(BrokerFailure, kw_only=True):
    """Cut the power of a broker's machine: records that are neither flushed nor `unwritten` old are gone."""

    unwritten: str = "30s"

    def _check(self, model: ClusterModel) -> None:
        super()._check(model)
        if parse_duration(self.unwritten) is None:
            model.note("unwritten", f"{self.unwritten!r} is not a duration", FORM)
        model.down.add(self.broker)

    def _fail(self, cluster: KafkaCluster) -> None:
        cluster.power_off(self.broker, unwritten_s=(parse_duration(self.unwritten) or 0) / 1_000_000)


class WipeStep(BrokerAction, kw_only=True):
    """Replace the disks of a broker that is down by empty ones."""

    def _check(self, model: ClusterModel) -> None:
        if self.broker in model.brokers and self.broker not in model.down:
            model.note_after_steps("broker", f"broker {self.broker} is running", "a broker that is down")

    def run(self, cluster: KafkaCluster) -> None:
        cluster.wipe(self.broker)


class SlowDiskStep(Action, kw_only=True):
    """Let each access to a broker's disk take some time; `0s` ends it."""

    broker: BrokerId
    access: str

    def _check(self, model: ClusterModel) -> None:
        if parse_duration(self.access) is None:
            model.note("access", f"{self.access!r} is not a duration", FORM)

    def run(self, cluster: KafkaCluster) -> None:
        cluster.slow_disk(self.broker, (parse_duration(self.access) or 0) / 1_000_000)

    def describe(self) -> str:
        """Return the step in a few words.

        >>> SlowDiskStep(action="slow_disk", broker=1, access="2s").describe()
        'slow disk of broker 1: 2s an access'
        """
        return f"{self.word} of broker {self.broker}: {self.access} an access"


class ShutdownStep(BrokerFailure, kw_only=True):
    """Shut a broker down in a controlled way, as SIGTERM does."""

    def _check(self, model: ClusterModel) -> None:
        super()._check(model)
        model.down.add(self.broker)

    def _fail(self, cluster: KafkaCluster) -> None:
        cluster.shutdown(self.broker)


class ExpireStep(BrokerFailure, kw_only=True):
    """Expire the session of a running broker immediately."""

    def _fail(self, cluster: KafkaCluster) -> None:
        cluster.expire(self.broker)


class PauseStep(BrokerFailure, kw_only=True):
    """Pause a broker for some time, as a long garbage collection does."""

    duration: str = field(name="for")

    def _fail(self, cluster: KafkaCluster) -> None:
        cluster.pause(self.broker, (parse_duration(self.duration) or 0) / 1_000_000)

    def describe(self) -> str:
        """Return the step in a few words.

        >>> PauseStep(action="pause", broker=1, duration="20s").describe()
        'pause broker 1 for 20s'
        """
        return f"{super().describe()} for {self.duration}"


class RestartStep(BrokerAction, kw_only=True):
    """Start a broker that is down, with its previous release or another."""

    version: str = ""
    inter_broker_protocol: str = ""

    def _check(self, model: ClusterModel) -> None:
        if self.broker not in model.brokers:
            return
        if self.broker not in model.down:
            model.note_after_steps("broker", f"broker {self.broker} is running", "a broker that is down")
        model.down.discard(self.broker)
        model.failed_dirs.pop(self.broker, None)
        if model.recording is not None and (self.version or self.inter_broker_protocol):
            what = "all brokers of a recorded cluster run one release"
            model.note("", what, "neither version nor inter_broker_protocol")
        try:
            model.releases.change(self.broker, self.version or None, self.inter_broker_protocol or None)
        except ConfigError as error:
            model.note("version" if self.version else "inter_broker_protocol", error.what, error.right)

    def run(self, cluster: KafkaCluster) -> None:
        protocol = self.inter_broker_protocol or None
        cluster.restart(self.broker, version=self.version or None, inter_broker_protocol=protocol)


class FailLogDirStep(Action, kw_only=True):
    """Fail a log directory of a broker, given by its number or by a partition with a replica in it."""

    broker: BrokerId
    directory: Annotated[int, Meta(ge=0)] | None = None
    partition: str = ""

    def _check(self, model: ClusterModel) -> None:
        model.check_running(self.broker, "broker")
        if (self.directory is None) == (not self.partition):
            model.note("", "a step names one log directory", "either directory or partition")
            return
        if self.broker not in model.brokers:
            return
        failed = model.failed_dirs.setdefault(self.broker, set())
        if self.directory is None:
            model.check_partition_name(self.partition, "partition")
        elif self.directory >= model.log_dirs or self.directory in failed:
            online = sorted(set(range(model.log_dirs)) - failed)
            what = f"broker {self.broker} has no online log directory {self.directory}"
            model.note_after_steps("directory", what, f"one of {online} (log_dirs in [cluster] sets their number)")
        else:
            failed.add(self.directory)
        # Before KIP-112 (1.0) a broker halts when any directory fails, after it when the last one does.
        version = model.releases.of(self.broker).version
        if not version.broker.survives_log_dir_failure or model.log_dirs in (1, len(failed)):
            model.down.add(self.broker)

    def run(self, cluster: KafkaCluster) -> None:
        cluster.fail_log_dir(self.broker, parse_partition(self.partition) if self.directory is None else self.directory)

    def describe(self) -> str:
        if self.directory is None:
            return f"{self.word} of {self.partition} on broker {self.broker}"
        return f"{self.word} {self.directory} of broker {self.broker}"


class ReassignStep(Action, kw_only=True):
    """Reassign partitions, as the AlterPartitionReassignments API does; an empty list cancels a reassignment."""

    replicas: dict[str, list[BrokerId]]

    def _check(self, model: ClusterModel) -> None:
        for name, replicas in self.replicas.items():
            model.check_partition_name(name, "replicas")
            model.check_replicas(replicas, "replicas")

    def run(self, cluster: KafkaCluster) -> None:
        targets: dict[tuple[str, int], Sequence[int] | None] = {
            parse_partition(name): replicas or None for name, replicas in self.replicas.items()
        }
        cluster.reassign(targets)

    def describe(self) -> str:
        return f"{self.word} " + ", ".join(f"{name} to {replicas}" for name, replicas in self.replicas.items())


class ElectStep(Action, kw_only=True):
    """Elect leaders, as the ElectLeaders API does: preferred or unclean, of the given partitions or of all."""

    kind: str = "preferred"
    partitions: list[str] | None = None

    def _check(self, model: ClusterModel) -> None:
        if self.kind not in ("preferred", "unclean"):
            model.note("kind", f"unknown kind of election {self.kind!r}", "preferred or unclean")
        model.check_partition_names(self.partitions or (), "partitions")

    def run(self, cluster: KafkaCluster) -> None:
        named = self.partitions
        cluster.elect(kind=self.kind, partitions=None if named is None else [parse_partition(name) for name in named])

    def describe(self) -> str:
        return f"elect {self.kind} leaders of {', '.join(self.partitions) if self.partitions else 'all partitions'}"


class ProduceStep(Action, kw_only=True):
    """Send records to a partition's leader, or to another broker.

    Followers that do not fetch the records fall behind the leader.
    """

    topic: str
    partition: Index
    records: Count = 1
    acks: Count | Literal[0, "all"] = 1
    timeout: str = "30s"
    broker: BrokerId | None = None

    def _check(self, model: ClusterModel) -> None:
        model.check_partition_name(f"{self.topic}-{self.partition}", "partition")
        if not parse_duration(self.timeout):
            model.note("timeout", f"{self.timeout!r} is not a positive duration", FORM)

    def run(self, cluster: KafkaCluster) -> None:
        timeout_ms = (parse_duration(self.timeout) or 0) // 1000
        cluster.produce(
            self.topic, self.partition, self.records, acks=self.acks, timeout_ms=timeout_ms, broker=self.broker
        )

    def describe(self) -> str:
        target = "" if self.broker is None else f" at broker {self.broker}"
        return f"produce {self.records} records to {self.topic}-{self.partition}{target}, acks {self.acks}"


class CutStep(Action, kw_only=True):
    """Cut a broker off from ZooKeeper, from another broker or, without `peer`, from both."""

    broker: BrokerId
    peer: BrokerId | str = ""

    def run(self, cluster: KafkaCluster) -> None:
        cut(cluster, self.broker, self.peer)

    def describe(self) -> str:
        return f"cut broker {self.broker} off from {end_of(self.peer) or 'everything'}"


class HealStep(Action, kw_only=True):
    """Heal links that were cut: those of a broker, or all of them."""

    broker: BrokerId | None = None
    peer: BrokerId | str = ""

    def run(self, cluster: KafkaCluster) -> None:
        if self.broker is None:
            cluster.network.heal_all()
        else:
            heal(cluster, self.broker, self.peer)

    def describe(self) -> str:
        if self.broker is None:
            return "heal all links"
        return f"heal broker {self.broker}'s link to {end_of(self.peer) or 'everything'}"


class EnsembleAction(Action, kw_only=True):
    """An action on a server of the ZooKeeper ensemble."""

    def _check(self, model: ClusterModel) -> None:
        if model.zookeeper_servers == 1:
            model.note("action", "the cluster has one ZooKeeper server", "zookeeper_servers = 3 in [cluster]")


class LoseZooKeeperLeaderStep(EnsembleAction, kw_only=True):
    """Kill the leading ZooKeeper server; the others elect another one."""

    def run(self, cluster: KafkaCluster) -> None:
        cluster.lose_zookeeper_leader()

    def describe(self) -> str:
        return "kill the leader of the ZooKeeper ensemble"


class ZooKeeperServerAction(EnsembleAction, kw_only=True):
    """An action on one ZooKeeper server."""

    server: Count

    def _check(self, model: ClusterModel) -> None:
        super()._check(model)
        if self.server > model.zookeeper_servers > 1:
            model.note("server", f"ZooKeeper server {self.server} does not exist", f"1 to {model.zookeeper_servers}")


class KillZooKeeperServerStep(ZooKeeperServerAction, kw_only=True):
    """Kill one ZooKeeper server: its clients go to other servers."""

    def run(self, cluster: KafkaCluster) -> None:
        cluster.kill_zookeeper_server(self.server)

    def describe(self) -> str:
        return f"kill ZooKeeper server {self.server}"


class RestartZooKeeperServerStep(ZooKeeperServerAction, kw_only=True):
    """Start a ZooKeeper server that was killed."""

    def run(self, cluster: KafkaCluster) -> None:
        cluster.restart_zookeeper_server(self.server)

    def describe(self) -> str:
        return f"restart ZooKeeper server {self.server}"


class PauseZooKeeperServerStep(ZooKeeperServerAction, kw_only=True):
    """Pause one ZooKeeper server for some time, as a long garbage collection does."""

    duration: str = field(name="for")

    def _check(self, model: ClusterModel) -> None:
        super()._check(model)
        if not parse_duration(self.duration):
            model.note("for", f"{self.duration!r} is not a positive duration", FORM)

    def run(self, cluster: KafkaCluster) -> None:
        cluster.pause_zookeeper_server(self.server, (parse_duration(self.duration) or 0) / 1_000_000)

    def describe(self) -> str:
        return f"pause ZooKeeper server {self.server} for {self.duration}"


class CutZooKeeperServerStep(ZooKeeperServerAction, kw_only=True):
    """Cut one ZooKeeper server off from the other servers, or from one broker."""

    broker: BrokerId | None = None

    def run(self, cluster: KafkaCluster) -> None:
        cluster.cut_zookeeper_server(self.server, self.broker)

    def describe(self) -> str:
        whom = "the other servers" if self.broker is None else f"broker {self.broker}"
        return f"cut ZooKeeper server {self.server} off from {whom}"


class HealZooKeeperServerStep(ZooKeeperServerAction, kw_only=True):
    """Heal all cuts of one ZooKeeper server, or the one between it and a broker."""

    broker: BrokerId | None = None

    def run(self, cluster: KafkaCluster) -> None:
        cluster.heal_zookeeper_server(self.server, self.broker)

    def describe(self) -> str:
        whom = "all" if self.broker is None else f"broker {self.broker}"
        return f"heal the links of ZooKeeper server {self.server} to {whom}"


class ZnodeAction(Action, kw_only=True):
    """An action on one znode."""

    path: str

    def _check(self, model: ClusterModel) -> None:
        model.check_path(self.path, "path")


class WriteZnodeStep(ZnodeAction, kw_only=True):
    """Create a znode, or set it if it exists, as an operator does with a ZooKeeper shell."""

    data: str

    def run(self, cluster: KafkaCluster) -> None:
        cluster.write_znode(self.path, self.data)

    def describe(self) -> str:
        return f"write {self.path} {self.data}"


class DeleteZnodeStep(ZnodeAction, kw_only=True):
    """Delete a znode, as an operator does with a ZooKeeper shell."""

    def run(self, cluster: KafkaCluster) -> None:
        cluster.delete_znode(self.path)

    def describe(self) -> str:
        return f"delete {self.path}"


class DropReplyStep(ZnodeAction, kw_only=True):
    """Drop ZooKeeper's next reply to a broker's request of this kind, and close the connection."""

    broker: BrokerId
    operation: Operation

    def run(self, cluster: KafkaCluster) -> None:
        cluster.zookeeper_faults.drop_reply(self.operation, client=self.broker, path=self.path)

    def describe(self) -> str:
        return f"lose the next reply to broker {self.broker}'s {self.operation} of {self.path}"


class FailRequestsStep(Action, kw_only=True):
    """Let requests of Kafka clients fail, be lost or wait, for clients that connect while the scenario is served.

    Args:
        fault: a kind of fault, as the methods of `broker_faults` are called.
        api: Kafka's name of the request; without it any that a client is asked to do.
        client_id, topic, broker: further conditions on the request.
        times: number of requests, or `"all"`.
        error: the error of `fail`.
        by: the delay of `delay`.
        duration: time after which the rule ends, and requests that it holds back go on; without it there is no end.
    """

    fault: str = "fail"
    api: str | None = None
    client_id: str | None = None
    topic: str | None = None
    broker: BrokerId | None = None
    times: Count | Literal["all"] = 1
    error: str | None = None
    by: str | None = None
    duration: str | None = field(name="for", default=None)

    def _check(self, model: ClusterModel) -> None:
        if self.fault not in BROKER_FAULTS:
            model.note("fault", f"unknown fault {self.fault!r}", f"one of {', '.join(BROKER_FAULTS)}")
            return
        if self.api is not None and self.api not in API_VOCABULARY.operations:
            what, right = f"unknown request {self.api!r}", did_you_mean(self.api, API_VOCABULARY.operations)
            model.note("api", what, right)
        if self.topic == "":
            model.note("topic", "the name of the topic is empty", "the name of a topic")
        for key, value, needed_by in (("error", self.error, "fail"), ("by", self.by, "delay")):
            if (value is not None) != (self.fault == needed_by):
                is_missing = value is None
                what = f"{self.fault} needs {key}" if is_missing else f"{self.fault} has no {key}"
                model.note("" if is_missing else key, what, f"{key} with the fault {needed_by}, and only there")
        for key, duration in (("by", self.by), ("for", self.duration)):
            if duration is not None and not parse_duration(duration):
                model.note(key, f"{duration!r} is not a positive duration", FORM)
                return
        for key, value in (("error", self.error), ("by", self.by)):
            try:
                if value is not None:
                    self._fault().resolve(API_VOCABULARY, ())
            except ConfigError as error:
                model.note(key, error.what, error.right)
        if self.fault == "hold" and self.duration is None:
            model.note("", "nobody releases the requests that are held back", "for, the time until they go on")

    def run(self, cluster: KafkaCluster) -> None:
        which = WhichRequests(times=None if self.times == "all" else self.times)
        if self.client_id is not None:
            which["client_id"] = self.client_id
        if self.topic is not None:
            which["topic"] = self.topic
        if self.broker is not None:
            which["broker"] = self.broker
        rule = cluster.broker_faults.inject(self._fault(), self.api, **which)
        if self.duration is not None:
            end_us = cluster.scheduler.now_us + (parse_duration(self.duration) or 0)
            cluster.scheduler.call_at(end_us, FAULTS, rule.clear)

    def _fault(self) -> RequestFault:
        value = (self.error or "") if self.by is None else (parse_duration(self.by) or 0) / 1_000_000
        return BROKER_FAULTS[self.fault].from_parameter(value)

    def describe(self) -> str:
        """Return the step in a few words.

        >>> FailRequestsStep(action="fail_requests", api="Produce", error="NOT_ENOUGH_REPLICAS", topic="t").describe()
        'fail Produce of topic t: NOT_ENOUGH_REPLICAS'
        >>> FailRequestsStep(action="fail_requests", fault="delay", by="2s", times="all", broker=1).describe()
        'delay all requests at broker 1 by 2s'
        """
        number = "" if self.times == 1 else f" {self.times}"
        of_client = "" if self.client_id is None else f" of client {self.client_id}"
        of_topic = "" if self.topic is None else f" of topic {self.topic}"
        at_broker = "" if self.broker is None else f" at broker {self.broker}"
        api = self.api or ("request" if self.times == 1 else "requests")
        by = "" if self.by is None else f" by {self.by}"
        until = "" if self.duration is None else f" for {self.duration}"
        error = "" if self.error is None else f": {self.error}"
        return f"{self.fault.replace('_', ' ')}{number} {api}{of_client}{of_topic}{at_broker}{by}{until}{error}"


class AclAction(Action, kw_only=True):
    """An action on the ACLs of one resource."""

    resource: AclResource
    name: ResourceName
    prefixed: bool = False

    @property
    def pattern(self) -> str:
        """The resource as reports show it."""
        return f"{self.resource} {self.name}{'*' * self.prefixed}"


class AddAclStep(AclAction, kw_only=True):
    """Add one ACL to a resource, as Kafka's tool for ACLs does."""

    principal: str
    operation: str
    permission: Literal["Allow", "Deny"] = "Allow"
    host: str = "*"

    def run(self, cluster: KafkaCluster) -> None:
        entry = AclEntry(self.principal, self.operation, self.permission, self.host)
        cluster.add_acls(self.resource, self.name, [entry], prefixed=self.prefixed)

    def describe(self) -> str:
        return f"{self.permission} {self.principal} {self.operation} on {self.pattern} from {self.host}"


class RemoveAclsStep(AclAction, kw_only=True):
    """Remove all ACLs of a resource."""

    def run(self, cluster: KafkaCluster) -> None:
        cluster.remove_acls(self.resource, self.name, prefixed=self.prefixed)

    def describe(self) -> str:
        return f"{self.word} of {self.pattern}"


class WaitStep(Action, kw_only=True):
    """Let time pass before the next step."""

    duration: str = field(name="for")

    def run(self, cluster: KafkaCluster) -> None:
        """Do nothing: the player lets the time pass."""

    def describe(self) -> str:
        return f"wait {self.duration}"


ACTIONS: dict[str, type[Action]] = {
    "create_topic": CreateTopicStep,
    "delete_topic": DeleteTopicStep,
    "add_partitions": AddPartitionsStep,
    "kill": KillStep,
    "power_off": PowerOffStep,
    "wipe": WipeStep,
    "slow_disk": SlowDiskStep,
    "restart": RestartStep,
    "pause": PauseStep,
    "expire": ExpireStep,
    "fail_log_dir": FailLogDirStep,
    "shutdown": ShutdownStep,
    "reassign": ReassignStep,
    "elect": ElectStep,
    "produce": ProduceStep,
    "cut": CutStep,
    "heal": HealStep,
    "lose_zookeeper_leader": LoseZooKeeperLeaderStep,
    "kill_zookeeper_server": KillZooKeeperServerStep,
    "restart_zookeeper_server": RestartZooKeeperServerStep,
    "pause_zookeeper_server": PauseZooKeeperServerStep,
    "cut_zookeeper_server": CutZooKeeperServerStep,
    "heal_zookeeper_server": HealZooKeeperServerStep,
    "write_znode": WriteZnodeStep,
    "delete_znode": DeleteZnodeStep,
    "drop_reply": DropReplyStep,
    "fail_requests": FailRequestsStep,
    "add_acl": AddAclStep,
    "remove_acls": RemoveAclsStep,
    "wait": WaitStep,
}
"""All actions by the word that a step gives as `action`."""


def parse_partition(name: str) -> TopicPartition:
    """Return the partition that a name such as `orders-0` means; `ClusterModel` has checked the name.

    >>> parse_partition("my-orders-12")
    TopicPartition(topic='my-orders', partition=12)
    """
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def config_text(config: dict[str, str | int | bool]) -> dict[str, str]:
    """Return settings as Kafka's configuration has them: text, with `true` and `false` for booleans."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
