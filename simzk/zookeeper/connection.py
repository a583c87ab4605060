"""One client's connection as the server sees it: whose session, who the client is, what is to be sent to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.concurrent_hash_map import concurrent_order
from simzk.zookeeper.prepare import Asker
from simzk.zookeeper.requests import Id

if TYPE_CHECKING:
    from simzk.zookeeper.config import ServerConfig
    from simzk.zookeeper.quotas import Quotas
    from simzk.zookeeper.replies import Outgoing
    from simzk.zookeeper.sasl import DigestMd5
    from simzk.zookeeper.sessions import Session


class Connection:
    """A connection, made by `Server.connect`; only the server changes it, but for the two attributes of its driver.

    Attributes:
        session_id: the session's id, 0 where the server refused the connection.
        timeout_ms: the session timeout that this connection negotiated.
        heard_ms: when the last request came; -1 before the first.
        closed: the server has nothing more to say than what is in `outgoing`, and hears nothing more.
        address: the client's address, its identity in the ip scheme.
        outgoing: what is to be sent, in order; `Server.take_output` takes it.
        owner: whatever the driver wants to find its way back by; the server never looks at it.
        read_only: what connect responses say of the server; None where the client is too old to hear it.
        sasl: how far it has come in logging in; None before that.
        attended: the driver's word that the client is there though it may be silent: while True, `Server.tick`
            touches the session instead of expiring it.
    """

    __slots__ = (
        "_shown",
        "address",
        "asker",
        "attended",
        "closed",
        "heard_ms",
        "outgoing",
        "owner",
        "read_only",
        "sasl",
        "session",
        "session_id",
        "timeout_ms",
    )

    def __init__(self, address: str, owner: object, config: ServerConfig, quotas: Quotas) -> None:
        self.session: Session | None = None
        self.session_id: int = 0
        self.timeout_ms: int = 0
        self.closed: bool = False
        self.heard_ms: int = -1
        self.address: str = address
        self.outgoing: list[Outgoing] = []
        self.owner: object = owner
        self.read_only: bool | None = None
        self.sasl: DigestMd5 | None = None
        self.attended: bool = False
        self.asker: Asker = Asker((Id("ip", address),), config, config.rules, quotas)
        self._shown = self.asker.identities

    def __repr__(self) -> str:
        return f"Connection(0x{self.session_id:x}, {self.address}{', closed' if self.closed else ''})"

    @property
    def identities(self) -> tuple[Id, ...]:
        """Who the client has shown to be, in the order of the real server's set."""
        return self.asker.identities

    def add_identity(self, identity: Id) -> None:
        """The client has shown to be this one too."""
        if identity not in self.identities:
            self._shown = (*self._shown, identity)
            self.asker = self.asker._replace(identities=tuple(concurrent_order(self._shown, Id.hash_code)))
