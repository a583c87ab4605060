"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments, served by the controller's broker.

Rules of this module (KafkaApis, DelayedElectLeader; recorded with 2.4, 2.8, 3.4 and 3.9):
  - the controller processes elections and reassignments in its event queue, like those of the operator's tools;
  - an election is answered when this broker's metadata cache has the new leaders, or after the timeout;
  - an election of all partitions names those only that were elected or failed;
  - a reassignment is answered when it has begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from simzk.jvm.scala_collections import hash_order, immutable_order, mutable_order
from simzk.kafka.broker.authorizer import NOT_AUTHORIZED
from simzk.kafka.client_requests.cache_wait import wait_for_cache
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from simzk.kafka.requests import AdminResponse, AlterReassignmentsRequest, ElectionRequest
from simzk.kafka.topic_partition import TopicPartition, grouped_by_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.releases.profile import OrderRules
    from simzk.kafka.rpc import Respond
    from simzk.kafka.zookeeper_mode.controller.controller import KafkaController

ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 43, 45, 46
_TEXTS: Mapping[ErrorCode, str | None] = {
    ErrorCode.NONE: None,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The partition does not exist.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
}
"""Texts of results of elections and reassignments."""
Results: TypeAlias = "Mapping[TopicPartition, tuple[ErrorCode, str | None]]"
"""Error and text of each partition."""
PREFERRED, UNCLEAN = "preferred", "unclean"
KINDS = {0: PREFERRED, 1: UNCLEAN}
"""Kinds of elections by their number (KIP-460)."""
STRATEGIES = {
    PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
}
"""Names of the kinds in texts of errors."""


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return LeadershipApi(broker.serving_broker, broker.controller, broker.serve_between_brokers).handlers


@dataclass(eq=False)
class LeadershipApi(ClientApi):
    """Elections and reassignments for clients of one broker.

    Args:
        controller: the controller that the broker is or may become.
        serve: serves requests between brokers.
    """

    controller: KafkaController
    serve: Callable[[object, Respond], None]

    @property
    def _orders(self) -> OrderRules:
        return self.broker.version.orders

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            ELECT_LEADERS: self.serve_elect_leaders,
            ALTER_REASSIGNMENTS: self.serve_alter_reassignments,
            LIST_REASSIGNMENTS: self.serve_list_reassignments,
        }

    # -- ElectLeaders

    def serve_elect_leaders(self, context: Context, request: ElectLeadersRequest, answer: Answer) -> None:
        """Elect leaders."""
        if not self.broker.allows_on_cluster("Alter", context.principal):
            # version 0 has no field for the error, so its answer is empty (recorded)
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if context.version else ErrorCode.NONE
            answer(ElectLeadersResponse(error_code=code))
            return
        named = request.topic_partitions
        # All are those of the cache, not the controller's: those of topics being deleted are left out (recorded).
        partitions = tuple(self.broker.cache.partitions)
        if named is not None:
            partitions = tuple(TopicPartition(one.topic, number) for one in named for number in one.partitions)
        kind = KINDS.get(request.election_type)
        if kind is None:
            text = self.broker.version.texts.unknown_election.format(kind=request.election_type) or None
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            failed = {} if named is None else dict.fromkeys(partitions, (code, text))
            answer(ElectLeadersResponse(error_code=code, replica_election_results=_by_topic(failed)))
            return
        if not self.controller.is_active:
            order = result_order(() if named is None else partitions, self._orders)
            results = _by_topic(dict.fromkeys(order, (ErrorCode.NOT_CONTROLLER, None)))
            answer(ElectLeadersResponse(replica_election_results=results))
            return

        def respond(response: AdminResponse) -> None:
            self._await_leaders(response, kind, request.timeout_ms, answer, all_partitions=named is None)

        self.serve(ElectionRequest(kind, partitions), respond)

    def _await_leaders(
        self, response: AdminResponse, kind: str, timeout_ms: int, answer: Answer, *, all_partitions: bool
    ) -> None:
        """Answer when the cache has the elected leaders."""
        assert kind in STRATEGIES, f"{kind} is no kind of election"
        errors, cache = dict(response.partition_errors), self.broker.cache
        elected = [partition for partition, error in errors.items() if error == ErrorCode.NONE]
        if not self.broker.version.texts.knows_election_not_needed:
            needless = [partition for partition, error in errors.items() if error == ErrorCode.ELECTION_NOT_NEEDED]
            errors |= dict.fromkeys(needless, ErrorCode.NONE)

        def is_led(partition: TopicPartition) -> bool:
            state, replicas = cache.partitions.get(partition), cache.assignments.get(partition, ())
            if state is None or state.leader not in cache.live_brokers:
                return False
            return kind == UNCLEAN or state.leader == next(iter(replicas), None)

        def finish() -> None:
            results = {
                partition: (ErrorCode.REQUEST_TIMED_OUT, None)
                if error == ErrorCode.NONE and not is_led(partition)
                else (error, self._election_text(partition, error, kind))
                for partition, error in errors.items()
                if not (all_partitions and error == ErrorCode.ELECTION_NOT_NEEDED)
            }
            late = [partition for partition in elected if not is_led(partition)]
            code, order = response.error, result_order(results, self._orders, late, waits=bool(elected))
            ordered = {partition: results[partition] for partition in order}
            answer(ElectLeadersResponse(error_code=code, replica_election_results=_by_topic(ordered)))

        wait_for_cache(self.broker, lambda: all(map(is_led, elected)), timeout_ms, finish)

    def _election_text(self, partition: TopicPartition, error: ErrorCode, kind: str) -> str | None:
        if error == ErrorCode.ELECTION_NOT_NEEDED:
            return self.broker.version.texts.election_not_needed
        return _TEXTS.get(error, f"Failed to elect leader for partition {partition} under strategy {STRATEGIES[kind]}")

    # -- reassignments

    def _access_error(self, operation: str, context: Context) -> tuple[ErrorCode, str | None]:
        """Return why a client may not use reassignments here; NONE if it may."""
        if not self.broker.allows_on_cluster(operation, context.principal):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NOT_AUTHORIZED
        code = ErrorCode.NONE if self.controller.is_active else ErrorCode.NOT_CONTROLLER
        return code, code.text

    def serve_alter_reassignments(
        self, context: Context, request: AlterPartitionReassignmentsRequest, answer: Answer
    ) -> None:
        """Start and cancel reassignments."""
        code, message = self._access_error("Alter", context)
        if code != ErrorCode.NONE:
            answer(AlterPartitionReassignmentsResponse(error_code=code, error_message=message))
            return
        targets = {
            TopicPartition(topic.name, one.partition_index): None if one.replicas is None else tuple(one.replicas)
            for topic in request.topics
            for one in topic.partitions
        }
        live = sorted(self.broker.cache.live_brokers)

        def respond(response: AdminResponse) -> None:
            kind = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
            one = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
            assert response.partition_errors.keys() <= targets.keys(), "the controller answers what it was asked"
            results = {
                partition: one(
                    partition_index=partition.partition,
                    error_code=error,
                    error_message=self._refusal(error, targets[partition], live),
                )
                for partition, error in response.partition_errors.items()
            }
            topics = [
                kind(name=topic, partitions=[results[one] for one in partitions if one in results])
                for topic, partitions in grouped_by_topic(targets).items()
            ]
            code, text = response.error, response.message
            answer(AlterPartitionReassignmentsResponse(error_code=code, error_message=text, responses=topics))

        self.serve(AlterReassignmentsRequest(targets), respond)

    def _refusal(self, error: ErrorCode, target: tuple[int, ...] | None, live: Sequence[int]) -> str | None:
        """Return the text of an error of a reassignment."""
        if error == ErrorCode.INVALID_REPLICA_ASSIGNMENT and target is not None:
            return self.broker.version.texts.invalid_target(target, live)
        return _TEXTS.get(error, error.name)

    def serve_list_reassignments(
        self, context: Context, request: ListPartitionReassignmentsRequest, answer: Answer
    ) -> None:
        """List reassignments in progress, of all partitions or of some."""
        code, message = self._access_error("Describe", context)
        if code != ErrorCode.NONE:
            answer(ListPartitionReassignmentsResponse(error_code=code, error_message=message))
            return
        known = self.controller.context
        moving = list(known.being_reassigned)
        if request.topics is not None:
            asked = {
                TopicPartition(topic.name, number) for topic in request.topics for number in topic.partition_indexes
            }
            moving = [partition for partition in moving if partition in asked]
        kind = ListPartitionReassignmentsResponse.OngoingTopicReassignment
        one = ListPartitionReassignmentsResponse.OngoingPartitionReassignment
        listed = {
            partition: one(
                partition_index=partition.partition,
                replicas=list(moved.replicas),
                adding_replicas=list(moved.adding),
                removing_replicas=list(moved.removing),
            )
            for partition, moved in ((one, known.assignment(one)) for one in moving)
        }
        topics = [
            kind(name=topic, partitions=[listed[one] for one in partitions])
            for topic, partitions in grouped_by_topic(moving).items()
        ]
        answer(ListPartitionReassignmentsResponse(error_message="", topics=topics))


def result_order(
    partitions: Iterable[TopicPartition],
    orders: OrderRules,
    late: Sequence[TopicPartition] = (),
    *,
    waits: bool = False,
) -> list[TopicPartition]:
    """Return the order in which results of elections are answered, by topic.

    Failures are in a mutable map. If there are elections to wait for, those that are late are in an immutable map, to
    which all others are added (ReplicaManager.electLeaders, DelayedElectLeader, KafkaApis.handleElectLeaders).

    Args:
        partitions: those that have a result.
        late: those of them that were not elected in time.
        waits: whether any partition was elected.
    """
    scala, hash_of = orders.scala, orders.collections.partition_hash

    def of_map(keys: Iterable[TopicPartition]) -> list[TopicPartition]:
        return immutable_order(keys, scala, hash_of) if waits else mutable_order(keys, scala, hash_of)

    others = [partition for partition in partitions if partition not in late]
    first = mutable_order(late, scala, hash_of)
    by_topic = grouped_by_topic(of_map([*first, *mutable_order(others, scala, hash_of)]))
    topics = mutable_order(by_topic, scala)  # `groupBy` collects in a mutable map, and copies it
    topics = hash_order(topics, scala) if scala == "2.13" else immutable_order(topics, scala)
    ordered = [partition for topic in topics for partition in of_map(by_topic[topic])]
    assert len(ordered) == len(first) + len(others), "an order loses no partition"
    return ordered


def _by_topic(results: Results) -> list[ElectLeadersResponse.ReplicaElectionResult]:
    """Return results of elections by topic."""
    kind = ElectLeadersResponse.PartitionResult
    made = {
        partition: kind(partition_id=partition.partition, error_code=code, error_message=text)
        for partition, (code, text) in results.items()
    }
    return [
        ElectLeadersResponse.ReplicaElectionResult(topic=topic, partition_result=[made[one] for one in partitions])
        for topic, partitions in grouped_by_topic(results).items()
    ]
