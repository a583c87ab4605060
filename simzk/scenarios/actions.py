"""What each action of a scenario does to a cluster, and how it is told: one row a word of `schema.ACTIONS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.schemas.acl import AclEntry
from simzk.kafka.topic_partition import TopicPartition
from simzk.scenarios import schema
from simzk.scenarios.durations import parse_duration
from simzk.scenarios.world import ZOOKEEPER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.cluster import KafkaCluster


BROKERS_CHOICE = -1
"""How many partitions or replicas a topic has whose request leaves it to the broker, or gives an assignment."""


def act(cluster: KafkaCluster, step: schema.Action) -> None:
    """Do what a step says, at the present virtual instant."""
    winner: int | None = getattr(step, "next_controller", None)
    if winner is not None:
        cluster.prefer_controller(winner)
    match step:
        case schema.CreateTopic():
            cluster.create_topic(
                step.topic,
                partitions=BROKERS_CHOICE if step.partitions is None else step.partitions,
                replication_factor=BROKERS_CHOICE if step.replication_factor is None else step.replication_factor,
                assignment=None if step.assignment is None else dict(enumerate(step.assignment)),
                config=_texts(step.config),
                topic_id=step.topic_id or None,
            )
        case schema.DeleteTopic():
            cluster.delete_topic(step.topic)
        case schema.AddPartitions():
            cluster.add_partitions(step.topic, step.total, assignment=_added(step))
        case schema.Kill():
            cluster.kill(step.broker)
        case schema.Restart():
            cluster.restart(
                step.broker,
                version=step.version or None,
                inter_broker_protocol=step.inter_broker_protocol or None,
            )
        case schema.Pause():
            cluster.pause(step.broker, (parse_duration(step.duration) or 0) / 1_000_000)
        case schema.Expire():
            cluster.expire(step.broker)
        case schema.Shutdown():
            cluster.shutdown(step.broker)
        case schema.Reassign():
            targets: dict[tuple[str, int], Sequence[int] | None] = {}
            for name, replicas in step.replicas.items():
                targets[parse_partition(name)] = replicas or None
            cluster.reassign(targets)
        case schema.Elect():
            named = step.partitions
            partitions = None if named is None else [parse_partition(name) for name in named]
            cluster.elect(kind=step.kind, partitions=partitions)
        case schema.Produce():
            if not cluster.produce(step.topic, step.partition, step.records):
                cluster.history.record("producer", "refused", f"{step.topic}-{step.partition}")
        case schema.Cut():
            cut(cluster, step.broker, step.peer)
        case schema.Heal():
            if step.broker is None:
                cluster.network.heal_all()
            else:
                heal(cluster, step.broker, step.peer)
        case schema.WriteZnode():
            cluster.write_znode(step.path, step.data)
        case schema.DeleteZnode():
            cluster.delete_znode(step.path)
        case schema.AddAcl():
            entry = AclEntry(step.principal, step.operation, step.permission, step.host)
            cluster.add_acls(step.resource, step.name, [entry], prefixed=step.prefixed)
        case schema.RemoveAcls():
            cluster.remove_acls(step.resource, step.name, prefixed=step.prefixed)
        case schema.Wait():
            pass
        case _:
            raise AssertionError(f"no action {step.action}")


def cut(cluster: KafkaCluster, broker: int, peer: int | str = "") -> None:
    """Cut a broker's links: to one peer, or to ZooKeeper and every other broker."""
    for end in _ends(cluster, broker, peer):
        cluster.network.cut(_end(broker), end)


def heal(cluster: KafkaCluster, broker: int, peer: int | str = "") -> None:
    """Heal a broker's links: to one peer, or to ZooKeeper and every other broker."""
    for end in _ends(cluster, broker, peer):
        cluster.network.heal(_end(broker), end)


def _ends(cluster: KafkaCluster, broker: int, peer: int | str) -> list[str]:
    if peer != "":
        return [_end(peer)]
    return [ZOOKEEPER, *(_end(other) for other in cluster.brokers if other != broker)]


def _end(peer: int | str) -> str:
    """Return the name of an end of the network."""
    return f"broker {peer}" if isinstance(peer, int) else peer


def describe(step: schema.Action) -> str:
    """Return an action in a few words, as the timeline tells it.

    >>> describe(schema.Pause(action="pause", broker=1, duration="20s"))
    'pause broker 1 for 20s'
    """
    words = step.action.replace("_", " ")
    match step:
        case schema.CreateTopic(assignment=None):
            told = f"{words} {step.topic}: {step.partitions} partitions, {step.replication_factor} replicas each"
        case schema.CreateTopic():
            told = f"{words} {step.topic}: {_lists(step.assignment or [])}"
        case schema.DeleteTopic():
            told = f"{words} {step.topic}"
        case schema.AddPartitions():
            told = f"{words} to {step.topic}: {step.total} in all"
        case schema.Kill() | schema.Restart() | schema.Expire() | schema.Shutdown():
            told = f"{words} broker {step.broker}"
        case schema.Pause():
            told = f"{words} broker {step.broker} for {step.duration}"
        case schema.Reassign():
            told = f"{words} " + ", ".join(f"{name} to {replicas}" for name, replicas in step.replicas.items())
        case schema.Produce():
            told = f"produce {step.records} records to {step.topic}-{step.partition}"
        case schema.Elect():
            told = f"elect {step.kind} leaders of {', '.join(step.partitions) if step.partitions else 'all partitions'}"
        case schema.Cut():
            told = f"cut broker {step.broker} off from {_peer(step.peer)}"
        case schema.Heal():
            told = (
                "heal all links" if step.broker is None else f"heal broker {step.broker}'s link to {_peer(step.peer)}"
            )
        case schema.WriteZnode():
            told = f"write {step.path} {step.data}"
        case schema.DeleteZnode():
            told = f"delete {step.path}"
        case schema.AddAcl():
            rule = f"{step.permission} {step.principal} {step.operation}"
            told = f"{rule} on {step.resource} {step.name}{'*' * step.prefixed} from {step.host}"
        case schema.RemoveAcls():
            told = f"{words} of {step.resource} {step.name}{'*' * step.prefixed}"
        case schema.Wait():
            told = f"wait {step.duration}"
        case _:
            raise AssertionError(f"no action {step.action}")
    return told


def parse_partition(name: str) -> TopicPartition:
    """Return the partition that a name such as `orders-0` means; the reader has checked the name.

    >>> parse_partition("my-orders-12")
    TopicPartition(topic='my-orders', partition=12)
    """
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _texts(config: dict[str, str | int | bool]) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}


def _added(step: schema.AddPartitions) -> dict[int, Sequence[int]] | None:
    if step.assignment is None:
        return None
    first = step.total - len(step.assignment)
    return {first + index: replicas for index, replicas in enumerate(step.assignment)}


def _lists(assignment: Sequence[Sequence[int]]) -> str:
    return " ".join(str(list(replicas)).replace(" ", "") for replicas in assignment)


def _peer(peer: int | str) -> str:
    return f"broker {peer}" if isinstance(peer, int) else peer or "everything"
