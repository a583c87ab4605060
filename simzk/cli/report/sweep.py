"""Tables of a page from the output of `simzk sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simzk.report.saved_page import OFFLINE, UNDER_MIN_ISR, SweepTables

if TYPE_CHECKING:
    from simzk.pipeline.saved import Saved
    from simzk.report.table import Columns

WORST, TOPICS = 15, 20
MOST_IDS = 6
"""Number of broker ids of a set that are shown."""
MOST_NAMED_LOADS = 6
"""Number of named sets with a chart of loads, the worst first."""


def sweep_tables(saved: Saved) -> SweepTables:
    """Return the tables of a directory.

    Raises:
        ConfigError: a table cannot be read.
    """
    worst, named = saved.head("failures", WORST).to_pylist(), set(saved.summary.get("named", []))
    shown = [row["fail"] for row in worst if row["fail"] in named][:MOST_NAMED_LOADS]
    told = list(_told(saved.summary))
    if len(named) > len(shown):
        told.append(f"Loads are shown for the worst {len(shown)} of {len(named):,} named sets.")
    return SweepTables(
        title=f"Failure sweep: {saved.summary.get('layout', saved.directory.name)}",
        summary=told,
        worst=_worst(worst, named),
        estimates=_estimates(saved.table("estimates.parquet").to_pylist()),
        topics=_topics(saved.table("topics.parquet")),
        loads=_loads(saved, named.difference(shown)),
    )


def _told(summary: dict[str, Any]) -> list[str]:
    brokers, partitions = summary.get("brokers", 0), summary.get("partitions", 0)
    swept = f"{summary.get('failure_sets', 0):,} failure sets ({', '.join(summary.get('fail', []))})"
    told = [f"{swept} over {partitions:,} partitions on {brokers:,} brokers."]
    settled = summary.get("settled", {})
    counts = (("offline", "offline"), ("under_min_isr", "under min ISR"), ("under_replicated", "under-replicated"))
    without = ", ".join(f"{settled.get(key, 0):,} {words}" for key, words in counts)
    told.append(f"Without any failure: {without}.")
    return [*told, *(f"Skipped: {one['why']}." for one in summary.get("unfit", []))]


def _worst(rows: list[dict[str, Any]], named: set[str]) -> Columns:
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
    shown = ", ".join(map(str, row["brokers"][:MOST_IDS])) + (", ..." if len(row["brokers"]) > MOST_IDS else "")
    brokers = f"broker{'s' * (len(row['brokers']) != 1)} {shown}"
    return f"{', '.join(row['racks'])}: {brokers}" if row["racks"] else brokers


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


def _topics(table: Any) -> Columns:
    order = [("offline_most", "descending"), ("under_min_isr_most", "descending"), ("sets", "descending")]
    rows = table.sort_by([*order, ("fail", "ascending"), ("topic", "ascending")]).slice(0, TOPICS).to_pylist()
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
