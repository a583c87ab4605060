"""Factories, marks and options of the pytest plugin, as pytest runs them for somebody else."""

from __future__ import annotations

import pytest

import simzk
import simzk.pytest
from tests.waiting import in_thread

pytest_plugins = ["pytester"]

QUIET = ("-W", "error", "-p", "no:randomly", "-p", "no:cacheprovider")

FACTORIES = """
import threading
import pytest
import simzk.pytest

shared = simzk.pytest.zookeeper(servers=3, version="3.5.8", scope="session")
admin = simzk.pytest.kazoo_client("shared", scope="session", timeout=20)
mine = simzk.pytest.kazoo_client("shared")
in_memory = simzk.pytest.zookeeper(version="3.4.14")
on_tcp = simzk.pytest.zookeeper(tcp=True)
cluster = simzk.pytest.kafka_cluster(version="2.8", brokers=5, racks=3, config={"min.insync.replicas": 2})
of_seed = simzk.pytest.kafka_cluster(brokers=1, seed=3)
SESSIONS = set()


@pytest.mark.parametrize("number", range(3))
def test_a_shared_server_has_a_clean_tree_for_each_test(shared, admin, mine, number):
    assert shared.version == "3.5.8"
    assert len(shared.ensemble.modes) == 3 and shared.ensemble.leader
    assert mine.get_children("/") == ["zookeeper"]
    mine.create("/a/b", makepath=True)
    mine.create("/mine", ephemeral=True)
    SESSIONS.add(admin.client_id)
    assert len(SESSIONS) == 1, "the client of the session goes on"
    shared.faults.fail("create", error="NO_AUTH")
    shared.ensemble.stop(1)


def test_options(in_memory, on_tcp):
    assert (in_memory.version, type(in_memory).__name__) == ("3.4.14", "ZooKeeper")
    assert type(on_tcp).__name__ == "ZooKeeperServer"


def test_a_cluster_with_options(cluster, of_seed):
    assert cluster.live_brokers == [1, 2, 3, 4, 5]
    assert set(cluster.racks_of_live().values()) == {"rack1", "rack2", "rack3"}
    assert (cluster.version, cluster.seed, of_seed.seed) == ("2.8", 11, 3)


@pytest.mark.zookeeper(version="3.4.14", sasl_users={"a": "b"})
class TestMarks:
    def test_of_the_class(self, zookeeper, zookeeper_server):
        assert zookeeper.version == zookeeper_server.version == "3.4.14"

    @pytest.mark.zookeeper(version="3.6", servers=3)
    def test_the_closest_wins(self, zookeeper, kazoo_client):
        assert zookeeper.version == "3.6" and len(zookeeper.ensemble.modes) == 3
        assert zookeeper.server.config.sasl_users == {"a": "b"}
        assert kazoo_client.connected


@pytest.mark.kafka(version="0.8.2", brokers=[4, 7], config={"num.partitions": 2})
def test_mark_of_a_cluster(kafka_cluster):
    assert kafka_cluster.live_brokers == [4, 7] and kafka_cluster.version.startswith("0.8.2")
"""


def test_factories_and_marks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FACTORIES)
    result = pytester.runpytest_subprocess(*QUIET, "--strict-markers", "-p", "no:xdist", "--simzk-seed", "11")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["simzk: --simzk-seed 11"])


@pytest.mark.slow
def test_workers_share_nothing_but_the_seed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, simzk.pytest
        shared = simzk.pytest.zookeeper(tcp=True, scope="session")

        @pytest.mark.parametrize("number", range(4))
        def test_it(shared, kafka_cluster, number, request):
            client = shared.client()
            client.start()
            assert client.get_children("/") == ["zookeeper"]
            client.create("/a")
            with open(f"seed-{number}", "w") as file:
                file.write(str(kafka_cluster.seed))
        """
    )
    result = pytester.runpytest_subprocess(*QUIET, "-n", "2", "--simzk-seed", "random")
    result.assert_outcomes(passed=4)
    seeds = {path.read_text() for path in pytester.path.glob("seed-*")}
    assert len(seeds) == 1
    assert seeds != {"0"}


@pytest.mark.slow
def test_a_wrong_mark_says_what_is_accepted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.zookeeper(server=3)
        def test_unknown(zookeeper): pass

        @pytest.mark.zookeeper("3.4")
        def test_positional(zookeeper): pass

        @pytest.mark.zookeeper(version="2.0")
        def test_value(zookeeper): pass

        @pytest.mark.kafka(broker=3)
        def test_of_a_cluster(kafka_cluster): pass
        """
    )
    result = pytester.runpytest_subprocess(*QUIET, "-p", "no:xdist")
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(
        [
            "E  *server: there is no such option; expected one of clock, *",
            "E  *pytest.mark.zookeeper: '3.4' has no name; expected arguments such as version=...",
            "E  *2.0*",
            "E  *broker: there is no such option; expected one of *",
        ]
    )


def test_a_wrong_option_of_a_factory_is_an_error_at_once() -> None:
    with pytest.raises(simzk.ConfigError, match="server: there is no such option; expected one of "):
        simzk.pytest.zookeeper(server=3)
    with pytest.raises(simzk.ConfigError, match="broker: there is no such option; expected one of "):
        simzk.pytest.kafka_cluster(broker=3)


def test_a_wrong_seed_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--simzk-seed", "x")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --simzk-seed: 'x' is no number; expected a number or `random`"])


REAL_TESTS = """
import pytest
from kazoo.client import KazooClient

@pytest.fixture
def writer(zookeeper):
    client = zookeeper.client()
    client.start()
    return client

def test_kind(zookeeper, request):
    option = request.config.getoption
    kind = "RemoteZooKeeper" if option("--simzk-real") else "ZooKeeperServer" if option("--simzk-tcp") else "ZooKeeper"
    assert type(zookeeper).__name__ == kind

def test_watch(zookeeper, kazoo_client, writer):
    assert "a" not in kazoo_client.get_children("/")
    seen = []
    writer.create("/a", b"1")
    kazoo_client.DataWatch("/a", lambda data, stat: seen.append(data))
    for number in range(20):
        writer.set("/a", b"%d" % number)
        zookeeper.settle()
        assert seen[-1] == b"%d" % number

def test_expiry(zookeeper, kazoo_client, writer):
    assert "a" not in kazoo_client.get_children("/")
    writer.create("/a", ephemeral=True)
    zookeeper.expire(writer)
    assert kazoo_client.exists("/a") is None
    zookeeper.settle()
    assert writer.connected

def test_disconnect(zookeeper, kazoo_client):
    session = kazoo_client.client_id
    zookeeper.disconnect(kazoo_client)
    zookeeper.settle()
    assert kazoo_client.client_id == session

def test_errors_of_callbacks(zookeeper, kazoo_client):
    def fail(event):
        raise ValueError("a mistake")
    kazoo_client.exists("/a", watch=fail)
    kazoo_client.create("/a")
    with pytest.raises(ValueError, match="a mistake"):
        zookeeper.settle()

def test_a_client_of_other_code(zookeeper_server):
    client = KazooClient(zookeeper_server.hosts)
    client.start()
    client.create("/here/b", makepath=True)
    client.stop()
    client.close()
    mine = zookeeper_server.client(hosts="any/here")
    mine.start()
    assert mine.exists("/b")

def test_a_client_without_the_fixture(patched_kazoo, kazoo_client):
    kazoo_client.create("/app")
    client = KazooClient("nowhere.example.org:1/app")
    client.start()
    client.create("/a")
    assert kazoo_client.exists("/app/a")
    seen = []
    client.exists("/b", watch=seen.append)
    kazoo_client.create("/app/b")
    patched_kazoo.settle()
    assert len(seen) == 1

def test_a_verb_of_simulated_servers(zookeeper, kazoo_client):
    kazoo_client.create("/a", ephemeral=True)
    with zookeeper.pause(kazoo_client):
        zookeeper.advance(100)

@pytest.mark.zookeeper(version="3.4.14")
def test_of_a_release(zookeeper):
    assert zookeeper.version == "3.4.14"
"""


@pytest.mark.slow
def test_the_same_tests_against_a_server_at_an_address(pytester: pytest.Pytester) -> None:
    """Assert what `--simzk-real` does, with our own server; tests/conformance does it with a real one."""
    pytester.makepyfile(REAL_TESTS)
    for options in ((), ("--simzk-tcp",)):
        pytester.runpytest_subprocess(*QUIET, "-p", "no:xdist", *options).assert_outcomes(passed=9)
    with simzk.ZooKeeperServer(clock="wall") as server:
        client = server.client()
        client.start()
        client.create("/ci")
        command = (*QUIET, "-rs", "-p", "no:xdist", "--simzk-real", f"{server.hosts}/ci")
        result = in_thread(lambda: pytester.runpytest_subprocess(*command)).result(120)
        result.assert_outcomes(passed=7, skipped=2)
        result.stdout.fnmatch_lines(
            [
                f"simzk: --simzk-real {server.hosts}/ci",
                "*a real ZooKeeper has no 'pause': it is a verb of simzk's own servers",
                "*the test is for ZooKeeper 3.4.14, and --simzk-real is 3.9.*",
            ]
        )
        assert client.get_children("/ci") == [], "nothing is left"


@pytest.mark.slow
def test_an_address_without_a_server_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(zookeeper): pass")
    with simzk.ZooKeeperServer() as server:
        hosts = server.hosts
    pytester.makeconftest("import simzk.testing.remote_zookeeper as remote\nremote._START_S = 0.2")
    result = pytester.runpytest_subprocess(*QUIET, "-p", "no:xdist", "--simzk-real", hosts)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"E  *{hosts}: no ZooKeeper answers; expected hosts of a running ensemble"])
