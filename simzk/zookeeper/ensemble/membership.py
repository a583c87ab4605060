"""Who belongs to an ensemble, as /zookeeper/config says it, and what a reconfiguration makes of it.

Rules of this module:
  - a member is a line, `server.ID=HOST:PORT:ELECTION_PORT[:participant|:observer][;[CLIENT_HOST:]CLIENT_PORT]`;
  - a membership's version is the zxid of the reconfiguration that made it; of the first, the first leader's first
    zxid, or 0 where there are no reconfigurations;
  - what is joined or left changes the present membership, leaving first; new members replace it;
  - members are listed in the order of Java's HashMap of their ids;
  - hosts are compared as text: no name is looked up here.

Source: PrepRequestProcessor (reconfig), QuorumPeer.QuorumServer, QuorumPeerConfig.parseDynamicConfig, QuorumMaj.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, NamedTuple

from simzk.jvm.hash_codes import long_hash
from simzk.jvm.hash_map import clone_capacity, hash_map_order
from simzk.zookeeper.replies import Code, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.zookeeper.requests import Reconfig

ANY_HOST = "0.0.0.0"
MIN_VOTERS = 2
"""Fewer make no ensemble (standaloneEnabled)."""
_MAP_CAPACITY = 16
_INTEGER = re.compile(r"[+-]?\d+")


class Endpoint(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ServerLine(NamedTuple):
    """One member.

    Attributes:
        server_id: its id.
        peer: where it speaks with its leader.
        election_port: on the same host, where it takes part in elections.
        observes: whether it has no vote.
        client: where its clients connect; None where its own file says so.
    """

    server_id: int
    peer: Endpoint
    election_port: int
    observes: bool
    client: Endpoint | None

    @property
    def election(self) -> Endpoint:
        """Where it takes part in elections."""
        return Endpoint(self.peer.host, self.election_port)

    @property
    def endpoints(self) -> set[Endpoint]:
        """All that nobody else may listen on."""
        all_of_it = (self.peer, self.election, self.client)
        return {endpoint for endpoint in all_of_it if endpoint is not None and not _is_special(endpoint.host)}

    def __str__(self) -> str:
        kind = "observer" if self.observes else "participant"
        client = "" if self.client is None else f";{self.client}"
        return f"server.{self.server_id}={self.peer}:{self.election_port}:{kind}{client}"


class Membership(NamedTuple):
    """All members of an ensemble, and since when.

    Attributes:
        lines: in the order in which they are told.
        version: the zxid that made them members.
    """

    lines: tuple[ServerLine, ...]
    version: int = 0

    @property
    def text(self) -> bytes:
        """What /zookeeper/config holds (§2.4)."""
        return "\n".join([*map(str, self.lines), f"version={self.version:x}"]).encode()

    @property
    def voters(self) -> frozenset[int]:
        """The ids of those who have a vote."""
        return frozenset(line.server_id for line in self.lines if not line.observes)

    @property
    def observers(self) -> frozenset[int]:
        """The ids of those who have none."""
        return frozenset(line.server_id for line in self.lines if line.observes)

    @property
    def quorum(self) -> int:
        """How many votes are a majority."""
        return len(self.voters) // 2 + 1

    def after(self, request: Reconfig, zxid: int) -> Membership:
        """What a reconfiguration makes of it.

        Args:
            request: what is asked.
            zxid: of the transaction that it becomes.

        Raises:
            RefusedError: it asks for what cannot be.

        >>> from simzk.zookeeper.requests import Reconfig
        >>> three = Membership(tuple(parse_line(n, f"host-{n}:2888:3888") for n in (1, 2, 3)))
        >>> request = Reconfig("server.4=host-4:2888:3888:observer;2181", "3", None, -1)
        >>> three.after(request, 0x100000005).text.decode().split()[2:]
        ['server.4=host-4:2888:3888:observer;0.0.0.0:2181', 'version=100000005']
        """
        if request.config_id not in (-1, self.version):
            raise RefusedError(Code.BAD_VERSION)
        if request.new_members is not None:
            lines = _replaced(request.new_members)
        else:
            lines = _changed(self.lines, _split(request.joining_servers), _split(request.leaving_servers))
        membership = Membership(lines, zxid)
        if len(membership.voters) < MIN_VOTERS:
            raise RefusedError(Code.BAD_ARGUMENTS)
        return membership


def membership_of(text: bytes) -> Membership | None:
    """The members by what /zookeeper/config holds; None where that is nothing that a reconfiguration left.

    >>> membership_of(b"server.1=a:1:2:participant;0.0.0.0:3\\nserver.2=b:1:2:observer\\nversion=100000000").observers
    frozenset({2})
    >>> membership_of(b"") is None
    True
    """
    entries = [line.partition("=") for line in text.decode("latin-1").splitlines()]
    try:
        lines = tuple(
            parse_line(_id(key.removeprefix("server.")), value) for key, _, value in entries if key != "version"
        )
        version = int(next((value for key, _, value in entries if key == "version"), "0"), 16)
    except (RefusedError, ValueError):
        return None
    return Membership(lines, version) if version and lines else None


def parse_line(server_id: int, text: str) -> ServerLine:
    """A member by what stands behind `server.ID=`.

    Raises:
        RefusedError: it is not of that form.

    >>> str(parse_line(1, "[::1]:2888:3888;2181"))
    'server.1=[0:0:0:0:0:0:0:1]:2888:3888:participant;0.0.0.0:2181'
    """
    parts = text.split(";")
    server = _host_and_ports(parts[0])
    if len(parts) > 2 or not 3 <= len(server) <= 4 or "|" in text:
        raise RefusedError(Code.BAD_ARGUMENTS)
    client = None
    if len(parts) == 2:
        where = _host_and_ports(parts[1])
        if len(where) > 2:
            raise RefusedError(Code.BAD_ARGUMENTS)
        client = Endpoint(where[0] if len(where) == 2 else ANY_HOST, _port(where[-1]))
    port, election_port = _port(server[1]), _port(server[2])
    kind = server[3].strip().lower() if len(server) == 4 else "participant"
    if port == election_port or kind not in ("participant", "observer"):
        raise RefusedError(Code.BAD_ARGUMENTS)
    return ServerLine(server_id, Endpoint(server[0], port), election_port, kind == "observer", client)


def _host_and_ports(text: str) -> list[str]:
    """ConfigUtils.getHostAndPort: colons part them, but for those of an IPv6 address in brackets."""
    if not text.startswith("["):
        return text.split(":")
    host, bracket, rest = text[1:].partition("]")
    if not bracket or (rest and rest[0] != ":"):
        raise RefusedError(Code.BAD_ARGUMENTS)
    return [as_java(host), *(rest[1:].split(":") if rest else ())]


def as_java(host: str) -> str:
    """An IPv6 address as Inet6Address writes it: eight groups, none left out [V]; other text as it is.

    >>> as_java("::1")
    '0:0:0:0:0:0:0:1'
    """
    try:
        groups = IPv6Address(host).exploded.split(":")
    except ValueError:
        return host
    return ":".join(f"{int(group, 16):x}" for group in groups)


def _is_special(host: str) -> bool:
    """Whether a host is every machine's own: many members may name it (QuorumServer.excludedSpecialAddresses) [V]."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _port(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise RefusedError(Code.BAD_ARGUMENTS)
    if not 0 <= int(text) <= 65535:
        raise RefusedError(Code.MARSHALLING_ERROR)  # there the real server stumbles
    return int(text)


def _id(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise RefusedError(Code.MARSHALLING_ERROR)  # there too
    return int(text)


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _changed(lines: tuple[ServerLine, ...], joining: list[str], leaving: list[str]) -> tuple[ServerLine, ...]:
    members = {line.server_id: line for line in lines}
    capacity = clone_capacity(len(members))
    for text in leaving:
        members.pop(_id(text), None)
    for text in joining:
        parts = [part.strip() for part in text.split("=") if part.strip()]
        if len(parts) != 2:
            raise RefusedError(Code.BAD_ARGUMENTS)
        line = parse_line(_id(parts[0].rpartition(".")[2]), parts[1])
        others = [other for other in members.values() if other.server_id != line.server_id]
        if line.client is None or any(line.endpoints & other.endpoints for other in others):
            raise RefusedError(Code.BAD_ARGUMENTS)
        members.pop(line.server_id, None)
        members[line.server_id] = line
    return in_java_order(members.values(), capacity)


def _replaced(text: str) -> tuple[ServerLine, ...]:
    members: dict[int, ServerLine] = {}
    for entry in re.split(r"[,\n]", text):
        key, _, value = (part.strip() for part in entry.partition("="))
        if not key or key == "version":
            continue
        if not key.startswith("server."):
            raise RefusedError(Code.BAD_ARGUMENTS)
        line = parse_line(_id(key.partition(".")[2]), value)
        members[line.server_id] = line
    lines = in_java_order(members.values())
    voters = sum(not line.observes for line in lines)
    if voters < MIN_VOTERS and voters < len(lines):
        raise RefusedError(Code.MARSHALLING_ERROR)  # observers without a quorum: there the real server stumbles
    return lines


def in_java_order(lines: Iterable[ServerLine], capacity: int = _MAP_CAPACITY) -> tuple[ServerLine, ...]:
    """Members as a HashMap lists them that they were put into one after the other.

    >>> [line.server_id for line in in_java_order(parse_line(n, "h:1:2") for n in (1, 2, 100, 3, 17))]
    [1, 17, 2, 3, 100]
    """
    return tuple(hash_map_order(lines, capacity, lambda line: long_hash(line.server_id)))
