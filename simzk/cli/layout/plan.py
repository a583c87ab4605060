"""`simzk layout plan`: the effects of a reassignment plan on a layout, as tables, JSON and Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from simzk.cli.console import console, escape, fact_table, number_table, text_output, writes_to
from simzk.cli.console import write_json as write_document
from simzk.cli.layout.show import EXTREMES, MOST_LISTED, NARROW_WIDTH, alarm
from simzk.errors import ConfigError
from simzk.garbage_collection import without_cyclic_gc
from simzk.kafka.zookeeper_mode.tools.plan_documents import what_if
from simzk.partitions.arrays import NONE, sizes, unpack
from simzk.partitions.layouts import read_layout, write_layout
from simzk.partitions.plans.plan import PHASES
from simzk.partitions.plans.what_if import report as make_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.partitions.layouts import Layout
    from simzk.partitions.plans.what_if import Moved, PhaseReport, PlanReport, PlanWhatIf

    Amount = Callable[[int], str]
    Total = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def write_diff(what_if: PlanWhatIf, path: Path) -> None:
    """Write the changes of each partition of a plan as Parquet.

    Raises:
        ConfigError: the file cannot be written, or its name does not end in .parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from simzk.partitions.layouts.files import list_array

    if path.suffix != ".parquet":
        raise ConfigError(f"unsupported file type {path.suffix!r}", where=str(path), right=".parquet")
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
    with writes_to(path):
        pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)


def write_json(report: PlanReport, path: Path, *, layout: str, plan: str, version: str, failed: list[int]) -> None:
    """Write the whole report of a plan as JSON.

    Raises:
        ConfigError: the file cannot be written.
    """
    diff, brokers = report.what_if.diff, report.what_if.layout.brokers
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
            "waits": int(report.what_if.phases.waits.sum()),
        },
        "replicas": _moved(report.replicas),
        "bytes": None if report.data is None else _moved(report.data),
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
            for phase in report.phases
        ],
    }
    columns = _by_broker(report)
    document["brokers"] = [
        {"broker": broker, "rack": rack, "live": live} | {name: column[at] for name, column in columns.items()}
        for at, (broker, rack, live) in enumerate(
            zip(brokers.ids.tolist(), brokers.racks, brokers.live.tolist(), strict=True)
        )
    ]
    write_document(path, document)


def _moved(moved: Moved) -> dict[str, int]:
    return {
        "copied": moved.copied,
        "cross_rack": moved.cross_rack,
        "unsourced": moved.unsourced,
        "deleted": int(moved.deleted.sum()),
    }


def _by_broker(report: PlanReport) -> dict[str, list[int]]:
    """Return the load and data movement of each broker, as columns by name."""
    before, after = report.at("before"), report.at("finished")
    columns = {
        "replicas_before": before.summary.by_broker.replicas,
        "replicas_peak": report.peak_replicas(),
        "replicas_after": after.summary.by_broker.replicas,
        "leaders_before": before.summary.by_broker.leaders,
        "leaders_after": after.summary.by_broker.leaders,
        "preferred_before": before.summary.by_broker.preferred,
        "preferred_after": after.summary.by_broker.preferred,
        "copied_in": report.replicas.copied_in,
        "copied_out": report.replicas.copied_out,
        "deleted": report.replicas.deleted,
    }
    peak_bytes = report.peak_bytes()
    if report.data is not None and peak_bytes is not None:
        assert before.held_bytes is not None
        assert after.held_bytes is not None
        columns |= {
            "bytes_before": before.held_bytes,
            "bytes_peak": peak_bytes,
            "bytes_after": after.held_bytes,
            "bytes_in": report.data.copied_in,
            "bytes_out": report.data.copied_out,
        }
    return {name: column.tolist() for name, column in columns.items()}


def run_plan(
    layout_file: Path,
    plan_file: Path,
    *,
    version: KafkaVersion,
    sizes_file: Path | None,
    fail: list[int],
    out: Path | None,
    phase: str,
    diff: Path | None,
    json_out: Path | None,
) -> None:
    """Report a plan on a layout: print the tables, and write the files that are given.

    Raises:
        ConfigError: a file cannot be read or written, or a broker or phase does not exist.
        LayoutError, PlanError: the layout or the plan is invalid.
    """
    if phase not in PHASES:
        raise ConfigError(f"unknown phase {phase!r}", where="--phase", right=", ".join(PHASES))
    layout = read_layout(layout_file)
    with without_cyclic_gc():
        found = what_if(layout, _text(plan_file), version)
    failed = _known(layout, fail)
    plan_report = make_report(found, _sizes(sizes_file, layout, found), failed)
    if out is not None:
        write_layout(found.layout_at(phase), out)
    if diff is not None:
        write_diff(found, diff)
    if json_out is not None:
        name = version.name
        write_json(plan_report, json_out, layout=str(layout_file), plan=str(plan_file), version=name, failed=failed)
    with text_output(json_out):
        show_plan(str(plan_file), plan_report, version=version.name, failed=failed)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the file: {error}", where=str(path)) from error


def _known(layout: Layout, brokers: list[int]) -> list[int]:
    """Return the brokers without repetitions, after checking that the layout has them."""
    for broker in brokers:
        if broker not in layout.brokers.ids:
            raise ConfigError(f"the layout has no broker {broker}", where="--fail")
    return list(dict.fromkeys(brokers))


def _sizes(path: Path | None, layout: Layout, found: PlanWhatIf) -> NDArray[np.int64] | None:
    """Return the sizes of all partitions, 0 if unknown; raise if the size of a partition of the plan is unknown."""
    if path is None:
        return None
    import numpy as np

    from simzk.partitions.layouts.layout import NAMED_PROBLEMS
    from simzk.partitions.plans.what_if import UNKNOWN, read_sizes

    sizes = read_sizes(path, layout)
    moved = found.diff.rows
    missing = moved[sizes[moved] == UNKNOWN]
    if len(missing):
        named = [f"{layout.topics[layout.topic[row]]}-{layout.partition[row]}" for row in missing[:NAMED_PROBLEMS]]
        more = f" and {len(missing) - len(named):,} more" if len(missing) > len(named) else ""
        raise ConfigError(
            f"no size is given for {', '.join(named)}{more}",
            where=str(path),
            right="sizes of all partitions of the plan",
        )
    return np.maximum(sizes, 0)


MOST_PARTITIONS = 10
"""Number of partitions that are printed."""

_PHASE_KEY = (
    "widened: new replicas are assigned; joined: all target replicas are in sync; led: a target replica leads; "
    "removed: the old replicas are deleted; finished: only the target replicas are assigned"
)


def show_plan(name: str, report: PlanReport, *, version: str, failed: list[int]) -> None:
    """Print the report of a plan."""
    screen = console()
    screen.print(_facts(f"{name}, executed by Kafka {version}", report))
    screen.print(_phase_table(report, narrow=screen.width < NARROW_WIDTH))
    if failed:
        screen.print(_failure_table(report, failed))
    if report.what_if.layout.brokers.rack_names:
        by_rack = _by_rack(report)
        screen.print(_load_table("rack", "Racks", report, by_rack, range(len(by_rack.names))))
    screen.print(_broker_table(report))
    screen.print(_partition_table(report))


def _facts(title: str, report: PlanReport) -> Table:
    diff, waits, brokers = report.what_if.diff, report.what_if.phases.waits, report.what_if.layout.brokers
    named = len(diff.rows)
    facts = [
        ("partitions", f"{named:,}"),
        ("  gain replicas", f"{(sizes(diff.adding) > 0).sum():,}"),
        ("  lose replicas", f"{(sizes(diff.removing) > 0).sum():,}"),
        ("  change the order of replicas only", f"{diff.order_only.sum():,}"),
        ("  unchanged", f"{diff.unchanged.sum():,}"),
        ("  change the preferred leader", f"{diff.preferred_changed.sum():,}"),
        ("  never finish", alarm(int(waits.sum()), named)),
        ("replicas copied", _copied(report.replicas, "{:,}".format)),
        ("replicas deleted", f"{report.replicas.deleted.sum():,}"),
    ]
    if report.data is not None:
        facts.append(("data copied", _copied(report.data, amount)))
        facts.append(("data deleted", amount(int(report.data.deleted.sum()))))
    if brokers.all_have_racks:
        worse = int((diff.breaks_racks & ~diff.broke_racks).sum())
        mended = int((diff.broke_racks & ~diff.breaks_racks).sum())
        before, after = (report.at(phase).summary.rack_violations for phase in ("before", "finished"))
        facts.append(("rack violations", f"{before:,} before, {after:,} after"))
        facts.append(("  added", alarm(worse, named)))
        facts.append(("  removed", f"{mended:,}"))
    return fact_table(title, facts)


def _copied(moved: Moved, shown: Amount) -> str:
    text = f"{shown(moved.copied)}, {shown(moved.cross_rack)} between racks"
    return text + (f", [red]{shown(moved.unsourced)} without source[/red]" if moved.unsourced else "")


def _phase_table(report: PlanReport, *, narrow: bool) -> Table:
    title = "State after each phase, with all partitions in the same phase"
    table = Table(title=title, title_justify="left", caption=_PHASE_KEY, caption_justify="left")
    table.add_column("after", no_wrap=True)
    headings = ("assigned", "preferred led", "offline", "under min ISR", "at min ISR", "1 in sync")
    for heading in headings if narrow else (*headings, "worst failure", "writes"):
        table.add_column(heading, justify="right", overflow="fold")
    for phase in report.phases:
        exposed, summary = phase.exposure, phase.summary
        worst = "-" if exposed.worst_broker == NONE else f"broker {exposed.worst_broker}: {exposed.worst_offline:,}"
        cells = [
            phase.name,
            f"{summary.by_broker.replicas.sum():,}",
            f"{summary.preferred_led:,}",
            _red(exposed.offline),
            _red(exposed.under_min_isr),
            f"{exposed.at_min_isr:,}",
            f"{exposed.last_in_sync:,}",
        ]
        table.add_row(*cells if narrow else (*cells, worst, f"{phase.writes:,}"))
    return table


def _failure_table(report: PlanReport, failed: list[int]) -> Table:
    who = f"broker{'s' * (len(failed) > 1)} {', '.join(map(str, failed))}"
    headings = ("offline", "newly offline", "under min ISR", "leaders moved", "busiest broker leads")
    table = number_table(f"Failure of {who} after each phase", "after", headings)
    for phase in report.phases:
        left = phase.failure
        assert left is not None, "the report has the failure of each phase"
        table.add_row(
            phase.name,
            _red(left.offline),
            _red(left.newly_offline),
            _red(left.under_min_isr),
            f"{left.leaders_moved:,}",
            f"{left.busiest_leaders:,}",
        )
    return table


class _Load:
    """Load and data movement of brokers or racks, as columns."""

    def __init__(self, names: list[str], report: PlanReport, group: NDArray[np.intp], count: int) -> None:
        def total(column: NDArray[np.int64]) -> NDArray[np.int64]:
            found = np.zeros(count, np.int64)
            np.add.at(found, group[group != NONE], column[group != NONE])
            return found

        before, after = report.at("before"), report.at("finished")
        self.names = names
        self.replicas = [total(phase.summary.by_broker.replicas) for phase in (before, after)]
        self.replicas.insert(1, total(report.peak_replicas()))
        self.leaders = [total(phase.summary.by_broker.leaders) for phase in (before, after)]
        self.preferred = [total(phase.summary.by_broker.preferred) for phase in (before, after)]
        moved = report.replicas if report.data is None else report.data
        self.moved = [total(moved.copied_in), total(moved.copied_out)]
        peak = report.peak_bytes()
        self.held = None if peak is None else [_bytes_of(before, total), total(peak), _bytes_of(after, total)]


def _bytes_of(phase: PhaseReport, total: Total) -> NDArray[np.int64]:
    assert phase.held_bytes is not None
    return total(phase.held_bytes)


def _by_rack(report: PlanReport) -> _Load:
    brokers = report.what_if.layout.brokers
    number = {name: at for at, name in enumerate(brokers.rack_names)}
    group = np.array([NONE if rack is None else number[rack] for rack in brokers.racks], np.intp)
    return _Load(list(brokers.rack_names), report, group, len(number))


def _broker_table(report: PlanReport) -> Table:
    brokers = report.what_if.layout.brokers
    count = len(brokers.ids)
    load = _Load([brokers.name_of(at) for at in range(count)], report, np.arange(count), count)
    if count <= MOST_LISTED:
        return _load_table("broker", "Brokers", report, load, range(count))
    order = np.lexsort((np.arange(count), -load.moved[0]))
    chosen = [*order[:EXTREMES].tolist(), *np.lexsort((np.arange(count), -load.moved[1]))[:EXTREMES].tolist()]
    title = f"Brokers with most data copied in ({EXTREMES}) and out ({EXTREMES})"
    return _load_table("broker", title, report, load, dict.fromkeys(chosen))


def _load_table(what: str, title: str, report: PlanReport, load: _Load, chosen: Iterable[int]) -> Table:
    shown = "{:,}".format if report.data is None else amount
    headings = ["replicas", "leaders", "preferred", "copied in", "copied out"]
    table = number_table(title, what, [*headings, "data"] if load.held is not None else headings)
    for at in chosen:
        cells = [_becomes(load.replicas, at, "{:,}".format), _becomes(load.leaders, at, "{:,}".format)]
        cells += [_becomes(load.preferred, at, "{:,}".format), *(shown(int(column[at])) for column in load.moved)]
        if load.held is not None:
            cells.append(_becomes(load.held, at, amount))
        table.add_row(escape(load.names[at]), *cells)
    return table


def _becomes(columns: Sequence[NDArray[np.integer]], at: int, shown: Amount) -> str:
    """Return the values before, at the peak and after, without repetitions."""
    values = [int(column[at]) for column in columns]
    if len(set(values)) == 1:
        return shown(values[0])
    if len(values) == 3 and values[1] == max(values[0], values[2]):
        del values[1]
    return " → ".join(map(shown, values))


def _partition_table(report: PlanReport) -> Table:
    what_if = report.what_if
    diff, phases, layout = what_if.diff, what_if.phases, what_if.layout
    changed = np.flatnonzero(~diff.unchanged)
    left = len(changed) - MOST_PARTITIONS
    table = Table("partition", "replicas", "adds", "removes", title="Partitions", title_justify="left")
    table.add_column("leader", justify="right")
    table.add_column("leader epoch", justify="right")
    table.add_column("")
    if left > 0:
        table.caption = f"and {left:,} more: --diff FILE writes all"
    before, after = phases.at("before").states, phases.at("finished").states
    for at in changed[:MOST_PARTITIONS].tolist():
        lists = (diff.before, diff.after, diff.adding, diff.removing)
        present, target, adds, removes = (", ".join(map(str, unpack(ids[at : at + 1])[0])) for ids in lists)
        row = diff.rows[at]
        notes = ["never finishes"] if phases.waits[at] else []
        notes += ["breaks the rack rule"] if diff.breaks_racks[at] and not diff.broke_racks[at] else []
        table.add_row(
            escape(f"{layout.topics[layout.topic[row]]}-{layout.partition[row]}"),
            f"{present} → {target}",
            adds or "-",
            removes or "-",
            _becomes([before.leader, after.leader], at, str),
            _becomes([before.leader_epoch, after.leader_epoch], at, str),
            f"[red]{', '.join(notes)}[/red]" if notes else "",
        )
    return table


def _red(count: int) -> str:
    return f"[red]{count:,}[/red]" if count else "0"


def amount(size_bytes: int) -> str:
    """Return a number of bytes with a unit.

    >>> amount(1023), amount(1536), amount(5 * 2**40)
    ('1023 B', '1.5 KiB', '5.0 TiB')
    """
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024 or unit == "PiB":
            break
    return f"{size:,.1f} {unit}"
