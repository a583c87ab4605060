"""How `simzk risk` lays assignments and topics out on a screen.

`simzk risk`: how likely outages and data loss are under an assignment, beside others.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from simzk.cli.layout.tables import console

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from simzk.pipeline.risks.risk import Plan

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


def risk(
    layout: Annotated[Path, typer.Argument(help="A layout file, .parquet, .arrow or .json.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write to.")],
    compare: Annotated[
        list[str] | None,
        typer.Option(
            help="An assignment to compare with: rack-aware, copysets, copysets:SCATTER_WIDTH, random, or a layout "
            "file. May be given more than once; the first, second and fourth where not given.",
            metavar="NAME|FILE",
        ),
    ] = None,
    rates: Annotated[
        Path | None, typer.Option(help="Rates of brokers and racks, TOML or JSON.", metavar="FILE")
    ] = None,
    broker_failures_per_year: Annotated[float | None, typer.Option(help="How often each broker is away.")] = None,
    broker_repair_hours: Annotated[float | None, typer.Option(help="Until it is back, and in sync.")] = None,
    rack_failures_per_year: Annotated[float | None, typer.Option(help="How often each rack is away.")] = None,
    rack_repair_hours: Annotated[float | None, typer.Option(help="Until it is back.")] = None,
    broker_destroyed_per_year: Annotated[float | None, typer.Option(help="How often each broker's disks are.")] = None,
    rereplication_hours: Annotated[
        float | None, typer.Option(help="Until what was on destroyed disks is replicated again.")
    ] = None,
    rack_destroyed_per_year: Annotated[float | None, typer.Option(help="How often all disks of a rack are.")] = None,
    samples: Annotated[int, typer.Option(help="Draws a topic, where not all states are looked at.", min=128)] = 400,
    seed: Annotated[int, typer.Option(help="Of assignments and draws.", min=0)] = 0,
    master: Annotated[
        str | None, typer.Option(help="Compute on Spark: its master. In this process where not given.")
    ] = None,
) -> None:
    """Tell how likely outages and data loss are in a year, by topic, and what other assignments would make of them."""
    from simzk.cli.console import Progress
    from simzk.pipeline.risks.rates_file import rates_spec
    from simzk.pipeline.risks.risk import plan_risk

    spec = rates_spec(
        rates,
        {
            "failures_per_year": broker_failures_per_year,
            "repair_hours": broker_repair_hours,
            "destroyed_per_year": broker_destroyed_per_year,
            "rereplication_hours": rereplication_hours,
        },
        {
            "failures_per_year": rack_failures_per_year,
            "repair_hours": rack_repair_hours,
            "destroyed_per_year": rack_destroyed_per_year,
            "rereplication_hours": rereplication_hours,
        },
    )
    plan = plan_risk(layout, spec, out, compare or [], samples=samples, seed=seed)
    progress = Progress()
    try:
        found = _run(plan, master, progress.tell)
    finally:
        progress.close()
    for name, why in plan.left_out:
        typer.echo(f"simzk: left out: {name}: {why}", err=True)
    show_risk(plan, found)


def _run(plan: Plan, master: str | None, tell: Callable[[str], None]) -> pa.Table:
    from simzk.pipeline.risks.risk import run_risk

    topics = len(plan.layout.topics) * len(plan.assignments)

    def told(share: float) -> None:
        tell(f"{round(topics * share):,} of {topics:,} topics under {len(plan.assignments)} assignments")

    if master is None:
        return run_risk(plan, progress=told)
    from simzk.pipeline.spark.session import spark_session

    tell("starting Spark")
    with spark_session(master) as spark:
        found = run_risk(plan, spark, told)
        tell("stopping Spark")
    return found
