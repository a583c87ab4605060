"""Seeds of the shipped scenario of random faults that found a mistake of simzk; each mistake is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario

SCENARIO = Path(__file__).parents[2] / "scenarios" / "anything_breaks.toml"

WRITE_OF_AN_EXPIRED_SESSION = "a leader whose session expired during its ISR write never wrote that ISR again"


@pytest.mark.parametrize(
    ("version", "seed", "mistake"),
    [
        ("1.1", 10, WRITE_OF_AN_EXPIRED_SESSION),
        ("1.1", 27, WRITE_OF_AN_EXPIRED_SESSION),
        ("2.1", 41, WRITE_OF_AN_EXPIRED_SESSION),
        ("2.1", 43, WRITE_OF_AN_EXPIRED_SESSION),
    ],
)
def test_a_seed_that_found_a_mistake_holds(version: str, seed: int, mistake: str) -> None:
    play = Play(read_scenario(SCENARIO), seed=seed, version=version)
    play.run()
    play.close()
    assert play.held, f"again: {mistake}"
