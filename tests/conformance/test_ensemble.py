"""One story of an ensemble (elections, moved sessions, read-only servers) told by a real one and by ours, compared.

    SIMZK_REAL_ENSEMBLE=1 pytest tests/conformance/test_ensemble.py

It is run by hand: on a machine that is busy, what a server of the real ensemble tells of a write just made elsewhere
may be from before it, so that a difference is not always one of ours.
"""

from __future__ import annotations

import os

import pytest

from tests.conformance.ensemble_arms import RealArm, SimulatedArm
from tests.conformance.ensemble_story import Story
from tests.conformance.real_ensemble import RealEnsemble


@pytest.mark.skipif("SIMZK_REAL_ENSEMBLE" not in os.environ, reason="a real ensemble is started by hand only")
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
