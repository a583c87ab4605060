"""Clients that were not written here, at the brokers of `simzk kafka`: franz-go's own tests of `kgo`, and aiokafka.

    SIMZK_KAFKA_CLIENTS=~/.cache/simzk-kafka-clients pytest tests/conformance/test_kafka_clients.py

It fetches both into that folder, by Go's module proxy and by pip, and needs `go` on PATH.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_kafka import running
from tests.conformance.downloads import filled

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE = "SIMZK_KAFKA_CLIENTS"
FRANZ_GO, AIOKAFKA = "v1.22.2", "0.14.0"
MODULE = f"github.com/twmb/franz-go@{FRANZ_GO}"
CLIENT = Path(__file__).parent / "kafka_clients" / "aiokafka_client.py"
SETTINGS = "group.initial.rebalance.delay.ms=0\noffsets.topic.num.partitions=5\n"
RECORDS = 5000
"""Records of a test of franz-go; 500,000 by default."""
SUITE_S = 1200
WITHOUT = {
    "Share": "share groups need Kafka 4",
    "848": "the new group protocol needs a cluster without ZooKeeper",
    "SCRAM": "it needs a listener with SASL",
}
"""Tests of franz-go that are left out, by a part of their names, with the reason."""
PASSED_MIN = 60
"""Tests that pass, at least: those that need no broker are among them."""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    """The addresses of three brokers of Kafka 3.9."""
    file = tmp_path / "server.properties"
    file.write_text(SETTINGS)
    with running("--version", "3.9", "--brokers", "3", "--config", str(file)) as (line, _):
        yield line["bootstrap_servers"]


def _cache() -> Path:
    return Path(os.environ[CACHE]).expanduser().resolve()


def _run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=SUITE_S, check=False
    )
    return done.stderr + done.stdout


def _build(folder: Path) -> None:
    """Fetch franz-go, and build the tests of its client."""
    go = shutil.which("go")
    assert go is not None, "there is no `go` on PATH"
    _run([go, "mod", "download", MODULE], folder)
    source = _run([go, "env", "GOMODCACHE"], folder).strip()
    shutil.copytree(Path(source) / MODULE, folder / "source", copy_function=shutil.copyfile)
    for path in (folder / "source").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    said = _run([go, "test", "-mod=mod", "-c", "-o", str(folder / "kgo.test"), "./pkg/kgo"], folder / "source")
    assert (folder / "kgo.test").exists(), said


@pytest.mark.by_hand(CACHE)
@pytest.mark.timeout(SUITE_S)
def test_franz_gos_own_tests_pass(servers: str) -> None:
    folder = filled(_cache() / f"franz-go-{FRANZ_GO}", _build)
    command = [str(folder / "kgo.test"), "-test.v", f"-test.timeout={SUITE_S - 60}s", "-test.skip", "|".join(WITHOUT)]
    environment = {"KGO_SEEDS": servers, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS)}
    said = _run(command, folder / "source" / "pkg" / "kgo", **environment)
    assert re.findall(r"^ *--- FAIL.*|^panic.*", said, re.MULTILINE) == [], said[-5000:]
    assert len(re.findall(r"^--- PASS", said, re.MULTILINE)) >= PASSED_MIN, said[-5000:]
    assert said.rstrip().endswith("PASS"), said[-5000:]


@pytest.mark.by_hand(CACHE)
@pytest.mark.timeout(SUITE_S)
def test_aiokafka_produces_consumes_and_rebalances(servers: str) -> None:
    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), f"aiokafka=={AIOKAFKA}"]
        subprocess.run(pip, check=True)

    folder = filled(_cache() / f"aiokafka-{AIOKAFKA}", install)
    said = _run([sys.executable, str(CLIENT), servers], folder, PYTHONPATH=str(folder))
    assert said.splitlines()[-1] == "done", said
