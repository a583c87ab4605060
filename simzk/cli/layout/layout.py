"""`simzk layout`: generate, import and show layouts, and show the effects of reassignment plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simzk.cli.commands import complete_release
from simzk.cli.console import JsonOut, Progress, require_one_stdout, text_output, writable, write_json
from simzk.cli.messages import say
from simzk.documents import is_number
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.partitions.layouts import Layout

app = typer.Typer(
    no_args_is_help=True,
    help="Layouts: the replicas, leader and ISR of every partition of a cluster, as Parquet or JSON.",
)

FIRST_RACK_AWARE = (0, 10, 0)
"""First release that spreads replicas over racks (KIP-36)."""

Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Output file: .parquet, .arrow or .json; replaced if it exists.", callback=writable
    ),
]


@app.command(epilog="Example: simzk layout make --brokers 12 --topics 40 --partitions 5000 --out layout.parquet")
def make(
    brokers: Annotated[int, typer.Option(help="Number of brokers, with ids from 0.")] = 3,
    racks: Annotated[int, typer.Option(help="Number of racks; 0 for none.")] = 3,
    topics: Annotated[int, typer.Option(help="Number of topics.")] = 1,
    partitions: Annotated[int, typer.Option(help="Number of partitions of all topics together.")] = 12,
    rf: Annotated[
        str, typer.Option("--rf", help="Replication factor, or a list such as 3,3,2 that topics use in turn.")
    ] = "3",
    topic_skew: Annotated[
        float, typer.Option(help="Zipf exponent of topic sizes: 0 for equal sizes, 1 for 1, 1/2, 1/3 and so on.")
    ] = 0.0,
    isr_gaps: Annotated[float, typer.Option(help="Share of partitions with an out-of-sync follower, 0 to 1.")] = 0.0,
    min_insync_replicas: Annotated[
        int, typer.Option(help="min.insync.replicas of every topic, at most its replication factor.")
    ] = 1,
    kafka_version: Annotated[
        str,
        typer.Option(
            help="Kafka version that places the replicas; before 0.10.0 racks are ignored.",
            metavar="V",
            autocompletion=complete_release,
        ),
    ] = "3.9",
    seed: Annotated[int, typer.Option(help="Seed of the placement; the same seed gives the same file.")] = 0,
    out: Out = Path("layout.parquet"),
    json_out: JsonOut = None,
) -> None:
    """Generate a layout with Kafka's rule for replica placement, healthy except for --isr-gaps."""
    from simzk.kafka.releases.versions import kafka_version as line_of
    from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout

    with Progress() as progress:
        progress.show(f"placing {partitions:,} partitions")
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
        progress.show(f"writing {out}")
        write_layout(layout, out)
    _report(layout, out, json_out)


def _report(
    layout: Layout, out: Path, json_out: Path | None, *, step: str = "", left_out: list[str] | None = None
) -> None:
    """Print the size of a layout that was written.

    Args:
        layout: the layout.
        out: its file.
        json_out: as of the option.
        step: that of a recording.
        left_out: why topics and registrations were left out; None where nothing may be.
    """
    partitions, brokers = len(layout), len(layout.brokers.ids)
    document: dict[str, object] = {
        "out": str(out),
        "topics": len(layout.topics),
        "partitions": partitions,
        "brokers": brokers,
    }
    if left_out is not None:
        document["left_out"] = left_out
    for reason in left_out or ():
        say("left out", reason)
    if layout.brokers.cluster_ids is not None:
        largest = layout.brokers.cluster_ids[-1]
        numbers = f"brokers have the numbers 0 to {brokers - 1}, because id {largest} is too large for a layout"
        say("numbered", f"{numbers}; layout show has both, and plans name brokers by their ids in the cluster")
    write_json(json_out, document | ({"step": step} if step else {}))
    with text_output(json_out):
        typer.echo(f"wrote {out}: {_size(partitions, brokers)}{step and f', as of step {step}'}")


def _factors(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(map(is_number, parts)):
        raise ConfigError(
            f"{text!r} is not a replication factor", where="--rf", right="a number, or a list such as 3,3,2"
        )
    return [int(part) for part in parts]


@app.command("import", epilog="Example: simzk layout import --zookeeper zk1:2181/kafka --out layout.parquet")
def import_(
    dump: Annotated[Path | None, typer.Option(help="Recorded tree: a dumps.json as in scenarios/layouts/.")] = None,
    step: Annotated[str | None, typer.Option(help="Step of the recording.", show_default="the last")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory of a ZooKeeper server; it is not changed.", metavar="DIR")
    ] = None,
    data_log_dir: Annotated[
        Path | None, typer.Option(help="dataLogDir of the server, if it differs from its dataDir.", metavar="DIR")
    ] = None,
    chroot: Annotated[
        str,
        typer.Option(
            help="Path of Kafka's znodes in the data directory, such as /kafka.",
            show_default="the root",
            metavar="PATH",
        ),
    ] = "",
    zookeeper: Annotated[
        str | None,
        typer.Option(help="Live ZooKeeper, such as zk1:2181/kafka; it is not changed.", metavar="HOST:PORT[/chroot]"),
    ] = None,
    skip_invalid: Annotated[
        bool,
        typer.Option(
            "--skip-invalid",
            help="Leave out topics with an invalid znode, name them, and exit with 1 [default: reject the import].",
        ),
    ] = False,
    out: Out = Path("layout.parquet"),
    json_out: JsonOut = None,
) -> None:
    """Read a layout from the znodes of a real cluster."""
    from simzk.partitions.layouts import write_layout

    _check_sources({"--dump": dump, "--data-dir": data_dir, "--zookeeper": zookeeper})
    _check_belongs("--step", step, "--dump", dump)
    _check_belongs("--data-log-dir", data_log_dir, "--data-dir", data_dir)
    _check_belongs("--chroot", chroot or None, "--data-dir", data_dir)
    left_out: list[str] | None = [] if skip_invalid else None
    leave_out = None if left_out is None else left_out.append
    with Progress() as progress:
        layout, used_step = _import(
            dump, step, data_dir, data_log_dir, chroot.rstrip("/"), zookeeper, progress, leave_out
        )
        progress.show(f"writing {out}")
        write_layout(layout, out)
    _report(layout, out, json_out, step=used_step, left_out=left_out)
    if left_out:
        raise typer.Exit(1)


def _import(
    dump: Path | None,
    step: str | None,
    data_dir: Path | None,
    data_log_dir: Path | None,
    chroot: str,
    zookeeper: str | None,
    progress: Progress,
    leave_out: Callable[[str], None] | None,
) -> tuple[Layout, str]:
    """Return the layout from the given source, and the step of a recording."""
    if dump is not None:
        from simzk.kafka.zookeeper_mode.layout_import import layout_of_recording

        used_step, layout = layout_of_recording(dump, step, _note, leave_out)
        return layout, used_step
    from simzk.cli.layout import sources as layout_sources

    if data_dir is not None:
        progress.show(f"reading {data_dir}")
        layout, losses = layout_sources.layout_of_directory(data_dir, data_log_dir, chroot, _note, leave_out)
        for loss in losses:
            say("lost", str(loss))
        return layout, ""
    assert zookeeper is not None, "_check_sources requires one source"
    return layout_sources.layout_of_server(zookeeper, progress.show, _note, leave_out), ""


def _note(what: str) -> None:
    say("not imported", what)


def _check_sources(sources: dict[str, object]) -> None:
    given = [option for option, value in sources.items() if value is not None]
    if len(given) != 1:
        what = f"{' and '.join(given)} exclude each other" if given else "no source is given"
        raise ConfigError(what, right=f"one of {', '.join(sources)}")


def _check_belongs(option: str, value: object, to: str, source: object) -> None:
    if value is not None and source is None:
        raise ConfigError(f"it is used with {to} only", where=option, right=f"{to} beside it")


@app.command(epilog="Example: simzk layout show layout.parquet --html layout.html")
def show(
    file: Annotated[Path, typer.Argument(help="Layout file: .parquet, .arrow or .json.")],
    all_brokers: Annotated[
        bool, typer.Option("--all-brokers", help="List all brokers, even if there are many.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            help="File for an HTML page with charts, replaced if it exists; - for stdout.",
            metavar="FILE",
            callback=writable,
        ),
    ] = None,
    json_out: JsonOut = None,
) -> None:
    """Show a summary of a layout: loads, skew, offline and under-replicated partitions, rack violations."""
    from simzk.cli.layout.show import document_of, show_layout, write_page
    from simzk.partitions.layouts import read_layout, summarize

    require_one_stdout(json_out, html)
    with Progress() as progress:
        progress.show(f"reading {file}")
        layout = read_layout(file)
        summary = summarize(layout)
    if html is not None:
        write_page(str(file), layout, summary, html)
    if json_out is not None:
        write_json(json_out, document_of(str(file), layout, summary))
    with text_output(json_out, html):
        show_layout(str(file), layout, summary, all_brokers=all_brokers)


@app.command(epilog="Example: simzk layout plan layout.parquet plan.json --fail 3")
def plan(
    file: Annotated[Path, typer.Argument(metavar="LAYOUT", help="Layout file: .parquet, .arrow or .json.")],
    plan_file: Annotated[
        Path, typer.Argument(metavar="PLAN", help="Plan: the JSON file of kafka-reassign-partitions --execute.")
    ],
    kafka_version: Annotated[
        str, typer.Option(help="Kafka version that executes the plan.", metavar="V", autocompletion=complete_release)
    ] = "3.9",
    sizes: Annotated[
        Path | None,
        typer.Option(help="Partition sizes: Parquet, or the JSON of kafka-log-dirs --describe.", metavar="FILE"),
    ] = None,
    fail: Annotated[
        list[int] | None,
        typer.Option(
            help="Broker that fails after each phase (what-if). Repeatable: all given brokers fail together.",
            metavar="BROKER",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the layout after the plan: .parquet, .arrow or .json.")
    ] = None,
    phase: Annotated[
        str, typer.Option(help="Phase of the layout in --out: before, widened, joined, led, removed or finished.")
    ] = "finished",
    diff: Annotated[Path | None, typer.Option(help="File for the changes (Parquet), one row per partition.")] = None,
    json_out: JsonOut = None,
) -> None:
    """Show the effects of a reassignment plan: data movement, broker loads, and the state after each phase."""
    from simzk.cli.layout.plan import run_plan
    from simzk.kafka.releases.versions import kafka_version as line_of

    run_plan(
        file,
        plan_file,
        version=line_of(kafka_version),
        sizes_file=sizes,
        fail=fail or [],
        out=out,
        phase=phase,
        diff=diff,
        json_out=json_out,
    )


def _size(partitions: int, brokers: int) -> str:
    return f"{partitions:,} partition{'s' * (partitions != 1)} on {brokers:,} broker{'s' * (brokers != 1)}"
