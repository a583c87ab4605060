"""Stories about a server's ports (plain text, TLS, both), for a real server and simzk."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, ConnectResponse, Reply
from tests.serve.http_client import fetch
from tests.serve.tcp_client import TcpClient, word
from tests.serve.tls_files import FILES, client_tls
from tests.serve.tls_records import RecordClient
from tests.wire.client_connection import ClientConnection

if TYPE_CHECKING:
    import ssl

KEYS = {
    "ssl.keyStore.location": str(FILES / "server-and-key.pem"),
    "ssl.trustStore.location": str(FILES / "authority.pem"),
}
IPV4, IPV6 = "127.0.0.1", "::1"


def asks_for_session(client: TcpClient, session_id: int = 0) -> bool:
    """Return whether a connect request is answered."""
    client.socket.sendall(client.wire.connect(req.ConnectRequest(0, 0, 20_000, session_id, bytes(16), False)))
    answer = client.next()
    assert isinstance(answer, ConnectResponse | Closed)
    return isinstance(answer, ConnectResponse)


def tell_of_limits(port: int, secure_port: int) -> dict[str, list[bool]]:
    """Connect three clients to each port, and report which are accepted."""
    tls = client_tls()
    with ExitStack() as stack:

        def is_let_in(at: int, context: ssl.SSLContext | None) -> bool:
            try:
                return asks_for_session(stack.enter_context(TcpClient(at, IPV4, context)))
            except ConnectionError:
                return False

        return {
            "plain": [is_let_in(port, None) for _ in range(3)],
            "secure": [is_let_in(secure_port, tls) for _ in range(3)],
        }


def tell_of_ports(port: int, secure_port: int, admin_port: int) -> dict[str, Any]:
    """Report the connections that words and commands list, before and after resets."""
    tls = client_tls()
    reported: dict[str, Any] = {}
    with TcpClient(port) as one, TcpClient(port) as two, TcpClient(secure_port, IPV4, tls) as three:
        clients = {"one": one, "two": two, "three": three}
        names = {client.socket.getsockname()[1]: name for name, client in clients.items()}
        for client in clients.values():
            client.connect(20_000)
            assert client.ask(req.Exists("/", False)).error == 0

        def listed(text: str) -> list[tuple[str, int]]:
            found = re.findall(r":(\d+)\[\d\]\(queued=\d+,recved=(\d+)", text)
            return sorted((names[int(at)], int(count)) for at, count in found if int(at) in names)

        def commanded(name: str) -> dict[str, list[tuple[str, int]]]:
            body = json.loads(fetch(admin_port, f"/commands/{name}")[2])
            return {
                key: sorted(
                    (names[int(one["remote_socket_address"].rpartition(":")[2])], one["packets_received"])
                    for one in body[key]
                )
                for key in ("connections", "secure_connections")
            }

        reported["cons"] = listed(word(port, b"cons"))
        reported["cons, securely"] = listed(word(secure_port, b"cons", IPV4, tls))
        reported["stat, securely"] = listed(word(secure_port, b"stat", IPV4, tls))
        reported["commands"] = commanded("connections"), commanded("stats")
        reported["alive"] = re.findall(r"zk_num_alive_connections\t(\d+)", word(port, b"mntr"))
        fetch(admin_port, "/commands/connection_stat_reset")
        reported["after the command"] = commanded("connections")
        word(secure_port, b"crst", IPV4, tls)
        reported["after the word"] = commanded("connections")
    return reported


def tell_of_both(port: int) -> list[object]:
    """Report the identities of clients on a port for plain text and TLS, and the end of an invalid connection."""
    reported: list[object] = []
    for context in (None, client_tls()):
        with TcpClient(port, IPV4, context) as client:
            client.connect(20_000)
            reported.append(client.ask(req.WhoAmI()).body)
        reported.append(word(port, b"ruok", IPV4, context))
    for nonsense in (b"\x16\x03\x01\xff", b"\x15" * 16, b"\x00\x00\x00\x01\x00"):
        with TcpClient(port) as client:
            client.socket.sendall(nonsense)
            client.socket.shutdown(1)
            reported.append(b"ZooKeeper" in client.rest())
    return reported


def tell_of_addresses(port: int) -> list[object]:
    """Report the addresses of IPv4 and IPv6 clients on a port of all interfaces."""
    reported: list[object] = []
    for host in (IPV4, IPV6):
        with TcpClient(port, host) as client:
            client.connect(20_000)
            reported.append(client.ask(req.WhoAmI()).body)
            acl = (req.ACL(31, req.Id("ip", f"{host}/{32 if host == IPV4 else 128}")),)
            path = "/four" if host == IPV4 else "/six"
            reported.append(client.ask(req.Create(path, b"", acl, 0)).error)
            reported += [client.ask(req.GetData(name, False)).error for name in ("/four", "/six")]
            assert client.ask(req.Delete(path, -1)).error == 0
            address = client.socket.getsockname()[:2]
            shown = next(line for line in word(port, b"cons").splitlines() if f":{address[1]}[" in line)
            reported.append(shown.partition(f":{address[1]}[")[0])
    return reported


def tell_of_throttle(port: int) -> list[bool]:
    """Request seven sessions in a row, the last one unknown, and report which are accepted."""
    reported = []
    for at in range(7):
        with TcpClient(port) as client:
            reported.append(asks_for_session(client, 77 if at == 6 else 0))
    return reported


def tell_of_large_requests(port: int) -> list[object]:
    """Report the answers to requests of growing length."""
    reported: list[object] = []
    for length in (10, 300, 600, 1200):
        with TcpClient(port) as client:
            client.connect(20_000)
            client.send(req.Create("/" + "x" * length, b"", req.OPEN_ACL, 0))
            answer = client.next()
            reported.append(answer.error if isinstance(answer, Reply) else "closed")
    reported += re.findall(r"zk_large_requests_rejected\t(\d+)", word(port, b"mntr"))
    return reported


def tell_of_records(secure_port: int) -> list[tuple[int, int]]:
    """Return bytes and TLS records of each message: pipelined reads, events with their answer, long data."""
    wire = ClientConnection()
    requests: list[req.Request] = [
        *[req.Exists("/", False)] * 5,
        req.Create("/records", bytes(70_000), req.OPEN_ACL, 0),
        req.GetData("/records", True),
        req.GetChildren("/", True),
        req.Exists("/", False),
        req.Delete("/records", -1),
        req.Ping(),
    ]
    with RecordClient(secure_port, client_tls()) as client:
        client.send(wire.connect(req.ConnectRequest(0, 0, 20_000, 0, bytes(16), False)))
        messages = [client.message()]
        client.send(b"".join(wire.request(xid, request) for xid, request in enumerate(requests, 1)))
        events = 2  # the data watch and the child watch
        messages += [client.message() for _ in range(len(requests) + events)]
    return [(len(data), records) for data, records in messages]
