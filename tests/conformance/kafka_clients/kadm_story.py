"""Calls of franz-go's admin client kadm at three brokers, and what depends on chance in the answers.

Rules of this module:
  - `kadm_client.go` makes the calls, one step after the other, and prints each answer as JSON;
  - a step that only reads may be asked again: brokers learn of a change one after the other;
  - three brokers of real Kafka gave the recorded answers: `tests/conformance/real_kafka/record_kadm.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tests.conformance.downloads import filled
from tests.conformance.real_kafka.cluster import BROKERS, LOOK_S, settings_without_places
from tests.kafka.recorded_lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

VERSION = "v1.20.0"
RELEASES = ("0.10.2.2", "0.11.0.3", "2.4.1", "2.8.2", "3.9.1")
RECORDINGS = Path(__file__).parent / "data"
BUILD_S = 600
PLACED_BY_CHANCE = {"plain", "gone", "defaults", "__consumer_offsets", "__transaction_state"}
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA=="
CHANCE = {"Port", "Cluster", "ClusterID", "StartTimestamp", "LastTimestamp", "ProducerID", "TotalBytes", "UsableBytes"}
"""Fields with a value that depends on chance, if it is a text or not negative."""
NO_PRODUCER = 987654
"""The id of a producer that does not exist."""
CALLER = "User:ANONYMOUS"


class Step(NamedTuple):
    """A step of the story."""

    name: str
    reads: bool


class Kadm:
    """The program, connected to a cluster.

    Args:
        program: the compiled program.
        addresses: the brokers' addresses.
        folder: a folder whose name may stand in answers.
    """

    def __init__(self, program: Path, addresses: str, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [str(program), addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, step: Step) -> Any:
        """Take a step; return the answer, masked."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{step.name}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{step.name}: the program has ended"
        return masked(json.loads(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", line.replace(str(self._folder), "DIR"))))

    def ask_until(self, step: Step, wanted: Any, compared: Callable[[Any], Any], patience_s: float) -> Any:
        """Take a step; one that reads is taken again until what is compared of the answer is equal."""
        deadline_s = time.monotonic() + patience_s
        while compared(got := self.ask(step)) != compared(wanted) and step.reads and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
        return got


def build(folder: Path, cache: Path) -> Path:
    """Compile the program into a folder.

    Args:
        folder: an empty folder.
        cache: where the module's requirements are kept.
    """
    go = shutil.which("go")
    assert go is not None, "there is no `go` on PATH"

    def run(at: Path, *arguments: str) -> None:
        done = subprocess.run([go, *arguments], cwd=at, capture_output=True, text=True, timeout=BUILD_S, check=False)
        assert done.returncode == 0, done.stderr

    def require(at: Path) -> None:
        run(at, "mod", "init", "kadm_client")
        run(at, "get", *(f"github.com/twmb/franz-go/pkg/{name}" for name in (f"kadm@{VERSION}", "kerr", "kgo", "kmsg")))

    required = filled(cache / f"kadm-{VERSION}", require)
    for file in (*required.iterdir(), Path(__file__).parent / "kadm_client.go"):
        shutil.copyfile(file, folder / file.name)
    run(folder, "build", "-mod=mod", "-o", "kadm_client", ".")
    return folder / "kadm_client"


def steps(program: Path) -> list[Step]:
    """Return the steps in their order."""
    said = subprocess.run([str(program), "steps"], capture_output=True, text=True, check=True).stdout
    return [Step(line.removeprefix("? "), line.startswith("? ")) for line in said.splitlines()]


# Settings


def settings(broker: int, number: tuple[int, ...], folder: Path) -> dict[str, object]:
    """Return the settings of a broker, real or simulated, but for its id and addresses.

    Args:
        broker: its id.
        number: the release.
        folder: where its log directory is, or would be.
    """
    authorizer = (
        "kafka.security.authorizer.AclAuthorizer" if number >= (2, 4) else "kafka.security.auth.SimpleAclAuthorizer"
    )
    return {
        **settings_without_places(f"rack{broker}", folder / f"log-{broker}"),
        "authorizer.class.name": authorizer,
        "super.users": CALLER,
        "default.replication.factor": 2,
        "num.partitions": 2,
        "transaction.state.log.num.partitions": 3,
        "transaction.state.log.replication.factor": 3,
    }


def settings_of_all(number: tuple[int, ...], folder: Path) -> str:
    """Return these settings as a properties file for `simzk kafka`."""
    return "".join(
        f"broker.{broker}.{key}={value}\n"
        for broker in BROKERS
        for key, value in settings(broker, number, folder).items()
    )


def cache() -> Path:
    """Return the folder for downloads of clients."""
    return Path(os.environ.get("SIMZK_KAFKA_CLIENTS", "~/.cache/simzk-kafka-clients")).expanduser().resolve()


# Masks


def masked(value: Any) -> Any:
    """Return an answer without what depends on chance."""
    if isinstance(value, list):
        return [masked(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _masked_field(key, inner) for key, inner in value.items()}
    if {"NodeID", "Name", "Host"} <= fields.keys():
        fields["NodeID"] = "COORDINATOR"
    if "Replicas" in fields and "ISR" in fields:
        fields["ISR"] = sorted(fields["ISR"])
        if fields["Topic"] in PLACED_BY_CHANCE:
            fields |= {"Leader": "LEADER", "Replicas": len(fields["Replicas"]), "ISR": len(fields["ISR"])}
            del fields["LeaderEpoch"]
    if "ActiveProducers" in fields:
        fields["ActiveProducers"] = sorted(fields["ActiveProducers"].values(), key=str)
    return fields


def _masked_field(key: str, value: Any) -> Any:
    if key == "Coordinator":
        return "COORDINATOR"
    if key in CHANCE and (isinstance(value, str) or (isinstance(value, int) and value >= 0 and value != NO_PRODUCER)):
        return key.upper()
    if key in {"ID", "TopicID"} and isinstance(value, str):
        return value if value == NO_ID else "ID"
    if key in {"MemberID", "Metadata"} and isinstance(value, str):
        return re.sub(r"-[0-9a-f]{8}-[0-9a-f-]+$", "-UUID", value)
    return masked(value)


# Differences


class Difference(NamedTuple):
    """An answer of simulated brokers that differs from that of real ones.

    Args:
        step: the step.
        since, before: the first release that differs, and the first one that does not.
        compared: returns what of an answer is compared all the same.
        reason: why it differs.
    """

    step: str
    since: tuple[int, ...]
    before: tuple[int, ...]
    compared: Callable[[Any], Any]
    reason: str

    def applies(self, step: Step, number: tuple[int, ...]) -> bool:
        """Return whether it is about a step at a release."""
        return step.name == self.step and self.since <= number < self.before


def without_hidden_keys(answer: Any) -> Any:
    """Return configurations without the keys that 2.8 has for clusters without ZooKeeper."""
    return [
        broker | {"Configs": [config for config in broker["Configs"] if config["Key"] not in HIDDEN_KEYS]}
        for broker in answer
    ]


HIDDEN_KEYS = {
    *("broker.heartbeat.interval.ms", "broker.session.timeout.ms", "controller.listener.names", "metadata.log.dir"),
    *("controller.quorum.append.linger.ms", "controller.quorum.election.backoff.max.ms", "node.id", "process.roles"),
    *("controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms", "controller.quorum.voters"),
    *("controller.quorum.request.timeout.ms", "controller.quorum.retry.backoff.ms"),
    *("initial.broker.registration.timeout.ms", "sasl.mechanism.controller.protocol"),
}
DIFFERENCES = (
    Difference(
        "DescribeBrokerConfigs after AlterBrokerConfigs",
        (2, 8),
        (3, 0),
        without_hidden_keys,
        "a real broker of 2.8 describes these internal keys as soon as its configuration has changed while it runs",
    ),
)


# Recordings


def recording_of(release: str) -> Path:
    """Return the file with the answers of real brokers of a release."""
    return RECORDINGS / f"kadm-{release}.jsonl.gz"


def recorded(release: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the answer of each step at real brokers."""
    return ((name, answer) for name, answer in read_lines(recording_of(release)))
