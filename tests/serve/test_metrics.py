"""Metrics endpoint: every family of a recorded 3.9.5, by name, type, help and labels.

Its provider was that of zookeeper-prometheus-metrics 3.9.4, as there is none of 3.9.5 in Maven Central.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simzk.jvm.numbers import double_text
from simzk.serve.configuration.settings import Metrics, Settings
from simzk.zookeeper import requests as req
from tests.cli.test_serve import serving
from tests.serve.http_client import fetch
from tests.serve.served import Served, port_of, served, served_ensemble
from tests.serve.tcp_client import TcpClient, word

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "metrics_3.9.5.json").read_text())
# Of these a real server tells what is Java's alone, or what is counted by the first name of a path.
UNTOLD = re.compile(r"jvm_(?!pause)|.*_per_namespace$")
LINE = re.compile(r'(\w+)(?:\{((?:\w+="[^"]*",)+)\})? (-?[0-9.]+(?:E-?[0-9]+)?|NaN)')


@pytest.fixture
def server() -> Iterator[Served]:
    with served(Settings(admin_port=0, metrics=Metrics("127.0.0.1", 0))) as running:
        yield running


def families(text: str) -> dict[str, dict[str, Any]]:
    """Return the families of a page in the form of the recording."""
    reported: dict[str, dict[str, Any]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, about = line.split(" ", 3)
            reported[name] = {"help": about, "samples": []}
        elif line.startswith("# TYPE "):
            reported[name]["type"] = line.split(" ")[3]
        else:
            found = LINE.fullmatch(line)
            assert found is not None, line
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
            quantiles = [labels["quantile"]] if "quantile" in labels else []
            sample = [found[1], sorted(labels), quantiles]
            if sample not in reported[name]["samples"]:
                reported[name]["samples"].append(sample)
    return reported


def test_every_family_is_reported_as_by_a_real_server(server: Served) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        client.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
    status, headers, body = fetch(server.metrics_port, "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    reported = families(body.decode())
    assert reported.keys() == RECORDED.keys()
    for name, recorded in RECORDED.items():
        assert (reported[name]["type"], reported[name]["help"]) == (recorded["type"], recorded["help"])
        if UNTOLD.match(name):
            assert all(sample[1] for sample in recorded["samples"]) or name.startswith("jvm_")
        else:
            assert sorted(reported[name]["samples"]) == recorded["samples"], name


def test_numbers_are_the_servers(server: Served) -> None:
    with TcpClient(server.port) as client:
        client.connect()
        client.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
        client.ask(req.GetData("/a", False))
        lines = fetch(server.metrics_port, "/metrics")[2].decode().splitlines()
    for line in ("znode_count 6.0", "num_alive_connections 1.0", "readlatency_count 1.0", "updatelatency_count 2.0"):
        assert line in lines
    assert 'fsynctime{quantile="0.5",} NaN' in lines


def test_some_are_reported_by_name(server: Served) -> None:
    body = fetch(server.metrics_port, "/metrics?name[]=znode_count&name[]=readlatency_count")[2].decode()
    # As a real server tells them.
    assert body == (
        "# HELP znode_count znode_count\n# TYPE znode_count gauge\nznode_count 5.0\n"
        "# HELP readlatency readlatency\n# TYPE readlatency summary\nreadlatency_count 0.0\n"
    )


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/metrics", 200),
        ("POST", "/", 405),
        ("PUT", "/metrics", 405),
        ("PUT", "/", 405),
        ("TRACE", "/metrics", 403),
        ("OPTIONS", "/metrics", 200),
        ("OPTIONS", "/", 200),
        ("FOO", "/metrics", 501),
    ],
)
def test_statuses_are_a_real_servers(server: Served, method: str, target: str, status: int) -> None:
    assert fetch(server.metrics_port, target, method)[0] == status


def test_mntr_and_the_command_tell_them_in_that_form(server: Served) -> None:
    """As recorded: keys have their labels, numbers are doubles, and version and state come first."""
    with TcpClient(server.port) as client:
        client.connect()
        client.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
    lines = word(server.port, b"mntr").splitlines()
    assert [line.partition("\t")[0] for line in lines[:2]] == ["zk_version", "zk_server_state"]
    reported = dict(line.removeprefix("zk_").split("\t") for line in lines)
    assert reported['fsynctime{quantile="0.5"}'] == "NaN"
    assert (reported["znode_count"], reported["updatelatency_count"]) == ("6.0", "2.0")
    assert any(key.startswith('jvm_info{version="') and key.endswith('"}') for key in reported)
    body = fetch(server.admin_port, "/commands/monitor")[2].decode()
    assert '\n  "znode_count" : 6.0,\n' in body
    assert '\n  "fsynctime{quantile=\\"0.5\\"}" : "NaN",\n' in body
    assert json.loads(body).keys() == reported.keys() | {"command", "error"}


def test_nothing_is_counted_where_nobody_asks() -> None:
    with served(Settings(admin_port=0, counts=False)) as server:
        reported = word(server.port, b"mntr").splitlines()
        assert [line.partition("\t")[0] for line in reported] == ["zk_version", "zk_server_state"]
        body = json.loads(fetch(server.admin_port, "/commands/monitor")[2])
        assert list(body) == ["version", "server_state", "command", "error"]


def test_without_the_process(server: Served) -> None:
    body = fetch(server.admin_port, "/metrics")[2].decode()
    assert not [name for name in families(body) if name.startswith(("process_", "jvm_")) and "pause" not in name]


# Double.toString of Java 17.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (-1, "-1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999, "9999999.0"),
        (10000000, "1.0E7"),
        (1.795278955097e9, "1.795278955097E9"),
        (2.993934336e9, "2.993934336E9"),
        (-12345678.5, "-1.23456785E7"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert double_text(value) == text


def test_a_zoo_cfg_opens_the_port(tmp_path: Path) -> None:
    config = tmp_path / "zoo.cfg"
    config.write_text(
        f"dataDir={tmp_path}/data\nclientPort=0\nadmin.enableServer=false\nmetricsProvider.httpPort=0\n"
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n"
        "metricsProvider.httpHost=127.0.0.1\nmetricsProvider.exportJvmInfo=false\n"
    )
    with serving("--config", str(config)) as process:
        assert process.popen.stderr is not None
        line = process.popen.stderr.readline()
        assert line.startswith("simzk: metrics on http://127.0.0.1:")
        body = fetch(int(line.rpartition("/")[0].rpartition(":")[2]), "/metrics")[2].decode()
        assert "znode_count 5.0" in body
        assert "process_cpu" not in body


def test_each_server_of_an_ensemble_has_its_own() -> None:
    with served_ensemble(Settings(metrics=Metrics("127.0.0.1", 0))) as ensemble:
        ports = [port_of(metrics) for metrics in ensemble.tcp.metrics.values()]
        reported = [fetch(port, "/metrics")[2].decode() for port in ports]
        assert ["\nlearners 2.0\n" in text for text in reported].count(True) == 1
