"""The requests of ZooKeeper's protocol, as values: what the wire decodes, and what a simulated broker hands in.

Rules of this module:
  - one class a request, its fields in the order of the wire (docs/reference/zookeeper.md §1.5);
  - values only: no behaviour, no defaults that the wire does not have, nothing mutable;
  - paths are text, data is bytes or None (null and empty differ, §2.1), versions are 32-bit, -1 meaning any;
  - None where the wire allows a null: the server answers it as the real one does (§1.1).
"""

from __future__ import annotations

from typing import NamedTuple

from simzk.jvm.hash_codes import string_hash


class Id(NamedTuple):
    """Whom an ACL entry speaks of: a scheme and an id within it, as `Id("world", "anyone")`."""

    scheme: str | None
    id: str | None

    def hash_code(self) -> int:
        """Return `Id.hashCode` as jute generates it; it decides the order of a connection's identities."""
        return 37 * (37 * 17 + string_hash(self.scheme or "")) + string_hash(self.id or "")


class ACL(NamedTuple):
    """One entry of an access control list: permission bits and whom they are given to."""

    perms: int
    id: Id


OPEN_ACL: tuple[ACL, ...] = (ACL(31, Id("world", "anyone")),)


class Create(NamedTuple):
    """Make a znode; the reply is its path. `flags`: 0 persistent, 1 ephemeral, 2 and 3 the same in sequence."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int


class Create2(NamedTuple):
    """As `Create`; the reply has the Stat too."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int


class CreateContainer(NamedTuple):
    """Make a container: it goes when its last child has gone."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int


class CreateTTL(NamedTuple):
    """Make a znode that goes when it had no child and no set for `ttl_ms`."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int
    ttl_ms: int


class Delete(NamedTuple):
    """Remove a znode without children, if its version is the one named."""

    path: str | None
    version: int


class DeleteContainer(NamedTuple):
    """Remove an empty container; a client may send it, and no ACL is asked (§1.5)."""

    path: str | None


class Exists(NamedTuple):
    """Ask for the Stat; a watch is left whether the znode is there or not."""

    path: str | None
    watch: bool


class GetData(NamedTuple):
    """Ask for data and Stat; a watch is left only if the znode is there."""

    path: str | None
    watch: bool


class SetData(NamedTuple):
    """Replace the data, if the version is the one named; the reply is the Stat."""

    path: str | None
    data: bytes | None
    version: int


class GetACL(NamedTuple):
    """Ask for the ACL and the Stat."""

    path: str | None


class SetACL(NamedTuple):
    """Replace the ACL, if the ACL version is the one named; the reply is the Stat."""

    path: str | None
    acl: tuple[ACL, ...] | None
    version: int


class GetChildren(NamedTuple):
    """Ask for the names of the children, in the order of the server."""

    path: str | None
    watch: bool


class GetChildren2(NamedTuple):
    """As `GetChildren`, with the Stat."""

    path: str | None
    watch: bool


class Sync(NamedTuple):
    """Have the server catch up with the leader; the reply echoes the path."""

    path: str | None


class Ping(NamedTuple):
    """Say that one is alive; the xid of the reply is -2 whatever was asked with."""


class Check(NamedTuple):
    """Only inside a `Multi`."""

    path: str | None
    version: int


class Multi(NamedTuple):
    """Writes and checks that happen together or not at all (§1.6)."""

    operations: tuple[Create | Create2 | CreateContainer | CreateTTL | Delete | SetData | Check, ...]


class MultiRead(NamedTuple):
    """Reads answered together. A write among them is taken off the wire, and refused when its turn comes."""

    operations: tuple[
        GetData | GetChildren | Create | Create2 | CreateContainer | CreateTTL | Delete | SetData | Check, ...
    ]


class Auth(NamedTuple):
    """Show who one is; what it adds belongs to the connection."""

    auth_type: int
    scheme: str | None
    auth: bytes | None


class SetWatches(NamedTuple):
    """Leave watches again after a reconnection; what changed since `relative_zxid` fires at once."""

    relative_zxid: int
    data: tuple[str | None, ...] | None
    exist: tuple[str | None, ...] | None
    child: tuple[str | None, ...] | None


class SetWatches2(NamedTuple):
    """As `SetWatches`, with persistent watches, which fire nothing at once."""

    relative_zxid: int
    data: tuple[str | None, ...] | None
    exist: tuple[str | None, ...] | None
    child: tuple[str | None, ...] | None
    persistent: tuple[str | None, ...] | None
    persistent_recursive: tuple[str | None, ...] | None


class AddWatch(NamedTuple):
    """Leave a persistent watch: mode 0 for the znode, 1 for all below it too."""

    path: str | None
    mode: int


class CheckWatches(NamedTuple):
    """Ask whether this connection has a watch of a type on a path."""

    path: str | None
    watcher_type: int


class RemoveWatches(NamedTuple):
    """Take a watch of a type away; no event tells of it."""

    path: str | None
    watcher_type: int


class GetEphemerals(NamedTuple):
    """Ask for this session's ephemerals below a prefix."""

    prefix: str | None


class GetAllChildrenNumber(NamedTuple):
    """Ask how many descendants a znode has."""

    path: str | None


class WhoAmI(NamedTuple):
    """Ask for the identities of the connection."""


class Reconfig(NamedTuple):
    """Change the members of an ensemble."""

    joining_servers: str | None
    leaving_servers: str | None
    new_members: str | None
    config_id: int


class Sasl(NamedTuple):
    """One step of a SASL exchange."""

    token: bytes | None


class CreateSession(NamedTuple):
    """Ask for a session where there is one: answered by another `ConnectResponse`, and a transaction. No client library
    sends it; the real server obeys whoever does."""

    timeout_ms: int


class CloseSession(NamedTuple):
    """End the session: its ephemerals go, then the connection."""


class Undecodable(NamedTuple):
    """A request whose body does not parse: answered with MARSHALLING_ERROR, the connection stays open (§1.4).

    `takes_zxid` is True for a multi that breaks off and for a `CreateSession`: the real server has given them a zxid by
    then.
    """

    opcode: int
    takes_zxid: bool


class Unimplemented(NamedTuple):
    """A request of an opcode that no client may send: answered UNIMPLEMENTED, then the connection closes (§1.4)."""

    opcode: int


class ConnectRequest(NamedTuple):
    """The first record of a connection. `read_only` is None where the client is too old to send the byte (§1.3)."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool | None


Request = (
    Create
    | Create2
    | CreateContainer
    | CreateTTL
    | Delete
    | DeleteContainer
    | Exists
    | GetData
    | SetData
    | GetACL
    | SetACL
    | GetChildren
    | GetChildren2
    | Sync
    | Ping
    | Check
    | Multi
    | MultiRead
    | Auth
    | SetWatches
    | SetWatches2
    | AddWatch
    | CheckWatches
    | RemoveWatches
    | GetEphemerals
    | GetAllChildrenNumber
    | WhoAmI
    | Reconfig
    | Sasl
    | CreateSession
    | CloseSession
    | Undecodable
    | Unimplemented
)
