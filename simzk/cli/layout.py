"""`simzk layout`: make a layout, import one, or show what stands in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Layouts: where every partition of a cluster lives, as Parquet or JSON.")

Out = Annotated[Path, typer.Option("--out", "-o", help="File to write, .parquet or .json; replaced if it exists.")]


@app.command()
def make(
    brokers: Annotated[int, typer.Option(help="How many brokers, with ids from 0.")] = 3,
    racks: Annotated[int, typer.Option(help="How many racks they stand in; 0 for none.")] = 3,
    topics: Annotated[int, typer.Option(help="How many topics share the partitions.")] = 1,
    partitions: Annotated[int, typer.Option(help="How many partitions, of all topics together.")] = 12,
    rf: Annotated[int, typer.Option("--rf", help="Replication factor.")] = 3,
    min_insync_replicas: Annotated[int, typer.Option(help="min.insync.replicas of every topic.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the placement; the same seed gives the same bytes.")] = 0,
    out: Out = Path("layout.parquet"),
) -> None:
    """Draw a healthy cluster as Kafka's own rack-aware rule would place it."""
    from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout

    layout = generate_layout(
        brokers_in_racks(brokers, racks),
        topics=topics,
        partitions=partitions,
        replication_factor=rf,
        seed=seed,
        min_insync_replicas=min_insync_replicas,
    )
    write_layout(layout, out)
    typer.echo(f"wrote {out}: {_size(len(layout), len(layout.brokers.ids))}")


@app.command("import")
def import_(
    dump: Annotated[Path, typer.Option(help="A recorded tree, as scenarios/layouts/ holds them (dumps.json).")],
    step: Annotated[str | None, typer.Option(help="The step of the recording; its last one where not given.")] = None,
    out: Out = Path("layout.parquet"),
) -> None:
    """Read a layout from the recorded znodes of a real cluster."""
    from simzk.kafka.layout_import import layout_of_recording
    from simzk.partitions.layouts import write_layout

    taken, layout = layout_of_recording(dump, step)
    write_layout(layout, out)
    typer.echo(f"wrote {out}: {_size(len(layout), len(layout.brokers.ids))}, as of step {taken}")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A layout file, .parquet or .json.")],
    all_brokers: Annotated[bool, typer.Option("--all-brokers", help="List every broker, however many.")] = False,
) -> None:
    """Sum up a layout: loads by broker and rack, skew, and what is offline, under-replicated or badly placed."""
    from simzk.cli.layout_tables import show_layout
    from simzk.partitions.layouts import read_layout

    show_layout(str(file), read_layout(file), all_brokers=all_brokers)


def _size(partitions: int, brokers: int) -> str:
    return f"{partitions:,} partition{'s' * (partitions != 1)} on {brokers:,} broker{'s' * (brokers != 1)}"
