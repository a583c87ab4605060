"""Links of a broker to ZooKeeper and to the other brokers: cut and heal them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.cluster.cluster import KafkaCluster

ZOOKEEPER = "zookeeper"
"""Name of ZooKeeper as an end of a network link."""


def cut(cluster: KafkaCluster, broker: int, peer: int | str = "") -> None:
    """Cut a broker's link to one peer, or its links to ZooKeeper and every other broker."""
    for end in peer_ends(cluster, broker, peer):
        cluster.network.cut(end_of(broker), end)


def heal(cluster: KafkaCluster, broker: int, peer: int | str = "") -> None:
    """Heal a broker's link to one peer, or its links to ZooKeeper and every other broker."""
    for end in peer_ends(cluster, broker, peer):
        cluster.network.heal(end_of(broker), end)


def peer_ends(cluster: KafkaCluster, broker: int, peer: int | str) -> Iterable[str]:
    """Return the other ends of a broker's links: of one peer, or without a peer ZooKeeper and every other broker."""
    if peer != "":
        return [end_of(peer)]
    return [ZOOKEEPER, *(end_of(other) for other in cluster.brokers if other != broker)]


def end_of(peer: int | str) -> str:
    """Return the name of an end of the network."""
    return f"broker {peer}" if isinstance(peer, int) else peer
