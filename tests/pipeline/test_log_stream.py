"""`zookeeper_log` as a stream: a log that grows before a query that is stopped, and goes on from its checkpoint."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

import simzk.pipeline
from tests.pipeline.test_log_follower import ENTRIES, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.java]

STARTED_TOO_LATE = "Python worker failed to connect back"
"""Each life has a Python of its own plan its batches. Spark waits ten seconds for it to start, which nothing sets
(PythonWorkerFactory.createSimpleWorker), and ends the query if a busy machine takes longer."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    simzk.pipeline.register(spark)
    return spark


class Query:
    """A query that writes what it reads to Parquet, run from its checkpoint to what is there, again and again."""

    def __init__(self, session: SparkSession, folder: Path, desk: Path, **options: object) -> None:
        self._session, self._folder, self._desk, self._options = session, folder, desk, options

    def run(self) -> list[int]:
        """One life of the query; what its batches held, by their numbers of rows."""
        from pyspark.errors import StreamingQueryException

        reader = self._session.readStream.format("zookeeper_log")
        for name, value in self._options.items():
            reader = reader.option(name, str(value))
        writer = reader.load(str(self._folder)).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self._desk / "checkpoint"))
        while True:
            query = writer.trigger(availableNow=True).start(str(self._desk / "rows"))
            try:
                query.awaitTermination()
            except StreamingQueryException as failed:
                if STARTED_TOO_LATE in str(failed):
                    continue  # it goes on from its checkpoint, as whoever runs it would have it do
                raise
            return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    def rows(self) -> list[dict[str, object]]:
        """All that it wrote in its lives."""
        return in_order(self._session.read.parquet(str(self._desk / "rows")).toArrow().to_pylist())


def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda row: [str(row["file"]), row["offset"] or 0, row["step"] or 0])


def whole(session: SparkSession, folder: Path) -> list[dict[str, object]]:
    return in_order(session.read.format("zookeeper_log").load(str(folder)).toArrow().to_pylist())


def test_a_query_that_is_started_again_loses_and_repeats_nothing(session: SparkSession, tmp_path: Path) -> None:
    folder, desk = tmp_path / "version-2", tmp_path / "desk"
    folder.mkdir()
    query = Query(session, tmp_path, desk, splitBytes=700)
    assert query.run() == [], "the server has written nothing yet"
    write(folder, 0, 20, cut=7)  # it is about to write the last of them
    query.run()
    assert len({row["zxid"] for row in query.rows()}) == 19
    write(folder, 0, 25)  # it has, and others
    query.run()
    write(folder, 25, 40, cut=3)  # the next file, which is torn: the server is killed
    query.run()
    write(folder, 39, 60)  # and comes back
    # The batch was planned and written, and its life ended before that was noted: it is done again.
    query.run()
    last = max((desk / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    query.run()
    found = query.rows()
    assert found == whole(session, tmp_path)
    assert {row["zxid"] for row in found} - {None} == {zxid for zxid, _ in ENTRIES}
    assert [str(row["damage"]).partition(",")[0] for row in found if row["damage"]] == ["the file ends inside an entry"]
    assert query.run() == [], "nothing is new"


def test_files_removed_before_they_were_read_are_reported_or_fatal(session: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "version-2").mkdir(parents=True)
    first = write(folder / "version-2", 0, 10)
    lenient, strict = Query(session, folder, tmp_path / "a"), Query(session, folder, tmp_path / "b", mode="FAILFAST")
    for query in (lenient, strict):
        query.run()
    first.unlink()
    write(folder / "version-2", 20, 30)
    lenient.run()
    reported = [str(row["damage"]) for row in lenient.rows() if row["damage"]]
    gone = f"transactions 0x{ENTRIES[9][0] + 1:x} to 0x{ENTRIES[20][0] - 1:x} are gone"
    assert reported == [f"{gone}: their files were removed before they were read"]
    assert {row["zxid"] for row in lenient.rows()} - {None} == {zxid for zxid, _ in ENTRIES[:10] + ENTRIES[20:30]}
    with pytest.raises(Exception, match=re.escape(gone)):
        strict.run()
    shutil.rmtree(folder / "version-2")
    write(folder, 0, 3)
    lenient.run()  # another directory's log, or one that was cut: nothing of it is new
    assert len([row for row in lenient.rows() if row["damage"]]) == 1


def test_a_folder_that_is_none_is_named(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nowhere: it is no folder"):
        Query(session, tmp_path / "nowhere", tmp_path).run()
