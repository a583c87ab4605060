"""How far all in sync have a partition's log: the high watermark that its leader may set (Partition; §2.8).

Rules of the module (Partition.maybeIncrementLeaderHW; docs/reference/kafka.md §2.8):
  - the least log end of the ISR; while another ISR is asked for, of both;
  - from 0.10.2 on a follower that is not in the ISR but was caught up within `replica.lag.time.max.ms` counts as well,
    so that it can join; from 3.6 on only one that the leader believes to live;
  - it never falls by this. From 3.7 on it does not rise either while the ISR is smaller than `min.insync.replicas`
    (KAFKA-15583).

Records that producers send, on the leader's side (ReplicaManager.appendRecords, DelayedProduce; §2.8).

Rules of the module (docs/reference/kafka.md §2.8):
  - acks 0 and 1 are answered when the leader has the records; acks all (-1) when the high watermark has passed them;
  - with acks all, fewer replicas in the ISR than `min.insync.replicas` refuse the records before they are appended; if
    they are fewer only when the high watermark has passed them, the records stand and the answer is an error all the
    same. Other acks, elections and the ISR itself take no notice of it;
  - up to 0.8.2 any number of acks can be asked for, later only these three;
  - a leader that follows another from now on answers at once; up to 0.9 its producers wait for their timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.requests import Error, ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker.replica_logs import Replica, ReplicaLogs
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.rpc import Respond
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.simulation import Process, Timer


ALL = -1


class _Waiting(NamedTuple):
    """A request that is not answered yet: what it needs, and the time after which it is given up."""

    request: ProduceRequest
    base_offset: int
    respond: Respond
    timer: Timer


class Producing:
    """Serves producers on one broker.

    Args:
        process: the broker's.
        version: its release.
        replicas: what it leads.
        appended: told of a partition whose log grew.
    """

    def __init__(
        self,
        process: Process,
        version: KafkaVersion,
        replicas: ReplicaLogs,
        appended: Callable[[TopicPartition], None],
    ) -> None:
        self._process = process
        self._version = version
        self._replicas = replicas
        self._appended = appended
        self._waiting: dict[TopicPartition, list[_Waiting]] = {}

    def serve(self, request: ProduceRequest, respond: Respond) -> None:
        """Append records, and answer now or when enough replicas have them."""
        if not self._version.broker.accepts_any_acks and request.acks not in (ALL, 0, 1):
            respond(ProduceResponse(Error.INVALID_REQUIRED_ACKS))
            return
        result = self._replicas.append(request.partition, request.records, to_all=request.acks == ALL)
        if isinstance(result, Error):
            respond(ProduceResponse(result))
            return
        self._appended(request.partition)
        if request.acks in (0, 1):
            respond(ProduceResponse(Error.NONE, result))
            return
        timer = self._process.call_later(request.timeout_ms * 1000, lambda: self._expire(waiting))
        waiting = _Waiting(request, result, respond, timer)
        self._waiting.setdefault(request.partition, []).append(waiting)
        self.look_again(request.partition)

    def look_again(self, partition: TopicPartition) -> None:
        """A log or the ISR of a partition changed, or who leads it: answer whoever need not wait any more."""
        left = []
        for waiting in self._waiting.pop(partition, ()):
            error = self._outcome(waiting)
            if error is None:
                left.append(waiting)
            else:
                waiting.timer.cancel()
                waiting.respond(ProduceResponse(error, waiting.base_offset))
        if left:
            self._waiting[partition] = left

    def _outcome(self, waiting: _Waiting) -> Error | None:
        """How it went; None while it must wait."""
        request = waiting.request
        replica = self._replicas.replicas.get(request.partition)
        if replica is None or not self._replicas.leads(request.partition):
            return Error.NOT_LEADER_OR_FOLLOWER if self._version.broker.answers_produce_on_demotion else None
        required = waiting.base_offset + request.records
        if request.acks != ALL:
            return Error.NONE if self._replicas.copies(replica, required) >= request.acks else None
        if not self._has_passed(replica, required):
            return None
        enough = self._replicas.has_enough_in_sync(replica)
        return Error.NONE if enough else Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _has_passed(self, replica: Replica, required: int) -> bool:
        """Whether all in the ISR have so much of the log; up to 0.8.1 they are counted, whatever the watermark."""
        if not self._version.broker.has_min_insync_replicas:
            return self._replicas.copies(replica, required) >= len(replica.state.isr)
        return replica.high_watermark >= required

    def _expire(self, waiting: _Waiting) -> None:
        partition = waiting.request.partition
        left = [other for other in self._waiting.pop(partition, ()) if other is not waiting]
        if left:
            self._waiting[partition] = left
        waiting.respond(ProduceResponse(Error.REQUEST_TIMED_OUT, waiting.base_offset))
