"""Counters and summaries of the traffic of a server and of its connections.

Rules of this module:
  - counters only: nothing here formats, measures time or uses a socket; the transport calls the `note` methods;
  - sent replies are counted by the headers of their frames;
  - a batch of requests that are processed together has one latency.

Source: ServerStats, ServerCnxn, AvgMinMaxCounter, AvgMinMaxPercentileCounter.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from simzk.wire.frames import NOTIFICATION_XID
from simzk.zookeeper import requests as req
from simzk.zookeeper.operations import OPERATIONS, Kind, of_kind
from simzk.zookeeper.replies import PING_XID

if TYPE_CHECKING:
    from collections.abc import Iterable


class Summary:
    """Least, mean, greatest and percentiles of values; without values every figure is 0, as in the real server.

    The number of times each value came is stored: percentiles are exact, and memory is bounded by distinct values.

    Args:
        times: number of times each value came, as a dictionary that others may update; None for an own one.

    >>> summary = Summary()
    >>> summary.note(3, 2); summary.note(0)
    >>> summary.least, summary.mean, summary.greatest, summary.count, summary.total, summary.percentile(0.5)
    (0, 2.0, 3, 3, 6, 3)
    """

    __slots__ = ("_times",)

    def __init__(self, times: dict[int, int] | None = None) -> None:
        self._times: dict[int, int] = {} if times is None else times

    def note(self, value: int, times: int = 1) -> None:
        """Add a value, `times` times."""
        assert times > 0
        self._times[value] = self._times.get(value, 0) + times

    def reset(self) -> None:
        """Forget all values."""
        self._times.clear()

    @property
    def least(self) -> int:
        """Return the least value."""
        return min(self._times, default=0)

    @property
    def greatest(self) -> int:
        """Return the greatest value."""
        return max(self._times, default=0)

    @property
    def count(self) -> int:
        """Return the number of values."""
        return sum(self._times.values())

    @property
    def total(self) -> int:
        """Return the sum of all values."""
        return sum(value * times for value, times in self._times.items())

    @property
    def mean(self) -> float:
        """Return the mean."""
        return self.total / self.count if self._times else 0.0

    def above(self, limit: int) -> int:
        """Return the number of values above a limit."""
        return sum(times for value, times in self._times.items() if value > limit)

    def percentile(self, share: float) -> int:
        """Return the least value that at least `share` of all values do not exceed."""
        assert 0 <= share <= 1
        left = share * self.count
        for value, times in sorted(self._times.items()):
            left -= times
            if left <= 0:
                return value
        assert not self._times, "all values together are the whole"
        return 0


class RequestLatency:
    """Least, mean and greatest time from a request to its reply, in ms.

    >>> latency = RequestLatency()
    >>> latency.note(3, 2); latency.note(0, 1)
    >>> latency.minimum_ms, latency.average_ms, latency.maximum_ms
    (0, 2.0, 3)
    """

    __slots__ = ("_count", "_total_ms", "last_ms", "maximum_ms", "minimum_ms")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all latencies."""
        self._count = self._total_ms = self.last_ms = self.minimum_ms = self.maximum_ms = 0

    def note(self, latency_ms: int, requests: int) -> None:
        """Count requests that were processed together."""
        assert requests > 0
        if not self._count or latency_ms < self.minimum_ms:
            self.minimum_ms = latency_ms
        if latency_ms > self.maximum_ms:
            self.maximum_ms = latency_ms
        self.last_ms = latency_ms
        self._count += requests
        self._total_ms += latency_ms * requests
        assert self.minimum_ms <= latency_ms <= self.maximum_ms

    @property
    def average_ms(self) -> float:
        """Return the mean latency, 0 without requests."""
        return self._total_ms / self._count if self._count else 0.0


_HEAD = struct.Struct(">ii").unpack_from
_SHORT_NAMES = {req.ConnectRequest: "SESS"} | {operation.request: operation.short_name for operation in OPERATIONS}
_WRITES = of_kind(Kind.WRITE, Kind.SESSION)
_UNCOUNTED = (PING_XID, -4)  # -4 is the xid of auth packets (§1.2)
_NO_RESPONSE = -1  # the size of responses before the first one


class ServerStatistics:
    """Counters of a server.

    Attributes:
        latency: of all requests, in ms.
        read_latency: of reads and pings, in ms.
        update_latency: of writes and of requests that create or close a session, in ms.
        last_response_bytes, least_response_bytes, greatest_response_bytes: sizes of replies without the length field;
            -1 before the first reply.
        response_bytes: total size of replies except those to pings and auth.
        event_bytes: total size of watch events.
        bytes_received: number of bytes received.
        connection_requests: number of connect requests.
        revalidations: number of connect requests for an existing session.
        dropped: connections closed by their clients.
        rejected: connections beyond maxClientCnxns.
        expired_silent: connections without a connect request in time.
        large_rejected: requests rejected by largeRequestMaxBytes.
        token_deficit: tokens missing in the connection throttle at each connect request.
        snapshots_limited, restores_limited: commands that the AdminServer rejected as too frequent.
        restore_errors: restores that failed.
    """

    def __init__(self) -> None:
        self.latency = RequestLatency()
        self.read_latency, self.update_latency, self.token_deficit = Summary(), Summary(), Summary()
        self.reset()

    def reset(self) -> None:
        """Reset all counters, as srst and stat_reset do."""
        self.packets_received = self.packets_sent = 0
        self.last_response_bytes = self.least_response_bytes = self.greatest_response_bytes = _NO_RESPONSE
        self.response_bytes = self.event_bytes = self.bytes_received = 0
        self.connection_requests = self.revalidations = 0
        self.dropped = self.rejected = self.expired_silent = self.large_rejected = 0
        self.snapshots_limited = self.restores_limited = self.restore_errors = 0
        for measured in (self.latency, self.read_latency, self.update_latency, self.token_deficit):
            measured.reset()

    def note_connect(self, request: req.ConnectRequest, latency_ms: int, token_deficit: int) -> None:
        """Count a connect request; one for a new session is an update."""
        assert token_deficit >= 0, "tokens that are left are no deficit"
        self.connection_requests += 1
        self.token_deficit.note(token_deficit)
        if request.session_id:
            self.revalidations += 1
        else:
            self.update_latency.note(latency_ms)

    def note_requests(self, kinds: Iterable[type], latency_ms: int) -> None:
        """Count requests that were processed together, by their classes."""
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
        """Count sent frames of replies and watch events, from offset `begin` on; no connect response among them."""
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
        assert begin == end, "sent frames are whole"
        assert least <= greatest
        self.least_response_bytes, self.greatest_response_bytes = least, greatest
        self.response_bytes += total

    @property
    def requests(self) -> int:
        """Return the number of requests that passed the request processors."""
        return self.read_latency.count + self.update_latency.count


class ConnectionStatistics:
    """Counters of one connection."""

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
        self.latency = RequestLatency()
        self.reset()

    def reset(self) -> None:
        """Reset all counters, as crst and connection_stat_reset do."""
        self.packets_received = self.packets_sent = 0
        self.last_operation = "NA"
        self.last_xid = self.last_zxid = -1
        self.last_response_ms = 0
        self.latency.reset()

    def note(self, kind: type, xid: int, zxid: int, now_ms: int, latency_ms: int, requests: int) -> None:
        """Count a batch of answered requests: class and xid of its last request, zxid of its last reply."""
        self.last_operation = _SHORT_NAMES.get(kind, "NA")
        if xid >= 0:  # requests of the client itself; pings have negative xids (§1.2)
            self.last_xid = xid
        self.last_zxid = zxid
        self.last_response_ms = now_ms
        self.latency.note(latency_ms, requests)
