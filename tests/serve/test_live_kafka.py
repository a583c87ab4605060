"""The live page of a served Kafka cluster: at its control port, with the picture of what has happened."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

import simzk
from simzk.scenarios import broker_control
from simzk.scenarios.broker_control import BrokerControl
from tests.serve.http_client import fetch as fetch_at
from tests.serve.test_live import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def server() -> Iterator[simzk.KafkaServer]:
    with simzk.KafkaServer(brokers=2, control_port=0, racks={1: MARKUP, 2: "b"}) as server:
        server.create_topic("orders", partitions=2, replication_factor=2)
        server.run_until_quiet()
        yield server


def port_of(server: simzk.KafkaServer) -> int:
    """Return the port of the HTTP control."""
    port = urlsplit(server.control_url).port
    assert port is not None
    return port


def fetch(server: simzk.KafkaServer, target: str, method: str = "GET", **headers: str) -> tuple[int, Any, str]:
    """Return status, headers and text of an answer."""
    status, found, body = fetch_at(port_of(server), target, method, headers=headers)
    return status, found, body.decode()


def digest(text: str) -> str:
    """Return the source expression of an inline element."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_the_page_allows_its_own_elements_and_those_of_the_picture(server: simzk.KafkaServer) -> None:
    status, headers, page = fetch(server, "/")
    picture = fetch(server, "/live/picture")[2]
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    for tag in ("script", "style"):
        (own,), (of_picture,) = (re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for text in (page, picture))
        assert policy[f"{tag}-src"].split() == [digest(own), digest(of_picture)]
    assert policy["default-src"] == "'none'"
    assert re.findall("<iframe[^>]*>", page) == [
        '<iframe id="picture" title="States over time" sandbox="allow-scripts allow-downloads" hidden>'
    ]


def test_the_picture_shows_what_happened_and_escapes_it(server: simzk.KafkaServer) -> None:
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap_servers)
    client.create_topics([NewTopic("made-by-a-client", 1, 1)])
    client.close()
    server.run_until_quiet()
    status, headers, picture = fetch(server, "/live/picture")
    assert status == 200
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert "2 of 2 brokers run; controller 1." in picture
    for shown in ("States over time", "orders-1", "made-by-a-client-0", "registered"):
        assert shown in picture, shown
    assert MARKUP not in picture


def test_the_state_is_that_of_the_cluster(server: simzk.KafkaServer) -> None:
    status, found = ask(port_of(server), "/live/state")
    assert status == 200
    assert [one["id"] for one in found["cluster"]["brokers"]] == [1, 2]
    assert ask(port_of(server), "/live/node?path=/brokers/ids")[1]["children"] == ["1", "2"]
    assert {number: one["state"] for number, one in ask(port_of(server), "/brokers")[1].items()} == {
        "1": "running",
        "2": "running",
    }


@pytest.mark.parametrize("target", ["/live/state", "/live/node?path=/", "/live/picture"])
def test_reads_are_guarded_and_need_get(server: simzk.KafkaServer, target: str) -> None:
    assert fetch(server, target, Host="evil.example")[0] == 403
    assert fetch(server, target, Origin="http://evil.example")[0] == 403
    assert fetch(server, target, "POST")[0] == 405
    with simzk.KafkaServer(brokers=1, control_port=0, control_token="secret-of-this-test") as guarded:
        assert fetch(guarded, target)[0] == 401
        assert fetch(guarded, target, Authorization="Bearer secret-of-this-test")[0] == 200
        assert fetch(guarded, "/")[0] == 200


def test_verbs_of_the_page_need_a_post_of_our_own_page(server: simzk.KafkaServer) -> None:
    for verb in ("expire", "disconnect", "cut", "heal"):
        assert fetch(server, f"/brokers/2/{verb}")[0] == 405
        assert fetch(server, f"/brokers/2/{verb}", "POST", Origin="http://evil.example")[0] == 403
    assert fetch(server, "/brokers/2/cut", "POST")[0] == 200
    brokers = ask(port_of(server), "/live/state")[1]["cluster"]["brokers"]
    assert [one["cut_off"] for one in brokers] == [["broker 2"], ["zookeeper", "broker 1"]]
    assert fetch(server, "/brokers/2/heal", "POST")[0] == 200
    assert fetch(server, "/brokers/9/cut", "POST")[0] == 409


def test_a_picture_of_a_long_history_has_its_latest_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_control, "PICTURE_EVENTS_MAX", 20)
    with simzk.KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("first", partitions=3, replication_factor=3)
        for _ in range(3):
            cluster.kill(2)
            cluster.advance(30)
            cluster.restart(2)
            cluster.advance(30)
        picture = BrokerControl(cluster).picture()
        assert f"the latest 20 of {len(cluster.history)} events" in picture
        assert "topic created" not in picture
        assert "first-2" in picture
