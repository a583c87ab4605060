"""The pytest plugin, as pytest runs it for somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

STORY = """
import threading
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

def test_first(kazoo_client, zookeeper):
    assert type(kazoo_client) is KazooClient
    assert zookeeper.clients == (kazoo_client,)
    kazoo_client.create("/a", ephemeral=True)
    states, came_back = [], threading.Event()

    def listen(state):
        states.append(state)
        if state == KazooState.CONNECTED:
            came_back.set()

    kazoo_client.add_listener(listen)
    zookeeper.expire(kazoo_client)
    assert came_back.wait(30)
    assert KazooState.LOST in states
    assert kazoo_client.exists("/a") is None

def test_each_has_a_fresh_one(kazoo_client):
    assert kazoo_client.get_children("/") == ["zookeeper"]
    kazoo_client.create("/a")

def test_each_has_a_fresh_one_again(kazoo_client):
    assert kazoo_client.get_children("/") == ["zookeeper"]

def test_a_paused_client_does_not_hold_up_the_end(kazoo_client, zookeeper):
    zookeeper.pause(kazoo_client)
    kazoo_client.create_async("/never")

def test_no_thread_is_left():
    assert threading.active_count() == THREADS

THREADS = threading.active_count()
"""


def test_fixtures_need_no_configuration(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(STORY)
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:randomly", "-p", "no:xdist")
    result.assert_outcomes(passed=5)


def test_a_cluster_of_three_brokers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_cluster(kafka_cluster):
            kafka_cluster.create_topic("t", partitions=1, replication_factor=3)
            kafka_cluster.run_for(5)
            client = kafka_cluster.zookeeper.client()
            client.start()
            assert sorted(client.get_children("/brokers/ids")) == ["1", "2", "3"]
            assert client.exists("/brokers/topics/t/partitions/0/state")
        """
    )
    pytester.runpytest_subprocess("-W", "error", "-p", "no:randomly").assert_outcomes(passed=1)


def test_fixtures_say_what_they_are(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures", "-p", "no:randomly")
    result.stdout.fnmatch_lines_random(
        ["zookeeper -- *", "zookeeper_server -- *", "patched_kazoo -- *", "kazoo_client -- *", "kafka_cluster -- *"]
    )


def test_a_cluster_without_numpy_says_what_to_type(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        sitecustomize="", test_it="import sys\nsys.modules['numpy'] = None\ndef test_it(kafka_cluster): pass\n"
    )
    result = pytester.runpytest_subprocess("-p", "no:randomly")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*KafkaCluster needs numpy*pip install 'simzk[[]kafka]'"])


def test_the_plugin_imports_nothing_heavy(pytester: pytest.Pytester) -> None:
    script = pytester.makepyfile(
        look="""
        import sys
        import pytest
        before = set(sys.modules)
        import simzk, simzk.testing.plugin
        loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
        assert not loaded & {"asyncio", "kazoo", "numpy", "pyarrow", "typer", "rich", "msgspec", "socket"}, loaded
        """
    )
    assert pytester.runpython(script).ret == 0


def test_pytest_does_not_rewrite_the_asserts_of_simzk(pytester: pytest.Pytester) -> None:
    """An installed simzk is a distribution with a plugin, which pytest registers as here."""
    pytester.makeconftest(
        """
        import pytest

        pytest.register_assert_rewrite("simzk")
        pytest_plugins = ["simzk.testing.plugin"]
        """
    )
    pytester.makepyfile(
        """
        import sys

        def test_modules_are_imported_plainly(zookeeper):
            names = [name for name in sys.modules if name.startswith("simzk.")]
            rewritten = [name for name in names if "Rewriting" in type(sys.modules[name].__loader__).__name__]
            assert len(names) > 20
            assert set(rewritten) <= {"simzk.testing", "simzk.testing.plugin", "simzk.testing.plain_imports"}
        """
    )
    pytester.runpytest_subprocess("-p", "no:simzk", "-p", "no:xdist").assert_outcomes(passed=1)


def test_a_failed_test_is_reported_though_its_callback_never_returns(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import threading

        def test_blocked(zookeeper):
            client = zookeeper.client()
            client.start()
            client.create("/a")
            client.get("/a", watch=lambda event: threading.Event().wait())
            client.set("/a", b"1")
            zookeeper.settle(timeout_s=0.01)

        def test_next(kazoo_client):
            assert kazoo_client.exists("/a") is None
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1, passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*not settled after 0.01 s: client 1: callback *", "*its thread was left running*"])
