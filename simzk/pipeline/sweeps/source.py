"""Spark data source `simzk_failures`: one row per failure set of a layout.

Options: the path of the layout (`load(path)`), `fail` (specifications separated by commas, default `brokers:1`),
`seed` (of drawn sets, default 0) and `numPartitions` (tasks). The tasks are slices of the numbered failure sets; the
rows do not depend on their number. A worker process loads the layout at its first task and keeps it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema

from simzk.errors import ConfigError
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import read_brokers, read_layout
from simzk.pipeline.data_source import number, slices
from simzk.pipeline.sweeps.outcomes import count_sets, failure_batches, failures_schema, parse_specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from simzk.partitions.failures.sets import AnyFailure

SETS_PER_TASK = 64
"""Default number of failure sets per task."""


class FailuresSource(DataSource):
    """`spark.read.format("simzk_failures")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "simzk_failures"

    def schema(self) -> StructType:
        """Return the columns of `simzk.pipeline.sweeps.outcomes.failures_schema`."""
        return from_arrow_schema(failures_schema())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the failure sets named by the options."""
        path = self.options.get("path")
        if path is None:
            raise ConfigError("simzk_failures reads a layout", right='load("layout.parquet")')
        tasks = number(self.options, "numPartitions", 1) if "numPartitions" in self.options else None
        specs = parse_specs(self.options.get("fail", "brokers:1"), number(self.options, "seed", 0, least=0))
        return FailuresReader(path, specs, tasks)


class FailuresReader(DataSourceReader):
    """Reader that computes one slice of the failure sets per task."""

    def __init__(self, path: str, specs: tuple[AnyFailure, ...], tasks: int | None) -> None:
        self.path = path
        self.specs = specs
        self.tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """Return slices of nearly equal size, one per task."""
        sets = count_sets(self.specs, read_brokers(self.path))
        tasks = min(sets, self.tasks or -(-sets // SETS_PER_TASK))
        return [InputPartition(bounds) for bounds in slices(sets, tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice."""
        return failure_batches(_what_if_of(self.path), self.specs, *partition.value)


_cached: dict[tuple[str, int, int], WhatIf] = {}
"""Layout cached in this worker process, by path, modification time and size."""


def _what_if_of(path: str) -> WhatIf:
    status = os.stat(path)
    key = (path, status.st_mtime_ns, status.st_size)
    if key not in _cached:
        _cached.clear()
        _cached[key] = WhatIf(read_layout(path))
    return _cached[key]
