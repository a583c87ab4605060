"""`simzk report`: one HTML page from the output directories of other commands."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
import typer

from simzk.cli.console import JsonOut, Progress, require_one_stdout, text_output, write_json, write_text
from simzk.cli.risk import probability
from simzk.cli.sweep import brokers_text
from simzk.pipeline.saved import find_saved
from simzk.pipeline.sweeps.tables import WORST_SETS
from simzk.pipeline.timelines.bins import BINS, STATES, bins_of
from simzk.report.pages import (
    OFFLINE,
    OK,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    RiskTables,
    SwarmTables,
    SweepTables,
    TimelinesTables,
    results_page,
)
from simzk.report.svg import to_date

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from simzk.pipeline.saved import Saved
    from simzk.pipeline.timelines.bins import Bins
    from simzk.report.table import Columns

    Tables = TimelinesTables | SweepTables | RiskTables | SwarmTables


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            help="Output directories of simzk timelines, sweep, risk or run --out; all go into one page.",
            metavar="DIR...",
        ),
    ],
    html: Annotated[
        Path, typer.Option("--html", help="HTML file to write, replaced if it exists; - for stdout.", metavar="OUT")
    ],
    json_out: JsonOut = None,
) -> None:
    """Make one self-contained HTML page of timelines, sweeps, risks and swarms."""
    require_one_stdout(json_out, html)
    found = [saved for directory in directories for saved in find_saved(directory)]  # check all before reading any
    tables: list[Tables] = []
    with Progress() as progress:
        for number, saved in enumerate(found):
            progress.show(f"reading {saved.directory}", number / len(found))
            tables.append(TABLES[saved.kind](saved))
    write_text(html, results_page(tables))
    write_json(json_out, {"html": str(html), "results": [[saved.kind, str(saved.directory)] for saved in found]})
    with text_output(json_out, html):
        typer.echo(f"wrote {html}: {', '.join(saved.kind for saved in found)}")


STATE_NAMES = dict(zip(STATES, (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, OK), strict=True))
MOST_ROWS, MOST_BROKERS = 60, 40
WORST, MOST_SESSIONS, MOST_WRITERS = 20, 100, 30
SPAN = ("row", "from_s", "until_s", "state", "label")


def timelines_tables(saved: Saved) -> TimelinesTables:
    """Return the tables of a directory.

    Raises:
        ConfigError: a table cannot be read.
    """
    bins = bins_of(saved, MOST_ROWS)
    expired = _expired(saved)
    shown, left = _brokers(saved, bins)
    sentences = [_read(saved), *_cells(bins)]
    if left:
        sentences.append(f"{left:,} brokers with fewer registrations are not shown.")
    if len(expired["session"]) == MOST_SESSIONS:
        sentences.append(f"Of sessions that expired the first {MOST_SESSIONS} are shown.")
    return TimelinesTables(
        title=f"Timelines: {saved.directory.name}",
        summary=sentences,
        states=_states(bins),
        left_out=f"{bins.left:,} topics with less time in a bad state are not shown." if bins.left else "",
        counts=_counts(bins),
        controllers=_controllers(saved, bins),
        brokers=shown,
        moves=_moves(saved.table("leadership", "from_broker", "to_broker")),
        worst=_worst(saved),
        expired=expired,
        writers=_writers(saved),
    )


def _read(saved: Saved) -> str:
    rows, damages = saved.summary.get("rows", {}), saved.summary.get("damages", [])
    lost = ""
    if damages:
        first = damages[0]
        lost = f" {len(damages):,} times something could not be used, first {first['file']}: {first['damage']}."
    counted = f"{saved.summary.get('transactions', 0):,} transactions, {rows.get('totals', 0):,} partitions"
    return f"{counted}, {rows.get('leadership', 0):,} moves of leaders.{lost}"


def _cells(bins: Bins) -> Iterable[str]:
    if bins.rows:
        seen = f"Seen from {to_date(bins.edges[0])} to {to_date(bins.edges[-1])}, UTC."
        yield f"{seen} A cell is {_lasting((bins.edges[-1] - bins.edges[0]) / BINS)} and has the worst state in it."


def _lasting(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("s", 1.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def _states(bins: Bins) -> Columns:
    """Return spans with the worst state of each row per interval; intervals in sync are merged."""
    spans: list[tuple[object, ...]] = []
    for number, row in enumerate(bins.rows):
        seconds = bins.seconds[number]
        seen = seconds.sum(axis=0) > 0
        worst = np.where(seen, (seconds > 0).argmax(axis=0), -1).tolist()
        name = row if bins.partitions[number] == 1 else f"{row} ({bins.partitions[number]:,})"
        start = 0
        for at in range(1, BINS + 1):
            state = worst[start]
            if at < BINS and worst[at] == state and state in (-1, len(STATES) - 1):
                continue
            if state >= 0:
                text = _durations(seconds[:, start]) if state < len(STATES) - 1 else OK
                spans.append((name, float(bins.edges[start]), float(bins.edges[at]), STATE_NAMES[STATES[state]], text))
            start = at
    return _columns(SPAN, spans)


def _durations(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    bad = zip(STATES[:-1], seconds.tolist(), strict=False)
    return ", ".join(f"{STATE_NAMES[state]} {_lasting(lasted)}" for state, lasted in bad if lasted > 0)


def _counts(bins: Bins) -> Columns:
    if not bins.all[:-1].any():
        return {}
    per_second = bins.all / (bins.edges[1] - bins.edges[0])
    # The last ones once more, at the end: areas reach from one instant to the next.
    numbers = {
        STATE_NAMES[state]: [*row, row[-1]] for state, row in zip(STATES[:-1], per_second.tolist(), strict=False)
    }
    return {"at_s": bins.edges.tolist()} | numbers


def _instants(table: pa.Table, name: str) -> list[float | None]:
    """Return a column of timestamps as seconds since 1970."""
    return [None if at is None else at.timestamp() for at in table[name].to_pylist()]


def _intervals(saved: Saved, name: str, bins: Bins) -> list[tuple[int, float, float]]:
    """Return (broker, begin, end) in order, clipped to the observed time, without empty spans."""
    table = saved.table(name, "broker", "from", "until")
    first, last = bins.edges[0], bins.edges[-1]
    columns = zip(table["broker"].to_pylist(), _instants(table, "from"), _instants(table, "until"), strict=True)
    found = []
    for broker, start, end in columns:
        begin, finish = max(start or first, first), last if end is None else min(end, last)
        if broker is not None and finish > begin:
            found.append((broker, float(begin), float(finish)))
    return sorted(found, key=lambda one: one[1])


def _controllers(saved: Saved, bins: Bins) -> Columns:
    ruled = _intervals(saved, "controllers", bins)
    spans = [
        ("controller", start, end, f"broker {broker}", f"broker {broker}", str(broker)) for broker, start, end in ruled
    ]
    return _columns((*SPAN, "text"), spans)


def _brokers(saved: Saved, bins: Bins) -> tuple[Columns, int]:
    """Return the registrations of the brokers with most of them, and the number of other brokers."""
    there = _intervals(saved, "brokers", bins)
    times: dict[int, int] = {}
    for broker, *_ in there:
        times[broker] = times.get(broker, 0) + 1
    shown = sorted(sorted(times, key=lambda broker: (-times[broker], broker))[:MOST_BROKERS])
    spans = [
        (f"broker {broker}", start, end, "registered", "registered")
        for broker in shown
        for one, start, end in there
        if one == broker
    ]
    return _columns(SPAN, spans), len(times) - len(shown)


def _moves(leadership: pa.Table) -> Columns:
    """Return the leaderships that each broker gained and lost."""
    if not len(leadership):
        return {}
    gained, lost = (
        dict(zip(*(counted.to_pylist() for counted in leadership[name].value_counts().flatten()), strict=True))
        for name in ("to_broker", "from_broker")
    )
    brokers = sorted((set(gained) | set(lost)) - {-1, None})
    if not brokers:
        return {}
    return {
        "broker": brokers,
        "gained": [gained.get(broker, 0) for broker in brokers],
        "lost": [lost.get(broker, 0) for broker in brokers],
    }


def _worst(saved: Saved) -> Columns:
    import pyarrow.compute as pc

    totals = saved.table("totals")
    keys = ("offline_s", "under_min_isr_s", "under_replicated_s", "leader_moves")
    bad = totals.filter(pc.greater(pc.add(pc.add(*(totals[key] for key in keys[:2])), totals[keys[2]]), 0.0))
    worst = bad.sort_by([*((key, "descending") for key in keys), ("topic", "ascending"), ("partition", "ascending")])
    rows = worst.slice(0, WORST).to_pylist()
    if not rows:
        return {}
    return {
        "partition": [f"{row['topic']}-{row['partition']}" for row in rows],
        "offline, s": [row["offline_s"] for row in rows],
        "under min ISR, s": [row["under_min_isr_s"] for row in rows],
        "under-replicated, s": [row["under_replicated_s"] for row in rows],
        "moves of its leader": [row["leader_moves"] for row in rows],
        "ISR shrank": [row["isr_shrinks"] for row in rows],
        "ISR grew": [row["isr_expansions"] for row in rows],
    }


def _expired(saved: Saved) -> Columns:
    import pyarrow.compute as pc

    sessions = saved.table("sessions", "session", "from", "until", "end", "ephemerals")
    rows = sessions.filter(pc.equal(sessions["end"], "expired")).sort_by("until").slice(0, MOST_SESSIONS).to_pylist()
    return {
        "session": [f"0x{row['session'] & 0xFFFF_FFFF_FFFF_FFFF:x}" for row in rows],
        "began": ["" if row["from"] is None else to_date(row["from"].timestamp()) for row in rows],
        "expired": [to_date(row["until"].timestamp()) for row in rows],
        "took with it": [", ".join(row["ephemerals"] or ()) for row in rows],
    }


def _writers(saved: Saved) -> Columns:
    writers = saved.table("writers", "session", "operation", "path", "count")
    order = [("count", "descending"), ("session", "ascending"), ("operation", "ascending"), ("path", "ascending")]
    rows = writers.sort_by(order).slice(0, MOST_WRITERS).to_pylist()
    return {
        "session": [f"0x{row['session'] & 0xFFFF_FFFF_FFFF_FFFF:x}" for row in rows],
        "operation": [row["operation"] for row in rows],
        "kind of path": [row["path"] for row in rows],
        "transactions": [row["count"] for row in rows],
    }


def _columns(names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> Columns:
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


SWEEP_TOPICS = 20
MOST_NAMED_LOADS = 6
"""Number of named sets with a chart of loads, the worst first."""


def sweep_tables(saved: Saved) -> SweepTables:
    """Return the tables of a directory.

    Raises:
        ConfigError: a table cannot be read.
    """
    worst, named = saved.head("failures", WORST_SETS).to_pylist(), set(saved.summary.get("named", []))
    shown = [row["fail"] for row in worst if row["fail"] in named][:MOST_NAMED_LOADS]
    sentences = _sweep_summary(saved.summary)
    if len(named) > len(shown):
        sentences.append(f"Loads are shown for the worst {len(shown)} of {len(named):,} named sets.")
    return SweepTables(
        title=f"Failure sweep: {saved.summary.get('layout', saved.directory.name)}",
        summary=sentences,
        worst=_worst_sets(worst, named),
        estimates=_estimates(saved.table("estimates.parquet").to_pylist()),
        topics=_sweep_topics(saved.table("topics.parquet")),
        loads=_loads(saved, named.difference(shown)),
        partitions=_partitions_of_sets(saved, worst),
    )


def _sweep_summary(summary: dict[str, Any]) -> list[str]:
    brokers, partitions = summary.get("brokers", 0), summary.get("partitions", 0)
    swept = f"{summary.get('failure_sets', 0):,} failure sets ({', '.join(summary.get('fail', []))})"
    sentences = [f"{swept} over {partitions:,} partitions on {brokers:,} brokers."]
    settled = summary.get("settled", {})
    counts = (("offline", "offline"), ("under_min_isr", "under min ISR"), ("under_replicated", "under-replicated"))
    without = ", ".join(f"{settled.get(key, 0):,} {words}" for key, words in counts)
    sentences.append(f"Without any failure: {without}.")
    return [*sentences, *(f"Skipped: {one['why']}." for one in summary.get("unfit", []))]


def _worst_sets(rows: list[dict[str, Any]], named: set[str]) -> Columns:
    return {
        "fails": [row["fail"] if row["fail"] in named else _who(row) for row in rows],
        OFFLINE: [row["newly_offline"] for row in rows],
        "no replica left": [row["lost"] for row in rows],
        UNDER_MIN_ISR: [row["under_min_isr"] for row in rows],
        "under-replicated": [row["under_replicated"] for row in rows],
        "leaders moved": [row["leaders_moved"] for row in rows],
        "busiest broker": [None if row["busiest_broker"] < 0 else row["busiest_broker"] for row in rows],
        "leads": [row["busiest_leaders"] for row in rows],
    }


def _who(row: dict[str, Any]) -> str:
    """Return the racks by name, and the brokers by id."""
    brokers = brokers_text(row["brokers"])
    return f"{', '.join(row['racks'])}: {brokers}" if row["racks"] else brokers


def _partitions_of_sets(saved: Saved, worst: list[dict[str, Any]]) -> list[Columns]:
    """Return the listed partitions of each of the worst failure sets."""
    by_set: dict[int, list[dict[str, Any]]] = {}
    for row in saved.table("worst.parquet").to_pylist():
        by_set.setdefault(row["failure_set"], []).append(row)
    return [_partitions_of_set(by_set.get(row["failure_set"], [])) for row in worst]


def _partitions_of_set(rows: list[dict[str, Any]]) -> Columns:
    return {
        "partition": [f"{row['topic']}-{row['partition']}" for row in rows],
        "state": [row["state"] for row in rows],
        "leader before": [None if row["leader_before"] < 0 else row["leader_before"] for row in rows],
        "in sync and live": [row["in_sync"] for row in rows],
    }


def _estimates(rows: list[dict[str, Any]]) -> Columns:
    drawn = [row for row in rows if not row["exact"]]
    if not drawn:
        return {}
    return {
        "fails": [row["fail"] for row in drawn],
        "sets": [f"{row['sets']:,} of {row['population']:,.0f}" for row in drawn],
        "count": [row["count"].replace("_", " ") for row in drawn],
        "a set, on the mean": [row["mean"] for row in drawn],
        "from": [row["mean_low"] for row in drawn],
        "to (95 %)": [row["mean_high"] for row in drawn],
        "sets with any": [f"{row['share']:.2%}" for row in drawn],
        "from ": [f"{row['share_low']:.2%}" for row in drawn],
        "to (95 %) ": [f"{row['share_high']:.2%}" for row in drawn],
        "most seen": [row["most"] for row in drawn],
    }


def _sweep_topics(table: Any) -> Columns:
    order = [("offline_most", "descending"), ("under_min_isr_most", "descending"), ("sets", "descending")]
    rows = table.sort_by([*order, ("fail", "ascending"), ("topic", "ascending")]).slice(0, SWEEP_TOPICS).to_pylist()
    if not rows:
        return {}
    return {
        "fails": [row["fail"] for row in rows],
        "topic": [row["topic"] for row in rows],
        "sets that take some offline": [row["sets"] for row in rows],
        "offline, most in one set": [row["offline_most"] for row in rows],
        "offline, all sets": [row["offline"] for row in rows],
        "under min ISR, most": [row["under_min_isr_most"] for row in rows],
        "under min ISR, all": [row["under_min_isr"] for row in rows],
    }


def _loads(saved: Saved, without: set[str]) -> dict[str, tuple[Columns, Columns]]:
    brokers, racks = (
        saved.table(f"{kind}s.parquet", "fail", kind, "leaders_before", "leaders_most") for kind in ("broker", "rack")
    )
    fails = [fail for fail in dict.fromkeys(brokers["fail"].to_pylist()) if fail not in without]
    return {fail: (_load(brokers, "broker", fail), _load(racks, "rack", fail)) for fail in fails}


def _load(table: Any, kind: str, fail: str) -> Columns:
    rows = sorted((row for row in table.to_pylist() if row["fail"] == fail), key=lambda row: row[kind])
    return {
        kind: [row[kind] for row in rows],
        "before": [row["leaders_before"] for row in rows],
        "after, at most": [row["leaders_most"] for row in rows],
    }


RISK_TOPICS, FAILED = 30, 100


def risk_tables(saved: Saved) -> RiskTables:
    """Return the tables of risks in a directory.

    Raises:
        ConfigError: a table cannot be read.
    """
    rows = saved.table("assignments.parquet").to_pylist()
    return RiskTables(
        title=f"Risk: {saved.summary.get('layout', saved.directory.name)}",
        summary=_risk_summary(saved.summary),
        assignments=_assignments(rows),
        probabilities=_probabilities(rows),
        topics=_risk_topics(saved.table("topics.parquet", "assignment", "topic", "partitions", "outage_probability")),
    )


def _risk_summary(summary: dict[str, Any]) -> list[str]:
    sentences = [f"{summary.get('partitions', 0):,} partitions on {summary.get('brokers', 0):,} brokers."]
    for thing, words in (("broker", "Each broker"), ("rack", "Each rack")):
        said = summary.get("rates", {}).get(thing)
        if said:
            away = f"is away {said['failures_per_year']:g} times a year, {said['repair_hours']:g} hours each"
            gone = f"its disks are destroyed {said['destroyed_per_year']:g} times a year"
            sentences.append(f"{words} {away}; {gone}, and copied anew in {said['rereplication_hours']:g} hours.")
    others = sum(len(summary.get("rates", {}).get(things, {})) for things in ("brokers", "racks"))
    if others:
        sentences.append(f"Other rates are given for {others:,} of them.")
    return [*sentences, *(f"Skipped: {one['assignment']}: {one['why']}." for one in summary.get("left_out", []))]


def _assignments(rows: list[dict[str, Any]]) -> Columns:
    return {
        "assignment": [row["assignment"] for row in rows],
        "an outage": [probability(row["outage_probability"]) for row in rows],
        "95 % confidence": [_interval(row, "outage_probability") for row in rows],
        "minutes offline": [f"{row['offline_minutes']:.3g}" for row in rows],
        "partition minutes": [f"{row['partition_minutes']:.3g}" for row in rows],
        "data lost": [probability(row["loss_probability"]) for row in rows],
        "95 % confidence ": [_interval(row, "loss_probability") for row in rows],
        "partitions lost": [f"{row['partitions_lost']:.3g}" for row in rows],
        "sets of replicas": [row["replica_sets"] for row in rows],
        "scatter width": [f"{row['scatter_width']:.1f}" for row in rows],
        "replicas to move": [row["replicas_moved"] for row in rows],
    }


def _interval(row: dict[str, Any], name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "exact" if low == high else f"{probability(low)} to {probability(high)}"


def _probabilities(rows: list[dict[str, Any]]) -> Columns:
    found: dict[str, list[object]] = {"assignment": [row["assignment"] for row in rows]}
    for words, name in (("an outage", "outage_probability"), ("data lost", "loss_probability")):
        for end in ("", "_low", "_high"):
            found[words + end] = [row[name + end] for row in rows]
    return found


def _risk_topics(table: Any) -> Columns:
    """Return the topics at the highest risk under the first assignment, with their risk under the others."""
    names = list(dict.fromkeys(table["assignment"].to_pylist()))
    columns = (table[name].to_pylist() for name in ("assignment", "topic", "partitions", "outage_probability"))
    by_topic: dict[str, dict[str, float]] = {}
    sizes: dict[str, int] = {}
    for assignment, topic, partitions, outage in zip(*columns, strict=True):
        by_topic.setdefault(topic, {})[assignment] = outage
        sizes[topic] = partitions
    worst = sorted(by_topic, key=lambda topic: (-by_topic[topic][names[0]], topic))[:RISK_TOPICS]
    columns_of_worst: dict[str, list[object]] = {"topic": list(worst), "partitions": [sizes[topic] for topic in worst]}
    return columns_of_worst | {name: [probability(by_topic[topic][name]) for topic in worst] for name in names}


def swarm_tables(saved: Saved) -> SwarmTables:
    """Return the tables of a swarm in a directory.

    Raises:
        ConfigError: a table cannot be read.
    """
    runs = saved.table("runs.parquet", "file", "seed", "held", "first_failure", "replay").to_pylist()
    failed = [run for run in runs if not run["held"]]
    files = list(dict.fromkeys(run["file"] for run in runs))
    count = f"{len(runs):,} runs, {len(failed):,} failed."
    return SwarmTables(
        title=f"Results of all runs: {saved.directory.name}",
        summary=[count, *([f"The first {FAILED} that failed are shown."] if len(failed) > FAILED else [])],
        outcomes={
            "scenario": files,
            "held": [sum(run["held"] for run in runs if run["file"] == file) for file in files],
            "failed": [sum(not run["held"] for run in runs if run["file"] == file) for file in files],
        },
        failed={
            "scenario": [run["file"] for run in failed[:FAILED]],
            "seed": [run["seed"] for run in failed[:FAILED]],
            "first failure": [run["first_failure"] for run in failed[:FAILED]],
            "replay command": [run["replay"] for run in failed[:FAILED]],
        },
        numbers=_numbers(saved.table("outcomes.parquet").to_pylist()),
    )


def _numbers(rows: list[dict[str, Any]]) -> Columns:
    counted = [row for row in rows if row["median"] is not None]
    names = ("least", "median", "p90", "p99", "most", "seed")
    return {
        "scenario": [row["file"] for row in counted],
        "what": [row["kind"].replace("_", " ") for row in counted],
        "of": [row["name"] for row in counted],
        "runs": [row["runs"] for row in counted],
    } | {name: [row[name] for row in counted] for name in names}


TABLES: Final[dict[str, Callable[[Saved], Tables]]] = {
    "timelines": timelines_tables,
    "sweep": sweep_tables,
    "risk": risk_tables,
    "swarm": swarm_tables,
}
"""Tables of a directory, by the kind of output in it."""
