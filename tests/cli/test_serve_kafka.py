"""`simzk serve --kafka`: simulated brokers on wall time, their ZooKeeper on TCP, and a client that joins in."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from simzk.partitions.layouts.files import brokers_path
from tests.cli.test_serve import refused, serving
from tests.waiting import Reports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.commands import Simzk

pytestmark = pytest.mark.slow

SCENARIO = """
title = "Three brokers for clients of another kind"
why = "A client over TCP plays the operator."

[cluster]
version = "{version}"
controller = 1
brokers = 3

[[step]]
at = "2s"
action = "create_topic"
topic = "orders"
assignment = [[1, 2, 3]]

[[step]]
within = "30s"
expect = "whole"
"""
# A reassignment by znode: KIP-455's own requests are for brokers only.
MOVE = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 3]}]}


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "three.toml"
    path.write_text(SCENARIO.format(version="2.4"))
    return str(path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def started(stack: ExitStack, port: int) -> KazooClient:
    client = KazooClient(f"127.0.0.1:{port}", timeout=30)
    stack.callback(client.close)
    client.start()
    stack.callback(client.stop)
    return client


def reported(client: KazooClient, path: str) -> Reports:
    """Yield the data of a znode after each change; None while it does not exist."""
    reports = Reports()
    client.DataWatch(path, lambda data, stat: reports(None if data is None else json.loads(data)))
    return reports


def test_an_operator_over_tcp_is_obeyed_by_the_simulated_controller(scenario: str, stack: ExitStack) -> None:
    process = stack.enter_context(serving("--kafka", scenario, "--port", "0"))
    client = started(stack, process.port)
    state = reported(client, "/brokers/topics/orders/partitions/0/state")
    state.until(lambda now: now is not None and sorted(now["isr"]) == [1, 2, 3])
    client.create("/admin/reassign_partitions", json.dumps(MOVE).encode())
    state.until(lambda now: now is not None and now["isr"] == [2, 3] and now["leader"] == 2)
    reported(client, "/admin/reassign_partitions").until(lambda now: now is None)
    topic, stat = client.get("/brokers/topics/orders")
    assert json.loads(topic)["partitions"] == {"0": [2, 3]}
    assert stat.version == 2
    status, said = process.end(signal.SIGTERM)
    assert status == 0
    assert "> create topic orders" in said
    assert "controller 1" in said


def test_a_broker_registered_by_hand_is_seen_and_its_session_ends_with_its_client(
    scenario: str, stack: ExitStack
) -> None:
    process = stack.enter_context(serving("--kafka", scenario, "--port", "0"))
    client = started(stack, process.port)
    reported(client, "/controller").until(lambda now: now is not None)
    stranger = started(stack, process.port)
    registration, _ = stranger.get("/brokers/ids/1")
    stranger.create("/brokers/ids/9", registration, ephemeral=True)
    stranger.stop()
    gone = Reports()
    client.ChildrenWatch("/brokers/ids", lambda children: gone("9" in children))
    gone.until_equal(False)
    _, said = process.end(signal.SIGTERM)
    assert "Traceback" not in said


def test_what_cannot_be_combined_is_refused(scenario: str, tmp_path: Path) -> None:
    for option in (("--servers", "3"), ("--data-dir", str(tmp_path / "data")), ("--zookeeper-version", "3.4")):
        said = refused("--port", "0", "--kafka", scenario, *option)
        assert option[0] in said
        assert "it cannot be combined with --kafka" in said


def test_a_scenario_that_cannot_be_read_is_said_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(SCENARIO.format(version="7.0"))
    assert str(path) in refused("--port", "0", "--kafka", str(path))
    assert str(tmp_path / "none.toml") in refused("--port", "0", "--kafka", str(tmp_path / "none.toml"))


def test_a_layout_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    torn, missing = tmp_path / "torn.parquet", tmp_path / "none.parquet"
    torn.write_bytes(b"PAR1 and nothing else")
    for path, why in ((torn, "cannot be read as Parquet"), (missing, "there is no such file")):
        assert f"{path}: {why}" in refused("--port", "0", "--kafka", str(path))


def test_a_layout_is_served_as_the_znodes_of_a_cluster(simzk: Simzk, tmp_path: Path, stack: ExitStack) -> None:
    """A layout that is generated, served and imported again is unchanged."""
    file, again = tmp_path / "made.parquet", tmp_path / "imported.parquet"
    made = ("--brokers", 30, "--racks", 3, "--topics", 9, "--partitions", 1000, "--min-insync-replicas", 2)
    assert simzk("layout", "make", *made, "--out", file).status == 0
    process = stack.enter_context(serving("--kafka", str(file), "--port", "0"))
    assert simzk("layout", "import", "--zookeeper", f"127.0.0.1:{process.port}", "--out", again).status == 0
    assert again.read_bytes() == file.read_bytes()
    assert brokers_path(again).read_bytes() == brokers_path(file).read_bytes()
    client = started(stack, process.port)
    state = reported(client, "/brokers/topics/topic-7/partitions/3/state")
    state.until(lambda now: now is not None and len(now["isr"]) == 3)
    client.set("/brokers/topics/topic-7/partitions/3/state", b'{"isr": []}')
    state.until(lambda now: now == {"isr": []})
