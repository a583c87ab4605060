"""`simzk.patch`: clients that other code creates talk to the fake server."""

from __future__ import annotations

import asyncio
import importlib
import threading
import unittest
import warnings
from typing import TYPE_CHECKING, Any

import kazoo.client
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConfigurationError, NoAuthError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import make_acl, make_digest_acl

import simzk
from simzk.errors import ConfigError
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

PRODUCTION = "zk-1.production.example:2181,zk-2.production.example:2181"
INIT, SET_HOSTS = KazooClient.__init__, KazooClient.set_hosts


class Application:
    """Code under test: it makes its own client."""

    def __init__(self, hosts: str | list[str] = PRODUCTION, **options: Any) -> None:
        self.client = KazooClient(hosts, **options)
        self.client.start(timeout=PATIENCE_S)

    def register(self) -> str:
        path: str = self.client.create("/workers/w-", ephemeral=True, sequence=True, makepath=True)
        return path


class OwnClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """A subclass, as applications have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.own = True


@pytest.fixture(autouse=True)
def left_as_it_was() -> Any:
    threads = set(threading.enumerate())
    yield
    assert (KazooClient.__init__, KazooClient.set_hosts) == (INIT, SET_HOSTS)
    assert set(threading.enumerate()) <= threads


def test_an_application_is_tested_unchanged() -> None:
    with simzk.patch() as zookeeper:
        first, second = Application(), Application()
        path = first.register()
        seen: list[list[str]] = []
        second.client.ChildrenWatch("/workers", lambda names: seen.append(names))
        zookeeper.expire(first.client)
        zookeeper.settle(PATIENCE_S)
        assert second.client.exists(path) is None
        assert seen == [["w-0000000000"], []]


def test_names_imported_before_and_subclasses_are_patched() -> None:
    with simzk.patch() as zookeeper:
        clients = [KazooClient(PRODUCTION), kazoo.client.KazooClient(hosts=PRODUCTION), OwnClient(PRODUCTION, 5.0)]
        for client in clients:
            client.start(timeout=PATIENCE_S)
        assert len(zookeeper.server.sessions) == 3
        assert clients[2].own
        assert type(clients[0]) is KazooClient
    assert not any(client.connected for client in clients), "clients are stopped at the end"


@pytest.mark.parametrize(
    ("hosts", "chroot"),
    [
        ("zk:2181", ""),
        (f"{PRODUCTION}/app/one", "/app/one"),
        (["zk-1:2181", "zk-2:2181", "/app"], "/app"),
        ("[::1]:2181/app", "/app"),
    ],
)
def test_only_the_chroot_of_hosts_is_used(hosts: str | list[str], chroot: str) -> None:
    with simzk.patch() as zookeeper:
        root = KazooClient()
        root.start(timeout=PATIENCE_S)
        root.ensure_path(chroot or "/")
        client = Application(hosts).client
        assert client.chroot == chroot
        client.create("/a", b"x")
        assert zookeeper.server.tree.get(f"{chroot}/a") is not None
        client.set_hosts(hosts)
        with pytest.raises(ConfigurationError):
            client.set_hosts("elsewhere:2181/another")
        zookeeper.disconnect(client)
        zookeeper.settle(PATIENCE_S)
        assert client.exists("/a")


def test_a_client_can_be_stopped_and_started_again() -> None:
    with simzk.patch() as zookeeper:
        client = Application().client
        first = client.client_id
        client.create("/a", ephemeral=True)
        client.stop()
        assert zookeeper.server.tree.get("/a") is None
        client.start(timeout=PATIENCE_S)
        assert client.client_id != first
        client.restart()
        client.create("/a", ephemeral=True)
        client.stop()
        client.close()


def test_options_work_as_they_are() -> None:
    with simzk.patch() as zookeeper:
        owner = Application(auth_data=[("digest", "user:password")], timeout=7.0, read_only=True).client
        assert zookeeper.server.sessions.timeouts_ms()[0][1] == 7000
        assert owner.client_state == KeeperState.CONNECTED
        owner.create("/secret", b"x", acl=[make_digest_acl("user", "password", all=True)])
        stranger = Application(
            command_retry=KazooRetry(max_tries=2),
            connection_retry={"max_tries": 3},
            randomize_hosts=False,
            use_ssl=True,
            certfile="/etc/none.pem",
            default_acl=[make_digest_acl("user", "password", all=True)],
            handler=SequentialThreadingHandler(),
        ).client
        with pytest.raises(NoAuthError):
            stranger.get("/secret")
        stranger.create("/mine")
        with pytest.raises(NoAuthError):
            stranger.get("/mine")
        assert owner.get("/mine")[0] == b""
        session = owner.client_id
        resumed = Application(client_id=session).client
        assert resumed.client_id == session


def test_deprecated_retry_options_are_passed_on() -> None:
    with simzk.patch():
        with pytest.warns(DeprecationWarning, match="max_retries"):
            application = Application(max_retries=3)
        assert application.client.exists("/") is not None


def test_wrong_options_are_refused_as_by_kazoo() -> None:
    with simzk.patch():
        with pytest.raises(TypeError, match="unexpected keyword"):
            KazooClient(PRODUCTION, tiemout=3)
        with pytest.raises(ConfigurationError, match="must be an instance"):
            KazooClient(handler=SequentialThreadingHandler)


def test_the_innermost_patch_decides() -> None:
    with simzk.patch() as outer, simzk.ZooKeeper() as given:
        with simzk.patch(given) as inner:
            assert inner is given
            Application()
            assert (len(outer.server.sessions), len(given.server.sessions)) == (0, 1)
        assert len(given.server.sessions) == 0
        Application()
        assert (len(outer.server.sessions), len(given.server.sessions)) == (1, 0)


def test_clients_of_a_server_keep_to_it() -> None:
    with simzk.patch() as zookeeper, simzk.ZooKeeper() as other, simzk.ZooKeeperServer() as tcp:
        for server in (other, tcp):
            client = server.client()
            client.start(timeout=PATIENCE_S)
            client.create("/a")
            assert len(server.server.sessions) == 1
        assert len(zookeeper.server.sessions) == 0


SERVERS: list[Callable[[], Any]] = [
    simzk.ZooKeeperServer,
    lambda: simzk.ZooKeeperServer(servers=3),
]
"""A single server and an ensemble."""


@pytest.mark.parametrize("make", SERVERS)
def test_a_server_on_tcp(make: Callable[[], Any]) -> None:
    with make() as server, simzk.patch(server):
        Application().client.create("/app")
        application = Application(f"{PRODUCTION}/app", use_ssl=True)
        path = application.register()
        server.expire(application.client)
        server.settle(PATIENCE_S)
        assert application.client.connected
        assert application.client.exists(path) is None


def test_the_zookeeper_of_a_cluster() -> None:
    with simzk.KafkaCluster(brokers=2) as cluster, simzk.patch(cluster.zookeeper):
        assert sorted(Application().client.get_children("/brokers/ids")) == ["1", "2"]


def test_a_listener_sees_an_expiry() -> None:
    with simzk.patch() as zookeeper:
        client = Application().client
        states: list[KazooState] = []
        client.add_listener(states.append)
        zookeeper.expire(client)
        zookeeper.settle(PATIENCE_S)
        assert states == [KazooState.SUSPENDED, KazooState.LOST, KazooState.CONNECTED]


def test_decorators() -> None:
    @simzk.patch()
    def count(more: int) -> int:
        Application().register()
        return len(Application().client.get_children("/workers")) + more

    assert [count(1), count(more=2)] == [2, 3], "each call has a new server"
    assert count.__name__ == "count"

    @simzk.patch()
    async def later() -> int:
        client = await asyncio.to_thread(lambda: Application().client)
        return len(client.get_children("/"))

    assert asyncio.run(later()) == 1

    @simzk.patch()
    class Case(unittest.TestCase):
        helper = 1

        def test_register(self) -> None:
            assert Application().register() == "/workers/w-0000000000"

        test_again = test_register

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.errors, result.failures) == (2, [], [])


def test_a_failing_block_leaves_nothing() -> None:
    def fail() -> None:
        Application()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        simzk.patch()(fail)()


def test_the_fixture(patched_kazoo: simzk.ZooKeeper, zookeeper: simzk.ZooKeeper) -> None:
    assert patched_kazoo is zookeeper
    Application().register()
    assert len(zookeeper.server.sessions) == 1


class OwnHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A handler with an option and a method of its own, as Patroni has."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self.timeout_s = timeout_s
        self.spawned = 0
        self.connected: list[float] = []

    def spawn(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        self.spawned += 1
        return super().spawn(func, *args, **kwargs)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        self.connected.append(self.timeout_s)
        return super().create_connection(*args, **kwargs)


@pytest.mark.parametrize("make", [simzk.ZooKeeper, simzk.ZooKeeperServer])
def test_a_subclass_of_kazoos_handler_keeps_its_identity_and_methods(make: Any) -> None:
    handler = OwnHandler(3.0)
    with make() as server, simzk.patch(server):
        client = Application(handler=handler).client
        assert client.handler is handler
        assert isinstance(handler, OwnHandler)
        seen: list[object] = []
        client.create("/a")
        client.get("/a", watch=seen.append)
        client.set("/a", b"1")
        server.settle(PATIENCE_S)
        assert len(seen) == 1
        assert handler.spawned >= 3
        assert handler.connected == ([] if make is simzk.ZooKeeper else [3.0]), "in memory there is nothing to connect"
        with pytest.raises(ConfigError, match="handler: a client that runs has this handler"):
            KazooClient(handler=handler)
        client.stop()
        second = Application(handler=handler).client
        assert second.exists("/a")


def test_a_handler_is_adopted_by_one_server_after_the_other() -> None:
    handler = OwnHandler(1.0)
    for make in (simzk.ZooKeeper, simzk.ZooKeeperServer, simzk.ZooKeeper):
        with make() as server, simzk.patch(server):
            client = Application(handler=handler).client
            assert len(server.server.sessions) == 1
            client.stop()


@pytest.mark.slow  # both come with the extra `dev`
@pytest.mark.parametrize("module", ["gevent", "eventlet"])
def test_handlers_without_threads_need_a_server_on_tcp(module: str) -> None:
    name = f"Sequential{module.capitalize()}Handler"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eventlet says that it is deprecated
        importlib.import_module(f"kazoo.handlers.{module}")
    kind = getattr(importlib.import_module(f"kazoo.handlers.{module}"), name)
    with simzk.patch(), pytest.raises(ConfigError, match=rf"{name} cannot connect in memory.*ZooKeeperServer"):
        KazooClient(handler=kind())
    with simzk.ZooKeeperServer() as server, simzk.patch(server):
        client = Application(handler=kind()).client
        assert client.create("/a") == "/a"
        assert type(client.handler) is kind


@pytest.mark.parametrize(
    "login",
    [
        {"sasl_options": {"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}},
        {"auth_data": [("sasl", "u:p"), ("digest", "u:p")]},
    ],
)
def test_a_login_by_sasl_has_no_effect_on_a_server_without_it(login: dict[str, Any]) -> None:
    pytest.importorskip("puresasl")
    with simzk.patch():
        client = Application(**login).client
        assert client.exists("/")
        assert client.auth_data == ({("digest", "u:p")} if "auth_data" in login else set())


def test_a_login_by_sasl_has_effect_on_a_server_with_users() -> None:
    pytest.importorskip("puresasl")
    with simzk.patch(simzk.ZooKeeper(sasl_users={"u": "p"})) as server, server:
        client = Application(sasl_options={"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}).client
        client.create("/a", acl=[make_acl("sasl", "u", all=True)])
        with pytest.raises(NoAuthError):
            Application().client.get("/a")


@pytest.mark.parametrize("make", [simzk.ZooKeeper, simzk.ZooKeeperServer])
def test_a_client_of_a_server_without_sasl_cannot_ask_for_a_login(make: Any) -> None:
    with make() as server, pytest.raises(ConfigError, match=r"sasl_options: .*sasl_users="):
        server.client(sasl_options={"mechanism": "DIGEST-MD5", "username": "u", "password": "p"})
