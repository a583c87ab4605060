"""A seed of the swarm gives the same history and znodes: played twice, in processes with other hash seeds.

By default one short plan is played. The whole proof plays as many seeds of two scenarios as `SIMZK_HISTORIES` says,
from `SIMZK_HISTORIES_FIRST` on [default: 1].
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario
from simzk.simulation import Scheduler
from tests.scenarios.history_digests import parts_of

pytestmark = pytest.mark.slow

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SHORT_PLAN = Path(__file__).parent / "data" / "found" / "reassignment_undone.plan.toml"
HASH_SEEDS = ("0", "1", "4294967295")
SCRIPT = """
import hashlib, json, sys
from contextlib import closing
from pathlib import Path
from simzk.scenarios.faults.plan_file import PlanFile
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.reader import read_scenario

path, plan, first, count = sys.argv[1:]
scenario = read_scenario(Path(path))
faults = PlanFile(Path(plan)).plan(setting_of(scenario, "")) if plan else None
for seed in range(int(first), int(first) + int(count)):
    for _ in range(2):
        with closing(Play(scenario, seed=seed, plan=faults)) as play:
            play.run()
            tree = [(path, str(node.data), tuple(node.stat())) for path, node in play.cluster.server.tree.walk()]
            text = json.dumps([play.history.to_json(), tree])
        print(seed, len(play.history), hashlib.sha256(text.encode()).hexdigest(), flush=True)
"""


def digests(scenario: str, hash_seed: str, first: int, count: int, plan: str = "") -> list[str]:
    """Return seed, events and digest of two plays of each seed, in a process of its own."""
    command = [sys.executable, "-c", SCRIPT, str(SCENARIOS / scenario), plan, str(first), str(count)]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def assert_equal_histories(scenario: str, first: int, count: int, plan: str = "") -> None:
    played = [digests(scenario, hash_seed, first, count, plan) for hash_seed in HASH_SEEDS]
    assert len(played[0]) == 2 * count
    assert all(line.split()[1] != "0" for line in played[0])
    assert played[0][::2] == played[0][1::2], "the second play in a process differs"
    assert played[1:] == [played[0]] * (len(HASH_SEEDS) - 1), "a process with another hash seed differs"


def test_a_plan_gives_one_history_in_every_process() -> None:
    assert_equal_histories("anything_breaks.toml", 7063, 1, str(SHORT_PLAN))


@pytest.mark.parametrize("version", ["3.9", "0.8.2"])
def test_messages_that_run_at_once_give_the_history_of_those_that_wait(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Play half a minute of faults and traffic with and without the short way of `Process.deliver_last`."""
    text = (SCENARIOS / "anything_breaks_records.toml").read_text(encoding="utf-8")
    path = tmp_path / "short.toml"
    path.write_text(text.replace('safety = "5m"', 'safety = "30s"'), encoding="utf-8")

    def played() -> dict[str, str]:
        with closing(Play(read_scenario(path), seed=1, version=version)) as play:
            play.run()
            return parts_of(play)

    at_once = played()
    monkeypatch.setattr(Scheduler, "run_as_next", lambda *_: False)
    assert played() == at_once


@pytest.mark.by_hand("SIMZK_HISTORIES")
@pytest.mark.timeout(0)  # hours for a thousand seeds
@pytest.mark.parametrize("scenario", ["anything_breaks.toml", "anything_breaks_records.toml"])
def test_seeds_of_the_swarm_give_one_history_in_every_process(scenario: str) -> None:
    first = int(os.environ.get("SIMZK_HISTORIES_FIRST", "1"))
    assert_equal_histories(scenario, first, int(os.environ["SIMZK_HISTORIES"]))
