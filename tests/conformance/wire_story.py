"""Play the recorded story of requests at simulated brokers on TCP, with the program that recorded real ones.

    python -m tests.conformance.wire_story RELEASE PASS FOLDER

writes what the brokers of a release answer to FOLDER. SIMZK_ORACLE_WIRE names the folder of the recordings,
SIMZK_WIRE_STORY that of the program, KAFKA_MESSAGES the jar with Kafka's message definitions that the program reads.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import simzk
from simzk.kafka.broker.admin_handlers import AdminHandlers
from simzk.kafka.releases.config_keys import broker_keys
from simzk.kafka.releases.settings import is_setting
from simzk.kafka.releases.versions import kafka_version
from tests.conformance.wire_story_comparison import INTERNAL, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

    from simzk.kafka.requests import CreateTopicRequest

RECORDINGS, PROGRAM, MESSAGES = "SIMZK_ORACLE_WIRE", "SIMZK_WIRE_STORY", "KAFKA_MESSAGES"
PASSES = {1: "story", 2: "second"}
"""Passes of the story, with the name that each has in the recordings."""
ADDRESSES = {"broker.id", "broker.rack", "host.name", "port", "listeners", "log.dirs", "zookeeper.connect"}
"""Settings that the server sets itself, or that are given per broker."""
TICK_MS, MAX_SESSION_MS = 500, 60_000
"""Settings of the recorded ZooKeeper: a session ends at a tick."""
POLL_S, LIMIT_S = 0.02, 60.0
STARTED_S = 0.7
"""How long the program that recorded waits after the start of the brokers."""


def program(module: str) -> ModuleType:
    """Import a module of the program that recorded real brokers."""
    folder = os.environ[PROGRAM]
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(module)


def properties(release: str, story: str) -> dict[int, dict[str, str]]:
    """Return the settings of each recorded broker."""
    meta = json.loads((Path(os.environ[RECORDINGS]) / release / "meta.json").read_text())
    given: dict[str, dict[str, str]] = meta[story]["server.properties"]
    return {int(broker): keys for broker, keys in given.items()}


class Control:
    """The control interface of the story: it changes brokers of a server in wall time.

    Args:
        server: the server.
    """

    def __init__(self, server: simzk.KafkaServer) -> None:
        self._server = server

    def __call__(self, action: str, *args: Any) -> str:
        """Do what the story asks for; return when the process of the broker has ended, or the broker is registered."""
        server = self._server
        match action, args:
            case "kill", (broker,):
                server.kill(int(broker))
            case "stop", (broker,):
                server.shutdown(int(broker))
                self._wait(int(broker), runs=False)
            case "start", (broker,):
                server.restart(int(broker))
                self._wait(int(broker), runs=True)
            case "controller", ():
                return str(server.controller)
            case "create-topic", (topic, what):
                replicas = dict(enumerate(what["assignment"]))
                server.create_topic(topic, assignment=replicas, config=what["configs"])
            case "add-partitions", (topic, what):
                replicas = dict(enumerate(what["assignment"]))
                with server.cluster.lock:
                    known = server.cluster.assignment(topic)
                added = {number: one for number, one in replicas.items() if number not in known}
                server.add_partitions(topic, len(replicas), assignment=added)
            case "delete-topic", (topic,):
                server.delete_topic(topic)
            case "exists", (topic,):
                places = (f"/brokers/topics/{topic}", f"/admin/delete_topics/{topic}")
                with server.cluster.lock:
                    return "yes" if any(server.cluster.tree.get(place) is not None for place in places) else "no"
            case "reassign", (moves,):
                target = {(one["topic"], one["partition"]): one["replicas"] for one in moves}
                server.reassign(target, via="zookeeper")
            case "elect", (partitions,):
                chosen = [(one["topic"], one["partition"]) for one in partitions]
                server.elect(partitions=chosen, via="zookeeper")
            case _:
                raise ValueError(action)
        return ""

    def _wait(self, broker: int, *, runs: bool) -> None:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            with self._server.cluster.lock:
                found = self._server.cluster.brokers[broker]
                if found.accepts_clients if runs else not found.alive:
                    return
            time.sleep(POLL_S)
        raise TimeoutError(f"broker {broker}")


def server_of(release: str, story: str) -> simzk.KafkaServer:
    """Return brokers with the settings of the recorded ones; broker 1 is the controller."""
    version = kafka_version(release)
    given = properties(release, story)
    known = broker_keys(version.number)

    def settings(keys: Mapping[str, str]) -> dict[str, str | int | bool]:
        return {key: value for key, value in keys.items() if key in known or is_setting(key, version)}

    racks = {broker: keys["broker.rack"] for broker, keys in given.items() if "broker.rack" in keys}
    common = settings({key: value for key, value in given[1].items() if key not in ADDRESSES})
    own = {broker: settings({"log.dirs": keys["log.dirs"]}) for broker, keys in given.items()}
    own = {broker: keys for broker, keys in own.items() if "," in str(keys.get("log.dirs"))}
    return simzk.KafkaServer(
        release,
        len(given),
        racks or None,
        config=common,
        broker_config=own,
        tick_time_ms=TICK_MS,
        max_session_timeout_ms=MAX_SESSION_MS,
    )


def placed(release: str, story: str) -> dict[str, dict[int, list[int]]]:
    """Return the recorded replicas of the topics of coordinators, which real brokers placed by chance."""
    (file,) = (Path(os.environ[RECORDINGS]) / release).glob(f"{story}.jsonl*")
    found: dict[str, dict[int, list[int]]] = {}
    for line in read(file):
        for topic in line.get("response", {}).get("Topics", []) if line.get("api") == "Metadata" else ():
            if topic["Name"] in INTERNAL and topic["Name"] not in found and topic["Partitions"]:
                partitions = {one["PartitionIndex"]: one for one in topic["Partitions"]}
                if all(one["LeaderId"] >= 0 for one in partitions.values()):
                    found[topic["Name"]] = {number: _replicas(release, one) for number, one in partitions.items()}
    return found


def _replicas(release: str, partition: Mapping[str, Any]) -> list[int]:
    """Return replicas with the leader first; in 0.10 metadata have an order of their own."""
    leader, replicas = partition["LeaderId"], partition["ReplicaNodes"]
    if not (0, 10) <= kafka_version(release).number < (0, 11):
        return sorted(replicas, key=lambda broker: broker != leader)
    return [leader, *sorted(set(replicas) - {leader}, key=lambda broker: (leader - broker) % len(replicas))]


def _placing(places: Mapping[str, Mapping[int, Sequence[int]]]) -> AbstractContextManager[object]:
    """Let brokers place some topics as told, when a client first needs them."""
    place = AdminHandlers._assignment

    async def assignment(self: AdminHandlers, request: CreateTopicRequest) -> Any:
        return places[request.name] if request.name in places else await place(self, request)

    return patch.object(AdminHandlers, "_assignment", assignment)


def play(release: str, number: int, folder: Path) -> list[list[str]]:
    """Play a pass of the story; write the exchanges to `folder`; return what the program did not expect."""
    story, player, messages = program("story"), program("wire_story"), program("messages")
    folder.mkdir(parents=True, exist_ok=True)
    definitions = messages.Messages(os.environ.get(MESSAGES))
    name = PASSES[number]
    with (
        _placing(placed(release, name)),
        server_of(release, name) as server,
        (folder / f"{name}.jsonl").open("w") as out,
    ):
        assert server.controller == 1
        time.sleep(STARTED_S)
        addresses = {}
        for broker, address in server.brokers.items():
            host, _, port = address.rpartition(":")
            addresses[broker] = host, int(port)
        played = story.Story(definitions, addresses, out, Control(server), release)
        player.play(played, number)
        with server.cluster.lock:
            server.cluster.check()
    trouble: list[list[str]] = played.trouble
    (folder / f"{name}.trouble.json").write_text(json.dumps(trouble, indent=1))
    return trouble


if __name__ == "__main__":
    print(play(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
