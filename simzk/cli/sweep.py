"""`simzk sweep`: every failure of a kind over a layout, on Spark."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.pipeline.sweep import Plan


def sweep(
    layout: Annotated[Path, typer.Argument(help="A layout file, .parquet or .json.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write to; it gets failures/ and sweep.json.")],
    fail: Annotated[
        list[str],
        typer.Option(help="What fails together: brokers:N or racks:N, every N of them. May be given more than once."),
    ],
    master: Annotated[
        str, typer.Option(help="Spark's master; a cluster must see LAYOUT and DIR at the same paths.")
    ] = "local[*]",
) -> None:
    """Fail every set of brokers or racks in turn, and tell what each leaves offline, moved or short of replicas."""
    from simzk.partitions.failure_sets import FailureSpec
    from simzk.pipeline.session import spark_session
    from simzk.pipeline.sweep import plan_sweep, run_sweep

    plan = plan_sweep(layout, [FailureSpec.parse(text) for text in fail], out)
    with _progress_line() as tell:
        tell("starting Spark")
        with spark_session(master) as spark:
            tell(_so_far(plan, 0.0))
            worst = run_sweep(spark, plan, lambda share: tell(_so_far(plan, share)))
            tell("stopping Spark")
    from simzk.cli.sweep_table import show_worst

    show_worst(plan, worst)


def _so_far(plan: Plan, share: float) -> str:
    return f"{round(plan.sets * share):,} of {plan.sets:,} failure sets over {plan.partitions:,} partitions"


@contextmanager
def _progress_line() -> Iterator[Callable[[str], None]]:
    """One line on standard error that is written over and over, and gone at the end; nothing where nobody looks."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    started = time.monotonic()

    def tell(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}, {time.monotonic() - started:.0f} s")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
