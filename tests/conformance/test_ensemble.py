"""One story of an ensemble (elections, moved sessions, read-only servers) played on a real one and on simzk."""

from __future__ import annotations

import pytest

from tests.conformance.ensemble_arms import RealArm, SimulatedArm
from tests.conformance.ensemble_story import Story
from tests.conformance.real_ensemble import RealEnsemble

pytestmark = pytest.mark.slow


@pytest.mark.java
def test_both_tell_the_same_story() -> None:
    ours = SimulatedArm()
    try:
        simulated = Story(ours).tell()
    finally:
        ours.close()
    with RealEnsemble() as ensemble:
        real = Story(RealArm(ensemble)).tell()
    assert simulated.keys() == real.keys()
    different = {name: (what, real[name]) for name, what in simulated.items() if what != real[name]}
    assert not different
