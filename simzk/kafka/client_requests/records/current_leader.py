"""The present leader, which answers to Produce and Fetch name beside an error (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from simzk.kafka.protocol.messages import FetchResponse, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.client_requests.handlers import ServingBroker
    from simzk.kafka.topic_partition import TopicPartition

LeaderFields: TypeAlias = FetchResponse.LeaderIdAndEpoch | ProduceResponse.LeaderIdAndEpoch
EndpointT = TypeVar("EndpointT", FetchResponse.NodeEndpoint, ProduceResponse.NodeEndpoint)


def name_leader(fields: LeaderFields, partition: TopicPartition, broker: ServingBroker) -> list[int]:
    """Set the leader of a partition that a broker knows; return it, or nothing if it knows none.

    A broker with a replica names the leader that the replica has accepted (KafkaApis.getCurrentLeader).
    """
    state = broker.replicas.state_of(partition) or broker.cache.partitions.get(partition)
    if state is None:
        return []
    fields.leader_id, fields.leader_epoch = state.leader, state.leader_epoch
    return [state.leader]


def endpoints(
    kind: type[EndpointT],
    leaders: Iterable[int],
    broker: ServingBroker,
    listener: str,
) -> list[EndpointT]:
    """Return the addresses, at a listener, of the leaders that live as far as a broker knows, each once."""
    racks = broker.cache.live_brokers
    live = {one: at for one in dict.fromkeys(leaders) if one in racks and (at := broker.endpoint_of(one, listener))}
    return [kind(node_id=one, host=host, port=port, rack=racks[one]) for one, (host, port) in live.items()]
