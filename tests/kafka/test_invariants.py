"""Each invariant reports its violation with the event that caused it, and nothing that real Kafka wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.invariants import (
    halted_by_known_bug,
    invariants_of,
    is_written_by_former_controller,
    leaderless_by_known_bug,
    renamed_by_known_bug,
)
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode.paths import CONTROLLER, CONTROLLER_EPOCH
from simzk.simulation import History, Monitor, Scheduler
from simzk.zookeeper import requests as req
from simzk.zookeeper.server import Server

if TYPE_CHECKING:
    from simzk.zookeeper import transactions as txns
    from simzk.zookeeper.connection import Connection

TRANSACTIONS = Path(__file__).parents[2] / "scenarios" / "layouts" / "kafka-3.9.1" / "txns.json"
STATE = "/brokers/topics/t/partitions/0/state"


class Rig:
    """A server, a session that writes to it, a history with an event for each transaction, and the monitor."""

    def __init__(
        self,
        *,
        empties_isr: bool = False,
        elects_in_steps: bool = False,
        supersedes_reassignments: bool = True,
        former_controllers_issue: str = "",
        resigned_controllers_issue: str = "",
        assigns_last: bool = False,
    ) -> None:
        self.server = Server()
        self.unclean_allowed = empties_isr
        self.topic_id_issue = ""
        self.history = History(Scheduler(seed=1))
        self.server.on_transaction.append(self._tell)
        invariants = invariants_of(
            self.server,
            empties_isr=empties_isr,
            elects_in_steps=elects_in_steps,
            supersedes_reassignments=supersedes_reassignments,
            former_controllers_issue=former_controllers_issue,
            resigned_controllers_issue=resigned_controllers_issue,
            assigns_last=assigns_last,
            unclean_allowed=lambda: self.unclean_allowed,
            topic_id_issue=lambda: self.topic_id_issue,
        )
        self.monitor = Monitor(self.history, invariants, seed=1)
        self.connection = self.new_session()

    def new_session(self) -> Connection:
        return self.server.connect(req.ConnectRequest(0, 0, 10_000, 0, None, False), now_ms=0)

    def act_as(self, connection: Connection) -> None:
        """Send the next requests in another session."""
        self.connection = connection

    def _tell(self, transaction: txns.Transaction) -> None:
        self.history.record("somebody", "writes", str(transaction.zxid))

    def do(self, *requests: req.Request) -> None:
        for request in requests:
            self.server.handle(self.connection, 1, request, now_ms=0)

    def create(self, path: str, data: str) -> None:
        parts = path.split("/")[1:-1]
        for depth in range(1, len(parts) + 1):
            self.do(req.Create("/" + "/".join(parts[:depth]), None, req.OPEN_ACL, 0))
        self.do(req.Create(path, data.encode(), req.OPEN_ACL, 0))

    def set(self, path: str, data: str) -> None:
        self.do(req.SetData(path, data.encode(), -1))

    @property
    def broken(self) -> list[str]:
        return [f"{violation.invariant}: {violation.detail}" for violation in self.monitor.violations]


def state(leader: int, isr: list[int], *, epoch: int = 0, controller_epoch: int = 1) -> str:
    fields = {"controller_epoch": controller_epoch, "leader": leader, "version": 1, "leader_epoch": epoch, "isr": isr}
    return json.dumps(fields)


@pytest.fixture
def rig() -> Rig:
    """Create a cluster of one partition as a controller of epoch 1 does."""
    return of_one_partition()


def of_one_partition(
    *,
    empties_isr: bool = False,
    elects_in_steps: bool = False,
    supersedes_reassignments: bool = True,
    former_controllers_issue: str = "",
    resigned_controllers_issue: str = "",
    assigns_last: bool = False,
) -> Rig:
    rig = Rig(
        empties_isr=empties_isr,
        elects_in_steps=elects_in_steps,
        supersedes_reassignments=supersedes_reassignments,
        former_controllers_issue=former_controllers_issue,
        resigned_controllers_issue=resigned_controllers_issue,
        assigns_last=assigns_last,
    )
    rig.create(CONTROLLER_EPOCH, "1")
    rig.create(CONTROLLER, '{"version":2,"brokerid":1,"timestamp":"0","kraftControllerEpoch":-1}')
    rig.create("/brokers/topics/t", '{"partitions":{"0":[1,2,3]},"version":1}')
    rig.create(STATE, state(1, [1, 2, 3]))
    assert rig.broken == []
    return rig


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (state(2, [1, 3], epoch=1), "a leader is in its ISR, or there is none: t-0 is led by 2, its ISR is [1, 3]"),
        (state(-1, [], epoch=1), "an ISR is never empty, and only replicas join it: t-0 has an empty ISR"),
        (state(1, [1, 4], epoch=1), "an ISR is never empty, and only replicas join it: t-0 took [4] into its ISR"),
        (state(2, [1, 2, 3]), "leader epochs never fall, and rise with every change of leader: t-0 went to leader 2"),
        (
            state(1, [1], epoch=-1),
            "leader epochs never fall, and rise with every change of leader: t-0 fell from epoch 0",
        ),
        (
            state(1, [1], controller_epoch=0),
            "only the controller of the present epoch writes states: t-0 bears epoch 0",
        ),
        ("{", "a leader is in its ISR, or there is none: /brokers/topics/t/partitions/0/state: contains b'{'"),
    ],
)
def test_a_violation_names_the_event_that_wrote_the_state(rig: Rig, data: str, said: str) -> None:
    rig.set(STATE, data)
    (broken,) = rig.broken
    assert broken.startswith(said)
    assert rig.monitor.violations[0].event == rig.history[-1]
    rig.set(CONTROLLER_EPOCH, "1")
    assert len(rig.broken) == 1, "a violation is reported once"


@pytest.mark.parametrize(
    "data",
    [
        state(1, [1, 2, 3]),
        state(1, [1]),
        state(2, [2, 3], epoch=1),
        state(-1, [1], epoch=1),
        state(1, [3, 2, 1], epoch=7),
    ],
)
def test_what_kafka_may_write_breaks_nothing(rig: Rig, data: str) -> None:
    rig.set(STATE, data)
    assert rig.broken == []


def test_a_member_that_is_no_replica_any_more_may_leave_in_its_time(rig: Rig) -> None:
    rig.set("/brokers/topics/t", '{"partitions":{"0":[1,2]},"version":3}')
    rig.set(STATE, state(1, [1, 2, 3], epoch=1))
    rig.set(STATE, state(1, [1, 2], epoch=2))
    assert rig.broken == []
    rig.set(STATE, state(1, [1, 2, 3], epoch=2))
    assert len(rig.broken) == 1


TOPIC = "/brokers/topics/t"


def test_a_reassignment_that_added_partitions_undo_is_a_known_bug(rig: Rig) -> None:
    """KAFKA-9038: the topic's znode is written as it was read, with the new partition, but without the reassignment."""
    rig.set(TOPIC, '{"partitions":{"0":[4,1,2,3]},"adding_replicas":{"0":[4]},"removing_replicas":{},"version":3}')
    rig.set(TOPIC, '{"partitions":{"0":[1,2,3],"1":[3,1]},"version":3}')
    rig.set(STATE, state(1, [1, 2, 3, 4], epoch=1))
    assert rig.broken == []
    (known,) = rig.monitor.known
    assert known.issue == "KAFKA-9038"
    assert known.detail == "t-0 went from [4, 1, 2, 3] adding [4] back to [1, 2, 3]"
    rig.set(STATE, state(1, [1, 2, 3, 5], epoch=1))
    assert len(rig.broken) == 1, "broker 5 never was a replica"


def test_a_reassignment_that_the_controller_undoes_is_no_excuse(rig: Rig) -> None:
    rig.set(TOPIC, '{"partitions":{"0":[4,1,2,3]},"adding_replicas":{"0":[4]},"removing_replicas":{},"version":3}')
    rig.set(TOPIC, '{"partitions":{"0":[1,2,3]},"version":3}')
    rig.set(STATE, state(1, [1, 2, 3], epoch=1))
    rig.set(TOPIC, '{"partitions":{"0":[1,2,3],"1":[3,1]},"version":3}')
    rig.set(STATE, state(1, [1, 2, 3, 4], epoch=1))
    assert len(rig.broken) == 1
    assert rig.monitor.known == []


def test_an_undone_reassignment_ends_with_the_next_one_and_with_the_topic(rig: Rig) -> None:
    moved, undone = '{"partitions":{"0":[4,1,2,3]},"version":3}', '{"partitions":{"0":[1,2,3],"1":[3,1]},"version":3}'
    rig.set(TOPIC, moved)
    rig.set(TOPIC, undone)
    rig.set(TOPIC, undone.replace("[1,2,3]", "[1,2]"))
    rig.set(STATE, state(1, [1, 2, 3, 4], epoch=1))
    assert len(rig.broken) == 1
    rig.set(TOPIC, "{")
    rig.set(TOPIC, undone)
    assert len(rig.monitor.known) == 1


@pytest.mark.parametrize(
    ("after", "issue", "what"),
    [
        (
            '{"partitions":{"0":[2,3,1]},"adding_replicas":{"0":[2]},"removing_replicas":{"0":[3,1]},"version":3}',
            "KAFKA-14808",
            "[2, 3, 1] adding [2] removing [3, 1]",
        ),
        ('{"partitions":{"0":[1,2,3]},"version":3}', "KAFKA-14424", "[1, 2, 3]"),
    ],
)
@pytest.mark.parametrize("isr", [[4], [4, 1]])
def test_a_reassignment_that_removes_the_leader_is_a_known_bug(
    isr: list[int], after: str, issue: str, what: str
) -> None:
    rig = of_one_partition()
    rig.set(TOPIC, '{"partitions":{"0":[4,1,2,3]},"adding_replicas":{"0":[4]},"removing_replicas":{},"version":3}')
    rig.set(STATE, state(1, [1, 2, 3, 4], epoch=1))
    rig.set(STATE, state(4, isr, epoch=2))
    rig.set(TOPIC, after)
    assert rig.broken == []
    (known,) = rig.monitor.known
    assert known.detail == f"t-0 with leader 4 and ISR {isr} went from [4, 1, 2, 3] adding [4] to {what}"
    assert known.issue == issue
    rig.set(STATE, state(4, isr, epoch=3))  # as another replica leaves
    rig.set(STATE, state(-1, isr, epoch=4))
    assert leaderless_by_known_bug(rig.monitor.invariants) == {TopicPartition("t", 0)}
    rig.set(CONTROLLER_EPOCH, "2")
    is_stranded = isr == [4]
    assert bool(leaderless_by_known_bug(rig.monitor.invariants)) == is_stranded, "the new controller elects broker 1"
    rig.set(STATE, state(1, [1], epoch=5, controller_epoch=2))
    assert not leaderless_by_known_bug(rig.monitor.invariants)


@pytest.mark.parametrize("assigns_last", [False, True])
def test_replicas_of_0_8_0_join_before_they_are_assigned(assigns_last: bool) -> None:
    rig = of_one_partition(assigns_last=assigns_last)
    rig.set(STATE, state(1, [1, 2, 3, 4]))
    assert len(rig.broken) == (0 if assigns_last else 1)
    assert [known.issue for known in rig.monitor.known] == ["assignment written last"] * assigns_last


def test_a_former_controller_that_goes_on_writing_is_a_known_bug() -> None:
    """KAFKA-3083: its states stay unknown to the leaders until the next election."""
    rig = of_one_partition(former_controllers_issue="KAFKA-3083", supersedes_reassignments=False)
    partition = TopicPartition("t", 0)
    former = rig.new_session()
    rig.act_as(former)
    rig.set(STATE, state(1, [1, 2]))
    assert not rig.monitor.known, "a leader writes its ISR without a new leader epoch"
    rig.set(STATE, state(1, [1], epoch=1))
    rig.set(TOPIC, '{"partitions":{"1":[1,2,3]},"version":1}')
    assert rig.broken == []
    assert [known.issue for known in rig.monitor.known] == ["KAFKA-3083"] * 2
    assert rig.monitor.known[0].detail == "a former controller wrote leader epoch 1 of t-0"
    assert rig.monitor.known[1].detail == "a former controller took t-0 out of the topic's znode"
    assert is_written_by_former_controller(rig.monitor.invariants, partition, 1)
    rig.set(STATE, state(1, [1, 4], epoch=1))
    assert rig.broken == [], "its leader still adds replicas"
    rig.do(req.Delete(CONTROLLER, -1))
    rig.set(STATE, state(4, [4, 1], epoch=2))
    assert len(rig.monitor.known) == 2, "nobody else is controller"


def test_the_next_election_ends_what_a_former_controller_wrote() -> None:
    rig = of_one_partition(former_controllers_issue="KAFKA-3083")
    partition, present = TopicPartition("t", 0), rig.connection
    rig.act_as(rig.new_session())
    rig.set(STATE, state(1, [1], epoch=1))
    assert is_written_by_former_controller(rig.monitor.invariants, partition, 1)
    rig.act_as(present)
    rig.set(STATE, state(1, [1], epoch=2))
    assert not is_written_by_former_controller(rig.monitor.invariants, partition, 2)
    assert len(rig.monitor.known) == 1


@pytest.mark.parametrize("path", ["/admin/reassign_partitions", "/admin/delete_topics/t", "/isr_change_notification/1"])
def test_a_former_controller_that_handles_a_request_is_a_known_bug(path: str) -> None:
    """KAFKA-4447: tools, and the controller, may do it."""
    rig = of_one_partition(resigned_controllers_issue="KAFKA-4447")
    controller, former = rig.connection, rig.new_session()
    for writer, is_counted in ((controller, False), (rig.new_session(), False), (former, True)):
        rig.create(path, "")
        rig.act_as(writer)
        if is_counted:
            rig.create("/brokers/ids/9", "{}")
        rig.do(req.Delete(path, -1))
        assert [known.issue for known in rig.monitor.known] == ["KAFKA-4447"] * is_counted
    assert rig.monitor.known[0].detail == f"{path} was deleted by a broker that is not in {CONTROLLER}"
    rig.do(req.Delete(CONTROLLER, -1))
    assert rig.monitor.known[1].detail == f"{CONTROLLER} was deleted by a broker that is not in {CONTROLLER}"


def test_replicas_that_a_former_controller_assigns_are_started_by_nobody() -> None:
    rig = of_one_partition(former_controllers_issue="KAFKA-3083", resigned_controllers_issue="KAFKA-4447")
    partition, present, former = TopicPartition("t", 0), rig.connection, rig.new_session()
    rig.act_as(former)
    rig.create("/brokers/ids/9", "{}")
    rig.set(TOPIC, CANCELLED.replace("[1,2,3]", "[1,2,3,4]"))
    assert rig.broken == []
    assert [known.detail for known in rig.monitor.known] == [
        f"t-0 got other replicas by a broker that is not in {CONTROLLER}"
    ]
    assert is_written_by_former_controller(rig.monitor.invariants, partition, 0)
    rig.act_as(present)
    rig.set(TOPIC, CANCELLED)
    assert not is_written_by_former_controller(rig.monitor.invariants, partition, 0)


MOVING = '{"partitions":{"0":[4,1,2,3]},"adding_replicas":{"0":[4]},"removing_replicas":{"0":[3]},"version":3}'
CANCELLED = '{"partitions":{"0":[1,2,3]},"adding_replicas":{},"removing_replicas":{},"version":3}'
COMPLETE = CANCELLED.replace("[1,2,3]", "[4,1,2]")


def test_a_leader_that_adds_a_replica_of_a_cancelled_reassignment_is_a_known_bug(rig: Rig) -> None:
    """Nobody has told it: the controller died after it had written the topic's znode."""
    rig.set(TOPIC, MOVING)
    rig.set(STATE, state(1, [1, 2, 3], epoch=1))
    rig.set(TOPIC, CANCELLED)
    rig.set(STATE, state(1, [1, 2, 3, 4], epoch=1))
    assert rig.broken == []
    (known,) = rig.monitor.known
    assert known.issue == "leader of a former assignment"
    assert known.detail == "t-0 took [4] into its ISR, who are replicas no more"
    assert leaderless_by_known_bug(rig.monitor.invariants) == frozenset()
    rig.set(STATE, state(-1, [4], epoch=2))
    assert leaderless_by_known_bug(rig.monitor.invariants) == {TopicPartition("t", 0)}
    for path in (STATE, f"{TOPIC}/partitions/0", f"{TOPIC}/partitions", TOPIC):
        rig.do(req.Delete(path, -1))
    assert leaderless_by_known_bug(rig.monitor.invariants) == frozenset()


def test_before_2_4_a_leader_that_was_taken_for_dead_adds_former_replicas() -> None:
    rig = of_one_partition(supersedes_reassignments=False)
    rig.set(STATE, state(1, [1, 2], epoch=1))
    rig.set(TOPIC, '{"partitions":{"0":[1,2]},"version":1}')
    rig.set(STATE, state(1, [1, 2, 3], epoch=1))
    assert rig.broken == []
    assert [known.issue for known in rig.monitor.known] == ["leader of a former assignment"]
    rig.set(STATE, state(-1, [3], epoch=2))
    assert leaderless_by_known_bug(rig.monitor.invariants) == {TopicPartition("t", 0)}


@pytest.mark.parametrize(
    "writes",
    [
        [(TOPIC, CANCELLED), (STATE, state(1, [1, 2, 3], epoch=2)), (STATE, state(1, [1, 2, 3, 4], epoch=2))],
        [(TOPIC, CANCELLED), (STATE, state(1, [1, 2, 3, 5], epoch=1))],
        [
            (STATE, state(1, [1, 2, 4], epoch=2)),
            (TOPIC, COMPLETE),
            (STATE, state(1, [1, 2, 4, 3], epoch=2)),
        ],
    ],
    ids=["the leader was told", "no former replica", "the reassignment is complete"],
)
def test_a_leader_that_knows_better_adds_no_former_replica(rig: Rig, writes: list[tuple[str, str]]) -> None:
    rig.set(TOPIC, MOVING)
    rig.set(STATE, state(1, [1, 2, 3], epoch=1))
    for path, data in writes:
        assert rig.broken == []
        rig.set(path, data)
    (broken,) = rig.broken
    assert "into its ISR, who hold no replica of it" in broken
    assert rig.monitor.known == []


def test_a_tools_write_without_the_topics_id_is_a_known_bug(rig: Rig) -> None:
    rig.set(TOPIC, '{"partitions":{"0":[1,2,3]},"topic_id":"dZ0pcNhEQqyC2gWzmaVoZA","version":3}')
    rig.act_as(rig.new_session())
    assert rig.monitor.known == []
    rig.set(TOPIC, '{"partitions":{"0":[1,2,3],"1":[3]},"version":2}')
    (known,) = rig.monitor.known
    assert (known.issue, known.detail) == ("KAFKA-14190", "t went from id dZ0pcNhEQqyC2gWzmaVoZA to none")
    assert renamed_by_known_bug(rig.monitor.invariants) == {"t"}
    assert rig.broken == []


def elect_second_controller(rig: Rig) -> None:
    rig.do(req.Delete(CONTROLLER, -1))
    elected = req.Create(CONTROLLER, b'{"version":2,"brokerid":2,"timestamp":"0"}', req.OPEN_ACL, 0)
    rig.do(req.Multi((elected, req.SetData(CONTROLLER_EPOCH, b"2", -1))))


def test_a_deletion_that_a_reassignment_halts_is_a_known_bug_until_a_broker_starts(rig: Rig) -> None:
    rig.create("/admin/delete_topics/t", "")
    rig.set(TOPIC, MOVING)
    rig.set(STATE, state(-1, [1], epoch=1))
    assert rig.monitor.known == []
    assert halted_by_known_bug(rig.monitor.invariants) == frozenset()
    elect_second_controller(rig)
    (known,) = rig.monitor.known
    assert known.issue == "deletion halted by a reassignment"
    assert known.detail == "the deletion of t waits for the reassignment of t-0, which has no leader"
    assert halted_by_known_bug(rig.monitor.invariants) == {"t"}
    rig.create("/brokers/ids/9", "{}")
    assert halted_by_known_bug(rig.monitor.invariants) == {"t"}, "broker 9 has no replica of it"
    rig.create("/brokers/ids/1", "{}")
    assert halted_by_known_bug(rig.monitor.invariants) == frozenset()
    assert rig.broken == []


@pytest.mark.parametrize("leader", [1, -1])
def test_a_deletion_is_halted_only_by_a_reassignment_without_a_leader(rig: Rig, leader: int) -> None:
    rig.create("/admin/delete_topics/t", "")
    if leader != -1:
        rig.set(TOPIC, MOVING)
    rig.set(STATE, state(leader, [1], epoch=1))
    elect_second_controller(rig)
    assert rig.monitor.known == []


@pytest.mark.parametrize("issue", ["", "KAFKA-12835"])
def test_a_controllers_write_without_the_topics_id_is_known_only_in_some_releases(rig: Rig, issue: str) -> None:
    rig.topic_id_issue = issue
    rig.set(TOPIC, '{"partitions":{"0":[1,2,3]},"topic_id":"dZ0pcNhEQqyC2gWzmaVoZA","version":3}')
    rig.set(TOPIC, '{"partitions":{"0":[3,2,1]},"version":3}')
    dropped = "a controller's write of a topic keeps its id: t went from id dZ0pcNhEQqyC2gWzmaVoZA to none"
    assert rig.broken == ([] if issue else [dropped])
    assert [known.issue for known in rig.monitor.known] == ([issue] if issue else [])


def test_before_2_4_no_reassignment_is_superseded() -> None:
    names = {invariant.name for invariant in of_one_partition(supersedes_reassignments=False).monitor.invariants}
    assert not any(name.endswith(("keeps the leader", "goes on with the deletion of a topic")) for name in names)


def test_a_reassignment_that_keeps_the_leader_is_right(rig: Rig) -> None:
    rig.set(STATE, state(3, [3], epoch=1))
    rig.set(TOPIC, '{"partitions":{"0":[4,3]},"version":3}')
    rig.set(TOPIC, '{"partitions":{"0":[3]},"version":3}')
    rig.set("/brokers/topics/other", '{"partitions":{"0":[3]},"version":3}')
    assert rig.broken == []
    assert rig.monitor.known == []


def test_a_falling_epoch_and_two_controllers_of_one_epoch_are_reported(rig: Rig) -> None:
    rig.do(req.Delete(CONTROLLER, -1))
    rig.do(req.Create(CONTROLLER, b'{"version":2,"brokerid":2,"timestamp":"0"}', req.OPEN_ACL, 0))
    rig.set(CONTROLLER_EPOCH, "0")
    name = "there is one controller to an epoch, and epochs never fall"
    assert rig.broken == [
        f"{name}: brokers 1 and 2 were both controller of 1",
        f"{name}: /controller_epoch fell from 1 to 0",
    ]


UNCLEAN = '{"version":1,"config":{"unclean.leader.election.enable":"true"}}'


def test_the_controller_that_is_found_is_that_of_the_epoch_that_is_found() -> None:
    """A tree may have /controller before /controller_epoch: a restored one is sorted."""
    rig = Rig()
    rig.create(CONTROLLER, '{"version":1,"brokerid":1,"timestamp":"0"}')
    rig.create(CONTROLLER_EPOCH, "1")
    later = Monitor(rig.history, invariants_of(rig.server), seed=1)
    rig.do(req.Delete(CONTROLLER, -1))
    rig.create(CONTROLLER, '{"version":1,"brokerid":2,"timestamp":"0"}')
    assert [violation.detail for violation in later.violations] == ["brokers 1 and 2 were both controller of 1"]


def test_an_election_outside_the_isr_is_reported_unless_it_is_allowed(rig: Rig) -> None:
    rig.set(STATE, state(1, [1], epoch=1))
    rig.set(STATE, state(2, [2], epoch=2))
    name = "a leader is elected from the ISR, unless unclean elections are allowed"
    assert rig.broken == [f"{name}: t-0 elected 2, its ISR was [1]"]
    rig.create("/config/topics/other", UNCLEAN)
    rig.set(STATE, state(3, [3], epoch=3))
    assert len(rig.broken) == 2, "another topic's configuration allows nothing"
    rig.create("/config/topics/t", UNCLEAN)
    rig.set("/config/topics/t", UNCLEAN.replace("true", "false"))
    rig.set(STATE, state(1, [1], epoch=4))
    assert len(rig.broken) == 2, "the election may be older than the change of the configuration"


@pytest.mark.parametrize("allowed_by", ["brokers", "request"])
def test_an_election_outside_the_isr_may_be_allowed_for_all_topics(rig: Rig, allowed_by: str) -> None:
    if allowed_by == "brokers":
        rig.create("/config/brokers/<default>", UNCLEAN)
    rig.unclean_allowed = allowed_by == "request"
    rig.set(STATE, state(1, [1], epoch=1))
    rig.set(STATE, state(2, [2], epoch=2))
    assert rig.broken == []


@pytest.mark.parametrize("elects_in_steps", [False, True])
def test_a_broker_that_raises_the_epoch_of_another_controller_is_reported(elects_in_steps: bool) -> None:
    """Up to 2.0 this is a known bug of Kafka, which is counted under its name."""
    rig = of_one_partition(elects_in_steps=elects_in_steps)
    session = rig.new_session()
    rig.server.handle(session, 1, req.SetData(CONTROLLER_EPOCH, b"2", -1), now_ms=0)
    found, others = rig.monitor.violations, rig.monitor.known
    if elects_in_steps:
        found, others = others, found
    (violation,) = found
    assert others == []
    assert violation.detail == "/controller_epoch was raised to 2 by a broker that is not in /controller"
    assert violation.issue == ("KAFKA-6082" if elects_in_steps else "")


def test_before_2_1_a_broker_may_leave_controller_before_it_raises_the_epoch_and_no_epoch_is_given_twice() -> None:
    rig = of_one_partition(elects_in_steps=True)
    for broker in (2, 3):
        rig.do(req.Delete(CONTROLLER, -1))
        rig.do(req.Create(CONTROLLER, b'{"version":1,"brokerid":%d,"timestamp":"0"}' % broker, req.OPEN_ACL, 0))
    rig.set(CONTROLLER_EPOCH, "2")
    assert rig.broken == []
    rig.set(CONTROLLER_EPOCH, "2")
    assert rig.broken == [
        "each controller epoch is given once, and epochs never fall: /controller_epoch went from 2 to 2"
    ]


def test_a_proper_election_breaks_nothing(rig: Rig) -> None:
    elect_second_controller(rig)
    rig.set(STATE, state(2, [2], epoch=1, controller_epoch=2))
    assert rig.broken == []


def test_a_topic_that_is_made_again_starts_anew(rig: Rig) -> None:
    rig.set(STATE, state(2, [2, 3], epoch=5))
    rig.do(req.Delete(STATE, -1))
    rig.do(req.Create(STATE, state(1, [1, 2]).encode(), req.OPEN_ACL, 0))
    assert rig.broken == []


def test_nothing_that_a_real_cluster_wrote_breaks_an_invariant() -> None:
    """Apply all 380 transactions of the recording in order: those of three brokers and of Kafka's tools."""
    rig = Rig()
    written = 0
    for transaction in json.loads(TRANSACTIONS.read_text()):
        operations = transaction.get("ops", [transaction])
        if any(operation["op"] == "error" for operation in operations):
            continue
        requests = [request for operation in operations for request in requests_of(operation)]
        rig.do(req.Multi(tuple(requests)))
        written += len(requests)
    assert written > 220
    assert rig.broken == []


def requests_of(operation: dict[str, object]) -> list[req.Create | req.SetData | req.Delete]:
    """Return requests that repeat a recorded transaction without version conditions."""
    path, data = str(operation.get("path")), str(operation.get("data") or "").encode()
    match operation["op"]:
        case "create":
            return [req.Create(path, data, req.OPEN_ACL, 0)]
        case "setData":
            return [req.SetData(path, data, -1)]
        case "delete":
            return [req.Delete(path, -1)]
        case "closeSession":
            gone = operation.get("deleted", [])
            assert isinstance(gone, list)
            return [req.Delete(one, -1) for one in gone]
        case _:
            return []


def test_releases_that_empty_isrs_keep_the_rest_of_the_invariant() -> None:
    rig = of_one_partition(empties_isr=True)
    rig.set(STATE, state(-1, [], epoch=1))  # as recorded of 0.8.0 to 0.10.2
    assert rig.broken == []
    rig.set(STATE, state(4, [4], epoch=2))
    (broken,) = rig.broken
    assert broken.startswith("only replicas join an ISR: t-0 took [4] into its ISR")


@pytest.mark.parametrize("version", ["0.8.1", "0.10.2", "1.0", "1.1", "3.9"])
def test_no_invariant_is_violated_when_the_last_member_dies(version: str) -> None:
    with KafkaCluster(version, 3, seed=1, config={"unclean.leader.election.enable": "true"}) as c:
        monitor = Monitor(c.history, c.invariants, seed=1)
        c.create_topic("t", assignment={0: [b for b in (1, 2, 3) if b != c.controller]})
        c.run_for(5)
        leader, follower = c.assignment("t")[0].replicas
        for broker in (follower, leader):
            c.kill(broker)
            c.run_for(30)
        assert monitor.violations == []
        assert c.state("t", 0).isr == ((leader,) if version in ("1.1", "3.9") else ())
