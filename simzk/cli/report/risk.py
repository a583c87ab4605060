"""Tables of a page from the output of `simzk risk` and `simzk run --out`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simzk.cli.risk import probability
from simzk.report.saved_page import RiskTables, SwarmTables

if TYPE_CHECKING:
    from simzk.pipeline.saved import Saved
    from simzk.report.table import Columns

TOPICS, FAILED = 30, 100


def risk_tables(saved: Saved) -> RiskTables:
    """Return the tables of risks in a directory.

    Raises:
        ConfigError: a table cannot be read.
    """
    rows = saved.table("assignments.parquet").to_pylist()
    return RiskTables(
        title=f"Risk: {saved.summary.get('layout', saved.directory.name)}",
        summary=list(_told(saved.summary)),
        assignments=_assignments(rows),
        probabilities=_probabilities(rows),
        topics=_topics(saved.table("topics.parquet", "assignment", "topic", "partitions", "outage_probability")),
    )


def _told(summary: dict[str, Any]) -> list[str]:
    told = [f"{summary.get('partitions', 0):,} partitions on {summary.get('brokers', 0):,} brokers."]
    for thing, words in (("broker", "Each broker"), ("rack", "Each rack")):
        said = summary.get("rates", {}).get(thing)
        if said:
            away = f"is away {said['failures_per_year']:g} times a year, {said['repair_hours']:g} hours each"
            gone = f"its disks are destroyed {said['destroyed_per_year']:g} times a year"
            told.append(f"{words} {away}; {gone}, and copied anew in {said['rereplication_hours']:g} hours.")
    others = sum(len(summary.get("rates", {}).get(things, {})) for things in ("brokers", "racks"))
    if others:
        told.append(f"Other rates are given for {others:,} of them.")
    return [*told, *(f"Skipped: {one['assignment']}: {one['why']}." for one in summary.get("left_out", []))]


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


def _topics(table: Any) -> Columns:
    """Return the topics at the highest risk under the first assignment, with their risk under the others."""
    names = list(dict.fromkeys(table["assignment"].to_pylist()))
    columns = (table[name].to_pylist() for name in ("assignment", "topic", "partitions", "outage_probability"))
    by_topic: dict[str, dict[str, float]] = {}
    sizes: dict[str, int] = {}
    for assignment, topic, partitions, outage in zip(*columns, strict=True):
        by_topic.setdefault(topic, {})[assignment] = outage
        sizes[topic] = partitions
    worst = sorted(by_topic, key=lambda topic: (-by_topic[topic][names[0]], topic))[:TOPICS]
    told: dict[str, list[object]] = {"topic": list(worst), "partitions": [sizes[topic] for topic in worst]}
    return told | {name: [probability(by_topic[topic][name]) for topic in worst] for name in names}


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
