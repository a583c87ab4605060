"""Operator of a simulated cluster: requests to brokers, Kafka's tools, and znodes written directly.

Rules of the module (Kafka's AdminClient; docs/reference/kafka.md §2.9 to §2.12):
  - a request for the controller goes to the broker in `/controller`, and is retried for a minute while there is none;
    a request that any broker serves goes to the given broker, or to the controller;
  - a request that was lost with its connection may have been served: a retry that finds the work done has succeeded;
  - a rejection is an event of the history, and the result of the call.

Rules of tools that work in ZooKeeper (TopicCommand, ConfigCommand, PreferredReplicaLeaderElectionCommand and
ReassignPartitionsCommand with `--zookeeper`; §1.3):
  - each command runs in a session of its own, and ends when the znode is written: the controller acts on it later;
  - topics and configuration are written by the same code as in brokers; alive brokers are read from ZooKeeper, and a
    topic is created without an id;
  - an election or a reassignment is requested from the controller by a znode; while the znode exists, another request
    is rejected.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from simzk.errors import ConfigError, ZnodeError
from simzk.jvm.numbers import JavaRandom
from simzk.jvm.scala_collections import immutable_order, mutable_order
from simzk.kafka import requests as protocol
from simzk.kafka.broker.admin_handlers import AdminHandlers
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AdminResponse
from simzk.kafka.rpc import Disconnected
from simzk.kafka.security.scram import MECHANISMS as SCRAM_MECHANISMS
from simzk.kafka.topic_partition import TopicPartition, grouped_by_topic, mutable_partitions, partition_set
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION, KafkaZooKeeperClient, create_request
from simzk.kafka.zookeeper_mode.tools import reassign_partitions as reassign_tool
from simzk.kafka.zookeeper_mode.tools.acls import run as run_acls
from simzk.simulation import Process, Scheduler, Task
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from simzk.kafka.broker.cluster_resources import ClusterResources
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import Collections
    from simzk.simulation import Future

T = TypeVar("T")

NAME = "admin"
RETRY_PAUSE_US = 100_000
GIVE_UP_US = 60_000_000
SESSION_TIMEOUT_MS = 30_000
OK = AdminResponse(ErrorCode.NONE)
ZOOKEEPER = "zookeeper"
_ALREADY_SERVED = {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
_TIMED_OUT = AdminResponse(ErrorCode.BROKER_NOT_AVAILABLE, "no broker could serve it within a minute")


class Operator:
    """Admin client, tools of the release, and ZooKeeper shell.

    Args:
        scheduler: virtual time.
        environment: connections to brokers and ZooKeeper, the release, and the history for rejections.
        controller: returns the broker in `/controller`.
    """

    def __init__(
        self, scheduler: Scheduler, environment: ClusterResources, controller: Callable[[], int | None]
    ) -> None:
        self.process = Process(scheduler, NAME)
        self._connections = connections = environment.connections
        self._history = environment.history
        self._environment = environment
        self._controller = controller
        self._session: ZooKeeperSession | None = None
        self._tool: ZooKeeperSession | None = None
        self._placement = JavaRandom(scheduler.stream("placement/tool").bits(48))
        self._opening: Task[None] | None = None
        self._open_requests: dict[Task[Any], None] = {}
        self._changes: dict[str, Task[AdminResponse]] = {}  # the last one of each user
        connections.register(self.process, _reject_request)

    def owns_session(self, session_id: int) -> bool:
        """Return whether a session belongs to the ZooKeeper shell or to the last tool."""
        return any(own is not None and own.session_id == session_id for own in (self._session, self._tool))

    @property
    def is_busy(self) -> bool:
        """Whether a request has not been answered."""
        return bool(self._open_requests)

    def request(self, what: str, request: object, via: int | str | None = None) -> Task[AdminResponse]:
        """Send a request to a broker until it is served, or carry it out with a tool of the release.

        Args:
            what: description for the history.
            request: request to serve.
            via: broker to ask, or ZOOKEEPER for the tool [default: as the release's tools do, and if they ask a broker,
                the controller].

        Raises:
            ConfigError: the release has no tool that works in ZooKeeper.
        """
        version = self._environment.version
        if via == ZOOKEEPER and not version.tools.accepts_zookeeper:
            raise ConfigError(f"no tool of Kafka {version.name} does this in ZooKeeper", where="via", right="a broker")
        if isinstance(request, protocol.DeleteTopicRequest) and version.controller.topic_deletion == "by znode":
            return self._in_session(partial(self._delete_by_znode, what, request.name), what)
        work = partial(self._request, what, request, via)
        if _is_in_zookeeper(request, via, version):
            work = partial(self._by_tool, [(what, request)])
        if isinstance(request, protocol.AlterConfigRequest) and request.entity_path.startswith("users/"):
            return self._behind_changes(request.entity_path, work, what)
        return self._track(self.process.spawn(work(), what))

    def _behind_changes(
        self, entity_path: str, work: Callable[[], Coroutine[Future[Any], None, AdminResponse]], what: str
    ) -> Task[AdminResponse]:
        """Begin a change of an entity when the one before it is done: each writes the whole znode that it has read."""
        before = self._changes.get(entity_path)

        async def begin() -> AdminResponse:
            if before is not None:
                await before
            return await work()

        waits = before is not None and not before.done
        task = self._changes[entity_path] = self.process.spawn(begin() if waits else work(), what)
        return self._track(task)

    def in_turn(self, steps: Sequence[tuple[str, object]], via: int | str | None = None) -> Task[AdminResponse]:
        """Send requests one after another until one is rejected.

        A broker's configuration is requested from that broker, unless a tool writes it to ZooKeeper. A tool that works
        in ZooKeeper has one session for all of them.
        """
        version = self._environment.version
        targets = [_target(request, via, version) for _, request in steps]
        in_zookeeper = [
            _is_in_zookeeper(request, target, version) for target, (_, request) in zip(targets, steps, strict=True)
        ]
        if all(in_zookeeper):
            return self._track(self.process.spawn(self._by_tool(steps), steps[0][0]))
        assert not any(in_zookeeper), "one command works in ZooKeeper or asks brokers"

        async def work() -> AdminResponse:
            response = _TIMED_OUT
            for target, (what, request) in zip(targets, steps, strict=True):
                response = await self._request(what, request, target)
                if response.error != ErrorCode.NONE:
                    break
            return response

        return self._track(self.process.spawn(work(), steps[0][0]))

    def write_znode(self, path: str, data: bytes | None, *, create: bool = False) -> Task[None]:
        """Set a znode, or create it if it is missing, or at once with `create`."""

        async def write(session: ZooKeeperSession) -> None:
            error = Code.NO_NODE if create else (await session.call(SetData(path, data, ANY_VERSION))).error
            if error == Code.NO_NODE:
                error = (await session.call(create_request(path, data))).error
            self._note_refusal("znode not written", path, error)

        return self._in_session(write, "write a znode")

    def delete_znode(self, path: str) -> Task[None]:
        """Delete a znode."""

        async def delete(session: ZooKeeperSession) -> None:
            self._note_refusal("znode not deleted", path, (await session.call(Delete(path, ANY_VERSION))).error)

        return self._in_session(delete, "delete a znode")

    async def _delete_by_znode(self, what: str, topic: str, session: ZooKeeperSession) -> AdminResponse:
        """Request a topic deletion by creating the znode, in a release without a tool for it."""
        data = self._environment.version.znodes.deletion_request
        found = Code((await session.call(create_request(paths.delete_topic(topic), data))).error)
        response = AdminResponse(ErrorCode.NONE if found == Code.OK else ErrorCode.INVALID_REQUEST, found.name)
        self._record(what, response)
        return response

    def _in_session(self, work: Callable[[ZooKeeperSession], Coroutine[Future[Any], None, T]], name: str) -> Task[T]:
        """Work in the session of the ZooKeeper shell, again in the next one if it expires meanwhile."""

        async def guarded() -> T:
            while True:
                with suppress(SessionExpiredError):
                    return await work(await self._open())

        return self._track(self.process.spawn(guarded(), name))

    def _track(self, task: Task[T]) -> Task[T]:
        """Add a task to the open requests until it is done."""
        self._open_requests[task] = None
        task.add_done_callback(lambda _: self._open_requests.pop(task, None))
        return task

    def _note_refusal(self, what: str, path: str, error: int) -> None:
        if error:
            self._history.record(NAME, what, path, "", Code(error).name)

    async def _open(self) -> ZooKeeperSession:
        if self._session is None:
            self._session = ZooKeeperSession(self.process, self._environment.host, timeout_ms=SESSION_TIMEOUT_MS)
            self._opening = self.process.spawn(self._session.start(), "open a session")
        if self._opening is not None and not self._opening.done:
            await self._opening
        return self._session

    # -- tools that work in ZooKeeper: each command in a session of its own

    def _open_tool(self, timeout_ms: int) -> ZooKeeperSession:
        """Return a new session of a tool, which is not started."""
        self._tool = ZooKeeperSession(self.process, self._environment.host, timeout_ms=timeout_ms)
        return self._tool

    def alter_acls(self, what: str, *requests: protocol.AlterAclsRequest) -> Task[AdminResponse]:
        """Change the ACLs of resources with the release's tool."""
        version = self._environment.version
        open_session = partial(self._open_tool, int(version.defaults["zookeeper.session.timeout.ms"]))
        alter = partial(run_acls, requests, open_session, version)
        return self._track(self.process.spawn(self._run(what, alter), what))

    async def _run(
        self, what: str, command: Callable[[], Coroutine[Future[Any], None, AdminResponse | None]]
    ) -> AdminResponse:
        """Run a command of a tool, which fails with an exception if its session expires or a znode is invalid."""
        try:
            response = await command() or OK
        except SessionExpiredError:
            response = AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, "the tool's session expired")
        except ZnodeError as problem:
            response = AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
        self._record(what, response)
        return response

    async def _by_tool(self, steps: Sequence[tuple[str, object]]) -> AdminResponse:
        """Carry out requests with one command of a tool, in a session of its own, until one is rejected."""
        session = self._open_tool(SESSION_TIMEOUT_MS)
        response = await self._run(steps[0][0], session.start)
        for what, request in steps:
            if response.error == ErrorCode.NONE:
                response = await self._run(what, partial(self._carry_out, request, session))
        if session.connected:
            await self._run("close the tool's session", session.close)
        return response

    async def _carry_out(self, request: object, session: ZooKeeperSession) -> AdminResponse:
        """Carry out a request in the session of a tool."""
        version, config = self._environment.version, self._environment.config
        client = KafkaZooKeeperClient(session, version)

        async def racks() -> dict[int, str | None]:
            return {broker: registration.rack for broker, (registration, _) in (await client.brokers()).items()}

        defaults = config.integer("num.partitions"), config.integer("default.replication.factor")
        handlers = AdminHandlers(client, racks, random=self._placement, new_topic_id=None, defaults=defaults)
        match request:
            case protocol.CreateTopicRequest():
                return await handlers.create_topic(request)
            case protocol.AddPartitionsRequest():
                return await handlers.create_partitions(request)
            case protocol.DeleteTopicRequest():
                if version.controller.topic_deletion == "by tool":
                    await client.delete_recursive(paths.topic(request.name), ANY_VERSION)
                    return OK
                return await handlers.delete_topic(request)
            case protocol.AlterConfigRequest():
                return await handlers.alter_config(request)
            case protocol.ElectionRequest():
                if not version.tools.leaves_election_session:
                    return await _elect(request, client)
                second = self._open_tool(SESSION_TIMEOUT_MS)
                await second.start()
                response = await _elect(request, KafkaZooKeeperClient(second, version))
                second.drop_connection()  # the process ends without closing it
                return response
            case protocol.AlterReassignmentsRequest():
                return await _reassign(request, client)
        raise AssertionError(f"no tool supports {request!r}")

    # -- requests to brokers

    async def _request(self, what: str, request: object, via: int | str | None) -> AdminResponse:
        deadline_us = self.process.scheduler.now_us + GIVE_UP_US
        may_be_served = False
        response = _TIMED_OUT
        while self.process.scheduler.now_us < deadline_us:
            broker = self._controller() if via is None else via
            if broker is not None:
                try:
                    response = await self._connections.call(self.process, f"broker {broker}", request)
                except Disconnected:
                    may_be_served = True
                else:
                    if may_be_served and response.error in _ALREADY_SERVED:
                        response = OK
                    if response.error != ErrorCode.NOT_CONTROLLER:
                        break
                    response = _TIMED_OUT
            await self.process.sleep(RETRY_PAUSE_US)
        self._record(what, response)
        return response

    def _record(self, what: str, response: AdminResponse) -> None:
        if response.error != ErrorCode.NONE:
            self._history.record(NAME, "refused", what, "", f"{response.error.name} {response.message}".rstrip())
        for partition, error in response.partition_errors.items():
            if error not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                self._history.record(NAME, "refused", f"{what} {partition}", "", error.name)


def is_by_tool(request: object, version: KafkaVersion) -> bool:
    """Return whether the release's tool carries the request out in ZooKeeper.

    Broker configurations only up to 1.0; credentials of users up to 2.6, longer than other configurations.
    """
    if isinstance(request, protocol.AlterConfigRequest):
        if request.entity_path.startswith("brokers/"):
            return version.tools.writes_broker_configs
        if any(key in SCRAM_MECHANISMS for key in request.changes):
            return version.tools.writes_credentials
    return type(request) in version.tools.requests_in_zookeeper


def _is_in_zookeeper(request: object, via: int | str | None, version: KafkaVersion) -> bool:
    return via == ZOOKEEPER or (via is None and is_by_tool(request, version))


def _target(request: object, via: int | str | None, version: KafkaVersion) -> int | str | None:
    if (
        via is not None
        or not isinstance(request, protocol.AlterConfigRequest)
        or not request.entity_path.startswith("brokers/")
    ):
        return via
    in_zookeeper = protocol.AlterReassignmentsRequest in version.tools.requests_in_zookeeper
    return ZOOKEEPER if in_zookeeper else int(request.entity_path.removeprefix("brokers/"))


def _reject_request(request: object, _respond: object) -> None:
    raise AssertionError(f"the operator serves no requests: {request!r}")


async def _elect(request: protocol.ElectionRequest, client: KafkaZooKeeperClient) -> AdminResponse:
    if request.kind != "preferred":
        return AdminResponse(ErrorCode.UNSUPPORTED_VERSION, f"there is no {request.kind} election by request")
    partitions = request.partitions
    if partitions is None:
        found = await client.topics(await client.children(paths.TOPICS))
        every = [TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions]
        partitions = tuple(partition_set(every, client.version.orders.collections))
    listed = immutable_order(partitions, client.version.orders.scala, client.version.orders.election_hash)
    return await _ask(client, paths.PREFERRED_ELECTION, client.version.znodes.encode_election(listed))


async def _reassign(request: protocol.AlterReassignmentsRequest, client: KafkaZooKeeperClient) -> AdminResponse:
    targets = {partition: target for partition, target in request.targets.items() if target is not None}
    if len(targets) != len(request.targets):
        return AdminResponse(ErrorCode.UNSUPPORTED_VERSION, "a reassignment cannot be cancelled")
    refused = await _check_reassignment(targets, client)
    if refused is not None:
        return AdminResponse(ErrorCode.INVALID_REQUEST, refused)
    collections = client.version.orders.collections
    ordered = list(partition_set(targets, collections))
    if client.version.orders.reads_reassignments_into_mutable_map:  # the tool reads a map, then filters it
        ordered = mutable_partitions(mutable_partitions(targets, collections), collections)
    if client.version.orders.groups_reassignments_by_topic:
        ordered = _grouped_by_topic(ordered, collections)
    listed = {partition: targets[partition] for partition in ordered}
    return await _ask(client, paths.REASSIGN_PARTITIONS, client.version.znodes.encode_reassignment(listed))


def _grouped_by_topic(partitions: list[TopicPartition], collections: Collections) -> list[TopicPartition]:
    """Return partitions in the order of a map that is grouped by topic and merged again."""
    groups = grouped_by_topic(partitions)
    topics = immutable_order(mutable_order(groups, collections.scala), collections.scala)
    merged = [of for topic in topics for of in partition_set(groups[topic], collections)]
    return list(partition_set(merged, collections))


async def _check_reassignment(
    targets: dict[TopicPartition, tuple[int, ...]], client: KafkaZooKeeperClient
) -> str | None:
    """Return why the tool rejects a reassignment; None: it requests it.

    Up to 0.10.0 the tool drops unknown partitions from `targets` and requests the rest; up to 0.8.2 even an empty list,
    which no controller deletes.
    """
    checks = client.version.tools.reassignment_checks
    refused = reassign_tool.rejection(list(targets.items()), client.version)
    if refused is not None:
        return refused
    found = await client.topics(list(dict.fromkeys(partition.topic for partition in targets)))
    known = {TopicPartition(name, number) for name, topic in found.items() for number in topic.partitions}
    unknown = [partition for partition in targets if partition not in known]
    if unknown and "partitions" in checks:
        return reassign_tool.unknown_partitions(unknown, found, client.version)
    for partition in unknown:
        del targets[partition]
    if not targets and "none left" in checks:
        return "Failed to reassign partitions"
    if "brokers" in checks:
        refused = reassign_tool.dead_brokers(targets, await client.brokers(), client.version)
    if refused is None and "partitions" in checks and await client.exists(paths.REASSIGN_PARTITIONS):
        return "There is an existing assignment running."
    return refused


async def _ask(client: KafkaZooKeeperClient, path: str, data: bytes) -> AdminResponse:
    if await client.create_recursive(path, data) == Code.NODE_EXISTS:
        return AdminResponse(ErrorCode.INVALID_REQUEST, f"{path} already exists")
    return OK
