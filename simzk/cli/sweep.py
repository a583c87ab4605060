"""`simzk sweep`: every failure of a kind over a layout, on Spark."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simzk.pipeline.sweep import Plan


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
    from simzk.cli.paper import Progress
    from simzk.cli.sweep_table import show_sampled, show_worst
    from simzk.partitions.named_failures import parse_failures
    from simzk.pipeline.session import spark_session
    from simzk.pipeline.sweep import plan_sweep, run_sweep

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
