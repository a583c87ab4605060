"""`simzk timelines`: what is checked before Spark starts, what is written, what is said of damage."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import adler32

import pyarrow.dataset as ds
import pytest

from simzk.cli.report import timelines_tables
from simzk.errors import ConfigError, SimzkError
from simzk.kafka.observation.recording import load
from simzk.kafka.zookeeper_mode.schemas.cluster import encode_cluster_id
from simzk.pipeline.saved import find_saved
from simzk.pipeline.timelines.run import (
    Findings,
    content_bytes,
    fits_here,
    plan_timelines,
    run_timelines,
    run_timelines_here,
)
from simzk.report.pages import results_page
from simzk.zookeeper.persistence import LOG_HEADER, TransactionLogReader, encode_log_entry
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.transactions import CreateTxn, DeleteTxn, SetDataTxn, Transaction
from tests.pipeline.plain_timelines import Timelines
from tests.pipeline.recorded_logs import write_logs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from simzk.zookeeper.transactions import Record

pytestmark = pytest.mark.slow

KAFKA = Path(__file__).parent / "data" / "kafka-3.6.2"
RECORDED = load(KAFKA / "dumps.json")


def test_what_cannot_be_is_said_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the path does not exist"):
        plan_timelines([str(tmp_path / "none")], tmp_path / "out")
    with pytest.raises(ConfigError, match="it contains no log"):
        plan_timelines([str(tmp_path)], tmp_path / "out")
    with pytest.raises(ConfigError, match="is no chroot"):
        plan_timelines([str(KAFKA)], tmp_path / "out", chroot="kafka")
    (tmp_path / "out" / "partitions").mkdir(parents=True)
    with pytest.raises(ConfigError, match="the directory already contains timelines"):
        plan_timelines([str(KAFKA)], tmp_path / "out")


def written_again(target: Path, *, first_zxid: int = 1, later_ms: int = 0, cluster_id: bytes | None = None) -> Path:
    """The transactions of the kept log from a zxid on, later, or of a cluster with another id."""
    with (KAFKA / "version-2" / "log.1").open("rb") as stream:
        entries = list(TransactionLogReader(stream))
    known = json.loads(RECORDED.tree(RECORDED.steps[-1])["/cluster/id"].data or "")["id"].encode()
    log = LOG_HEADER
    for transaction, _ in entries:
        if transaction.zxid >= first_zxid:
            entry = encode_log_entry(transaction._replace(time_ms=transaction.time_ms + later_ms), None)
            data = entry[12:-1].replace(known, cluster_id or known)
            log += struct.pack(">qi", adler32(data), len(data)) + data + b"B"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(log)
    return target


Compute = Callable[..., Findings]


@pytest.fixture(params=[pytest.param("Spark", marks=pytest.mark.java), "here"])
def compute(request: pytest.FixtureRequest) -> Compute:
    """Compute a plan on Spark, or in this process."""
    if request.param == "here":
        return run_timelines_here
    return partial(run_timelines, request.getfixturevalue("spark"))


def test_unusable_input_is_reported_and_skipped(compute: Compute, tmp_path: Path) -> None:
    # What is a pattern or an escape to Hadoop is a name here.
    data, out = tmp_path / "data", tmp_path / "out of [1] {x,y} 100% *"
    version_2 = data / "version-2"
    shutil.copytree(KAFKA, data)
    log = version_2 / "log.1"
    log.write_bytes(log.read_bytes().rstrip(b"\0")[:-5])
    (version_2 / "log.900").write_bytes(b"#!/bin/sh\necho this is no log\n")
    (version_2 / "log.901").write_bytes(LOG_HEADER[:7] + b"\3" + LOG_HEADER[8:] + bytes(99))
    (version_2 / "log.902").write_bytes(b"")
    (version_2 / "log.903").mkdir()
    packed = gzip.compress((version_2 / "snapshot.0").read_bytes())
    (version_2 / "snapshot.904.gz").write_bytes(packed[: len(packed) // 2])
    written_again(tmp_path / "other" / "version-2" / "log.1", later_ms=1)
    written_again(tmp_path / "third" / "log.1", cluster_id=b"another-cluster-ident0")
    (tmp_path / "no_logs").mkdir()
    # What another server of the same ensemble kept is welcome.
    written_again(tmp_path / "member" / "log.100", first_zxid=0x100)
    folders = [str(data), *(str(tmp_path / name) for name in ("other", "third", "no_logs", "member", "nowhere"))]
    said: list[str] = []
    found = compute(plan_timelines(folders, out), lambda line, _: said.append(line))
    assert said[0] == "reading the logs"
    reported = {
        Path(damage["file"]).name if "log." in damage["file"] else damage["file"]: damage["damage"]
        for damage in found.damages
    }
    assert {name: text.partition(",")[0] for name, text in reported.items()} == {
        str(tmp_path / "no_logs"): "it contains no log; expected version-2/log.<zxid>",
        str(tmp_path / "nowhere"): "the path does not exist; expected a data directory of ZooKeeper",
        str(
            tmp_path / "other" / "version-2"
        ): f"it is of another cluster than {version_2}: 455 zxids have another time there",
        str(tmp_path / "third"): f"it is of another cluster than {version_2}: their ids are another-cluster-ident0",
        "log.1": "the file ends inside an entry",
        "log.900": "the file does not start with the header of its kind",
        "log.901": "the file is of another format version",
        "log.902": "the file is empty",
        "log.903": "it contains no log; expected version-2/log.<zxid>",
        str(version_2 / "snapshot.904.gz"): "the file ends inside an entry",
    }
    assert json.loads((out / "timelines.json").read_text())["damages"] == found.damages
    order = ("offline_s", "under_min_isr_s", "under_replicated_s", "leader_moves")
    totals = ds.dataset(out / "totals", format="parquet").to_table().to_pylist()
    totals.sort(key=lambda row: ([-row[name] for name in order], row["topic"], row["partition"]))
    assert found.worst == totals[:10]
    for name, count in found.rows.items():
        assert ds.dataset(out / name, format="parquet", partitioning="hive").count_rows() == count > 0
    # The rest tells all that the kept log tells: its last transaction is with the other member.
    with (KAFKA / "version-2" / "log.1").open("rb") as stream:
        plain = Timelines(entry.transaction for entry in TransactionLogReader(stream))
    assert (found.rows["totals"], found.rows["sessions"]) == (len(plain.partitions), len(plain.sessions))
    assert found.rows["leadership"] == sum(len(plain.moves(key, 0)) for key in plain.partitions)
    assert found.rows["brokers"] + found.rows["controllers"] == sum(map(len, plain.owners.values()))


@pytest.mark.parametrize("is_told", [True, False])
def test_a_cluster_made_anew_on_the_same_zookeeper_is_no_other(compute: Compute, tmp_path: Path, is_told: bool) -> None:
    with (KAFKA / "version-2" / "log.1").open("rb") as stream:
        *_, last = [entry.transaction for entry in TransactionLogReader(stream)]
    records: list[Record] = [
        *([DeleteTxn("/cluster/id")] if is_told else []),
        CreateTxn("/cluster/id", encode_cluster_id("another-cluster-ident0"), OPEN_ACL, False, 9),
    ]
    later = [
        last._replace(zxid=last.zxid + number, time_ms=last.time_ms + number, record=record)
        for number, record in enumerate(records, 1)
    ]
    data = tmp_path / "data"
    shutil.copytree(KAFKA, data)
    log = data / "version-2" / f"log.{later[0].zxid:x}"
    log.write_bytes(LOG_HEADER + b"".join(encode_log_entry(one, None) for one in later))
    found = compute(plan_timelines([str(data)], tmp_path / "out"))
    page = results_page([timelines_tables(find_saved(tmp_path / "out")[0])])
    if is_told:
        assert found.damages == []
        assert "could not be used" not in page
    else:  # nobody saw the first one go
        (reported,) = found.damages
        assert reported["file"] == str(log)
        assert "their ids are another-cluster-ident0, " in reported["damage"]
        assert f"1 times something could not be used, first {log}: it is of another cluster than" in page


def test_what_cannot_be_used_is_fatal_where_it_is_to_be(compute: Compute, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: the path does not exist"):
        plan_timelines([str(KAFKA), str(tmp_path / "nowhere")], tmp_path / "strict", strict=True)
    other = written_again(tmp_path / "other" / "log.1", later_ms=1)
    mixed = plan_timelines([str(KAFKA), str(other.parent)], tmp_path / "strict", strict=True)
    with pytest.raises(
        ConfigError, match=r"other: it is of another cluster than .*; expected the files of one cluster"
    ):
        compute(mixed)
    other.write_bytes(other.read_bytes()[:-5])
    strict = plan_timelines([str(other)], tmp_path / "strict", strict=True)
    with pytest.raises(SimzkError, match="the file ends inside an entry"):
        compute(strict)
    assert not (tmp_path / "strict").exists()


def in_rows(folder: Path) -> dict[str, tuple[pa.Schema, list[str]]]:
    """The schema and the rows of each table, in any order; sums of seconds to the millisecond, as the log counts."""
    found = {}
    for place in folder.iterdir():
        if place.is_dir():
            table = ds.dataset(place, format="parquet", partitioning="hive").to_table()
            names = sorted(table.schema.names)
            rows = [
                repr([round(row[name], 3) if isinstance(row[name], float) else row[name] for name in names])
                for row in table.to_pylist()
            ]
            found[place.name] = (table.schema.remove_metadata(), sorted(rows))
    return found


GOOD_STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
ODD_STATES = [
    *(b"", b" ", b"no json", b"{}", b"[1]", b"null", GOOD_STATE[:-1], GOOD_STATE + b" and more"),
    *(
        b'{"leader":"1","isr":[1]}',
        b'{"leader":1,"isr":"x"}',
        b'{"leader":1.5,"isr":[1]}',
        b'{"leader":2,"isr":[1,"x"]}',
    ),
    *(
        b'{"leader":2147483648,"isr":[1]}',
        b'{"leader":true,"isr":[1]}',
        b'{"leader":2,"isr":null}',
        b'{"leader":2,"isr":[2]}',
    ),
]
ODD_TOPICS = [
    b'{"partitions":{"0":[1],"x":[2]}}',
    b'{"partitions":{"0":["a"],"1":[1]}}',
    b'{"partitions":[1]}',
    b"x",
    b"",
]
ODD_CONFIGS = [
    b'{"config":{"min.insync.replicas":"x"}}',
    b'{"config":{"min.insync.replicas":"2"}}',
    b'{"config":{}}',
    b"x",
]
ODD_CONTROLLERS = [b'{"brokerid":7}', b"x", b'{"brokerid":"y"}', b"{}", b"6"]


def odd_directory(folder: Path) -> Path:
    """A log with texts that Kafka does not write, in the middle of valid ones."""
    target = folder / "version-2" / "log.1"
    target.parent.mkdir(parents=True)
    topic, state, config = "/brokers/topics/t", "/brokers/topics/t/partitions/0/state", "/config/topics/t"
    records: list[Record] = [CreateTxn(topic, b'{"partitions":{"0":[1,2]}}', OPEN_ACL, False, 1)]
    records += [CreateTxn(state, GOOD_STATE, OPEN_ACL, False, 1), CreateTxn(config, b"{}", OPEN_ACL, False, 1)]
    records += [CreateTxn("/controller", b"5", OPEN_ACL, True, 1)]
    for path, texts, good in (
        (state, ODD_STATES, GOOD_STATE),
        (topic, ODD_TOPICS, b'{"partitions":{"0":[1,2]}}'),
        (config, ODD_CONFIGS, b'{"config":{"min.insync.replicas":"1"}}'),
    ):
        for text in texts:
            records += [SetDataTxn(path, text, 1), SetDataTxn(path, good, 2)]
    for text in ODD_CONTROLLERS:
        records += [DeleteTxn("/controller"), CreateTxn("/controller", text, OPEN_ACL, True, 1)]
    entries = [Transaction(5, 1, zxid, 1_600_000_000_000 + zxid, one) for zxid, one in enumerate(records, 1)]
    target.write_bytes(LOG_HEADER + b"".join(encode_log_entry(entry, None) for entry in entries))
    return folder


@pytest.mark.java
@pytest.mark.parametrize("kind", ["recorded", "all releases", "odd texts"])
def test_spark_and_this_process_write_the_same_tables(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    folder = KAFKA
    if kind == "all releases":
        folder = tmp_path / "releases"
        folder.mkdir()
        write_logs(folder)
    elif kind == "odd texts":
        folder = odd_directory(tmp_path / "odd")
    here = run_timelines_here(plan_timelines([str(folder)], tmp_path / "here"))
    on_spark = run_timelines(spark, plan_timelines([str(folder)], tmp_path / "spark"))
    assert here.rows == on_spark.rows
    assert (here.transactions, here.damages) == (on_spark.transactions, on_spark.damages)
    one, other = in_rows(tmp_path / "here"), in_rows(tmp_path / "spark")
    for name, (schema, rows) in one.items():
        assert rows == other[name][1], name
        assert schema == other[name][0] or not rows, name
    assert all(rows for _, rows in one.values()) or kind == "odd texts"


def test_a_small_log_is_small_whatever_its_server_has_allocated(tmp_path: Path) -> None:
    log = written_again(tmp_path / "version-2" / "log.1")
    content = log.stat().st_size
    with log.open("ab") as stream:
        stream.truncate(64 << 20)  # as ZooKeeper allocates it
    assert content <= content_bytes(log) < content + (1 << 16)
    assert fits_here(plan_timelines([str(tmp_path)], tmp_path / "out"))
    log.write_bytes(b"x" * ((32 << 20) + 1))
    assert content_bytes(log) == (32 << 20) + 1
    assert not fits_here(plan_timelines([str(tmp_path)], tmp_path / "out"))


def test_below_a_chroot_that_is_not_there_nothing_happened(compute: Compute, tmp_path: Path) -> None:
    found = compute(plan_timelines([str(KAFKA)], tmp_path / "out", chroot="/kafka"))
    assert (found.rows["partitions"], found.rows["brokers"], found.worst) == (0, 0, [])
    assert found.transactions > 0
    page = results_page([timelines_tables(find_saved(tmp_path / "out")[0])])
    assert "No partition was seen." in page
    assert "No leader changed." in page
