"""Servers of an ensemble that are paused or cut off: until the others notice, requests for the leader wait (§7)."""

from __future__ import annotations

import pytest

from simzk.errors import SimzkError
from simzk.zookeeper import requests as req
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig, Role
from simzk.zookeeper.replies import Code
from tests.zookeeper.ensemble_clients import Client, answer, connected, create, deliver

LEADER, FOLLOWER, OTHER = 3, 1, 2
LIMIT_MS = 10_000


def ensemble_of(servers: int = 3) -> Ensemble:
    return Ensemble(EnsembleConfig(servers=servers, sync_limit_ms=LIMIT_MS, election_ms=500))


def elected() -> Ensemble:
    ensemble = ensemble_of()
    ensemble.tick(500)
    return ensemble


def is_connected(client: Client) -> bool:
    """Return whether a client is connected; a function, because type checkers remember properties."""
    return client.is_connected


def exists(client: Client, path: str, now_ms: int) -> bool:
    return answer(client, req.Exists(path, False), now_ms).error == 0


def test_a_follower_that_is_cut_off_serves_an_old_tree_and_learns_the_rest_when_healed() -> None:
    ensemble = elected()
    writer, reader = connected(ensemble, OTHER, 500), connected(ensemble, FOLLOWER, 500)
    ensemble.cut(FOLLOWER, now_ms=1_000)
    assert answer(writer, create("/a"), 1_100).error == 0
    assert not exists(reader, "/a", 1_200)
    write, behind = reader.ask(create("/b"), 1_300), reader.ask(req.Exists("/b", False), 1_300)
    assert reader.reply_to(write) is reader.reply_to(behind) is None
    assert not exists(writer, "/b", 1_400)
    ensemble.check()
    ensemble.heal(5_000, FOLLOWER)
    deliver(ensemble)
    replied = reader.reply_to(write)
    assert replied is not None
    assert replied.error == 0
    assert exists(reader, "/a", 5_000)
    assert exists(writer, "/b", 5_000)
    ensemble.check()


def test_a_follower_that_is_cut_off_for_long_closes_its_connections() -> None:
    ensemble = elected()
    reader = connected(ensemble, FOLLOWER, 500)
    ensemble.cut(FOLLOWER, now_ms=1_000)
    write = reader.ask(create("/b"), 1_300)
    assert ensemble.next_deadline_ms() == 1_000 + LIMIT_MS
    ensemble.tick(1_000 + LIMIT_MS)
    deliver(ensemble)
    assert not reader.is_connected
    assert reader.reply_to(write) is None
    assert ensemble.members[FOLLOWER].role is Role.LOOKING
    assert ensemble.shared.leading is ensemble.members[LEADER]
    ensemble.check()


def test_the_session_of_a_connected_client_expires_while_its_server_is_cut_off() -> None:
    """The follower answers its pings; the leader hears nothing of it."""
    ensemble = elected()
    client = connected(ensemble, FOLLOWER, 500, timeout_ms=4_000)
    answer(client, create("/e", 1), 500)
    other = connected(ensemble, OTHER, 500, timeout_ms=40_000)
    ensemble.cut(FOLLOWER, now_ms=600)
    for now_ms in range(1_000, 9_000, 1_000):
        ensemble.tick(now_ms)
        assert client.reply_to(client.ask(req.Exists("/e", False), now_ms)) is not None
        assert is_connected(client)
    assert not exists(other, "/e", 9_000)
    ensemble.heal(9_500)
    deliver(ensemble)
    assert not is_connected(client)
    client.connect(FOLLOWER, 9_600)
    assert client.session is None, "the session has expired"


def test_a_paused_leader_is_waited_for_and_then_replaced() -> None:
    ensemble = elected()
    client = connected(ensemble, FOLLOWER, 500)
    ensemble.pause(LEADER, 1_000)
    write = client.ask(create("/a"), 1_500)
    ensemble.tick(LIMIT_MS)
    assert client.reply_to(write) is None
    assert is_connected(client)
    ensemble.resume(LEADER, LIMIT_MS)
    deliver(ensemble)
    assert client.reply_to(write) is not None
    ensemble.pause(LEADER, 12_000)
    ensemble.tick(12_000 + LIMIT_MS)
    deliver(ensemble)
    assert not is_connected(client)
    ensemble.tick(12_500 + LIMIT_MS)
    assert ensemble.shared.leading is ensemble.members[OTHER]
    ensemble.resume(LEADER, 30_000)
    assert ensemble.members[LEADER].role is Role.FOLLOWING
    ensemble.check()


def test_a_leader_that_reaches_no_majority_commits_nothing() -> None:
    ensemble = elected()
    ensemble.cut(LEADER, now_ms=1_000)
    client = Client(ensemble)
    client.connect(LEADER, 1_100)
    assert client.session is None, "a new session is a write"
    assert ensemble.shared.leading is ensemble.members[LEADER]
    assert not ensemble.shared.can_commit
    assert not ensemble.expire(1, 1_100)
    ensemble.tick(1_000 + LIMIT_MS)
    deliver(ensemble)
    assert not is_connected(client)
    ensemble.tick(1_500 + LIMIT_MS)
    assert ensemble.shared.leading is ensemble.members[OTHER]
    ensemble.heal(20_000)
    assert ensemble.members[LEADER].role is Role.FOLLOWING
    ensemble.check()


def test_a_session_goes_to_another_server_and_its_old_one_can_no_longer_write() -> None:
    """ZooKeeper's SessionMovedException; the request of before the pause arrives after the session has moved."""
    ensemble = elected()
    client = connected(ensemble, FOLLOWER, 500)
    assert client.session is not None
    ensemble.cut(FOLLOWER, now_ms=1_000)
    old = client.connection
    assert old is not None
    client.ask(create("/late"), 1_100)
    again = Client(ensemble)
    again.session = client.session
    again.connect(OTHER, 2_000)
    assert again.session == client.session
    ensemble.heal(3_000)
    deliver(ensemble)
    assert old.closed
    assert not exists(again, "/late", 3_000)
    ensemble.check()


def test_a_server_that_is_behind_refuses_a_client_that_has_seen_more() -> None:
    """ZooKeeperServer.processConnectRequest: "our last zxid is ..., client must try another server"."""
    ensemble = elected()
    client = connected(ensemble, OTHER, 500)
    ensemble.cut(FOLLOWER, now_ms=1_000)
    answer(client, create("/a"), 1_100)
    session = client.session
    client.connect(FOLLOWER, 1_200)
    assert not is_connected(client)
    assert client.session == session, "refused, not expired"
    ensemble.heal(2_000)
    client.connect(FOLLOWER, 2_100)
    assert is_connected(client)
    assert client.session == session


def test_a_stopped_server_is_not_paused_afterwards() -> None:
    ensemble = elected()
    ensemble.pause(FOLLOWER, 1_000)
    ensemble.stop(FOLLOWER, 2_000)
    assert ensemble.paused == frozenset()
    ensemble.start(FOLLOWER, 3_000)
    assert ensemble.members[FOLLOWER].role is Role.FOLLOWING


def test_impossible_pauses_are_refused() -> None:
    ensemble = elected()
    with pytest.raises(SimzkError, match="server 1 is not paused"):
        ensemble.resume(1, 1_000)
    ensemble.pause(1, 1_000)
    with pytest.raises(SimzkError, match="server 1 is paused already"):
        ensemble.pause(1, 1_000)
    ensemble.stop(2, 1_000)
    with pytest.raises(SimzkError, match="server 2 is stopped already"):
        ensemble.pause(2, 1_000)
    with pytest.raises(SimzkError, match="server 4 does not exist"):
        ensemble.heal(1_000, 4)


def test_without_a_limit_a_cut_takes_effect_at_once() -> None:
    ensemble = Ensemble()
    client = connected(ensemble, FOLLOWER)
    ensemble.cut(FOLLOWER, now_ms=1)
    deliver(ensemble)
    assert not is_connected(client)
    assert not ensemble.awaits_servers
    assert answer(connected(ensemble, OTHER, 1), req.GetData("/nowhere", False), 1).error == Code.NO_NODE
