"""Recorded requests: `requests` of a server in memory, on TCP, and of an ensemble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import BadVersionError, ConnectionLoss, NoNodeError, RolledBackError

import simzk
from simzk.errors import SimzkError
from simzk.serve.request_recorder import (
    LARGE_BYTES,
    Answered,
    RecordedNotice,
    RequestRecorder,
    data_bytes_of,
    public_form,
)
from simzk.zookeeper.replies import EventType, Reply, WatchedEvent
from simzk.zookeeper.requests import OPEN_ACL, Create, GetData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kazoo.client import KazooClient

    from simzk.serve.verbs import TestServer

SERVERS: dict[str, Callable[[], TestServer]] = {
    "memory": simzk.ZooKeeper,
    "tcp": simzk.ZooKeeperServer,
    "ensemble": lambda: simzk.ZooKeeperServer(servers=3),
}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    with SERVERS[request.param]() as made:
        yield made


def started(server: TestServer, **options: object) -> KazooClient:
    client = server.client(**options)
    client.start()
    return client


def test_requests_with_their_results(server: TestServer) -> None:
    client = started(server)
    client.create("/a", b"1")
    with pytest.raises(BadVersionError):
        client.set("/a", b"2", version=7)
    client.get("/a")
    sent = server.requests()
    assert [(one.op, one.path, one.data, one.error, one.answered) for one in sent] == [
        ("create", "/a", b"1", None, True),
        ("set", "/a", b"2", BadVersionError, True),
        ("get", "/a", None, None, True),
    ]
    assert {one.client for one in sent} == {client}
    assert {one.session_id for one in sent} == {client.client_id[0]}
    assert sent[0].zxid == client.get("/a")[1].czxid


def test_requests_are_chosen_by_client_path_and_operation(server: TestServer) -> None:
    first = started(server)
    first.create("/app")
    second = started(server, hosts="any/app")
    first.create("/a")
    second.create("/a")
    first.exists("/a")
    assert [one.op for one in server.requests(client=first)] == ["create", "create", "exists"]
    assert [one.op for one in server.requests(client=second.client_id[0])] == ["exists", "create"]
    assert [one.client for one in server.requests(path="/app/a")] == [second]
    assert [one.op for one in server.requests(path="/a")] == ["create", "exists"]
    assert server.requests(op="delete") == []


def test_a_client_keeps_its_requests_over_sessions(server: TestServer) -> None:
    client = started(server)
    client.create("/a")
    before = client.client_id[0]
    server.expire(client)
    client.retry(client.create, "/b")
    assert [one.path for one in server.requests(client=client, op="create") if one.error is None] == ["/a", "/b"]
    assert server.requests(client=before, op="create")[0].path == "/a"
    whats = [one.what for one in server.recorder.records() if isinstance(one, RecordedNotice)]
    assert whats == ["session opened", "session expired", "session opened"]


def test_a_failed_transaction_has_the_error_of_its_operation(server: TestServer) -> None:
    client = started(server)
    transaction = client.transaction()
    transaction.create("/a")
    transaction.delete("/none")
    transaction.create("/b")
    rolled_back, failed, _ = transaction.commit()
    assert isinstance(rolled_back, RolledBackError)
    assert isinstance(failed, NoNodeError)
    (sent,) = server.requests(path="/none")
    assert (sent.op, sent.paths, sent.error) == ("transaction", ("/a", "/none", "/b"), NoNodeError)


def test_a_request_whose_reply_is_lost_has_no_result(server: TestServer) -> None:
    client = started(server)
    server.faults.drop_reply("create", path="/a")
    with pytest.raises(ConnectionLoss):
        client.create("/a")
    assert [(one.path, one.answered, one.error, one.zxid) for one in server.requests(op="create")] == [
        ("/a", False, None, 0)
    ]


def test_pings_and_the_end_of_sessions_are_left_out_unless_asked_for(server: TestServer) -> None:
    client = started(server)
    client.stop()
    assert server.requests() == []
    assert [one.op for one in server.requests(op="close")] == ["close"]


def test_a_client_of_a_simulated_cluster() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:
        client = started(cluster.zookeeper)
        client.get_children("/brokers/ids")
        (sent,) = cluster.zookeeper.requests(client=client)
        assert (sent.op, sent.path, sent.at_ms) == ("get_children", "/brokers/ids", cluster.now_ms)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"op": "getData"}, "unknown operation 'getData'; did you mean 'get'?"),
        ({"path": "a"}, "'a' is not the path of a znode"),
    ],
)
def test_a_wrong_question_is_refused(asked: dict[str, str], message: str) -> None:
    with simzk.ZooKeeper() as server, pytest.raises(SimzkError) as refused:
        server.requests(**asked)
    assert message in str(refused.value)


def test_the_client_of_another_server_is_refused() -> None:
    with simzk.ZooKeeper() as one, simzk.ZooKeeper() as other:
        client = other.client()
        with pytest.raises(SimzkError, match="another server"):
            one.requests(client=client)


@given(st.lists(st.one_of(st.integers(0, 4), st.none()), max_size=60), st.integers(1, 10), st.integers(5, 20))
def test_memory_is_bounded_and_the_newest_records_are_stored(
    sizes: list[int | None], records_max: int, large_max: int
) -> None:
    """Sizes in units of a large request. What is stored is the end of what was recorded."""
    recorder = RequestRecorder(records_max, large_max * LARGE_BYTES)
    reply = Reply(1, 1, 0, None)
    for number, size in enumerate(sizes):
        if size is None:
            recorder.note_event(0, 1, WatchedEvent(EventType.NODE_CREATED, str(number), 1))
        elif size == 0:
            recorder.add(0, 1, GetData(str(number), False), reply)
        else:
            recorder.add(0, 1, Create(str(number), bytes(size * LARGE_BYTES + 1), OPEN_ACL, 0), reply)
    records = recorder.records()
    paths = [one.path if isinstance(one, RecordedNotice) else getattr(one.request, "path", "") for one in records]
    assert paths == [str(number) for number in range(len(sizes) - len(records), len(sizes))]
    assert len(records) >= min(1, len(sizes))
    assert len(records) <= records_max
    total = sum(data_bytes_of(one.request) for one in recorder.exchanges())
    assert total <= large_max * LARGE_BYTES
    if all(size is None or size == 0 for size in sizes):
        assert len(records) == min(records_max, len(sizes))


def test_records_since_a_mark() -> None:
    recorder = RequestRecorder(3)
    recorder.begin(0, 1, GetData("/before", False))
    mark = recorder.mark()
    recorder.begin(0, 1, GetData("/a", False))
    assert [getattr(one.request, "path", "") for one in recorder.exchanges(mark)] == ["/a"]
    for path in ("/b", "/c", "/d"):
        recorder.begin(0, 1, GetData(path, False))
    assert [getattr(one.request, "path", "") for one in recorder.exchanges(mark)] == ["/b", "/c", "/d"]


def test_an_error_that_kazoo_has_no_class_for_is_its_base_class() -> None:
    exchange = Answered(0, 1, GetData("/a", False), -9999, 1)
    assert public_form(exchange, None).error is not None
