"""Effects of Kafka's reassignment documents on a layout, by release.

Rules of the module:
  - a document is read and rejected as by the release's `kafka-reassign-partitions`, with the layout as the cluster
    (`reassign_partitions`); `partitions.plans` rejects what the tool accepts and no cluster can do;
  - a plan is never shortened: if a release would carry out a part of it, the whole document is rejected;
  - `partitions.plans.what_if` computes the effects.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ConfigError
from simzk.kafka.topic_partition import named
from simzk.kafka.zookeeper_mode.tools import reassign_partitions as reassign_tool
from simzk.partitions.arrays import NONE, pack
from simzk.partitions.layouts.layout import NAMED_PROBLEMS
from simzk.partitions.plans.plan import Plan, Steps, find_rows
from simzk.partitions.plans.what_if import PlanWhatIf

if TYPE_CHECKING:
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.partitions.layouts import Layout


def steps_of(version: KafkaVersion) -> Steps:
    """Return the steps of a reassignment in a release's controller."""
    if version.controller.reassigns_in_topic_znode:
        return Steps.NAMED
    return Steps.WIDENED if version.controller.writes_union_assignment else Steps.BARE


def read_plan(layout: Layout, text: str, version: KafkaVersion) -> Plan:
    """Return the plan of a document for a layout.

    Args:
        layout: layout of the cluster.
        text: document.
        version: release of the tool and of the cluster.

    Raises:
        ZnodeError: the document is not JSON, or has another structure.
        ConfigError: the release's tool or controller rejects the plan.

    >>> from simzk.kafka.releases.versions import VERSIONS
    >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
    >>> layout = generate_layout(brokers_in_racks(3, 0), topics=1, partitions=2, replication_factor=2, seed=0)
    >>> text = '{"version":1,"partitions":[{"topic":"topic-0","partition":1,"replicas":[2,0]}]}'
    >>> read_plan(layout, text, VERSIONS["3.9"]).replicas.tolist()
    [[2, 0]]
    >>> read_plan(layout, text.replace("2,0", "7"), VERSIONS["3.9"])
    Traceback (most recent call last):
    simzk.errors.ConfigError: reassignment: Unknown broker id 7...
    """
    wanted = _with_ids_of_layout(layout, reassign_tool.read_plan(text, version))
    plan = Plan(named(list(wanted)), pack(list(wanted.values())))
    _reject_unknown(layout, list(wanted), plan, version)
    live = set(layout.brokers.ids[layout.brokers.live].tolist())
    reason = reassign_tool.dead_brokers(wanted, live, version)
    drops_dead = reason is None and not version.controller.reassigns_to_dead_brokers
    if drops_dead and any(not live.issuperset(brokers) for brokers in wanted.values()):
        reason = f"a controller of Kafka {version.name} drops reassignments to dead brokers"
    if reason is not None:
        some = ", ".join(map(str, islice(sorted(live), NAMED_PROBLEMS)))
        right = f"live brokers, such as {some}" if live else "a layout with a live broker"
        raise ConfigError(reason, where="reassignment", right=right)
    return plan


def _with_ids_of_layout(
    layout: Layout, wanted: dict[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return a plan with the layout's ids of brokers; the document has those of the cluster."""
    ids = layout.brokers.cluster_ids
    if ids is None:
        return wanted
    number = dict(zip(ids.tolist(), layout.brokers.ids.tolist(), strict=True))
    unknown = next((broker for replicas in wanted.values() for broker in replicas if broker not in number), None)
    if unknown is not None:
        raise ConfigError(f"Unknown broker id {unknown}", where="reassignment", right="ids of brokers of the cluster")
    return {partition: tuple(number[broker] for broker in replicas) for partition, replicas in wanted.items()}


def _reject_unknown(layout: Layout, names: list[TopicPartition], plan: Plan, version: KafkaVersion) -> None:
    places = np.flatnonzero(find_rows(layout, plan.partitions) == NONE)
    if not len(places):
        return
    unknown = [names[place] for place in places[:NAMED_PROBLEMS].tolist()]
    more = len(places) - len(unknown)
    reason = reassign_tool.unknown_partitions(unknown, set(layout.topics), version)
    what = reason + (f" and {more:,} more" if more else "")
    raise ConfigError(what, where="reassignment", right="partitions of the layout")


def what_if(layout: Layout, text: str, version: KafkaVersion) -> PlanWhatIf:
    """Return the effects of a document on a layout; see `read_plan` for arguments and errors, and `plans.diff_of`."""
    plan = read_plan(layout, text, version)
    return PlanWhatIf(layout, plan, steps=steps_of(version), rules=version.rules, scala=version.orders.scala)
