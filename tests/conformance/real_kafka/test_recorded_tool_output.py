"""Kafka's command line tools print at brokers of `simzk kafka` what was recorded at real ones.

    SIMZK_TOOL_BROKERS=0.10.2.2,3.9.1 SIMZK_TOOLS=3.9.1 SIMZK_TOOL_RECORD=1 SIMZK_KAFKA_JARS=~/.cache/simzk-kafka \\
        pytest tests/conformance/real_kafka/test_same_tool_output.py

records the outputs again. Jars of the tools alone are needed here.
"""

from __future__ import annotations

import difflib
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_kafka import running
from tests.conformance.real_kafka.cluster import LOOK_S
from tests.conformance.real_kafka.releases import RELEASES, why_not
from tests.conformance.real_kafka.tool_story import (
    Cluster,
    ToolShell,
    commands,
    line_of,
    line_text,
    read_recording,
    settings_of_all,
)
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.real_kafka.tool_story import Command

pytestmark = pytest.mark.slow

TOOLS, BROKERS = "3.9.1", ("0.10.2.2", "3.9.1")
STORY_S = 900
WHY_NOT = why_not()


def play(tools: ToolShell, command: Command, wanted: list[str]) -> list[str]:
    """Run a command; one that reads is run again while brokers may not know a change yet."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (got := tools.play(command)) != wanted and command.reads and time.monotonic() < deadline_s:
        time.sleep(LOOK_S)
    return got


@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.xdist_group("real_kafka")
@pytest.mark.timeout(STORY_S)
@pytest.mark.parametrize("brokers", BROKERS)
def test_tools_print_what_was_recorded(brokers: str, tmp_path: Path) -> None:
    known = {release.version: release for release in RELEASES}
    release = known[brokers]
    recorded = read_recording(known[TOOLS], release)
    config = tmp_path / "server.properties"
    config.write_text(settings_of_all(tmp_path))
    with running("--version", line_of(release), "--config", str(config)) as (served, _):
        addresses = {int(number): address for number, address in served["brokers"].items()}
        place = Cluster(addresses, served["zookeeper"])
        with ToolShell(known[TOOLS], tmp_path, place, release.number) as tools:
            played = [command for command in commands(tools) if command.is_recorded]
            assert [line_text(command) for command in played] == [line for line, _ in recorded]
            for command, (line, wanted) in zip(played, recorded, strict=True):
                got = play(tools, command, wanted)
                lines = difflib.unified_diff(wanted, got, "recorded", "simulated", lineterm="", n=0)
                assert got == wanted, "\n".join((line, *lines))
