"""`simzk timelines`: what happened to each partition, out of a real ZooKeeper's logs and snapshots, on Spark."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import Annotated

import typer

DAMAGES_SHOWN = 20
"""All of them stand in timelines.json."""


def timelines(
    directories: Annotated[
        list[str], typer.Argument(help="Data directories of one ZooKeeper, or files of them.", metavar="DATA_DIR...")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to write to; a folder a table.")],
    chroot: Annotated[str, typer.Option(help="Where Kafka's znodes are.", metavar="PATH")] = "",
    strict: Annotated[bool, typer.Option("--strict", help="Fail where a file is damaged, not only say so.")] = False,
    master: Annotated[
        str, typer.Option(help="Spark's master; a cluster must see the directories at the same paths.")
    ] = "local[*]",
) -> None:
    """Tell what happened to each partition, leader, controller and session, from ZooKeeper's own files."""
    from simzk.cli.console import Progress
    from simzk.pipeline.spark.session import spark_session
    from simzk.pipeline.timelines.run import plan_timelines, run_timelines

    plan = plan_timelines(directories, out, chroot=chroot.rstrip("/"), strict=strict)
    progress = Progress()
    try:
        progress.tell("starting Spark")
        with spark_session(master) as spark:
            found = run_timelines(spark, plan, progress.tell)
            progress.tell("stopping Spark")
    finally:
        progress.close()
    for damage in found.damages[:DAMAGES_SHOWN]:
        typer.echo(f"simzk: lost: {damage['file']}: {damage['damage']}", err=True)
    told = ", ".join(f"{count:,} {name}" for name, count in found.rows.items())
    typer.echo(f"{found.transactions:,} transactions; {told}")
    if found.damages:
        typer.echo(f"{len(found.damages):,} times something could not be used: damages in {out / 'timelines.json'}")
    for row in found.worst:
        typer.echo(
            f"{row['topic']}-{row['partition']}: offline {row['offline_s']:.1f} s, under min ISR "
            f"{row['under_min_isr_s']:.1f} s, under-replicated {row['under_replicated_s']:.1f} s, "
            f"{row['leader_moves']} moves of its leader"
        )
