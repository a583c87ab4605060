"""A connection to a server of an ensemble: it may have to wait for what its server has yet to apply."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from simzk.tuples import NamedTuple
from simzk.zookeeper.connection import Connection

if TYPE_CHECKING:
    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.quotas import Quotas
    from simzk.zookeeper.requests import Request


class Held(NamedTuple):
    """A request that waits behind others of its connection."""

    xid: int
    request: Request


class Awaited(NamedTuple):
    """An answer that is given once the server has come to a position of the history."""

    position: int


class MemberConnection(Connection):
    """A connection, made by `Member.connect`.

    Attributes:
        waiting: what is not answered yet, in the order of the answers.
        leaving: the client has closed its session: nothing more is heard.
    """

    __slots__ = ("leaving", "waiting")

    def __init__(self, address: str, owner: object, config: ServerConfig, quotas: Quotas) -> None:
        super().__init__(address, owner, config, quotas)
        self.waiting: deque[Held | Awaited] = deque()
        self.leaving = False
