"""Operator of a simulated cluster: requests to brokers, Kafka's tools, and znodes written directly.

Rules of the module (Kafka's AdminClient; docs/reference/kafka.md §2.9 to §2.12):
  - a request for the controller goes to the broker in `/controller`, and is retried for a minute while there is none;
    a request that any broker serves goes to the given broker, or to the controller;
  - requests that the release's tools carry out in ZooKeeper run in their own session (`simzk.kafka.tools.commands`);
  - a request that was lost with its connection may have been served: a retry that finds the work done has succeeded;
  - a rejection is an event of the history, and the result of the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from simzk.errors import ConfigError, ZnodeError
from simzk.jvm.numbers import JavaRandom
from simzk.kafka import paths
from simzk.kafka.requests import AdminResponse, AlterConfigRequest, AlterReassignmentsRequest, DeleteTopicRequest, Error
from simzk.kafka.rpc import Disconnected
from simzk.kafka.tools.acls import run as run_acls
from simzk.kafka.tools.commands import SESSION_TIMEOUT_MS, is_by_tool
from simzk.kafka.tools.commands import run as run_tool
from simzk.kafka.zookeeper_client.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, create_request
from simzk.simulation import Process, Scheduler, Task
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from simzk.kafka.broker.environment import Environment
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.requests import AlterAclsRequest
    from simzk.simulation import Future

T = TypeVar("T")

NAME = "admin"
RETRY_PAUSE_US = 100_000
GIVE_UP_US = 60_000_000
ZOOKEEPER = "zookeeper"
_ALREADY_SERVED = {Error.TOPIC_ALREADY_EXISTS, Error.NO_REASSIGNMENT_IN_PROGRESS}
_TIMED_OUT = AdminResponse(Error.BROKER_NOT_AVAILABLE, "no broker could serve it within a minute")


class Operator:
    """Admin client, tools of the release, and ZooKeeper shell.

    Args:
        scheduler: virtual time.
        world: connections to brokers and ZooKeeper, the release, and the history for rejections.
        controller: returns the broker in `/controller`.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        world: Environment,
        controller: Callable[[], int | None],
    ) -> None:
        self.process = Process(scheduler, NAME)
        self._connections = connections = world.connections
        self._history = world.history
        self._world = world
        self._controller = controller
        self._session: ZooKeeperSession | None = None
        self._tool: ZooKeeperSession | None = None
        self._placement = JavaRandom(scheduler.stream("placement/tool").bits(48))
        self._opening: Task[None] | None = None
        self._open_requests: dict[Task[Any], None] = {}
        connections.register(self.process, _reject_request)

    def holds(self, session_id: int) -> bool:
        """Return whether a session belongs to the ZooKeeper shell or to the last tool."""
        return any(own is not None and own.session_id == session_id for own in (self._session, self._tool))

    @property
    def busy(self) -> bool:
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
        if via == ZOOKEEPER and not self._world.version.tools.accepts_zookeeper:
            raise ConfigError(
                f"no tool of Kafka {self._world.version.name} does this in ZooKeeper", where="via", right="a broker"
            )
        if isinstance(request, DeleteTopicRequest) and self._world.version.controller.topic_deletion == "by znode":
            return self._in_session(lambda: self._delete_by_znode(what, request.name), what)
        if via == ZOOKEEPER or (via is None and is_by_tool(request, self._world.version)):
            return self._track(self.process.spawn(self._by_tool(what, request), what))
        return self._track(self.process.spawn(self._request(what, request, via), what))

    def in_turn(self, steps: Sequence[tuple[str, object]], via: int | str | None = None) -> Task[AdminResponse]:
        """Send requests one after another until one is rejected.

        A broker's configuration is requested from that broker, unless a tool writes it to ZooKeeper.
        """

        async def work() -> AdminResponse:
            response = _TIMED_OUT
            for what, request in steps:
                target = _target(request, via, self._world.version)
                by_tool = target == ZOOKEEPER or (target is None and is_by_tool(request, self._world.version))
                response = await (self._by_tool(what, request) if by_tool else self._request(what, request, target))
                if response.error != Error.NONE:
                    break
            return response

        return self._track(self.process.spawn(work(), steps[0][0]))

    def write_znode(self, path: str, data: bytes | None) -> Task[None]:
        """Set a znode, or create it if it is missing."""

        async def write() -> None:
            session = await self._open()
            reply = await session.call(SetData(path, data, ANY_VERSION))
            if reply.error == Code.NO_NODE:
                reply = await session.call(create_request(path, data))
            self._note_refusal("znode not written", path, reply.error)

        return self._in_session(write, "write a znode")

    def delete_znode(self, path: str) -> Task[None]:
        """Delete a znode."""

        async def delete() -> None:
            session = await self._open()
            reply = await session.call(Delete(path, ANY_VERSION))
            self._note_refusal("znode not deleted", path, reply.error)

        return self._in_session(delete, "delete a znode")

    async def _delete_by_znode(self, what: str, topic: str) -> AdminResponse:
        """Request a topic deletion by creating the znode, in a release without a tool for it."""
        session = await self._open()
        data = self._world.version.znodes.deletion_request
        reply = await session.call(create_request(paths.delete_topic(topic), data))
        found = Code(reply.error)
        response = AdminResponse(Error.NONE if found == Code.OK else Error.INVALID_REQUEST, found.name)
        self._record(what, response)
        return response

    def _in_session(self, work: Callable[[], Coroutine[Future[Any], None, T]], name: str) -> Task[T]:
        async def guarded() -> T:
            while True:
                try:
                    return await work()
                except SessionExpiredError:
                    continue

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
            self._session = ZooKeeperSession(self.process, self._world.host, timeout_ms=SESSION_TIMEOUT_MS)
            self._opening = self.process.spawn(self._session.start(), "open a session")
        if self._opening is not None and not self._opening.done:
            await self._opening
        return self._session

    async def _by_tool(self, what: str, request: object) -> AdminResponse:
        def open_session() -> ZooKeeperSession:
            self._tool = ZooKeeperSession(self.process, self._world.host, timeout_ms=SESSION_TIMEOUT_MS)
            return self._tool

        config = self._world.config
        defaults = (config.integer("num.partitions"), config.integer("default.replication.factor"))
        try:
            response = await run_tool(
                request,
                open_session(),
                self._world.version,
                random=self._placement,
                defaults=defaults,
                second=open_session,
            )
        except SessionExpiredError:
            response = AdminResponse(Error.UNKNOWN_SERVER_ERROR, "the tool's session expired")
        except ZnodeError as problem:  # the tool fails with an exception
            response = AdminResponse(Error.UNKNOWN_SERVER_ERROR, str(problem))
        self._record(what, response)
        return response

    def alter_acls(self, what: str, *requests: AlterAclsRequest) -> Task[AdminResponse]:
        """Change the ACLs of resources with the release's tool."""

        def open_session() -> ZooKeeperSession:
            version = self._world.version
            timeout_ms = int(version.defaults["zookeeper.session.timeout.ms"])
            self._tool = ZooKeeperSession(self.process, self._world.host, timeout_ms=timeout_ms)
            return self._tool

        async def alter() -> AdminResponse:
            try:
                response = await run_acls(requests, open_session, self._world.version)
            except SessionExpiredError:
                response = AdminResponse(Error.UNKNOWN_SERVER_ERROR, "the tool's session expired")
            except ZnodeError as error:
                response = AdminResponse(Error.UNKNOWN_SERVER_ERROR, str(error))
            self._record(what, response)
            return response

        return self._track(self.process.spawn(alter(), what))

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
                        response = AdminResponse(Error.NONE)
                    if response.error != Error.NOT_CONTROLLER:
                        break
                    response = _TIMED_OUT
            await self.process.sleep(RETRY_PAUSE_US)
        self._record(what, response)
        return response

    def _record(self, what: str, response: AdminResponse) -> None:
        if response.error != Error.NONE:
            self._history.record(NAME, "refused", what, "", f"{response.error.name} {response.message}".rstrip())
        for partition, error in response.partition_errors.items():
            if error not in (Error.NONE, Error.ELECTION_NOT_NEEDED):
                self._history.record(NAME, "refused", f"{what} {partition}", "", error.name)


def _target(request: object, via: int | str | None, version: KafkaVersion) -> int | str | None:
    if via is not None or not isinstance(request, AlterConfigRequest) or not request.entity_path.startswith("brokers/"):
        return via
    in_zookeeper = AlterReassignmentsRequest in version.tools.requests_in_zookeeper
    return ZOOKEEPER if in_zookeeper else int(request.entity_path.removeprefix("brokers/"))


def _reject_request(request: object, _respond: object) -> None:
    raise AssertionError(f"the operator serves no requests: {request!r}")
