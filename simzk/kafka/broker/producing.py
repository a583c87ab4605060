"""Records of producers at the leader: append, and the response by acks (ReplicaManager.appendRecords, DelayedProduce).

Rules of this module (docs/reference/kafka.md §2.8):
  - acks 0 and 1 are answered when the leader has appended the records; acks all (-1) when the high watermark has
    passed them;
  - with acks all, records are rejected before the append if the ISR is smaller than `min.insync.replicas`. If it is
    smaller only when the high watermark has passed the records, they stay and the response is an error. Other acks,
    elections and the ISR ignore `min.insync.replicas`;
  - up to 0.8.2 any number of acks is accepted, later only these three;
  - a leader that becomes a follower answers waiting producers at once; up to 0.9 they wait for their timeout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.broker.replica_logs import ALL as ALL
from simzk.kafka.log.record_batches import new_batches
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AppendRequest, AppendResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.disk import Disk
    from simzk.kafka.broker.replica_logs import Replica, ReplicaLogs
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.rpc import Respond
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Process, Timer


class _Waiting(NamedTuple):
    """A request without a response: the offset of its records, and the timer of its timeout."""

    request: AppendRequest
    base_offset: int
    respond: Respond
    timer: Timer


@dataclass(eq=False)
class Producing:
    """Produce requests of one broker.

    Args:
        on_append: called with each partition whose log grew.
    """

    _process: Process
    _version: KafkaVersion
    _replicas: ReplicaLogs
    _on_append: Callable[[TopicPartition], None]
    _disk: Disk
    _waiting: dict[TopicPartition, list[_Waiting]] = field(default_factory=dict, init=False)

    def serve(self, request: AppendRequest, respond: Respond) -> None:
        """Append records; respond now or when enough replicas have them."""
        if not self._version.broker.accepts_any_acks and request.acks not in (ALL, 0, 1):
            respond(AppendResponse(ErrorCode.INVALID_REQUIRED_ACKS))
        else:
            self._disk.access(lambda: self._append(request, respond))

    def append_as_broker(self, partition: TopicPartition, data: bytes, timeout_ms: int, respond: Respond) -> None:
        """Append records of this broker itself, as its coordinators do, with acks of all in the ISR.

        `data` is what `record_batches.encode_batch` returns, and `timeout_ms` how long to wait for the acks.
        """
        batches = new_batches(data)
        records = sum(batch.records for batch in batches)
        assert records > 0, f"no records for {partition}"
        request = AppendRequest(partition, records, ALL, timeout_ms, batches=batches, is_of_coordinator=True)
        self.serve(request, respond)

    def _append(self, request: AppendRequest, respond: Respond) -> None:
        result = self._replicas.append(request)
        if isinstance(result, ErrorCode):
            respond(AppendResponse(result))
            return
        self._on_append(request.partition)
        if request.acks in (0, 1):
            self._replicas.acknowledge(request.partition, result, request.records, request.acks)
            respond(AppendResponse(ErrorCode.NONE, result))
            return
        timer = self._process.call_later(request.timeout_ms * 1000, lambda: self._expire(waiting))
        waiting = _Waiting(request, result, respond, timer)
        self._waiting.setdefault(request.partition, []).append(waiting)
        self.complete_waiting(request.partition)

    def has_waiting(self, partition: TopicPartition) -> bool:
        """Return whether a producer waits for acks."""
        return partition in self._waiting

    def complete_waiting(self, partition: TopicPartition) -> None:
        """Respond to requests that need not wait any more; the log, ISR or leader of the partition changed."""
        left = []
        for waiting in self._waiting.pop(partition, ()):
            assert waiting.timer.active, "a request that has expired waits no more"
            error = self._outcome(waiting)
            if error is None:
                left.append(waiting)
            else:
                waiting.timer.cancel()
                if error == ErrorCode.NONE:
                    self._replicas.acknowledge(
                        partition, waiting.base_offset, waiting.request.records, waiting.request.acks
                    )
                waiting.respond(AppendResponse(error, waiting.base_offset))
        if left:
            self._waiting[partition] = left

    def _outcome(self, waiting: _Waiting) -> ErrorCode | None:
        """Return the error of the response; None while the request must wait."""
        request = waiting.request
        assert request.acks not in (0, 1), "these are answered at once"
        replica = self._replicas.replicas.get(request.partition)
        if replica is None or not self._replicas.leads(request.partition):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if self._version.broker.answers_produce_on_demotion else None
        required = waiting.base_offset + request.records
        if request.acks != ALL:
            return ErrorCode.NONE if self._replicas.copies(replica, required) >= request.acks else None
        if not self._has_passed(replica, required):
            return None
        enough = self._replicas.has_enough_in_sync(replica)
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _has_passed(self, replica: Replica, required: int) -> bool:
        """Return whether all in the ISR have the log up to an offset; up to 0.8.1 they are counted."""
        if not self._version.broker.has_min_insync_replicas:
            return self._replicas.copies(replica, required) >= len(replica.state.isr)
        return replica.high_watermark >= required

    def _expire(self, waiting: _Waiting) -> None:
        partition = waiting.request.partition
        before = self._waiting.pop(partition)
        left = [other for other in before if other is not waiting]
        assert len(left) == len(before) - 1, "the timer of a request with a response is cancelled"
        if left:
            self._waiting[partition] = left
        waiting.respond(AppendResponse(ErrorCode.REQUEST_TIMED_OUT, waiting.base_offset))
