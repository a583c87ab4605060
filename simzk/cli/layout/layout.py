"""`simzk layout`: make a layout, import one, show what stands in one, or tell what a plan would make of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simzk.cli.console import Progress
from simzk.cli.layout.plan import plan
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from simzk.partitions.layouts import Layout

app = typer.Typer(no_args_is_help=True, help="Layouts: where every partition of a cluster lives, as Parquet or JSON.")

FIRST_RACK_AWARE = (0, 10, 0)
"""The release from which replicas are spread over racks (KIP-36)."""

Out = Annotated[
    Path, typer.Option("--out", "-o", help="File to write, .parquet, .arrow or .json; replaced if it exists.")
]


@app.command()
def make(
    brokers: Annotated[int, typer.Option(help="How many brokers, with ids from 0.")] = 3,
    racks: Annotated[int, typer.Option(help="How many racks they stand in; 0 for none.")] = 3,
    topics: Annotated[int, typer.Option(help="How many topics share the partitions.")] = 1,
    partitions: Annotated[int, typer.Option(help="How many partitions, of all topics together.")] = 12,
    rf: Annotated[
        str, typer.Option("--rf", help="Replication factor; of several, as 3,3,2, topics have one after the other.")
    ] = "3",
    topic_skew: Annotated[
        float, typer.Option(help="0: topics of one size; 1: the second half as large as the first, and so on (Zipf).")
    ] = 0.0,
    isr_gaps: Annotated[float, typer.Option(help="Share of partitions of which a follower is out of sync.")] = 0.0,
    min_insync_replicas: Annotated[
        int, typer.Option(help="min.insync.replicas of every topic, at most its replication factor.")
    ] = 1,
    kafka_version: Annotated[
        str, typer.Option(help="As which Kafka places replicas: before 0.10.0 racks do not matter.", metavar="V")
    ] = "3.9",
    seed: Annotated[int, typer.Option(help="Seed of the placement; the same seed gives the same bytes.")] = 0,
    out: Out = Path("layout.parquet"),
) -> None:
    """Draw a cluster as Kafka's own rule would place it: healthy, but for the ISR gaps that are asked for."""
    from simzk.kafka.releases.versions import kafka_version as line_of
    from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout

    layout = generate_layout(
        brokers_in_racks(brokers, racks),
        topics=topics,
        partitions=partitions,
        replication_factor=_factors(rf),
        seed=seed,
        min_insync_replicas=min_insync_replicas,
        topic_skew=topic_skew,
        isr_gaps=isr_gaps,
        rack_aware=line_of(kafka_version).number >= FIRST_RACK_AWARE,
    )
    write_layout(layout, out)
    typer.echo(f"wrote {out}: {_size(len(layout), len(layout.brokers.ids))}")


def _factors(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.isascii() for part in parts):
        raise ConfigError(f"{text!r} is no replication factor", where="--rf", right="a number, or several as 3,3,2")
    return [int(part) for part in parts]


@app.command("import")
def import_(
    dump: Annotated[
        Path | None, typer.Option(help="A recorded tree, as scenarios/layouts/ holds them (dumps.json).")
    ] = None,
    step: Annotated[str | None, typer.Option(help="The step of the recording; its last one where not given.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="A ZooKeeper server's data directory; it is only read.", metavar="DIR")
    ] = None,
    data_log_dir: Annotated[
        Path | None, typer.Option(help="Its dataLogDir, where logs have a folder of their own.", metavar="DIR")
    ] = None,
    chroot: Annotated[str, typer.Option(help="Where Kafka's znodes are in the data directory.", metavar="PATH")] = "",
    zookeeper: Annotated[
        str | None, typer.Option(help="A live ZooKeeper; it is only read.", metavar="HOST:PORT[/chroot]")
    ] = None,
    out: Out = Path("layout.parquet"),
) -> None:
    """Read a layout from the znodes of a real cluster."""
    from simzk.partitions.layouts import write_layout

    _check_sources({"--dump": dump, "--data-dir": data_dir, "--zookeeper": zookeeper})
    _check_belongs("--step", step, "--dump", dump)
    _check_belongs("--data-log-dir", data_log_dir, "--data-dir", data_dir)
    _check_belongs("--chroot", chroot or None, "--data-dir", data_dir)
    layout, taken = _import(dump, step, data_dir, data_log_dir, chroot.rstrip("/"), zookeeper)
    write_layout(layout, out)
    typer.echo(f"wrote {out}: {_size(len(layout), len(layout.brokers.ids))}{taken}")


def _import(
    dump: Path | None,
    step: str | None,
    data_dir: Path | None,
    data_log_dir: Path | None,
    chroot: str,
    zookeeper: str | None,
) -> tuple[Layout, str]:
    """A layout from the one source that is given, and what is to be said of it."""
    if dump is not None:
        from simzk.kafka.layout_import import layout_of_recording

        taken, layout = layout_of_recording(dump, step, _note)
        return layout, f", as of step {taken}"
    from simzk.cli.layout import sources as layout_sources

    if data_dir is not None:
        layout, losses = layout_sources.layout_of_directory(data_dir, data_log_dir, chroot, _note)
        for loss in losses:
            typer.echo(f"simzk: lost: {loss}", err=True)
        return layout, ""
    assert zookeeper is not None, "one of three is given"
    progress = Progress()
    try:
        return layout_sources.layout_of_server(zookeeper, progress.tell, _note), ""
    finally:
        progress.close()


def _note(said: str) -> None:
    typer.echo(f"simzk: not carried: {said}", err=True)


def _check_sources(sources: dict[str, object]) -> None:
    given = [option for option, value in sources.items() if value is not None]
    if len(given) != 1:
        what = "nothing to import from" if not given else f"{' and '.join(given)}: which of them?"
        raise ConfigError(what, right=f"one of {', '.join(sources)}")


def _check_belongs(option: str, value: object, to: str, source: object) -> None:
    if value is not None and source is None:
        raise ConfigError(f"{option} says something of {to} only", where=option, right=f"{to} with it")


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A layout file, .parquet, .arrow or .json.")],
    all_brokers: Annotated[bool, typer.Option("--all-brokers", help="List every broker, however many.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write it as a page with pictures, too; replaced if it exists.", metavar="FILE")
    ] = None,
) -> None:
    """Sum up a layout: loads by broker and rack, skew, and what is offline, under-replicated or badly placed."""
    from simzk.cli.layout.tables import show_layout
    from simzk.partitions.layouts import read_layout, summarize

    layout = read_layout(file)
    summary = summarize(layout)
    if html is not None:
        from simzk.cli.layout.html import write_page

        write_page(str(file), layout, summary, html)
    show_layout(str(file), layout, summary, all_brokers=all_brokers)


app.command()(plan)


def _size(partitions: int, brokers: int) -> str:
    return f"{partitions:,} partition{'s' * (partitions != 1)} on {brokers:,} broker{'s' * (brokers != 1)}"
