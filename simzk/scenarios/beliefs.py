"""Expectations of what a broker believes and has, and of what its producers were told.

Rules of this module:
  - here alone a scenario looks into a broker, at its metadata cache and its logs; one that does not run has no belief;
  - checked before the run like all else, with what would be right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka.requests import Error
from simzk.kafka.topic_partition import NO_LEADER, TopicPartition
from simzk.scenarios import schema
from simzk.scenarios.source import did_you_mean

if TYPE_CHECKING:
    from simzk.kafka.broker.metadata_cache import BrokerMetadata
    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.scenarios.model import World
    from simzk.scenarios.source import KeyPath

Belief = schema.ExpectMetadata | schema.ExpectLog | schema.ExpectProduced
LookedAt = tuple[tuple[str, object, object], ...]
"""What is looked at: its name, what is expected (None for nothing), what is found."""


def check_belief(world: World, step: Belief, at: KeyPath) -> None:
    """Check such an expectation against what there is.

    Raises:
        ScenarioError: it names what never was, or expects nothing.
    """
    source = world.source
    match step:
        case schema.ExpectMetadata():
            asked = [value for value in _of_partition(step) if value is not None]
            if (not step.topic) != (step.partition is None) or ((asked or not step.known) and not step.topic):
                source.fail(at, "of which partition?", "topic and partition")
            if asked and not step.known:
                source.fail((*at, "known"), "what of a partition that it does not know?", "known = false alone")
            for broker in (*(step.live or ()), *(step.isr or ())):
                world.check_broker(broker, (*at, "live" if broker in (step.live or ()) else "isr"))
            expected: list[object] = [step.live, step.controller, step.topic or None]
            right = "live, controller, or a topic and partition"
        case schema.ExpectLog():
            expected, right = [step.log_end, step.high_watermark], "log_end or high_watermark"
        case schema.ExpectProduced():
            expected, right = [step.acknowledged, step.last], "acknowledged or last"
            if step.last is not None and step.last not in Error.__members__:
                source.fail((*at, "last"), f"no answer is called {step.last!r}", did_you_mean(step.last, _ANSWERS))
    if all(value is None for value in expected):
        source.fail(at, "nothing is expected", right)
    if step.topic and step.partition is not None:
        count = world.topics.get(step.topic, world.deleted.get(step.topic, 0))
        if step.partition >= count:
            right = "a topic and partition that a step above creates"
            source.fail((*at, "partition"), f"there is no {step.topic}-{step.partition} at this step", right)


def look(cluster: KafkaCluster, step: Belief) -> LookedAt | str:
    """What a broker believes or has, beside what is expected of it; or why nothing can be said."""
    if isinstance(step, schema.ExpectProduced):
        partition = TopicPartition(step.topic, step.partition)
        producer = cluster.producer
        last = producer.last.get(partition)
        return (
            (f"records acknowledged in {partition}", step.acknowledged, producer.acknowledged.get(partition, 0)),
            ("the last answer", step.last, None if last is None else last.name),
        )
    try:
        if isinstance(step, schema.ExpectMetadata):
            return _believed(cluster.metadata(step.broker), step)
        broker = cluster.state(step.topic, step.partition).leader if step.broker is None else step.broker
        if broker == NO_LEADER:
            return f"{step.topic}-{step.partition} has no leader"
        log = cluster.log(broker, step.topic, step.partition)
    except ConfigError as error:
        return error.what
    name = f"broker {broker}'s {step.topic}-{step.partition}"
    return (
        (f"{name}: log end", step.log_end, log.log_end),
        (f"{name}: high watermark", step.high_watermark, log.high_watermark),
    )


def _believed(seen: BrokerMetadata, step: schema.ExpectMetadata) -> LookedAt | str:
    who = f"broker {step.broker} believes"
    of_all = (
        (f"{who}: live brokers", None if step.live is None else sorted(step.live), list(seen.live_brokers)),
        (f"{who}: controller", step.controller, seen.controller),
    )
    if step.partition is None:
        return of_all
    state = seen.state(step.topic, step.partition)
    if state is None or not step.known:
        name = f"{step.topic}-{step.partition}"
        return (*of_all, (f"{who}: {name} known", step.known, state is not None))
    found = (state.leader, list(state.isr), state.leader_epoch, state.controller_epoch)
    told = zip(_FIELDS, _of_partition(step), found, strict=True)
    return (*of_all, *((f"{who}: {step.topic}-{step.partition} {name}", wanted, has) for name, wanted, has in told))


def words(step: Belief) -> str:
    """Such an expectation in a few words.

    >>> words(schema.ExpectLog(expect="log", topic="orders", partition=0, broker=2, log_end=10))
    'broker 2 has of orders-0 log end 10'
    >>> words(schema.ExpectMetadata(expect="metadata", broker=3, live=[1, 3], topic="orders", partition=0, leader=1))
    'broker 3 believes live brokers [1, 3], orders-0 with leader 1'
    """
    match step:
        case schema.ExpectMetadata():
            told = [_said(("live brokers", step.live), ("controller", step.controller))]
            if step.topic:
                of_it = _said(*zip(_FIELDS, _of_partition(step), strict=True))
                name = f"{step.topic}-{step.partition}"
                told.append(f"{name} with {of_it}" if of_it else f"{'in' if step.known else 'in no'} {name}")
            return f"broker {step.broker} believes {', '.join(part for part in told if part)}"
        case schema.ExpectLog():
            who = "the leader" if step.broker is None else f"broker {step.broker}"
            told_log = _said(("log end", step.log_end), ("high watermark", step.high_watermark))
            return f"{who} has of {step.topic}-{step.partition} {told_log}"
        case schema.ExpectProduced():
            told_records = _said(("records acknowledged:", step.acknowledged), ("last answer", step.last))
            return f"{step.topic}-{step.partition} {told_records}"


def _said(*fields: tuple[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields if value is not None)


def _of_partition(step: schema.ExpectMetadata) -> tuple[object, ...]:
    return step.leader, step.isr, step.leader_epoch, step.controller_epoch


_FIELDS = ("leader", "isr", "leader epoch", "controller epoch")
_ANSWERS = (
    "NONE",
    "NOT_ENOUGH_REPLICAS",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT",
    "NETWORK_EXCEPTION",
    "INVALID_REQUIRED_ACKS",
)
