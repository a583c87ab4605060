"""Runs of scenarios as tables: one row a run, one row an event, and what all runs came to."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from simzk.scenarios.results import Result

Row = tuple[object, ...]


@cache
def runs_schema() -> pa.Schema:
    """The Arrow schema of one row a run; docs/pipeline.md says what each column is."""
    import pyarrow as pa

    counts = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    return pa.schema(
        [
            ("run", pa.int64()),
            ("file", pa.string()),
            ("seed", pa.int64()),
            ("kafka_version", pa.string()),
            ("held", pa.bool_()),
            ("failed", pa.list_(pa.field("element", pa.string()))),
            ("first_failure", pa.string()),
            ("replay", pa.string()),
            ("events", counts),
            ("settled_us", counts),
            ("document", pa.string()),
        ]
    )


@cache
def events_schema() -> pa.Schema:
    """The Arrow schema of one row an event."""
    import pyarrow as pa

    return pa.schema(
        [
            ("run", pa.int64()),
            ("file", pa.string()),
            ("seed", pa.int64()),
            ("kafka_version", pa.string()),
            ("event", pa.int32()),
            ("at_us", pa.int64()),
            *((name, pa.string()) for name in ("who", "what", "subject", "before", "after")),
        ]
    )


@cache
def outcomes_schema() -> pa.Schema:
    """The Arrow schema of what runs came to: the fields of `simzk.scenarios.swarm.OutcomeRow`."""
    import pyarrow as pa

    numbers = ("runs", "of", "least", "median", "p90", "p99", "most", "seed")
    return pa.schema([*((name, pa.string()) for name in ("file", "kind", "name")), *((n, pa.int64()) for n in numbers)])


def run_row(number: int, result: Result) -> Row:
    """A run as a row of `runs_schema`."""
    return (
        number,
        result.file,
        result.seed,
        result.version,
        result.held,
        list(result.failed),
        result.first_failure,
        result.replay,
        list(result.events.items()),
        list(result.settled_us.items()),
        None if result.document is None else json.dumps(result.document),
    )


def result_of_row(row: Mapping[str, Any]) -> Result:
    """The run that a row of `runs_schema` tells of."""
    from simzk.scenarios.results import Result

    return Result(
        file=row["file"],
        seed=row["seed"],
        version=row["kafka_version"],
        failed=tuple(row["failed"]),
        first_failure=row["first_failure"],
        replay=row["replay"],
        events=dict(row["events"]),
        settled_us=dict(row["settled_us"]),
        document=None if row["document"] is None else json.loads(row["document"]),
    )


def event_rows(number: int, result: Result) -> Iterator[Row]:
    """The events of a run, in their order, as rows of `events_schema`."""
    document: Any = result.document
    for place, event in enumerate(document["timeline"]):
        yield (number, result.file, result.seed, result.version, place, *event.values())
