"""Replays of the recordings in `data/two_racks`: what is compared, by step."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from simzk.kafka.zookeeper_mode.replay.player import PlayedStep, Player
from simzk.kafka.zookeeper_mode.replay.recorded_run import load

DATA = Path(__file__).parent / "data" / "two_racks"
RELEASES = tuple(sorted(folder.name for folder in DATA.iterdir() if folder.is_dir()))


@cache
def replayed(release: str) -> dict[str, PlayedStep]:
    """Replay a recording; everything that is compared, by step."""
    player = Player(load(DATA / release))
    with player.cluster:
        return {step.name: step for step in player.play()}
