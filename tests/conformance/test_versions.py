"""Each simulated release answers a story as the real release did: every field of every reply and event."""

from __future__ import annotations

from pathlib import Path

import pytest

import simzk
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.versions import RELEASES, rules_of
from tests.conformance.comparison import Normaliser
from tests.conformance.simulated_arms import SimulatedArm
from tests.conformance.version_story import tell

RECORDED = Path(__file__).parent / "data" / "versions"


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: ".".join(map(str, release)))
def test_a_release_answers_as_the_real_one_did(release: tuple[int, int, int]) -> None:
    version = ".".join(map(str, release))
    config = ServerConfig(version=version, extended_types=True, enforce_quota=True, container_check_interval_ms=10**9)
    arm = SimulatedArm(config, zxid=0)
    told = list(tell(arm, Normaliser(arm.times_ms), hard_quotas=release >= (3, 7, 0)))
    assert told == (RECORDED / f"{version}.txt").read_text().splitlines()


def test_every_release_answers_unlike_the_one_before() -> None:
    told = [(RECORDED / f"{'.'.join(map(str, release))}.txt").read_text() for release in sorted(RELEASES)]
    alike = [(3, 7, 2), (3, 9, 0)]  # as 3.8.3 and 3.9.1 do: what is new in those is not seen by clients
    assert len(set(told)) == len(told) - len(alike)


def test_a_version_without_its_last_number_is_the_newest() -> None:
    assert rules_of("3.8").release == (3, 8, 4)
    assert rules_of("3.9").release == max(RELEASES)


@pytest.mark.parametrize("version", ["3.3", "3.10", "", "3", "3.9.99", "three"])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(simzk.ConfigError, match="there is no ZooKeeper"):
        rules_of(version)
