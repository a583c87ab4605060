"""What a server counts about its traffic, and the report on itself that monitoring commands are written from.

Rules of this module:
  - counters only: nothing here formats, measures time or knows a socket; whoever moves the bytes notes them;
  - a reply is known by its frame: what is sent is looked through once, its heads only;
  - a batch of requests that are handled together shares one latency.

Source: ServerStats, ServerCnxn, AvgMinMaxCounter.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal, NamedTuple

from simzk.wire.records import NOTIFICATION_XID
from simzk.zookeeper import requests as req
from simzk.zookeeper.operations import Kind, of_kind
from simzk.zookeeper.replies import PING_XID
from simzk.zookeeper.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simzk.wire.prometheus import Family
    from simzk.zookeeper.ensemble.place import Place
    from simzk.zookeeper.server import Server

# ServerCnxn's and Request's names for what a connection did last (§5, lop).
OPERATION_NAMES: dict[type, str] = {
    req.ConnectRequest: "SESS",
    req.Ping: "PING",
    req.Multi: "MULT",
    req.MultiRead: "MLTR",
    req.Create: "CREA",
    req.Create2: "CREA",
    req.CreateContainer: "CREA",
    req.CreateTTL: "CREA",
    req.Delete: "DELE",
    req.DeleteContainer: "DELE",
    req.SetData: "SETD",
    req.SetACL: "SETA",
    req.Reconfig: "RECO",
    req.CreateSession: "SESS",
    req.CloseSession: "CLOS",
    req.Sync: "SYNC",
    req.Exists: "EXIS",
    req.GetData: "GETD",
    req.GetACL: "GETA",
    req.GetChildren: "GETC",
    req.GetChildren2: "GETC",
    req.GetAllChildrenNumber: "GETACN",
    req.SetWatches: "SETW",
    req.SetWatches2: "STW2",
    req.AddWatch: "ADDW",
    req.CheckWatches: "CHKW",
    req.RemoveWatches: "REMW",
    req.WhoAmI: "HOMI",
    req.GetEphemerals: "GETE",
}


class Latency:
    """Least, mean and greatest time between a request and its reply, in ms.

    >>> latency = Latency()
    >>> latency.note(3, 2); latency.note(0, 1)
    >>> latency.minimum_ms, latency.average_ms, latency.maximum_ms
    (0, 2.0, 3)
    """

    __slots__ = ("_count", "_total_ms", "last_ms", "maximum_ms", "minimum_ms")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._count = self._total_ms = self.last_ms = self.minimum_ms = self.maximum_ms = 0

    def note(self, latency_ms: int, requests: int) -> None:
        """So many requests took so long."""
        assert requests > 0
        if not self._count or latency_ms < self.minimum_ms:
            self.minimum_ms = latency_ms
        if latency_ms > self.maximum_ms:
            self.maximum_ms = latency_ms
        self.last_ms = latency_ms
        self._count += requests
        self._total_ms += latency_ms * requests

    @property
    def average_ms(self) -> float:
        return self._total_ms / self._count if self._count else 0.0


_HEAD = struct.Struct(">ii").unpack_from
_WRITES = of_kind(Kind.WRITE, Kind.SESSION)
_UNCOUNTED = (PING_XID, -4)  # the latter is clients' for auth (§1.2)
_NO_RESPONSE = -1  # what is told of sizes before the first one


class ServerStatistics:
    """The counters of a whole server.

    Attributes:
        latency: of all that was asked, in ms.
        read_latency: of requests that change nothing, pings too.
        update_latency: of the others, the making and the end of sessions too.
        last_response_bytes, least_response_bytes, greatest_response_bytes: of replies to requests, without their
            length; -1 before the first.
        response_bytes: of all of them together, but for answers to pings and auth.
        event_bytes: of all watch events.
        bytes_received: all that clients sent.
        connection_requests: how often a session was asked for, and of these
        revalidations: how often one that was there already.
        dropped: connections that their clients ended.
        rejected: connections beyond maxClientCnxns.
        expired_silent: connections that asked for nothing in time.
        large_rejected: requests too long for all large ones together (largeRequestMaxBytes).
        token_deficit: how many tokens of the throttle of connections were gone when a session was asked for.
        snapshots_limited, restores_limited: what the AdminServer refused as too often.
        restore_errors: restores that it could not do.
    """

    __slots__ = (
        "bytes_received",
        "connection_requests",
        "dropped",
        "event_bytes",
        "expired_silent",
        "greatest_response_bytes",
        "large_rejected",
        "last_response_bytes",
        "latency",
        "least_response_bytes",
        "packets_received",
        "packets_sent",
        "read_latency",
        "rejected",
        "response_bytes",
        "restore_errors",
        "restores_limited",
        "revalidations",
        "snapshots_limited",
        "token_deficit",
        "update_latency",
    )

    def __init__(self) -> None:
        self.latency = Latency()
        self.read_latency, self.update_latency, self.token_deficit = Summary(), Summary(), Summary()
        self.reset()

    def reset(self) -> None:
        """What the words srst and stat_reset ask for."""
        self.packets_received = self.packets_sent = 0
        self.last_response_bytes = self.least_response_bytes = self.greatest_response_bytes = _NO_RESPONSE
        self.response_bytes = self.event_bytes = self.bytes_received = 0
        self.connection_requests = self.revalidations = 0
        self.dropped = self.rejected = self.expired_silent = self.large_rejected = 0
        self.snapshots_limited = self.restores_limited = self.restore_errors = 0
        for measured in (self.latency, self.read_latency, self.update_latency, self.token_deficit):
            measured.reset()

    def note_connect(self, request: req.ConnectRequest, latency_ms: int, token_deficit: int) -> None:
        """A session was asked for: a new one is an update."""
        self.connection_requests += 1
        self.token_deficit.note(token_deficit)
        if request.session_id:
            self.revalidations += 1
        else:
            self.update_latency.note(latency_ms)

    def note_requests(self, kinds: Iterable[type], latency_ms: int) -> None:
        """Requests of these kinds took so long together."""
        updates = reads = 0
        for kind in kinds:
            if kind in _WRITES:
                updates += 1
            elif kind is not req.Auth:
                reads += 1
        if updates:
            self.update_latency.note(latency_ms, updates)
        if reads:
            self.read_latency.note(latency_ms, reads)

    def note_sent(self, data: bytes, begin: int) -> None:
        """What is sent to a client from a position on: whole frames of replies and events, none of a new connection."""
        least, greatest, total = self.least_response_bytes, self.greatest_response_bytes, 0
        end = len(data)
        while begin < end:
            size, xid = _HEAD(data, begin)
            begin += size + 4
            if xid == NOTIFICATION_XID:
                self.event_bytes += size
            else:
                self.last_response_bytes = size
                if size > greatest:
                    greatest = size
                if size < least or least < 0:
                    least = size
                if xid not in _UNCOUNTED:
                    total += size
        self.least_response_bytes, self.greatest_response_bytes = least, greatest
        self.response_bytes += total

    @property
    def requests(self) -> int:
        """How many were prepared and applied: all but what only concerns the connection."""
        return self.read_latency.count + self.update_latency.count


class ConnectionStatistics:
    """The counters of one connection."""

    __slots__ = (
        "established_ms",
        "last_operation",
        "last_response_ms",
        "last_xid",
        "last_zxid",
        "latency",
        "packets_received",
        "packets_sent",
    )

    def __init__(self, established_ms: int) -> None:
        self.established_ms = established_ms
        self.latency = Latency()
        self.reset()

    def reset(self) -> None:
        """What the words crst and connection_stat_reset ask for."""
        self.packets_received = self.packets_sent = 0
        self.last_operation = "NA"
        self.last_xid = self.last_zxid = -1
        self.last_response_ms = 0
        self.latency.reset()

    def note(self, kind: type, xid: int, zxid: int, now_ms: int, latency_ms: int, requests: int) -> None:
        """A batch was answered: its last request, the zxid of its last reply, when, after how long, how many."""
        self.last_operation = OPERATION_NAMES.get(kind, "NA")
        if xid >= 0:  # the client's own, not a ping's (§1.2)
            self.last_xid = xid
        self.last_zxid = zxid
        self.last_response_ms = now_ms
        self.latency.note(latency_ms, requests)


class ConnectionReport(NamedTuple):
    """One open connection.

    Attributes:
        address: the client's, as "127.0.0.1:35104".
        is_secure: whether it came by a port that TLS secures.
        reading: whether requests of it are read at this moment.
        queued: requests read and not yet handled.
        statistics: its counters.
        session_id: 0 where it has none.
        timeout_ms: the session timeout that it negotiated.
        expiry_ms: when it would be dropped if nothing more came of it.
    """

    address: str
    is_secure: bool
    reading: bool
    queued: int
    statistics: ConnectionStatistics
    session_id: int
    timeout_ms: int
    expiry_ms: int


class Report(NamedTuple):
    """All that monitoring commands tell of a server.

    Attributes:
        server: the state machine.
        statistics: its counters.
        connections: the open ones, oldest first.
        settings: what zoo.cfg calls its settings, in the order of the word conf.
        environment: name to value, in the order of the word envi.
        properties: name to value, as the real server's system properties, in the order of their names.
        data_bytes: size of the data directory, snapshots and the logs that are beside them.
        log_bytes: size of the directory that the logs are in; the same one by default.
        digests: zxids and the tree's digest at each (§2.7); kept by servers that write their log to disk.
        last_snapshot: zxid of the newest snapshot and when it was written, in seconds; -1 where there is none.
        initial_configuration: the configuration file as it was read; None where there was none.
        trace_mask: which traces are asked for; there are none, but the mask is kept.
        now_ms: the present time.
        uptime_ms: how long it has been serving.
        date_of: a time as Java's `Date` is written.
        slow_fsync_ms: from when on an fsync counts as slow.
        disk: what the data directory measures, by the real server's names; nothing where there is none.
        open_files: file descriptors in use, and how many there may be; -1 where the platform does not tell.
        provider: how numbers are told: "default", "prometheus", or "null" for not at all (metricsProvider.className).
        process: what is told of the process, by "prometheus" only.
        drop_chance: of being cut off by the throttle of connections.
        place: of a server of an ensemble, its place in it.
        is_asked_securely: whether a word came by a port that TLS secures: words list the connections of their own port.
    """

    server: Server
    statistics: ServerStatistics
    connections: Sequence[ConnectionReport]
    settings: Mapping[str, str | int]
    environment: Mapping[str, str]
    properties: Mapping[str, str]
    data_bytes: int
    log_bytes: int
    digests: Sequence[tuple[int, int]]
    last_snapshot: tuple[int, int]
    initial_configuration: str | None
    trace_mask: int
    now_ms: int
    uptime_ms: int
    date_of: Callable[[int], str]
    disk: Mapping[str, Summary]
    open_files: tuple[int, int]
    drop_chance: float = 0.0
    place: Place | None = None
    is_asked_securely: bool = False
    slow_fsync_ms: int = 1000
    provider: Literal["default", "prometheus", "null"] = "default"
    process: Sequence[Family] = ()
