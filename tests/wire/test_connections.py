"""Both ends of a connection: messages encoded by one are decoded by the other, in any pieces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.wire.connections import Incoming, ProtocolProblem, ServerConnection
from simzk.wire.operations import BY_OPCODE, BY_REQUEST, OPERATIONS
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import MalformedError
from simzk.zookeeper.replies import Closed, ConnectResponse, EventType, Outgoing, Reply, WatchedEvent
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.server import Server
from tests.wire.client_connection import ClientConnection
from tests.wire.strategies import ALL, BODIES, INTS, LONGS, REQUESTS, TEXTS, answered

CONNECT = req.ConnectRequest(0, 0, 10_000, 0, bytes(16), False)
CONNECTS = st.builds(
    req.ConnectRequest, INTS, LONGS, INTS, LONGS, st.none() | st.binary(max_size=20), st.none() | st.booleans()
)
RESPONSES = st.builds(
    ConnectResponse, INTS, INTS, LONGS, st.binary(min_size=16, max_size=16), st.none() | st.booleans()
)


def connected() -> tuple[ClientConnection, ServerConnection]:
    client, server = ClientConnection(), ServerConnection()
    assert server.receive_data(client.connect(CONNECT)) == [CONNECT]
    client.receive_data(server.encode(ConnectResponse(0, 10_000, 1, bytes(16), False)))
    return client, server


def test_every_request_has_one_row_and_a_strategy() -> None:
    assert len({operation.opcode for operation in OPERATIONS}) == len(OPERATIONS)
    of_the_wire = {operation.request for operation in OPERATIONS}
    assert of_the_wire == set(ALL)
    assert of_the_wire | {req.Check, req.Undecodable, req.Unimplemented} == set(req.Request.__args__)
    assert set(BODIES) == of_the_wire - {req.Multi, req.MultiRead} | {req.Check}


@given(CONNECTS, RESPONSES)
def test_connect_records_arrive_as_they_were(request: req.ConnectRequest, response: ConnectResponse) -> None:
    client, server = ClientConnection(), ServerConnection()
    assert server.receive_data(client.connect(request)) == [request]
    assert client.receive_data(server.encode(response)) == [response]


@pytest.mark.parametrize(("read_only", "sent", "answered_with"), [(None, 48, 40), (False, 49, 41), (True, 49, 41)])
def test_sizes_of_connect_records(read_only: bool | None, sent: int, answered_with: int) -> None:
    client, server = ClientConnection(), ServerConnection()
    assert len(client.connect(CONNECT._replace(read_only=read_only))) == sent
    assert len(server.encode(ConnectResponse(0, 1, 1, bytes(16), read_only))) == answered_with


@given(REQUESTS, INTS)
def test_requests_arrive_as_they_were(request: req.Request, xid: int) -> None:
    client, server = connected()
    assert server.receive_data(client.request(xid, request)) == [Incoming(xid, request)]


@given(st.lists(st.tuples(answered(), INTS.filter(lambda xid: xid != -1), LONGS), max_size=4))
def test_replies_arrive_as_they_were(exchanges: list[tuple[tuple[req.Request, Any], int, int]]) -> None:
    client, server = connected()
    replies: list[Outgoing] = []
    for (request, body), xid, zxid in exchanges:
        server.receive_data(client.request(xid, request))
        replies.append(Reply(-2 if isinstance(request, req.Ping) else xid, zxid, 0, body))
    assert client.receive_data(server.encode(*replies)) == replies


@given(answered(), INTS.filter(lambda xid: xid != -1), LONGS)
def test_one_request_at_a_time_is_read_and_answered_without_being_noted(
    exchange: tuple[req.Request, Any], xid: int, zxid: int
) -> None:
    client, server = connected()
    request, body = exchange
    reply = Reply(-2 if isinstance(request, req.Ping) else xid, zxid, 0, body)
    server.receive_data(client.request(xid, request))  # the first of a kind, whose codec is yet to be compiled
    at_leisure = server.encode(reply)
    assert client.receive_data(at_leisure) == [reply]
    data = client.request(xid, request)
    one = server.receive_one(data)
    assert one == Incoming(xid, request)
    assert server.encode_one(reply, request) == at_leisure
    assert client.receive_data(at_leisure) == [reply]
    # What waits for its reply is in the way of the next, which could be answered first.
    server.expect(one)
    assert server.receive_one(data) is None
    assert server.encode(reply) == at_leisure
    assert server.receive_one(data) == one


@given(REQUESTS, st.integers(-125, -1), LONGS)
def test_errors_have_no_body_but_a_login_s_null_token(request: req.Request, error: int, zxid: int) -> None:
    client, server = connected()
    server.receive_data(client.request(7, request))
    reply = Reply(-2 if isinstance(request, req.Ping) else 7, zxid, error, None)
    data = server.encode(reply)
    assert len(data) == 24 if isinstance(request, req.Sasl) else len(data) == 20
    assert client.receive_data(data) == [reply]


@given(st.sampled_from(EventType), TEXTS, LONGS)
def test_events_arrive_as_they_were(kind: EventType, path: str, zxid: int) -> None:
    client, server = connected()
    assert client.receive_data(server.encode(WatchedEvent(kind, path, zxid))) == [WatchedEvent(kind, path, zxid)]


@given(REQUESTS)
def test_a_body_cut_short_is_answered_and_never_escapes(request: req.Request) -> None:
    operation = BY_REQUEST[type(request)]
    body = operation.codec.encode(request)
    client, server = connected()
    assert server.receive_data(client.request_bytes(1, operation.opcode, body)) == [Incoming(1, request)]
    for cut in range(len(body)):
        client, server = connected()
        (incoming,) = server.receive_data(client.request_bytes(1, operation.opcode, body[:cut]))
        if isinstance(request, req.Auth | req.Sasl):
            assert isinstance(incoming, ProtocolProblem), "read before the queue of requests, it ends the connection"
        else:
            assert isinstance(incoming, Incoming)
            assert isinstance(incoming.request, req.Undecodable), "no body is the beginning of another"


@given(st.binary(max_size=300))
def test_any_bytes_are_requests_or_a_problem(data: bytes) -> None:
    for server in (ServerConnection(), connected()[1]):
        for received in server.receive_data(data):
            assert isinstance(received, req.ConnectRequest | Incoming | ProtocolProblem)


@given(st.sampled_from([operation.opcode for operation in OPERATIONS]), st.binary(max_size=200))
def test_any_body_is_a_request_that_the_server_answers(opcode: int, body: bytes) -> None:
    client, wire = connected()
    server = Server()
    connection = server.connect(CONNECT, 0)
    server.take_output()
    for received in wire.receive_data(client.request_bytes(1, opcode, body)):
        if isinstance(received, ProtocolProblem):
            assert BY_OPCODE[opcode].request in (req.Auth, req.Sasl)
            continue
        assert isinstance(received, Incoming)
        server.handle(connection, received.xid, received.request, 1)
    server.check()
    for _, messages in server.take_output():
        assert client.receive_data(wire.encode(*messages)) == [said for said in messages if said != Closed()]


def recorded_session() -> tuple[bytes, bytes, list[Any], list[Any]]:
    """Return the bytes of a whole session in both directions, and its messages."""
    client, wire, server = ClientConnection(), ServerConnection(), Server()
    requests: list[req.Request] = [
        req.Create("/a", b"data", OPEN_ACL, 0),
        req.GetChildren2("/", True),
        req.Create2("/a/é-", None, OPEN_ACL, 3),
        req.Multi((req.SetData("/a", b"", 0), req.Check("/a", 1), req.CreateContainer("/c", None, OPEN_ACL, 4))),
        req.Multi((req.Delete("/none", -1), req.Delete("/a", -1))),
        req.MultiRead((req.GetData("/a", False), req.GetChildren("/", False), req.GetData("/none", False))),
        req.SetWatches2(0, ("/a",), ("/b",), ("/",), (), ("/",)),
        req.Ping(),
        req.GetACL("/zookeeper/config"),
        req.WhoAmI(),
        req.CloseSession(),
    ]
    up = client.connect(CONNECT) + b"".join(client.request(xid, asked) for xid, asked in enumerate(requests, 1))
    received: list[Any] = wire.receive_data(up)
    connection = server.connect(received[0], 0)
    for incoming in received[1:]:
        server.handle(connection, incoming.xid, incoming.request, 1)
    down = b"".join(wire.encode(*messages) for _, messages in server.take_output())
    return up, down, received, client.receive_data(down)


def test_a_session_split_at_every_byte_reads_alike() -> None:
    up, down, received, said = recorded_session()
    for cut in range(len(up) + 1):
        server = ServerConnection()
        assert server.receive_data(up[:cut]) + server.receive_data(up[cut:]) == received
    for cut in range(len(down) + 1):
        client = ClientConnection()
        for incoming in received[1:]:
            client.request(incoming.xid, incoming.request)
        assert client.receive_data(down[:cut]) + client.receive_data(down[cut:]) == said


def test_a_session_byte_by_byte_reads_alike() -> None:
    up, _, received, _ = recorded_session()
    server = ServerConnection()
    assert [heard for at in range(len(up)) for heard in server.receive_data(up[at : at + 1])] == received


@pytest.mark.parametrize("length", [-1, 0x100000, 2**31 - 1])
def test_a_bad_length_is_reported_before_the_body_arrives(length: int) -> None:
    client, server = connected()
    good = client.request(1, req.Ping())
    heard = server.receive_data(good + length.to_bytes(4, "big", signed=True))
    assert heard[0] == Incoming(1, req.Ping())
    assert isinstance(heard[1], ProtocolProblem)
    assert server.receive_data(good) == []


def test_the_longest_request_is_taken() -> None:
    client, server = connected()
    data = bytes(0xFFFFF - 8 - (4 + 2) - 4 - 4)
    frame = client.request(1, req.SetData("/a", data, -1))
    assert len(frame) == 4 + 0xFFFFF
    assert server.receive_data(frame) == [Incoming(1, req.SetData("/a", data, -1))]


def test_a_request_never_answered_is_passed_over() -> None:
    client, server = connected()
    server.receive_data(client.request(1, req.Ping()) + client.request(2, req.Exists("/a", False)))
    server.receive_data(client.request(3, req.Sync("/a")))
    assert server.encode(Reply(3, 1, 0, "/a"))[4:8] == (3).to_bytes(4, "big")


def test_a_client_refuses_what_no_server_sends() -> None:
    client, server = connected()
    server.receive_data(client.request(1, req.Sync("/a")))
    frame = server.encode(Reply(1, 1, 0, "/a"))
    with pytest.raises(MalformedError):
        client.receive_data((len(frame) - 3).to_bytes(4, "big") + frame[4:] + b"x")
