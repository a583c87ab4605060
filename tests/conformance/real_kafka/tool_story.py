"""Command lines of Kafka's tools, played at a cluster, and what depends on chance in their output.

Rules of this module:
  - the tools of a release run one after the other in one Java process (`CommandLines.java`), one process per cluster;
  - a command that only reads may be asked again: brokers learn of a change one after the other;
  - plans that a tool makes itself are random (`--generate`), and left out.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.conformance.real_kafka.cluster import BROKERS, LOOK_S, settings_without_places
from tests.conformance.real_kafka.releases import jars
from tests.conformance.real_kafka.tools import Tools
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType

    from tests.conformance.real_kafka.releases import Release

NEVER = (99,)


class Command(NamedTuple):
    """A command of the story.

    Args:
        tool: the tool's class without its package.
        arguments: what follows the address of the cluster.
        tools, before: the first release of the tool with these options, and the first one without them.
        given: its standard input.
        address: option of the address; empty for the usual one.
        is_recorded: whether the recordings have its output; some outputs are long.
    """

    tool: str
    arguments: str
    tools: tuple[int, ...] = (2, 4)
    before: tuple[int, ...] = NEVER
    given: str = ""
    address: str = ""
    is_recorded: bool = True

    @property
    def reads(self) -> bool:
        """Return whether it changes nothing, so that it may be run again."""
        return self.tool in READERS or not READING.isdisjoint(self.arguments.split())


READERS = {"BrokerApiVersionsCommand", "GetOffsetShell", "ClusterTool"}
READING = {"--list", "--describe", "--verify", "--dry-run", "list", "describe", "describe-producers"}


def zookeeper(tool: str, arguments: str) -> Command:
    """Return a command that works at ZooKeeper, as tools could until 3.0."""
    return Command(tool, arguments, before=(3, 0), address="--zookeeper")


def configs(arguments: str, *, is_recorded: bool = True) -> Command:
    """Return a command for configurations at brokers."""
    return Command("ConfigCommand", arguments, (2, 8), is_recorded=is_recorded)


TOPIC, GROUP, REASSIGN = "TopicCommand", "ConsumerGroupCommand", "ReassignPartitionsCommand"
ELECT, ACL = "LeaderElectionCommand", "AclCommand"
FILES = {
    "move.json": '{"version":1,"partitions":[{"topic":"move","partition":0,"replicas":[2,3]}]}',
    "delete.json": '{"partitions":[{"topic":"move","partition":0,"offset":1}],"version":1}',
    "kept.json": '{"version":1,"partitions":[{"topic":"kept","partition":1,"replicas":[3,2,1]}]}',
}
ORDERS = "--entity-type topics --entity-name orders"
BROKER = "--entity-type brokers --entity-name 1"
USER = "--entity-type users --entity-name u"
BILLING = "--group billing"
STORY = (
    Command("BrokerApiVersionsCommand", ""),
    Command("ClusterTool", "", (3, 0), address="cluster-id --bootstrap-server"),
    Command(TOPIC, "--create --topic orders --replica-assignment 1:2:3,2:3:1"),
    Command(TOPIC, "--create --topic move --replica-assignment 1:2 --config retention.ms=1000000"),
    Command(TOPIC, "--create --topic orders --partitions 1 --replication-factor 1"),
    Command(TOPIC, "--create --topic orders --partitions 1 --replication-factor 1 --if-not-exists", (2, 8)),
    Command(TOPIC, "--create --topic none --partitions 1 --replication-factor 5"),
    Command(TOPIC, "--create --topic none --partitions 0 --replication-factor 1"),
    Command(TOPIC, "--create --topic a/b --partitions 1 --replication-factor 1"),
    Command(TOPIC, "--create --topic none --replica-assignment 1:9"),
    Command(TOPIC, "--create --topic none --partitions 1 --replication-factor 1 --config retention.ms=x"),
    Command(TOPIC, "--list"),
    Command(TOPIC, "--describe --topic orders"),
    Command(TOPIC, "--describe --topic move"),
    Command(TOPIC, "--describe --topic unknown"),
    Command(TOPIC, "--describe --under-replicated-partitions"),
    Command(TOPIC, "--describe --under-min-isr-partitions"),
    Command(TOPIC, "--describe --topics-with-overrides"),
    Command(TOPIC, "--alter --topic orders --partitions 3"),
    Command(TOPIC, "--alter --topic orders --partitions 1"),
    Command(TOPIC, "--alter --topic unknown --partitions 3"),
    Command(TOPIC, "--describe --topic orders"),
    zookeeper(TOPIC, "--create --topic kept --replica-assignment 1:2:3,2:3:1 --config retention.ms=1000000"),
    zookeeper(TOPIC, "--create --topic kept --partitions 1 --replication-factor 1"),
    zookeeper(TOPIC, "--create --topic none --partitions 1 --replication-factor 5"),
    zookeeper(TOPIC, "--list"),
    zookeeper(TOPIC, "--describe --topic kept"),
    zookeeper(TOPIC, "--describe --topic unknown"),
    zookeeper(TOPIC, "--alter --topic kept --partitions 3 --replica-assignment 1:2:3,2:3:1,3:1:2"),
    zookeeper(TOPIC, "--alter --topic kept --partitions 1"),
    zookeeper("ConfigCommand", "--alter --entity-type topics --entity-name kept --add-config max.message.bytes=5000"),
    zookeeper("ConfigCommand", "--describe --entity-type topics --entity-name kept"),
    zookeeper("ConfigCommand", "--alter --entity-type clients --entity-name c --add-config producer_byte_rate=1024"),
    zookeeper("ConfigCommand", "--describe --entity-type clients"),
    zookeeper(REASSIGN, "--execute --reassignment-json-file kept.json"),
    zookeeper(REASSIGN, "--verify --reassignment-json-file kept.json"),
    zookeeper("PreferredReplicaLeaderElectionCommand", ""),
    zookeeper(TOPIC, "--describe --topic kept"),
    Command("ConsoleProducer", "--topic move --request-required-acks all", given="a\nb\nc\n"),
    Command("GetOffsetShell", "--topic move --time -1"),
    Command("GetOffsetShell", "--topic move --time -2"),
    Command("GetOffsetShell", "--topic unknown --time -1"),
    Command("GetOffsetShell", "--topic orders --time -3", (3, 0)),  # without records, whose times are chance
    Command("ConsoleConsumer", f"--topic move --from-beginning --max-messages 3 {BILLING}"),
    Command(GROUP, "--list"),
    Command(GROUP, "--list --state", (2, 8)),
    Command(GROUP, f"--describe {BILLING}"),
    Command(GROUP, f"--describe {BILLING} --members"),
    Command(GROUP, f"--describe {BILLING} --state"),
    Command(GROUP, "--describe --group unknown"),
    Command(GROUP, "--describe --group unknown --state"),
    Command(GROUP, f"--reset-offsets {BILLING} --topic move --shift-by -1 --dry-run"),
    Command(GROUP, f"--reset-offsets {BILLING} --topic move --to-earliest --execute"),
    Command(GROUP, f"--describe {BILLING}"),
    Command(GROUP, f"--delete-offsets {BILLING} --topic move"),
    Command(GROUP, f"--delete-offsets {BILLING} --topic move:7"),
    Command(GROUP, f"--describe {BILLING}"),
    Command(GROUP, f"--delete {BILLING}"),
    Command(GROUP, "--delete --group unknown"),
    Command("DeleteRecordsCommand", "--offset-json-file delete.json"),
    Command("GetOffsetShell", "--topic move --time -2"),
    Command("LogDirsCommand", "--describe --broker-list 1 --topic-list move"),
    Command("TransactionsCommand", "list", (3, 0)),
    Command("TransactionsCommand", "describe --transactional-id none", (3, 0)),
    Command("TransactionsCommand", "describe-producers --topic orders --partition 0", (3, 0)),
    Command("FeatureCommand", "describe", (3, 4)),
    Command("DelegationTokenCommand", "--describe", address="--command-config none.properties --bootstrap-server"),
    configs(f"--describe {BROKER} --all", is_recorded=False),
    configs(f"--alter {ORDERS} --add-config max.message.bytes=5000"),
    configs(f"--describe {ORDERS}"),
    configs(f"--describe {ORDERS} --all"),
    configs(f"--alter {ORDERS} --add-config no.such=1"),
    configs(f"--alter {ORDERS} --delete-config max.message.bytes"),
    configs(f"--describe {ORDERS}"),
    configs(f"--alter {BROKER} --add-config log.cleaner.threads=2"),
    configs(f"--alter {BROKER} --add-config broker.id=7"),
    configs(f"--describe {BROKER}"),
    configs(f"--describe {BROKER} --all", is_recorded=False),
    configs("--alter --entity-type brokers --entity-default --add-config num.io.threads=4"),
    configs("--describe --entity-type brokers --entity-default"),
    configs(f"--alter {USER} --add-config consumer_byte_rate=1024"),
    configs(f"--describe {USER}"),
    Command(ACL, "--list"),
    Command(ACL, "--add --allow-principal User:a --operation Read --topic orders"),
    Command(REASSIGN, "--execute --reassignment-json-file move.json", (2, 8)),
    Command(REASSIGN, "--verify --reassignment-json-file move.json", (2, 8)),
    Command(REASSIGN, "--list", (2, 8)),
    Command(TOPIC, "--describe --topic move"),
    Command(ELECT, "--election-type preferred --all-topic-partitions"),
    Command(ELECT, "--election-type preferred --topic orders --partition 0"),
    Command(ELECT, "--election-type unclean --topic orders --partition 0"),
    Command(ELECT, "--election-type preferred --topic unknown --partition 0"),
    Command(TOPIC, "--delete --topic move"),
    Command(TOPIC, "--delete --topic unknown"),
    Command(TOPIC, "--list"),
    zookeeper(TOPIC, "--delete --topic kept"),
    zookeeper(TOPIC, "--delete --topic unknown"),
)
IN_PROGRESS = "is still in progress"
"""What the tool says of a reassignment that is not complete; it is asked again."""
BY_BROKER_LIST = {"ConsoleProducer": (2, 5), "GetOffsetShell": (3, 0)}
"""Tools that have another name for the address of the cluster before a release."""
WITH_IDEMPOTENCE = (0, 11)
"""First release whose brokers give producers an id; a producer of 3.0 or newer asks others in vain."""
MASKS = (
    (re.compile(r"\[\d{4}-\d\d-\d\d.*?\] "), ""),
    (re.compile(r"broker\d +\(\d\)"), "BROKER (N)"),
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: ID"),
    (re.compile(r"Cluster ID: [\w-]{22}"), "Cluster ID: ID"),
    (re.compile(r"console-consumer-[\w-]+"), "MEMBER"),
    (re.compile(r"(adminclient|producer|consumer)-\d+"), r"\1-N"),
    (re.compile(r'"(partition)?size":\d+', re.IGNORECASE), '"size":N'),
    (re.compile(r'"logDir":"[^"]*"'), '"logDir":"DIR"'),
    (re.compile(r"(log\.dirs|zookeeper\.connect|listeners|broker\.rack)=[^\s,}]+"), r"\1=PLACE"),
    (re.compile(r"  +"), "  "),
)
"""What depends on time, random ids, folders, and on which broker coordinates a group, and widths of columns."""


class Difference(NamedTuple):
    """Lines of real brokers that simulated ones do not print.

    Args:
        brokers: line of the brokers' release.
        command: what the command line contains.
        lines: pattern of the lines, as a whole.
        reason: why they are missing.
    """

    brokers: tuple[int, int]
    command: str
    lines: re.Pattern[str]
    reason: str

    def without(self, command: Command, brokers: tuple[int, ...], said: list[str]) -> list[str]:
        """Return the lines of an output but for those of this difference."""
        applies = brokers[:2] == self.brokers and self.command in line_text(command)
        return [line for line in said if not (applies and self.lines.fullmatch(line))]


_KRAFT = (
    "broker.heartbeat.interval.ms|broker.session.timeout.ms|controller.listener.names|controller.quorum.*"
    "|initial.broker.registration.timeout.ms|metadata.log.dir|node.id|process.roles|sasl.mechanism.controller.protocol"
)
_LATER = "metadata.log.segment.min.bytes|producer.id.expiration.check.interval.ms|remote.log.*"
_REASON = "once a dynamic setting has changed, a broker lists the settings that its release calls internal"
DIFFERENCES = (
    Difference((2, 8), f"--describe {BROKER} --all", re.compile(rf"({_KRAFT})=.*"), _REASON),
    Difference((3, 4), f"--describe {BROKER} --all", re.compile(rf"({_LATER})=.*"), _REASON),
)


class Cluster(NamedTuple):
    """Addresses of a cluster.

    Args:
        brokers: address of each broker.
        zookeeper: address of its ZooKeeper.
    """

    brokers: Mapping[int, str]
    zookeeper: str

    def masked(self, said: str) -> list[str]:
        """Return the lines of an output without chance, sorted: tools print topics in the order of hash maps."""
        for number, address in self.brokers.items():
            said = said.replace(address, f"broker{number}")
        said = said.replace(self.zookeeper, "ZOOKEEPER")
        for pattern, instead in MASKS:
            said = pattern.sub(instead, said)
        return sorted(
            line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("at ")
        )


class ToolShell(Tools):
    """Process that runs tools of a release at a cluster, one after the other.

    Args:
        release: release of the tools.
        folder: an existing folder for settings and plans.
        cluster: the cluster.
        brokers: release of the cluster's brokers.
    """

    def __init__(self, release: Release, folder: Path, cluster: Cluster, brokers: tuple[int, ...]) -> None:
        super().__init__(release, jars(release), folder)
        self.cluster = cluster
        self.brokers = brokers
        for name, text in FILES.items():
            (folder / name).write_text(text)
        (folder / "none.properties").write_text("")

    def __enter__(self) -> Self:
        source = Path(__file__).with_name("CommandLines.java")
        self._process = subprocess.Popen(
            [*self._java(), str(source), str(int(PATIENCE_S))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def has(self, command: Command) -> bool:
        """Return whether the tools of this release know a command's options."""
        return command.tools <= self.release.number < command.before

    def play(self, command: Command) -> list[str]:
        """Run a command; return its output, masked."""
        deadline_s = time.monotonic() + PATIENCE_S
        while IN_PROGRESS in (said := self._answer(self._words(command), command.given)):
            assert time.monotonic() < deadline_s, said
            time.sleep(LOOK_S)
        return self.cluster.masked(said)

    def _words(self, command: Command) -> list[str]:
        main = max(name for name in self.classes if name.endswith(f".{command.tool}"))  # not an older one in Scala
        old = BY_BROKER_LIST.get(command.tool, (0,))
        address = command.address or ("--broker-list" if self.release.number < old else "--bootstrap-server")
        where = self.cluster.zookeeper if address == "--zookeeper" else ",".join(self.cluster.brokers.values())
        words = [main, *address.split(), where, *command.arguments.split()]
        if command.tool == "ConsoleProducer" and self.brokers < WITH_IDEMPOTENCE:
            words += ["--producer-property", "enable.idempotence=false"]
        return words

    def _answer(self, words: list[str], given: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = "\t".join((words[0], base64.b64encode(given.encode()).decode(), *words[1:]))
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{words}: the process of the tools has ended"
        return base64.b64decode(answer).decode()


def commands(tools: ToolShell) -> Iterator[Command]:
    """Yield the commands of the story that the tools of a release know."""
    return (command for command in STORY if tools.has(command))


def settings_of_all(folder: Path) -> str:
    """Return the settings that real brokers have, as a properties file for `simzk kafka`.

    Args:
        folder: where log directories would be.
    """
    return "".join(
        f"broker.{number}.{key}={value}\n"
        for number in BROKERS
        for key, value in settings_without_places(f"rack{number}", folder / f"log-{number}").items()
    )


def line_of(release: Release) -> str:
    """Return the name of a release's line for `simzk kafka`."""
    return ".".join(release.version.split(".")[: 3 if release.number < (1,) else 2])


# Recordings

RECORDINGS = Path(__file__).parent / "data"


def recording_of(tools: Release, brokers: Release) -> Path:
    """Return the file with what tools of a release printed at real brokers of a release."""
    return RECORDINGS / f"tools-{tools.version}-brokers-{brokers.version}.json"


def write_recording(tools: Release, brokers: Release, outputs: Iterable[tuple[Command, list[str]]]) -> None:
    """Write the outputs of commands at real brokers, as far as they are recorded."""
    rows = [[line_text(command), *said] for command, said in outputs if command.is_recorded]
    recording_of(tools, brokers).write_text(json.dumps(rows, indent=0, ensure_ascii=False) + "\n")


def read_recording(tools: Release, brokers: Release) -> list[tuple[str, list[str]]]:
    """Return the command lines of a recording, each with the output."""
    return [(line, said) for line, *said in json.loads(recording_of(tools, brokers).read_text())]


def line_text(command: Command) -> str:
    """Return a command without its address."""
    return f"{command.tool} {command.arguments}".strip()
