"""Record what real controllers write that were stopped until their session was over.

    python -m tests.conformance.real_kafka.record_former_controllers [RELEASE...] [--story NAME] [--out FILE]

A test plays the same stories to simulated brokers (tests/kafka/test_recorded_former_controllers):

  - in the middle of an event: a follower of many partitions is killed, and the controller's process is stopped while it
    removes the follower from their ISRs. Another broker becomes controller. Then the first one runs again;
  - requests: the controller's process is stopped, and once another broker is controller, all others' are, too. Requests
    are written that only the first one can find, as it runs again; later an election once more. Then the others run
    again. In the end only the first one is left;
  - replicas of its own: the controller's process is stopped until its session is over, or what it sends to ZooKeeper is
    lost, while topics' znodes are set that it watches: then its client hears how its own session ends;
  - a removed topic: its znodes are deleted while a broker is dead, which returns. Then replicas are reassigned, and the
    controller is stopped by SIGTERM. It stays controller to the end.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoNodeError

from simzk.kafka.zookeeper_mode import paths
from tests.conformance.real_kafka.cluster import until
from tests.conformance.real_kafka.proxy import Proxies
from tests.conformance.real_kafka.recorder import BrokersOnZooKeeper, main, on_zookeeper
from tests.conformance.real_kafka.releases import RELEASES, Release, jars
from tests.kafka.test_recorded_former_controllers import (
    ASSIGNED,
    CHANCES,
    CONTROLLER,
    CONTROLLERS,
    DATA,
    FOLLOWER,
    LAG_MS,
    LEADER,
    MUTED,
    PARTITIONS,
    REMOVAL,
    REMOVALS,
    REMOVED,
    REPLACED,
    REQUESTS,
    STOPPED,
    STORIES,
    STORY,
    TOPIC,
    TOUCHED_EVERY_S,
    UNCLEAN,
    counted,
    election,
    is_delete_of_reassignment,
    look_at_removal,
    look_at_replicas,
    look_at_requests,
    requests,
)
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BROKERS = (CONTROLLER, 1, 2, 3)
SETTLES_S = 3.0
RUNS = 3
"""How often the story of requests is played to releases in which chance decides."""
STOPS_AFTER = 1
"""How many ISRs the controller has written at least when it is stopped."""
ZOOKEEPER_3_4 = next(release for release in RELEASES if release.version == "0.8.2.2")
"""The release with the jars of a server that sends the events of a session's end before it closes the connection.

Since 3.5 another thread sends them (NIOServerCnxn.sendBuffer), mostly too late.
"""
REFUSED = "Cached zkVersion"
"""What a leader logs when the state is not as it knows it (Partition.updateIsr)."""


class FourBrokers(BrokersOnZooKeeper):
    """Four brokers, the first of which is controller, on a ZooKeeper of their own."""

    ids = BROKERS

    def __init__(self, release: Release, folder: Path, zookeeper: str) -> None:
        super().__init__(release, folder, zookeeper)
        with (folder / "log4j.properties").open("a") as settings:
            settings.write("log4j.logger.kafka.cluster.Partition=INFO\n")

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of a broker."""
        return {**super().properties(broker), "replica.lag.time.max.ms": LAG_MS}

    def read(self, path: str) -> Any:
        """What a znode holds as JSON; None if there is none."""
        try:
            return json.loads(self.client.get(path)[0])
        except NoNodeError:
            return None

    def states(self) -> list[dict[str, Any]]:
        """The states of all partitions that have one, in order."""
        asked = [self.client.get_async(f"/brokers/topics/{TOPIC}/partitions/{n}/state") for n in range(PARTITIONS)]
        found = []
        for one in asked:
            with contextlib.suppress(NoNodeError):
                found.append(json.loads(one.get()[0]))
        return found

    def shrunk(self) -> int:
        """The number of partitions whose ISR lacks the follower."""
        return sum(FOLLOWER not in state["isr"] for state in self.states())

    def look(self) -> dict[str, Any]:
        """The controller epoch, the states, and whether the leader's writes are refused."""
        said = (self.folder / f"{LEADER}.log").read_text(errors="replace")
        return {
            "controller_epoch": int(self.client.get("/controller_epoch")[0]),
            "states": counted(
                (state["leader"], tuple(state["isr"]), state["leader_epoch"], state["controller_epoch"])
                for state in self.states()
            ),
            "refused": REFUSED in said,
        }


def play(brokers: FourBrokers, report: Callable[[str], object]) -> list[dict[str, Any]]:
    """Play the story; return all looks."""
    for broker in BROKERS:
        brokers.start(broker)
    report("four brokers run")
    assert brokers.controller() == CONTROLLER
    brokers.write(f"/config/topics/{TOPIC}", {"version": 1, "config": {}})
    partitions = {str(number): [LEADER, 2, FOLLOWER] for number in range(PARTITIONS)}
    brokers.write(f"/brokers/topics/{TOPIC}", {"version": 1, "partitions": partitions})
    until(lambda: len(brokers.states()) == PARTITIONS, lambda: f"{len(brokers.states())} states")
    time.sleep(SETTLES_S)
    brokers.end(FOLLOWER, signal.SIGKILL)
    deadline_s = time.monotonic() + PATIENCE_S
    while brokers.shrunk() < STOPS_AFTER:
        assert time.monotonic() < deadline_s, "the controller does not notice that the follower is dead"
    brokers.signal(CONTROLLER, signal.SIGSTOP)
    looks = [brokers.look()]
    report(f"the controller is stopped: {looks[0]}")
    until(lambda: brokers.controller() not in (None, CONTROLLER), lambda: "nobody else is controller")
    time.sleep(SETTLES_S)
    looks.append(brokers.look())
    brokers.signal(CONTROLLER, signal.SIGCONT)
    until(lambda: brokers.session(CONTROLLER) is not None, lambda: "the former controller is not registered")
    time.sleep(SETTLES_S)
    looks.append(brokers.look())
    report(f"the former controller is back: {looks[-1]}")
    time.sleep(1.6 * LAG_MS / 1000)
    looks.append(brokers.look())
    report(f"the leader has looked for late followers: {looks[-1]}")
    return looks


class AskedBrokers(FourBrokers):
    """Four brokers of which only the first one loses its session within seconds."""

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of a broker."""
        timeout_ms = 6_000 if broker == CONTROLLER else 25_000
        return {**super().properties(broker), "zookeeper.session.timeout.ms": timeout_ms}

    def children(self, path: str) -> list[str]:
        """The children of a znode, if there is one."""
        return [] if self.client.exists(path) is None else self.client.get_children(path)

    def ask(self) -> None:
        """Write a request of each kind."""
        for path, data in requests(announces=self.client.exists(paths.ISR_CHANGES) is not None):
            self.client.create(path, data, makepath=True)

    def look_at_requests(self) -> dict[str, Any]:
        """The controller epoch, the requests, the assignments and the states."""
        return look_at_requests(self.read, self.children)


def play_requests(brokers: AskedBrokers, report: Callable[[str], object]) -> list[dict[str, Any]]:
    """Play the story of the requests; return all looks."""
    for broker in BROKERS:
        brokers.start(broker)
    report("four brokers run")
    assert brokers.controller() == CONTROLLER
    for topic, replicas in ASSIGNED.items():
        brokers.write(f"/config/topics/{topic}", {"version": 1, "config": {}})
        brokers.write(f"/brokers/topics/{topic}", {"version": 1, "partitions": {"0": replicas}})
    until(lambda: len(brokers.look_at_requests()["states"]) == len(ASSIGNED), lambda: "a topic has no state")
    time.sleep(SETTLES_S)
    brokers.signal(CONTROLLER, signal.SIGSTOP)
    until(lambda: brokers.controller() not in (None, CONTROLLER), lambda: "nobody else is controller")
    time.sleep(SETTLES_S)
    for broker in BROKERS[1:]:
        brokers.signal(broker, signal.SIGSTOP)
    brokers.ask()
    looks = [brokers.look_at_requests()]
    report(f"all brokers are stopped: {looks[0]}")
    brokers.signal(CONTROLLER, signal.SIGCONT)
    until(lambda: brokers.session(CONTROLLER) is not None, lambda: "the former controller is not registered")
    time.sleep(SETTLES_S)
    looks.append(brokers.look_at_requests())
    report(f"the former controller is back: {looks[-1]}")
    if not looks[-1]["election"]:
        brokers.client.create(*election())
    time.sleep(SETTLES_S)
    looks.append(brokers.look_at_requests())
    report(f"an election was requested again: {looks[-1]}")
    for broker in BROKERS[1:]:
        brokers.signal(broker, signal.SIGCONT)
    time.sleep(2 * SETTLES_S)
    looks.append(brokers.look_at_requests())
    report(f"the others are back: {looks[-1]}")
    for broker in BROKERS[1:]:
        brokers.end(broker, signal.SIGKILL)
    until(lambda: brokers.controller() in (None, CONTROLLER), lambda: "a killed broker is still controller")
    time.sleep(SETTLES_S)
    before = brokers.look_at_requests()["controller_epoch"]
    time.sleep(SETTLES_S)
    elected_again = brokers.look_at_requests()["controller_epoch"] > before + 1
    looks.append({"elected again and again": elected_again})
    report(f"it is alone: {looks[-1]}")
    return looks


class ProxiedController(FourBrokers):
    """Brokers of which the controller reaches ZooKeeper through a port of its own."""

    port = 0

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of ZooKeeper."""
        return f"127.0.0.1:{self.port}" if broker == CONTROLLER else super().zookeeper_of(broker)


class BrokersWithReplicas(ProxiedController):
    """Brokers of topics of which the controller has replicas."""

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of a broker."""
        return {**super().properties(broker), UNCLEAN: "false"}

    def look_at_replicas(self) -> dict[str, Any]:
        """The controller epoch and the states."""
        return look_at_replicas(self.read)


def play_replicas(brokers: BrokersWithReplicas, story: str, report: Callable[[str], object]) -> list[dict[str, Any]]:
    """Play one of the stories of a controller with replicas; return both looks."""
    with Proxies(int(brokers.zookeeper_of(LEADER).rpartition(":")[2]), [STORY]) as proxies:
        brokers.port = proxies.ports[STORY]
        for broker in (CONTROLLER, 1, 2):
            brokers.start(broker)
        report("three brokers run")
        assert brokers.controller() == CONTROLLER
        for topic, replicas in CONTROLLERS.items():
            config = {UNCLEAN: "true"} if topic == "unclean" else {}
            brokers.write(f"/config/topics/{topic}", {"version": 1, "config": config})
            brokers.write(f"/brokers/topics/{topic}", {"version": 1, "partitions": {"0": replicas}})
        until(lambda: len(brokers.look_at_replicas()["states"]) == len(CONTROLLERS), lambda: "a topic has no state")
        time.sleep(SETTLES_S)
        looks = [brokers.look_at_replicas()]
        session = brokers.session(CONTROLLER)
        if story == STOPPED:
            brokers.signal(CONTROLLER, signal.SIGSTOP)
        else:
            proxies.mute(STORY)
            for topic in CONTROLLERS:
                time.sleep(TOUCHED_EVERY_S)
                brokers.client.set(paths.topic(topic), brokers.client.get(paths.topic(topic))[0])
        until(lambda: brokers.controller() not in (None, CONTROLLER), lambda: "nobody else is controller")
        if story == STOPPED:
            time.sleep(SETTLES_S)
            looks.append(brokers.look_at_replicas())
            brokers.signal(CONTROLLER, signal.SIGCONT)
        until(
            lambda: brokers.session(CONTROLLER) not in (None, session),
            lambda: "the former controller is not registered",
        )
        time.sleep(SETTLES_S)
        looks.append(brokers.look_at_replicas())
        report(f"the former controller is back: {looks[-1]}")
    return looks


def play_removal(brokers: ProxiedController, removed: str, report: Callable[[str], object]) -> list[dict[str, Any]]:
    """Play the story of a removed topic; return all looks."""
    with Proxies(int(brokers.zookeeper_of(LEADER).rpartition(":")[2]), [STORY]) as proxies:
        brokers.port = proxies.ports[STORY]

        def look() -> dict[str, Any]:
            deletes = [one for one in proxies.requests.values() if is_delete_of_reassignment(one)]
            return {**look_at_removal(brokers.read), "deletes": len(deletes)}

        for broker in (CONTROLLER, 1, 2):
            brokers.start(broker)
        report("three brokers run")
        assert brokers.controller() == CONTROLLER
        for topic, replicas in REMOVALS.items():
            brokers.write(f"/config/topics/{topic}", {"version": 1, "config": {}})
            brokers.write(paths.topic(topic), {"version": 1, "partitions": {"0": replicas}})
        until(lambda: len(look()["states"]) == len(REMOVALS), lambda: "a topic has no state")
        time.sleep(SETTLES_S)
        brokers.end(2, signal.SIGKILL)
        until(lambda: brokers.session(2) is None, lambda: "the dead broker is registered")
        time.sleep(SETTLES_S)
        brokers.client.delete(paths.topic(removed), recursive=True)
        time.sleep(SETTLES_S)
        brokers.start(2)
        time.sleep(SETTLES_S)
        looks = [look()]
        report(f"the topic is removed: {looks[-1]}")
        for topic, target in REPLACED.items():
            move = {"topic": topic, "partition": 0, "replicas": target}
            brokers.write(paths.REASSIGN_PARTITIONS, {"version": 1, "partitions": [move]})
            time.sleep(SETTLES_S)
            looks.append(look())
            report(f"{topic} was reassigned: {looks[-1]}")
        begins_s = time.monotonic()
        brokers.end(CONTROLLER, signal.SIGTERM)
        seconds = time.monotonic() - begins_s
        time.sleep(SETTLES_S)
        looks.append({**look(), "stopped within": round(seconds)})
        report(f"the controller has stopped: {looks[-1]}")
    return looks


def record(release: Release, report: Callable[[str], object], story: str | None) -> list[dict[str, Any]]:
    """Return the lines of a release."""
    report(f"Kafka {release.version}")
    lines: list[dict[str, Any]] = []
    if story in (None, STORY) and release.version in STORIES[STORY]:
        with on_zookeeper(release, FourBrokers) as brokers:
            lines.append({"release": release.version, "story": STORY, "runs": [play(brokers, report)]})
    if story in (None, REQUESTS) and release.version in STORIES[REQUESTS]:
        runs = []
        for _ in range(RUNS if release.version in CHANCES else 1):
            with on_zookeeper(release, AskedBrokers) as asked:
                runs.append(play_requests(asked, report))
        lines.append({"release": release.version, "story": REQUESTS, "runs": runs})
    for name in (STOPPED, MUTED):
        if story in (None, name) and release.version in STORIES[name]:
            server = jars(ZOOKEEPER_3_4) if name == MUTED else None
            with on_zookeeper(release, BrokersWithReplicas, server=server) as brokers_with_replicas:
                run = play_replicas(brokers_with_replicas, name, report)
            lines.append({"release": release.version, "story": name, "runs": [run]})
    if story in (None, REMOVAL) and release.version in STORIES[REMOVAL]:
        runs = []
        for removed in REMOVED:
            with on_zookeeper(release, ProxiedController) as proxied:
                runs.append(play_removal(proxied, removed, report))
        lines.append({"release": release.version, "story": REMOVAL, "runs": runs})
    return lines


if __name__ == "__main__":
    named = {version for versions in STORIES.values() for version in versions}
    main(__doc__ or "", [release for release in RELEASES if release.version in named], STORIES, DATA, record)
