"""The section "simzk" in the report of a failed test, as pytest prints it for somebody else."""

from __future__ import annotations

import re
import textwrap
import threading
from pathlib import Path

import pytest

import simzk
import simzk.scenarios.results
import simzk.scenarios.znode_log
from simzk.serve.client_activity import ObservedHandler
from simzk.simulation.history import Event
from simzk.testing import failure_report, wait_until

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
             0.000 s  the test  advances 1.5 s
             1.500 s  client 1  paused
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
    assert "The test failed: assert False." in written


def test_a_server_that_the_test_makes_itself(pytester: pytest.Pytester) -> None:
    """It is described as it was before it was closed by the failure."""
    found = section_of(
        pytester,
        """
        import simzk

        def test_it():
            with simzk.ZooKeeper() as passed:
                pass
            with simzk.ZooKeeper() as zookeeper, simzk.KafkaCluster(brokers=2) as cluster:
                client = zookeeper.client()
                client.start()
                client.create("/lock", ephemeral=True)
                cluster.kill(2)
                assert False
        """,
    )
    lines = found.splitlines()
    assert lines[0] == "KafkaCluster: <KafkaCluster 3.9, 2 brokers, controller 1, 3.6 s>, seed 0"
    assert lines[1] == "  brokers: 1 registered, controller; 2 killed at 3.600 s"
    assert "ZooKeeper: <ZooKeeper 3.9, 1 client>, time 0.000 s" in lines
    assert "    client 1: session 0x100000000000000, timeout 10 s, ephemerals /lock" in lines
    assert "    + /lock" in lines
    assert sum(line.startswith("ZooKeeper: ") for line in lines) == 1
    assert lines[-1] == "run again: pytest test_it.py::test_it"


def test_a_server_that_was_closed_before_the_failure(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        import simzk

        def test_it():
            with simzk.ZooKeeperServer() as zookeeper:
                client = zookeeper.client()
                client.start()
                client.create("/a", b"1")
            assert False
        """,
    )
    assert "    + /a  b'1'" in found.splitlines()


UNITTEST = """
    import unittest
    import simzk
    from simzk.testing import KafkaClusterTestCase, ZooKeeperTestCase

    class Helper(ZooKeeperTestCase):
        def test_it(self):
            self.kazoo_client.create("/lock", ephemeral=True)
            {helper}

    class Cluster(KafkaClusterTestCase):
        def test_it(self):
            self.kafka_cluster.kill(3)
            {cluster}

    class Own(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            cls.shared = simzk.ZooKeeper()

        @classmethod
        def tearDownClass(cls):
            cls.shared.close()

        def setUp(self):
            self.zookeeper = simzk.ZooKeeper(version="3.5.8")

        def tearDown(self):
            self.zookeeper.close()

        def test_it(self):
            client = self.zookeeper.client()
            client.start()
            client.create("/lock", ephemeral=True)
            {own}
"""


@pytest.mark.parametrize("case", ["helper", "cluster", "own"])
def test_cases_of_unittest(pytester: pytest.Pytester, case: str) -> None:
    source = UNITTEST.format(**{**dict.fromkeys(("helper", "cluster", "own"), "pass"), case: "self.fail()"})
    lines = section_of(pytester, source).splitlines()
    if case == "cluster":
        assert "  brokers: 1 registered, controller; 2 registered; 3 killed at 3.600 s" in lines
    else:
        assert "    client 1: session 0x100000000000000, timeout 10 s, ephemerals /lock" in lines
        assert "    + /lock" in lines
    if case == "own":
        assert "ZooKeeper: <ZooKeeper 3.5.8, 1 client>, time 0.000 s" in lines
        assert any(line.endswith(": <ZooKeeper 3.9, 0 clients>, time 0.000 s") for line in lines), "of setUpClass"
    assert lines[-1] == f"run again: pytest test_it.py::{case.capitalize()}::test_it"


def test_a_server_inside_what_a_fixture_returns(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        import pytest
        import simzk

        @pytest.fixture(scope="module")
        def app():
            with simzk.ZooKeeper() as zookeeper:
                yield {"zookeeper": zookeeper}

        def test_before(app): app["zookeeper"].advance(1)
        def test_without(): pass
        def test_it(app): assert False
        """,
    )
    assert found.startswith("app: <ZooKeeper 3.9, 0 clients>, time 1.000 s\n")


def test_servers_of_earlier_tests_are_forgotten(pytester: pytest.Pytester) -> None:
    assert (
        section_of(
            pytester,
            """
        import simzk

        def test_before(zookeeper):
            simzk.ZooKeeper()

        def test_it(): assert False
        """,
        )
        == ""
    )


def test_servers_that_the_test_forgets_are_freed(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        import gc
        import weakref
        import simzk

        def test_it():
            forgotten = []
            for number in range(20):
                zookeeper = simzk.ZooKeeper()
                zookeeper.close()
                forgotten.append(weakref.ref(zookeeper))
            open_still = [simzk.ZooKeeper() for number in range(6)]
            del zookeeper
            gc.collect()
            assert any(found() is not None for found in forgotten)
        """,
    )
    assert found.count("ZooKeeper: <") == failure_report.OWN_MAX


def test_a_page_has_steps_and_znodes(pytester: pytest.Pytester) -> None:
    section_of(
        pytester,
        """
        import simzk

        def test_it():
            with simzk.KafkaCluster() as cluster:
                cluster.create_topic("orders", partitions=1, replication_factor=3)
                cluster.run_for(5)
                cluster.kill(3)
                cluster.run_for(30)
                cluster.restart(3)
                cluster.run_for(5)
                assert False
        """,
        "--simzk-html=pages",
    )
    page = (pytester.path / "pages" / "test_it.py_test_it.html").read_text()
    for step in ("create topic orders", "kill broker 3", "start broker 3"):
        assert f">operator</td><td>{step}<" in page, step
    assert ">steps<" in page
    assert '<ul class="tree">' in page, "the znodes at the moment of the slider"


def test_a_page_of_a_zookeeper_has_clients_steps_and_znodes(pytester: pytest.Pytester) -> None:
    section_of(
        pytester,
        """
        import contextlib
        import simzk

        def test_it(zookeeper, kazoo_client):
            kazoo_client.create("/a", b"1", ephemeral=True)
            kazoo_client.exists("/b")
            with contextlib.suppress(Exception):
                kazoo_client.set("/c", b"2")
            zookeeper.expire(kazoo_client)
            zookeeper.settle()
            assert False
        """,
        "--simzk-html=pages",
    )
    page = (pytester.path / "pages" / "test_it.py_test_it.html").read_text()
    for part in (">Clients <small>", ">client 1<", ">steps<", ">failed<", '<ul class="tree">'):
        assert part in page, part


def test_changes_of_znodes_have_the_time_of_their_request() -> None:
    with simzk.ZooKeeper() as zookeeper:
        client = zookeeper.client()
        client.start()
        start = failure_report.start_of("zookeeper", zookeeper, pages=True)
        client.create("/a", b"1", ephemeral=True)
        client.exists("/a")
        client.create("/b", b"2")
        client.delete("/b")
        zookeeper.expire(client)
        tables = failure_report.tables_of_start(start)
        events = [(at_s, what) for at_s, what in zip(tables.events["at, s"], tables.events["what"], strict=True)]
        assert [what for _, what in events][:5] == ["create", "exists", "create", "delete", "session expired"]
        times = {what: at_s for at_s, what in reversed(events)}
        changes = list(zip(*(tables.znode_changes[name] for name in ("at, s", "path", "data")), strict=True))
        assert changes == [
            (times["create"], "/a", "1"),
            (events[2][0], "/b", "2"),
            (times["delete"], "/b", None),
            (times["session expired"], "/a", None),
        ]


@pytest.mark.slow
def test_with_workers(pytester: pytest.Pytester) -> None:
    """Sections travel from workers; each test has one."""
    pytester.makepyfile("def test_a(kazoo_client): assert False\ndef test_b(zookeeper): assert False")
    run = pytester.runpytest_subprocess("-p", "no:randomly", "-n", "2")
    run.assert_outcomes(failed=2)
    assert str(run.stdout).count("run again: pytest test_with_workers.py::test_") == 2


def test_verbs_of_the_test_are_events_and_clients_have_one_name(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        from kazoo.client import KazooClient

        def test_it(zookeeper, kazoo_client):
            kazoo_client.create("/a/b", makepath=True)
            zookeeper.faults.hold("get", client=kazoo_client, path="/a")
            zookeeper.faults.drop_reply(path="/b", below=True)
            with zookeeper.pause(kazoo_client):
                zookeeper.advance(1.5)
            zookeeper.disconnect(kazoo_client)
            assert False
        """,
    )
    lines = [" ".join(line.split()) for line in found.splitlines()]
    for verb in (
        "0.000 s client 1 fault hold: get /a",
        "0.000 s the test fault drop_reply: requests below /b",
        "0.000 s client 1 paused",
        "0.000 s the test advances 1.5 s",
        "1.500 s client 1 resumed",
        "1.500 s client 1 disconnected",
    ):
        assert verb in lines
    assert "another client" not in found


def test_the_page_says_why_and_lasts_until_the_end(pytester: pytest.Pytester) -> None:
    section_of(
        pytester,
        """
        def test_it(kafka_cluster, kazoo_client):
            kafka_cluster.run_for(60)
            assert 1 == 2, "the sum is wrong"
        """,
        "--simzk-html=pages",
    )
    (page,) = (pytester.path / "pages").iterdir()
    html = page.read_text(encoding="utf-8")
    assert "The test failed: AssertionError: the sum is wrong." in html


def test_a_page_marks_what_failed() -> None:
    refused = Event(0, "client 1", "create", "/a/b", "", "NoNodeError")
    made = refused._replace(at_us=1, after="ok")
    assert failure_report._has_failed(refused, [])
    assert failure_report._has_failed(refused, [made._replace(who="client 2")])
    assert not failure_report._has_failed(refused, [made]), "kazoo creates its parents (makepath)"
    assert failure_report._has_failed(refused._replace(after="NoAuthError"), [made])


def test_a_cluster_lasts_longer_than_its_events() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:
        start = failure_report.start_of("cluster", cluster, pages=True)
        cluster.advance(60)
        now_s = cluster.scheduler.now_us / 1e6
        assert failure_report.tables_of_start(start).end_s >= now_s


@pytest.mark.parametrize(
    ("body", "shows"),
    [
        ("zookeeper.expire('client')", False),
        ("simzk.KafkaCluster(brokers=0)", False),
        ("simzk.KafkaCluster(brokers=1).run_until(lambda: 1 / 0, timeout_s=1)", False),
        ("failing()", True),
    ],
)
def test_frames_of_simzk_are_hidden_unless_it_is_the_culprit(pytester: pytest.Pytester, body: str, shows: bool) -> None:
    pytester.makepyfile(
        test_it=f"""
        import simzk
        from simzk.serve.verbs import TestServer as Server

        def failing():
            Server._created_paths_of_nobody = None
            from simzk.simulation.history import format_time
            format_time(-1)

        def test_it(zookeeper):
            {body}
        """
    )
    run = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:xdist")
    package = str(Path(simzk.__file__).parent)
    assert run.ret == 1
    assert (f"\n{package}" in str(run.stdout)) == shows
    full = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:xdist", "--full-trace")
    assert package in str(full.stdout)


def test_an_error_in_a_watcher_is_not_silent() -> None:
    zookeeper = simzk.ZooKeeper()
    client = zookeeper.client()
    client.start()
    seen = threading.Event()

    @client.DataWatch("/")  # type: ignore[untyped-decorator]  # kazoo has no types
    def fail(data: object, stat: object) -> None:
        if seen.is_set():
            raise ValueError("not what I expected")
        seen.set()

    client.set("/", b"1")
    (handler,) = zookeeper._watched_clients()
    assert isinstance(handler, ObservedHandler)
    wait_until(lambda: bool(handler._failures))
    with pytest.warns(RuntimeWarning, match=r"client 1 raised ValueError\('not what I expected'\); settle\(\) would"):
        zookeeper.close()


def test_a_long_line_is_cut(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        def test_it(zookeeper, kazoo_client):
            kazoo_client.create("/" + "x" * 5000)
            assert False
        """,
    )
    assert max(map(len, found.splitlines())) < 500
    assert "characters)" in found


def test_znodes_of_every_cluster_come_last() -> None:
    with simzk.KafkaCluster(brokers=1) as cluster:
        paths = [path for path, _ in cluster.tree.walk()]
        assert [path for path in paths if not failure_report._is_of_every_boot(path) and path != "/"] == []
        cluster.create_topic("orders", partitions=1, replication_factor=1)
        cluster.advance(1)
        made = {path for path, _ in cluster.tree.walk()} - set(paths)
    assert not any(map(failure_report._is_of_every_boot, made))


def test_a_misspelt_method_and_a_client_without_a_session(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        def test_typo(zookeeper, kazoo_client):
            zookeeper.client()
            zookeeper.expires(kazoo_client)
        """,
    )
    assert found.startswith("did you mean expire?\nzookeeper: ")
    assert "  client 2: no session; it was not started, was stopped, or its session expired\n" in found


def test_a_refused_topic_and_the_name_of_a_served_cluster(pytester: pytest.Pytester) -> None:
    found = section_of(
        pytester,
        """
        import simzk

        def test_topic():
            with simzk.KafkaServer(brokers=1) as server:
                server.create_topic("orders", partitions=1, replication_factor=3)
                server.advance(1)
                assert server.assignment("orders")
        """,
    )
    assert found.startswith("KafkaServer: <KafkaCluster 3.9, 1 broker, ")
    assert re.search(r"admin +refused +create topic orders +INVALID_REPLICATION_FACTOR Replication factor: 3", found)


def test_waits_take_the_name_of_other_libraries_for_their_time() -> None:
    with simzk.ZooKeeper() as zookeeper:
        client = zookeeper.client()
        client.start()
        client.create("/a")
        zookeeper.settle(timeout=5)
        with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
            wait_until(lambda: False, timeout=0.01)
