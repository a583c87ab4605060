"""The section "simzk" in the report of a failed test, as pytest prints it for somebody else."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import simzk
import simzk.scenarios.results
import simzk.testing.failure_report

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

# Imported before the inner runs, because pytester forgets the modules that a run has imported.
LOADED = (simzk.ZooKeeper, simzk.ZooKeeperServer, simzk.KafkaCluster)


def section_of(pytester: pytest.Pytester, source: str, *options: str) -> str:
    """Return the section of the only failed test in a file; empty if there is none."""
    pytester.makepyfile(test_it=source)
    run = pytester.runpytest_inprocess("-W", "error", "-p", "no:randomly", "-p", "no:xdist", "--tb=short", *options)
    _, header, after = str(run.stdout).partition(" simzk ---")
    if not header:
        assert run.ret == 1, str(run.stdout)
        return ""
    lines = after.splitlines()[1:]
    end = next(number for number, line in enumerate(lines) if line.startswith(("===", "---", "___")))
    return "\n".join(line.rstrip() for line in lines[:end]) + "\n"


def text(golden: str) -> str:
    return textwrap.dedent(golden).lstrip("\n")


def test_a_lost_leader(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        import pytest
        from kazoo.exceptions import NoNodeError

        def test_leader(zookeeper, kazoo_client):
            other = zookeeper.client()
            other.start()
            kazoo_client.create("/leader", b"a", ephemeral=True)
            other.exists("/leader", watch=lambda event: None)
            with pytest.raises(NoNodeError):
                other.get("/none")
            zookeeper.advance(1.5)
            zookeeper.pause(kazoo_client)
            zookeeper.expire(kazoo_client)
            other.create("/next", b"1")
            assert other.exists("/leader")
        """,
    )
    assert found == text(
        """
        zookeeper: <ZooKeeper 3.9, 2 clients>, time 1.500 s
          events:
             0.000 s  client 1  session opened
             0.000 s  client 2  session opened
             0.000 s  client 1  create                    /leader  ok
             0.000 s  client 2  exists                    /leader  ok
             0.000 s  client 2  get                       /none    NoNodeError
             1.500 s  client 1  session expired
             1.500 s  client 2  watch event NODE_DELETED  /leader
             1.500 s  client 2  create                    /next    ok
             1.500 s  client 2  exists                    /leader  NoNodeError
          requests of client 1: create 1
          requests of client 2: exists 2 (1 NoNodeError), get 1 (1 NoNodeError), create 1
          sessions:
            client 2: session 0x100000000000001, timeout 10 s
          znodes:
            + /next  b'1'
        run again: pytest test_it.py::test_leader
        """
    )


def test_a_killed_broker_is_named(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        def test_controller(kafka_cluster):
            kafka_cluster.create_topic("orders", assignment={0: [1, 2, 3]})
            kafka_cluster.run_for(1)
            kafka_cluster.kill(1)
            kafka_cluster.run_for(30)
            assert kafka_cluster.controller == 1
        """,
    )
    lines = found.splitlines()
    assert lines[:2] == [
        "kafka_cluster: <KafkaCluster 3.9, 3 brokers, controller 2, 34.6 s>, seed 0",
        "  brokers: 1 killed at 4.600 s; 2 registered, controller; 3 registered",
    ]
    assert "     4.600 s  broker 1      killed" in lines
    assert any(line.startswith("    + /brokers/topics/orders/partitions/0/state  b'{") for line in lines)
    assert "    - /brokers/ids/1" in lines
    (second,) = (line for line in lines if line.startswith("    broker 2: session 0x"))
    assert second.endswith(", ephemerals /brokers/ids/2 /controller")


def test_the_killed_broker_is_named_when_its_event_is_long_past(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        def test_controller(kafka_cluster):
            kafka_cluster.kill(2)
            for number in range(30):
                kafka_cluster.create_topic(f"t{number}", assignment={0: [1, 3]})
            kafka_cluster.run_for(1)
            assert False
        """,
    )
    assert "2 killed at 3.600 s" in found
    assert "last 20 of 61 events:" in found
    assert "broker 2      killed" not in found
    assert "    and 130 more\n" in found


def test_it_is_short_where_nothing_happened(pytester: pytest.Pytester) -> None:
    assert section_of(pytester, "def test_it(zookeeper): assert False") == text(
        """
        zookeeper: <ZooKeeper 3.9, 0 clients>, time 0.000 s
          no events since the start
        run again: pytest test_it.py::test_it
        """
    )


def test_it_is_absent_without_our_fixtures(pytester: pytest.Pytester) -> None:
    assert section_of(pytester, "import simzk\ndef test_it(tmp_path): assert False") == ""


def test_fixtures_of_the_user_and_several_in_one_test(pytester: pytest.Pytester) -> None:
    """A server of any fixture counts, from the start of this test; a parameter is quoted in the command."""
    found = section_of(
        pytester,
        """
        import pytest, simzk

        @pytest.fixture(scope="module")
        def shared():
            with simzk.ZooKeeperServer() as server:
                client = server.client()
                client.start()
                yield server

        @pytest.fixture
        def prepared(zookeeper):
            client = zookeeper.client()
            client.start()
            client.create("/prepared")
            return zookeeper

        def test_before(shared):
            shared.clients[0].create("/before")
            shared.clients[0].create("/changed", b"1")

        @pytest.mark.parametrize("name", ["a b"])
        def test_it(shared, prepared, name):
            client, = shared.clients
            client.delete("/before")
            client.set("/changed", b"2")
            assert False
        """,
    )
    assert found.count("znodes:") == 2  # `prepared` is the object of `zookeeper`
    assert "shared: <ZooKeeperServer 3.9 on 127.0.0.1:" in found
    assert "prepared" in found
    assert "  requests of client 1: delete 1, set 1\n" in found
    assert "    - /before\n    ~ /changed  b'1' -> b'2'\n" in found
    assert "    + /prepared\n" in found
    assert "/before  ok\n     0.000 s  client 1  create" not in found
    assert "run again: pytest 'test_it.py::test_it[a b]'\n" in found


def test_factories_and_the_options_of_the_run(pytester: pytest.Pytester) -> None:
    """A client's fixture requests its server by name; the command has the options that the run had."""
    found = section_of(
        pytester,
        """
        import simzk.pytest

        shared = simzk.pytest.zookeeper(version="3.8", scope="module")
        client = simzk.pytest.kazoo_client("shared")
        big = simzk.pytest.kafka_cluster(brokers=4)

        def test_before(client):
            client.create("/before")

        def test_it(client, big):
            client.create("/a")
            big.kill(4)
            assert False
        """,
        "--simzk-seed=7",
        "--simzk-tcp",
    )
    assert found.startswith("big: <KafkaCluster 3.9, 4 brokers, controller 4, 3.6 s>, seed 7\n")
    assert "4 killed at 3.600 s, controller" in found
    assert "shared: <ZooKeeperServer 3.8 on 127.0.0.1:" in found
    assert "  requests of client 1: create 1\n" in found
    assert "/before" not in found
    assert found.endswith("run again: pytest test_it.py::test_it --simzk-seed 7 --simzk-tcp\n")


def test_a_server_that_two_fixtures_return_is_reported_once(pytester: pytest.Pytester) -> None:
    found = section_of(pytester, "def test_it(patched_kazoo): assert False")
    assert found.count("no events since the start") == 1


def test_a_failed_fixture_has_a_section_too(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        import pytest

        @pytest.fixture
        def broken(kazoo_client):
            kazoo_client.get("/none")

        def test_it(broken): pass
        """,
    )
    assert "client 1  get             /none  NoNodeError\n" in found


def test_a_failure_of_the_report_hides_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        def test_it(zookeeper):
            zookeeper.recorder = None
            assert 1 == 2, "the failure of the test"
        """
    )
    run = pytester.runpytest_inprocess("-p", "no:randomly")
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["*the failure of the test*", "*zookeeper: no report: AttributeError: *"])


def test_pages_of_failed_tests(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        def test_green(zookeeper): pass

        def test_red(kazoo_client, kafka_cluster):
            kazoo_client.create("/<b>")
            kafka_cluster.kill(3)
            assert False
        """,
        "--simzk-html",
        "pages",
    )
    (page,) = (pytester.path / "pages").iterdir()
    assert f"page: pages/{page.name}\n" in found
    written = page.read_text()
    assert "test_red" in written
    assert "/&lt;b&gt;" in written
    assert "3 killed at 3.600 s" in written


def test_the_page_of_one_cluster_is_that_of_a_run(pytester: pytest.Pytester) -> None:
    section_of(
        pytester,
        "def test_it(kafka_cluster):\n    kafka_cluster.kill(3)\n    kafka_cluster.run_for(30)\n    assert False",
        "--simzk-html=pages",
    )
    written = (pytester.path / "pages" / "test_it.py_test_it.html").read_text()
    assert "registration gone" in written
    assert "The test failed." in written


def test_with_workers(pytester: pytest.Pytester) -> None:
    """Sections travel from workers; each test has one."""
    pytester.makepyfile("def test_a(kazoo_client): assert False\ndef test_b(zookeeper): assert False")
    run = pytester.runpytest_subprocess("-p", "no:randomly", "-n", "2")
    run.assert_outcomes(failed=2)
    assert str(run.stdout).count("run again: pytest test_with_workers.py::test_") == 2
