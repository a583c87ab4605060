"""Configuration of an ensemble: its members, as in /zookeeper/config, and their changes by reconfiguration.

Rules of this module:
  - a member is a line, `server.ID=HOST:PORT:ELECTION_PORT[:participant|:observer][;[CLIENT_HOST:]CLIENT_PORT]`;
  - the version of a membership is the zxid of its reconfiguration; of the first one, the first leader's first zxid, or
    0 without reconfigurations;
  - leaving members are removed before joining ones are added; new members replace the present ones;
  - members are listed in the order of Java's HashMap by id;
  - hosts are compared as text, without name resolution.

Source: PrepRequestProcessor (reconfig), QuorumPeer.QuorumServer, QuorumPeerConfig.parseDynamicConfig, QuorumMaj.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.jvm.hash_codes import long_hash
from simzk.jvm.hash_map import clone_capacity, hash_map_order
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import Code, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.zookeeper.requests import Reconfig

ANY_HOST = "0.0.0.0"
MIN_VOTERS = 2
"""Smallest number of voters of an ensemble (standaloneEnabled)."""
_MAP_CAPACITY = 16
_INTEGER = re.compile(r"[+-]?\d{1,4000}")


class Endpoint(NamedTuple):
    """Host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ServerLine(NamedTuple):
    """One member of an ensemble.

    Attributes:
        server_id: its id.
        peer: endpoint for the connection to the leader.
        election_port: port for elections on the same host.
        observes: whether it is an observer.
        client: endpoint for clients; None if only its own configuration has it.
    """

    server_id: int
    peer: Endpoint
    election_port: int
    observes: bool
    client: Endpoint | None

    @property
    def election(self) -> Endpoint:
        """Return the endpoint for elections."""
        return Endpoint(self.peer.host, self.election_port)

    @property
    def endpoints(self) -> set[Endpoint]:
        """Return the endpoints that no other member may have."""
        own = (self.peer, self.election, self.client)
        return {endpoint for endpoint in own if endpoint is not None and not _is_special(endpoint.host)}

    def __str__(self) -> str:
        kind = "observer" if self.observes else "participant"
        client = "" if self.client is None else f";{self.client}"
        return f"server.{self.server_id}={self.peer}:{self.election_port}:{kind}{client}"


class Membership(NamedTuple):
    """Members of an ensemble.

    Attributes:
        lines: members in the order of /zookeeper/config.
        version: zxid of the reconfiguration that made them members.
        least_voters: smallest number of voters after a reconfiguration: 1 if standaloneEnabled is false.
    """

    lines: tuple[ServerLine, ...]
    version: int = 0
    least_voters: int = MIN_VOTERS

    @property
    def text(self) -> bytes:
        """Return the data of /zookeeper/config (§2.4)."""
        return "\n".join([*map(str, self.lines), f"version={self.version:x}"]).encode()

    @property
    def voters(self) -> frozenset[int]:
        """Return the ids of voters."""
        return frozenset(line.server_id for line in self.lines if not line.observes)

    @property
    def observers(self) -> frozenset[int]:
        """Return the ids of observers."""
        return frozenset(line.server_id for line in self.lines if line.observes)

    @property
    def quorum(self) -> int:
        """Return the number of votes of a majority."""
        return len(self.voters) // 2 + 1

    def after(self, request: Reconfig, zxid: int) -> Membership:
        """Return the membership after a reconfiguration, given the zxid of its transaction.

        Raises:
            RefusedError: the reconfiguration is invalid.

        >>> from simzk.zookeeper.requests import Reconfig
        >>> three = Membership(tuple(parse_line(n, f"host-{n}:2888:3888") for n in (1, 2, 3)))
        >>> request = Reconfig("server.4=host-4:2888:3888:observer;2181", "3", None, -1)
        >>> three.after(request, 0x100000005).text.decode().split()[2:]
        ['server.4=host-4:2888:3888:observer;0.0.0.0:2181', 'version=100000005']
        """
        if request.config_id not in (-1, self.version):
            raise RefusedError(Code.BAD_VERSION)
        if request.new_members is not None:
            lines = _replaced(request.new_members, self.least_voters)
        else:
            lines = _changed(self.lines, _split(request.joining_servers), _split(request.leaving_servers))
        membership = self._replace(lines=lines, version=zxid)
        if len(membership.voters) < self.least_voters:
            raise RefusedError(Code.BAD_ARGUMENTS)
        return membership


def membership_of(text: bytes) -> Membership | None:
    """Return the membership in the data of /zookeeper/config, or None if no reconfiguration wrote it.

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
    """Parse a member from the text behind `server.ID=`.

    Raises:
        RefusedError: the text is malformed.

    >>> str(parse_line(1, "[::1]:2888:3888;2181"))
    'server.1=[0:0:0:0:0:0:0:1]:2888:3888:participant;0.0.0.0:2181'
    """
    parts = text.rstrip(";").split(";")  # Java's split drops empty parts at the end
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
    """Split a text at colons, except in an IPv6 address in brackets (ConfigUtils.getHostAndPort)."""
    if not text.startswith("["):
        return text.rstrip(":").split(":")
    host, bracket, rest = text[1:].partition("]")
    if not bracket or (rest and rest[0] != ":"):
        raise RefusedError(Code.BAD_ARGUMENTS)
    return [as_java(host), *(rest[1:].rstrip(":").split(":") if rest else ())]


def as_java(host: str) -> str:
    """Return an IPv6 address as Inet6Address writes it, with all eight groups [V]; any other text unchanged.

    >>> as_java("::1")
    '0:0:0:0:0:0:0:1'
    """
    try:
        groups = IPv6Address(host).exploded.split(":")
    except ValueError:
        return host
    assert len(groups) == 8, "an address is written in full"
    return ":".join(f"{int(group, 16):x}" for group in groups)


def _is_special(host: str) -> bool:
    """Return whether several members may have a host: a local one (QuorumServer.excludedSpecialAddresses) [V]."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _port(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise RefusedError(Code.BAD_ARGUMENTS)
    if not 0 <= int(text) <= 65535:
        raise RefusedError(Code.MARSHALLING_ERROR)  # the real server fails on it
    return int(text)


def _id(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise RefusedError(Code.MARSHALLING_ERROR)  # the real server fails on it
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


def _replaced(text: str, least_voters: int) -> tuple[ServerLine, ...]:
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
    if voters < least_voters and voters < len(lines):
        raise RefusedError(Code.MARSHALLING_ERROR)  # the real server fails on observers without a quorum
    return lines


def in_java_order(lines: Iterable[ServerLine], capacity: int = _MAP_CAPACITY) -> tuple[ServerLine, ...]:
    """Return members in the order of a HashMap by id, given in order of insertion.

    >>> [line.server_id for line in in_java_order(parse_line(n, "h:1:2") for n in (1, 2, 100, 3, 17))]
    [1, 17, 2, 3, 100]
    """
    ordered = tuple(hash_map_order(lines, capacity, lambda line: long_hash(line.server_id)))
    assert len({line.server_id for line in ordered}) == len(ordered), "a server has one line"
    return ordered


MAX_SERVERS = 254
"""Largest server id with TTL nodes (§2.3)."""


@dataclass(frozen=True)
class EnsembleConfig:
    """Configuration of an ensemble.

    Attributes:
        servers: number of voters; their ids start at 1.
        server: configuration of each server, except `server_id`.
        election_ms: time without a leader until a connected majority has elected one.
        read_only: whether a server without a leader serves read-only clients (readonlymode.enabled). Their sessions
            are local, as with localSessionsEnabled; without it a real server has no sessions to give.
        read_only_after_ms: time without a leader before it does so.
        observers: number of observers; their ids follow those of the voters.
        local_sessions: whether a session is known only to its server (localSessionsEnabled).
        upgrades_sessions: whether a local session becomes global when it creates an ephemeral znode, instead of
            being rejected (localSessionsUpgradingEnabled).
        membership: members by zoo.cfg, instead of these numbers.
        here: ids of the members that are simulated; the others never run.
        sync_limit_ms: time for which a paused server, or one that is cut off, still counts as connected (syncLimit
            ticks). Until then its clients stay with it, and requests that need the leader wait.

    Raises:
        ConfigError: the number of servers is not 1 to 254, or the simulated members have no majority and do not serve
            read-only clients.
    """

    servers: int = 3
    server: ServerConfig = field(default_factory=ServerConfig)
    election_ms: int = 0
    read_only: bool = False
    read_only_after_ms: int = 0
    observers: int = 0
    local_sessions: bool = False
    upgrades_sessions: bool = False
    membership: Membership | None = None
    here: tuple[int, ...] = ()
    sync_limit_ms: int = 0

    def __post_init__(self) -> None:
        count = self.servers + self.observers
        if self.servers < 1 or self.observers < 0 or count > MAX_SERVERS:
            raise ConfigError(f"{count} servers are out of range", where="servers", right=f"1 to {MAX_SERVERS}")
        if self.membership is not None:
            voters = self.membership.voters
            here = len(voters & set(self.here))
            if here < self.membership.quorum and not self.read_only:
                what = f"{here} of {len(voters)} voters are simulated, which is no majority to elect a leader"
                raise ConfigError(what, where="servers", right=f"{self.membership.quorum} of them or more")

    @property
    def ids(self) -> Sequence[int]:
        """Return the ids of the simulated servers, observers last."""
        return self.here or range(1, self.servers + self.observers + 1)
