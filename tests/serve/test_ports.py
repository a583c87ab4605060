"""Ports: addresses, protocols, limits; compared with real ones in conformance/test_ports.py."""

from __future__ import annotations

import http.client

import pytest

from simzk.errors import ConfigError
from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings, Throttle
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from simzk.serve.tcp.server import ConnectionThrottle, TcpServer
from simzk.serve.tcp.tls import Tls
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import ClientInfo
from tests.serve import port_stories
from tests.serve.port_stories import IPV4, IPV6
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient, word
from tests.serve.tls_files import FILES, client_tls

TLS = Tls(FILES / "server-and-key.pem", None, FILES / "authority.pem")
SECURED = ServerConfig(x509=True)
RECORD_BYTES = 1 << 14


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::"])
def test_an_open_port_takes_both_kinds_of_addresses(address: str) -> None:
    with served(Settings(address=address, admin_port=0, admin_address=address)) as server:
        assert server.tcp.name == f"0.0.0.0:{server.port}"
        report = port_stories.tell_of_addresses(server.port)
        assert report[:2] == [[ClientInfo("ip", "127.0.0.1")], 0]
        assert report[5:7] == [[ClientInfo("ip", "0:0:0:0:0:0:0:1")], 0]
        assert (report[4], report[9]) == (" /127.0.0.1", " /[0:0:0:0:0:0:0:1]")
        for host in (IPV4, IPV6):
            connection = http.client.HTTPConnection(host, server.admin_port)
            connection.request("GET", "/commands/ruok")
            assert connection.getresponse().read()
            connection.close()


def test_a_port_is_of_this_machine_alone_where_nothing_is_said() -> None:
    with served(Settings()) as server, pytest.raises(ConnectionRefusedError):
        TcpClient(server.port, IPV6)


def test_a_taken_port_is_taken_on_every_interface() -> None:
    with served(Settings()) as server, pytest.raises(ConfigError, match="cannot listen: Address already in use"):
        TcpServer(Settings(address="", port=server.port), WallClock())


@pytest.mark.parametrize("settings", [Settings(), Settings(secure_port=0)], ids=["first port", "secure port"])
def test_each_message_has_a_tls_record_of_its_own(settings: Settings) -> None:
    with served(settings._replace(tls=TLS, server=SECURED)) as server:
        port = server.port if settings.secure_port is None else server.tcp.secure_port
        reported = port_stories.tell_of_records(port)
    assert [records for _, records in reported] == [-(-size // RECORD_BYTES) for size, _ in reported]


def test_connections_are_listed_and_counted_by_port() -> None:
    settings = Settings(tls=TLS, secure_port=0, admin_port=0, max_connections_per_address=9, server=SECURED)
    with served(settings) as server:
        report = port_stories.tell_of_ports(server.port, server.tcp.secure_port, server.admin_port)
    assert report["cons"] == [("one", 2), ("two", 2)]
    assert report["cons, securely"] == report["stat, securely"] == [("three", 2)]
    assert report["commands"][0] == {
        "connections": report["cons"],
        "secure_connections": report["cons, securely"],
    }
    assert report["alive"] == ["4"]
    with served(settings._replace(max_connections_per_address=2)) as server:
        let_in = port_stories.tell_of_limits(server.port, server.tcp.secure_port)
    assert let_in == {"plain": [True, True, False], "secure": [True, True, False]}


@pytest.mark.parametrize("secure_port", [None, 0])
def test_one_port_speaks_plainly_and_by_tls(secure_port: int | None) -> None:
    with served(Settings(tls=TLS, unifies_ports=True, secure_port=secure_port, server=SECURED)) as server:
        plain, answered, secure, answered_too, *nonsense = port_stories.tell_of_both(server.port)
        assert (answered, answered_too, nonsense) == ("imok", "imok", [False] * 3)
        assert plain == [ClientInfo("ip", "127.0.0.1")]
        assert isinstance(secure, list)
        assert [info.scheme for info in secure] == ["x509", "ip"]


def test_who_says_nothing_to_a_port_that_speaks_both_is_given_up_in_time() -> None:
    settings = Settings(tls=TLS, unifies_ports=True, silence_ms=10, server=SECURED)
    with served(settings, WallClock()) as server, TcpClient(server.port) as client:
        assert client.rest() == b""


def test_a_port_that_speaks_both_stops_whatever_its_clients_do() -> None:
    with (
        served(Settings(tls=TLS, unifies_ports=True, server=SECURED)) as server,
        TcpClient(server.port),
        TcpClient(server.port) as in_handshake,
        TcpClient(server.port) as other,
    ):
        in_handshake.socket.sendall(b"\x16\x03\x01")
        other.connect()


@pytest.mark.parametrize(
    ("throttle", "expected"),
    [
        (Throttle(4, 10**9), [True] * 4 + [False] * 3),
        (Throttle(2, 10**9, weighs=True), [True] * 2 + [False] * 5),
        (Throttle(3, 10**9, weighs=True, global_weight=7, renew_weight=3), [True] * 3 + [False] * 4),
        (Throttle(2, 10**9, weighs=True, global_weight=4, renew_weight=3), [True] * 2 + [False] * 5),
    ],
)
def test_sessions_take_tokens(throttle: Throttle, expected: list[bool]) -> None:
    with served(Settings(throttle=throttle)) as server:
        assert port_stories.tell_of_throttle(server.port) == expected
        counted = word(server.port, b"mntr")
        assert f"zk_connection_rejected\t{expected.count(False)}\n" in counted
        assert f"zk_cnt_connection_token_deficit\t{expected.count(True)}\n" in counted


def test_an_empty_bucket_makes_bad_luck_likelier() -> None:
    asked = Throttle(tokens=1, fill_time_ms=100, freeze_time_ms=10, drop_increase=0.6, drop_decrease=0.5)
    throttle = ConnectionThrottle(asked, 0, lambda: 0.55)
    assert throttle.takes(1, 0)
    assert not throttle.takes(1, 11)
    assert throttle.drop_chance == 0.6
    assert not throttle.takes(1, 21)
    assert throttle.takes(1, 111), "a token is there again"
    assert throttle.drop_chance == pytest.approx(0.1)
    assert not throttle.takes(1, 112)


@pytest.mark.parametrize(
    ("lines", "longest"),
    [
        ("largeRequestThreshold=500", 100 * 1024 * 1024),
        ("largeRequestThreshold=500\nlargeRequestMaxBytes=1000", 1000),
        ("largeRequestThreshold=500\nlargeRequestMaxBytes=400", 500),
        ("largeRequestThreshold=-1\nlargeRequestMaxBytes=400", None),
        ("largeRequestThreshold=0\nlargeRequestMaxBytes=400", None),
        ("largeRequestMaxBytes=400", None),
    ],
)
def test_large_requests_of_a_file(lines: str, longest: int | None) -> None:
    settings = parse_zoo_cfg(f"dataDir=/d\nclientPort=0\n{lines}\n")
    assert settings.server.large_request_bytes == longest


def test_too_large_a_request_ends_its_connection_and_is_counted() -> None:
    with served(Settings(server=ServerConfig(large_request_bytes=500))) as server:
        assert port_stories.tell_of_large_requests(server.port) == [0, 0, "closed", "closed", "2"]
        with TcpClient(server.port) as client:
            client.connect()
            client.socket.sendall((2**30).to_bytes(4, "big"))  # longer than jute.maxbuffer is another matter
            assert client.rest() == b""
        assert "zk_large_requests_rejected\t2\n" in word(server.port, b"mntr")


def test_ports_unified_in_a_file() -> None:
    least = "dataDir=/d\nclientPort=0\nclient.portUnification=true\n"
    settings = parse_zoo_cfg(least)
    assert (settings.unifies_ports, settings.tls) == (False, None)
    assert settings.notices == ("zoo.cfg:3: it has no effect without ssl.keyStore.location",)
    keyed = parse_zoo_cfg(f"{least}ssl.keyStore.location=/k.pem\nssl.clientAuth=none\n")
    assert keyed.unifies_ports
    assert keyed.tls is not None
    assert keyed.server.x509


def test_each_port_has_its_own_interface_in_a_file() -> None:
    lines = "clientPortAddress=127.0.0.1\nsecureClientPort=0\nssl.keyStore.location=/k.pem\nssl.clientAuth=none\n"
    least = f"dataDir=/d\nclientPort=0\n{lines}"
    assert parse_zoo_cfg(least).secure_address == ""
    assert parse_zoo_cfg(f"{least}secureClientPortAddress=127.0.0.2\n").secure_address == "127.0.0.2"


def test_requests_of_both_kinds_of_clients_reach_one_tree() -> None:
    with (
        served(Settings(tls=TLS, unifies_ports=True, server=SECURED)) as server,
        TcpClient(server.port) as plain,
        TcpClient(server.port, IPV4, client_tls()) as secure,
    ):
        plain.connect()
        secure.connect()
        assert plain.ask(req.Create("/a", b"x" * 100_000, req.OPEN_ACL, 0)).error == 0
        assert secure.ask(req.GetData("/a", False)).error == 0
