"""`simzk.KafkaServer` beside franz-go's kfake and real brokers of Kafka 3.9.1: start, Metadata, records, connections.

    python -m benchmarks.kafka_server [--json OUT] [--rounds N] [--without kfake,kafka]

Each peer serves alone, in processes of its own, and is asked the same by the same clients:
  - start: `KafkaServer()` and its `close` in a process that has done so before; the cold command of each peer until
    three brokers serve and have a topic. simzk is byte-compiled first, as an installation has it;
  - Metadata of 10,000 partitions in 100 topics by one connection, frame to frame: the first answer, and the median of
    those that follow. Real brokers have one replica a partition instead of three, which are 60,000 fewer files;
  - librdkafka with its default batching produces records of 1 kB with acks of all to three partitions, at 10,000 a
    second and as fast as it can, then consumes them. A processor's time is that of the peer's processes;
  - 1,000 connections to one broker, of which each asks for ApiVersions.

kfake is built by Go in a temporary folder (kfake_server.go), which takes a minute when Go has not built it before. Real
brokers need Java and their jars, which are fetched. A peer that this machine cannot run is left out and named.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import simzk
from benchmarks.figures import Figure, medians, write_figures
from simzk.kafka.protocol.codec import encode_request
from simzk.kafka.protocol.messages import ApiVersionsRequest, MetadataRequest
from simzk.partitions.layouts import brokers_in_racks, generate_layout, write_layout
from tests.conformance.real_kafka.cluster import BROKERS, RealCluster, until
from tests.conformance.real_kafka.releases import RELEASES, jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from simzk.kafka.protocol.structs import Message

START_MS_AT_MOST, STOP_MS_AT_MOST = 50, 10
METADATA_MS_AT_MOST = 5
RATE_AT_LEAST = 10_000
CONNECTIONS = 1_000
LARGE_TOPICS, LARGE_PARTITIONS = 100, 10_000
TOPIC, PARTITIONS = "produced", 3
RECORD = b"x" * 1000
SECONDS = 3
"""How long records are produced at the demanded rate."""
METADATA_VERSION, API_VERSIONS_VERSION = 12, 3
RELEASE = next(release for release in RELEASES if release.version == "3.9.1")
KFAKE = Path(__file__).with_name("kfake_server.go")
KFAKE_MODULE = """\
module kfake_server

go 1.26.0

require (
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c
)
"""
QUIET = {"log_level": 2}
"""librdkafka tells nothing of connections that end with the server."""
PATIENCE_S = 300


class Served(NamedTuple):
    """Brokers that serve, and their processes."""

    addresses: list[str]
    pids: list[int]

    def processor_s(self) -> float:
        """Return the processor time of the processes so far, with that of the system on their behalf."""
        taken = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            taken += int(fields[11]) + int(fields[12])
        return taken / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Return the memory of the processes."""
        pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids)
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def bootstrap(self) -> str:
        """Addresses as a client's list."""
        return ",".join(self.addresses)


class Serve(Protocol):
    """Start a peer, with 10,000 partitions or without; it serves in the block."""

    def __call__(self, is_large: bool, /) -> AbstractContextManager[Served]: ...


# -- the peers


@contextlib.contextmanager
def process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.terminate()


@contextlib.contextmanager
def serve_simzk(is_large: bool) -> Iterator[Served]:
    """`simzk kafka`, of a layout if it has 10,000 partitions."""
    command = [sys.executable, "-m", "simzk", "kafka", "--json"]
    with contextlib.ExitStack() as stack:
        if is_large:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "layout.json"
            brokers = brokers_in_racks(3, 3)
            layout = generate_layout(
                brokers, topics=LARGE_TOPICS, partitions=LARGE_PARTITIONS, replication_factor=3, seed=1
            )
            write_layout(layout, file)
            command.append(str(file))
        started = stack.enter_context(process(command))
        assert started.stdout is not None
        addresses = list(json.loads(started.stdout.readline())["brokers"].values())
        if not is_large:
            create_topics(addresses, {TOPIC: PARTITIONS}, replication_factor=3)
        yield Served(addresses, [started.pid])


@contextlib.contextmanager
def serve_kfake(program: Path, is_large: bool) -> Iterator[Served]:
    """A cluster of kfake."""
    topics = large_topics() if is_large else {TOPIC: PARTITIONS}
    with process([str(program), *(f"{name}:{count}" for name, count in topics.items())]) as started:
        assert started.stdout is not None
        yield Served(started.stdout.readline().strip().split(","), [started.pid])


class RealBrokers(RealCluster):
    """Real brokers with the memory and the compiler of a real cluster."""

    def _java(self) -> list[str]:
        return ["-Xmx1g" if word == "-Xmx256m" else word for word in super()._java() if "Tiered" not in word]

    def start_all(self) -> Self:
        """Start all brokers at once, and wait until they are registered."""
        for broker in BROKERS:
            self.launch(broker)
        until(lambda: all(self.session(broker) is not None for broker in BROKERS), lambda: "a broker is missing")
        return self

    def served(self) -> Served:
        """Return the addresses and processes of the brokers."""
        return Served(self.bootstrap.split(","), [started.pid for started in self._brokers.values()])


@contextlib.contextmanager
def serve_kafka(folder_of_jars: Path, is_large: bool) -> Iterator[Served]:
    """Three real brokers, on a ZooKeeper of simzk."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RealBrokers(RELEASE, folder_of_jars, Path(folder)) as cluster,
    ):
        served = cluster.start_all().served()
        topics = large_topics() if is_large else {TOPIC: PARTITIONS}
        create_topics(served.addresses, topics, replication_factor=1 if is_large else 3)
        yield served


def large_topics() -> dict[str, int]:
    """Return the topics of a large cluster, with their numbers of partitions."""
    return {f"topic-{number}": LARGE_PARTITIONS // LARGE_TOPICS for number in range(LARGE_TOPICS)}


def create_topics(addresses: list[str], topics: Mapping[str, int], *, replication_factor: int) -> None:
    """Create topics, and wait until each broker knows their partitions."""
    admin = AdminClient({"bootstrap.servers": ",".join(addresses), **QUIET})
    for name, count in topics.items():
        admin.create_topics([NewTopic(name, count, replication_factor)])[name].result(PATIENCE_S)
    for address in addresses:
        asked = AdminClient({"bootstrap.servers": address, **QUIET})
        until(
            lambda asked=asked: all(  # type: ignore[misc]
                name in known and all(one.leader >= 0 for one in known[name].partitions.values())
                for known in [asked.list_topics(timeout=30).topics]
                for name in topics
            ),
            lambda: f"{address} does not know the topics",  # noqa: B023 - called in the loop
        )


@contextlib.contextmanager
def built_kfake(go: str) -> Iterator[Path]:
    """The program of kfake, which Go fetches and builds."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "go.mod").write_text(KFAKE_MODULE)
        shutil.copy(KFAKE, folder)
        print("building kfake", file=sys.stderr)
        subprocess.run([go, "build", "-mod=mod", "-o", "kfake", "."], cwd=folder, check=True)
        yield Path(folder) / "kfake"


def peers(
    stack: contextlib.ExitStack, without: set[str]
) -> dict[str, Callable[[bool], AbstractContextManager[Served]]]:
    """Return simzk, and the peers that this machine can run."""
    found: dict[str, Callable[[bool], AbstractContextManager[Served]]] = {"simzk": serve_simzk}
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if "kfake" not in without and go is not None:
        program = stack.enter_context(built_kfake(go))
        found["kfake"] = lambda is_large: serve_kfake(program, is_large)
    if "kafka" not in without and shutil.which("java") is not None:
        folder = jars(RELEASE)
        found["kafka"] = lambda is_large: serve_kafka(folder, is_large)
    missing = {"kfake": "Go", "kafka": "Java"}
    for name in missing.keys() - found.keys() - without:
        print(f"{name} is left out: {missing[name]} is not installed", file=sys.stderr)
    return found


# -- what is measured


class Connection:
    """A plain connection to a broker."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = self._socket.makefile("rb")

    def send(self, frame: bytes) -> None:
        """Send the frame of a request."""
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self) -> bytes:
        """Return the frame of a response."""
        return self._received.read(int.from_bytes(self._received.read(4), "big"))

    def close(self) -> None:
        """Close the connection."""
        self._received.close()
        self._socket.close()


def frame_of(request: Message, version: int) -> bytes:
    """Return the frame of a request."""
    return encode_request(request, version, correlation_id=1, client_id="benchmark")


def metadata(served: Served, rounds: int) -> dict[str, float]:
    """Return the milliseconds of Metadata of all partitions, and those of the processor for each request."""
    connection, frame = Connection(served.addresses[0]), frame_of(MetadataRequest(topics=None), METADATA_VERSION)
    connection.send(frame_of(ApiVersionsRequest(client_software_name="b", client_software_version="1"), 3))
    connection.receive()
    walls_ms, size = [], 0
    begun_s = served.processor_s()
    for _ in range(rounds * 10 + 1):
        asked_s = time.perf_counter()
        connection.send(frame)
        size = len(connection.receive())
        walls_ms.append((time.perf_counter() - asked_s) * 1e3)
    cpu_ms = (served.processor_s() - begun_s) * 1e3 / len(walls_ms)
    connection.close()
    return {
        "first_ms": round(walls_ms[0], 2),
        "ms": round(statistics.median(walls_ms[1:]), 2),
        "cpu_ms": round(cpu_ms, 2),
        "response_bytes": size,
    }


class Records(NamedTuple):
    """Records by librdkafka: a rate per second, and the peer's processor time for each record."""

    per_second: float
    cpu_us: float


def produce(served: Served, count: int, rate: float) -> Records:
    """Produce records with acks of all at a rate, and wait until all are acknowledged."""
    limits = {"queue.buffering.max.messages": 10 * count}
    producer = confluent_kafka.Producer({"bootstrap.servers": served.bootstrap, "acks": "all", **limits, **QUIET})
    failed: list[object] = []

    def note(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    for partition in range(PARTITIONS):
        producer.produce(TOPIC, RECORD, partition=partition, on_delivery=note)
    producer.flush(PATIENCE_S)
    cpu_s, begun_s = served.processor_s(), time.perf_counter()
    for number in range(1, count + 1):
        producer.produce(TOPIC, RECORD, on_delivery=note)
        if number % 100 == 0:
            producer.poll(0)
            ahead_s = number / rate - (time.perf_counter() - begun_s)
            if ahead_s > 0:
                time.sleep(ahead_s)
    left = producer.flush(PATIENCE_S)
    taken_s, cpu_s = time.perf_counter() - begun_s, served.processor_s() - cpu_s
    assert not left, f"{left} records are not acknowledged"
    assert not failed, failed[:3]
    return Records(round(count / taken_s), round(cpu_s / count * 1e6, 2))


def consume(served: Served, count: int) -> Records:
    """Consume records of a topic from its beginning."""
    options = {"bootstrap.servers": served.bootstrap, "group.id": "benchmark", "enable.auto.commit": False, **QUIET}
    consumer = confluent_kafka.Consumer(options)
    begins = [confluent_kafka.TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    consumer.assign(begins)
    first = consumer.poll(PATIENCE_S)
    assert first is not None, "nothing to consume"
    assert first.error() is None, first.error()
    cpu_s, begun_s, consumed = served.processor_s(), time.perf_counter(), 1
    while consumed < count:
        found = consumer.consume(min(1_000, count - consumed), PATIENCE_S)
        assert found, f"{consumed} of {count} records"
        consumed += len(found)
    taken_s, cpu_s = time.perf_counter() - begun_s, served.processor_s() - cpu_s
    consumer.close()
    return Records(round(count / taken_s), round(cpu_s / count * 1e6, 2))


def connect(served: Served) -> dict[str, float]:
    """Open connections that each ask for ApiVersions; return how many are answered, the time, and memory for each."""
    version = API_VERSIONS_VERSION
    frame = frame_of(ApiVersionsRequest(client_software_name="benchmark", client_software_version="1"), version)
    before, begun_s, cpu_s = served.resident_bytes(), time.perf_counter(), served.processor_s()
    connections = [Connection(served.addresses[0]) for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.send(frame)
    answered = sum(len(connection.receive()) > 0 for connection in connections)
    taken_ms = (time.perf_counter() - begun_s) * 1e3
    cpu_ms, kilobytes = (served.processor_s() - cpu_s) * 1e3, (served.resident_bytes() - before) / 1024
    for connection in connections:
        connection.close()
    return {
        "answered": answered,
        "ms": round(taken_ms, 1),
        "cpu_ms": round(cpu_ms, 1),
        "kb_each": round(kilobytes / CONNECTIONS, 1),
    }


def warm_start(rounds: int) -> dict[str, dict[str, float]]:
    """Return the milliseconds of start and stop of a cluster in a process that has had one before."""
    made: list[simzk.KafkaServer] = []
    return medians(
        {"start": lambda: made.append(simzk.KafkaServer()), "stop": lambda: made.pop().close()}, rounds=rounds * 4
    )


def measure(serve: Serve, rounds: int) -> tuple[dict[str, float], dict[str, object]]:
    """Return all figures of a peer, with their details."""
    details: dict[str, object] = {}
    begun_s = time.perf_counter()
    with serve(False) as served:
        start_ms = (time.perf_counter() - begun_s) * 1e3
        paced = [produce(served, RATE_AT_LEAST * SECONDS, RATE_AT_LEAST) for _ in range(rounds)]
        fast = [produce(served, RATE_AT_LEAST * SECONDS, float("inf")) for _ in range(rounds)]
        written = (RATE_AT_LEAST * SECONDS + PARTITIONS) * rounds * 2
        consumed = [consume(served, written) for _ in range(rounds)]
        details["connections"] = connected = connect(served)
    with serve(True) as served:
        details["metadata"] = found = metadata(served, rounds)
    details |= {"paced": paced, "fast": fast, "consumed": consumed}
    return {
        "start ms": round(start_ms),
        "Metadata ms": found["ms"],
        "first Metadata ms": found["first_ms"],
        "Metadata cpu ms": found["cpu_ms"],
        "paced/s": statistics.median(one.per_second for one in paced),
        "paced cpu us": statistics.median(one.cpu_us for one in paced),
        "fast/s": statistics.median(one.per_second for one in fast),
        "consumed/s": statistics.median(one.per_second for one in consumed),
        "consumed cpu us": statistics.median(one.cpu_us for one in consumed),
        "connections": connected["answered"],
        "connections ms": connected["ms"],
        "connection kB": connected["kb_each"],
    }, details


class Row(NamedTuple):
    """A figure of each peer; the demand is for simzk only."""

    key: str
    name: str
    unit: str
    at_most: float | None = None
    at_least: float | None = None


ROWS = (
    Row("start ms", "command until three brokers serve and have a topic", "ms"),
    Row("Metadata ms", "Metadata of 10,000 partitions", "ms", at_most=METADATA_MS_AT_MOST),
    Row("first Metadata ms", "the first Metadata of 10,000 partitions", "ms"),
    Row("Metadata cpu ms", "Metadata of 10,000 partitions, processor", "ms"),
    # What is produced at a rate is all acknowledged some milliseconds after the last one is sent.
    Row("paced/s", "records produced at 10,000 per second", "per second", at_least=0.98 * RATE_AT_LEAST),
    Row("paced cpu us", "the same, processor", "us per record"),
    Row("fast/s", "records produced as fast as possible", "per second", at_least=RATE_AT_LEAST),
    Row("consumed/s", "records consumed", "per second", at_least=RATE_AT_LEAST),
    Row("consumed cpu us", "the same, processor", "us per record"),
    Row("connections", "connections answered", "connections", at_least=CONNECTIONS),
    Row("connections ms", "1,000 connections made and answered", "ms"),
    Row("connection kB", "memory of a connection", "kB"),
)


def main() -> None:
    """Measure all and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    parser.add_argument("--rounds", type=int, default=3, help="Rounds of each measurement [default: 3].")
    parser.add_argument("--without", default="", help="Peers to leave out, such as kfake,kafka.")
    options = parser.parse_args()
    figures, details = list[Figure](), dict[str, object]()
    compileall.compile_dir(Path(simzk.__file__).parent, quiet=1)
    details["warm start"] = warm = warm_start(options.rounds)
    for name, most in (("start", START_MS_AT_MOST), ("stop", STOP_MS_AT_MOST)):
        figures.append(Figure(f"simzk: warm {name} of three brokers", warm[name]["wall_ms"], "ms", at_most=most))
        figures.append(Figure(f"simzk: warm {name} of three brokers, processor", warm[name]["cpu_ms"], "ms"))
    with contextlib.ExitStack() as stack:
        for peer, serve in peers(stack, set(options.without.split(","))).items():
            print(f"measuring {peer}", file=sys.stderr)
            measured, details[peer] = measure(serve, options.rounds)
            for row in ROWS:
                limits = (row.at_most, row.at_least) if peer == "simzk" else (None, None)
                figures.append(Figure(f"{peer}: {row.name}", measured[row.key], row.unit, *limits))
    write_figures("kafka_server", figures, details, options.json)


if __name__ == "__main__":
    main()
