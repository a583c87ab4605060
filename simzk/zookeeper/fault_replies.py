"""What a fault does to ZooKeeper's messages, whoever carries them (simzk/simulation/faults/point.py asks for it)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from simzk.zookeeper.replies import Reply
from simzk.zookeeper.requests import Undecodable

if TYPE_CHECKING:
    from simzk.zookeeper.requests import Request

LinkT = TypeVar("LinkT")


class FaultReplies(ABC, Generic[LinkT]):
    """The part of a fault point's driver that is the same over sockets, in memory and in virtual time."""

    @abstractmethod
    def pass_on(self, link: LinkT, xid: int, request: Request) -> None:
        """Hand a request to the server; each driver has its own way."""

    def pass_nothing(self, link: LinkT, xid: int) -> None:
        """In a request's place, a body that does not parse: it is answered in its turn and changes nothing."""
        self.pass_on(link, xid, Undecodable(0, False))

    def xid_of(self, message: object) -> int | None:
        """Of a reply the xid; None for what is none."""
        return message.xid if isinstance(message, Reply) else None

    def with_error(self, message: object, code: int) -> Reply:
        """The reply of the same xid that refuses with an error."""
        assert isinstance(message, Reply)
        return Reply(message.xid, message.zxid, code, None)
