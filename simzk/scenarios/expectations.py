"""Whether an expectation of a scenario holds now, and if not, each thing in which it does not.

Rules of this module:
  - what is looked at stands in ZooKeeper or in the history, where any client could see it; what brokers believe is
    asked of them in `beliefs`;
  - an answer is a list of sentences, empty where the expectation holds.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from simzk.kafka.observation import recording
from simzk.kafka.topic_partition import TopicPartition
from simzk.scenarios import beliefs, schema, view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.observation.recording import Recording

DIFFERENCES_SHOWN_MAX = 20


def failures(
    cluster: KafkaCluster, step: schema.Expectation, topics: dict[str, int], recorded: Recording | None
) -> list[str]:
    """Return in what an expectation does not hold at this instant.

    Args:
        cluster: looked at.
        step: what is expected.
        topics: how many partitions each topic should have by now: one that is not there yet is not whole.
        recorded: the recording that the cluster came from.
    """
    tree = cluster.tree
    match step:
        case schema.ExpectPartition():
            return _partition_failures(cluster, step)
        case schema.ExpectController():
            return _unequal(
                ("controller", step.broker, -1 if cluster.controller is None else cluster.controller),
                ("controller epoch", step.epoch, view.controller_epoch(tree)),
            )
        case schema.ExpectBrokers():
            return _unequal(("registered brokers", sorted(step.registered), view.registered_brokers(tree)))
        case schema.ExpectTopics():
            return _unequal(("topics", sorted(step.topics), view.topics(tree)))
        case schema.ExpectZnode():
            return _znode_failures(cluster, step)
        case schema.ExpectOffline():
            seen_offline = [str(seen.partition) for seen in view.partitions(tree) if not seen.online]
            offline = sorted({*seen_offline, *_missing(cluster, topics)})
            return _unequal(("offline partitions", sorted(step.partitions), offline))
        case schema.ExpectWhole():
            missing = [f"{name} does not exist" for name in _missing(cluster, topics)]
            return missing + _whole_failures(view.partitions(tree), preferred=step.preferred)
        case schema.ExpectLeaders():
            counts = Counter(seen.state.leader for seen in view.partitions(tree) if seen.state and seen.online)
            led = {broker: counts[int(broker)] for broker in step.leaders}
            return _unequal(("partitions led", step.leaders, led))
        case schema.ExpectEvent():
            return _event_failures(cluster, step)
        case schema.ExpectMetadata() | schema.ExpectLog() | schema.ExpectProduced():
            found_out = beliefs.look(cluster, step)
            return [found_out] if isinstance(found_out, str) else _unequal(*found_out)
        case schema.ExpectRecorded():
            assert recorded is not None, "the reader has checked that there is a recording"
            found = [str(difference) for difference in recording.differences(tree, recorded.tree(step.step))]
            more = len(found) - DIFFERENCES_SHOWN_MAX
            return [*found[:DIFFERENCES_SHOWN_MAX], f"and {more} more"] if more > 0 else found
        case _:
            raise AssertionError(f"no expectation {step.expect}")


def describe(step: schema.Expectation) -> str:
    """Return the name of an expectation: the one it was given, or what it says.

    >>> describe(schema.ExpectController(expect="controller", broker=2, epoch=3))
    'controller is 2, epoch 3'
    """
    if step.name:
        return step.name
    match step:
        case schema.ExpectPartition():
            epochs = _said(("leader epoch", step.leader_epoch), ("controller epoch", step.controller_epoch))
            who = _said(("leader", step.leader), ("isr", step.isr), ("replicas", step.replicas))
            told = ", ".join(part for part in (who, epochs, _said(("version", step.version))) if part)
            return f"{step.topic}-{step.partition} has {told}"
        case schema.ExpectController():
            who = "" if step.broker is None else f"controller is {'nobody' if step.broker == -1 else step.broker}"
            epoch = "" if step.epoch is None else f"{', ' if who else 'controller '}epoch {step.epoch}"
            return who + epoch
        case schema.ExpectBrokers():
            return f"brokers {', '.join(map(str, step.registered))} are registered"
        case schema.ExpectTopics():
            return f"topics are {', '.join(step.topics) or 'none'}"
        case schema.ExpectZnode(exists=False):
            return f"{step.path} does not exist"
        case schema.ExpectZnode():
            told = _said(("data", step.data), ("version", step.version), ("children", step.children))
            return f"{step.path} has {told}" if told else f"{step.path} exists"
        case schema.ExpectOffline():
            return f"offline: {', '.join(step.partitions) or 'no partition'}"
        case schema.ExpectWhole():
            return f"every partition is led and in sync{', by its preferred leader' if step.preferred else ''}"
        case schema.ExpectLeaders():
            return "leads: " + ", ".join(f"broker {broker} {count}" for broker, count in step.leaders.items())
        case schema.ExpectEvent():
            fields = (step.who, step.what, step.subject, step.before, step.after_)
            told = " ".join(field for field in fields if field)
            return f"{told}: {'at least once' if step.count is None else f'{step.count} times'}"
        case schema.ExpectMetadata() | schema.ExpectLog() | schema.ExpectProduced():
            return beliefs.words(step)
        case schema.ExpectRecorded():
            return f"the tree equals the recorded one after {step.step}"
        case _:
            raise AssertionError(f"no expectation {step.expect}")


def _said(*fields: tuple[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields if value is not None)


def _unequal(*looked_at: tuple[str, object, object]) -> list[str]:
    return [
        f"{name} is {found}, expected {expected}"
        for name, expected, found in looked_at
        if expected is not None and expected != found
    ]


def _partition_failures(cluster: KafkaCluster, step: schema.ExpectPartition) -> list[str]:
    name = f"{step.topic}-{step.partition}"
    seen = view.partition(cluster.tree, TopicPartition(step.topic, step.partition))
    if seen is None:
        return [f"{name} does not exist"]
    found = _unequal((f"{name} replicas", step.replicas, list(seen.assignment.replicas)))
    if seen.state is None:
        return [*found, f"{name} has no state"]
    state = seen.state
    return found + _unequal(
        (f"{name} leader", step.leader, state.leader),
        (f"{name} isr", step.isr, list(state.isr)),
        (f"{name} leader epoch", step.leader_epoch, state.leader_epoch),
        (f"{name} controller epoch", step.controller_epoch, state.controller_epoch),
        (f"{name} version", step.version, state.version),
    )


def _znode_failures(cluster: KafkaCluster, step: schema.ExpectZnode) -> list[str]:
    znode = cluster.tree.get(step.path)
    if znode is None:
        return [f"{step.path} does not exist"] if step.exists else []
    if not step.exists:
        return [f"{step.path} exists"]
    data = None if znode.data is None else znode.data.decode(errors="replace")
    return _unequal(
        (f"{step.path} data", step.data, data),
        (f"{step.path} version", step.version, znode.version),
        (
            f"{step.path} children",
            None if step.children is None else sorted(step.children),
            sorted(znode.child_names()),
        ),
    )


def _whole_failures(partitions: Iterable[view.PartitionView], *, preferred: bool) -> list[str]:
    found = []
    for seen in partitions:
        if not seen.online:
            found.append(f"{seen.partition} has no leader")
        elif not seen.in_sync:
            isr = list(seen.state.isr) if seen.state else []
            found.append(f"{seen.partition} has isr {isr} of replicas {list(seen.assignment.replicas)}")
        elif preferred and not seen.preferred:
            found.append(f"{seen.partition} is not led by its first replica {seen.assignment.replicas[0]}")
    return found


def _missing(cluster: KafkaCluster, topics: dict[str, int]) -> list[str]:
    """Return the partitions that should be there and are not."""
    present = {seen.partition for seen in view.partitions(cluster.tree)}
    wanted = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
    return [str(partition) for partition in wanted if partition not in present]


def _event_failures(cluster: KafkaCluster, step: schema.ExpectEvent) -> list[str]:
    wanted = {"what": step.what, "who": step.who, "subject": step.subject, "before": step.before, "after": step.after_}
    count = sum(
        1
        for event in cluster.history
        if all(value is None or getattr(event, field) == value for field, value in wanted.items())
    )
    if step.count is None:
        return [] if count else ["it never happened"]
    return _unequal(("how often it happened", step.count, count))
