"""The same user tests by flag: in memory, over TCP, against a real ZooKeeper and against a real ensemble."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from tests.conformance.real_ensemble import RealEnsemble
from tests.testing.test_factories import QUIET, REAL_TESTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.real_zookeeper import RealZooKeeper

pytestmark = [pytest.mark.slow, pytest.mark.java]

LOCK_TESTS = """
from kazoo.recipe.election import Election

def test_lock(zookeeper, kazoo_client):
    holder = zookeeper.client()
    holder.start()
    assert holder.Lock("/lock").acquire()
    mine = kazoo_client.Lock("/lock")
    assert not mine.acquire(blocking=False)
    zookeeper.expire(holder)
    assert mine.acquire(timeout=30)

def test_queue(zookeeper, kazoo_client):
    queue = kazoo_client.Queue("/queue")
    for number in range(5):
        queue.put(b"%d" % number)
    zookeeper.settle()
    assert [queue.get() for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]

def test_party(zookeeper, kazoo_client):
    other = zookeeper.client()
    other.start()
    kazoo_client.Party("/party", "mine").join()
    other.Party("/party", "other").join()
    zookeeper.settle()
    assert sorted(kazoo_client.Party("/party")) == ["mine", "other"]
"""


def outcome(folder: Path, *options: str) -> str:
    """Run the tests; return the last line of pytest's output without the time."""
    (folder / "test_story.py").write_text(REAL_TESTS)
    (folder / "test_recipes.py").write_text(LOCK_TESTS)
    command = [sys.executable, "-m", "pytest", *QUIET, "-q", "-rs", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=250)
    print(done.stdout)
    return done.stdout.splitlines()[-1].partition(" in ")[0]


def children(hosts: str) -> list[str]:
    client = KazooClient(hosts)
    client.start()
    try:
        return sorted(client.get_children("/"))
    finally:
        client.stop()
        client.close()


def test_in_memory(tmp_path: Path) -> None:
    assert outcome(tmp_path) == "12 passed"


def test_over_tcp(tmp_path: Path) -> None:
    assert outcome(tmp_path, "--simzk-tcp") == "12 passed"


def test_with_a_real_server(tmp_path: Path, real_zookeeper: RealZooKeeper) -> None:
    hosts = f"127.0.0.1:{real_zookeeper.port}"
    before = children(hosts)
    assert outcome(tmp_path, "--simzk-real", hosts) == "10 passed, 2 skipped"
    assert children(hosts) == before, "nothing is left"


def test_with_a_real_ensemble(tmp_path: Path) -> None:
    with RealEnsemble() as ensemble:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ensemble.ports.values())
        assert outcome(tmp_path, "--simzk-real", hosts) == "10 passed, 2 skipped"
        assert children(hosts) == ["zookeeper"], "nothing is left"
