"""Kafka's command line tools print the same at real brokers and at those of `simzk kafka`, both of one release.

    SIMZK_TOOL_BROKERS=0.10.2.2,2.4.1,3.9.1 SIMZK_KAFKA_JARS=~/.cache/simzk-kafka \\
        pytest tests/conformance/real_kafka/test_same_tool_output.py

The tools are those of 2.4, 2.8 and 3.9, or those in SIMZK_TOOLS. The story of `tool_story.py` is played on both
clusters, command by command. A command that the brokers cannot serve fails on both with the same text. `DIFFERENCES`
there lists what is not equal. With SIMZK_TOOL_RECORD=1 the output of the real cluster is written to `data/`, where
`test_recorded_tool_output.py` reads it.
"""

from __future__ import annotations

import difflib
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_kafka import running
from tests.conformance.real_kafka.cluster import BROKERS, RealCluster
from tests.conformance.real_kafka.releases import RELEASES, jars
from tests.conformance.real_kafka.tool_story import (
    DIFFERENCES,
    Cluster,
    ToolShell,
    commands,
    line_of,
    settings_of_all,
    write_recording,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.real_kafka.tool_story import Command

ASKED, TOOLS, RECORD = "SIMZK_TOOL_BROKERS", "SIMZK_TOOLS", "SIMZK_TOOL_RECORD"
STORY_S = 3000
AGAIN = 5
"""How often a command that reads is asked again at both clusters; the brokers of one may not know a change yet."""


def pairs() -> list[tuple[str, str]]:
    """Return releases of tools and of brokers."""
    tools = os.environ.get(TOOLS, "2.4.1,2.8.2,3.9.1").split(",")
    return [(tool, broker) for broker in os.environ.get(ASKED, "3.9.1").split(",") for tool in tools]


def both(command: Command, real: ToolShell, simulated: ToolShell) -> tuple[list[str], list[str]]:
    """Run a command at both clusters; return the outputs of the real and of the simulated one."""
    wanted, got = real.play(command), simulated.play(command)
    for _ in range(AGAIN if command.reads else 0):
        if wanted == got:
            break
        wanted, got = real.play(command), simulated.play(command)
    return wanted, got


@pytest.mark.by_hand(ASKED)
@pytest.mark.timeout(STORY_S)
@pytest.mark.parametrize(("tool", "broker"), pairs())
def test_tools_print_the_same(tool: str, broker: str, tmp_path: Path) -> None:
    known = {release.version: release for release in RELEASES}
    release = known[broker]
    folders = {name: tmp_path / name for name in ("brokers", "real", "simulated")}
    for folder in folders.values():
        folder.mkdir()
    different = []
    recorded = []
    unused = {row for row in DIFFERENCES if row.brokers == release.number[:2] and known[tool].number >= (2, 8)}
    with ExitStack() as stack:
        cluster = stack.enter_context(RealCluster(release, jars(release), folders["brokers"]))
        for number in BROKERS:
            cluster.start(number)
        config = folders["simulated"] / "server.properties"
        config.write_text(settings_of_all(folders["brokers"]))
        served, _ = stack.enter_context(running("--version", line_of(release), "--config", str(config)))
        addresses = {number: f"127.0.0.1:{port}" for number, port in cluster.ports.items()}
        places = {
            "real": Cluster(addresses, cluster.hosts),
            "simulated": Cluster({int(number): at for number, at in served["brokers"].items()}, served["zookeeper"]),
        }
        real, simulated = (
            stack.enter_context(ToolShell(known[tool], folders[name], place, release.number))
            for name, place in places.items()
        )
        for command in commands(real):
            wanted, got = both(command, real, simulated)
            recorded.append((command, wanted))
            for row in DIFFERENCES:
                expected = row.without(command, release.number, wanted)
                unused -= {row} if expected != wanted else set()
                wanted = expected
            if got != wanted:
                lines = "\n".join(difflib.unified_diff(wanted, got, "real", "simulated", lineterm="", n=0))
                different.append(f"{command.tool} {command.arguments}\n{lines}")
    if RECORD in os.environ:
        write_recording(known[tool], release, recorded)
    assert different == [], "\n".join(different)
    assert unused == set()
