"""ZooKeeper's and Curator's own tests in Java, unmodified, on servers of ours and on those that they start themselves.

    SIMZK_JAVA_SUITES=~/.cache/simzk-java-suites pytest tests/conformance/test_java_suites.py

It fetches their jars into that folder, needs a JDK, and takes about ten minutes a suite: each test starts a server.
java_suites/suites.py names what cannot end alike.
"""

from __future__ import annotations

import pytest

from tests.conformance.java_suites.jars import why_not
from tests.conformance.java_suites.play import play
from tests.conformance.java_suites.suites import FAIL_ANYWHERE, IN_THE_SERVERS_PROCESS, SUITES

pytestmark = pytest.mark.slow

SUITE_S = 3600


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.timeout(SUITE_S)
@pytest.mark.parametrize("name", SUITES)
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "real"])
def test_javas_own_tests_pass(name: str, ours: bool) -> None:
    outcomes = play(SUITES[name], ours=ours)
    excused = FAIL_ANYWHERE | IN_THE_SERVERS_PROCESS if ours else FAIL_ANYWHERE
    assert {test for test, outcome in outcomes.items() if outcome == "failed"} == excused & outcomes.keys()
    assert list(outcomes.values()).count("passed") > len(SUITES[name].classes)
