"""How `simzk sweep` lays the worst failure sets out on a screen.

`simzk sweep`: every failure of a kind over a layout, on Spark.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from simzk.cli.layout.tables import console
from simzk.partitions.failures.sets import NamedFailure

if TYPE_CHECKING:
    from simzk.pipeline.sweeps.sweep import Plan

COLUMNS = {
    "newly_offline": "newly\noffline",
    "lost": "no replica\nleft",
    "under_min_isr": "under\nmin ISR",
    "under_replicated": "under-\nreplicated",
    "leaders_moved": "leaders\nmoved",
    "busiest_leaders": "busiest\nleads",
}
"""Columns of the table `failures` that are shown, with their headings."""

MOST_IDS = 6
"""How many broker ids of a set are shown."""


def show_worst(plan: Plan, worst: list[dict[str, object]]) -> None:
    """Print the worst failure sets, and where the rest is."""
    table = Table(title=f"the worst {len(worst)} of {plan.sets:,} failure sets", title_justify="left")
    table.add_column("fails", no_wrap=True)
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    cluster = plan.what_if.brokers
    rack_of = dict(zip(cluster.ids.tolist(), cluster.racks, strict=True))
    named = {str(spec) for spec in plan.specs if isinstance(spec, NamedFailure)}
    for row in worst:
        who = escape(str(row["fail"])) if row["fail"] in named else _who(row, rack_of)
        table.add_row(who, *(f"{row[name]:,}" for name in COLUMNS))
    screen = console()
    screen.print(table)
    before = plan.what_if.baseline
    screen.print(
        f"without any failure: {before.offline:,} offline, {before.under_min_isr:,} under min ISR, "
        f"{before.under_replicated:,} under-replicated, of {plan.partitions:,} partitions"
    )
    screen.print(escape(f"all of them: {plan.out / 'failures'} (Parquet)"), soft_wrap=True)


def show_sampled(plan: Plan) -> None:
    """Print what the drawn sets of a specification tell of all its sets."""
    import pyarrow.parquet as pq

    screen = console()
    for row in pq.read_table(plan.out / "estimates.parquet").to_pylist():
        if row["exact"] or row["count"] != "newly_offline":
            continue
        mean = f"{row['mean']:.3g}"
        if row["mean_low"] is not None:
            mean += f" ({row['mean_low']:.3g} to {row['mean_high']:.3g})"
        screen.print(
            f"{row['fail']}: {row['share']:.2%} ({row['share_low']:.2%} to {row['share_high']:.2%}) of all "
            f"{row['population']:,.0f} sets take partitions offline, {mean} a set (95 % confidence)",
            soft_wrap=True,
        )


def _who(row: dict[str, object], rack_of: dict[int, str | None]) -> str:
    racks, brokers = row["racks"], row["brokers"]
    assert isinstance(racks, list)
    assert isinstance(brokers, list)
    if not racks:
        return _brokers(brokers)
    beside = [broker for broker in brokers if rack_of[broker] not in racks]
    told = f"{', '.join(racks)} ({len(brokers) - len(beside)} brokers)"
    return escape(f"{told}, {_brokers(beside)}" if beside else told)


def _brokers(brokers: list[int]) -> str:
    shown = ", ".join(map(str, brokers[:MOST_IDS])) + (", ..." if len(brokers) > MOST_IDS else "")
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {shown}"


def sweep(
    layout: Annotated[Path, typer.Argument(help="A layout file, .parquet, .arrow or .json.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write to; it gets failures/ and more tables.")],
    fail: Annotated[
        list[str],
        typer.Option(
            help="What fails together: every brokers:N, racks:N or racks:N+brokers:M; S of those sets, drawn, with ~S "
            "behind it; brokers=ID+ID or racks=NAME+NAME; the sets of FILE.json. May be given more than once."
        ),
    ],
    seed: Annotated[int, typer.Option(help="Decides which sets ~S draws.", min=0)] = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail where the layout has no such sets, not only say so.")
    ] = False,
    master: Annotated[
        str, typer.Option(help="Spark's master; a cluster must see LAYOUT and DIR at the same paths.")
    ] = "local[*]",
) -> None:
    """Fail every set of brokers or racks in turn, and tell what each leaves offline, moved or short of replicas."""
    from simzk.cli.console import Progress
    from simzk.partitions.failures.sets import parse_failures
    from simzk.pipeline.spark.session import spark_session
    from simzk.pipeline.sweeps.sweep import plan_sweep, run_sweep

    specs = [spec for text in fail for spec in parse_failures(text, seed)]
    plan = plan_sweep(layout, specs, out, strict=strict)
    progress = Progress()
    try:
        progress.tell("starting Spark")
        with spark_session(master, is_python_busy=True) as spark:
            progress.tell(_so_far(plan, 0.0))
            worst = run_sweep(spark, plan, lambda share: progress.tell(_so_far(plan, share)))
            progress.tell("stopping Spark")
    finally:
        progress.close()
    for _, why in plan.unfit:
        typer.echo(f"simzk: left out: {why}", err=True)
    show_worst(plan, worst)
    show_sampled(plan)


def _so_far(plan: Plan, share: float) -> str:
    return f"{round(plan.sets * share):,} of {plan.sets:,} failure sets over {plan.partitions:,} partitions"
