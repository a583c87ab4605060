"""Brokers and controllers that are killed, paused, expired or cut off from the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession
from simzk.kafka.zookeeper_mode.client.zk_client import create_request
from simzk.simulation import Process
from simzk.zookeeper.transactions import CloseSessionTxn
from tests.kafka.clusters import QUICK, cluster, happened, quiet, state_fields, topic, watch

if TYPE_CHECKING:
    from simzk.simulation.request_faults import FaultRule
    from simzk.zookeeper.transactions import Transaction


def test_the_controller_dies_and_another_takes_over_with_the_next_epoch() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3], 1: [2, 3, 1]})
        c.kill(1)
        quiet(c)
        assert c.controller in (2, 3)
        assert c.state("t", 0).controller_epoch == 2
        assert c.live_brokers == [2, 3]
        assert not monitor.violations


def test_the_preferred_broker_wins_the_election() -> None:
    for winner in (2, 3):
        with cluster(3, controller=1) as c:
            c.prefer_controller(winner)
            c.kill(1)
            quiet(c)
            assert c.controller == winner


def test_a_paused_controller_that_was_replaced_is_fenced() -> None:
    """Its session is still open, so only the check of the controller epoch rejects its writes."""
    with cluster(4, controller=1) as c:
        monitor = watch(c)
        topic(c, "t", {0: [2, 3], 1: [3, 2]})
        c.pause(1)
        c.prefer_controller(4)
        c.delete_znode(paths.CONTROLLER)
        c.run_for(1)
        assert c.controller == 4
        c.kill(3)
        c.run_for(2)
        c.resume(1)  # it finds the deletion of its znode, and what else it missed
        quiet(c)
        assert c.controller == 4
        assert c.state("t", 1).controller_epoch == 2
        assert not monitor.violations
        assert not c.brokers[1].controller.is_active


def test_writes_of_a_zombie_controller_fail_on_the_epoch_check() -> None:
    """A controller handles an event while another is elected: its next write is rejected, and it resigns."""
    with cluster(4, controller=1) as c:
        monitor = watch(c)
        topic(c, "t", {number: [2, 3] for number in range(30)})
        c.kill(2)
        while not happened(c, "leader moved"):
            c.scheduler.run_next()
        c.pause(1)  # in the middle of its elections
        c.prefer_controller(4)
        c.delete_znode(paths.CONTROLLER)
        c.run_for(2)
        assert c.controller == 4
        c.resume(1)
        quiet(c)
        assert happened(c, "fenced") == ["broker change"]
        assert [event.who for event in c.history if event.what == "fenced"] == ["controller 1"]
        assert not monitor.violations
        assert all(c.state("t", number).leader == 3 for number in range(30))


def test_a_session_that_expires_is_registered_again_with_a_new_epoch() -> None:
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [2, 3]})
        before = c.brokers[2].epoch
        c.expire(2)
        quiet(c)
        assert c.brokers[2].epoch > before
        assert c.live_brokers == [1, 2, 3]
        assert state_fields(c, "t")[:2] == (3, (3, 2))


def test_a_controller_whose_session_expires_resigns_and_registers_again() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        c.prefer_controller(3)
        c.expire(1)
        quiet(c)
        assert c.controller == 3
        assert c.live_brokers == [1, 2, 3]
        assert "controller 1" in happened(c, "resigned")
        assert not monitor.violations


def test_a_pause_shorter_than_the_timeout_changes_nothing() -> None:
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [2, 3]})
        zxid = c.server.zxid
        c.pause(2, 2)
        c.run_for(20)
        assert state_fields(c, "t") == (2, (2, 3), 0, 0)
        assert c.server.zxid == zxid


def test_a_pause_longer_than_the_timeout_costs_the_session() -> None:
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [2, 3]})
        c.pause(2, 20)
        c.run_for(15)
        assert state_fields(c, "t")[:2] == (3, (3,))
        assert c.live_brokers == [1, 3]
        assert c.brokers[2].replicas.leads(next(iter(c.brokers[2].replicas.replicas)))  # in its own view
        c.run_for(10)
        quiet(c)
        assert state_fields(c, "t")[:2] == (3, (3, 2))
        assert c.live_brokers == [1, 2, 3]


def test_a_broker_that_comes_back_before_its_death_is_noticed_is_bounced() -> None:
    """The broker is registered before and after one child event; only its broker epoch differs (KIP-380)."""
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2]})
        c.pause(4, 3.5)  # the controller looks away, and for less than two thirds of its session timeout
        c.run_for(0.1)
        c.expire(1)
        c.run_for(3)
        assert c.live_brokers == [1, 2, 3, 4]
        quiet(c)
        assert state_fields(c, "t")[:3] == (2, (2, 1), 1)


def test_several_brokers_at_once() -> None:
    with cluster(5, controller=5) as c:
        monitor = watch(c)
        topic(c, "t", {0: [1, 2, 3], 1: [2, 3, 4]})
        topic(c, "two", {0: [1, 2]})
        for broker in (1, 2):
            c.kill(broker)
        quiet(c)
        assert [state_fields(c, "t", 0)[0], state_fields(c, "t", 1)[0], state_fields(c, "two", 0)[0]] == [3, 3, -1]
        for broker in (1, 2):
            c.restart(broker)
        quiet(c)
        assert c.state("two", 0).leader in (1, 2)
        assert sorted(c.state("t", 1).isr) == [2, 3, 4]
        assert not monitor.violations


def test_all_replicas_dead_keep_the_last_in_sync_one() -> None:
    with cluster(4, controller=4) as c:
        topic(c, "t", {0: [1, 2, 3]})
        for broker in (3, 2, 1):
            c.kill(broker)
            quiet(c)
        assert state_fields(c, "t")[:2] == (-1, (1,))
        c.restart(2)
        quiet(c)
        assert c.state("t", 0).leader == -1
        c.restart(1)
        quiet(c)
        assert state_fields(c, "t")[:2] == (1, (1, 2))


def test_every_broker_dies_and_all_come_back() -> None:
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [1, 2, 3]})
        for broker in (1, 2, 3):
            c.kill(broker)
        quiet(c)
        assert (c.controller, c.live_brokers) == (None, [])
        for broker in (1, 2, 3):
            c.restart(broker)
        quiet(c)
        assert c.controller is not None
        assert sorted(c.state("t", 0).isr) == [1, 2, 3]


def test_a_broker_started_before_its_old_session_is_gone_cannot_register_at_first() -> None:
    with cluster(3, controller=1) as c:
        c.kill(2)
        c.run_for(0.5)
        c.restart(2)
        quiet(c)
        assert "broker 2" in happened(c, "cannot start")
        assert c.live_brokers == [1, 2, 3]


RECORDED_FAST_BOUNCES_MS = {
    "0.10.2": (148_786, 149_710, 151_548),
    "1.1": (206_125, 206_768, 207_027),
    "2.4": (209_239, 209_931, 209_250),
}
"""Real brokers, killed and started at once: NodeExists, end of the new session, and expiry of the old one."""


@pytest.mark.parametrize("line", ["0.9", "0.10.2", "0.11", "1.1", "2.4", "2.8", "3.9"])
def test_a_broker_that_cannot_start_closes_its_session(line: str) -> None:
    refused_ms, closed_ms, _ = RECORDED_FAST_BOUNCES_MS.get(line, RECORDED_FAST_BOUNCES_MS["2.4"])
    with KafkaCluster(line, 3, config=QUICK) as c:
        closed: list[tuple[int, int]] = []

        def note(transaction: Transaction) -> None:
            if isinstance(transaction.record, CloseSessionTxn):
                closed.append((transaction.session_id, c.scheduler.now_us))

        c.server.on_transaction.append(note)
        c.kill(2)
        old = c.brokers[2].session.session_id
        c.restart(2)
        while not happened(c, "cannot start"):
            c.run_for(0.01)
        new, failed_us = c.brokers[2].session.session_id, c.scheduler.now_us
        c.run_for(2.5)
        assert next(session for session, _ in closed if session != old) == new
        pause_ms = (dict(closed)[new] - failed_us) / 1000
        assert 50 <= pause_ms <= 2200
        assert abs(pause_ms - (closed_ms - refused_ms)) < 300
        quiet(c)
        assert c.live_brokers == [1, 2, 3]
        c.check()


def test_a_clean_shutdown_moves_leaders_before_the_session_ends() -> None:
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [2, 3], 1: [3, 2]})
        topic(c, "alone", {0: [2]})
        c.shutdown(2)
        quiet(c)
        assert state_fields(c, "t", 0) == (3, (3,), 1, 1)
        assert state_fields(c, "t", 1) == (3, (3,), 1, 1)
        assert state_fields(c, "alone")[:2] == (-1, (2,))  # nobody else has it
        kinds = [event.what for event in c.history]
        assert kinds.index("leader moved") < kinds.index("registration gone")


def test_a_slow_follower_leaves_the_isr_only_where_data_flows() -> None:
    with cluster(3, controller=1, config={"replica.lag.time.max.ms": 10_000}) as c:
        topic(c, "t", {0: [2, 3], 1: [2, 3]})
        c.network.cut("broker 2", "broker 3")
        answer = c.produce("t", 0, 10)
        c.run_for(40)
        assert answer.result().error == ErrorCode.NONE
        assert state_fields(c, "t", 0) == (2, (2,), 0, 1)  # no leader epoch more: the leader asked for it
        assert state_fields(c, "t", 1) == (2, (2, 3), 0, 0)
        c.network.heal("broker 2", "broker 3")
        quiet(c)
        assert state_fields(c, "t", 0) == (2, (2, 3), 0, 2)


def test_a_broker_cut_off_from_zookeeper_is_given_up_and_taken_back() -> None:
    with cluster(3, controller=1) as c:
        monitor = watch(c)
        topic(c, "t", {0: [2, 3]})
        c.network.cut("broker 2", "zookeeper")
        c.run_for(15)
        assert state_fields(c, "t")[:2] == (3, (3,))
        c.network.heal("broker 2", "zookeeper")
        quiet(c)
        assert state_fields(c, "t")[:2] == (3, (3, 2))
        assert not monitor.violations


def test_automatic_rebalance_gives_leadership_back() -> None:
    config = {"auto.leader.rebalance.enable": True, "leader.imbalance.check.interval.seconds": 30}
    with cluster(3, controller=1, config=config) as c:
        topic(c, "t", {0: [2, 3], 1: [3, 2]})
        c.kill(2)
        quiet(c)
        c.restart(2)
        quiet(c)
        c.run_for(60)
        assert [c.state("t", number).leader for number in (0, 1)] == [2, 3]


@pytest.mark.parametrize("verb", ["kill", "pause", "expire", "shutdown", "restart", "prefer_controller"])
def test_a_broker_that_does_not_exist_is_an_error_of_the_user(verb: str) -> None:
    with cluster(2) as c:
        arguments = (9, 1.0) if verb == "pause" else (9,)
        with pytest.raises(ConfigError, match=r"broker 9 does not exist; expected one of 1, 2"):
            getattr(c, verb)(*arguments)
        with pytest.raises(ConfigError, match="broker 1 is running"):
            c.restart(1)
        c.kill(1)
        with pytest.raises(ConfigError, match="broker 1 is not running"):
            c.kill(1)


def test_a_session_that_expires_while_the_broker_starts_costs_another_start() -> None:
    with cluster(2, controller=1) as c:
        c.kill(2)
        quiet(c)
        c.restart(2)
        while c.brokers[2].session.session_id == 0:
            c.scheduler.run_next()
        c.expire(2)
        quiet(c)
        assert happened(c, "cannot start") == ["broker 2"]
        assert c.live_brokers == [1, 2]


def test_a_controller_that_is_shut_down_in_the_middle_of_an_event_leaves_it_to_the_next() -> None:
    with cluster(4, controller=1, config={"controlled.shutdown.enable": False}) as c:
        monitor = watch(c)
        topic(c, "t", {number: [2, 3] for number in range(30)})
        c.kill(2)
        while not happened(c, "leader moved"):
            c.scheduler.run_next()
        c.shutdown(1)
        quiet(c)
        assert all(c.state("t", number).leader == 3 for number in range(30))
        assert not monitor.violations


def test_a_lost_reply_to_the_controllers_isr_write_leaves_the_leader_behind() -> None:
    """The retried write finds the version of the first one: the proposal is rejected and stays pending (§5, 49)."""
    with cluster(3, controller=1) as c:
        topic(c, "t", {0: [2, 3]})
        c.kill(3)
        quiet(c)
        version = c.state("t", 0).version
        dropped: list[bool] = []

        def drop_the_reply(_: object) -> None:
            if not dropped and c.state("t", 0).version > version:
                dropped.append(True)
                c.network.drop_next("zookeeper", "broker 1")

        c.server.on_transaction.append(drop_the_reply)
        c.restart(3)
        c.run_for(10)
        assert state_fields(c, "t")[:2] == (2, (2, 3))  # it is written, and nobody knows
        assert happened(c, "ISR change refused") == ["t-0"]
        replica = next(iter(c.brokers[2].replicas.replicas.values()))
        assert (replica.state.isr, replica.proposed) == ((2,), (2, 3))
        c.kill(3)  # whatever makes the controller read and write the state again ends it
        quiet(c)
        assert (replica.state.isr, replica.proposed) == ((2,), None)


class Guest:
    """A client with a session of its own."""

    def __init__(self, c: KafkaCluster) -> None:
        self.name = "guest"
        self.process = Process(c.scheduler, self.name)
        self.session = ZooKeeperSession(self.process, c.zookeeper_host, timeout_ms=6000)
        self.process.spawn(self._run())

    @property
    def session_id(self) -> int:
        return self.session.session_id

    def kill(self) -> None:
        self.session.drop_connection()
        self.process.kill()

    async def _run(self) -> None:
        await self.session.start()
        await self.session.call(create_request(paths.delete_topic("t"), None))


def test_the_history_names_whoever_else_writes_and_the_end_of_the_cluster_ends_him() -> None:
    with cluster(2) as c:
        topic(c, "t", {0: [1, 2]})
        guest = Guest(c)
        c.participants.append(guest)
        quiet(c)
        assert [event.who for event in c.history if event.what == "deletion requested"] == ["guest"]
    assert not guest.process.alive


def test_a_log_that_is_cut_back_takes_its_high_watermark_with_it() -> None:
    """The truncated replica leads later, and no follower could catch up; found by a random run."""
    config = {"unclean.leader.election.enable": True, "replica.lag.time.max.ms": 4000}
    with cluster(3, controller=1, config=config) as c:
        topic(c, "t", {0: [2, 3]})
        c.network.cut("broker 2", "broker 3")
        c.produce("t", 0, 5)
        c.run_for(15)
        assert state_fields(c, "t")[1] == (2,)
        c.kill(2)
        quiet(c)
        assert state_fields(c, "t")[:2] == (3, (3,))  # an unclean leader, with nothing in its log
        c.network.heal_all()
        c.restart(2)
        quiet(c)
        c.elect()
        quiet(c)
        c.kill(3)
        quiet(c)
        c.restart(3)
        quiet(c)
        assert state_fields(c, "t")[:2] == (2, (2, 3))


def failing_failover(c: KafkaCluster) -> tuple[int, FaultRule]:
    """Elect a broker and hold its failover before the step that fails; return the broker and the fault."""
    topic(c, "t", {0: [1, 2], 1: [2, 3]})
    assert c.controller is not None
    elected = c.controller % 3 + 1
    c.write_znode(paths.PREFERRED_ELECTION, None)
    c.run_for(1)
    c.prefer_controller(elected)
    rule = c.zookeeper_faults.hold("get", client=elected, path=paths.PREFERRED_ELECTION)
    c.delete_znode(paths.CONTROLLER)
    c.run_for(1)
    assert (c.controller, rule.waiting) == (elected, 1)
    return elected, rule


def let_fail(c: KafkaCluster, rule: FaultRule) -> None:
    """Release a failover that fails, and let the next one succeed."""
    rule.release()
    while not happened(c, "failover failed"):
        assert c.scheduler.run_next()
    c.delete_znode(paths.PREFERRED_ELECTION)
    quiet(c)


@pytest.mark.parametrize("release", ["0.11", "1.1", "2.0", "2.1", "2.8", "3.9"])
def test_a_broker_resigns_when_its_failover_fails_and_its_znode_is_gone(release: str) -> None:
    """The broker has no state of the failed term when it is elected again (§2.2)."""
    with KafkaCluster(release, 3, config=QUICK) as c:
        elected, rule = failing_failover(c)
        c.delete_znode(paths.CONTROLLER)
        c.run_for(0.004)
        let_fail(c, rule)
        if c.controller != elected:
            c.delete_znode(paths.CONTROLLER)
            quiet(c)
        assert c.controller == elected
        assert [event.who for event in c.history if event.what == "resigned"].count(f"controller {elected}") == 1
        c.check()


@pytest.mark.parametrize("line", ["0.8.2", "0.9", "3.9"])
def test_a_broker_that_is_shut_down_while_it_starts_halts(line: str) -> None:
    """From 0.9 on KafkaServer.shutdown throws then; its earlier registration stays until the session expires."""
    with KafkaCluster(line, 3, config=QUICK) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(1)
        c.restart(1)
        c.run_for(0.2)
        c.shutdown(1)
        c.run_for(3)
        assert happened(c, "halted") == ([] if line == "0.8.2" else ["broker 1"])
        if line != "0.8.2":
            assert not c.brokers[1].alive
            assert state_fields(c, "t")[0] == 1, "it did not ask the controller to move its leaders"
        quiet(c)
        assert state_fields(c, "t")[0] == 2
