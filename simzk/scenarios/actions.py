"""How each action of a scenario is told in a few words.

What each action of a scenario does to a cluster: one `_do` a word of `schema.ACTIONS`.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from simzk.kafka.schemas.acl import AclEntry
from simzk.kafka.topic_partition import TopicPartition
from simzk.scenarios import schema
from simzk.scenarios.model import ZOOKEEPER
from simzk.scenarios.source import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.cluster.cluster import KafkaCluster


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
        case schema.FailLogDir(directory=None):
            told = f"{words} of {step.partition} on broker {step.broker}"
        case schema.FailLogDir():
            told = f"{words} {step.directory} of broker {step.broker}"
        case schema.Pause():
            told = f"{words} broker {step.broker} for {step.duration}"
        case schema.Reassign():
            told = f"{words} " + ", ".join(f"{name} to {replicas}" for name, replicas in step.replicas.items())
        case schema.Produce():
            whom = "" if step.broker is None else f" at broker {step.broker}"
            told = f"produce {step.records} records to {step.topic}-{step.partition}{whom}, acks {step.acks}"
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
        case schema.DropReply():
            told = f"lose the next reply to broker {step.broker}'s {step.operation} of {step.path}"
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


def _lists(assignment: Sequence[Sequence[int]]) -> str:
    return " ".join(str(list(replicas)).replace(" ", "") for replicas in assignment)


def _peer(peer: int | str) -> str:
    return f"broker {peer}" if isinstance(peer, int) else peer or "everything"


BROKERS_CHOICE = -1
"""How many partitions or replicas a topic has whose request leaves it to the broker, or gives an assignment."""


def act(cluster: KafkaCluster, step: schema.Action) -> None:
    """Do what a step says, at the present virtual instant."""
    winner: int | None = getattr(step, "next_controller", None)
    if winner is not None:
        cluster.prefer_controller(winner)
    _do(step, cluster)


@singledispatch
def _do(step: object, cluster: KafkaCluster) -> None:
    raise AssertionError(f"no action {step}")


@_do.register(schema.CreateTopic)
def _(step: schema.CreateTopic, cluster: KafkaCluster) -> None:
    cluster.create_topic(
        step.topic,
        partitions=BROKERS_CHOICE if step.partitions is None else step.partitions,
        replication_factor=BROKERS_CHOICE if step.replication_factor is None else step.replication_factor,
        assignment=None if step.assignment is None else dict(enumerate(step.assignment)),
        config=_texts(step.config),
        topic_id=step.topic_id or None,
    )


@_do.register(schema.DeleteTopic)
def _(step: schema.DeleteTopic, cluster: KafkaCluster) -> None:
    cluster.delete_topic(step.topic)


@_do.register(schema.AddPartitions)
def _(step: schema.AddPartitions, cluster: KafkaCluster) -> None:
    cluster.add_partitions(step.topic, step.total, assignment=_added(step))


@_do.register(schema.Kill)
def _(step: schema.Kill, cluster: KafkaCluster) -> None:
    cluster.kill(step.broker)


@_do.register(schema.Restart)
def _(step: schema.Restart, cluster: KafkaCluster) -> None:
    protocol = step.inter_broker_protocol or None
    cluster.restart(step.broker, version=step.version or None, inter_broker_protocol=protocol)


@_do.register(schema.Pause)
def _(step: schema.Pause, cluster: KafkaCluster) -> None:
    cluster.pause(step.broker, (parse_duration(step.duration) or 0) / 1_000_000)


@_do.register(schema.Expire)
def _(step: schema.Expire, cluster: KafkaCluster) -> None:
    cluster.expire(step.broker)


@_do.register(schema.Shutdown)
def _(step: schema.Shutdown, cluster: KafkaCluster) -> None:
    cluster.shutdown(step.broker)


@_do.register(schema.FailLogDir)
def _(step: schema.FailLogDir, cluster: KafkaCluster) -> None:
    cluster.fail_log_dir(step.broker, parse_partition(step.partition) if step.directory is None else step.directory)


@_do.register(schema.Reassign)
def _(step: schema.Reassign, cluster: KafkaCluster) -> None:
    targets: dict[tuple[str, int], Sequence[int] | None] = {}
    for name, replicas in step.replicas.items():
        targets[parse_partition(name)] = replicas or None
    cluster.reassign(targets)


@_do.register(schema.Elect)
def _(step: schema.Elect, cluster: KafkaCluster) -> None:
    named = step.partitions
    cluster.elect(kind=step.kind, partitions=None if named is None else [parse_partition(name) for name in named])


@_do.register(schema.Produce)
def _(step: schema.Produce, cluster: KafkaCluster) -> None:
    timeout_ms = (parse_duration(step.timeout) or 0) // 1000
    cluster.produce(step.topic, step.partition, step.records, acks=step.acks, timeout_ms=timeout_ms, broker=step.broker)


@_do.register(schema.Cut)
def _(step: schema.Cut, cluster: KafkaCluster) -> None:
    cut(cluster, step.broker, step.peer)


@_do.register(schema.Heal)
def _(step: schema.Heal, cluster: KafkaCluster) -> None:
    if step.broker is None:
        cluster.network.heal_all()
    else:
        heal(cluster, step.broker, step.peer)


@_do.register(schema.WriteZnode)
def _(step: schema.WriteZnode, cluster: KafkaCluster) -> None:
    cluster.write_znode(step.path, step.data)


@_do.register(schema.DeleteZnode)
def _(step: schema.DeleteZnode, cluster: KafkaCluster) -> None:
    cluster.delete_znode(step.path)


@_do.register(schema.DropReply)
def _(step: schema.DropReply, cluster: KafkaCluster) -> None:
    cluster.zookeeper_faults.drop_reply(step.operation, client=step.broker, path=step.path)


@_do.register(schema.AddAcl)
def _(step: schema.AddAcl, cluster: KafkaCluster) -> None:
    entry = AclEntry(step.principal, step.operation, step.permission, step.host)
    cluster.add_acls(step.resource, step.name, [entry], prefixed=step.prefixed)


@_do.register(schema.RemoveAcls)
def _(step: schema.RemoveAcls, cluster: KafkaCluster) -> None:
    cluster.remove_acls(step.resource, step.name, prefixed=step.prefixed)


@_do.register(schema.Wait)
def _(step: schema.Wait, cluster: KafkaCluster) -> None:
    """Time passes after every step; this one does nothing beside."""


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
