"""What a scenario file may say: one struct a table, strict, with a default for all that may be left out.

Rules of this module:
  - a step has either an `action` (what is done to the cluster) or an `expect` (what is then looked at); the word
    chooses the struct, in the tables `ACTIONS` and `EXPECTATIONS`, which are all there is;
  - `at` is a time since the start, `after` a time since the step above; with neither a step follows at once;
  - what was chance in a recorded run (who wins an election, an id, a placement) is a key of the step that meets it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

BrokerId = Annotated[int, Meta(ge=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Index = Annotated[int, Meta(ge=0, le=1_000_000)]
AclResource = Literal["cluster", "topic", "group", "transactional_id", "delegation_token", "user"]
Operation = Literal["create", "set", "delete", "get", "exists", "get_children", "transaction"]
ResourceName = Annotated[str, Meta(pattern="^[^/]+$")]


class Table(Struct, forbid_unknown_fields=True, kw_only=True):
    """Any table: an unknown key is an error."""


class ClusterTable(Table, kw_only=True):
    """`[cluster]`: brokers to start with, or a recorded tree to start from."""

    version: str | dict[str, str] = "3.9"
    inter_broker_protocol: str | dict[str, str] = ""
    controller: BrokerId | None = None
    brokers: Count | list[BrokerId] | None = None
    racks: Count | dict[str, str] | None = None
    config: dict[str, str | int | bool] = {}
    log_dirs: Count = 1
    zookeeper_set_acl: bool = False
    zookeeper_chroot: Annotated[str, Meta(pattern="^((/[^/]+)+)?$")] = ""
    costs: Literal["none", "measured"] = "none"
    recording: str = field(name="from", default="")
    step: str = ""


class FaultsTable(Table, kw_only=True):
    """`[faults]`: whatever the seed draws breaks, for a time; then the cluster must become whole within another."""

    safety: str
    liveness: str


class BugTable(Table, kw_only=True):
    """`[bug]`: a known bug of Kafka, and releases that have it and that have it no more."""

    id: str
    shown_in: list[str]
    mended_in: list[str]


class ScenarioTable(Table, kw_only=True):
    """The whole file; its steps are read one by one."""

    title: str
    why: str
    cluster: ClusterTable
    seed: int = 1
    faults: FaultsTable | None = None
    bug: BugTable | None = None
    step: list[dict[str, object]] = []


class Step(Table, kw_only=True):
    """What every step may say of its time."""

    at: str = ""
    after: str = ""


class Action(Step, kw_only=True):
    """A step that does something."""

    action: str


class CreateTopic(Action, kw_only=True):
    """A topic, its replicas placed by the rule of Kafka or as given."""

    topic: str
    partitions: Count | None = None
    replication_factor: Count | None = None
    assignment: list[list[BrokerId]] | None = None
    config: dict[str, str | int | bool] = {}
    topic_id: str = ""


class DeleteTopic(Action, kw_only=True):
    """A topic to be deleted."""

    topic: str


class AddPartitions(Action, kw_only=True):
    """More partitions for a topic: up to a total, placed by the rule or as given."""

    topic: str
    total: Count
    assignment: list[list[BrokerId]] | None = None


class Kill(Action, kw_only=True):
    """kill -9; the session expires later."""

    broker: BrokerId
    next_controller: BrokerId | None = None


class Restart(Action, kw_only=True):
    """Start a broker that was killed or shut down, as it was or of another release."""

    broker: BrokerId
    version: str = ""
    inter_broker_protocol: str = ""


class Pause(Action, kw_only=True):
    """Stop a broker for a time, as a long garbage collection does."""

    broker: BrokerId
    duration: str = field(name="for")
    next_controller: BrokerId | None = None


class Expire(Action, kw_only=True):
    """Expire a broker's session at once while it lives."""

    broker: BrokerId
    next_controller: BrokerId | None = None


class Shutdown(Action, kw_only=True):
    """Controlled shutdown (SIGTERM)."""

    broker: BrokerId
    next_controller: BrokerId | None = None


class FailLogDir(Action, kw_only=True):
    """A log directory of a broker fails: the one of this number, or where its replica of a partition lies."""

    broker: BrokerId
    directory: Annotated[int, Meta(ge=0)] | None = None
    partition: str = ""


class Reassign(Action, kw_only=True):
    """New replicas for partitions, as the AlterPartitionReassignments API takes them; an empty list cancels."""

    replicas: dict[str, list[BrokerId]]


class Elect(Action, kw_only=True):
    """The ElectLeaders API: the preferred replica, or an unclean one; of all partitions if none are named."""

    kind: str = "preferred"
    partitions: list[str] | None = None


class Produce(Action, kw_only=True):
    """Send records to a partition's leader, or to another broker; followers that do not fetch them fall behind."""

    topic: str
    partition: Index
    records: Count = 1
    acks: Count | Literal[0, "all"] = 1
    timeout: str = "30s"
    broker: BrokerId | None = None


class Cut(Action, kw_only=True):
    """Cut a broker off from ZooKeeper, from another broker, or (with no `peer`) from everything."""

    broker: BrokerId
    peer: BrokerId | str = ""


class Heal(Action, kw_only=True):
    """Heal what was cut; with no `broker`, all there is."""

    broker: BrokerId | None = None
    peer: BrokerId | str = ""


class WriteZnode(Action, kw_only=True):
    """What an operator writes with a ZooKeeper shell: create the znode, or set it if it is there."""

    path: str
    data: str


class DeleteZnode(Action, kw_only=True):
    """What an operator deletes with a ZooKeeper shell."""

    path: str


class DropReply(Action, kw_only=True):
    """The next reply of ZooKeeper to a broker's request of this kind is lost, with the connection."""

    broker: BrokerId
    operation: Operation
    path: str


class AddAcl(Action, kw_only=True):
    """One rule for a resource, as Kafka's tool for authorizations writes it."""

    resource: AclResource
    name: ResourceName
    prefixed: bool = False
    principal: str
    operation: str
    permission: Literal["Allow", "Deny"] = "Allow"
    host: str = "*"


class RemoveAcls(Action, kw_only=True):
    """All rules of a resource, taken away."""

    resource: AclResource
    name: ResourceName
    prefixed: bool = False


class Wait(Action, kw_only=True):
    """Let time pass."""

    duration: str = field(name="for")


class Expectation(Step, kw_only=True):
    """A step that looks: now, or again and again until it holds or a time is over."""

    expect: str
    within: str = ""
    name: str = ""
    bug: str = ""


class ExpectPartition(Expectation, kw_only=True):
    """The state znode of a partition, and its replicas."""

    topic: str
    partition: Index
    leader: int | None = None
    isr: list[BrokerId] | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None
    version: int | None = None
    replicas: list[BrokerId] | None = None


class ExpectController(Expectation, kw_only=True):
    """Who the controller is, and of which epoch; `broker = -1` is nobody."""

    broker: int | None = None
    epoch: int | None = None


class ExpectBrokers(Expectation, kw_only=True):
    """Which brokers are registered."""

    registered: list[BrokerId]


class ExpectTopics(Expectation, kw_only=True):
    """Which topics there are."""

    topics: list[str]


class ExpectZnode(Expectation, kw_only=True):
    """A znode: whether it exists, its data, its version."""

    path: str
    exists: bool = True
    data: str | None = None
    version: int | None = None
    children: list[str] | None = None


class ExpectOffline(Expectation, kw_only=True):
    """Exactly which partitions have no leader."""

    partitions: list[str]


class ExpectWhole(Expectation, kw_only=True):
    """Every partition has a leader and every replica is in sync; `preferred`: and leaders are the preferred ones."""

    preferred: bool = False


class ExpectLeaders(Expectation, kw_only=True):
    """How many partitions each broker leads."""

    leaders: dict[str, int]


class ExpectEvent(Expectation, kw_only=True):
    """How often something happened so far: events whose fields equal those given."""

    what: str
    who: str | None = None
    subject: str | None = None
    before: str | None = None
    after_: str | None = field(name="becomes", default=None)
    count: int | None = None


class ExpectMetadata(Expectation, kw_only=True):
    """What a broker believes: who lives, who is controller, and of one partition; `known = false`: it knows no such."""

    broker: BrokerId
    live: list[BrokerId] | None = None
    controller: int | None = None
    topic: str = ""
    partition: Index | None = None
    known: bool = True
    leader: int | None = None
    isr: list[BrokerId] | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None


class ExpectLog(Expectation, kw_only=True):
    """How far a broker's log of a partition goes, and its high watermark; the leader's, where no broker is named."""

    topic: str
    partition: Index
    broker: BrokerId | None = None
    log_end: int | None = None
    high_watermark: int | None = None


class ExpectProduced(Expectation, kw_only=True):
    """What came of the records that were sent: how many were acknowledged so far, and the last answer."""

    topic: str
    partition: Index
    acknowledged: int | None = None
    last: str | None = None


class ExpectRecorded(Expectation, kw_only=True):
    """The tree equals what a real cluster had written after a step of its recording, field by field."""

    step: str


ACTIONS: dict[str, type[Action]] = {
    "create_topic": CreateTopic,
    "delete_topic": DeleteTopic,
    "add_partitions": AddPartitions,
    "kill": Kill,
    "restart": Restart,
    "pause": Pause,
    "expire": Expire,
    "fail_log_dir": FailLogDir,
    "shutdown": Shutdown,
    "reassign": Reassign,
    "elect": Elect,
    "produce": Produce,
    "cut": Cut,
    "heal": Heal,
    "write_znode": WriteZnode,
    "delete_znode": DeleteZnode,
    "drop_reply": DropReply,
    "add_acl": AddAcl,
    "remove_acls": RemoveAcls,
    "wait": Wait,
}

EXPECTATIONS: dict[str, type[Expectation]] = {
    "partition": ExpectPartition,
    "controller": ExpectController,
    "brokers": ExpectBrokers,
    "topics": ExpectTopics,
    "znode": ExpectZnode,
    "offline": ExpectOffline,
    "whole": ExpectWhole,
    "leaders": ExpectLeaders,
    "event": ExpectEvent,
    "metadata": ExpectMetadata,
    "log": ExpectLog,
    "produced": ExpectProduced,
    "recorded": ExpectRecorded,
}
