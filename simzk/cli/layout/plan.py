"""What `simzk layout plan` writes: all that it tells as JSON, and what changes, a row a partition, as Parquet.

`simzk layout plan`: what a reassignment plan would do to a layout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simzk.errors import ConfigError
from simzk.garbage_collection import without_cyclic_gc
from simzk.partitions.arrays import sizes

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from simzk.partitions.layouts import Layout
    from simzk.partitions.plans.what_if import Moved, PlanReport, PlanWhatIf


def write_diff(what_if: PlanWhatIf, path: Path) -> None:
    """Write what changes of each partition of a plan.

    Raises:
        ConfigError: the file cannot be written, or should be no Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from simzk.partitions.layouts.files import list_array

    if path.suffix != ".parquet":
        raise ConfigError(f"a diff cannot end in {path.suffix!r}", where=str(path), right=".parquet")
    layout, diff, phases = what_if.layout, what_if.diff, what_if.phases
    before, after = phases.at("before").states, phases.at("finished").states
    topic = pa.DictionaryArray.from_arrays(pa.array(layout.topic[diff.rows]), pa.array(layout.topics, pa.string()))
    columns = {
        "topic": topic.cast(pa.string()),
        "partition": pa.array(layout.partition[diff.rows]),
        "before": list_array(diff.before),
        "after": list_array(diff.after),
        "adding": list_array(diff.adding),
        "removing": list_array(diff.removing),
        "order_only": pa.array(diff.order_only),
        "unchanged": pa.array(diff.unchanged),
        "preferred_changed": pa.array(diff.preferred_changed),
        "broke_racks": pa.array(diff.broke_racks),
        "breaks_racks": pa.array(diff.breaks_racks),
        "waits": pa.array(phases.waits),
        "leader_before": pa.array(before.leader),
        "leader_after": pa.array(after.leader),
        "leader_epoch_before": pa.array(before.leader_epoch),
        "leader_epoch_after": pa.array(after.leader_epoch),
        "state_writes": pa.array(after.version),
    }
    try:
        pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", where=str(path)) from error


def write_json(told: PlanReport, path: Path, *, layout: str, plan: str, version: str, failed: list[int]) -> None:
    """Write all that is told of a plan.

    Raises:
        ConfigError: the file cannot be written.
    """
    diff, brokers = told.what_if.diff, told.what_if.layout.brokers
    document: dict[str, Any] = {
        "layout": layout,
        "plan": plan,
        "kafka_version": version,
        "partitions": {
            "named": len(diff.rows),
            "adding": int((sizes(diff.adding) > 0).sum()),
            "removing": int((sizes(diff.removing) > 0).sum()),
            "order_only": int(diff.order_only.sum()),
            "unchanged": int(diff.unchanged.sum()),
            "preferred_changed": int(diff.preferred_changed.sum()),
            "breaks_racks": int(diff.breaks_racks.sum()),
            "broke_racks": int(diff.broke_racks.sum()),
            "waits": int(told.what_if.phases.waits.sum()),
        },
        "replicas": _moved(told.replicas),
        "bytes": None if told.data is None else _moved(told.data),
        "failed": failed,
        "phases": [
            {
                "phase": phase.name,
                "replicas": int(phase.summary.by_broker.replicas.sum()),
                "preferred_led": phase.summary.preferred_led,
                "under_replicated": phase.summary.under_replicated,
                "rack_violations": phase.summary.rack_violations,
                "replica_skew": phase.summary.replica_skew,
                "leader_skew": phase.summary.leader_skew,
                "state_writes": phase.writes,
                **phase.exposure._asdict(),
                "failure": None if phase.failure is None else phase.failure._asdict(),
            }
            for phase in told.phases
        ],
    }
    columns = _by_broker(told)
    document["brokers"] = [
        {"broker": broker, "rack": rack, "live": live} | {name: column[at] for name, column in columns.items()}
        for at, (broker, rack, live) in enumerate(
            zip(brokers.ids.tolist(), brokers.racks, brokers.live.tolist(), strict=True)
        )
    ]
    try:
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", where=str(path)) from error


def _moved(moved: Moved) -> dict[str, int]:
    return {
        "copied": moved.copied,
        "cross_rack": moved.cross_rack,
        "unsourced": moved.unsourced,
        "deleted": int(moved.deleted.sum()),
    }


def _by_broker(told: PlanReport) -> dict[str, list[int]]:
    """What each broker holds and moves, columns by name."""
    before, after = told.at("before"), told.at("finished")
    columns = {
        "replicas_before": before.summary.by_broker.replicas,
        "replicas_peak": told.peak_replicas(),
        "replicas_after": after.summary.by_broker.replicas,
        "leaders_before": before.summary.by_broker.leaders,
        "leaders_after": after.summary.by_broker.leaders,
        "preferred_before": before.summary.by_broker.preferred,
        "preferred_after": after.summary.by_broker.preferred,
        "copied_in": told.replicas.copied_in,
        "copied_out": told.replicas.copied_out,
        "deleted": told.replicas.deleted,
    }
    peak_bytes = told.peak_bytes()
    if told.data is not None and peak_bytes is not None:
        assert before.held_bytes is not None
        assert after.held_bytes is not None
        columns |= {
            "bytes_before": before.held_bytes,
            "bytes_peak": peak_bytes,
            "bytes_after": after.held_bytes,
            "bytes_in": told.data.copied_in,
            "bytes_out": told.data.copied_out,
        }
    return {name: column.tolist() for name, column in columns.items()}


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
    from simzk.cli.layout.plan_tables import show_plan
    from simzk.kafka.releases.versions import kafka_version as line_of
    from simzk.kafka.tools.plan_documents import what_if
    from simzk.partitions.layouts import read_layout, write_layout
    from simzk.partitions.plans.phases import PHASES
    from simzk.partitions.plans.what_if import report

    if phase not in PHASES:
        raise ConfigError(f"there is no phase {phase!r}", where="--phase", right=", ".join(PHASES))
    line = line_of(kafka_version)
    layout = read_layout(file)
    with without_cyclic_gc():
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

    from simzk.partitions.layouts.layout import NAMED_PROBLEMS
    from simzk.partitions.plans.sizes import UNKNOWN, read_sizes

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
