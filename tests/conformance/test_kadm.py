"""franz-go's admin client kadm gets from brokers of `simzk kafka` the answers that real brokers gave.

    SIMZK_KAFKA_CLIENTS=~/.cache/simzk-kafka-clients pytest tests/conformance/test_kadm.py

It fetches kadm by Go's module proxy into that folder, and needs `go` on PATH. The answers of real brokers are recorded:
`tests/conformance/real_kafka/record_kadm.py`.
"""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_kafka import running
from tests.conformance.kafka_clients import kadm_story
from tests.conformance.kafka_clients.kadm_story import DIFFERENCES, Kadm
from tests.conformance.real_kafka.releases import RELEASES
from tests.conformance.real_kafka.tool_story import line_of
from tests.conformance.test_kafka_clients import CACHE
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

STORY_S = 900


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    return kadm_story.build(tmp_path_factory.mktemp("kadm"), kadm_story.cache())


def lines(answer: Any) -> list[str]:
    """Return an answer in lines, to compare two."""
    return json.dumps(answer, indent=1, sort_keys=True).splitlines()


def unchanged(answer: Any) -> Any:
    """Return an answer as it is."""
    return answer


@pytest.mark.by_hand(CACHE)
@pytest.mark.timeout(STORY_S)
@pytest.mark.parametrize("version", kadm_story.RELEASES)
def test_kadm_gets_the_answers_of_real_brokers(version: str, program: Path, tmp_path: Path) -> None:
    release = next(release for release in RELEASES if release.version == version)
    config = tmp_path / "server.properties"
    config.write_text(kadm_story.settings_of_all(release.number, tmp_path))
    different, unused = [], {row for row in DIFFERENCES if row.since <= release.number < row.before}
    with (
        running("--version", line_of(release), "--config", str(config)) as (served, _),
        Kadm(program, served["bootstrap_servers"], tmp_path) as kadm,
    ):
        steps, recorded = kadm_story.steps(program), list(kadm_story.recorded(version))
        assert [step.name for step in steps] == [name for name, _ in recorded]
        for step, (_, wanted) in zip(steps, recorded, strict=True):
            rows = [row for row in DIFFERENCES if row.applies(step, release.number)]
            compared = rows[0].compared if rows else unchanged
            got = kadm.ask_until(step, wanted, compared, PATIENCE_S)
            if compared(got) != compared(wanted):
                shown = difflib.unified_diff(lines(wanted), lines(got), "real", "simulated", lineterm="", n=2)
                different.append("\n".join((step.name, *shown)))
            elif got != wanted:
                unused -= set(rows)
    assert different == [], "\n".join(different)
    assert unused == set()
