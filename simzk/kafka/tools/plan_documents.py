"""What Kafka's own reassignment documents would do to a layout, by release.

Rules of the module:

1. A document is read and refused as the release's `kafka-reassign-partitions` reads and refuses it, the layout standing
   for the cluster (`reassign_tool`); what that tool lets pass and no cluster can do is refused by `partitions.plans`.
2. Nothing is left out of a plan: where a release would carry out a part of it, it is refused whole.
3. What then happens is `partitions.plan_what_if`'s.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ConfigError
from simzk.kafka.tools import reassign_partitions as reassign_tool
from simzk.kafka.topic_partition import named
from simzk.partitions.arrays import NONE, pack
from simzk.partitions.layouts.layout import NAMED_PROBLEMS
from simzk.partitions.plans.phases import Steps
from simzk.partitions.plans.plan import Plan, find_rows
from simzk.partitions.plans.what_if import PlanWhatIf

if TYPE_CHECKING:
    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.partitions.layouts import Layout


def steps_of(version: KafkaVersion) -> Steps:
    """The steps that a release's controller takes."""
    if version.controller.reassigns_in_topic_znode:
        return Steps.NAMED
    return Steps.WIDENED if version.controller.writes_union_assignment else Steps.BARE


def read_plan(layout: Layout, text: str, version: KafkaVersion) -> Plan:
    """The plan of a document, as far as a layout can take it.

    Args:
        layout: the cluster.
        text: the document.
        version: of the tool, and of the cluster.

    Raises:
        ZnodeError: it is no JSON, or JSON of another shape.
        ConfigError: the release's tool, or its controller, takes no such plan.

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
    wanted = reassign_tool.read_plan(text, version)
    plan = Plan(named(list(wanted)), pack(list(wanted.values())))
    _refuse_unknown(layout, list(wanted), plan, version)
    live = set(layout.brokers.ids[layout.brokers.live].tolist())
    said = reassign_tool.dead_brokers(wanted, live, version)
    if (
        said is None
        and not version.controller.reassigns_to_dead_brokers
        and any(not live.issuperset(brokers) for brokers in wanted.values())
    ):
        said = f"a controller of Kafka {version.name} moves nothing to brokers that are down"
    if said is not None:
        some = ", ".join(map(str, islice(sorted(live), NAMED_PROBLEMS)))
        right = f"live brokers, such as {some}" if live else "a layout in which some broker lives"
        raise ConfigError(said, where="reassignment", right=right)
    return plan


def _refuse_unknown(layout: Layout, names: list[TopicPartition], plan: Plan, version: KafkaVersion) -> None:
    places = np.flatnonzero(find_rows(layout, plan.partitions) == NONE)
    if not len(places):
        return
    unknown = [names[place] for place in places[:NAMED_PROBLEMS].tolist()]
    more = len(places) - len(unknown)
    said = reassign_tool.unknown_partitions(unknown, set(layout.topics), version)
    raise ConfigError(
        said + (f" and {more:,} more" if more else ""), where="reassignment", right="partitions of the layout"
    )


def what_if(layout: Layout, text: str, version: KafkaVersion) -> PlanWhatIf:
    """What a document would do to a layout; arguments and errors as of `read_plan`, and those of `plans.diff_of`."""
    return PlanWhatIf(
        layout,
        read_plan(layout, text, version),
        steps=steps_of(version),
        rules=version.rules,
        scala=version.orders.scala,
    )
