"""Kafka's command line tools print the same at real brokers and at those of `simzk kafka`, both of one release.

    SIMZK_TOOL_BROKERS=0.10.2.2,2.4.1,3.9.1 SIMZK_KAFKA_JARS=~/.cache/simzk-kafka \\
        pytest tests/conformance/real_kafka/test_same_tool_output.py

The tools are those of 2.4, 2.8 and 3.9. `STORY` is played on both clusters, command by command; what depends on time,
ports and random ids is masked. Plans that the tool itself makes are random (`--generate`), and left out.
"""

from __future__ import annotations

import difflib
import os
import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cli.test_kafka import running
from tests.conformance.real_kafka.cluster import BROKERS, RealCluster, until
from tests.conformance.real_kafka.releases import RELEASES, jars
from tests.conformance.real_kafka.tools import Tools

if TYPE_CHECKING:
    from pathlib import Path

ASKED = "SIMZK_TOOL_BROKERS"
TOOLS = ("2.4.1", "2.8.2", "3.9.1")
STORY_S = 3000


class Command(NamedTuple):
    """A command of the story.

    Args:
        tool: the tool's class without its package.
        arguments: what follows the address of the cluster.
        since: the first release of brokers that serves it.
        given: its standard input.
        tools: the first release of the tool that has these options.
    """

    tool: str
    arguments: str
    since: tuple[int, ...] = (0, 10, 1)
    given: str = ""
    tools: tuple[int, ...] = (2, 4)


REASSIGNMENT = '{"version":1,"partitions":[{"topic":"move","partition":0,"replicas":[2,3]}]}'
DELETION = '{"partitions":[{"topic":"move","partition":0,"offset":1}],"version":1}'
FILES = {"move.json": REASSIGNMENT, "delete.json": DELETION}
STORY = (
    Command("BrokerApiVersionsCommand", ""),
    Command("TopicCommand", "--create --topic orders --replica-assignment 1:2:3,2:3:1"),
    Command("TopicCommand", "--create --topic move --replica-assignment 1:2 --config retention.ms=1000000"),
    Command("TopicCommand", "--create --topic orders --partitions 1 --replication-factor 1"),
    Command("TopicCommand", "--create --topic none --partitions 1 --replication-factor 5"),
    Command("TopicCommand", "--list"),
    Command("TopicCommand", "--describe --topic orders"),
    Command("TopicCommand", "--describe --topic unknown"),
    Command("TopicCommand", "--alter --topic orders --partitions 3", (1, 0)),
    Command("TopicCommand", "--alter --topic orders --partitions 1", (1, 0)),
    Command("ConsoleProducer", "--topic move --request-required-acks all", given="a\nb\nc\n"),
    Command("GetOffsetShell", "--topic move --time -1"),
    Command("ConsoleConsumer", "--topic move --from-beginning --max-messages 3 --group billing"),
    Command("ConsumerGroupCommand", "--list"),
    Command("ConsumerGroupCommand", "--describe --group billing"),
    Command("ConsumerGroupCommand", "--describe --group billing --members"),
    Command("ConsumerGroupCommand", "--describe --group unknown"),
    Command("ConsumerGroupCommand", "--describe --group billing --state", (2, 4)),
    Command("ConsumerGroupCommand", "--reset-offsets --group billing --topic move --to-earliest --execute"),
    Command("ConsumerGroupCommand", "--delete --group billing", (1, 1)),
    Command("ConsumerGroupCommand", "--delete --group unknown", (1, 1)),
    Command("DeleteRecordsCommand", "--offset-json-file delete.json", (0, 11)),
    Command("LogDirsCommand", "--describe --broker-list 1 --topic-list move", (1, 0)),
    Command(
        "ConfigCommand",
        "--alter --entity-type topics --entity-name orders --add-config max.message.bytes=5000",
        (2, 3),
        tools=(2, 8),
    ),
    Command("ConfigCommand", "--describe --entity-type topics --entity-name orders", (1, 1), tools=(2, 8)),
    Command(
        "ConfigCommand",
        "--alter --entity-type topics --entity-name orders --add-config no.such=1",
        (2, 3),
        tools=(2, 8),
    ),
    Command(
        "ConfigCommand",
        "--alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2",
        (2, 3),
        tools=(2, 8),
    ),
    Command("ConfigCommand", "--describe --entity-type brokers --entity-name 1", (1, 1), tools=(2, 8)),
    Command(
        "ConfigCommand",
        "--alter --entity-type users --entity-name u --add-config consumer_byte_rate=1024",
        (2, 6),
        tools=(2, 8),
    ),
    Command("ConfigCommand", "--describe --entity-type users --entity-name u", (2, 6), tools=(2, 8)),
    Command("AclCommand", "--list", (0, 11)),
    Command("ReassignPartitionsCommand", "--execute --reassignment-json-file move.json", (2, 4), tools=(2, 8)),
    Command("ReassignPartitionsCommand", "--verify --reassignment-json-file move.json", (2, 4), tools=(2, 8)),
    Command("ReassignPartitionsCommand", "--list", (2, 4), tools=(2, 8)),
    Command("LeaderElectionCommand", "--election-type preferred --all-topic-partitions", (2, 4)),
    Command("LeaderElectionCommand", "--election-type preferred --topic orders --partition 0", (2, 4)),
    Command("TopicCommand", "--delete --topic move"),
    Command("TopicCommand", "--delete --topic unknown"),
)
IN_PROGRESS = "is still in progress"
"""What the tool says of a reassignment that is not complete; it is asked again."""
BY_BROKER_LIST = {"ConsoleProducer": (2, 5), "GetOffsetShell": (3, 0)}
"""Tools that have another name for the address of the cluster before a release."""
MASKS = (
    (re.compile(r"\[\d{4}-\d\d-\d\d.*?\] "), ""),
    (re.compile(r"(?<=[:=])\d{4,5}(?=[ ,)/]|$)", re.MULTILINE), "PORT"),
    (re.compile(r"PORT +\(\d\)"), "PORT (N)"),
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: ID"),
    (re.compile(r"console-consumer-[\w-]+"), "MEMBER"),
    (re.compile(r'"(partition)?size":\d+', re.IGNORECASE), '"size":N'),
    (re.compile(r'"logDir":"[^"]*"'), '"logDir":"DIR"'),
    (re.compile(r"(log\.dirs|zookeeper\.connect|listeners|broker\.rack)=[^ ]+"), r"\1=PLACE"),
)
"""What depends on time, ports, random ids, folders, and on which broker coordinates a group."""


def masked(said: str) -> list[str]:
    """Return the lines of an output without chance, sorted: tools print topics in the order of hash maps."""
    for pattern, instead in MASKS:
        said = pattern.sub(instead, said)
    return sorted(line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("at "))


def run(tools: Tools, command: Command, servers: str) -> list[str]:
    """Run a command at a cluster; return its output, masked."""
    (main,) = (name for name in tools.classes if name.endswith(f".{command.tool}"))
    old = BY_BROKER_LIST.get(command.tool, (0,))
    option = "--broker-list" if tools.release.number < old else "--bootstrap-server"
    said = [IN_PROGRESS]

    def is_done() -> bool:
        said[0] = tools.output(main, (option, servers, *command.arguments.split()), command.given)
        return IN_PROGRESS not in said[0]

    until(is_done, lambda: said[0])
    return masked(said[0])


def pairs() -> list[tuple[str, str]]:
    """Return releases of tools and of brokers."""
    asked = os.environ.get(ASKED, "3.9.1").split(",")
    return [(tool, broker) for broker in asked for tool in TOOLS]


@pytest.mark.by_hand(ASKED)
@pytest.mark.timeout(STORY_S)
@pytest.mark.parametrize(("tool", "broker"), pairs())
def test_tools_print_the_same(tool: str, broker: str, tmp_path: Path) -> None:
    known = {release.version: release for release in RELEASES}
    release = known[broker]
    folders = [tmp_path / name for name in ("real", "tools", "simulated")]
    for folder in folders:
        folder.mkdir()
    for name, text in FILES.items():
        (folders[1] / name).write_text(text)
    with ExitStack() as stack:
        real = stack.enter_context(RealCluster(release, jars(release), folders[0]))
        for number in BROKERS:
            real.start(number)
        config = folders[2] / "server.properties"
        config.write_text(
            "".join(
                f"broker.{number}.{key}={value}\n"
                for number in BROKERS
                for key, value in real.properties(number).items()
                if key not in PLACES
            )
        )
        line = ".".join(broker.split(".")[: 3 if release.number < (1,) else 2])
        served, _ = stack.enter_context(running("--version", line, "--config", str(config)))
        tools = Tools(known[tool], jars(known[tool]), folders[1])
        different = []
        for command in STORY:
            if release.number < command.since or known[tool].number < command.tools:
                continue
            wanted = run(tools, command, real.bootstrap)
            got = run(tools, command, served["bootstrap_servers"])
            if got != wanted:
                lines = "\n".join(difflib.unified_diff(wanted, got, "real", "simulated", lineterm="", n=0))
                different.append(f"{command.tool} {command.arguments}\n{lines}")
    assert different == [], "\n".join(different)


PLACES = ("broker.id", "listeners", "zookeeper.connect")
"""Settings that the command gives the brokers itself."""
