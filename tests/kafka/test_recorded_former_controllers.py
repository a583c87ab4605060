"""A controller is stopped until its session is over: what it writes then, as real ones do.

`python -m tests.conformance.real_kafka.record_former_controllers` has recorded it.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.cluster.zookeeper_host import ADDRESS
from simzk.kafka.observation.known_bugs import CONDITIONS
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import TopicPartition
from simzk.kafka.zookeeper_mode import paths
from simzk.zookeeper.requests import Delete
from tests.kafka.clusters import QUICK, happened, quiet, topic, watch
from tests.kafka.recorded_lines import read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.replies import Reply
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.server import Batch

DATA = Path(__file__).parent / "data" / "former_controllers.jsonl.gz"
STORY, TOPIC = "stopped controller", "orders"
REQUESTS = "requests to a former controller"
STOPPED, MUTED = "stopped controller with replicas", "muted controller with replicas"
REMOVAL = "removed topic"
_UP_TO_1_0 = ("0.8.0", "0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.0.2")
STORIES = {
    # From 1.1 on all states are written at once.
    STORY: ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3"),
    REQUESTS: ("0.8.0", "0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2"),
    STOPPED: _UP_TO_1_0,
    MUTED: _UP_TO_1_0,
    REMOVAL: ("0.8.0", "0.8.1.1", "0.8.2.2"),
}
"""The releases of each story."""
CHANCES = ("0.8.2.2", "0.9.0.1", "0.10.0.1")
"""The releases in which chance decides what a former controller handles: several recorded runs."""
SEEDS = range(10)
"""Seeds that between them play each chance."""
ASSIGNED = {"grows": [2, 3], "keeps": [1, 2, 3], "leaves": [1, 2, 3]}
"""The replicas of the topics in the story of requests, by what their reassignment does to the leader."""
MOVES = {"grows": [2, 3, 1], "keeps": [2, 1], "leaves": [2, 3]}
UNKNOWN = "late"
"""A topic that is created and deleted while the controller is stopped."""
CONTROLLER, LEADER, FOLLOWER = 4, 1, 3
LAG_MS = 30_000
PARTITIONS = 200
CONTROLLERS = {"alone": [4], "unclean": [4], "led": [4, 1], "kept": [1, 4], "shared": [1, 4, 2]}
"""The replicas of topics in the stories of a controller that has some itself."""
UNCLEAN = "unclean.leader.election.enable"
TOUCHED_EVERY_S = 1.0
"""Interval in which topics' znodes are set, so that a client that is not heard still hears something."""
REMOVALS = {"leads": [4, 1], "follows": [1, 4], "moves": [4, 1], "grows": [1, 4], "gone": [1, 2]}
"""The replicas of topics in the story of a removed topic."""
REMOVED = ("gone", "leads")
"""The removed topic of each run: in the controller's map of leaders others are before the first one, none is before the
second one."""
REPLACED = {"moves": [1, 4], "grows": [1, 2]}
"""The reassignments in that story, one after another."""
RECORDED = {(line["story"], line["release"]): line["runs"] for line in read_lines(DATA)}


def counted(states: Iterable[tuple[int, tuple[int, ...], int, int]]) -> list[list[object]]:
    """Return how many partitions have each leader, ISR, leader epoch and controller epoch, ascending."""
    return [[leader, list(isr), *epochs, n] for (leader, isr, *epochs), n in sorted(Counter(states).items())]


def controller_epoch(c: KafkaCluster) -> int:
    node = c.tree.get(paths.CONTROLLER_EPOCH)
    assert node is not None
    return int(node.data or b"")


def look(c: KafkaCluster) -> dict[str, Any]:
    """Return the controller epoch, the states, and whether the leader's writes are refused."""
    states = [c.state(TOPIC, number) for number in range(PARTITIONS)]
    return {
        "controller_epoch": controller_epoch(c),
        "states": counted((one.leader, one.isr, one.leader_epoch, one.controller_epoch) for one in states),
        "refused": any(one.who == f"broker {LEADER}" and one.what == "ISR change refused" for one in c.history),
    }


def played(version: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Play the recorded story; return the looks, and the known bugs of Kafka that invariants have counted."""
    config = QUICK | {"replica.lag.time.max.ms": LAG_MS}
    with KafkaCluster(version, 4, config=config, boot=False) as c:
        monitor = watch(c)
        for broker in (CONTROLLER, 1, 2, 3):
            c.restart(broker)
            quiet(c)
        topic(c, TOPIC, {number: [LEADER, 2, FOLLOWER] for number in range(PARTITIONS)})
        c.run_for(3)
        c.kill(FOLLOWER)
        while not happened(c, "ISR shrunk"):
            c.run_for(0.001)
        c.pause(CONTROLLER)
        looks = [look(c)]
        while c.controller in (None, CONTROLLER):
            c.run_for(0.1)
        c.run_for(3)
        looks.append(look(c))
        c.resume(CONTROLLER)
        while CONTROLLER not in c.live_brokers:
            c.run_for(0.1)
        c.run_for(3)
        looks.append(look(c))
        c.run_for(1.6 * LAG_MS / 1000)
        looks.append(look(c))
        assert not monitor.violations
        others = {condition.name for condition in CONDITIONS}  # bugs that the story shows beside
        return looks, [known.issue for known in monitor.known if known.invariant not in others]


def without_counts(found: dict[str, Any]) -> dict[str, Any]:
    """Return a look without the numbers of partitions, which are those of the moment of the stop."""
    return found | {"states": [kind for *kind, _ in found["states"]]}


@pytest.mark.parametrize("release", STORIES[STORY])
def test_a_former_controller_ends_its_event_as_a_real_one(release: str) -> None:
    """KAFKA-3083, and the leaders that cannot write any more (KAFKA-2729)."""
    (recorded,) = RECORDED[STORY, release]
    looks, known = played(release)
    for real, simulated in zip(recorded[:2], looks[:2], strict=True):
        assert len(real["states"]) == 2, "it was stopped in the middle"
        assert without_counts(simulated) == without_counts(real)
    assert looks[2:] == recorded[2:]
    assert recorded[-1]["refused"]
    assert set(known) == {"KAFKA-3083"}


@pytest.mark.parametrize("line", ["1.1", "2.0", "3.9"])
def test_from_1_1_on_its_event_ends_with_its_session(line: str) -> None:
    looks, known = played(line)
    assert looks[1] == looks[2]
    assert not known


def election() -> tuple[str, bytes]:
    """Return the znode of a preferred election, and its data."""
    wanted = {"version": 1, "partitions": [{"topic": next(iter(ASSIGNED)), "partition": 0}]}
    return paths.PREFERRED_ELECTION, json.dumps(wanted).encode()


def requests(*, announces: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the znode of a request of each kind, and its data; an announced ISR change only if the release has them."""
    yield paths.topic(UNKNOWN), json.dumps({"version": 1, "partitions": {"0": [LEADER]}}).encode()
    yield paths.delete_topic(UNKNOWN), b""
    if announces:
        yield f"{paths.ISR_CHANGES}/isr_change_0000000000", election()[1]  # both name partitions
    moves = [{"topic": name, "partition": 0, "replicas": target} for name, target in MOVES.items()]
    yield paths.REASSIGN_PARTITIONS, json.dumps({"version": 1, "partitions": moves}).encode()
    yield election()


def look_at_requests(read: Callable[[str], Any], children: Callable[[str], list[str]]) -> dict[str, Any]:
    """Return the controller epoch, the requests, the assignments and the states, of real brokers or of simulated ones.

    Args:
        read: returns what a znode holds as JSON; None if there is none.
        children: returns the names of a znode's children; none if there is no znode.
    """
    moving = read(paths.REASSIGN_PARTITIONS)
    states = {name: read(paths.state(TopicPartition(name, 0))) for name in ASSIGNED}
    return {
        "controller_epoch": read(paths.CONTROLLER_EPOCH),
        "election": read(paths.PREFERRED_ELECTION) is not None,
        "moving": [] if moving is None else sorted(entry["topic"] for entry in moving["partitions"]),
        "deletions": sorted(children(paths.DELETE_TOPICS)),
        "announced": len(children(paths.ISR_CHANGES)),
        "assigned": {name: read(paths.topic(name))["partitions"]["0"] for name in ASSIGNED},
        "states": {name: [one["leader"], one["isr"], one["leader_epoch"]] for name, one in states.items() if one},
    }


def read_json(c: KafkaCluster, path: str) -> Any:
    """Return what a znode holds as JSON; None if there is none."""
    node = c.tree.get(path)
    return None if node is None else json.loads(node.data or b"null")


def look_at_simulated(c: KafkaCluster) -> dict[str, Any]:
    """Return what real brokers were looked at for."""

    def children(path: str) -> list[str]:
        node = c.tree.get(path)
        return [] if node is None else list(node.child_names())

    return look_at_requests(partial(read_json, c), children)


def ask(c: KafkaCluster) -> None:
    """Write a request of each kind."""
    for parent in ("/admin", paths.DELETE_TOPICS):  # 0.8.0 has neither at first
        if c.tree.get(parent) is None:
            c.write_znode(parent, None)
            c.run_for(0.1)
    for path, data in requests(announces=c.tree.get(paths.ISR_CHANGES) is not None):
        c.write_znode(path, data)


def played_requests(version: str, seed: int = 0) -> list[dict[str, Any]]:
    """Play the recorded story of requests; return the looks."""
    config = {**QUICK, "replica.lag.time.max.ms": LAG_MS, "delete.topic.enable": True}
    config["zookeeper.session.timeout.ms"] = 25_000
    with KafkaCluster(version, 4, config=config, boot=False, seed=seed) as c:
        for broker in (CONTROLLER, 1, 2, 3):
            c.restart(broker)
            quiet(c)
        for name, replicas in ASSIGNED.items():
            topic(c, name, {0: replicas})
        c.run_for(3)
        c.pause(CONTROLLER)
        while c.controller in (None, CONTROLLER):
            c.run_for(0.1)
        c.run_for(3)
        for broker in (1, 2, 3):
            c.pause(broker)
        ask(c)
        c.run_for(0.1)
        looks = [look_at_simulated(c)]
        c.resume(CONTROLLER)
        c.run_for(6)
        assert CONTROLLER in c.live_brokers
        looks.append(look_at_simulated(c))
        if not looks[-1]["election"]:
            c.write_znode(*election())
        c.run_for(3)
        looks.append(look_at_simulated(c))
        for broker in (1, 2, 3):
            c.resume(broker)
        c.run_for(6)
        looks.append(look_at_simulated(c))
        for broker in (1, 2, 3):
            c.kill(broker)
        while c.controller not in (None, CONTROLLER):
            c.run_for(0.1)
        c.run_for(3)
        before = controller_epoch(c)
        c.run_for(3)
        looks.append({"elected again and again": controller_epoch(c) > before + 1})
        return looks


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", STORIES[REQUESTS])
def test_a_former_controller_handles_requests_as_a_real_one(release: str) -> None:
    """KAFKA-4447, and the watchers that 0.8.0 and 0.8.1 keep (KAFKA-1578).

    From 0.8.2 on chance decides which watchers are notified before they are removed: each recorded run is also that of
    a seed.
    """
    simulated = [played_requests(release, seed) for seed in (SEEDS if release in CHANCES else SEEDS[:1])]
    for run in RECORDED[REQUESTS, release]:
        assert run in simulated


def test_recorded_runs_differ_by_what_chance_has_left_to_handle() -> None:
    left = [(run[1]["deletions"], run[1]["moving"]) for version in CHANCES for run in RECORDED[REQUESTS, version]]
    for outcome in (([], []), ([], sorted(MOVES)), ([UNKNOWN], sorted(MOVES))):
        assert outcome in left


def test_a_former_controller_that_handles_all_writes_no_state() -> None:
    """Its epoch is 0 then: it assigns replicas, and raises no leader epoch; a real 0.10.0.1 did so in another story."""
    looks = next(run for seed in SEEDS if not (run := played_requests("0.10.0.1", seed))[1]["moving"])
    assert looks[1]["assigned"] == {"grows": [2, 3, 1], "keeps": [1, 2, 3], "leaves": [2, 3]}
    assert looks[1]["states"] == looks[0]["states"]
    assert looks[1]["controller_epoch"] == looks[0]["controller_epoch"] + 1, "it has deleted /controller"


def look_at_replicas(read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the controller epoch and the states, of real brokers or of simulated ones.

    Args:
        read: returns what a znode holds as JSON; None if there is none.
    """
    states = {name: read(paths.state(TopicPartition(name, 0))) for name in CONTROLLERS}
    fields = ("leader", "isr", "leader_epoch", "controller_epoch")
    return {
        "controller_epoch": read(paths.CONTROLLER_EPOCH),
        "states": {name: [one[field] for field in fields] for name, one in states.items() if one},
    }


def played_with_replicas(version: str, story: str) -> list[dict[str, Any]]:
    """Play one of the recorded stories of a controller with replicas; return the looks."""
    config = QUICK | {"replica.lag.time.max.ms": LAG_MS, UNCLEAN: False}
    with KafkaCluster(version, 4, config=config, boot=False) as c:
        for broker in (CONTROLLER, 1, 2):
            c.restart(broker)
            quiet(c)
        for name, replicas in CONTROLLERS.items():
            is_unclean = name == "unclean" and kafka_version(version).number >= (0, 8, 2)  # always so before
            topic(c, name, {0: replicas}, **{UNCLEAN.replace(".", "_"): "true"} if is_unclean else {})
        looks = [look_at_replicas(partial(read_json, c))]
        session, client = c.brokers[CONTROLLER].session, c.brokers[CONTROLLER].process.name
        before = session.session_id
        if story == STOPPED:
            c.pause(CONTROLLER)
        else:
            c.network.cut(client, ADDRESS, both=False)
            for name in CONTROLLERS:
                c.run_for(TOUCHED_EVERY_S)
                c.write_znode(paths.topic(name), json.dumps(read_json(c, paths.topic(name))))
        while c.controller in (None, CONTROLLER):
            c.run_for(0.1)
        if story == STOPPED:
            c.run_for(3)
            looks.append(look_at_replicas(partial(read_json, c)))
            c.resume(CONTROLLER)
        c.network.heal(client, ADDRESS)
        while session.session_id in (0, before) or CONTROLLER not in c.live_brokers:
            c.run_for(0.1)
        c.run_for(3)
        looks.append(look_at_replicas(partial(read_json, c)))
        return looks


@pytest.mark.parametrize("story", [STOPPED, MUTED])
@pytest.mark.parametrize("release", _UP_TO_1_0)
def test_a_former_controller_loses_itself_as_a_real_one(release: str, story: str) -> None:
    """Its client hears of the end of its own session only if it was not silent for too long.

    If it was, the controller resigns first. If it was not, it takes itself for a broker that died.
    """
    (recorded,) = RECORDED[story, release]
    assert played_with_replicas(release, story) == recorded


def is_delete_of_reassignment(request: object) -> bool:
    """Return whether a controller wants to delete `/admin/reassign_partitions`."""
    return isinstance(request, Delete) and request.path == paths.REASSIGN_PARTITIONS


def look_at_removal(read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the controller epoch, and whether partitions move, the assignments and the states.

    Args:
        read: returns what a znode holds as JSON; None if there is none.
    """
    fields = ("leader", "isr", "leader_epoch", "controller_epoch")
    states = {name: read(paths.state(TopicPartition(name, 0))) for name in REMOVALS}
    return {
        "controller_epoch": read(paths.CONTROLLER_EPOCH),
        "moves": read(paths.REASSIGN_PARTITIONS) is not None,
        "assigned": {name: read(paths.topic(name))["partitions"]["0"] for name, one in states.items() if one},
        "states": {name: [one[field] for field in fields] for name, one in states.items() if one},
    }


def played_removal(version: str, removed: str) -> list[dict[str, Any]]:
    """Play the recorded story of a removed topic; return the looks."""

    def look() -> dict[str, Any]:
        return {**look_at_removal(partial(read_json, c)), "deletes": len(deletes)}

    config = {**QUICK, "replica.lag.time.max.ms": LAG_MS, "controlled.shutdown.enable": True}
    with KafkaCluster(version, 4, config=config, boot=False) as c:
        deletes: list[Request | Batch] = []
        for broker in (CONTROLLER, 1, 2):
            c.restart(broker)
            quiet(c)
        handle = c.server.handle

        def noted(
            connection: Connection, xid: int, request: Request | Batch, now_ms: int, at_once: bool = False
        ) -> Reply | None:
            if connection.session_id == c.brokers[CONTROLLER].session_id and is_delete_of_reassignment(request):
                deletes.append(request)
            return handle(connection, xid, request, now_ms, at_once)

        c.server.handle = noted  # type: ignore[method-assign]
        for name, replicas in REMOVALS.items():
            topic(c, name, {0: replicas})
        c.kill(2)
        quiet(c)
        for path in (paths.state(TopicPartition(removed, 0)), *parents_of_state(removed)):
            c.delete_znode(path)
            c.run_for(0.1)
        c.run_for(3)
        c.restart(2)
        c.run_for(3)
        looks = [look()]
        c.write_znode("/admin", None)
        c.run_for(0.1)
        for name, target in REPLACED.items():
            move = {"topic": name, "partition": 0, "replicas": target}
            c.write_znode(paths.REASSIGN_PARTITIONS, json.dumps({"version": 1, "partitions": [move]}), create=True)
            c.run_for(3)
            looks.append(look())
        begins_us = c.scheduler.now_us
        c.shutdown(CONTROLLER)
        while c.brokers[CONTROLLER].alive:
            c.run_for(0.1)
        seconds = (c.scheduler.now_us - begins_us) / 1_000_000
        c.run_for(3)
        return [*looks, {**look(), "stopped within": round(seconds)}]


def parents_of_state(name: str) -> list[str]:
    """Return the znodes of a topic above the state of its only partition, from below."""
    return [f"{paths.topic(name)}/partitions/0", f"{paths.topic(name)}/partitions", paths.topic(name)]


@pytest.mark.parametrize("run", range(len(REMOVED)))
@pytest.mark.parametrize("release", STORIES[REMOVAL])
def test_a_controller_fails_at_a_removed_topic_as_a_real_one(release: str, run: int) -> None:
    """What an event that failed has left in the batch makes those fail that send metadata later, too."""
    recorded, simulated = RECORDED[REMOVAL, release][run], played_removal(release, REMOVED[run])
    assert simulated[:-1] == recorded[:-1]
    in_time = abs(simulated[-1].pop("stopped within") - recorded[-1].pop("stopped within")) <= 2
    assert simulated[-1] == recorded[-1]
    assert in_time
