"""Requests that fail because a test says so, told at the one point between transport and server.

Rules of this module:
  - an operation is called as the method of kazoo's client, an error is kazoo's exception class: no second vocabulary;
  - a request that is told to fail never reaches the server, so it changes nothing and uses no zxid;
  - failures are used up in the order in which they were asked for, one for each matching request.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import SimzkError
from simzk.zookeeper import requests
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from simzk.zookeeper.requests import Request

# Methods of KazooClient and the requests that they send.
OPERATIONS: dict[str, tuple[type[Request], ...]] = {
    "create": (requests.Create, requests.Create2, requests.CreateContainer, requests.CreateTTL),
    "delete": (requests.Delete,),
    "exists": (requests.Exists,),
    "get": (requests.GetData,),
    "set": (requests.SetData,),
    "get_acls": (requests.GetACL,),
    "set_acls": (requests.SetACL,),
    "get_children": (requests.GetChildren, requests.GetChildren2),
    "sync": (requests.Sync,),
    "transaction": (requests.Multi,),
    "add_auth": (requests.Auth,),
    "reconfig": (requests.Reconfig,),
}


class Failure(NamedTuple):
    """What a request is answered with instead of being handled."""

    operation: str
    code: Code


class FailureQueue:
    """The failures asked for and not yet used."""

    def __init__(self) -> None:
        self._waiting: dict[type[Request], deque[Failure]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, operation: str, error: type[Exception], times: int) -> None:
        """Let the next `times` requests of `operation` fail with `error`.

        Raises:
            SimzkError: no such operation, an exception that no server sends, or a count below 1.
        """
        kinds = OPERATIONS.get(operation)
        if kinds is None:
            raise SimzkError(
                f"no operation is called {operation!r}", where="op", right=f"one of {', '.join(OPERATIONS)}"
            )
        code = getattr(error, "code", None)
        if not isinstance(code, int) or code == Code.OK or code not in set(Code):
            raise SimzkError(
                f"{getattr(error, '__name__', error)!s} is no error of ZooKeeper's protocol",
                where="error",
                right="an exception class of kazoo.exceptions that has a code, as ConnectionLoss or NoNodeError",
            )
        if times < 1:
            raise SimzkError(f"{times} requests cannot fail", where="n", right="1 or more")
        waiting: deque[Failure] = next((self._waiting[kind] for kind in kinds if kind in self._waiting), deque())
        waiting.extend([Failure(operation, Code(code))] * times)
        for kind in kinds:
            self._waiting[kind] = waiting

    def take(self, request: Request) -> Failure | None:
        """The failure that `request` meets, now used up; None where it is to be handled."""
        if not self._waiting:
            return None
        waiting = self._waiting.get(type(request))
        if waiting is None:
            return None
        failure = waiting.popleft()
        if not waiting:
            for kind in OPERATIONS[failure.operation]:
                del self._waiting[kind]
        return failure
