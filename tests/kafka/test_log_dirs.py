"""Failed log directories: comparison with transactions of real brokers, and cases without a recording."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simzk.errors import ConfigError
from simzk.kafka.broker.log_dirs import LogDirs
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.releases.versions import VERSIONS
from simzk.kafka.topic_partition import PartitionAndReplica, TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.controller.states import ReplicaState
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.replies import Code
from tests.kafka.clusters import QUICK, happened, quiet, state_fields, topic

DATA = Path(__file__).parent / "data"
T1 = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 3, 1), (1, 3, 2)]
# Depend on timing: blocks of producer ids, and whether the loser of an election tried to create the znode.
CHANCE = ("setData /latest_producer_id_block", "multi [error NodeExists", "createSession", "closeSession []")


def said(record: txns.Record) -> str:
    """Return a transaction in the format of the recording."""
    match record:
        case txns.MultiTxn():
            return f"multi [{'; '.join(said(part) for part in record.records)}]"
        case txns.CheckTxn() | txns.DeleteTxn():
            return f"{'check' if isinstance(record, txns.CheckTxn) else 'delete'} {record.path}"
        case txns.ErrorTxn():
            return f"error {Code(record.error).name.title().replace('_', '')}"
        case txns.CreateTxn():
            return f"create {record.path} {untimed(record.data)}{' ephemeral' * record.ephemeral}"
        case txns.SetDataTxn():
            return f"setData {record.path} {untimed(record.data)} version {record.version}"
        case txns.CloseSessionTxn():
            return f"closeSession {list(record.paths)}"
    return "createSession"


def untimed(data: bytes | None) -> str | None:
    return None if data is None else re.sub(r'"timestamp":"\d+"', '"timestamp":"?"', data.decode())


def cluster(version: str = "3.9", *, log_dirs: int = 2) -> KafkaCluster:
    """Return a cluster of three brokers with the first as controller."""
    c = KafkaCluster(version=version, brokers=3, racks=3, config=QUICK, log_dirs=log_dirs, boot=False)
    for broker in c.brokers:
        c.restart(broker)
        quiet(c)
    assert c.controller == 1
    return c


@pytest.mark.parametrize("release", ["3.9.1", "2.4.1"])
def test_real_brokers_wrote_the_same(release: str) -> None:
    """One of two log directories of the controller fails; a topic is deleted; the broker stops and starts again.

    Recorded from three real brokers with two log directories each; the removed one was empty at the restart.
    """
    recorded = (DATA / f"log_dir_failure_{release}.txt").read_text().splitlines()
    c = cluster(release)
    topic(c, "t1", dict(enumerate(T1)))
    topic(c, "solo", {0: [1], 1: [1], 2: [1]})
    written: list[str] = []
    c.server.on_transaction.append(lambda transaction: written.append(said(transaction.record)))
    c.fail_log_dir(1, 1)
    quiet(c)
    c.delete_topic("t1")
    quiet(c)
    c.prefer_controller(2)
    c.shutdown(1)
    quiet(c)
    c.restart(1)
    quiet(c)
    addressless = [re.sub(r'("port":|127\.0\.0\.1:)\d+', r"\1?", line) for line in written]
    wanted = [line for line in recorded if not line.startswith(CHANCE)]
    assert [line for line in addressless if not line.startswith(CHANCE)] == wanted


@pytest.mark.parametrize(
    "version", [name for name, version in VERSIONS.items() if version.broker.survives_log_dir_failure]
)
def test_what_was_there_is_offline_until_the_broker_restarts(version: str) -> None:
    c = cluster(version)
    topic(c, "t", {0: [1, 2], 1: [1, 2]})
    assert {c.brokers[1].log_dirs.directory_of(TopicPartition("t", p)) for p in (0, 1)} == {0, 1}
    c.fail_log_dir(1, ("t", 0))
    quiet(c)
    assert state_fields(c, "t", 0)[:3] == (2, (2,), 1)
    assert state_fields(c, "t", 1)[:3] == (1, (1, 2), 0)
    context = c.brokers[1].controller.context
    assert context.replica_states[PartitionAndReplica(TopicPartition("t", 0), 1)] == ReplicaState.OFFLINE
    c.elect("preferred")
    quiet(c)
    assert state_fields(c, "t", 0)[0] == 2, "the preferred replica cannot lead"
    assert c.server.tree.get(paths.LOG_DIR_EVENTS).child_names() == []  # type: ignore[union-attr]
    c.shutdown(1)
    quiet(c)
    c.restart(1)
    quiet(c)
    assert state_fields(c, "t", 0)[1] == (2, 1), "it came back empty, and caught up"
    c.check()


def test_a_new_controller_learns_of_offline_directories_from_responses() -> None:
    """Only the controller's cache stores the offline replicas; its successor finds them by LeaderAndIsr."""
    c = cluster()
    topic(c, "t", {0: [2, 3], 1: [2, 3]})
    c.fail_log_dir(2, ("t", 0))
    quiet(c)
    assert state_fields(c, "t", 0)[:2] == (3, (3,))
    c.shutdown(1)
    quiet(c)
    ruling = c.controller
    assert ruling is not None
    assert c.brokers[ruling].controller.context.on_failed_dirs == {2: {TopicPartition("t", 0): None}}


def test_new_logs_go_to_the_directories_that_are_left() -> None:
    c = cluster()
    c.fail_log_dir(1, 0)
    quiet(c)
    topic(c, "t", {0: [1, 2], 1: [2, 1]})
    assert [c.brokers[1].log_dirs.directory_of(TopicPartition("t", p)) for p in (0, 1)] == [1, 1]
    assert state_fields(c, "t", 0)[:2] == (1, (1, 2))


def test_without_a_directory_left_the_broker_halts() -> None:
    c = cluster(log_dirs=1)
    topic(c, "t", {0: [2, 3]})
    c.fail_log_dir(2, 0)
    quiet(c)
    assert not c.brokers[2].alive
    assert happened(c, "halted") == ["broker 2"]
    assert state_fields(c, "t", 0)[:2] == (3, (3,))


def test_up_to_0_11_one_directory_is_enough_to_halt() -> None:
    c = cluster("0.11")
    c.fail_log_dir(2, 0)
    c.run_for(1)
    assert not c.brokers[2].alive


def test_a_paused_broker_notices_when_it_goes_on() -> None:
    c = cluster()
    topic(c, "t", {0: [2, 3]})
    c.pause(2, 3)
    c.fail_log_dir(2, ("t", 0))
    c.run_for(2)
    assert state_fields(c, "t", 0)[0] == 2
    quiet(c)
    assert state_fields(c, "t", 0)[0] == 3


def test_a_notification_that_cannot_be_read_goes_all_the_same() -> None:
    c = cluster()
    c.write_znode(f"{paths.LOG_DIR_EVENT_PREFIX}0000000007", "no JSON")
    quiet(c)
    assert f"{paths.LOG_DIR_EVENT_PREFIX}0000000007" not in c.server.tree
    assert happened(c, "znode unusable") == [f"{paths.LOG_DIR_EVENT_PREFIX}0000000007"]


@pytest.mark.parametrize("directory", [2, ("t", 9)])
def test_what_is_not_there_cannot_fail(directory: int | tuple[str, int]) -> None:
    c = cluster()
    with pytest.raises(ConfigError, match="has no live"):
        c.fail_log_dir(1, directory)
    c.fail_log_dir(1, 0)
    c.run_for(1)
    with pytest.raises(ConfigError, match="one of \\[1\\]"):
        c.fail_log_dir(1, 0)


class LogDirsMachine(RuleBasedStateMachine):
    """Logs that are opened, moved, deleted and lost in any order, beside a dictionary of their places."""

    def __init__(self) -> None:
        super().__init__()
        self.dirs = LogDirs(["/a", "/b", "/c"])
        self.wanted: dict[TopicPartition, int] = {}

    @rule(number=st.integers(0, 5))
    def create(self, number: int) -> None:
        partition = TopicPartition("t", number)
        known = self.dirs.directory_of(partition)
        wanted = self.wanted.get(partition) if known is None and partition not in self.dirs.offline else known
        is_open = self.dirs.open(partition, is_new=True)
        assert not is_open or wanted is None or self.dirs.directory_of(partition) == wanted
        if known is None:
            self.wanted.pop(partition, None)

    @rule(number=st.integers(0, 5), directory=st.integers(0, 2))
    def ask(self, number: int, directory: int) -> None:
        partition = TopicPartition("t", number)
        if directory not in self.dirs.live or partition in self.dirs.offline:
            return
        future = self.dirs.futures.get(partition)
        if future is not None and future.directory != directory:
            self.dirs.cancel_move(partition)
        self.dirs.prefer(partition, directory)
        if self.dirs.directory_of(partition) is None:
            self.wanted[partition] = directory
        elif not self.dirs.failed:
            self.dirs.begin_move(partition, directory)
            moved = self.dirs.futures.get(partition)
            assert directory == (self.dirs.directory_of(partition) if moved is None else moved.directory)

    @rule()
    def finish(self) -> None:
        for partition, future in list(self.dirs.futures.items()):
            self.dirs.finish_move(partition)
            assert self.dirs.directory_of(partition) == future.directory

    @rule(number=st.integers(0, 5))
    def delete(self, number: int) -> None:
        if (partition := TopicPartition("t", number)) not in self.dirs.offline:
            self.dirs.delete(partition)

    @rule(directory=st.integers(0, 2))
    def fail(self, directory: int) -> None:
        if self.dirs.live != [directory] and directory in self.dirs.live:
            self.dirs.fail(directory)

    @rule()
    def restart(self) -> None:
        self.dirs.restart()
        self.wanted.clear()

    @invariant()
    def is_consistent(self) -> None:
        self.dirs.check()


TestLogDirsMachine = LogDirsMachine.TestCase
TestLogDirsMachine.settings = settings(max_examples=60, stateful_step_count=20)


def test_log_dirs_alone() -> None:
    dirs = LogDirs(["/a", "/b", "/c"])
    one, two, three, four = (TopicPartition("t", number) for number in range(4))
    assert all(dirs.open(partition, is_new=True) for partition in (one, two, three, four))
    assert [dirs.directory_of(partition) for partition in (one, two, three, four)] == [0, 1, 2, 0]
    dirs.delete(two)
    assert dirs.fail(0) == [one, four]
    dirs.check()
    assert not dirs.open(one, is_new=True), "what was there is offline, and is not made anew elsewhere"
    assert not dirs.open(two, is_new=False), "what should be here may lie in the directory that failed"
    assert dirs.open(TopicPartition("t", 5), is_new=True)
    dirs.restart()
    assert dirs.open(one, is_new=False)
    dirs.check()
