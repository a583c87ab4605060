"""`simzk clusters`: clusters that start and stop on request over HTTP."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka.admin import AdminClient

from simzk.cli.clusters import main
from simzk.errors import ConfigError
from tests.cli.test_kafka import PROGRAM, http
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the command; yield its URL and the process, which SIGTERM ends."""
    command = [sys.executable, "-c", PROGRAM, "clusters", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("listening on ").strip(), process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def refuses(address: str) -> bool:
    """Return whether nobody listens at an address."""
    host, _, port = address.rpartition(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) != 0


def ids(url: str) -> list[int]:
    """Return the ids of the clusters that run."""
    return [cluster["id"] for cluster in http("GET", f"{url}/clusters")[1]["clusters"]]


def held(url: str) -> tuple[HTTPResponse, dict[str, Any]]:
    """Start a cluster that lives as long as the response is open; return both."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    connection.request("POST", "/clusters?brokers=1&hold=true")
    response = connection.getresponse()
    assert response.status == 201
    return response, json.loads(response.readline())


def test_clusters_are_started_and_stopped() -> None:
    with running() as (url, process):
        status, first = http("POST", f"{url}/clusters?broker_ids=4,7&version=2.4", b"broker.7.broker.rack=far\n")
        assert (status, list(first["brokers"]), first["id"]) == (201, ["4", "7"], 1)
        second = http("POST", f"{url}/clusters?brokers=1", b"listeners=PLAINTEXT://0.0.0.0:0\n")[1]
        assert second["bootstrap_servers"].startswith("127.0.0.1:")
        assert ids(url) == [1, 2]
        found = AdminClient({"bootstrap.servers": first["bootstrap_servers"]}).list_topics(timeout=PATIENCE_S)
        assert sorted(found.brokers) == [4, 7]
        assert http("POST", f"{first['control']}/brokers/4/kill")[0] == 200
        assert http("DELETE", f"{url}/clusters/1") == (200, {"error": None})
        assert all(refuses(address) for address in first["brokers"].values())
        assert ids(url) == [2]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert refuses(second["bootstrap_servers"])


def test_a_held_cluster_ends_with_its_connection() -> None:
    with running() as (url, process):
        response, cluster = held(url)
        other, kept = held(url)
        assert ids(url) == [cluster["id"], kept["id"]]
        response.close()
        deadline_s = time.monotonic() + PATIENCE_S
        while ids(url) != [kept["id"]]:  # each request gives the server the time to notice
            assert time.monotonic() < deadline_s, "the cluster goes on"
        assert refuses(cluster["bootstrap_servers"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert other.read() == b"", "the response ends with the server"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/clusters?brokers=two", b"", 400, "brokers: 'two' is invalid; expected a number"),
        ("POST", "/clusters?brokers=1000000000", b"", 400, "is invalid; expected a number from 1 to 1000"),
        ("POST", "/clusters?broker_ids=" + "1," * 1000 + "1", b"", 400, "expected at most 1000 ids such as 0,1,2"),
        ("POST", "/clusters?racks=0", b"", 400, "racks: '0' is invalid; expected a number from 1 to 1000"),
        ("POST", f"/clusters?seed={2**63}", b"", 400, "is invalid; expected a number of 64 bits"),
        ("POST", "/clusters?zookeeper_servers=26", b"", 400, "is invalid; expected a number from 1 to 25"),
        ("POST", "/clusters?size=2", b"", 400, "size: there is no such option; expected one of version, brokers"),
        ("POST", "/clusters?brokers=1&broker_ids=1", b"", 400, "broker_ids: it is given beside brokers"),
        ("POST", "/clusters?version=1.9", b"", 400, "Kafka '1.9' is not simulated"),
        ("POST", "/clusters?security=TLS", b"", 400, "security: 'TLS' is invalid; expected one of PLAINTEXT"),
        ("POST", "/clusters?hold=yes", b"", 400, "hold: 'yes' is no boolean; expected true or false"),
        (
            "POST",
            "/clusters",
            b"num.partitions=many",
            400,
            "config.num.partitions: Invalid value many",
        ),
        ("DELETE", "/clusters/9", b"", 404, "there is no cluster 9; expected no cluster runs"),
        ("GET", "/cluster", b"", 404, "there is no GET /cluster; expected POST /clusters"),
    ],
)
def test_wrong_requests_start_nothing(shared: str, method: str, path: str, body: bytes, status: int, said: str) -> None:
    got, answer = http(method, shared + path, body)
    assert got == status
    assert said in answer["error"]
    assert ids(shared) == []


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """The URL of a server without clusters."""
    with running() as (url, _):
        yield url


def test_a_token_is_needed_if_there_is_one() -> None:
    with running("--token", "secret") as (url, _):
        assert http("POST", f"{url}/clusters")[0] == 401
        cluster = http("POST", f"{url}/clusters?brokers=1", Authorization="Bearer secret")[1]
        assert http("POST", f"{cluster['control']}/brokers/1/kill")[0] == 401
        assert http("DELETE", f"{url}/clusters/1")[0] == 401
        assert http("DELETE", f"{url}/clusters/1", Authorization="Bearer secret")[0] == 200


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="in use"):
        main(["--port", str(taken.getsockname()[1])])
