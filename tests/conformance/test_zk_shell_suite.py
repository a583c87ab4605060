"""zk-shell's own tests, unmodified, against `simzk serve` and against a real ZooKeeper: the same pass, the same fail.

A real ZooKeeper 3.9.5 passes 100 of the tests that talk to a server and fails 3: one asks a standalone server to
reconfigure itself, two expect a digest that getACL hides since 3.9 from whoever has no ADMIN permission.
"""

from __future__ import annotations

import re

import pytest

from tests.cli.test_serve import serving
from tests.conformance.kazoo_suite.play import play_suite
from tests.conformance.kazoo_suite.watched import WHOLE_S
from tests.conformance.real_zookeeper import RealZooKeeper

pytestmark = pytest.mark.slow

FAILED = {"test_reconfig", "test_set_get_acls", "test_set_get_acls_recursive"}
ACCOUNT = "of the tests that talk to a server: 100 passed, 3 failed, 0 skipped"


def check_suite(port: int) -> None:
    done = play_suite(["zk_shell.tests", "-rfE"], {"ZOOKEEPER_HOSTS": f"127.0.0.1:{port}"})
    assert set(re.findall(r"^(?:FAILED|ERROR) .*::(\w+)", done.stdout, re.MULTILINE)) == FAILED, done.stdout[-4000:]
    assert done.stdout.strip().splitlines()[-1] == ACCOUNT, done.stderr[-1000:]


@pytest.mark.timeout(WHOLE_S)
def test_zk_shells_own_tests_end_as_on_a_real_server() -> None:
    with serving("--port", "0") as process:
        check_suite(process.port)


@pytest.mark.java
@pytest.mark.timeout(WHOLE_S)
def test_a_real_server_passes_and_fails_the_same() -> None:
    with RealZooKeeper() as server:
        check_suite(server.port)
