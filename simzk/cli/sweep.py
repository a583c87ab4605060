"""`simzk sweep`: every failure set of a kind over a layout, on Spark, and tables of the worst ones."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simzk.cli.console import (
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
from simzk.partitions.failures.sets import NamedFailure

if TYPE_CHECKING:
    from simzk.pipeline.sweeps.sweep import SweepPlan, Swept

COLUMNS = {
    "newly_offline": "newly\noffline",
    "lost": "no replica\nleft",
    "under_min_isr": "under\nmin ISR",
    "under_replicated": "under-\nreplicated",
    "leaders_moved": "leaders\nmoved",
    "busiest_leaders": "busiest\nleads",
}
"""Columns of the table `failures` that are printed, with their headings."""

MOST_IDS = 6
"""Number of broker ids of a set that are printed."""


def show_worst(plan: SweepPlan, swept: Swept) -> None:
    """Print the worst failure sets and the place of the others."""
    table = number_table(f"Worst {len(swept.worst)} of {swept.sets:,} failure sets", "fails", COLUMNS.values())
    table.columns[0].no_wrap = True
    cluster = plan.what_if.brokers
    rack_of = dict(zip(cluster.ids.tolist(), cluster.racks, strict=True))
    named = {str(spec) for spec in plan.specs if isinstance(spec, NamedFailure)}
    for row in swept.worst:
        who = escape(str(row["fail"])) if row["fail"] in named else _who(row, rack_of)
        table.add_row(who, *(f"{row[name]:,}" for name in COLUMNS))
    screen = console()
    screen.print(table)
    before = plan.what_if.baseline
    screen.print(
        f"Without any failure: {before.offline:,} offline, {before.under_min_isr:,} under min ISR, "
        f"{before.under_replicated:,} under-replicated, of {plan.partitions:,} partitions"
    )
    screen.print(escape(f"All failure sets: {plan.out / 'failures'} (Parquet)"), soft_wrap=True)


def show_sampled(plan: SweepPlan) -> None:
    """Print estimates for all sets of a specification from its samples."""
    screen = console()
    for row in _estimates(plan):
        if row["exact"] or row["count"] != "newly_offline":
            continue
        mean = f"{row['mean']:.3g}"
        if row["mean_low"] is not None:
            mean += f" ({row['mean_low']:.3g} to {row['mean_high']:.3g})"
        screen.print(
            f"{row['fail']}: {row['share']:.2%} ({row['share_low']:.2%} to {row['share_high']:.2%}) of all "
            f"{row['population']:,.0f} sets take partitions offline, {mean} per set (95 % confidence)",
            soft_wrap=True,
        )


def _estimates(plan: SweepPlan) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(plan.out / "estimates.parquet").to_pylist()
    return rows


def _document(plan: SweepPlan, swept: Swept) -> dict[str, object]:
    """Return the result of a sweep for `--json`."""
    return {
        "layout": str(plan.layout),
        "out": str(plan.out),
        "partitions": plan.partitions,
        "failure_sets": swept.sets,
        "planned_failure_sets": plan.sets,
        "skipped": [{"fail": fail, "why": why} for fail, why in plan.unfit],
        "without_failure": plan.what_if.baseline._asdict(),
        "worst": swept.worst,
        "estimates": _estimates(plan),
    }


def _who(row: dict[str, object], rack_of: dict[int, str | None]) -> str:
    racks, brokers = row["racks"], row["brokers"]
    assert isinstance(racks, list)
    assert isinstance(brokers, list)
    if not racks:
        return brokers_text(brokers)
    beside = [broker for broker in brokers if rack_of[broker] not in racks]
    of_racks = f"{', '.join(racks)} ({len(brokers) - len(beside)} brokers)"
    return escape(f"{of_racks}, {brokers_text(beside)}" if beside else of_racks)


def brokers_text(brokers: list[int]) -> str:
    """Return the first brokers of a set as text."""
    shown = ", ".join(map(str, brokers[:MOST_IDS])) + (", ..." if len(brokers) > MOST_IDS else "")
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {shown}"


def sweep(
    layout: Annotated[Path, typer.Argument(help="Layout file: .parquet, .arrow or .json.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for the tables: failures/ and others.")],
    fail: Annotated[
        list[str],
        typer.Option(
            help="Failure sets. All sets of a size: brokers:2, racks:1, racks:1+brokers:1; a sample of 500 of them: "
            "brokers:3~500; one set: brokers=1+2 or racks=a+b; the sets of a file: FILE.json. Repeatable."
        ),
    ],
    seed: Annotated[int, typer.Option(help="Seed of the samples.", min=0)] = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if the layout has no such sets, instead of printing a warning.")
    ] = False,
    master: Annotated[
        str, typer.Option(help="Master URL of Spark; a cluster needs LAYOUT and DIR at the same paths.")
    ] = "local[*]",
    json_out: JsonOut = None,
) -> None:
    """Fail every set of brokers or racks in turn, and count offline, moved and under-replicated partitions."""
    from simzk.partitions.failures.sets import parse_failures
    from simzk.pipeline.spark_session import spark_session
    from simzk.pipeline.sweeps.sweep import plan_sweep, run_sweep

    specs = [spec for text in fail for spec in parse_failures(text, seed)]
    plan = plan_sweep(layout, specs, out, strict=strict)
    try:
        with Progress() as progress:
            progress.show("starting Spark")
            with spark_session(master, is_python_busy=True) as spark:
                progress.show(_progress_text(plan, 0.0))
                swept = run_sweep(spark, plan, lambda share: progress.show(_progress_text(plan, share), share))
                progress.show("stopping Spark")
    except KeyboardInterrupt:
        exit_interrupted(f"none of {plan.sets:,} failure sets is done")
    for _, why in plan.unfit:
        say("skipped", why)
    if json_out is not None:
        write_json(json_out, _document(plan, swept))
    with text_output(json_out):
        show_worst(plan, swept)
        show_sampled(plan)
    if swept.sets < plan.sets:
        exit_interrupted(f"{swept.sets:,} of {plan.sets:,} failure sets are done")


def _progress_text(plan: SweepPlan, share: float) -> str:
    return f"{round(plan.sets * share):,} of {plan.sets:,} failure sets over {plan.partitions:,} partitions"
