"""Results of commands are found by kind, and rejected by name if they are incomplete."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simzk.errors import ConfigError
from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout
from simzk.pipeline.risks import plan_risk, rates_spec, run_risk
from simzk.pipeline.saved import KINDS, find_saved

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def risks(tmp_path: Path) -> Path:
    """Write the output of `simzk risk`."""
    layout = generate_layout(brokers_in_racks(6, 3), topics=2, partitions=12, replication_factor=2, seed=1)
    write_layout(layout, tmp_path / "layout.parquet")
    out = tmp_path / "a: [b] {c}*"
    run_risk(plan_risk(tmp_path / "layout.parquet", rates_spec(None, {}, {}), out, ["random"], samples=128))
    return out


def refused(directory: Path) -> str:
    with pytest.raises(ConfigError) as error:
        find_saved(directory)
    return str(error.value)


def test_what_is_whole_is_read(risks: Path) -> None:
    (saved,) = find_saved(risks)
    assert (saved.kind, saved.summary["brokers"]) == ("risk", 6)
    assert saved.table("topics.parquet").equals(pq.read_table(risks / "topics.parquet"))
    assert saved.table("topics.parquet", "topic").column_names == ["topic"]
    assert saved.head("topics.parquet", 3).num_rows == 3


def test_where_there_is_nothing_of_ours_it_is_said(tmp_path: Path) -> None:
    nowhere, file = tmp_path / "none", tmp_path / "file"
    file.touch()
    assert refused(nowhere) == f"{nowhere}: there is no such directory; expected a directory that a simzk command wrote"
    assert refused(file).startswith(f"{file}: is no directory; ")
    assert refused(tmp_path) == (
        f"{tmp_path}: the directory contains no results of simzk; "
        "expected what simzk timelines, simzk sweep, simzk risk, simzk run --out wrote"
    )


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_did_not_end_is_said_by_name(tmp_path: Path, kind: str) -> None:
    first = next(iter(KINDS[kind].tables))
    (tmp_path / first).mkdir() if "." not in first else (tmp_path / first).touch()
    assert refused(tmp_path) == (
        f"{tmp_path}: {KINDS[kind].command} did not finish: {KINDS[kind].last} is missing; "
        "expected a finished run in an empty directory"
    )


def test_a_table_that_is_gone_or_not_ended_is_said_by_name(risks: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(risks, gone)
    (gone / "topics.parquet").unlink()
    assert refused(gone) == f"{gone}: topics.parquet is missing, which simzk risk writes"
    half = tmp_path / "half"
    (half / "failures").mkdir(parents=True)
    (half / "sweep.json").write_text("{}")
    assert refused(half) == f"{half}: failures/_SUCCESS is missing, which simzk sweep writes"


def test_what_another_version_wrote_is_said_by_name(risks: Path) -> None:
    table = pq.read_table(risks / "assignments.parquet")
    pq.write_table(table.drop_columns(["scatter_width"]), risks / "assignments.parquet")
    assert refused(risks) == (
        f"{risks / 'assignments.parquet'}: has no column 'scatter_width': written by another version of simzk; "
        "expected what simzk risk of this version writes"
    )


def test_what_is_damaged_is_said_by_name(risks: Path) -> None:
    whole = (risks / "topics.parquet").read_bytes()
    (risks / "topics.parquet").write_bytes(whole[: len(whole) // 2])
    assert refused(risks).startswith(f"{risks / 'topics.parquet'}: cannot be read: ")
    (risks / "topics.parquet").write_bytes(whole)
    for text in ("{", "[]"):
        (risks / "risk.json").write_text(text)
        assert refused(risks).startswith(f"{risks / 'risk.json'}: ")


def test_tables_without_rows_have_no_columns_and_are_whole(tmp_path: Path) -> None:
    (tmp_path / "timelines.json").write_text(json.dumps({"rows": {}}))
    for name, columns in KINDS["timelines"].tables.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "_SUCCESS").touch()
        if name not in ("partitions", "leadership"):
            pq.write_table(pa.table({column: pa.nulls(0) for column in columns}), folder / "part-0.parquet")
    (saved,) = find_saved(tmp_path)
    assert saved.table("partitions", "from").num_rows == 0
