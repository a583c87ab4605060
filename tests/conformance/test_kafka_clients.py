"""Clients that were not written here, at the brokers of `simzk kafka`, with their own tests.

    SIMZK_KAFKA_CLIENTS=~/.cache/simzk-kafka-clients pytest tests/conformance/test_kafka_clients.py

It fetches franz-go by Go's module proxy, kafka-python and aiokafka by pip into that folder, and needs `go` on PATH.
Two suites are in no package; whoever has them names their folders, and they run too:

    SIMZK_AIOKAFKA_TESTS=FOLDER     the folder `tests` of aiokafka 0.14
    SIMZK_LIBRDKAFKA_TESTS=FOLDER   the folder `tests` of librdkafka 2.0 with its program `test-runner`
    KAFKA_PATH=FOLDER               beside it: Kafka 3.9 with its `bin` and `libs`, for the tests that use its tools
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_kafka import running
from tests.conformance.downloads import filled

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE, AIOKAFKA_TESTS, LIBRDKAFKA_TESTS = "SIMZK_KAFKA_CLIENTS", "SIMZK_AIOKAFKA_TESTS", "SIMZK_LIBRDKAFKA_TESTS"
FRANZ_GO, AIOKAFKA, KAFKA_PYTHON = "v1.22.2", "0.14.0", "3.0.12"
MODULE = f"github.com/twmb/franz-go@{FRANZ_GO}"
HERE = Path(__file__).parent / "kafka_clients"
CLIENT = HERE / "aiokafka_client.py"
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
"""Tests of franz-go that pass, at least: those that need no broker are among them."""
KAFKA_PYTHON_PASSED, AIOKAFKA_PASSED, LIBRDKAFKA_PASSED = 45, 900, 100
"""Tests of the other suites that pass, at least."""
ONE_BROKER = """\
auto.create.topics.enable=true
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
allow.everyone.if.no.acl.found=true
default.replication.factor=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
"""
THREE_BROKERS = """\
auto.create.topics.enable=true
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
allow.everyone.if.no.acl.found=true
default.replication.factor=3
group.min.session.timeout.ms=1000
num.partitions=4
offsets.topic.num.partitions=5
transaction.state.log.num.partitions=5
"""
FAILS_AT_REAL = "0092"
"""librdkafka's test that fails at real brokers of 3.9.1 too: it alters a key twice in one request (KAFKA-13552)."""
TOOLS = "KAFKA_PATH"
NEEDS_TOOLS = ("0098_consumer_txn", "0109_auto_create_topics", "0115_producer_auth", "0119_consumer_auth")
"""librdkafka's tests that fail without Kafka's command line tools and clients in `KAFKA_PATH`."""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    """The addresses of three brokers of Kafka 3.9."""
    with _brokers(tmp_path, SETTINGS, "--brokers", "3") as addresses:
        yield addresses


@contextmanager
def _brokers(folder: Path, settings: str, *options: str) -> Iterator[str]:
    """Run brokers of Kafka 3.9; yield their addresses."""
    file = folder / "server.properties"
    file.write_text(settings)
    with running("--version", "3.9", "--config", str(file), *options) as (line, _):
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


def _pytest(folder: Path, tests: str, *options: str, **environment: str) -> str:
    """Run tests of another project with pytest; return what it said."""
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:simzk", "-c", os.devnull, "--rootdir", str(folder), "-rf"]
    return _run([sys.executable, "-m", "pytest", *plain, tests, *options], folder, **environment)


def _passed(said: str) -> int:
    """Return how many tests passed; fail if one did not."""
    # A thread of a test may print after pytest's last line.
    last = next((line for line in reversed(said.splitlines()) if re.search(r" in \d+\.\d+s", line)), "")
    assert "failed" not in last, said[-5000:]
    assert "error" not in last, said[-5000:]
    found = re.search(r"(\d+) passed", last)
    assert found is not None, said[-5000:]
    return int(found[1])


def _kafka_python(folder: Path) -> None:
    """Fetch kafka-python's source, and add the module that its distribution lacks."""
    name = f"kafka-python=={KAFKA_PYTHON}"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(folder), name]
    subprocess.run(pip, check=True)
    with tarfile.open(folder / f"kafka_python-{KAFKA_PYTHON}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    source = folder / f"kafka_python-{KAFKA_PYTHON}"
    (source / "test" / "__init__.py").touch()
    shutil.copyfile(HERE / "kafka_python_service.py", source / "test" / "service.py")
    (source / "no_servers").mkdir()


@pytest.mark.by_hand(CACHE)
@pytest.mark.timeout(SUITE_S)
def test_kafka_pythons_own_tests_pass(tmp_path: Path) -> None:
    folder = filled(_cache() / f"kafka-python-{KAFKA_PYTHON}", _kafka_python) / f"kafka_python-{KAFKA_PYTHON}"
    with _brokers(tmp_path, ONE_BROKER + "num.partitions=4\n", "--broker-ids", "0") as address:
        environment = {
            "KAFKA_VERSION": "3.9.1",
            "KAFKA_URI": f"kafka://{address}",
            "KAFKA_ROOT": str(folder / "no_servers"),
            "PYTHONPATH": str(folder),
        }
        # the tests with TLS, and those with SASL, which skip themselves, start brokers of their own
        without = ("--deselect", "test/integration/test_ssl_integration.py")
        said = _pytest(folder, "test/integration", *without, **environment)
    assert _passed(said) >= KAFKA_PYTHON_PASSED, said[-5000:]


@pytest.mark.by_hand(AIOKAFKA_TESTS)
@pytest.mark.by_hand(CACHE)
@pytest.mark.timeout(SUITE_S)
def test_aiokafkas_own_tests_pass(tmp_path: Path) -> None:
    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder)]
        subprocess.run([*pip, f"aiokafka=={AIOKAFKA}", "cramjam"], check=True)
        subprocess.run([*pip, "--no-deps", "pytest-asyncio==1.3.0", "pytest-mock==3.15.1"], check=True)

    installed = filled(_cache() / f"aiokafka-tests-{AIOKAFKA}", install)
    # beside its source, the tests would import that and not the compiled package
    shutil.copytree(Path(os.environ[AIOKAFKA_TESTS]).expanduser(), tmp_path / "tests")
    with _brokers(tmp_path, ONE_BROKER + "num.partitions=2\n", "--broker-ids", "0") as address:
        environment = {"SIMZK_AIOKAFKA_BROKER": address, "PYTHONPATH": f"{installed}{os.pathsep}{HERE}"}
        options = ("-p", "aiokafka_plugin", "--asyncio-mode", "auto", "--docker-image", "kafka:3.9.1")
        # Kerberos and TLS need files and ports of the container
        said = _pytest(tmp_path, "tests", *options, "-k", "not ssl and not sasl", **environment)
    assert _passed(said) >= AIOKAFKA_PASSED, said[-5000:]


@pytest.mark.by_hand(LIBRDKAFKA_TESTS)
@pytest.mark.timeout(SUITE_S)
def test_librdkafkas_own_tests_pass(tmp_path: Path) -> None:
    folder = Path(os.environ[LIBRDKAFKA_TESTS]).expanduser()
    with _brokers(tmp_path, THREE_BROKERS, "--brokers", "3", "--racks", "3") as addresses:
        configuration = tmp_path / "test.conf"
        configuration.write_text(f"metadata.broker.list={addresses}\ntest.topic.random=true\n")
        environment = {
            "RDKAFKA_TEST_CONF": str(configuration),
            "LD_LIBRARY_PATH": f"{folder.parent / 'src'}{os.pathsep}{folder.parent / 'src-cpp'}",
            "TEST_KAFKA_VERSION": "3.9.1",
            "TEST_LEVEL": "1",
            "TESTS_SKIP": FAILS_AT_REAL,
            "BROKERS": addresses,
        }
        said = _run(["./test-runner", "-p3", "-Q", "-E"], folder, **environment)
    said = re.sub(r"\x1b[^m]*m", "", said)
    rows = re.findall(r"^\| (0\d\d\d_\w+) +\| +(PASSED|FAILED) \|", said, re.MULTILINE)
    excused = set() if TOOLS in os.environ else set(NEEDS_TOOLS)
    assert {name for name, outcome in rows if outcome == "FAILED"} == excused, said[-5000:]
    assert len({name for name, outcome in rows if outcome == "PASSED"}) >= LIBRDKAFKA_PASSED, said[-5000:]
