"""What a server counts about its traffic, and the report on itself that monitoring commands are written from.

Rules of this module:
  - counters only: nothing here formats, measures time or knows a socket; whoever moves the bytes notes them;
  - a batch of requests that are handled together shares one latency.

Source: ServerStats, ServerCnxn, AvgMinMaxCounter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import requests as req

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


class ServerStatistics:
    """The counters of a whole server."""

    __slots__ = ("latency", "packets_received", "packets_sent")

    def __init__(self) -> None:
        self.latency = Latency()
        self.packets_received = self.packets_sent = 0

    def reset(self) -> None:
        """What the words srst and stat_reset ask for."""
        self.packets_received = self.packets_sent = 0
        self.latency.reset()


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
        reading: whether requests of it are read at this moment.
        queued: requests read and not yet handled.
        statistics: its counters.
        session_id: 0 where it has none.
        timeout_ms: the session timeout that it negotiated.
        expiry_ms: when it would be dropped if nothing more came of it.
    """

    address: str
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
        data_bytes: size of the data directory, snapshots and the logs that are beside them.
        log_bytes: size of the directory that the logs are in; the same one by default.
        digests: zxids and the tree's digest at each (§2.7); kept by servers that write their log to disk.
        last_snapshot: zxid of the newest snapshot and when it was written, in seconds; -1 where there is none.
        initial_configuration: the configuration file as it was read; None where there was none.
        trace_mask: which traces are asked for; there are none, but the mask is kept.
        now_ms: the present time.
        uptime_ms: how long it has been serving.
        date_of: a time as Java's `Date` is written.
        open_files: file descriptors in use, and how many there may be; -1 where the platform does not tell.
    """

    server: Server
    statistics: ServerStatistics
    connections: Sequence[ConnectionReport]
    settings: Mapping[str, str | int]
    environment: Mapping[str, str]
    data_bytes: int
    log_bytes: int
    digests: Sequence[tuple[int, int]]
    last_snapshot: tuple[int, int]
    initial_configuration: str | None
    trace_mask: int
    now_ms: int
    uptime_ms: int
    date_of: Callable[[int], str]
    open_files: tuple[int, int]
