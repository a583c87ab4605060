"""`simzk risk`: probability of outages and data loss per year, compared between replica assignments."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simzk.cli.console import (
    Bar,
    BarPart,
    JsonOut,
    Progress,
    console,
    escape,
    exit_interrupted,
    number_table,
    text_output,
    write_json,
)
from simzk.cli.messages import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from simzk.pipeline.risks import RiskPlan

TOPICS_SHOWN = 5
HEADINGS = ("outage\n(95 % confidence)", "minutes\noffline", "data loss", "partitions\nlost", "sets of\nreplicas")
OFFLINE = BarPart("█", "#", "red")
_CELLS = 1000
"""Steps of the longest bar: bars have whole values, and minutes may be tiny."""


def show_risk(plan: RiskPlan, assignments: pa.Table) -> None:
    """Print the assignments, the topics at the highest risk, and the place of the others."""
    screen = console()
    table = number_table("All partitions, per year", "assignment", (*HEADINGS, "replicas\nto move"))
    table.add_column()
    rows = assignments.to_pylist()
    for row, bar in zip(rows, _bars(rows), strict=True):
        table.add_row(escape(row["assignment"]), *_cells(row), f"{row['replicas_moved']:,}", bar)
    screen.print(table)
    topics = number_table("Topics at the highest risk under the present assignment, per year", "topic", HEADINGS)
    topics.add_column()
    rows = _worst_topics(plan)
    for row, bar in zip(rows, _bars(rows), strict=True):
        topics.add_row(escape(row["topic"]), *_cells(row), bar)
    screen.print(topics)
    screen.print(escape(f"All topics: {plan.out / 'topics.parquet'}"), soft_wrap=True)


def _worst_topics(plan: RiskPlan) -> list[dict[str, Any]]:
    """Return the topics at the highest risk under the first assignment."""
    import pyarrow.parquet as pq

    shown = min(TOPICS_SHOWN, len(plan.layout.topics))
    rows: list[dict[str, Any]] = pq.read_table(plan.out / "topics.parquet").slice(0, shown).to_pylist()
    return rows


def _document(plan: RiskPlan, assignments: pa.Table) -> dict[str, object]:
    """Return the result for `--json`."""
    return {
        "layout": plan.name,
        "out": str(plan.out),
        "partitions": len(plan.layout),
        "skipped": [{"assignment": name, "why": why} for name, why in plan.left_out],
        "assignments": assignments.to_pylist(),
        "worst_topics": _worst_topics(plan),
    }


def _bars(rows: Sequence[dict[str, Any]]) -> list[Bar]:
    """Return a bar for the minutes offline of each row."""
    most = max((row["offline_minutes"] for row in rows), default=0.0)
    scale = _CELLS / most if most else 0.0
    return [Bar([round(row["offline_minutes"] * scale)], [OFFLINE], _CELLS) for row in rows]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    outage = probability(row["outage_probability"])
    if not row["exact"]:
        outage += f"\n({probability(row['outage_probability_low'])} to {probability(row['outage_probability_high'])})"
    return (
        outage,
        amount(row["offline_minutes"]),
        probability(row["loss_probability"]),
        amount(row["partitions_lost"]),
        f"{row['replica_sets']:,}",
    )


def amount(value: float) -> str:
    """Return an expected number as text.

    >>> amount(0.0), amount(0.01234), amount(87.65), amount(12345.6)
    ('0', '0.0123', '87.7', '12,346')
    """
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def probability(value: float) -> str:
    """Return a probability as text.

    >>> probability(0.0), probability(0.0213), probability(2.5e-6)
    ('never', '2.13%', '1 in 400,000')
    """
    if value >= 0.001:
        return f"{value:.2%}"
    return f"1 in {1 / value:,.0f}" if value > 0 else "never"


def risk(
    layout: Annotated[Path, typer.Argument(help="Layout file: .parquet, .arrow or .json.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for the tables.")],
    compare: Annotated[
        list[str] | None,
        typer.Option(
            help="Assignment to compare with: rack-aware, copysets, copysets:SCATTER_WIDTH (such as copysets:4), "
            "random, or a layout file. Repeatable.",
            show_default="rack-aware, copysets and random",
            metavar="NAME|FILE",
        ),
    ] = None,
    rates: Annotated[
        Path | None, typer.Option(help="Failure rates of brokers and racks: TOML or JSON.", metavar="FILE")
    ] = None,
    broker_failures_per_year: Annotated[
        float | None, typer.Option(help="Repairable failures per broker and year.", show_default="2")
    ] = None,
    broker_repair_hours: Annotated[
        float | None, typer.Option(help="Hours until a failed broker is back in sync.", show_default="1")
    ] = None,
    rack_failures_per_year: Annotated[
        float | None, typer.Option(help="Repairable failures per rack and year.", show_default="0.44")
    ] = None,
    rack_repair_hours: Annotated[
        float | None, typer.Option(help="Hours until a failed rack is back.", show_default="3.5")
    ] = None,
    broker_destroyed_per_year: Annotated[
        float | None, typer.Option(help="Permanent disk losses per broker and year.", show_default="0.0157")
    ] = None,
    rereplication_hours: Annotated[
        float | None, typer.Option(help="Hours until the data of lost disks is replicated again.", show_default="12")
    ] = None,
    rack_destroyed_per_year: Annotated[
        float | None, typer.Option(help="Permanent losses of all disks per rack and year.", show_default="0")
    ] = None,
    samples: Annotated[
        int, typer.Option(help="Random samples per topic when exact enumeration is too large.", min=128)
    ] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the assignments and samples.", min=0)] = 0,
    master: Annotated[
        str | None, typer.Option(help="Master URL of Spark to compute on.", show_default="compute in this process")
    ] = None,
    json_out: JsonOut = None,
) -> None:
    """Compute the probability of outages and data loss per year and topic, for this and other assignments."""
    from simzk.pipeline.risks import plan_risk, rates_spec

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
    _assess(plan_risk(layout, spec, out, compare or [], samples=samples, seed=seed), master, json_out)


def _assess(plan: RiskPlan, master: str | None, json_out: Path | None) -> None:
    """Compute the tables of a plan, and print them; Ctrl-C keeps the assignments that are done."""
    of = len(plan.assignments)
    try:
        with Progress() as progress:
            found = _run(plan, master, progress.show)
    except KeyboardInterrupt:
        exit_interrupted(f"none of {of} assignments is done")
    for name, why in plan.left_out:
        say("skipped", f"{name}: {why}")
    if json_out is not None:
        write_json(json_out, _document(plan, found))
    with text_output(json_out):
        show_risk(plan, found)
    if len(found) < of:
        exit_interrupted(f"{len(found)} of {of} assignments are done")


def _run(plan: RiskPlan, master: str | None, show_progress: Callable[..., None]) -> pa.Table:
    from simzk.pipeline.risks import run_risk

    topics = len(plan.layout.topics) * len(plan.assignments)

    def on_progress(share: float) -> None:
        done = f"{round(topics * share):,} of {topics:,} topics"
        show_progress(f"{done} under {len(plan.assignments)} assignments", share)

    if master is None:
        return run_risk(plan, progress=on_progress)
    from simzk.pipeline.spark_session import spark_session

    show_progress("starting Spark")
    with spark_session(master) as spark:
        found = run_risk(plan, spark, on_progress)
        show_progress("stopping Spark")
    return found
