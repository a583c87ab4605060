"""One mistake that the swarm is to catch."""

from __future__ import annotations

from typing import NamedTuple


class SwarmMistake(NamedTuple):
    """A mistake in a file of the package, and what the swarm plays: a scenario of `swarm.SCENARIOS`, a release."""

    file: str
    right: str
    wrong: str
    version: str = ""
    scenario: str = "dense"
