"""Requests of a simulated consumer equal the recorded ones of the real consumer, reads included."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.zookeeper_mode.consumer import white_list
from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.server import Batch

if TYPE_CHECKING:
    from simzk.kafka.cluster.zookeeper_host import NetworkLink

DATA = Path(__file__).parent / "data"
RELEASES = ("0.8.0", "0.8.1.1", "0.8.2.2")
TIMESTAMP = re.compile(r'("timestamp":")\d+')


def reported(request: object) -> str | None:
    """Return a request in the form of the recording; None: it is not recorded."""
    match request:
        case req.Create(path=path, data=data, flags=flags):
            text = None if data is None else TIMESTAMP.sub(r"\1-", data.decode())
            return f"create {path} {text} {'PE'[flags]}"
        case req.SetData(path=path, data=data):
            return f"setData {path} {(data or b'').decode()}"
        case req.Exists(path=path, watch=watch):
            return f"exists {path} {watch}"
        case req.GetData(path=path, watch=watch):
            return f"getData {path} {watch}"
        case req.GetChildren(path=path, watch=watch):
            return f"getChildren {path} {watch}"
        case req.CloseSession():
            return "closeSession"
        case req.Ping() | req.ConnectRequest():
            return None
    raise AssertionError(request)


def recorded(entry: dict[str, str | bool | None]) -> str:
    """Return a recorded request in the same form."""
    match entry["op"]:
        case "create":
            data = entry["data"]
            text = TIMESTAMP.sub(r"\1-", data) if isinstance(data, str) else None
            return f"create {entry['path']} {text} {entry['mode']}"
        case "setData":
            return f"setData {entry['path']} {entry['data']}"
        case "closeSession":
            return "closeSession"
        case op:
            return f"{op} {entry['path']} {entry.get('watch', False)}"


def threads(requests: list[str]) -> tuple[list[str], list[str]]:
    """Split off the requests of the leader finder, which runs concurrently once the owners are created."""
    start = 1 + max(index for index, request in enumerate(requests) if "/owners/" in request)
    finder = [request for request in requests[start:] if "/brokers/ids" in request]
    return finder, requests[:start] + [request for request in requests[start:] if "/brokers/ids" not in request]


@pytest.mark.parametrize("release", RELEASES)
def test_each_request_is_the_recorded_one(release: str) -> None:
    recording = json.loads((DATA / f"consumer-{release}.json").read_text())
    expected = [recorded(entry) for entry in recording["requests"]]
    consumer_id = (
        next(r for r in expected if r.startswith("create /consumers/g1/ids/")).split()[1].rpartition("/g1_")[2]
    )
    cluster = KafkaCluster(release, 3, seed=1)
    cluster.create_topic("t1", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.create_topic("t2", partitions=4, replication_factor=2)
    assert cluster.run_until_quiet()
    produced = cluster.produce("t1", 2, 3)
    cluster.run_for(1)
    assert produced.result().error == ErrorCode.NONE
    sent: list[str] = []
    closed: list[str] = []
    send = cluster.zookeeper_host.send

    def spy(link: NetworkLink, xid: int, request: req.ConnectRequest | req.Request | Batch) -> None:
        assert not isinstance(request, Batch)
        text = reported(request) if link.address == "consumer 1" else None
        if text is not None:
            sent.append(text)
        send(link, xid, request)

    def see(transaction: txns.Transaction) -> None:
        if isinstance(transaction.record, txns.CloseSessionTxn):
            closed.extend(transaction.record.paths)

    cluster.zookeeper_host.send = spy  # type: ignore[method-assign]
    cluster.server.on_transaction.append(see)
    config = {"auto.offset.reset": "smallest"}
    consumer = cluster.consumer("g1", white_list("t1"), consumer_id=consumer_id, version=release, config=config)
    cluster.run_for(1)
    consumer.close()
    cluster.run_for(1)
    assert threads(sent) == threads(expected)
    assert closed == recording["closed"]
    assert not consumer.alive
