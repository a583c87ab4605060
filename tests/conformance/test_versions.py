"""Each simulated release answers a story as the real release did: every field of every reply and event."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import simzk
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import BUILDS, number_of, rules_of
from tests.conformance.comparison import Normaliser
from tests.conformance.releases import build_of, fetched, recorded, told_by_real
from tests.conformance.simulated_arms import SimulatedArm
from tests.conformance.version_story import tell

RELEASES = "SIMZK_ZOOKEEPER_RELEASES"
"""Names a folder for the jars of all releases; where it is set, all are played (`releases.py`)."""
NEWEST = list(BUILDS)[-1]


@pytest.mark.parametrize("release", BUILDS)
def test_a_release_answers_as_the_real_one_did(release: str) -> None:
    config = ServerConfig(version=release, extended_types=True, enforce_quota=True, container_check_interval_ms=10**9)
    arm = SimulatedArm(config, zxid=0)
    reported = list(tell(arm, Normaliser(arm.times_ms), hard_quotas=number_of(release) >= (3, 7, 0)))
    assert reported == recorded(release)


@pytest.mark.java
def test_the_newest_real_release_answers_as_it_did() -> None:
    assert told_by_real(NEWEST) == recorded(NEWEST)


@pytest.mark.by_hand(RELEASES)
@pytest.mark.parametrize("release", BUILDS)
def test_a_real_release_answers_as_it_did(release: str) -> None:
    folder = Path(os.environ[RELEASES]).expanduser().resolve()
    assert build_of(release, folder) == rules_of(release).build
    assert told_by_real(release, fetched(release, folder)) == recorded(release)


def test_releases_with_a_recording_differ_from_the_one_before() -> None:
    reported = {tuple(recorded(release)) for release in BUILDS}
    assert len(reported) == 14, "as many kinds of answers as releases gave"


def test_a_version_without_its_last_number_is_the_newest() -> None:
    assert rules_of("3.8").release == (3, 8, 6)
    assert rules_of("3.9").release == number_of(NEWEST)


def test_a_release_has_its_name_and_its_number() -> None:
    assert rules_of("3.5.4-beta") == rules_of("3.5.4")
    assert rules_of("3.5.4").build.startswith("3.5.4-beta-7f51e5b")


@pytest.mark.parametrize("version", ["3.3", "3.10", "", "3", "3.9.99", "3.7.3", "3.5.4-alpha", "three"])
def test_an_unknown_version_is_refused(version: str) -> None:
    with pytest.raises(
        simzk.ConfigError, match=r"ZooKeeper .* is not simulated; expected one of 3\.4, 3\.4\.0 to 3\.4\.14"
    ):
        rules_of(version)
