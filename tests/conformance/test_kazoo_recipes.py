"""kazoo's recipes and calls, one body for the server in memory, on TCP, and for a real ZooKeeper.

What passes on the real server is what users rely on; the same assertions on ours are the proof that it is not missing.
"""

from __future__ import annotations

import datetime
import threading
import uuid
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    LockTimeout,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState
from kazoo.recipe.cache import TreeCache, TreeEvent

import simzk
from tests.waiting import PATIENCE_S, Reports, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Ensemble:
    """Source of a test's clients; all use one fresh chroot."""

    def __init__(self, new_client: Callable[..., KazooClient], stack: ExitStack) -> None:
        self._new_client = new_client
        self._stack = stack
        self._chroot = f"/{uuid.uuid4().hex}"
        first = self.client(chroot="")
        first.create(self._chroot)

    def client(self, chroot: str | None = None, **options: Any) -> KazooClient:
        """A started client, stopped when the test is over."""
        client = self._new_client(self._chroot if chroot is None else chroot, **options)
        client.start(timeout=PATIENCE_S)
        self._stack.callback(client.close)
        self._stack.callback(client.stop)
        return client

    def expire(self, client: KazooClient) -> None:
        """End a client's session, as its loss would: somebody else takes the session over and closes it.

        The client may win it back before it is closed; so the thief comes until the server gives it a session of its
        own, as it does where it knows the old one no more.
        """
        stolen = client.client_id
        assert stolen is not None
        holds = stolen
        while holds in (stolen, None):  # None: it has lost it again
            thief = self._new_client("", client_id=stolen)
            with suppress(KazooTimeoutError):  # it had lost it already when `start` looked
                thief.start(timeout=PATIENCE_S)
            holds = thief.client_id
            thief.stop()
            thief.close()


@pytest.fixture(params=["memory", "tcp", pytest.param("real", marks=pytest.mark.java)])
def ensemble(request: pytest.FixtureRequest) -> Iterator[Ensemble]:
    with ExitStack() as stack:
        if request.param != "real":
            make = simzk.ZooKeeper if request.param == "memory" else simzk.ZooKeeperServer
            zookeeper = stack.enter_context(make())

            def new_client(chroot: str, **options: Any) -> KazooClient:
                return zookeeper.client(hosts="127.0.0.1:2181" + chroot, **options)
        else:
            hosts = request.getfixturevalue("real_zookeeper").hosts

            def new_client(chroot: str, **options: Any) -> KazooClient:
                return KazooClient(hosts=hosts + chroot, **options)

        yield Ensemble(new_client, stack)


@pytest.fixture
def client(ensemble: Ensemble) -> KazooClient:
    return ensemble.client()


@pytest.fixture
def other(ensemble: Ensemble) -> KazooClient:
    return ensemble.client()


def children_reach(client: KazooClient, path: str, count: int) -> None:
    """Wait until `path` has `count` children."""
    reports = Reports()
    client.ensure_path(path)
    client.ChildrenWatch(path, lambda children: reports(len(children)))
    reports.until_equal(count)


# Calls


def test_create_get_set_exists_children_delete(client: KazooClient) -> None:
    assert client.create("/a", b"one") == "/a"
    assert client.create("/a/b") == "/a/b"
    data, stat = client.get("/a")
    assert data == b"one"
    assert (stat.version, stat.cversion, stat.numChildren, stat.dataLength) == (0, 1, 1, 3)
    assert stat.mzxid == stat.czxid < stat.pzxid
    changed = client.set("/a", b"three")
    assert (changed.version, changed.dataLength) == (1, 5)
    assert client.exists("/a").mzxid == client.last_zxid
    assert client.exists("/nothing") is None
    assert client.get_children("/a") == ["b"]
    assert client.get_children("/a", include_data=True)[1].numChildren == 1
    with pytest.raises(NotEmptyError):
        client.delete("/a")
    client.delete("/a", recursive=True)
    assert client.get_children("/") == []


def test_errors_are_kazoos_own(client: KazooClient) -> None:
    with pytest.raises(NoNodeError):
        client.get("/nothing")
    with pytest.raises(NoNodeError):
        client.create("/no/parent")
    client.create("/a")
    with pytest.raises(NodeExistsError):
        client.create("/a")
    with pytest.raises(BadVersionError):
        client.set("/a", b"", version=7)
    with pytest.raises(BadVersionError):
        client.delete("/a", version=7)


def test_sequence_numbers_and_makepath(client: KazooClient) -> None:
    assert client.create("/deep/er/n-", sequence=True, makepath=True) == "/deep/er/n-0000000000"
    path, stat = client.create("/deep/er/n-", b"x", sequence=True, ephemeral=True, include_data=True)
    assert path == "/deep/er/n-0000000001"
    assert stat.ephemeralOwner == client.client_id[0]


def test_a_transaction_is_all_or_nothing(client: KazooClient) -> None:
    client.create("/a", b"0")
    good = client.transaction()
    good.check("/a", 0)
    good.create("/a/b", b"x")
    good.set_data("/a", b"1")
    good.delete("/a/b")
    checked, path, stat, deleted = good.commit()
    assert (checked, path, stat.version, deleted) == (True, "/a/b", 1, True)
    bad = client.transaction()
    bad.create("/c")
    bad.check("/a", 0)
    bad.create("/d")
    outcome = bad.commit()
    assert [type(result) for result in outcome] == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert client.get_children("/") == ["a"]


def test_async_calls_complete_in_order(client: KazooClient) -> None:
    client.create("/a")
    pending = [client.create_async(f"/a/{number:03}") for number in range(200)]
    done = Reports()
    pending[-1].rawlink(done)
    assert [result.get(timeout=PATIENCE_S) for result in pending] == [f"/a/{number:03}" for number in range(200)]
    assert done.next() is pending[-1]
    reads = [client.get_async("/a"), client.get_async("/nothing"), client.get_children_async("/a")]
    assert reads[0].get(timeout=PATIENCE_S)[1].numChildren == 200
    with pytest.raises(NoNodeError):
        reads[1].get(timeout=PATIENCE_S)
    assert len(reads[2].get(timeout=PATIENCE_S)) == 200


def test_a_chroot_hides_what_is_above_it(ensemble: Ensemble, client: KazooClient) -> None:
    client.ensure_path("/app")
    below = ensemble.client(chroot=client.chroot + "/app")
    events = Reports()
    assert below.exists("/x", watch=events) is None
    assert below.create("/x", b"1") == "/x"
    assert (events.next().type, client.get("/app/x")[0]) == (EventType.CREATED, b"1")
    assert below.get_children("/") == ["x"]


def test_one_shot_watches_fire_once_each(client: KazooClient, other: KazooClient) -> None:
    client.create("/a")
    data, children, created = Reports(), Reports(), Reports()
    client.get("/a", watch=data)
    client.get_children("/a", watch=children)
    client.exists("/a/b", watch=created)
    other.create("/a/b")
    other.set("/a", b"1")
    other.set("/a", b"2")
    assert created.next()[:] == (EventType.CREATED, "CONNECTED", "/a/b")
    assert children.next()[:] == (EventType.CHILD, "CONNECTED", "/a")
    assert data.next()[:] == (EventType.CHANGED, "CONNECTED", "/a")
    client.sync("/a")
    assert client.get("/a")[0] == b"2"
    assert data.empty
    assert children.empty


def test_ephemerals_leave_with_their_session(ensemble: Ensemble, client: KazooClient) -> None:
    leaving = ensemble.client()
    leaving.create("/here", ephemeral=True)
    events = Reports()
    client.exists("/here", watch=events)
    leaving.stop()
    assert events.next().type == EventType.DELETED
    assert client.exists("/here") is None


def test_a_lost_session_is_reported_and_a_new_one_begun(ensemble: Ensemble, client: KazooClient) -> None:
    losing = ensemble.client()
    losing.create("/here", ephemeral=True)
    states, events = Reports(), Reports()
    losing.add_listener(states)
    client.exists("/here", watch=events)
    lost = losing.client_id
    ensemble.expire(losing)
    states.until_equal(KazooState.LOST)
    states.until_equal(KazooState.CONNECTED)
    assert events.next().type == EventType.DELETED
    assert losing.client_id != lost
    assert losing.get_children("/") == []


# Recipes


def test_lock_excludes_and_passes_on_in_order(client: KazooClient, other: KazooClient) -> None:
    holder, waiter = client.Lock("/lock", "holder"), other.Lock("/lock", "waiter")
    assert holder.acquire()
    assert not waiter.acquire(blocking=False)
    waiting = in_thread(waiter.acquire)
    children_reach(client, "/lock", 2)
    assert holder.contenders() == ["holder", "waiter"]
    assert not waiting.done()
    holder.release()
    assert waiting.result(PATIENCE_S)
    with pytest.raises(LockTimeout):
        client.Lock("/lock").acquire(timeout=0.01)
    waiter.release()


def test_lock_of_a_lost_session_passes_on(ensemble: Ensemble, client: KazooClient) -> None:
    losing = ensemble.client()
    assert losing.Lock("/lock").acquire()
    waiting = in_thread(client.Lock("/lock").acquire)
    children_reach(client, "/lock", 2)
    ensemble.expire(losing)
    assert waiting.result(PATIENCE_S)


def test_readers_share_and_a_writer_excludes(client: KazooClient, other: KazooClient) -> None:
    first, second = client.ReadLock("/rw", "r1"), other.ReadLock("/rw", "r2")
    assert first.acquire()
    assert second.acquire(timeout=PATIENCE_S)
    writer = client.WriteLock("/rw", "w")
    assert not writer.acquire(blocking=False)
    writing = in_thread(writer.acquire)
    children_reach(other, "/rw", 3)
    first.release()
    assert not writing.done()
    second.release()
    assert writing.result(PATIENCE_S)
    assert not other.ReadLock("/rw").acquire(blocking=False)
    writer.release()
    assert other.ReadLock("/rw").acquire(timeout=PATIENCE_S)


def test_semaphore_lets_in_as_many_as_it_says(client: KazooClient, other: KazooClient) -> None:
    holders = [client.Semaphore("/sem", "a", max_leases=2), other.Semaphore("/sem", "b", max_leases=2)]
    assert all(holder.acquire() for holder in holders)
    late = client.Semaphore("/sem", "late", max_leases=2)
    assert not late.acquire(blocking=False)
    assert sorted(late.lease_holders()) == ["a", "b"]
    waiting = in_thread(late.acquire)
    holders[0].release()
    assert waiting.result(PATIENCE_S)
    assert sorted(late.lease_holders()) == ["b", "late"]


def test_election_has_one_leader_at_a_time(client: KazooClient, other: KazooClient) -> None:
    leaders = Reports()
    resign = threading.Event()

    def lead() -> None:
        leaders("one")
        resign.wait(PATIENCE_S)

    first = in_thread(lambda: client.Election("/vote", "one").run(lead))
    assert leaders.next() == "one"
    second = in_thread(lambda: other.Election("/vote", "two").run(leaders, "two"))
    children_reach(client, "/vote", 2)
    assert client.Election("/vote").contenders() == ["one", "two"]
    assert leaders.empty
    resign.set()
    assert leaders.next() == "two"
    first.result(PATIENCE_S)
    second.result(PATIENCE_S)


def test_queue_gives_by_priority_then_age(client: KazooClient, other: KazooClient) -> None:
    queue = client.Queue("/queue")
    for value, priority in ((b"late", 100), (b"later", 100), (b"urgent", 1)):
        queue.put(value, priority)
    assert len(queue) == 3
    assert [other.Queue("/queue").get() for _ in range(1)] == [b"urgent"]
    assert [client.Queue("/queue").get() for _ in range(1)] == [b"late"]
    assert [queue.get(), queue.get()] == [b"later", None]


def test_locking_queue_gives_back_what_a_lost_consumer_held(ensemble: Ensemble, client: KazooClient) -> None:
    losing = ensemble.client()
    client.LockingQueue("/queue").put_all([b"one", b"two"])
    held = losing.LockingQueue("/queue")
    assert held.get(timeout=PATIENCE_S) == b"one"
    queue = client.LockingQueue("/queue")
    assert queue.get(timeout=PATIENCE_S) == b"two"
    assert queue.consume()
    waiting = in_thread(lambda: queue.get(timeout=PATIENCE_S))
    ensemble.expire(losing)
    assert waiting.result(PATIENCE_S) == b"one"
    assert queue.consume()
    assert len(queue) == 0


def test_counter_adds_up_over_clients(client: KazooClient, other: KazooClient) -> None:
    def add(who: KazooClient) -> None:
        counter = who.Counter("/counter")
        for _ in range(20):
            counter += 1

    adding = [in_thread(partial(add, who)) for who in (client, other)]
    for work in adding:
        work.result(PATIENCE_S)
    counter = client.Counter("/counter")
    assert counter.value == 40
    counter -= 2
    assert (counter.value, counter.pre_value, counter.post_value) == (38, 40, 38)
    assert client.Counter("/float", default=1.5).value == 1.5


def test_barrier_holds_until_it_is_removed(client: KazooClient, other: KazooClient) -> None:
    barrier = client.Barrier("/barrier")
    assert barrier.wait(0)
    barrier.create()
    assert not barrier.wait(0)
    waiting = in_thread(lambda: other.Barrier("/barrier").wait(PATIENCE_S))
    assert barrier.remove()
    assert waiting.result(PATIENCE_S)
    assert not barrier.remove()


def test_double_barrier_lets_all_in_and_all_out(ensemble: Ensemble, client: KazooClient) -> None:
    passed = Reports()

    def cross(who: KazooClient, name: str) -> bool:
        barrier = who.DoubleBarrier("/double", 3, identifier=name)
        barrier.enter()
        passed(name)
        barrier.leave()
        return not barrier.participating

    crossing = [in_thread(partial(cross, ensemble.client(), name)) for name in ("a", "b")]
    children_reach(client, "/double", 2)
    assert passed.empty
    crossing.append(in_thread(lambda: cross(ensemble.client(), "c")))
    assert all(work.result(PATIENCE_S) for work in crossing)
    assert {passed.next(), passed.next(), passed.next()} == {"a", "b", "c"}


@pytest.mark.parametrize("kind", ["Party", "ShallowParty"])
def test_party_knows_who_is_there(ensemble: Ensemble, client: KazooClient, kind: str) -> None:
    leaving = ensemble.client()
    party, guest = getattr(client, kind)("/party", "host"), getattr(leaving, kind)("/party", "guest")
    party.join()
    guest.join()
    assert sorted(party) == ["guest", "host"]
    assert len(party) == 2
    leaving.stop()
    assert list(party) == ["host"]
    party.leave()
    assert len(party) == 0


def test_set_partitioner_divides_anew_when_a_member_joins(client: KazooClient, other: KazooClient) -> None:
    items = ("1", "2", "3")

    def partitioner(who: KazooClient, name: str) -> Any:
        return who.SetPartitioner("/part", items, identifier=name, time_boundary=0.05)

    first = partitioner(client, "a")
    first.wait_for_acquire(PATIENCE_S)
    assert sorted(first) == ["1", "2", "3"]
    changes = first.state_change_event
    changes.clear()
    second = partitioner(other, "b")
    assert changes.wait(PATIENCE_S)
    assert first.release
    first.release_set()
    first.wait_for_acquire(PATIENCE_S)
    second.wait_for_acquire(PATIENCE_S)
    assert first.acquired
    assert second.acquired
    assert (sorted(first), sorted(second)) == (["1", "3"], ["2"])
    first.finish()
    second.finish()


def test_children_watch_sees_every_settled_list(client: KazooClient, other: KazooClient) -> None:
    seen = Reports()
    client.ensure_path("/dir")
    client.ChildrenWatch("/dir", lambda children: seen(sorted(children)))
    assert seen.next() == []
    other.create("/dir/a")
    assert seen.next() == ["a"]
    other.create("/dir/b")
    assert seen.next() == ["a", "b"]
    other.delete("/dir/a")
    assert seen.next() == ["b"]


def test_data_watch_follows_creation_change_and_deletion(client: KazooClient, other: KazooClient) -> None:
    seen = Reports()
    client.DataWatch("/n", lambda data, stat, event: seen(data, stat and stat.version, event and event.type))
    assert seen.next() == (None, None, None)
    other.create("/n", b"0")
    assert seen.next() == (b"0", 0, EventType.CREATED)
    other.set("/n", b"1")
    assert seen.next() == (b"1", 1, EventType.CHANGED)
    other.delete("/n")
    assert seen.next() == (None, None, EventType.DELETED)


def test_tree_cache_mirrors_a_subtree(client: KazooClient, other: KazooClient) -> None:
    client.ensure_path("/tree/a")
    seen = Reports()
    cache = TreeCache(client, "/tree")
    cache.listen(lambda event: seen(event.event_type, event.event_data.path if event.event_data else None))
    cache.start()
    seen.until_equal((TreeEvent.INITIALIZED, None))
    other.create("/tree/a/b", b"x")
    seen.until_equal((TreeEvent.NODE_ADDED, "/tree/a/b"))
    assert cache.get_data("/tree/a/b").data == b"x"
    assert cache.get_children("/tree/a") == {"b"}
    other.set("/tree/a", b"y")
    seen.until_equal((TreeEvent.NODE_UPDATED, "/tree/a"))
    other.delete("/tree/a/b")
    seen.until_equal((TreeEvent.NODE_REMOVED, "/tree/a/b"))
    assert cache.get_data("/tree/a/b") is None
    cache.close()


def test_lease_is_one_holders_until_it_ends(client: KazooClient, other: KazooClient) -> None:
    clock = {"now": datetime.datetime(2026, 1, 1)}
    hour = datetime.timedelta(hours=1)

    def lease(who: KazooClient, name: str) -> bool:
        return bool(who.NonBlockingLease("/lease", hour, identifier=name, utcnow=lambda: clock["now"]))

    assert lease(client, "a")
    assert not lease(other, "b")
    assert lease(client, "a")
    clock["now"] += hour + datetime.timedelta(seconds=1)
    assert lease(other, "b")
    leases = [
        bool(client.MultiNonBlockingLease(2, "/leases", hour, identifier=name, utcnow=lambda: clock["now"]))
        for name in ("a", "b", "c")
    ]
    assert leases == [True, True, False]
