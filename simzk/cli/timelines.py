"""`simzk timelines`: the history of each partition from a real ZooKeeper's logs and snapshots."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer

from simzk.cli.console import JsonOut, Progress, exit_interrupted, text_output, write_json
from simzk.cli.messages import say

if TYPE_CHECKING:
    from simzk.pipeline.timelines.run import Findings

DAMAGES_SHOWN = 20
"""Number of damaged files printed; timelines.json lists all."""


def timelines(
    directories: Annotated[
        list[str], typer.Argument(help="Data directories of one ZooKeeper, or files in them.", metavar="DATA_DIR...")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for the tables (Parquet), one folder per table.")],
    chroot: Annotated[
        str, typer.Option(help="Path of Kafka's znodes, such as /kafka.", show_default="the root", metavar="PATH")
    ] = "",
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail if a file is damaged, instead of printing a warning.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            help="Master URL of Spark; a cluster needs the directories at the same paths.",
            show_default="local[*]; small logs are read in this process, without Spark",
        ),
    ] = None,
    json_out: JsonOut = None,
) -> None:
    """Extract the history of partitions, leaders, controllers and sessions from ZooKeeper's logs and snapshots."""
    from simzk.pipeline.spark_session import LOCAL, spark_session
    from simzk.pipeline.timelines.run import (
        TABLES,
        fits_here,
        keep_finished,
        plan_timelines,
        run_timelines,
        run_timelines_here,
    )

    plan = plan_timelines(directories, out, chroot=chroot.rstrip("/"), strict=strict)
    try:
        with Progress() as progress:
            if master is None and fits_here(plan):
                found = run_timelines_here(plan, progress.show)
            else:
                progress.show("starting Spark")
                with spark_session(master or LOCAL) as spark:
                    found = run_timelines(spark, plan, progress.show)
                    progress.show("stopping Spark")
    except KeyboardInterrupt:
        finished = keep_finished(plan.out)
        exit_interrupted(
            f"{len(finished)} of {len(TABLES)} tables are written{': ' * bool(finished)}{', '.join(finished)}"
        )
    for damage in found.damages[:DAMAGES_SHOWN]:
        say("lost", f"{damage['file']}: {damage['damage']}")
    write_json(json_out, {"out": str(plan.out), **found._asdict()})
    with text_output(json_out):
        _show(found, out)
    if not found.transactions and {*plan.logs, *plan.snapshots} <= {damage["file"] for damage in found.damages}:
        typer.echo("simzk: no file could be read", err=True)
        raise typer.Exit(2)


def _show(found: Findings, out: Path) -> None:
    """Print the numbers of rows and the worst partitions."""
    rows = ", ".join(f"{count:,} {name}" for name, count in found.rows.items())
    typer.echo(f"{found.transactions:,} transactions; {rows}")
    if found.damages:
        typer.echo(f"{len(found.damages):,} damaged files or records: see damages in {out / 'timelines.json'}")
    for row in found.worst:
        typer.echo(
            f"{row['topic']}-{row['partition']}: offline {row['offline_s']:.1f} s, under min ISR "
            f"{row['under_min_isr_s']:.1f} s, under-replicated {row['under_replicated_s']:.1f} s, "
            f"{row['leader_moves']} leader changes"
        )
