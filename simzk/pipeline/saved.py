"""Results that commands wrote into a directory: find their kinds, check that they are complete, read their tables.

A command writes its summary last (`sweep.json`, `timelines.json`, `risk.json`; a swarm its `outcomes.parquet`). Tables
without a summary are incomplete. The columns are checked by name, to distinguish another version from damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.documents import read_json
from simzk.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa
    from pyarrow import dataset


class ResultKind(NamedTuple):
    """Output of one command.

    Args:
        command: command line of the command.
        last: file written last.
        tables: tables with the columns that readers use.
    """

    command: str
    last: str
    tables: Mapping[str, tuple[str, ...]]


_FIGURES = ("offline", "offline_most", "under_min_isr", "under_min_isr_most")
_LOADS = ("leaders_before", "leaders_most")
_INTERVAL = ("_low", "_high")

KINDS: Mapping[str, ResultKind] = {
    "timelines": ResultKind(
        "simzk timelines",
        "timelines.json",
        {
            "partitions": (
                *("topic", "partition", "from", "until", "offline", "under_replicated", "under_min_isr", "from_zxid"),
            ),
            "totals": (
                *("topic", "partition", "observed_s", "offline_s", "under_min_isr_s", "under_replicated_s"),
                *("leader_moves", "isr_shrinks", "isr_expansions"),
            ),
            "leadership": ("from_broker", "to_broker"),
            "controllers": ("broker", "from", "until"),
            "brokers": ("broker", "from", "until"),
            "sessions": ("session", "from", "until", "end", "ephemerals"),
            "writers": ("session", "operation", "path", "count", "first", "last"),
        },
    ),
    "sweep": ResultKind(
        "simzk sweep",
        "sweep.json",
        {
            "failures": (
                *("fail", "brokers", "racks", "newly_offline", "lost", "under_min_isr", "under_replicated"),
                *("leaders_moved", "busiest_broker", "busiest_leaders"),
            ),
            "worst.parquet": ("failure_set", "topic", "partition", "state", "leader_before", "in_sync"),
            "topics.parquet": ("fail", "topic", "sets", *_FIGURES),
            "brokers.parquet": ("fail", "broker", *_LOADS),
            "racks.parquet": ("fail", "rack", *_LOADS),
            "estimates.parquet": (
                *("fail", "count", "population", "sets", "exact", "most"),
                *(f"{name}{end}" for name in ("mean", "share") for end in ("", *_INTERVAL)),
            ),
        },
    ),
    "risk": ResultKind(
        "simzk risk",
        "risk.json",
        {
            "assignments.parquet": (
                *("assignment", "replicas", "replicas_moved", "scatter_width", "replica_sets", "offline_minutes"),
                *("partition_minutes", "partitions_lost"),
                *(f"{name}{end}" for name in ("outage_probability", "loss_probability") for end in ("", *_INTERVAL)),
            ),
            "topics.parquet": ("assignment", "topic", "partitions", "outage_probability", "loss_probability"),
        },
    ),
    "swarm": ResultKind(
        "simzk run --out",
        "outcomes.parquet",
        {
            "runs.parquet": ("file", "seed", "kafka_version", "held", "first_failure", "replay"),
            "outcomes.parquet": (),
        },
    ),
}
"""Output by kind; a table without a suffix is a folder of files."""


class Saved(NamedTuple):
    """Result of one command in a directory.

    Args:
        kind: one of `KINDS`.
        directory: folder of the result.
        summary: content of the summary; empty if that is a table.
    """

    kind: str
    directory: Path
    summary: dict[str, Any]

    def table(self, name: str, *columns: str) -> pa.Table:
        """Read a table, or some of its columns.

        Raises:
            ConfigError: the table cannot be read.
        """
        import pyarrow as pa

        def read(found: dataset.Dataset) -> pa.Table:
            if not found.schema.names:
                return pa.table({column: pa.nulls(0) for column in columns})
            return found.to_table(columns=list(columns) or None)

        return self._read(name, read)

    def head(self, name: str, rows: int) -> pa.Table:
        """Read the first rows of a sorted table.

        Raises:
            ConfigError: the table cannot be read.
        """
        return self._read(name, lambda found: found.head(rows))

    def _read(self, name: str, act: Any) -> pa.Table:
        import pyarrow as pa

        place = self.directory / name
        try:
            return act(_dataset(place))
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(f"cannot be read: {str(error).splitlines()[0]}", where=str(place)) from None


def find_saved(directory: Path) -> list[Saved]:
    """Return the results in a directory, after checking that they are complete and of this version.

    Raises:
        ConfigError: there is no result, it is incomplete, or another version wrote it.
    """
    if not directory.is_dir():
        what = "is no directory" if directory.exists() else "there is no such directory"
        raise ConfigError(what, where=str(directory), right="a directory that a simzk command wrote")
    found = list(_found(directory))
    if not found:
        commands = ", ".join(kind.command for kind in KINDS.values())
        raise ConfigError(
            "the directory contains no results of simzk", where=str(directory), right=f"what {commands} wrote"
        )
    return found


def _found(directory: Path) -> Iterator[Saved]:
    tables_of = {name: {table for table in kind.tables if (directory / table).exists()} for name, kind in KINDS.items()}
    whole = [name for name, kind in KINDS.items() if (directory / kind.last).exists()]
    claimed = {table for name in whole for table in tables_of[name]}
    for name, kind in KINDS.items():
        if name in whole:
            yield _whole(directory, name)
        elif tables_of[name] - claimed:
            what = f"{kind.command} did not finish: {kind.last} is missing"
            raise ConfigError(what, where=str(directory), right="a finished run in an empty directory")


def _whole(directory: Path, name: str) -> Saved:
    kind = KINDS[name]
    saved = Saved(name, directory, _summary(directory / kind.last) if kind.last.endswith(".json") else {})
    for table, columns in kind.tables.items():
        place = directory / table
        is_folder = "." not in table
        if not place.exists() or (is_folder and not (place / "_SUCCESS").exists()):
            missing = f"{table}/_SUCCESS" if place.exists() else table
            raise ConfigError(f"{missing} is missing, which {kind.command} writes", where=str(directory))
        schema = saved._read(table, lambda found: found.schema)
        for column in columns:
            # An empty partitioned table has no files, and so no columns.
            if column not in schema.names and schema.names:
                raise ConfigError(
                    f"has no column {column!r}: written by another version of simzk",
                    where=str(place),
                    right=f"what {kind.command} of this version writes",
                )
    return saved


def _summary(file: Path) -> dict[str, Any]:
    try:
        found = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(file)) from None
    if not isinstance(found, dict):
        raise ConfigError("is no summary: not a JSON object", where=str(file))
    return found


def _dataset(place: Path) -> dataset.Dataset:
    import pyarrow as pa
    from pyarrow import dataset, fs

    # Files in the order of their names, as Spark wrote them; the day in their paths is ignored.
    parts = sorted(str(part) for part in place.rglob("part-*.parquet")) if place.is_dir() else [str(place)]
    if not parts:
        return dataset.dataset(pa.table({}))  # an empty partitioned table
    return dataset.dataset(parts, format="parquet", filesystem=fs.LocalFileSystem())
