"""simzk as the newest release of each line answers as that release does, every field of every reply and event.

Each real release was asked a seed of the differential test's traffic and its stories (transcript.py); the recordings
are in tests/conformance/data/differential. Real servers are asked as well where a folder for their jars is named:

    SIMZK_ZOOKEEPER_RELEASES=~/.cache/simzk-zookeeper pytest tests/conformance/test_differential_releases.py

`SIMZK_DIFFERENTIAL_REQUESTS` says how many requests of each release are compared at least, and
`SIMZK_DIFFERENTIAL_FIRST_SEED` from which seed on; `SIMZK_DIFFERENTIAL_RELEASES` names the releases, or is `all`.
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from simzk.zookeeper.releases import BUILDS
from tests.conformance.pair import Pair
from tests.conformance.releases import real_release
from tests.conformance.test_differential import FIRST_SEED
from tests.conformance.test_versions import RELEASES
from tests.conformance.transcript import NEWEST_OF_LINES, play, recorded, tell_stories

pytestmark = pytest.mark.slow

REQUESTS = int(os.environ.get("SIMZK_DIFFERENTIAL_REQUESTS", "20000"))


def asked_releases() -> tuple[str, ...]:
    """Return the releases whose real servers are asked."""
    asked = os.environ.get("SIMZK_DIFFERENTIAL_RELEASES", ",".join(NEWEST_OF_LINES))
    return tuple(BUILDS) if asked == "all" else tuple(asked.split(","))


@pytest.mark.parametrize("release", NEWEST_OF_LINES)
def test_recorded_answers_are_given_again(release: str) -> None:
    pair = play(recorded(release), release)
    assert pair.requests > 4000
    assert {"new", "taken up", "refused", "greeted", "broken off"} <= pair.connects.keys()


@pytest.mark.by_hand(RELEASES)
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("release", asked_releases())
def test_traffic_is_answered_as_by_a_real_server(release: str) -> None:
    folder = Path(os.environ[RELEASES]).expanduser().resolve()
    seed = FIRST_SEED
    with real_release(release, folder) as server:
        pair = Pair(server.port, release=release)
        with closing(pair.real):
            tell_stories(pair)
            while pair.requests < REQUESTS:
                pair.play(seed)
                seed += 1


def test_a_wrong_answer_is_noticed() -> None:
    text = recorded("3.8.6")
    with pytest.raises((pytest.fail.Exception, AssertionError)):
        play(text, "3.7.2")
    with pytest.raises((pytest.fail.Exception, AssertionError)):
        play(text, "3.9.5")
