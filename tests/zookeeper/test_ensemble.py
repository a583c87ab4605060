"""Rules of an ensemble (§7): lag and sync, waiting replies, elections, expiry, invalid calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError, SimzkError
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig, Role
from simzk.zookeeper.replies import Closed, Code, EventType, Reply, WatchedEvent
from tests.zookeeper.ensemble_clients import Client, answer, connected, create, deliver

if TYPE_CHECKING:
    from collections.abc import Callable

LEADER, FOLLOWER, OTHER = 3, 1, 2
GET = req.GetData("/a", False)


def error(client: Client, request: req.Request, now_ms: int = 0) -> int:
    return answer(client, request, now_ms).error


def test_a_lagging_follower_serves_stale_reads_until_its_lag_has_passed() -> None:
    ensemble = Ensemble()
    writer, reader = connected(ensemble, LEADER), connected(ensemble, FOLLOWER)
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    assert error(writer, create("/a"), 10) == 0
    assert error(reader, GET, 50) == Code.NO_NODE
    assert ensemble.next_deadline_ms() == 110
    ensemble.tick(109)
    assert error(reader, GET, 109) == Code.NO_NODE
    ensemble.tick(110)
    assert error(reader, GET, 110) == 0
    ensemble.check()


def test_a_lag_by_transactions_is_kept_where_nobody_waits() -> None:
    ensemble = Ensemble()
    writer, reader = connected(ensemble, LEADER), connected(ensemble, FOLLOWER)
    ensemble.lag(FOLLOWER, 0, transactions=2)
    for path in ("/a", "/b", "/c"):
        assert error(writer, create(path)) == 0
    assert [error(reader, req.Exists(path, False)) for path in ("/a", "/b", "/c")] == [0, Code.NO_NODE, Code.NO_NODE]
    assert error(reader, req.Sync("/")) == 0
    assert error(reader, req.Exists("/c", False)) == 0
    ensemble.lag(FOLLOWER, 0)
    assert len({member.position for member in ensemble.members.values()}) == 1


@pytest.mark.parametrize("write", [create("/b"), req.SetData("/a", b"", -1), req.CloseSession()])
def test_requests_behind_a_write_of_an_expired_session_are_not_answered(write: req.Request) -> None:
    ensemble = Ensemble()
    client = connected(ensemble, FOLLOWER)
    answer(client, create("/a"))
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    assert client.session is not None
    assert ensemble.expire(client.session.session_id, 10)
    before = ensemble.members[LEADER].zxid
    last = client.ask(write, 20)
    assert client.reply_to(client.ask(GET, 20)) is None
    assert ensemble.members[LEADER].zxid == before + 1
    ensemble.tick(200)
    deliver(ensemble)
    assert not client.is_connected
    assert client.reply_to(last) is None
    ensemble.check()


def test_sync_waits_and_what_is_asked_behind_it_waits_too() -> None:
    ensemble = Ensemble()
    writer, reader = connected(ensemble, LEADER), connected(ensemble, FOLLOWER)
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    answer(writer, create("/a"), 10)
    sync, read = reader.ask(req.Sync("/"), 20), reader.ask(GET, 20)
    assert reader.reply_to(sync) is None
    assert reader.reply_to(read) is None
    answer(writer, create("/late"), 60)
    ensemble.tick(110)
    deliver(ensemble)
    synced, seen = reader.reply_to(sync), reader.reply_to(read)
    assert synced is not None
    assert seen is not None
    assert (synced.error, seen.error) == (0, 0)
    assert error(reader, req.Exists("/late", False), 110) == Code.NO_NODE


def test_a_write_through_a_lagging_follower_is_there_at_once_and_answered_late() -> None:
    ensemble = Ensemble()
    writer, reader = connected(ensemble, FOLLOWER), connected(ensemble, LEADER)
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    made, read = writer.ask(create("/a"), 10), writer.ask(GET, 10)
    again = writer.ask(create("/a"), 10)
    assert error(reader, GET, 10) == 0
    ensemble.tick(109)
    deliver(ensemble)
    assert writer.reply_to(made) is None
    ensemble.tick(110)
    deliver(ensemble)
    replies = [writer.reply_to(xid) for xid in (made, read, again)]
    assert [reply.error for reply in replies if reply] == [0, 0, Code.NODE_EXISTS]
    assert [reply.zxid - replies[0].zxid for reply in replies if reply and replies[0]] == [0, 0, 1]


def test_a_watch_on_a_lagging_follower_fires_when_it_applies() -> None:
    ensemble = Ensemble()
    writer, watcher = connected(ensemble, LEADER), connected(ensemble, FOLLOWER)
    answer(watcher, req.Exists("/a", True))
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    zxid = answer(writer, create("/a"), 10).zxid
    deliver(ensemble)
    assert not watcher.events
    ensemble.tick(110)
    deliver(ensemble)
    assert watcher.events == [WatchedEvent(EventType.NODE_CREATED, "/a", zxid)]


def test_a_client_that_has_seen_more_than_a_server_is_not_served_there() -> None:
    ensemble = Ensemble()
    client = connected(ensemble, LEADER)
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    answer(client, create("/a"), 10)
    client.connect(FOLLOWER, 10)
    assert isinstance(client.received[-1], Closed)
    client.connect(OTHER, 10)
    assert error(client, GET, 10) == 0


def test_a_new_session_on_a_lagging_follower_is_greeted_when_it_is_known_there() -> None:
    ensemble = Ensemble()
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    client = Client(ensemble)
    client.connect(FOLLOWER, 0)
    made = client.ask(create("/a", 1), 0)
    assert not client.received
    ensemble.tick(100)
    deliver(ensemble)
    assert client.session is not None
    assert client.session.session_id >> 56 == FOLLOWER
    reply = client.reply_to(made)
    assert reply is not None
    assert reply.error == 0
    node = ensemble.members[OTHER].tree.get("/a")
    assert node is not None
    assert node.ephemeral_owner == client.session.session_id


def test_zxids_are_the_epoch_and_a_counter_from_one() -> None:
    ensemble = Ensemble()
    assert ensemble.members[LEADER].zxid == 1 << 32
    client = connected(ensemble, FOLLOWER)
    assert answer(client, create("/a")).zxid == (1 << 32) + 2
    ensemble.stop(LEADER, 0)
    assert ensemble.shared.leading is ensemble.members[OTHER], "of equals the greatest id"
    client.connect(FOLLOWER, 0)
    assert answer(client, create("/b")).zxid == (2 << 32) + 1


def test_whoever_lacks_transactions_is_not_elected() -> None:
    ensemble = Ensemble()
    ensemble.stop(OTHER, 0)
    client = connected(ensemble, FOLLOWER)
    answer(client, create("/a"))
    ensemble.stop(LEADER, 0)
    ensemble.start(OTHER, 0)
    assert ensemble.shared.leading is ensemble.members[FOLLOWER], "the greater id has not seen what was acknowledged"
    assert "/a" in ensemble.members[OTHER].tree
    ensemble.check()


def test_an_outage_lasts_as_long_as_it_was_asked_to() -> None:
    ensemble = Ensemble(EnsembleConfig(election_ms=400))
    client = connected(ensemble, FOLLOWER)
    ensemble.stop(LEADER, 100, outage_ms=1000)
    deliver(ensemble)
    assert isinstance(client.received[-1], Closed)
    assert [member.role for member in ensemble.members.values()] == [Role.LOOKING, Role.LOOKING, Role.DOWN]
    client.connect(OTHER, 100)
    assert isinstance(client.received[-1], Closed)
    assert ensemble.next_deadline_ms() == 1100
    ensemble.tick(1099)
    assert ensemble.shared.leading is None
    ensemble.tick(1100)
    client.connect(OTHER, 1100)
    assert client.is_connected


def test_the_leader_decides_who_expires_by_what_all_servers_hear() -> None:
    ensemble = Ensemble(EnsembleConfig(server=ServerConfig(tick_time_ms=500)))
    talks, silent = connected(ensemble, FOLLOWER, timeout_ms=4000), connected(ensemble, OTHER, timeout_ms=4000)
    answer(talks, create("/talks", 1))
    answer(silent, create("/silent", 1))
    for now_ms in range(0, 10_000, 1000):
        ensemble.tick(now_ms)
        deliver(ensemble)
        talks.ask(req.GetData("/talks", False), now_ms)
    assert talks.is_connected
    assert isinstance(silent.received[-1], Closed)
    for member in ensemble.members.values():
        assert "/talks" in member.tree
        assert "/silent" not in member.tree


def test_a_new_leader_gives_every_session_its_whole_timeout() -> None:
    ensemble = Ensemble(EnsembleConfig(server=ServerConfig(tick_time_ms=500)))
    client = connected(ensemble, FOLLOWER, timeout_ms=4000)
    answer(client, create("/e", 1))
    ensemble.stop(LEADER, 3900)
    ensemble.tick(7000)
    client.connect(OTHER, 7000)
    assert client.session is not None
    assert error(client, req.Exists("/e", False), 7000) == 0


def test_one_that_is_cut_off_drops_its_clients_and_has_all_when_it_is_back() -> None:
    ensemble = Ensemble()
    cut_off, client = connected(ensemble, LEADER), connected(ensemble, FOLLOWER)
    ensemble.cut(LEADER, now_ms=0)
    deliver(ensemble)
    assert isinstance(cut_off.received[-1], Closed)
    assert ensemble.shared.leading is ensemble.members[OTHER]
    client.connect(FOLLOWER, 0)
    assert error(client, create("/meanwhile")) == 0
    assert "/meanwhile" not in ensemble.members[LEADER].tree
    ensemble.heal(0)
    assert ensemble.members[LEADER].role is Role.FOLLOWING
    cut_off.connect(LEADER, 0)
    assert error(cut_off, req.Exists("/meanwhile", False)) == 0


def test_whoever_stopped_learns_what_it_missed_however_much() -> None:
    ensemble = Ensemble()
    ensemble.stop(FOLLOWER, 0)
    client = connected(ensemble, OTHER)
    for index in range(3000):
        answer(client, create(f"/{index}"))
    ensemble.start(FOLLOWER, 0)
    ensemble.check()
    answer(client, create("/last"))
    assert len(ensemble.shared.history) <= 1
    assert "/2999" in ensemble.members[FOLLOWER].tree


def test_whoever_joins_has_all_before_it_serves_whatever_its_lag() -> None:
    ensemble = Ensemble()
    ensemble.lag(FOLLOWER, 0, lag_ms=1000, transactions=5)
    ensemble.cut(FOLLOWER, now_ms=0)
    client = connected(ensemble, LEADER)
    answer(client, create("/a"))
    ensemble.heal(0)
    client.connect(FOLLOWER, 0)
    assert error(client, GET) == 0


def test_a_read_only_server_ends_its_own_sessions_by_its_own_clock() -> None:
    ensemble = Ensemble(EnsembleConfig(read_only=True, read_only_after_ms=2000))
    ensemble.cut(FOLLOWER, now_ms=0)
    assert ensemble.next_deadline_ms() == 2000
    ensemble.tick(2000)
    client = Client(ensemble)
    client.connect(FOLLOWER, 2000, read_only=True)
    assert client.session is not None
    assert client.session.read_only
    assert error(client, create("/a"), 2000) == Code.NOT_READ_ONLY
    deadline_ms = ensemble.next_deadline_ms()
    assert deadline_ms is not None
    assert 12_000 < deadline_ms <= 14_000
    ensemble.tick(deadline_ms)
    deliver(ensemble)
    assert isinstance(client.received[-1], Closed)
    ensemble.check()


def test_a_quota_is_the_leaders() -> None:
    ensemble = Ensemble(EnsembleConfig(server=ServerConfig(enforce_quota=True)))
    client = connected(ensemble, FOLLOWER)
    for path in ("/q", "/zookeeper/quota/q"):
        assert error(client, create(path)) == 0
    limits = req.Create("/zookeeper/quota/q/zookeeper_limits", b"countHardLimit=2", req.OPEN_ACL, 0)
    assert error(client, limits) == 0
    assert error(client, create("/zookeeper/quota/q/zookeeper_stats")) == 0
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    asked = [client.ask(create(path), 0) for path in ("/q/a", "/q/b")]
    ensemble.tick(100)
    deliver(ensemble)
    assert [reply.error for reply in map(client.reply_to, asked) if reply] == [0, Code.QUOTA_EXCEEDED]


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    ensemble = Ensemble()
    calls: tuple[Callable[[], None], ...] = (
        lambda: ensemble.stop(4, 0),
        lambda: ensemble.start(1, 0),
        lambda: ensemble.cut(1, 9, now_ms=0),
        lambda: ensemble.lag(1, 0, lag_ms=-1),
        lambda: ensemble.elect(0, 9),
    )
    for call in calls:
        with pytest.raises(SimzkError):
            call()
    with pytest.raises(ConfigError, match="servers"):
        EnsembleConfig(servers=0)
    ensemble.stop(1, 0)
    ensemble.stop(2, 0)
    with pytest.raises(SimzkError, match="no majority"):
        ensemble.elect(0)
    ensemble.start(1, 0)
    with pytest.raises(SimzkError, match="cannot be elected"):
        ensemble.elect(0, 2)
    assert ensemble.shared.leading is not None
    ensemble.check()


def test_replies_come_from_where_they_were_asked() -> None:
    """A reply's zxid is its own server's, not the leader's."""
    ensemble = Ensemble()
    reader, writer = connected(ensemble, FOLLOWER), connected(ensemble, LEADER)
    ensemble.lag(FOLLOWER, 0, transactions=1)
    before = answer(reader, req.Exists("/", False))
    answer(writer, create("/a"))
    answer(writer, create("/b"))
    after = answer(reader, req.Exists("/b", False))
    assert isinstance(after, Reply)
    assert after.zxid == ensemble.members[LEADER].zxid - 1
    assert after.zxid > before.zxid


def local(*, upgrades: bool = True) -> Ensemble:
    return Ensemble(EnsembleConfig(local_sessions=True, upgrades_sessions=upgrades))


def test_a_local_session_expires_by_its_own_servers_clock_and_without_a_transaction() -> None:
    ensemble = local()
    client = Client(ensemble)
    client.connect(FOLLOWER, 0)
    assert [len(member.sessions) for member in ensemble.members.values()] == [1, 0, 0]
    assert ensemble.members[FOLLOWER].sessions.timeouts_ms() == [], "no snapshot holds it"
    deadline_ms = ensemble.next_deadline_ms()
    assert deadline_ms is not None
    assert 10_000 < deadline_ms <= 12_000
    ensemble.tick(deadline_ms)
    deliver(ensemble)
    assert isinstance(client.received[-1], Closed)
    assert ensemble.shared.history.end == 0
    ensemble.check()


@pytest.mark.parametrize("stall", ["cut", "followers paused", "leader paused"])
def test_a_local_session_of_a_leader_that_cannot_commit_expires(stall: str) -> None:
    ensemble = Ensemble(EnsembleConfig(local_sessions=True, sync_limit_ms=60_000))
    client = Client(ensemble)
    client.connect(LEADER, 0)
    if stall == "cut":
        ensemble.cut(LEADER, now_ms=0)
    for server in {"followers paused": (FOLLOWER, OTHER), "leader paused": (LEADER,)}.get(stall, ()):
        ensemble.pause(server, 0)
    assert not ensemble.shared.can_commit
    deadline_ms = ensemble.next_deadline_ms()
    assert deadline_ms is not None
    assert deadline_ms < 60_000, "before the leader gives up"
    ensemble.tick(deadline_ms)
    deliver(ensemble)
    assert isinstance(client.received[-1], Closed)
    assert ensemble.next_deadline_ms() == 60_000
    ensemble.check()


def test_a_local_session_that_becomes_global_waits_where_its_server_lags() -> None:
    ensemble = local()
    client = Client(ensemble)
    client.connect(FOLLOWER, 0)
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    client.ask(create("/mine", 1), 10)
    client.ask(GET, 10)
    client.ask(req.CloseSession(), 10)
    deliver(ensemble)
    assert len(client.received) == 1
    assert [record.record.__class__.__name__ for record in map(ensemble.shared.history.__getitem__, range(3))] == [
        *("CreateSessionTxn", "CreateTxn", "CloseSessionTxn")
    ]
    ensemble.tick(110)
    deliver(ensemble)
    assert [reported.zxid & 0xFF for reported in client.received[1:4] if isinstance(reported, Reply)] == [2, 2, 3]
    ensemble.check()


def test_a_read_behind_a_write_is_answered_though_its_session_becomes_global() -> None:
    ensemble = local()
    client = Client(ensemble)
    client.connect(FOLLOWER, 0)
    ensemble.lag(FOLLOWER, 0, lag_ms=100)
    xids = [client.ask(request, 10) for request in (create("/a"), GET, create("/mine", 1), GET)]
    ensemble.tick(110)
    deliver(ensemble)
    assert [reply.xid for reply in client.received if isinstance(reply, Reply)] == xids
    assert all(reply.error == 0 for reply in client.received if isinstance(reply, Reply))
    ensemble.check()


def test_a_local_session_can_be_ended_from_anywhere_and_is_gone_with_the_leader() -> None:
    ensemble = local()
    client, other = Client(ensemble), Client(ensemble)
    client.connect(FOLLOWER, 0)
    other.connect(LEADER, 0)
    assert client.session is not None
    assert ensemble.expire(client.session.session_id, 0)
    assert not ensemble.expire(client.session.session_id, 0)
    ensemble.elect(5, FOLLOWER)
    assert all(not len(member.sessions) for member in ensemble.members.values())
    ensemble.check()


def test_a_session_asked_for_where_there_is_one_is_a_transaction_of_the_leader() -> None:
    ensemble = Ensemble()
    for server in (LEADER, FOLLOWER):
        client = connected(ensemble, server)
        zxid = ensemble.members[LEADER].zxid
        client.ask(req.CreateSession(7_777), 10)
        assert client.received[-1] == client.session
        assert [member.zxid for member in ensemble.members.values()] == [zxid + 1] * 3
        session = ensemble.members[OTHER].sessions.get(client.session.session_id if client.session else 0)
        assert session is not None
        assert session.timeout_ms == 7_777
    ensemble.check()


def test_a_local_session_asked_for_again_is_no_transaction() -> None:
    ensemble = Ensemble(EnsembleConfig(local_sessions=True))
    client = connected(ensemble, FOLLOWER)
    zxid = ensemble.members[LEADER].zxid
    client.ask(req.CreateSession(7_777), 10)
    assert client.received[-1] == client.session
    assert ensemble.members[LEADER].zxid == zxid
    ensemble.check()
