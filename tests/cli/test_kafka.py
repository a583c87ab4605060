"""`simzk kafka`: the first line, the HTTP control, settings, the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from simzk.cli.kafka import main
from simzk.errors import SimzkError
from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

PROGRAM = "from simzk.cli import main; main()"


@contextmanager
def running(*options: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """Run the command; yield its first line and the process, which SIGTERM ends."""
    command = [sys.executable, "-c", PROGRAM, "kafka", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline()), process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def test_the_cluster_has_the_given_id_and_zookeeper_the_given_tick() -> None:
    with running("--cluster-id", "my-cluster", "--tick-time", "500", "--brokers", "1") as (said, _):
        assert said["cluster_id"] == "my-cluster"
        client = KazooClient(said["zookeeper"], timeout=0.5)
        client.start(PATIENCE_S)
        assert json.loads(client.get("/cluster/id")[0])["id"] == "my-cluster"
        assert b"tickTime=500" in client.command(b"conf").encode()
        client.stop()
        client.close()


def test_a_file_names_the_listeners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0\nadvertised.listeners=INSIDE://localhost:0,OUTSIDE://:0\n"
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT\ninter.broker.listener.name=INSIDE\n"
    )
    with running("--config", str(file), "--brokers", "2") as (line, _):
        assert list(line["listeners"]) == ["INSIDE", "OUTSIDE"]
        assert line["bootstrap_servers"] == line["listeners"]["OUTSIDE"]
        admin = AdminClient({"bootstrap.servers": line["listeners"]["INSIDE"], "log_level": 0})
        brokers = admin.list_topics(timeout=PATIENCE_S).brokers.values()
        assert {f"{one.host}:{one.port}" for one in brokers} == set(line["listeners"]["INSIDE"].split(","))
    with pytest.raises(SimzkError, match=r"^--port: it cannot be combined with listeners in --config"):
        main(["--config", str(file), "--port", "0"])
    assert capsys.readouterr().err == ""


def http(method: str, url: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, Any]]:
    """Send a request; return status and body."""
    request = Request(url, body if method == "POST" else None, headers, method=method)
    try:
        with urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def states(control: str) -> dict[str, str]:
    """Return the state of each broker."""
    return {number: broker["state"] for number, broker in http("GET", f"{control}/brokers")[1].items()}


def test_control_over_http() -> None:
    with running("--broker-ids", "0,1,2") as (line, process):
        control = line["control"]
        assert line["bootstrap_servers"] == ",".join(line["brokers"].values())
        status, brokers = http("GET", f"{control}/brokers")
        assert status == 200
        assert {number: one["address"] for number, one in brokers.items()} == line["brokers"]
        assert [number for number, one in brokers.items() if one["is_controller"]] == ["0"]
        done: dict[str, object] = {"error": None}
        assert http("POST", f"{control}/brokers/1/stop") == (200, done)
        assert states(control) == {"0": "running", "1": "stopped", "2": "running"}
        assert http("POST", f"{control}/brokers/1/kill")[0] == 409
        assert http("POST", f"{control}/brokers/1/start", b"num.partitions=x")[0] == 400
        assert http("POST", f"{control}/brokers/1/start", b"num.partitions=4\nnum.io.threads=8\n") == (200, done)
        assert http("POST", f"{control}/brokers/1/start")[0] == 409
        assert http("POST", f"{control}/brokers/2/pause") == (200, done)
        assert states(control)["2"] == "paused"
        assert http("POST", f"{control}/brokers/2/resume") == (200, done)
        assert http("POST", f"{control}/brokers/2/kill") == (200, done)
        assert http("POST", f"{control}/advance?seconds=30") == (200, done)
        assert http("POST", f"{control}/advance?seconds=-1")[0] == 400
        assert http("POST", f"{control}/brokers/7/kill")[0] == 404
        assert http("POST", f"{control}/brokers/1/explode")[0] == 404
        assert http("GET", f"{control}/brokers/1/kill")[0] == 405
        assert http("POST", f"{control}/brokers/1/kill", Origin="http://example.org")[0] == 403
        assert http("GET", f"{control}/faults")[1]["rules"] == []
        added = http("POST", f"{control}/broker_faults/fail_next?api=Produce&error=NOT_ENOUGH_REPLICAS&n=3&topic=a")[1]
        assert (added["rule"], added["action"], added["times"]) == (1, "fail", 3)
        assert http("POST", f"{control}/broker_faults/delay?seconds=2&client_id=c&broker=1&n=all")[0] == 200
        rules = http("GET", f"{control}/broker_faults")[1]["rules"]
        assert [(rule["api"], rule["topic"], rule["from"]) for rule in rules] == [
            ("Produce", "a", None),
            (None, None, "client c at broker 1"),
        ]
        assert http("POST", f"{control}/broker_faults/clear")[0] == 200
        assert http("GET", f"{control}/broker_faults")[1]["rules"] == []
        assert http("POST", f"{control}/broker_faults/fail_next?api=Produce&error=NO_SUCH_ERROR")[0] == 400
        assert http("GET", f"{control}/broker_faults/clear")[0] == 405
    assert process.returncode == 0


def test_servers_of_an_ensemble_over_http() -> None:
    with running("--zookeeper-servers", "3") as (line, _):
        control = line["control"]
        done: dict[str, object] = {"error": None}

        def servers() -> dict[str, Any]:
            return http("GET", f"{control}/zookeeper")[1]

        assert {number: one["state"] for number, one in servers().items()} == dict.fromkeys("123", "running")
        (leader,) = (number for number, one in servers().items() if one["is_leader"])
        assert http("POST", f"{control}/zookeeper/{leader}/kill") == (200, done)
        assert http("POST", f"{control}/zookeeper/{leader}/pause")[0] == 409
        assert http("POST", f"{control}/advance?seconds=5") == (200, done)
        (other,) = (number for number, one in servers().items() if one["is_leader"])
        assert other != leader
        assert http("POST", f"{control}/zookeeper/{leader}/start") == (200, done)
        assert http("POST", f"{control}/zookeeper/{leader}/pause") == (200, done)
        assert servers()[leader]["state"] == "paused"
        assert http("POST", f"{control}/zookeeper/{leader}/resume") == (200, done)
        assert http("POST", f"{control}/zookeeper/{leader}/cut") == (200, done)
        assert servers()[leader]["is_cut_off"]
        assert http("POST", f"{control}/zookeeper/{leader}/heal") == (200, done)
        assert http("POST", f"{control}/zookeeper/{leader}/cut?broker=2") == (200, done)
        assert http("POST", f"{control}/zookeeper/{leader}/heal?broker=2") == (200, done)
        assert not servers()[leader]["is_cut_off"]
        assert http("POST", f"{control}/zookeeper/1/cut?broker=9")[0] == 400
        assert http("POST", f"{control}/zookeeper/1/cut?broker=x")[0] == 400
        assert http("POST", f"{control}/zookeeper/1/kill?broker=1")[0] == 400
        assert http("POST", f"{control}/zookeeper/4/kill")[0] == 404
        assert http("POST", f"{control}/zookeeper/1/explode")[0] == 404
        assert http("GET", f"{control}/zookeeper/1/kill")[0] == 405
        assert http("POST", f"{control}/zookeeper/1/kill", Origin="http://example.org")[0] == 403


def test_one_zookeeper_server_has_no_verbs_of_single_servers() -> None:
    with running("--brokers", "1") as (line, _):
        assert http("GET", f"{line['control']}/zookeeper") == (200, {})
        assert http("POST", f"{line['control']}/zookeeper/1/kill")[0] == 404


def test_a_token_is_asked_for() -> None:
    with running("--brokers", "1", "--control-token", "secret") as (line, _):
        assert http("POST", f"{line['control']}/advance?seconds=1")[0] == 401
        assert http("POST", f"{line['control']}/advance?seconds=1", Authorization="Bearer secret")[0] == 200


def test_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nbroker.1.broker.rack=a\nbroker.2.num.partitions=3\nnum.io.threads=8\n")
    with running("--brokers", "2", "--config", str(file)) as (_, process):
        pass
    assert process.stderr is not None
    assert process.stderr.closed or process.returncode == 0


def test_the_steps_of_a_scenario_happen(tmp_path: Path) -> None:
    with running("broker_failure") as (line, _):
        control = line["control"]
        assert set(states(control).values()) == {"running"}
        assert http("POST", f"{control}/advance?seconds=30")[0] == 200
        assert states(control) == {"1": "running", "2": "stopped", "3": "running"}
        assert http("POST", f"{control}/advance?seconds=60")[0] == 200
        assert set(states(control).values()) == {"running"}


def test_a_layout_is_served(tmp_path: Path) -> None:
    layout = generate_layout(brokers_in_racks(3, 3), topics=2, partitions=6, replication_factor=3, seed=1)
    file = tmp_path / "layout.parquet"
    write_layout(layout, file)
    with running(str(file), "--version", "3.4") as (line, _):
        client = KazooClient(line["zookeeper"])
        client.start(PATIENCE_S)
        addresses = {}
        for broker in line["brokers"]:
            found = json.loads(client.get(f"/brokers/ids/{broker}")[0])
            addresses[broker] = f"{found['host']}:{found['port']}"
        client.stop()
        client.close()
        assert addresses == line["brokers"]
        admin = AdminClient({"bootstrap.servers": line["bootstrap_servers"], "log_level": 0})
        topics = admin.list_topics(timeout=PATIENCE_S).topics
        assert sum(len(topic.partitions) for topic in topics.values()) == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["broker_failure", "--brokers", "3"], "--brokers: it cannot be combined with a file"),
        (["broker_failure", "--version", "2.8"], "--version: it cannot be combined with a file"),
        (["no_such_scenario"], "no_such_scenario"),
        (["--version", "0.7"], "Kafka '0.7' is not simulated"),
        (["--config", "no/such/file"], "No such file"),
        (["--brokers", "0"], "brokers are 0"),
        (["--host", "192.0.2.1"], "cannot listen"),
    ],
)
def test_invalid_options(options: list[str], message: str) -> None:
    with pytest.raises(SimzkError, match=message):
        main(["--json", *options])
