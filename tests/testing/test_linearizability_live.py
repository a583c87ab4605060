"""Histories of kazoo clients in threads, over TCP, with drops: linearizable, and noticed where the server lies."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.exceptions import BadVersionError, ConnectionLoss

import simzk
from simzk.testing.linearizability import (
    OUTCOME_UNKNOWN,
    CompareAndSet,
    Get,
    HistoryRecorder,
    RecordingClient,
    RegisterCall,
    RegisterModel,
    RegisterResult,
    Set,
    TreeCall,
    TreeModel,
    TreeResult,
    find_violation,
)
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.transactions import CloseSessionTxn
from tests.waiting import PATIENCE_S, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kazoo.client import KazooClient

    from simzk.zookeeper.transactions import Transaction

CLIENTS = 4
CALLS = 16
NODES = ("/a", "/b", "/b/c")
START = {"/a": b"", "/b": b"", "/b/c": b""}


class Live:
    """A server with some nodes, and a history."""

    def __init__(self, server: simzk.ZooKeeperServer) -> None:
        self.server = server
        self.recorder = HistoryRecorder[TreeCall, TreeResult]()
        first = self.start("0")
        for path in START:
            first.client.create(path)
        self.clients = [first, *(self.start(str(number)) for number in range(1, CLIENTS))]

    def start(self, name: str) -> RecordingClient:
        client = self.server.client()
        client.start()
        return RecordingClient(client, self.recorder, name)

    def violation(self) -> object:
        return find_violation(TreeModel(START), self.recorder.history())


@pytest.fixture
def live() -> Iterator[Live]:
    with simzk.ZooKeeperServer() as server:
        yield Live(server)


def call(client: RecordingClient, random: Random, value: bytes) -> None:
    """One call of any kind."""
    path = random.choice(NODES)
    calls: list[Callable[[], object]] = [
        lambda: client.get(path),
        lambda: client.get(path),
        lambda: client.set(path, value),
        lambda: client.set(path, value, random.randrange(8)),
        lambda: client.exists("/b/c"),
        lambda: client.create("/b/c", value),
        lambda: client.delete("/b/c"),
        lambda: client.create("/b/n-", sequence=True),
        lambda: client.get_children("/b"),
        lambda: client.create("/b/e", value, ephemeral=True),
        lambda: client.delete("/b/e"),
        lambda: client.multi([req.SetData("/b", value, -1), req.Create("/b/m", value, OPEN_ACL, 0)]),
        lambda: client.multi([req.Delete("/b/m", -1), req.SetData("/b", value, -1), req.Check("/b", 2)]),
    ]
    with suppress(*OUTCOME_UNKNOWN):
        random.choice(calls)()


def in_threads(work: Callable[[int], None]) -> None:
    """Do the work of every client, all at once."""
    for working in [in_thread(partial(work, number)) for number in range(CLIENTS)]:
        working.result(PATIENCE_S)


def drop_some_after_they_were_applied(live: Live, random: Random) -> None:
    """Cut the connection of who made a transaction before its reply is sent: nobody can know that it happened."""

    def cut(transaction: Transaction) -> None:
        if not isinstance(transaction.record, CloseSessionTxn) and random.randrange(12) == 0:
            for recording in live.clients:
                if recording.client._session_id == transaction.session_id:
                    live.server.disconnect(recording.client)

    with live.server.lock:
        live.server.server.on_transaction.append(cut)


@pytest.mark.parametrize("seed", [0, 2])
def test_histories_of_real_clients_with_drops_are_linearizable(live: Live, seed: int) -> None:
    drop_some_after_they_were_applied(live, Random(seed))

    def work(number: int) -> None:
        random = Random(f"{seed} {number}")
        for at in range(CALLS):
            match random.randrange(24):
                case 0:
                    live.server.disconnect(random.choice(live.clients).client)
                case 1:
                    live.server.fail_next(random.choice(["set", "create", "get"]), ConnectionLoss)
            call(live.clients[number], random, b"%d of %d" % (at, number))

    in_threads(work)
    history = live.recorder.history()
    assert len(history) == CLIENTS * CALLS
    assert sum(operation.returned_at is None for operation in history) >= 3, "drops leave outcomes unknown"
    assert (violation := live.violation()) is None, str(violation)


@pytest.mark.parametrize("seed", range(2))
def test_requests_and_replies_dropped_at_will_leave_histories_linearizable(live: Live, seed: int) -> None:
    """A quarter of all calls of each client meet a rule that loses the request, or its reply, with the connection."""

    def work(number: int) -> None:
        random, client = Random(f"dropped {seed} {number}"), live.clients[number]
        for at in range(CALLS):
            if random.randrange(4) == 0:
                drop = random.choice([live.server.faults.drop_request, live.server.faults.drop_reply])
                drop(random.choice(["set", "create", "get", "delete", "transaction"]), path="/b", below=True)
            call(client, random, b"%d of %d" % (at, number))

    in_threads(work)
    history = live.recorder.history()
    assert len(history) == CLIENTS * CALLS
    assert {"drop_request", "drop_reply"} == {rule.action for rule in live.server.faults.rules if rule.fired}
    assert sum(operation.returned_at is None for operation in history) >= 3, "drops leave outcomes unknown"
    assert (violation := live.violation()) is None, str(violation)


def test_a_write_whose_reply_was_dropped_is_seen_and_explained(live: Live) -> None:
    writer, reader = live.clients[:2]
    with live.server.lock:
        live.server.server.on_transaction.append(lambda _: live.server.disconnect(writer.client))
    with pytest.raises(ConnectionLoss):
        writer.set("/a", b"new")
    assert reader.get("/a").body == (b"new", (1, 0, 0, 0, 3, 0))
    assert live.violation() is None


def test_a_write_dropped_before_it_was_applied_is_not_seen_and_explained(live: Live) -> None:
    writer, reader = live.clients[:2]
    live.server.fail_next("set", ConnectionLoss)
    with pytest.raises(ConnectionLoss):
        writer.set("/a", b"new")
    assert reader.get("/a").body == (b"", (0, 0, 0, 0, 0, 0))
    assert live.violation() is None


@pytest.mark.parametrize("seed", range(2))
def test_registers_over_tcp_with_drops_are_linearizable(live: Live, seed: int) -> None:
    """By a model that shares no code with the server."""
    drop_some_after_they_were_applied(live, Random(seed))
    recorder = HistoryRecorder[RegisterCall, RegisterResult]()

    def ask(client: KazooClient, asked: RegisterCall) -> RegisterResult:
        match asked:
            case Get(key):
                data, stat = client.get(key)
                return data, stat.version
            case Set(key, value):
                return int(client.set(key, value).version)
            case CompareAndSet(key, value, version):
                with suppress(BadVersionError):
                    return int(client.set(key, value, version).version)
                return None

    def work(number: int) -> None:
        random, client = Random(f"{seed} {number}"), live.clients[number].client
        for at in range(CALLS):
            key, value = random.choice(("/a", "/b")), b"%d of %d" % (at, number)
            calls: list[RegisterCall] = [
                Get(key),
                Set(key, value),
                CompareAndSet(key, value, random.randrange(2 * at + 1)),
            ]
            asked = random.choice(calls)
            with suppress(*OUTCOME_UNKNOWN):
                recorder.call(str(number), asked, partial(ask, client, asked))

    in_threads(work)
    history = recorder.history()
    assert sum(operation.returned_at is None for operation in history) >= 3, "drops leave outcomes unknown"
    assert (violation := find_violation(RegisterModel(), history)) is None, str(violation)


# A server that lies. Its lies are undone before the history is judged, for the model asks the same code.


def test_a_server_that_reads_what_was_before_is_noticed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    before: dict[str, object] = {}
    true_read = live.server.server._reads[req.GetData]

    def read(reader: object, connection: object, request: req.GetData) -> object:
        assert request.path is not None
        return before.setdefault(request.path, true_read(reader, connection, request))

    writer, reader = live.clients[:2]
    with monkeypatch.context() as lying:
        lying.setitem(live.server.server._reads, req.GetData, read)
        reader.get("/a")
        writer.set("/a", b"new")
        reader.get("/a")
    assert "b'new'" in str(live.violation())


def test_a_server_that_does_not_compare_versions_is_noticed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = live.server.server._checks
    true_set = checks[req.SetData]

    def any_version(request: req.SetData, asker: Any, find: Any) -> Any:
        return true_set(request._replace(version=-1), asker, find)

    with monkeypatch.context() as lying:
        lying.setitem(checks, req.SetData, any_version)
        for client in live.clients[:2]:
            assert client.set("/a", b"mine", 0).error == 0
    assert live.violation() is not None


def test_a_dropped_write_that_is_applied_twice_is_noticed(live: Live) -> None:
    """As by a server that takes a request up again which it has applied already."""
    writer, others = live.clients[0], live.clients[1:]
    live.server.faults.drop_reply("set", client=writer.client)
    with pytest.raises(ConnectionLoss):
        writer.set("/a", b"once")
    for other in others:
        other.get("/a")
    assert live.violation() is None
    writer.client.set("/a", b"once")  # recorded by nobody
    for other in others:
        other.get("/a")
    assert live.violation() is not None


def test_a_dropped_request_that_is_said_to_have_been_done_is_noticed(live: Live) -> None:
    writer, others = live.clients[0], live.clients[1:]
    reported = [client.set("/a", b"done") for client in others][-1]
    live.server.faults.drop_request("set", client=writer.client)
    with pytest.raises(ConnectionLoss):
        writer.set("/a", b"lost")
    others[1].get("/b")  # time goes by
    others[0].get("/a")
    assert live.violation() is None
    history = live.recorder.history()
    (at,) = (at for at, operation in enumerate(history) if operation.returned_at is None)
    assert isinstance(reported.body, tuple)
    claimed = reported._replace(body=(reported.body[0] + 1, *reported.body[1:]))  # of the next version, and as long
    history[at] = history[at]._replace(returned_at=history[at].called_at + 1, result=claimed)
    assert find_violation(TreeModel(START), history[:-1]) is None, "until somebody reads"
    assert find_violation(TreeModel(START), history) is not None


def test_a_result_of_a_recorded_history_changed_is_noticed(live: Live) -> None:
    for client in live.clients:
        client.create("/b/n-", sequence=True)
    assert live.violation() is None
    history = live.recorder.history()
    history[-1] = history[-1]._replace(result=history[-2].result)
    assert find_violation(TreeModel(START), history) is not None
