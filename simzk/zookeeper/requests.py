"""Requests of ZooKeeper's protocol as values: the wire decodes them, simulated brokers send them directly.

Rules of this module:
  - one class per request, with fields in the order of the wire (docs/reference/zookeeper.md §1.5);
  - values only: no behaviour, no defaults that the wire does not have, nothing mutable;
  - paths are text, data is bytes or None (null and empty differ, §2.1), versions have 32 bits, -1 is any version;
  - a field is None if the wire has a null: the server answers it as the real one does (§1.1).
"""

from __future__ import annotations

from typing import NamedTuple

from simzk.jvm.hash_codes import string_hash


class Id(NamedTuple):
    """Identity: a scheme and an id within it, as `Id("world", "anyone")`."""

    scheme: str | None
    id: str | None

    def hash_code(self) -> int:
        """Return `Id.hashCode` as jute generates it; it decides the order of a connection's identities."""
        return 37 * (37 * 17 + string_hash(self.scheme or "")) + string_hash(self.id or "")


class ACL(NamedTuple):
    """Entry of an access control list: permission bits and the identity that has them."""

    perms: int
    id: Id


OPEN_ACL: tuple[ACL, ...] = (ACL(31, Id("world", "anyone")),)


class Create(NamedTuple):
    """Create a znode; the reply is its path. `flags`: 0 persistent, 1 ephemeral, 2 and 3 the same and sequential."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int


class Create2(NamedTuple):
    """Create a znode; the reply is its path and Stat."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int


class CreateContainer(NamedTuple):
    """Create a container, which is removed after its last child was deleted."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int


class CreateTTL(NamedTuple):
    """Create a TTL node, which is removed after `ttl_ms` without children and writes."""

    path: str | None
    data: bytes | None
    acl: tuple[ACL, ...] | None
    flags: int
    ttl_ms: int


class Delete(NamedTuple):
    """Delete a znode without children if it has the version, or any for -1."""

    path: str | None
    version: int


class DeleteContainer(NamedTuple):
    """Delete an empty container; clients may send it, and no ACL is checked (§1.5)."""

    path: str | None


class Exists(NamedTuple):
    """Get the Stat; the watch is set even if the znode is missing."""

    path: str | None
    watch: bool


class GetData(NamedTuple):
    """Get data and Stat; the watch is set only if the znode exists."""

    path: str | None
    watch: bool


class SetData(NamedTuple):
    """Replace the data if the znode has the version, or any for -1; the reply is the Stat."""

    path: str | None
    data: bytes | None
    version: int


class GetACL(NamedTuple):
    """Get the ACL and the Stat."""

    path: str | None


class SetACL(NamedTuple):
    """Replace the ACL if the znode has the ACL version, or any for -1; the reply is the Stat."""

    path: str | None
    acl: tuple[ACL, ...] | None
    version: int


class GetChildren(NamedTuple):
    """Get the names of the children in the order of the server."""

    path: str | None
    watch: bool


class GetChildren2(NamedTuple):
    """Get the names of the children and the Stat."""

    path: str | None
    watch: bool


class Sync(NamedTuple):
    """Wait until the server has caught up with the leader; the reply is the path."""

    path: str | None


class Ping(NamedTuple):
    """Keep the session alive; the xid of the reply is always -2."""


class Check(NamedTuple):
    """Check the version of a znode; valid only in a `Multi`."""

    path: str | None
    version: int


class Multi(NamedTuple):
    """Apply all writes and checks, or none of them (§1.6)."""

    operations: tuple[CreateRequest | Delete | SetData | Check, ...]

    @property
    def has_null_path(self) -> bool:
        """Return whether an operation has no path; the real server fails on it before it checks the others."""
        return None in [operation.path for operation in self.operations]


class MultiRead(NamedTuple):
    """Answer several reads. A write among them decodes, and is rejected when it is processed."""

    operations: tuple[GetData | GetChildren | CreateRequest | Delete | SetData | Check, ...]


class Auth(NamedTuple):
    """Authenticate; the identity belongs to the connection."""

    auth_type: int
    scheme: str | None
    auth: bytes | None


class SetWatches(NamedTuple):
    """Set watches again after a reconnection; changes after `relative_zxid` fire at once."""

    relative_zxid: int
    data: tuple[str | None, ...] | None
    exist: tuple[str | None, ...] | None
    child: tuple[str | None, ...] | None


class SetWatches2(NamedTuple):
    """Set watches again, persistent ones included, which never fire at once."""

    relative_zxid: int
    data: tuple[str | None, ...] | None
    exist: tuple[str | None, ...] | None
    child: tuple[str | None, ...] | None
    persistent: tuple[str | None, ...] | None
    persistent_recursive: tuple[str | None, ...] | None


class AddWatch(NamedTuple):
    """Set a persistent watch: mode 0 on the znode, 1 also on its descendants."""

    path: str | None
    mode: int


class CheckWatches(NamedTuple):
    """Check whether this connection has a watch of a type on a path."""

    path: str | None
    watcher_type: int


class RemoveWatches(NamedTuple):
    """Remove the watches of a type from a path; no event is sent."""

    path: str | None
    watcher_type: int


class GetEphemerals(NamedTuple):
    """Get this session's ephemerals with a path prefix."""

    prefix: str | None


class GetAllChildrenNumber(NamedTuple):
    """Get the number of descendants of a znode."""

    path: str | None


class WhoAmI(NamedTuple):
    """Get the identities of the connection."""


class Reconfig(NamedTuple):
    """Change the members of an ensemble."""

    joining_servers: str | None
    leaving_servers: str | None
    new_members: str | None
    config_id: int


class Sasl(NamedTuple):
    """Send a token of a SASL login."""

    token: bytes | None


class CreateSession(NamedTuple):
    """Create the connection's session again: a transaction and another `ConnectResponse`.

    No client library sends it, but the real server processes it.
    """

    timeout_ms: int


class CloseSession(NamedTuple):
    """Close the session: delete its ephemerals, then close the connection."""


class Undecodable(NamedTuple):
    """Request with a malformed body: answered with MARSHALLING_ERROR; the connection stays open (§1.4).

    `takes_zxid` is True for a truncated multi and for a `CreateSession`, before 3.9 for any write: the real server
    assigns them a zxid before it decodes the body. `has_results` is True for a multi that fails as it is decoded, but
    has no zxid, before 3.9: the error is followed by an empty list of results.
    """

    opcode: int
    takes_zxid: bool
    has_results: bool = False


class Unimplemented(NamedTuple):
    """Request with an opcode that clients cannot send: answered by UNIMPLEMENTED and a closed connection (§1.4)."""

    opcode: int


class ConnectRequest(NamedTuple):
    """First record of a connection. `read_only` is None for a client too old to send the byte (§1.3)."""

    protocol_version: int
    last_zxid_seen: int
    timeout_ms: int
    session_id: int
    password: bytes | None
    read_only: bool | None


CreateRequest = Create | Create2 | CreateContainer | CreateTTL
WriteRequest = CreateRequest | Delete | DeleteContainer | SetData | SetACL | Check | Multi | Reconfig
ReadRequest = Exists | GetData | GetACL | GetChildren | GetChildren2 | GetEphemerals | GetAllChildrenNumber | MultiRead
WatchRequest = SetWatches | SetWatches2 | AddWatch | CheckWatches | RemoveWatches
SessionRequest = Ping | Sync | Auth | Sasl | WhoAmI | CreateSession | CloseSession
Request = WriteRequest | ReadRequest | WatchRequest | SessionRequest | Undecodable | Unimplemented
