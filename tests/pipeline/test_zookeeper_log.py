"""`zookeeper_log` and `zookeeper_snapshot` on Spark: what ZooKeeper's own tools print of the same files, row by row."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import simzk.pipeline
from simzk.errors import ConfigError
from simzk.pipeline.logs.files import find_files
from simzk.pipeline.logs.sources import LogReader, SnapshotFilesReader
from simzk.pipeline.logs.tables import OPERATIONS
from simzk.zookeeper.persistence.files import LOG, SNAPSHOT
from tests.pipeline import toolkit_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[1]
# Every kind of transaction, small; and real brokers.
REAL = ROOT / "zookeeper" / "persistence" / "data" / "real"
KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"
LOGS = [(folder, path.name) for folder in (REAL, KAFKA) for path in sorted((folder / "version-2").glob("log.*"))]
SNAPSHOTS = sorted(path.name for path in (REAL / "version-2").glob("snapshot.*"))
LINE = re.compile(r"^(\d+/\d+/\d+, [^\n]* zxid 0x\w+) (.*?)\n(?=\d+/\d+/\d+, |EOF)", re.M | re.S)

pytestmark = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    simzk.pipeline.register(spark)
    return spark


def load(session: SparkSession, path: Path | str, **options: object) -> DataFrame:
    reader = session.read.format("zookeeper_log")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(path))


def rows(frame: DataFrame) -> list[dict[str, object]]:
    found = frame.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["file"], row["offset"], row["step"] or 0))


def unsigned(number: object, bits: int) -> int:
    assert isinstance(number, int)
    return number % (1 << bits)


@pytest.mark.parametrize(("folder", "name"), LOGS, ids=lambda value: getattr(value, "name", value))
def test_each_transaction_that_the_toolkit_prints_is_read_and_no_other(
    session: SparkSession, folder: Path, name: str
) -> None:
    found: dict[object, list[dict[str, object]]] = {}
    for row in rows(load(session, folder / "version-2" / name)):
        assert row["damage"] is None
        found.setdefault(row["zxid"], []).append(row)
    lines = LINE.findall((folder / "printed" / f"{name}.txt").read_bytes().decode())
    assert [header for header, _ in lines] == [toolkit_text.header(steps[0]) for steps in found.values()]
    for (_, what), steps in zip(lines, found.values(), strict=True):
        assert toolkit_text.one_mark(what.rstrip()) == toolkit_text.one_mark(toolkit_text.what(steps).rstrip())
        of_a_multi = what.startswith("multi ") and len(what.strip()) > len("multi")
        assert [row["step"] for row in steps] == (list(range(len(steps))) if of_a_multi else [None])
        failed = what.startswith("error ") or (of_a_multi and "error:" in what)
        assert {row["applied"] for row in steps} == {not failed}


def test_every_kind_of_transaction_is_among_them(session: SparkSession) -> None:
    assert {row["operation"] for row in rows(load(session, REAL))} == set(OPERATIONS)


def test_the_rows_do_not_depend_on_the_splits(session: SparkSession) -> None:
    whole = load(session, KAFKA)
    for split_bytes in (1_000, 7_777):
        frame = load(session, KAFKA, splitBytes=split_bytes)
        assert frame.rdd.getNumPartitions() == -(-58816 // split_bytes)
        assert rows(frame) == rows(whole)


def test_filters_give_what_filtering_gives(session: SparkSession) -> None:
    everything = rows(load(session, REAL))
    at = everything[len(everything) // 2]["time"]
    for condition, holds in (
        ("operation = 'setData'", lambda row: row["operation"] == "setData"),
        ("operation in ('create', 'error')", lambda row: row["operation"] in ("create", "error")),
        (
            "zxid >= 0x28 and zxid < 0x40".replace("0x28", "40").replace("0x40", "64"),
            lambda row: 40 <= row["zxid"] < 64,
        ),
        ("zxid = 48", lambda row: row["zxid"] == 48),
        ("operation = 'create' and operation = 'delete'", lambda row: False),
        (f"time > timestamp'{at}'", lambda row: row["time"] > at),
        (f"time >= timestamp'{at}' and zxid < 60", lambda row: row["time"] >= at and row["zxid"] < 60),
        (f"time < timestamp'{at}'", lambda row: row["time"] < at),
        (
            f"time <= timestamp'{at}' and operation = 'create'",
            lambda row: row["time"] <= at and row["operation"] == "create",
        ),
        (f"time = timestamp'{at}'", lambda row: row["time"] == at),
    ):
        assert rows(load(session, REAL).where(condition)) == [row for row in everything if holds(row)]


def test_times_and_zxids_are_filtered_where_rows_are_made() -> None:
    from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, LessThan

    file = find_files(LOG, str(REAL / "version-2" / "log.1"))
    whole = LogReader(file, "PERMISSIVE", ["zxid", "time"], 1 << 20)
    (stretch,) = whole.partitions()
    everything = [row for batch in whole.read(stretch) for row in batch.to_pylist()]
    after, before = everything[3]["time"], everything[-4]["time"]
    given: list[list[Filter]] = [
        [GreaterThan(("time",), after), LessThan(("time",), before)],
        [EqualTo(("zxid",), everything[5]["zxid"])],
    ]
    for filters in given:
        reader = LogReader(file, "PERMISSIVE", ["zxid", "time"], 1 << 20)
        assert list(reader.pushFilters(filters)) == filters  # Spark applies them, too
        some = [row for batch in reader.read(stretch) for row in batch.to_pylist()]
        assert 0 < len(some) < len(everything)
        kept = [
            row
            for row in everything
            if row["zxid"] == everything[5]["zxid"] or (len(filters) == 2 and after <= row["time"] <= before)
        ]
        assert some == kept


def test_what_is_there_is_a_name_and_no_pattern(tmp_path: Path) -> None:
    names = ["data [1]", "data 1", "what*"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.1").write_bytes(b"")

    def folders(text: str) -> list[str]:
        return [file.path.parent.name for file in find_files(LOG, str(tmp_path / text)).files]

    assert [folders(name) for name in names] == [[name] for name in names]
    assert folders("data*") == ["data 1", "data [1]"]


def test_an_unreadable_file_is_reported_once_however_it_is_split(tmp_path: Path) -> None:
    log, snapshot = tmp_path / "log.1", tmp_path / "snapshot.1"
    log.write_bytes(bytes(2000))
    snapshot.write_bytes(b"")
    reader = LogReader(find_files(LOG, str(log)), "PERMISSIVE", ["file", "damage"], 1000)
    snapshots = SnapshotFilesReader(find_files(SNAPSHOT, str(snapshot)), "PERMISSIVE", ["file", "damage"])
    stretches, whole = reader.partitions(), snapshots.partitions()
    assert (len(stretches), len(whole)) == (2, 1)
    log.unlink()
    snapshot.unlink()
    rows = [row for stretch in stretches for batch in reader.read(stretch) for row in batch.to_pylist()]
    rows += [row for stretch in whole for batch in snapshots.read(stretch) for row in batch.to_pylist()]
    why = "it cannot be read: No such file or directory"
    assert rows == [{"file": str(log), "damage": why}, {"file": str(snapshot), "damage": why}]


@pytest.mark.parametrize(
    ("mode", "message"),
    [("PERMISSIVE", ["it contains no log; expected version-2/log.<zxid>"]), ("DROPMALFORMED", []), ("FAILFAST", None)],
)
def test_one_of_several_paths_that_leads_to_nothing_is_what_is_damaged(
    tmp_path: Path, mode: str, message: list[str] | None
) -> None:
    reader = LogReader(find_files(LOG, f"{REAL},{tmp_path}"), mode, ["file", "damage"], 1 << 20)
    missing, *rest = reader.partitions()
    assert len(rest) == 5
    if message is None:
        with pytest.raises(ConfigError, match=f"{tmp_path}: it contains no log"):
            list(reader.read(missing))
    else:
        rows = [row for batch in reader.read(missing) for row in batch.to_pylist()]
        assert rows == [{"file": str(tmp_path), "damage": why} for why in message]


def test_of_the_columns_those_are_made_that_a_schema_names(session: SparkSession) -> None:
    found = session.read.schema("path string, zxid bigint").format("zookeeper_log").load(str(REAL)).toArrow()
    assert found.column_names == ["path", "zxid"]
    whole = load(session, REAL).select("path", "zxid").toArrow()
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, whole.to_pylist()))
    for schema, message in (
        ("zxid int", "zxid: it is no int; expected bigint"),
        ("xid int", "there is no column xid; expected file,"),
    ):
        with pytest.raises(Exception, match=re.escape(message)):
            session.read.schema(schema).format("zookeeper_log").load(str(REAL)).collect()


def test_what_is_damaged_is_a_row_or_left_out_or_fatal(session: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "version-2"
    shutil.copytree(KAFKA / "version-2", folder)
    log = folder / "log.1"
    data = bytearray(log.read_bytes().rstrip(b"\0"))
    data[20_000] ^= 1
    log.write_bytes(bytes(data[:-7]))
    found = rows(load(session, tmp_path))
    damages = [row for row in found if row["damage"] is not None]
    assert [str(row["damage"]).partition(",")[0] for row in damages] == [
        "the checksum is wrong",
        "the file ends inside an entry",
    ]
    whole = rows(load(session, KAFKA))
    lost = {row["zxid"] for row in whole} - {row["zxid"] for row in found}
    assert len(lost) == 2
    assert rows(load(session, tmp_path, splitBytes=5_000)) == found
    dropped = rows(load(session, tmp_path, mode="dropmalformed"))
    assert dropped == [row for row in found if row["damage"] is None]
    with pytest.raises(Exception, match="the checksum is wrong, at byte"):
        load(session, tmp_path, mode="FAILFAST").collect()


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_is_what_the_formatter_prints(session: SparkSession, name: str) -> None:
    text = (REAL / "printed" / f"{name}.txt").read_bytes().decode()
    nodes = text.partition("Session Details")[0].split("----\n")[1:-1]
    found = session.read.format("zookeeper_snapshot").load(str(REAL / "version-2" / name)).toArrow().to_pylist()
    assert len(found) == len(nodes)
    for row, node in zip(found, nodes, strict=True):
        path, *lines = node.splitlines()
        fields = dict(line.strip().split(" =", 1) for line in lines if " =" in line)
        assert row["path"] == path
        numbers = {"cZxid": "czxid", "mZxid": "mzxid", "pZxid": "pzxid", "ephemeralOwner": "ephemeral_owner"}
        for field, column in numbers.items():
            assert unsigned(row[column], 64) == int(fields[field], 16)
        for field, column in (("cversion", "cversion"), ("dataVersion", "version"), ("aclVersion", "aversion")):
            assert row[column] == int(fields[field])
        assert row["damage"] is None


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "nowhere: the path does not exist"),
        ("{empty}", "it contains no log; expected version-2/log.<zxid>"),
        ("{empty}/log.*", "no file matches"),
    ],
)
def test_what_is_not_there_is_said_by_name(session: SparkSession, tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(Exception, match=re.escape(message)):
        load(session, path.format(empty=tmp_path)).collect()


def test_a_file_that_is_no_log_is_a_damage(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(b"this is a text, not a log\n")
    (row,) = rows(load(session, tmp_path / "log.1"))
    assert str(row["damage"]).startswith("the file does not start with the header of its kind")
