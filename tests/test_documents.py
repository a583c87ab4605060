"""Files that would take the process's memory or stack end in one line that says why."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simzk
from simzk.documents import gunzip, read_json, read_toml
from simzk.errors import SimzkError
from simzk.kafka.client_requests.broker_faults import _whole
from simzk.kafka.observation import recording
from simzk.kafka.releases.config_values import value_problem
from simzk.kafka.zookeeper_mode.replay import transactions
from simzk.partitions.failures.sets import read_failures
from simzk.partitions.layouts import brokers_in_racks, generate_layout, read_layout
from simzk.partitions.plans.what_if import read_sizes as read_sizes_of
from simzk.pipeline.risks import rates_spec
from simzk.scenarios.source import Source
from simzk.serve.admin_server import control, faults
from simzk.simulation import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEEP = 100_000
LAYOUT = generate_layout(brokers_in_racks(1, 1), topics=1, partitions=1, replication_factor=1, seed=1)


def read_sizes(file: Path) -> object:
    return read_sizes_of(file, LAYOUT)


def read_rates(file: Path) -> object:
    return rates_spec(file, {}, {})


JSON = {
    "lists": "[" * DEEP,
    "objects": '{"a":' * DEEP,
    "a number": f'{{"brokers": {"9" * 5000}}}',
}
TOML = {
    "lists": "a = " + "[" * DEEP,
    "tables": "a = " + "{a=" * DEEP,
    "a key": ".".join(["a"] * DEEP) + " = 1",
    "a quoted key": '[x]\n"a".' + ".".join(["'b' . c"] * DEEP) + " = 1",
    "a header": f"[{'.'.join(['a'] * DEEP)}]",
    "a key inside": f"a = {{ {'.'.join(['a'] * DEEP)} = 1 }}",
    "a number": f"a = {'9' * 5000}",
}


@pytest.mark.parametrize("text", JSON.values(), ids=JSON)
@pytest.mark.parametrize(
    "read", [read_layout, read_failures, read_sizes, read_rates, recording.load, transactions.load]
)
def test_json(tmp_path: Path, read: Callable[[Path], object], text: str) -> None:
    file = tmp_path / "evil.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SimzkError, match=r"evil\.json") as failed:
        read(file)
    assert "set_int_max_str_digits" not in str(failed.value)


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
@pytest.mark.parametrize("read", [Source, read_rates])
def test_toml(tmp_path: Path, read: Callable[[Path], object], text: str) -> None:
    file = tmp_path / "evil.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SimzkError, match=r"evil\.toml") as failed:
        read(file)
    assert "set_int_max_str_digits" not in str(failed.value)


@pytest.mark.parametrize("load", [recording.load, transactions.load])
@pytest.mark.parametrize("cut", [0, 5, 20])
def test_a_packed_file_is_bounded_and_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Callable[[Path], object], cut: int
) -> None:
    monkeypatch.setattr(gunzip, "__defaults__", (10_000,))
    file = tmp_path / "evil.json.gz"
    file.write_bytes(gzip.compress(b" " * 1_000_000)[cut:])
    with pytest.raises(SimzkError, match=r"evil\.json\.gz.*(more than 10,000 bytes|no gzip)"):
        load(file)
    file.write_bytes(gzip.compress(b"[]")[:-3])
    with pytest.raises(SimzkError, match="no whole gzip file"):
        load(file)


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=3))
def test_gunzip_is_gzips(parts: list[bytes]) -> None:
    packed = b"".join(map(gzip.compress, parts))
    assert gunzip(packed) == gzip.decompress(packed)
    assert gunzip(packed + b"\0\0") == b"".join(parts)


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_other_json_is_read(value: object) -> None:
    assert read_json(json.dumps(value)) == value
    assert read_json(b'{"a": 1, "a": 2}', pairs_as_list=True) == [("a", 1), ("a", 2)]


def test_other_toml_is_read() -> None:
    key = ".".join(["a"] * 99)
    prose = " ".join(["Yes. No."] * 40) + "." * 300
    found = read_toml(f'{key} = 1\nwhy = """{prose}"""')
    assert found["why"] == prose


LONG_NUMBER = "9" * 5000
"""Longer than Python converts; a client may send one."""


@pytest.mark.parametrize("key", ["retention.ms", "segment.bytes", "min.cleanable.dirty.ratio"])
def test_a_long_number_is_no_setting(key: str) -> None:
    assert value_problem("topic", key, LONG_NUMBER, (3, 9, 0)) is not None


def test_a_long_number_is_no_parameter() -> None:
    with pytest.raises(SimzkError, match="the id of a broker"):
        control._broker({"broker": LONG_NUMBER})
    with pytest.raises(SimzkError, match="a whole number"):
        _whole({"n": LONG_NUMBER}, "n")


@pytest.mark.parametrize("text", ["1e308", "inf", "31622401"])
def test_a_duration_over_http_is_at_most_a_year(text: str) -> None:
    with pytest.raises(SimzkError, match="31,622,400"):
        control._seconds(text)
    with pytest.raises(SimzkError, match="31,622,400"):
        faults.seconds({"seconds": text})


@pytest.mark.parametrize("text", ["0x1" + "0" * 16, "9" * 4000, "-0x8000000000000001"])
def test_a_number_over_http_has_64_bits(text: str) -> None:
    with pytest.raises(SimzkError, match="a number of 64 bits"):
        faults.whole(text, "n")


def test_a_long_number_is_no_broker() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:
        monitor = Monitor(cluster.history, cluster.invariants, seed=1)
        client = cluster.zookeeper.client()
        client.start()
        client.create(f"/brokers/ids/{LONG_NUMBER}", b"{}")
        cluster.run_for(1)
        assert monitor.violations == []


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--servers", LONG_NUMBER),
        ("layout", "make", "--rf", LONG_NUMBER),
        ("risk", "layout.json", "--compare", f"copysets:{LONG_NUMBER}"),
        ("sweep", "layout.json", "--fail", f"brokers:{LONG_NUMBER}"),
    ],
    ids=lambda words: words[0],
)
def test_a_long_number_is_no_argument(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "layout.json").write_text('{"brokers":[],"partitions":[]}', encoding="utf-8")
    program = f"import sys; sys.argv = {['simzk', *words]!r}; from simzk.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 2, done.stderr.decode()
    assert b"Traceback" not in done.stderr
