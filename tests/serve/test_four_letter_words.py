"""Four-letter words: content, counters, whitelist. Their form is tested in tests/conformance (§5)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from simzk.serve.configuration.settings import Settings
from simzk.zookeeper import requests as req
from tests.serve.served import Served, served
from tests.serve.tcp_client import Clients, TcpClient, word
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[Served]:
    with served(Settings()) as running:
        yield running


@pytest.fixture
def reported(server: Served) -> Iterator[Served]:
    with Clients(server.port):
        yield server


# What the words say of themselves


def test_are_you_ok(server: Served) -> None:
    assert word(server.port, b"ruok") == "imok"
    assert word(server.port, b"ruok\n") == "imok"
    assert word(server.port, b"isro") == "rw"


def test_a_word_may_come_in_pieces(server: Served) -> None:
    with TcpClient(server.port) as client:
        client.socket.sendall(b"ru")
        client.socket.sendall(b"ok")
        assert client.rest() == b"imok"


def test_the_trace_mask_is_kept(server: Served) -> None:
    assert word(server.port, b"gtmk") == "306"
    assert word(server.port, b"stmk" + (5).to_bytes(8, "big")) == "5"
    assert word(server.port, b"gtmk") == "5"


def test_a_trace_mask_that_does_not_come_with_its_word_ends_the_connection(server: Served) -> None:
    # As a real server does (tests/conformance/test_monitoring.py): it reads what is there, once.
    for cut in (b"", bytes(4), bytes(7)):
        with TcpClient(server.port) as client:
            client.socket.sendall(b"stmk" + cut)
            assert client.rest() == b""
    assert word(server.port, b"gtmk") == "306"


def test_only_what_is_whitelisted_is_answered() -> None:
    with served(Settings(whitelist=frozenset({"srvr"}))) as running:
        assert word(running.port, b"srvr").startswith("Zookeeper version: 3.9.")
        for name in ("ruok", "stmk"):
            said = f"{name} is not executed because it is not in the whitelist.\n"
            assert word(running.port, name.encode()) == said


def test_counters_count_and_can_be_reset(reported: Served) -> None:
    assert re.search(r"\nReceived: 9\nSent: 8\nConnections: 3\n", word(reported.port, b"srvr"))
    assert word(reported.port, b"srst") == "Server stats reset.\n"
    assert word(reported.port, b"crst") == "Connection stats reset.\n"
    assert re.search(r"\nReceived: 2\nSent: 2\n", word(reported.port, b"srvr"))
    assert "lop=NA" in word(reported.port, b"cons")


def test_a_word_is_answered_while_a_client_does_not_read(reported: Served) -> None:
    with TcpClient(reported.port) as deaf:
        deaf.connect()
        deaf.send(*[req.GetChildren2("/", False)] * 20_000)
        assert word(reported.port, b"ruok") == "imok"


def test_responses_and_connections_that_clients_end_are_counted() -> None:
    with served(Settings()) as server:

        def counted(key: str) -> int:
            return int(dict(line.split("\t") for line in word(server.port, b"mntr").splitlines())[f"zk_{key}"])

        with TcpClient(server.port) as client:
            client.connect()
            assert counted("response_bytes") == 0
            client.ask(req.Exists("/none", False))
            client.ask(req.Ping())
            assert counted("response_bytes") == 16  # a header only, and none for the ping
            assert counted("connection_drop_count") == 0
        deadline_s = time.monotonic() + PATIENCE_S
        while counted("connection_drop_count") == 0:
            assert time.monotonic() < deadline_s
