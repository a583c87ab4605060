"""Effects of a reconfiguration beside /zookeeper/config: voters, leader, serving members."""

from __future__ import annotations

import pytest

from simzk.errors import SimzkError
from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.ensemble import Ensemble, EnsembleConfig
from simzk.zookeeper.replies import Code, Reply

CONFIG = EnsembleConfig(3, ServerConfig(reconfig_enabled=True, skip_acl=True))


def reconfigure(ensemble: Ensemble, server_id: int, joining: str | None = None, leaving: str | None = None) -> Reply:
    """The answer that a new session of one server gets."""
    member = ensemble.members[server_id]
    connection = member.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), 1)
    member.handle(connection, 1, req.Reconfig(joining, leaving, None, -1), 1)
    reply = next(one for reported, messages in member.take_output() if reported is connection for one in messages[1:2])
    ensemble.check()
    assert isinstance(reply, Reply)
    return reply


def leader(ensemble: Ensemble) -> int | None:
    return None if ensemble.shared.leading is None else ensemble.shared.leading.server_id


def test_a_follower_becomes_an_observer_and_votes_no_more() -> None:
    ensemble = Ensemble(CONFIG)
    watching = ensemble.members[1].connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), 1)
    assert reconfigure(ensemble, 3, "server.1=one:1:2:observer;3").error == 0
    assert [member.mode for member in ensemble.members.values()] == ["observer", "follower", "leader"]
    assert watching.closed
    ensemble.stop(2, 2)  # of two voters both are needed
    assert leader(ensemble) is None
    ensemble.start(2, 3)
    ensemble.stop(1, 4)
    assert leader(ensemble) == 3
    ensemble.check()


def test_a_leader_that_leaves_gives_up() -> None:
    ensemble = Ensemble(CONFIG)
    reply = reconfigure(ensemble, 3, leaving="3")
    assert reply.error == 0
    assert [member.mode for member in ensemble.members.values()] == ["follower", "leader", "follower"]
    assert ensemble.shared.epoch == 2
    with pytest.raises(SimzkError, match="cannot be elected"):
        ensemble.elect(5, 3)


def test_members_that_do_not_run_count_for_the_majority() -> None:
    ensemble = Ensemble(CONFIG)
    assert reconfigure(ensemble, 1, "server.4=four:1:2;3,server.5=five:1:2;3").error == 0
    ensemble.stop(1, 2)
    assert leader(ensemble) is None
    ensemble.start(1, 3)
    assert leader(ensemble) is not None
    assert reconfigure(ensemble, 1, "server.6=six:1:2;3").error == Code.NEW_CONFIG_NO_QUORUM


def test_every_server_tells_the_same_configuration() -> None:
    ensemble = Ensemble(CONFIG)
    ensemble.stop(2, 1)
    reply = reconfigure(ensemble, 1, "server.9=nine:1:2:observer;3")
    ensemble.start(2, 7)
    assert isinstance(reply.body, tuple)
    nodes = [member.tree.get("/zookeeper/config") for member in ensemble.members.values()]
    assert {(node.data, node.version, node.mzxid) for node in nodes if node} == {(reply.body[0], -1, reply.zxid)}


def test_without_reconfig_enabled_it_is_refused() -> None:
    assert reconfigure(Ensemble(), 1, leaving="1").error == Code.RECONFIG_DISABLED


@pytest.mark.parametrize(("enabled", "version"), [(True, 1 << 32), (False, 0)])
def test_the_first_members_are_as_old_as_the_first_leader_where_they_can_change(enabled: bool, version: int) -> None:
    ensemble = Ensemble(EnsembleConfig(3, ServerConfig(reconfig_enabled=enabled)))
    ensemble.elect(1, 1)
    for member in ensemble.members.values():
        node = member.tree.get("/zookeeper/config")
        assert node is not None
        assert (node.data or b"").endswith(b"\nversion=%x" % version)
        assert node.mzxid == version
