"""Ports of a real server and of simzk with the same lines of zoo.cfg: who may connect, and what monitoring reports."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from tests.conformance import jetty
from tests.conformance.real_zookeeper import RealZooKeeper, free_port, jars
from tests.serve import port_stories
from tests.serve.port_stories import KEYS
from tests.serve.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(180)]
NETTY = {"zookeeper.serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory"}
FOR_EVER = str(10**9)


@contextmanager
def real(lines: Mapping[str, str], folder: Path | None = None) -> Iterator[dict[str, int]]:
    """The ports of a real server, of Netty's where one is secure; with Jetty's jars in `folder` it has commands."""
    secure, admin = free_port(), free_port()
    settings = {**lines, "secureClientPort": str(secure), **KEYS} if "secureClientPort" in lines else dict(lines)
    if folder is not None:
        settings |= {"admin.enableServer": "true", "admin.serverPort": str(admin), "admin.serverAddress": "127.0.0.1"}
    properties = NETTY if "secureClientPort" in settings else None
    with RealZooKeeper(settings=settings, properties=properties, jars_from=folder) as server:
        yield {"plain": server.port, "secure": secure, "admin": admin}


@contextmanager
def ours(lines: Mapping[str, str]) -> Iterator[dict[str, int]]:
    """The same of one of ours, in this process."""
    least = {"dataDir": "/none", "clientPort": "0", "clientPortAddress": "127.0.0.1", "maxClientCnxns": "0"}
    asked = {**least, "4lw.commands.whitelist": "*", **lines, **KEYS}
    settings = parse_zoo_cfg("".join(f"{key}={value}\n" for key, value in asked.items() if value))
    settings = settings._replace(data_directory=None, admin_address="127.0.0.1", admin_port=0)
    with served(settings) as server:
        yield {"plain": server.port, "secure": server.tcp.secure_port, "admin": server.admin_port}


@pytest.mark.parametrize("limit", ["maxClientCnxns", "maxCnxns"])
def test_each_port_has_its_own_limit(limit: str) -> None:
    lines = {"secureClientPort": "0", limit: "2"}
    with real(lines) as theirs, ours(lines) as mine:
        reported = [port_stories.tell_of_limits(ports["plain"], ports["secure"]) for ports in (theirs, mine)]
    assert reported[0] == reported[1] == {"plain": [True, True, False], "secure": [True, True, False]}


@pytest.mark.skipif(jetty.why_not() is not None, reason=str(jetty.why_not()))
def test_what_is_listed_is_listed_by_port(tmp_path: Path) -> None:
    for folder in (jars(), jetty.jetty()):
        for jar in folder.glob("*.jar"):
            (tmp_path / jar.name).symlink_to(jar)
    lines = {"secureClientPort": "0"}
    with real(lines, tmp_path) as theirs, ours(lines) as mine:
        reported = [port_stories.tell_of_ports(*ports.values()) for ports in (theirs, mine)]
    assert reported[0] == reported[1]


def test_a_port_that_speaks_both() -> None:
    # A real one without a secure port beside it does not find its provider of x509, and lets nobody in by TLS.
    lines = {"client.portUnification": "true", "secureClientPort": "0"}
    with real(lines) as theirs, ours(lines) as mine:
        reported = [port_stories.tell_of_both(ports["plain"]) for ports in (theirs, mine)]
    assert reported[0] == reported[1]


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_every_interface_is_of_both_kinds_of_addresses(address: str) -> None:
    lines = {"clientPortAddress": address}
    with real(lines) as theirs, ours(lines) as mine:
        reported = [port_stories.tell_of_addresses(ports["plain"]) for ports in (theirs, mine)]
    assert reported[0] == reported[1]


@pytest.mark.parametrize(
    "lines",
    [
        {"connection_throttle_tokens": "4"},
        {"connection_throttle_tokens": "2", "connection_throttle_weight_enabled": "true"},
        {"connection_throttle_tokens": "5", "connection_throttle_freeze_time": "0"}
        | {"connection_throttle_drop_increase": "1", "connection_throttle_drop_decrease": "0.5"},
    ],
    ids=["tokens", "weights", "chance"],
)
def test_who_asks_for_sessions_too_fast_is_cut_off(lines: dict[str, str]) -> None:
    lines = {**lines, "connection_throttle_fill_time": FOR_EVER}
    with real(lines) as theirs, ours(lines) as mine:
        reported = [port_stories.tell_of_throttle(ports["plain"]) for ports in (theirs, mine)]
    assert reported[0] == reported[1]
    assert not all(reported[0])


@pytest.mark.parametrize("most", ["400", "1000"])
def test_a_request_that_is_too_large_ends_its_connection(most: str) -> None:
    lines = {"largeRequestThreshold": "500", "largeRequestMaxBytes": most}
    with real(lines) as theirs, ours(lines) as mine:
        reported = [port_stories.tell_of_large_requests(ports["plain"]) for ports in (theirs, mine)]
    assert reported[0] == reported[1]
    assert "closed" in reported[0]


def test_each_message_has_a_tls_record_of_its_own() -> None:
    lines = {"secureClientPort": "0"}
    with real(lines) as theirs, ours(lines) as mine:
        reported = [port_stories.tell_of_records(ports["secure"]) for ports in (theirs, mine)]
    assert reported[0] == reported[1]
