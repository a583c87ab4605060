"""`simzk layout plan`: what a reassignment plan would do to a layout."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer

from simzk.collector import uncollected
from simzk.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from simzk.partitions.layouts import Layout
    from simzk.partitions.plan_what_if import PlanWhatIf


def plan(
    file: Annotated[Path, typer.Argument(metavar="LAYOUT", help="A layout file, .parquet, .arrow or .json.")],
    plan_file: Annotated[
        Path, typer.Argument(metavar="PLAN", help="The JSON that kafka-reassign-partitions --execute takes.")
    ],
    kafka_version: Annotated[str, typer.Option(help="Which Kafka carries it out.", metavar="V")] = "3.9",
    sizes: Annotated[
        Path | None,
        typer.Option(help="Sizes of partitions: Parquet, or the JSON of kafka-log-dirs --describe.", metavar="FILE"),
    ] = None,
    fail: Annotated[
        list[int] | None,
        typer.Option(help="A broker that fails, after each phase once; several fail together.", metavar="BROKER"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the layout after the plan, .parquet, .arrow or .json.")
    ] = None,
    phase: Annotated[
        str, typer.Option(help="After which phase --out writes it: before, widened, joined, led, removed or finished.")
    ] = "finished",
    diff: Annotated[Path | None, typer.Option(help="Write what changes, a row a partition: Parquet.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write all that is told as JSON.")] = None,
) -> None:
    """Tell what a reassignment plan would do: what moves, how loaded brokers get, and the state after each phase."""
    from simzk.cli.layout_plan_files import write_diff, write_json
    from simzk.cli.layout_plan_tables import show_plan
    from simzk.kafka.plans import what_if
    from simzk.kafka.versions import kafka_version as line_of
    from simzk.partitions.layouts import read_layout, write_layout
    from simzk.partitions.plan_phases import PHASES
    from simzk.partitions.plan_report import report

    if phase not in PHASES:
        raise ConfigError(f"there is no phase {phase!r}", where="--phase", right=", ".join(PHASES))
    line = line_of(kafka_version)
    layout = read_layout(file)
    with uncollected():
        found = what_if(layout, _text(plan_file), line)
    failed = _known(layout, fail or [])
    told = report(found, _sizes(sizes, layout, found), failed)
    if out is not None:
        write_layout(found.layout_at(phase), out)
    if diff is not None:
        write_diff(found, diff)
    if json_out is not None:
        write_json(told, json_out, layout=str(file), plan=str(plan_file), version=line.name, failed=failed)
    show_plan(str(plan_file), told, version=line.name, failed=failed)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from error


def _known(layout: Layout, brokers: list[int]) -> list[int]:
    """Brokers of the layout, each once."""
    for broker in brokers:
        if broker not in layout.brokers.ids:
            raise ConfigError(f"the layout has no broker {broker}", where="--fail")
    return list(dict.fromkeys(brokers))


def _sizes(path: Path | None, layout: Layout, found: PlanWhatIf) -> NDArray[np.int64] | None:
    """Sizes of all partitions; those that are not known are 0, but none that the plan moves may be."""
    if path is None:
        return None
    import numpy as np

    from simzk.partitions.layouts.problems import NAMED_PROBLEMS
    from simzk.partitions.plan_sizes import UNKNOWN, read_sizes

    sizes = read_sizes(path, layout)
    moved = found.diff.rows
    missing = moved[sizes[moved] == UNKNOWN]
    if len(missing):
        named = [f"{layout.topics[layout.topic[row]]}-{layout.partition[row]}" for row in missing[:NAMED_PROBLEMS]]
        more = f" and {len(missing) - len(named):,} more" if len(missing) > len(named) else ""
        raise ConfigError(
            f"tells no size of {', '.join(named)}{more}", where=str(path), right="all that the plan names"
        )
    return np.maximum(sizes, 0)
