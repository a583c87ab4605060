"""Records of producers: acks, `min.insync.replicas` and the high watermark, by release."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster, ReplicaLog
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AppendResponse
from simzk.kafka.topic_partition import TopicPartition
from tests.kafka.clusters import happened, quiet, state_fields, topic


def wants_two(line: str) -> dict[str, str]:
    """Return a topic configuration with `min.insync.replicas` 2; empty for 0.8.0 and 0.8.1, which have no such key."""
    return {"min_insync_replicas": "2"} if heeds(line) else {}


LINES = ["0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.2", "0.11", "1.1", "2.4", "2.7", "3.2", "3.6", "3.7", "3.9"]


def cluster(line: str, brokers: int = 3, **config: str | int | bool) -> KafkaCluster:
    quick: dict[str, str | int | bool] = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False}
    values = quick | {key.replace("_", "."): value for key, value in config.items()}
    return KafkaCluster(line, brokers, config=values)


def ruled(line: str, **config: str | int | bool) -> KafkaCluster:
    """Return a cluster of four brokers with the last as controller."""
    quick: dict[str, str | int | bool] = {"zookeeper.session.timeout.ms": 6000, "auto.leader.rebalance.enable": False}
    values = quick | {key.replace("_", "."): value for key, value in config.items()}
    c = KafkaCluster(line, 4, config=values, boot=False)
    c.restart(4)
    quiet(c)
    for broker in (1, 2, 3):
        c.restart(broker)
    quiet(c)
    assert c.controller == 4
    return c


def heeds(line: str) -> bool:
    return line not in ("0.8.0", "0.8.1")


@pytest.mark.parametrize("line", LINES)
def test_too_few_in_sync_refuse_what_all_must_have_and_nothing_else(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2, 3]}, **wants_two(line))
        c.produce("t", 0, acks=1)  # from 2.1 on who has all there is stays in sync, dead or alive
        c.kill(2)
        c.kill(3)
        c.run_for(90)  # in some releases it is the leader that drops them
        assert state_fields(c, "t")[1] == (1,)
        answers = [c.produce("t", 0, 5, acks=acks) for acks in ("all", 1, 0)]
        c.run_for(1)
        every, one, none = (answer.result() for answer in answers)
        if heeds(line):
            assert every == AppendResponse(ErrorCode.NOT_ENOUGH_REPLICAS)
        else:  # there was no such setting
            assert every == AppendResponse(ErrorCode.NONE, 1)
        assert one == AppendResponse(ErrorCode.NONE, 1 if heeds(line) else 6)
        assert none == AppendResponse(ErrorCode.NONE)
        assert c.log(1, "t", 0).log_end == (11 if heeds(line) else 16)
        assert happened(c, "refused") == (["t-0"] if heeds(line) else [])


@pytest.mark.parametrize("line", LINES)
def test_all_in_sync_have_the_records_when_it_is_said_that_they_have(line: str) -> None:
    with cluster(line, min_insync_replicas=3) as c:
        topic(c, "t", {0: [1, 2, 3]})
        answer = c.produce("t", 0, 7, acks="all")
        while not answer.done:
            c.run_for(0.0001)
        assert answer.result() == AppendResponse(ErrorCode.NONE, 0)
        assert [c.log(broker, "t", 0).log_end for broker in (1, 2, 3)] == [7, 7, 7]
        assert c.log(1, "t", 0).high_watermark == 7
        c.run_for(1)  # followers hear of it with their next answer
        assert [c.log(broker, "t", 0) for broker in (2, 3)] == [ReplicaLog(7, 7)] * 2


@pytest.mark.parametrize("line", LINES)
def test_the_topic_says_otherwise_than_the_broker_and_may_change_its_mind(line: str) -> None:
    with cluster(line, min_insync_replicas=3) as c:
        topic(c, "t", {0: [1, 2]}, **wants_two(line))
        answer = c.produce("t", 0, acks="all")
        c.run_for(1)
        assert answer.result().error == ErrorCode.NONE
        if not heeds(line):
            return
        c.alter_config("topics/t", {"min.insync.replicas": "3"})
        c.run_for(2)
        answer = c.produce("t", 0, acks="all")
        c.run_for(1)
        capped = line in ("3.7", "3.9")  # never more than there are replicas (KAFKA-15583)
        assert answer.result().error == (ErrorCode.NONE if capped else ErrorCode.NOT_ENOUGH_REPLICAS)


@pytest.mark.parametrize("line", LINES)
def test_an_isr_that_shrinks_under_a_write_is_said_when_it_is_appended(line: str) -> None:
    """Since 3.7 the high watermark does not rise while the ISR is too small, so the write times out (KAFKA-15583).

    In 2.7 it waits for another fetch or record, of which there is none (KAFKA-13091).
    """
    with cluster(line, zookeeper_session_timeout_ms=40_000, replica_lag_time_max_ms=4_000) as c:
        topic(c, "t", {0: [1, 2]}, **wants_two(line))
        c.run_for(1)
        c.network.cut("broker 1", "broker 2")
        answer = c.produce("t", 0, 5, acks="all", timeout_ms=20_000)
        c.run_for(3)
        assert not answer.done
        c.run_for(12)
        assert state_fields(c, "t")[1] == (1,)
        if line in ("2.7", "3.7", "3.9"):
            assert not answer.done
            assert c.log(1, "t", 0) == ReplicaLog(5, 0)
            c.run_for(10)
            assert answer.result().error == ErrorCode.REQUEST_TIMED_OUT
        else:
            expected = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if heeds(line) else ErrorCode.NONE
            assert answer.result() == AppendResponse(expected, 0)
            assert c.log(1, "t", 0) == ReplicaLog(5, 5)


@pytest.mark.parametrize("line", LINES)
def test_a_leader_that_follows_answers_its_producers_or_lets_them_wait(line: str) -> None:
    with ruled(line, zookeeper_session_timeout_ms=40_000, replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2]})
        c.network.cut("broker 1", "broker 2")
        answer = c.produce("t", 0, 5, acks="all", timeout_ms=15_000)
        c.reassign({("t", 0): [2]})
        c.run_for(5)
        assert state_fields(c, "t")[0] == 2
        waits = line in ("0.8.0", "0.8.1", "0.8.2", "0.9")
        assert answer.done != waits
        c.run_for(20)
        assert answer.result().error == (ErrorCode.REQUEST_TIMED_OUT if waits else ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("line", ["0.8.0", "0.8.2", "0.9", "3.9"])
def test_up_to_0_8_2_any_number_of_acks_can_be_asked_for(line: str) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2, 3]})
        two, four = c.produce("t", 0, 5, acks=2, timeout_ms=2000), c.produce("t", 0, 5, acks=4, timeout_ms=2000)
        c.run_for(5)
        if line.startswith("0.8"):
            assert two.result() == AppendResponse(ErrorCode.NONE, 0)
            assert four.result() == AppendResponse(ErrorCode.REQUEST_TIMED_OUT, 5)
        else:
            assert [two.result().error, four.result().error] == [ErrorCode.INVALID_REQUIRED_ACKS] * 2


@pytest.mark.parametrize(("line", "waits"), [("0.10.1", False), ("0.10.2", True), ("2.8", True), ("3.9", True)])
def test_the_high_watermark_waits_for_who_was_caught_up_a_moment_ago(line: str, waits: bool) -> None:
    """A follower that was caught up within the lag delays the high watermark, so it can join (0.10.2)."""
    with cluster(line, zookeeper_session_timeout_ms=40_000, replica_lag_time_max_ms=20_000) as c:
        topic(c, "t", {0: [1, 2]})
        leader = c.brokers[1].replicas
        replica = next(iter(leader.replicas.values()))
        replica.state = replica.state._replace(isr=(1,))  # as after a shrink, with a follower that is there
        c.network.cut("broker 1", "broker 2")
        c.produce("t", 0, 5)
        c.run_for(1)
        assert c.log(1, "t", 0) == ReplicaLog(5, 0 if waits else 5)


@pytest.mark.parametrize(
    ("line", "stays"),
    [("0.8.2", False), ("0.9", False), ("0.10.2", False), ("2.0", False), ("2.1", True), ("2.8", True), ("3.9", True)],
)
def test_a_leader_that_stays_keeps_the_log_ends_of_its_followers(line: str, stays: bool) -> None:
    """A leader of 2.1 and later keeps a dead follower that has the whole log, also in a new epoch (KAFKA-7152)."""
    with ruled(line, zookeeper_session_timeout_ms=40_000, replica_lag_time_max_ms=3_000) as c:
        topic(c, "t", {0: [1, 2, 3]})
        c.produce("t", 0, 5, acks="all")
        c.run_for(1)
        c.shutdown(3)
        c.run_until(lambda: state_fields(c, "t")[2] == 1)
        c.kill(2)
        c.run_for(15)
        isr = (1, 2) if stays else (1,)
        assert state_fields(c, "t")[:3] == (1, isr, 1)
        c.run_for(40)
        assert state_fields(c, "t")[1] == (1,)


@pytest.mark.parametrize(("line", "watermark"), [("0.8.2", 0), ("0.9", 5), ("0.10.2", 5), ("2.0", 5), ("3.9", 5)])
def test_a_new_epoch_of_a_leader_that_stays_may_commit(line: str, watermark: int) -> None:
    """The ISR shrinks to those whose log ends the leader knows, so it need not wait for another fetch (since 0.9)."""
    with ruled(line, zookeeper_session_timeout_ms=40_000, replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2, 3]})
        c.network.cut("broker 1", "broker 3")
        c.produce("t", 0, 5, acks="all")
        c.run_for(1)
        c.network.cut("broker 1", "broker 2")
        c.shutdown(3)
        c.run_until(lambda: c.brokers[1].replicas.replicas[TopicPartition("t", 0)].state.leader_epoch == 1)
        assert c.log(1, "t", 0) == ReplicaLog(5, watermark)


@pytest.mark.parametrize("line", ["0.9", "0.10.2", "2.4", "2.8", "3.5", "3.9"])
def test_a_follower_that_left_counts_again_when_it_fetches(line: str) -> None:
    """The log end of a follower that stopped is known, but neither brings it back nor delays the high watermark."""
    with ruled(line, zookeeper_session_timeout_ms=40_000, replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2, 3]})
        c.produce("t", 0, 5, acks="all")
        c.run_for(1)
        c.shutdown(3)
        c.run_until(lambda: state_fields(c, "t")[1] == (1, 2))
        c.run_for(0.1)
        answer = c.produce("t", 0, 5, acks="all")
        c.run_for(5)
        assert answer.result().error == ErrorCode.NONE
        assert c.log(1, "t", 0) == ReplicaLog(10, 10)
        assert state_fields(c, "t")[1] == (1, 2)
        c.restart(3)
        quiet(c)
        assert state_fields(c, "t")[1] == (1, 2, 3)
        assert c.log(3, "t", 0).log_end == 10


@pytest.mark.parametrize(("line", "isr"), [("0.9", (2,)), ("0.10.1", (2,)), ("0.10.2", (2, 3)), ("3.9", (2, 3))])
def test_a_new_leader_gives_followers_time_to_fetch_but_from_0_9_to_0_10_1(line: str, isr: tuple[int, ...]) -> None:
    """These releases count from when the replica was opened (KAFKA-4485)."""
    with ruled(line, zookeeper_session_timeout_ms=40_000, replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2, 3]})
        c.run_for(60)
        c.network.cut("broker 2", "broker 3")
        c.shutdown(1)
        c.run_until(lambda: c.brokers[2].replicas.leads(TopicPartition("t", 0)))
        c.check_isrs(2)
        c.run_for(1)
        assert state_fields(c, "t")[:2] == (2, isr)


def test_watermarks_are_written_every_five_seconds_and_at_a_clean_end() -> None:
    with cluster("2.4", 2) as c:
        topic(c, "t", {0: [1, 2]})
        c.run_for(6)
        c.produce("t", 0, 5)
        c.run_for(0.1)
        c.kill(1)
        assert [log.high_watermark for log in c.brokers[1].logs.values()] == [0]
        c.kill(2)
        quiet(c)
        c.restart(1)
        c.restart(2)
        quiet(c)
        c.run_for(6)
        c.produce("t", 0, 5)
        c.run_for(1)
        c.shutdown(1)
        quiet(c)
        assert [log.high_watermark for log in c.brokers[1].logs.values()] == [c.log(2, "t", 0).log_end]


@pytest.mark.parametrize(("line", "end"), [("0.8.0", 0), ("0.9", 0), ("0.10.2", 0), ("0.11", 5), ("3.9", 5)])
def test_who_follows_anew_cuts_its_log_back_up_to_0_10_2(line: str, end: int) -> None:
    with ruled(line, replica_lag_time_max_ms=30_000) as c:
        topic(c, "t", {0: [1, 2, 3]})
        c.produce("t", 0, 5, acks="all")
        c.run_for(0.05)
        c.network.cut("broker 2", "broker 3")
        c.kill(1)
        c.run_for(12)
        assert state_fields(c, "t")[0] == 2
        assert (c.log(2, "t", 0).log_end, c.log(3, "t", 0).log_end) == (5, end)


def test_who_is_asked_and_does_not_lead_says_so_and_the_dead_say_nothing() -> None:
    with cluster("3.9") as c:
        topic(c, "t", {0: [1, 2]})
        wrong, dead = c.produce("t", 0, broker=2), c.produce("t", 0, broker=3)
        c.kill(3)
        c.run_for(1)
        assert wrong.result().error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert dead.result().error == ErrorCode.NETWORK_EXCEPTION
        c.kill(1)
        c.kill(2)
        c.run_for(1)
        late = c.produce("t", 0)
        c.run_for(1)
        assert late.result().error == ErrorCode.NETWORK_EXCEPTION


def test_a_partition_without_a_leader_takes_nothing() -> None:
    with cluster("3.9") as c:
        topic(c, "t", {0: [2]})
        c.kill(2)
        quiet(c)
        answer = c.produce("t", 0)
        c.run_for(1)
        assert answer.result().error == ErrorCode.LEADER_NOT_AVAILABLE


def test_what_cannot_be_asked_for_is_refused_at_once() -> None:
    with cluster("3.9") as c:
        topic(c, "t", {0: [1]})
        with pytest.raises(ConfigError, match="acks are 'most'"):
            c.produce("t", 0, acks="most")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="acks are -2"):
            c.produce("t", 0, acks=-2)
        with pytest.raises(ConfigError, match="0 records"):
            c.produce("t", 0, 0)
        with pytest.raises(ConfigError, match="broker 9 does not exist"):
            c.produce("t", 0, broker=9)
        with pytest.raises(ConfigError, match="t-4 has no state"):
            c.produce("t", 4)
        with pytest.raises(ConfigError, match="broker 2 has no log of t-0"):
            c.log(2, "t", 0)


def test_an_unreachable_broker_keeps_its_last_metadata() -> None:
    with cluster("3.9", 4) as c:
        topic(c, "t", {0: [1, 2]})
        cut = next(broker for broker in (3, 4) if broker != c.controller)
        other = 7 - cut
        for peer in ("zookeeper", "broker 1", "broker 2", f"broker {other}"):
            c.network.cut(f"broker {cut}", peer)
        before = c.metadata(cut)
        c.kill(1)
        c.run_for(20)
        assert c.metadata(cut) == before
        stale, fresh = c.metadata(cut), c.metadata(2)
        assert (stale.state("t", 0), fresh.state("t", 0)) != (None, None)
        assert stale.state("t", 0)._replace() == before.state("t", 0)  # type: ignore[union-attr]
        assert [stale.state("t", 0).leader, fresh.state("t", 0).leader] == [1, 2]  # type: ignore[union-attr]
        assert [list(stale.live_brokers), 1 in fresh.live_brokers] == [[1, 2, 3, 4], False]
        assert fresh.controller == c.controller
        assert stale.state("t", 5) is None
        with pytest.raises(ConfigError, match="broker 1 is not running"):
            c.metadata(1)


@pytest.mark.parametrize(("line", "known"), [("0.8.0", True), ("0.8.1", True), ("0.8.2", False), ("3.9", False)])
def test_up_to_0_8_1_a_broker_never_forgets_another(line: str, known: bool) -> None:
    with cluster(line) as c:
        topic(c, "t", {0: [1, 2]})
        c.kill(3)
        quiet(c)
        assert (3 in c.metadata(1).live_brokers) == known
