"""The operator of a simulated cluster: requests to brokers, and znodes written by hand.

Rules of the module (Kafka's AdminClient; docs/reference/kafka.md §2.9 to §2.12):
  - what the controller must do is sent to the broker that stands in `/controller`, and sent again while there is
    none, for a minute; what any broker can do goes to the one that is named, or to the controller;
  - a request that was lost with its connection may have been served: a second try that finds its work done has
    succeeded;
  - what a broker refuses is an event of the history, and the result of the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from simzk.kafka.protocol import AdminResponse, Error
from simzk.kafka.rpc import Connections, Disconnected
from simzk.kafka.session import SessionExpiredError, ZooKeeperSession
from simzk.kafka.zk_client import ANY_VERSION, create_request
from simzk.simulation import History, Process, Scheduler, Task
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.zookeeper_host import ZooKeeperHost

T = TypeVar("T")

NAME = "admin"
RETRY_PAUSE_US = 100_000
GIVE_UP_US = 60_000_000
SESSION_TIMEOUT_MS = 30_000
_DONE_ALREADY = {Error.TOPIC_ALREADY_EXISTS, Error.NO_REASSIGNMENT_IN_PROGRESS}
_TIMED_OUT = AdminResponse(Error.BROKER_NOT_AVAILABLE, "no broker could serve it within a minute")


class Operator:
    """Whoever runs the cluster: an admin client and a ZooKeeper shell.

    Args:
        scheduler: virtual time.
        connections: the way to the brokers.
        host: the way to ZooKeeper.
        history: where refusals are told.
        controller: who stands in `/controller` now.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        connections: Connections,
        host: ZooKeeperHost,
        history: History,
        controller: Callable[[], int | None],
    ) -> None:
        self.process = Process(scheduler, NAME)
        self._connections = connections
        self._host = host
        self._history = history
        self._controller = controller
        self._session: ZooKeeperSession | None = None
        self._opening: Task[None] | None = None
        self._open_requests: dict[Task[Any], None] = {}
        connections.register(self.process, _serve_nothing)

    @property
    def session_id(self) -> int:
        """The session of the ZooKeeper shell, 0 before it was used."""
        return 0 if self._session is None else self._session.session_id

    @property
    def busy(self) -> bool:
        """Whether something that was asked for has no answer yet."""
        return bool(self._open_requests)

    def request(self, what: str, request: object, via: int | None = None) -> Task[AdminResponse]:
        """Send a request to a broker (the controller where none is named) until it is served."""
        return self._kept(self.process.spawn(self._request(what, request, via), what))

    def write_znode(self, path: str, data: bytes | None) -> Task[None]:
        """Set a znode, or create it where it is not there."""

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

    def _in_session(self, work: Callable[[], Any], name: str) -> Task[None]:
        async def guarded() -> None:
            while True:
                try:
                    await work()
                except SessionExpiredError:
                    continue
                return

        return self._kept(self.process.spawn(guarded(), name))

    def _kept(self, task: Task[T]) -> Task[T]:
        """Keep a book of what is under way."""
        self._open_requests[task] = None
        task.add_done_callback(lambda _: self._open_requests.pop(task, None))
        return task

    def _note_refusal(self, what: str, path: str, error: int) -> None:
        if error:
            self._history.record(NAME, what, path, "", Code(error).name)

    async def _open(self) -> ZooKeeperSession:
        if self._session is None:
            self._session = ZooKeeperSession(self.process, self._host, timeout_ms=SESSION_TIMEOUT_MS)
            self._opening = self.process.spawn(self._session.start(), "open a session")
        if self._opening is not None and not self._opening.done:
            await self._opening
        return self._session

    async def _request(self, what: str, request: object, via: int | None) -> AdminResponse:
        deadline_us = self.process.scheduler.now_us + GIVE_UP_US
        may_be_done = False
        response = _TIMED_OUT
        while self.process.scheduler.now_us < deadline_us:
            broker = self._controller() if via is None else via
            if broker is not None:
                try:
                    response = await self._connections.call(self.process, f"broker {broker}", request)
                except Disconnected:
                    may_be_done = True
                else:
                    if may_be_done and response.error in _DONE_ALREADY:
                        response = AdminResponse(Error.NONE)
                    if response.error != Error.NOT_CONTROLLER:
                        break
                    response = _TIMED_OUT
            await self.process.sleep(RETRY_PAUSE_US)
        self._tell(what, response)
        return response

    def _tell(self, what: str, response: AdminResponse) -> None:
        if response.error != Error.NONE:
            self._history.record(NAME, "refused", what, "", f"{response.error.name} {response.message}".rstrip())
        for partition, error in response.partition_errors.items():
            if error not in (Error.NONE, Error.ELECTION_NOT_NEEDED):
                self._history.record(NAME, "refused", f"{what} {partition}", "", error.name)


def _serve_nothing(request: object, _respond: object) -> None:
    raise AssertionError(f"the operator was asked for {request!r}")
