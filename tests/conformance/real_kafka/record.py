"""Recorder of four real brokers in two racks: the story of tests/kafka/data/two_racks, on any release.

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record 2.4.1 --out DIR

starts a real ZooKeeper (that of PySpark) and brokers 11, 12, 21 and 22, plays `STORY`, and writes a recording in the
form of docs/replay.md. It takes five to ten minutes.

Rules of this module:
  - `STORY` says what is done; who the controller is then, and how long it takes, is up to the brokers;
  - a step ends when nothing has been written for a while: longer where leaders announce ISR changes;
  - each client has a port of its own, so that the log's sessions have names (`proxy`).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import random
import re
import signal
import socket
import sys
import tempfile
import time
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay.actions import ActionRecord
from simzk.kafka.zookeeper_mode.replay.transactions import (
    RECORDER,
    RecordedOperation,
    RecordedTransaction,
    operation_of,
)
from simzk.zookeeper.persistence.transaction_log import TransactionLogReader
from tests.conformance.real_kafka.cluster import SETTINGS, RealBrokers, until
from tests.conformance.real_kafka.proxy import Proxies
from tests.conformance.real_kafka.releases import RELEASES, Release, jars
from tests.conformance.real_zookeeper import RealZooKeeper, four_letter_word
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.observation.recording import RecordedZnode
    from simzk.kafka.zookeeper_mode.replay.actions import ToolCommand

TICK_MS = 500
MAX_SESSION_TIMEOUT_MS = 60_000
RACKS = {11: "ra", 12: "ra", 21: "rb", 22: "rb"}
QUIET_S = 3.0
ANNOUNCING_QUIET_S = 7.0
"""Leaders of 0.9 to 2.6 announce ISR changes after up to 5 s."""
TOOL = "tool"
CONFIG = {**SETTINGS, "unclean.leader.election.enable": "false"}
_ZXID = re.compile(rb"Zxid: 0x([0-9a-f]+)")

CONTROLLER, SAME = "the controller", "the broker of the step before"
Choice = str | tuple[int, ...] | None
"""How the broker of a step is chosen: the first of some that is not the controller, or by a word."""


def _all_of(*topics: tuple[str, int]) -> str:
    partitions = [{"topic": topic, "partition": number} for topic, count in topics for number in range(count)]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


_BAD_MOVES = (
    '{"version":1,"partitions":[{"topic":"u","partition":0,"replicas":[11,21]},'
    '{"topic":"u","partition":9,"replicas":[11,12]},{"topic":"nope","partition":0,"replicas":[12]}]}'
)
_MISSING_PARTITION = (
    '{"version":1,"partitions":[{"topic":"t","partition":1},{"topic":"t","partition":99},{"topic":"w","partition":0}]}'
)
_ELECT_ALL = _all_of(("t", 6), ("u", 3))
_T = [[11, 12, 21], [12, 21, 22], [21, 22, 11], [22, 11, 12], [11, 21, 22], [12, 22, 21]]
_U = [[22, 12], [21, 11], [12, 22]]
_G = [[11, 12], [21, 22]]
_GROWN_G = [*_G, [21, 11], [22, 12], [11, 22], [12, 21], [21, 12], [22, 11], [12, 11]]
_W = [[11, 21], [12, 22]]
_MOVES: list[tuple[str, int, list[int] | None]] = [("g", 6, [11, 12]), ("g", 7, [12, 11]), ("w", 0, [22, 12])]


def _stuck(broker: int) -> list[tuple[str, int, list[int] | None]]:
    return [("u", 1, [broker, 11]), ("t", 0, [21, broker])]


class Step(NamedTuple):
    """One step of the story.

    Args:
        name: its name; `{broker}` stands for the chosen broker.
        actions: what is done, given the chosen broker.
        choice: how that broker is chosen.
        hold_s: time that passes after the actions.
        since, until: the releases that have the step: from `since` on and before `until`.
    """

    name: str
    actions: Callable[[int], list[ActionRecord]] = lambda _: []
    choice: Choice = None
    hold_s: float = 0.0
    since: tuple[int, ...] = (0, 8)
    until: tuple[int, ...] = (4,)


def _brokers(kind: str, *brokers: int) -> Callable[[int], list[ActionRecord]]:
    return lambda chosen: [ActionRecord(kind, broker=broker) for broker in brokers or (chosen,)]


def _write(path: str, text: str) -> Callable[[int], list[ActionRecord]]:
    return lambda _: [ActionRecord("write", path=path, text=text)]


def _write_admin(path: str, text: str) -> Callable[[int], list[ActionRecord]]:
    return lambda _: [ActionRecord("write", path="/admin", text=""), ActionRecord("write", path=path, text=text)]


def _create(topic: str, assignment: list[list[int]]) -> Callable[[int], list[ActionRecord]]:
    return lambda _: [ActionRecord("create_topic", topic=topic, assignment=assignment)]


def _reassign_to_paused(*options: str) -> Callable[[int], list[ActionRecord]]:
    return lambda chosen: [
        ActionRecord("pause", broker=chosen),
        ActionRecord("reassign", moves=_stuck(chosen), options=list(options)),
    ]


_H1 = "h1-reassign-to-paused-{broker}"
STORY = (
    Step("a0-empty"),
    Step("a1-boot-broker11", _brokers("start", 11)),
    Step("a2-boot-broker12", _brokers("start", 12)),
    Step("a3-boot-broker21", _brokers("start", 21)),
    Step("a4-boot-broker22", _brokers("start", 22)),
    Step("b1-create-t", _create("t", _T)),
    Step("b2-create-u", _create("u", _U)),
    Step("c1-kill-two-12-21", _brokers("kill", 12, 21)),
    Step("c2-restart-12", _brokers("start", 12)),
    Step("c3-restart-21", _brokers("start", 21)),
    Step("d1-pause-follower-22", _brokers("pause", 22)),
    Step("d2-resume-22", _brokers("resume", 22)),
    Step("d3-pause-long-12", _brokers("pause", 12), hold_s=15.0),
    Step("d4-resume-12", _brokers("resume", 12)),
    Step("e1-pause-controller-{broker}", _brokers("pause"), CONTROLLER),
    Step("e2-resume-zombie-{broker}", _brokers("resume"), SAME),
    # Brokers of 0.8.0 do not create /admin: its tools do.
    Step("e3-elect-preferred-all", _write_admin(paths.PREFERRED_ELECTION, _ELECT_ALL), until=(0, 8, 1)),
    Step("e3-elect-preferred-all", _write(paths.PREFERRED_ELECTION, _ELECT_ALL), since=(0, 8, 1)),
    Step(
        "f1-fast-bounce-{broker}",
        lambda chosen: [ActionRecord("kill", broker=chosen), ActionRecord("start", broker=chosen)],
        (12, 21),
    ),
    Step("f2-restart-{broker}", _brokers("start"), SAME),
    Step("g1-reassign-with-a-bad-entry", _write(paths.REASSIGN_PARTITIONS, _BAD_MOVES)),
    Step(_H1, _reassign_to_paused(), (12, 22), until=(0, 10, 1)),
    Step(_H1, _reassign_to_paused("--throttle", "1000000"), (12, 22), since=(0, 10, 1), until=(2, 6)),
    # The tool that asks brokers would wait for the paused one to change its throttle.
    Step(_H1, _reassign_to_paused(), (12, 22), since=(2, 6)),
    Step(
        "h2-cancel",
        lambda chosen: [ActionRecord("cancel_reassignment", moves=_stuck(chosen))],
        SAME,
        since=(2, 6),
    ),
    Step("h3-resume-{broker}", _brokers("resume"), SAME),
    Step("i0-create-g", _create("g", _G)),
    # The tool of 0.8 and 0.9 does not accept an assignment of new partitions.
    Step(
        "i1-add-partitions", lambda _: [ActionRecord("add_partitions", topic="g", total=len(_GROWN_G))], until=(0, 10)
    ),
    Step(
        "i1-add-partitions",
        lambda _: [ActionRecord("add_partitions", topic="g", total=len(_GROWN_G), assignment=_GROWN_G)],
        since=(0, 10),
    ),
    Step("j1-kill-{broker}", _brokers("kill"), (22, 21)),
    Step("j2-delete-u", lambda _: [ActionRecord("delete_topic", topic="u")], SAME),
    Step("j3-restart-{broker}", _brokers("start"), SAME),
    Step("k1-create-w", _create("w", _W)),
    Step("k2-kill-follower-21", _brokers("kill", 21)),
    Step("k3-kill-leader-11", _brokers("kill", 11)),
    Step("k4-restart-21", _brokers("start", 21)),
    Step(
        "k5-unclean",
        lambda _: [ActionRecord("alter_config", entity="topics/w", set={"unclean.leader.election.enable": "true"})],
        since=(0, 8, 1),
    ),
    Step("k6-restart-11", _brokers("start", 11)),
    Step("l1-elect-missing-partition", _write(paths.PREFERRED_ELECTION, _MISSING_PARTITION)),
    Step("l2-pause-controller-{broker}", _brokers("pause"), CONTROLLER),
    Step("l3-resume-zombie-{broker}", _brokers("resume"), SAME),
    Step("l4-kill-controller-{broker}", _brokers("kill"), CONTROLLER),
    Step("l5-restart-{broker}", _brokers("start"), SAME),
    Step("l6-delete-election", lambda _: [ActionRecord("delete_znode", path=paths.PREFERRED_ELECTION)]),
    Step("m1-reassign", lambda _: [ActionRecord("reassign", moves=_MOVES)]),
    Step("m2-sigterm-{broker}", _brokers("shutdown"), CONTROLLER),
    Step("m3-restart-{broker}", _brokers("start"), SAME),
)


class RecordedBrokers(RealBrokers):
    """Brokers whose sessions are recorded.

    Args:
        release: which Kafka.
        folder: an empty folder for logs and data.
        proxies: a port of ZooKeeper for each broker and for the tools.
    """

    def __init__(self, release: Release, folder: Path, proxies: Proxies) -> None:
        super().__init__(release, jars(release), folder, _ports(), RACKS)
        self._proxies = proxies
        self.number = release.number

    def zookeeper_of(self, broker: int) -> str:
        """Return the address of a broker's proxy."""
        return f"127.0.0.1:{self._proxies.ports[f'b{broker}']}"

    def properties(self, broker: int) -> dict[str, object]:
        """Return the settings of a broker."""
        return {**super().properties(broker), **CONFIG, "zookeeper.connection.timeout.ms": 30_000}

    # Kafka's tools

    def run_tool(self, action: ActionRecord) -> ToolCommand:
        """Run the tool of the release that does an action."""
        by_zookeeper = ("--zookeeper", f"127.0.0.1:{self._proxies.ports[TOOL]}")
        by_broker = ("--bootstrap-server", self.bootstrap)
        if action.do in ("reassign", "cancel_reassignment"):
            return self._reassign(by_broker if self.number >= (2, 6) else by_zookeeper, action)
        if action.do == "alter_config" and self.number >= (0, 9):
            return self._configure(by_broker if self.number >= (2, 6) else by_zookeeper, action)
        if self.number < (0, 8, 1):
            return self._change_topic_of_0_8_0(by_zookeeper, action)
        return self._change_topic(by_broker if self.number >= (2, 2) else by_zookeeper, action)

    def _change_topic(self, where: tuple[str, str], action: ActionRecord) -> ToolCommand:
        words: dict[str, tuple[object, ...]] = {
            "create_topic": ("--create", "--replica-assignment", _listed(action)),
            "add_partitions": (
                *("--alter", "--partitions", action.total),
                *(() if action.assignment is None else ("--replica-assignment", _listed(action))),
            ),
            "delete_topic": ("--delete",),
            "alter_config": ("--alter", *(word for pair in _pairs(action) for word in ("--config", pair))),
        }
        topic = action.topic or (action.entity or "").removeprefix("topics/")
        classes = ("kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand")
        return self.attempt(*classes, arguments=(*where, "--topic", topic, *words[action.do]))

    def _change_topic_of_0_8_0(self, where: tuple[str, str], action: ActionRecord) -> ToolCommand:
        tools: dict[str, tuple[str, tuple[object, ...]]] = {
            "create_topic": ("CreateTopicCommand", ("--replica-assignment-list", _listed(action))),
            "add_partitions": (
                "AddPartitionsCommand",
                ("--partition", (action.total or 0) - len(_G)),
            ),
            "delete_topic": ("DeleteTopicCommand", ()),
        }
        name, arguments = tools[action.do]
        return self.attempt(f"kafka.admin.{name}", arguments=(*where, "--topic", action.topic, *arguments))

    def _configure(self, where: tuple[str, str], action: ActionRecord) -> ToolCommand:
        kind, _, name = (action.entity or "").partition("/")
        what = ("--alter", "--entity-type", kind, "--entity-name", name, "--add-config", ",".join(_pairs(action)))
        return self.attempt("kafka.admin.ConfigCommand", arguments=(*where, *what))

    def _reassign(self, where: tuple[str, str], action: ActionRecord) -> ToolCommand:
        file = self.folder / "reassign.json"
        moves = [
            {"topic": topic, "partition": partition, "replicas": brokers}
            for topic, partition, brokers in action.moves or ()
        ]
        file.write_text(json.dumps({"version": 1, "partitions": moves}))
        option = "--reassignment-json-file" if self.number >= (0, 8, 1) else "--manual-assignment-json-file"
        what = "--execute" if action.do == "reassign" else "--cancel"
        name = "ReassignPartitionsCommand"
        classes = (f"kafka.admin.{name}", f"org.apache.kafka.tools.reassign.{name}")
        return self.attempt(*classes, arguments=(*where, option, file.name, what, *action.options))


def _ports() -> dict[int, int]:
    """Return free ports with the same distance from all ids.

    They are below the ports of outgoing connections, one of which could take the port of a broker that is down.
    """
    while True:
        base = random.randrange(10_000, 30_000)
        ports = {broker: base + broker for broker in RACKS}
        with contextlib.suppress(OSError, OverflowError), contextlib.ExitStack() as stack:
            for port in ports.values():
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports


def _listed(action: ActionRecord) -> str:
    return ",".join(":".join(map(str, ids)) for ids in action.assignment or ())


def _pairs(action: ActionRecord) -> list[str]:
    return [f"{key}={value}" for key, value in (action.set or {}).items()]


@dataclass
class _PlayedStep:
    """A step that was played, with its last zxid and its tree."""

    name: str
    begins_s: float
    actions: list[ActionRecord]
    tools: list[ToolCommand]
    zxid: int
    tree: dict[str, RecordedZnode]


class Recorder:
    """Player of the story on real brokers, which keeps what is needed for a recording.

    Args:
        zookeeper: the real ZooKeeper.
        brokers: the brokers; none of them runs.
        report: shows the progress.
    """

    def __init__(self, zookeeper: RealZooKeeper, brokers: RecordedBrokers, report: Callable[[str], object]) -> None:
        self._zookeeper = zookeeper
        self._brokers = brokers
        self._report = report
        self._chosen = 0
        self._seen = self._first_zxid = 0
        announces = (0, 9) <= brokers.number < (2, 7)
        self._quiet_s = ANNOUNCING_QUIET_S if announces else QUIET_S
        self.steps: list[_PlayedStep] = []

    def play(self, story: tuple[Step, ...]) -> None:
        """Play the steps that the release has."""
        self._seen = self._first_zxid = self._zxid()
        for step in story:
            if step.since <= self._brokers.number < step.until:
                self._play_step(step)

    def _play_step(self, step: Step) -> None:
        """Play a step; it ends when the brokers have reacted and nothing more is written."""
        if step.choice is not None:
            self._chosen = self._choose(step.choice)
        name = step.name.format(broker=self._chosen)
        self._report(name)
        begins_s = time.time()
        actions: list[ActionRecord] = []
        tools: list[ToolCommand] = []
        waiting = []
        for action in step.actions(self._chosen):
            # A bounced broker of 0.8 waits until its old session has expired; others exit, and are started again.
            if action.do == "start" and action.broker is not None and self._brokers.is_running(action.broker):
                continue
            if action.broker is not None:
                waiting.append((action.do, action.broker, self._brokers.session(action.broker)))
            action.at = round(time.time(), 3)
            actions.append(action)
            tools += self._do(action)
        time.sleep(step.hold_s)
        for kind, broker, before in waiting:
            self._wait_for(kind, broker, before)
        # Nothing of the first step is worth waiting for: no broker runs.
        self._wait_until_quiet(self._quiet_s if self.steps else 0.0)
        tree = self._brokers.tree()
        while (zxid := self._zxid()) != self._seen:
            self._seen = zxid
            tree = self._brokers.tree()
        tree = {path: znode for path, znode in tree.items() if not path.startswith("/zookeeper/config")}
        self.steps.append(_PlayedStep(name, begins_s, actions, tools, zxid, tree))

    def _choose(self, choice: str | tuple[int, ...]) -> int:
        if choice == SAME:
            return self._chosen
        controller = self._brokers.controller()
        assert controller is not None, "there is no controller"
        return controller if isinstance(choice, str) else next(broker for broker in choice if broker != controller)

    def _do(self, action: ActionRecord) -> list[ToolCommand]:
        if action.broker is not None:
            self._do_to_broker(action.do, action.broker)
            return []
        if action.path is not None:
            self._write(action.path, action.text)
            return []
        return [self._brokers.run_tool(action)]

    def _do_to_broker(self, kind: str, broker: int) -> None:
        match kind:
            case "start":
                self._brokers.launch(broker)
            case "kill":
                self._brokers.end(broker, signal.SIGKILL)
            case "shutdown":
                self._brokers.end(broker, signal.SIGTERM)
            case "pause":
                self._brokers.signal(broker, signal.SIGSTOP)
            case "resume":
                self._brokers.signal(broker, signal.SIGCONT)

    def _write(self, path: str, text: str | None) -> None:
        """Create or set a znode; without a text, delete it if it exists."""
        client = self._brokers.client
        exists = client.exists(path) is not None
        if text is None:
            with contextlib.suppress(NoNodeError):
                _ = exists and client.delete(path)
        elif exists:
            client.set(path, text.encode())
        else:
            client.create(path, text.encode())

    def _wait_for(self, kind: str, broker: int, before: int | None) -> None:
        """Wait until an action has its effect: a broker has another session than before, or none."""
        if kind in ("start", "resume"):
            until(
                lambda: self._brokers.session(broker) not in (None, before) or self._brokers.has_ended(broker),
                lambda: f"broker {broker} was not registered: {self._brokers.said(broker)}",
            )
        if kind in ("kill", "pause", "shutdown"):
            until(
                lambda: (now := self._brokers.session(broker)) is None or now != before,
                lambda: f"broker {broker} is still registered",
            )
        elif self._brokers.has_ended(broker):
            until(lambda: self._brokers.session(broker) is None, lambda: f"broker {broker} is still registered")

    # When nothing is written any more

    def _zxid(self) -> int:
        found = _ZXID.search(four_letter_word(self._zookeeper.port, b"srvr"))
        assert found is not None, "the server's zxid is unknown"
        return int(found[1], 16)

    def _wait_until_quiet(self, quiet_s: float) -> None:
        self._seen, since_s = self._zxid(), time.monotonic()
        deadline_s = since_s + PATIENCE_S
        while time.monotonic() < min(since_s + quiet_s, deadline_s):
            time.sleep(0.1)
            zxid = self._zxid()
            if zxid != self._seen:
                self._seen, since_s = zxid, time.monotonic()

    # The recording

    def meta(self) -> dict[str, object]:
        """Return what meta.json says, but for the clock."""
        steps = [
            {"step": step.name, "t0": round(step.begins_s, 3), "acts": step.actions, "tools": step.tools}
            for step in self.steps
        ]
        return {
            "version": self._brokers.release.version,
            "config": CONFIG,
            "tick_time_ms": TICK_MS,
            "max_session_timeout_ms": MAX_SESSION_TIMEOUT_MS,
            "steps": steps,
        }

    def trees(self) -> list[dict[str, object]]:
        """Return the tree after each step, from the second on as changes."""
        found: list[dict[str, object]] = []
        before: dict[str, RecordedZnode] = {}
        for step in self.steps:
            changed = {path: _znode(znode) for path, znode in step.tree.items() if before.get(path) != znode}
            removed = [path for path in before if path not in step.tree]
            found.append(
                {"step": step.name, **({"changed": changed, "removed": removed} if found else {"tree": changed})}
            )
            before = step.tree
        return found

    def transactions(self, proxies: Proxies) -> tuple[list[RecordedTransaction], int]:
        """Return the transactions of the log, each with its writer and step, and the time of the first in ms."""
        entries = []
        for file in sorted(
            self._zookeeper.data_directory.glob("version-2/log.*"), key=lambda file: int(file.suffix[1:], 16)
        ):
            with file.open("rb") as stream:
                entries += [entry.transaction for entry in TransactionLogReader(stream)]
        first_ms = entries[0].time_ms
        found = []
        for entry in entries:
            who = proxies.sessions.get(entry.session_id, "?")
            operation = operation_of(entry.record, proxies.requests.get((entry.session_id, entry.cxid)))
            place = bisect_left([self._first_zxid, *(step.zxid for step in self.steps)], entry.zxid)
            found.append(
                RecordedTransaction(
                    **{name: getattr(operation, name) for name in RecordedOperation.__struct_fields__},
                    who=RECORDER if who.startswith(f"{RECORDER}#") else who,
                    session=hex(entry.session_id),
                    cxid=entry.cxid,
                    t=entry.time_ms - first_ms,
                    step=self.steps[place - 1].name if 0 < place <= len(self.steps) else None,
                )
            )
        return found, first_ms


def _znode(znode: RecordedZnode) -> dict[str, object]:
    return {
        "data": znode.data,
        "v": znode.version,
        "cv": znode.cversion,
        "av": znode.aversion,
        "eph": znode.ephemeral,
        "nc": znode.children,
        "dl": znode.data_length,
    }


def record(release: Release, out: Path, report: Callable[[str], object], story: tuple[Step, ...] = STORY) -> None:
    """Record the story on a release.

    Args:
        release: which Kafka.
        out: folder of the recording; it is created.
        report: shows the progress.
        story: the steps.
    """
    settings = {"maxSessionTimeout": str(MAX_SESSION_TIMEOUT_MS)}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="real-kafka-")))
        zookeeper = stack.enter_context(RealZooKeeper(tick_time_ms=TICK_MS, settings=settings))
        names = [RECORDER, TOOL, *(f"b{broker}" for broker in RACKS)]
        proxies = stack.enter_context(Proxies(zookeeper.port, names))
        brokers = RecordedBrokers(release, folder, proxies)
        brokers.client = KazooClient(f"127.0.0.1:{proxies.ports[RECORDER]}")
        stack.callback(brokers.client.close)
        brokers.client.start()
        stack.callback(brokers.client.stop)
        stack.callback(brokers.kill_all)
        recorder = Recorder(zookeeper, brokers, report)
        recorder.play(story)
        transactions, clock_ms = recorder.transactions(proxies)
        files = {"meta": {**recorder.meta(), "clock_ms": clock_ms}, "dumps": recorder.trees(), "txns": transactions}
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (out / f"{name}.json.gz").write_bytes(gzip.compress(msgspec.json.encode(content), mtime=0))


def main() -> None:
    """Record a release."""
    parser = argparse.ArgumentParser(description="Record the story of two racks on real brokers.")
    parser.add_argument("release", choices=[release.version for release in RELEASES])
    parser.add_argument("--out", type=Path, required=True, help="folder of the recording")
    arguments = parser.parse_args()
    (release,) = (one for one in RELEASES if one.version == arguments.release)
    begins_s = time.monotonic()

    def report(step: str) -> None:
        if sys.stderr.isatty():
            print(f"{time.monotonic() - begins_s:7.1f} s  {step}", file=sys.stderr)

    record(release, arguments.out, report)


if __name__ == "__main__":
    main()
