"""How `simzk risk` lays assignments and topics out on a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from simzk.cli.layout_tables import console

if TYPE_CHECKING:
    import pyarrow as pa

    from simzk.pipeline.risk import Plan

TOPICS_SHOWN = 5


def show_risk(plan: Plan, assignments: pa.Table) -> None:
    """Print the assignments beside each other, the topics that are worst off, and where the rest is."""
    import pyarrow.parquet as pq

    screen = console()
    table = _table("in a year, of all partitions", "assignment")
    table.add_column("replicas\nto move", justify="right")
    for row in assignments.to_pylist():
        table.add_row(escape(row["assignment"]), *_cells(row), f"{row['replicas_moved']:,}")
    screen.print(table)
    topics = _table("in a year, of the topics worst off as they are", "topic")
    for row in (
        pq.read_table(plan.out / "topics.parquet").slice(0, min(TOPICS_SHOWN, len(plan.layout.topics))).to_pylist()
    ):
        topics.add_row(escape(row["topic"]), *_cells(row))
    screen.print(topics)
    screen.print(escape(f"all of them: {plan.out / 'topics.parquet'}"), soft_wrap=True)


def _table(title: str, first: str) -> Table:
    table = Table(first, title=title, title_justify="left")
    for heading in (
        "an outage\n(95 % confidence)",
        "minutes\noffline",
        "data lost",
        "partitions\nlost",
        "sets of\nreplicas",
    ):
        table.add_column(heading, justify="right")
    return table


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    outage = probability(row["outage_probability"])
    if not row["exact"]:
        outage += f"\n({probability(row['outage_probability_low'])} to {probability(row['outage_probability_high'])})"
    return (
        outage,
        f"{row['offline_minutes']:.3g}",
        probability(row["loss_probability"]),
        f"{row['partitions_lost']:.3g}",
        f"{row['replica_sets']:,}",
    )


def probability(value: float) -> str:
    """A probability as one reads it.

    >>> probability(0.0), probability(0.0213), probability(2.5e-6)
    ('never', '2.13%', '1 in 400,000')
    """
    if value >= 0.001:
        return f"{value:.2%}"
    return f"1 in {1 / value:,.0f}" if value > 0 else "never"
