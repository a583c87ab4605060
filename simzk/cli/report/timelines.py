"""Tables of a page from the output of `simzk timelines`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.pipeline.timelines.bins import BINS, STATES, bins_of
from simzk.report.charts import to_date
from simzk.report.saved_page import OFFLINE, OK, UNDER_MIN_ISR, UNDER_REPLICATED, TimelinesTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from simzk.pipeline.saved import Saved
    from simzk.pipeline.timelines.bins import Bins
    from simzk.report.table import Columns

TOLD = dict(zip(STATES, (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, OK), strict=True))
MOST_ROWS, MOST_BROKERS = 60, 40
WORST, MOST_SESSIONS, MOST_WRITERS = 20, 100, 30
SPAN = ("row", "from_s", "until_s", "state", "told")


def timelines_tables(saved: Saved) -> TimelinesTables:
    """Return the tables of a directory.

    Raises:
        ConfigError: a table cannot be read.
    """
    bins = bins_of(saved, MOST_ROWS)
    expired = _expired(saved)
    shown, left = _brokers(saved, bins)
    told = [_read(saved), *_cells(bins)]
    if left:
        told.append(f"{left:,} brokers with fewer registrations are not shown.")
    if len(expired["session"]) == MOST_SESSIONS:
        told.append(f"Of sessions that expired the first {MOST_SESSIONS} are shown.")
    return TimelinesTables(
        title=f"Timelines: {saved.directory.name}",
        summary=told,
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
                told = _told(seconds[:, start]) if state < len(STATES) - 1 else OK
                spans.append((name, float(bins.edges[start]), float(bins.edges[at]), TOLD[STATES[state]], told))
            start = at
    return _columns(SPAN, spans)


def _told(seconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    bad = zip(STATES[:-1], seconds.tolist(), strict=False)
    return ", ".join(f"{TOLD[state]} {_lasting(lasted)}" for state, lasted in bad if lasted > 0)


def _counts(bins: Bins) -> Columns:
    if not bins.all[:-1].any():
        return {}
    per_second = bins.all / (bins.edges[1] - bins.edges[0])
    # The last ones once more, at the end: areas reach from one instant to the next.
    numbers = {TOLD[state]: [*row, row[-1]] for state, row in zip(STATES[:-1], per_second.tolist(), strict=False)}
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
    spans = [("controller", start, end, f"broker {broker}", f"broker {broker}") for broker, start, end in ruled]
    return _columns(SPAN, spans)


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
