"""Behaviour of zoo.cfg's keys about clients: the same requests to a real server and to simzk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Reply
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = [pytest.mark.slow, pytest.mark.java]

AUTH = "org.apache.zookeeper.server.auth"
Story = tuple[req.Request, ...]


def mine(scheme: str, name: str) -> tuple[req.ACL, ...]:
    return (req.ACL(31, req.Id(scheme, name)),)


CONFIGURATIONS: list[tuple[dict[str, str], Sequence[Story]]] = [
    (
        {"enforce.auth.enabled": "true", "enforce.auth.schemes": "digest, x509"}
        | {"authProvider.1": f"{AUTH}.X509AuthenticationProvider", "authProvider.2": "org.example.None"},
        [
            (req.GetData("/", False), req.GetData("/", False)),
            (req.Auth(0, "digest", b"u:p"), req.GetData("/", False)),
            (req.Auth(0, "ip", b""), req.Ping(), req.GetData("/", False)),
            (req.CloseSession(),),
        ],
    ),
    (
        {"enforce.auth.enabled": "true", "enforce.auth.schemes": "ip", "ensembleAuthName": "one, two"}
        | {"authProvider.ensemble": f"{AUTH}.EnsembleAuthenticationProvider"}
        | {"DigestAuthenticationProvider.enabled": "false"},
        [
            (req.GetData("/", False),),
            (req.Auth(0, "ensemble", b"two"), req.GetData("/", False)),
            (req.Auth(0, "ensemble", b""), req.GetData("/", False)),
            (req.Auth(0, "ensemble", b"three"), req.GetData("/", False)),
            (req.Auth(0, "digest", b"u:p"), req.GetData("/", False)),
            (req.Create("/d", b"", mine("digest", "u:p"), 0), req.Create("/e", b"", mine("ensemble", "two"), 0)),
            (req.Create("/i", b"", mine("ip", "127.0.0.1"), 0), req.GetData("/i", False)),
        ],
    ),
    (
        {"DigestAuthenticationProvider.digestAlg": "SHA-256", "authProvider.1": f"{AUTH}.SASLAuthenticationProvider"},
        [
            (req.Auth(0, "digest", b"u:p"), req.Create("/d", b"", mine("auth", ""), 0), req.GetACL("/d")),
            (req.Create("/s", b"", mine("sasl", "somebody"), 0), req.GetData("/s", False)),
            (req.Auth(0, "sasl", b""), req.GetData("/", False)),
            (req.Auth(0, "nonsense", b""), req.GetData("/", False)),
        ],
    ),
    ({"skipACL": "yes"}, [(req.Create("/d", b"", mine("digest", "u:p"), 0), req.GetData("/d", False))]),
]


def reported(port: int, story: Story) -> list[tuple[int, object]]:
    """Return errors and bodies without times; requests after a disconnect get no reply."""
    replies: list[tuple[int, object]] = []
    with TcpClient(port) as client:
        client.connect()
        for request in story:
            client.send(request)
            reply = client.next()
            if not isinstance(reply, Reply):
                return [*replies, (0, "closed")]
            is_pair = isinstance(request, req.GetData | req.GetACL) and isinstance(reply.body, tuple)
            replies.append((reply.error, reply.body[0] if is_pair else None))  # type: ignore[index]  # with a Stat
    return replies


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("lines", "stories"), CONFIGURATIONS)
def test_clients_are_answered_alike(lines: Mapping[str, str], stories: Sequence[Story]) -> None:
    with RealZooKeeper(settings=lines) as real:
        expected = [reported(real.port, story) for story in stories]
    file = "dataDir=/none\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    settings = parse_zoo_cfg(file + "".join(f"{key}={value}\n" for key, value in lines.items()))
    with served(settings._replace(data_directory=None), StillClock()) as ours:
        assert [reported(ours.port, story) for story in stories] == expected
