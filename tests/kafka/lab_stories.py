"""Two further stories of real brokers, as calls on a simulated cluster: `failures` and `administration`.

They were recorded in the same way as the first one. A step's name says what was
done and to which broker; `README.md` beside the recordings says it in commands. What was chance is an input, read from
the recording: the elected controllers, replica assignments, ids, salts, and the broker that each tool asked.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simzk.kafka.broker import fetching
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.observation import recording
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode.replay import inputs
from simzk.kafka.zookeeper_mode.replay import transactions as recorded_transactions
from simzk.kafka.zookeeper_mode.schemas import acl, config, scram
from tests.kafka.recorded_story import (
    CONFIG,
    MAX_SESSION_TIMEOUT_MS,
    RACKS,
    TICK_TIME_MS,
    in_sync_in_order,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from simzk.kafka.observation.recording import RecordedZnode, Recording
    from simzk.kafka.requests import AdminResponse
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction
    from simzk.simulation import Future

    Act = Callable[[KafkaCluster], object]

DATA = Path(__file__).parent / "data"
BROKERS = {"failures": (1, 2, 3), "administration": (1, 2, 3, 4)}
MOVED_PORTS = 10
"""By how much the port of a broker that moved is smaller."""
BOOT_MS = 500
"""How long after its start a simulated broker comes to ZooKeeper, about."""
ASKED_MS = 5
"""How long before a step's first transaction it was asked for, at least."""
LAST_MS = 10_000
LOOK_US = 100_000
LONG_POLL_US = 500_000
BLIP_S = 2.0
CREATED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "b1-create-x": ("x", {"retention.ms": "1000", "cleanup.policy": "compact"}),
    "b2-create-y": ("y", {}),
    "b3-create-solo": ("solo", {}),
    "m6-create-x": ("x", {}),
}
MOVED: Mapping[str, Mapping[tuple[str, int], list[int]]] = {
    "c3-move-to-dead": {("x", 0): [3, 2]},
    "e1-kill9-broker3-then-move": {("x", 0): [2, 3], ("y", 0): [3, 1], ("y", 1): [2, 1]},
    "f1-wider": {("x", 1): [2, 3, 1], ("x", 3): [1, 2, 3]},
    "f2-narrower": {("x", 1): [3], ("x", 2): [1]},
    "n2-move-to-new": {("x", 0): [4, 2]},
}
ELECTED: Mapping[str, list[tuple[str, int]] | None] = {
    "d5-elect": None,
    "k1-elect": None,
    "f1-elect-some": [("x", 0), ("x", 2), ("y", 0), ("solo", 1)],
    "f3-elect-some": [("x", 1), ("x", 2), ("x", 3)],
    "n3-elect-some": [("x", 0)],
}
UNCLEAN = "unclean.leader.election.enable"
CONFIGURED: Mapping[str, tuple[str, Mapping[str, str | None]]] = {
    "e5-unclean-x": ("topics/x", {UNCLEAN: "true"}),
    "e9-clean-x": ("topics/x", {UNCLEAN: None}),
    "g1-default-user-default-client": ("users/<default>/clients/<default>", {"producer_byte_rate": "100"}),
    "g2-user-default-client": ("users/w%20x/clients/<default>", {"consumer_byte_rate": "7"}),
    "g3-user": ("users/w%20x", {"consumer_byte_rate": "8", "producer_byte_rate": "9"}),
    "g4-user-less": ("users/w%20x", {"consumer_byte_rate": None}),
    "g5-user-none": ("users/w%20x", {"producer_byte_rate": None}),
    "g6-default-client": ("clients/<default>", {"producer_byte_rate": "11"}),
    "g7-default-client-none": ("clients/<default>", {"producer_byte_rate": None}),
    "g8-topic": ("topics/x", {"max.message.bytes": "5000"}),
    "g9-topic-less": ("topics/x", {"retention.ms": None}),
    "ga-broker-2": ("brokers/2", {"log.cleaner.threads": "2", "background.threads": "11"}),
    "gb-broker-2-less": ("brokers/2", {"log.cleaner.threads": None}),
    "ge-scram-512-none": ("users/bob", {"SCRAM-SHA-512": None}),
    "gf-user-and-scram": ("users/bob", {"producer_byte_rate": "5"}),
}
USERS = {"gc-scram-512": ("SCRAM-SHA-512", "pw", 5000), "gd-scram-256": ("SCRAM-SHA-256", "pw2", 4096)}
CAROL, DAN, EVE = "User:carol", "User:dan", "User:eve"


class LabStory:
    """One story of one release.

    Args:
        name: `failures` or `administration`.
        release: such as `2.8.2`.
        folder: where its recording is; among the test data where not given.
    """

    def __init__(self, name: str, release: str, folder: Path | None = None) -> None:
        self.name = name
        self.release = release
        self.version = kafka_version(release)
        self._folder = folder or DATA / name / release

    @cached_property
    def recorded(self) -> Recording:
        """The trees."""
        return recording.load(self._folder / "dumps.json.gz")

    @cached_property
    def transactions(self) -> dict[str, list[RecordedTransaction]]:
        """The transactions of each step."""
        return recorded_transactions.by_step(recorded_transactions.load(self._folder / "txns.json.gz"))

    @property
    def names(self) -> tuple[str, ...]:
        """The steps in order, from the first boot on."""
        return self.recorded.steps[1:]

    @contextlib.contextmanager
    def empty_cluster(self, seed: int = 0) -> Iterator[KafkaCluster]:
        """Brokers that are not started yet, at an empty ZooKeeper; leaders announce ISRs when the recorded ones did."""
        last = self.recorded.tree(self.recorded.steps[-1])
        first = self.recorded.tree(self.names[0])
        port = _json(next(first[path] for path in first if path.startswith("/brokers/ids/")))["port"]
        cluster = KafkaCluster(
            self.release,
            brokers=BROKERS[self.name],
            racks={**RACKS, 4: "rack4"} if self.name == "administration" else RACKS,
            seed=seed,
            config=CONFIG,
            tick_time_ms=TICK_TIME_MS,
            max_session_timeout_ms=MAX_SESSION_TIMEOUT_MS,
            base_port=port - int(self.names[0][-1]),
            cluster_id=_json(last["/cluster/id"])["id"] if "/cluster/id" in last else None,
            boot=False,
        )
        self._base_port = port - int(self.names[0][-1])
        with cluster as c:
            c.timing.announces_isr_changes = False
            c.delete_znode("/nothing")  # by whoever recorded the story, in a session open from the start
            c.run_for(1)
            self._zero_ms = c.scheduler.now_us // 1000
            yield c

    def play(self, c: KafkaCluster, step: str) -> None:
        """Do a step when it was done, and let pass the time that passed until the next."""
        controller = self.recorded.tree(step).get("/controller")
        if controller is not None:
            c.prefer_controller(_json(controller)["brokerid"])
        entries = self.transactions.get(step, [])
        acts_ms = self.times_ms[step]
        if step.partition("-")[2].startswith(("boot", "restart", "moved")):
            acts_ms = next(entry.t for entry in entries if entry.op == "createSession") - BOOT_MS
        elif entries and not step.partition("-")[2].startswith(("kill9", "stop", "continue", "sigterm", "blip")):
            acts_ms = entries[0].t - ASKED_MS
        self._look_for_late_followers(c, step)
        self._announce(c, step)
        with in_sync_in_order(c, entries, self._before(step)), contextlib.ExitStack() as stack:
            self._wait(c, acts_ms)
            started = re.search(r"-(?:boot|restart|moved)-broker(\d)", step)
            if started is None:
                self._act(c, step)
            else:
                self._start(c, step, int(started[1]), stack)
            names = self.names
            ends_ms = self.times_ms[names[names.index(step) + 1]] if step != names[-1] else acts_ms + LAST_MS
            self._wait(c, ends_ms)

    def _start(self, c: KafkaCluster, step: str, broker: int, stack: contextlib.ExitStack) -> None:
        """Start a broker whose first fetch does something when the recorded one did: how long that takes is chance."""
        if "moved" in step:
            c.restart(broker, port=self._base_port + broker - MOVED_PORTS, rack="rack9")
        else:
            c.restart(broker)
        joined_ms = inputs.first_join_ms(self.transactions.get(step, []), broker)
        if joined_ms is None:
            return
        while not c.brokers[broker].registered:
            c.run_for(0.0005)
        starts_us = max(fetching.STARTS_US, (joined_ms + self._zero_ms) * 1000 - c.scheduler.now_us)
        stack.callback(setattr, c.timing, "first_fetch_us", None)
        c.timing.first_fetch_us = lambda _: starts_us

    def _look_for_late_followers(self, c: KafkaCluster, step: str) -> None:
        """Let leaders look for late followers when recorded ones found some: when their timers run is chance."""
        for at_ms, leader in inputs.lag_checks(self.transactions.get(step, []), self._before(step)):
            check = partial(c.brokers[leader].replicas.shrink_isrs, LONG_POLL_US)
            c.scheduler.call_at((at_ms + self._zero_ms) * 1000, "late followers", check)

    def _announce(self, c: KafkaCluster, step: str) -> None:
        """Let leaders announce ISRs when recorded ones did: when their timers run is chance."""
        for at_ms, leader, _ in inputs.announcements(self.transactions.get(step, [])):
            at_us = (at_ms + self._zero_ms) * 1000
            c.scheduler.call_at(at_us, "announcements", partial(self._let_announce, c, leader))

    def _let_announce(self, c: KafkaCluster, leader: int, tries: int = 20) -> None:
        """Now, or as soon as the leader's changes are old enough: they came a little earlier or later here."""
        if tries and c.announce_isr_changes(leader):
            c.scheduler.call_later(LOOK_US, "announcements", lambda: self._let_announce(c, leader, tries - 1))

    @cached_property
    def times_ms(self) -> dict[str, int]:
        """When each step began, by the recording's clock."""
        packed = gzip.decompress((self._folder / "dumps.json.gz").read_bytes())
        return {entry["step"]: entry["begins"] for entry in json.loads(packed)}

    def _before(self, step: str) -> Mapping[str, RecordedZnode]:
        return self.recorded.tree(self.recorded.steps[self.recorded.steps.index(step) - 1])

    def _wait(self, c: KafkaCluster, at_ms: int) -> None:
        """Let time pass up to an instant of the recording."""
        passed_ms = c.scheduler.now_us // 1000 - self._zero_ms
        c.run_for(max(at_ms - passed_ms, 0) / 1000)

    def _act(self, c: KafkaCluster, step: str) -> None:
        code, _, what = step.partition("-")
        if (found := re.fullmatch(r"(stop|kill9|sigterm|continue)-broker(\d)", what)) is not None:
            broker = int(found[2])
            late = inputs.late_joins(self.transactions[step], broker) if found[1] == "sigterm" else []
            if late:
                inputs.LateFetch(c, late, broker)
            self._broker(c, found[1], broker)
        elif step == "e1-kill9-broker3-then-move":
            c.kill(3)
            c.reassign(MOVED[step])
        elif step in MOVED:
            c.reassign(MOVED[step])
        elif step in CREATED:
            self._create(c, step, *CREATED[step])
        elif step in ELECTED:
            c.elect(partitions=ELECTED[step])
        elif step in CONFIGURED:
            entity, changes = CONFIGURED[step]
            if entity == "clients/<default>" and not self.version.configs.has_default_entities:
                entity = "clients/cc"
            c.alter_config(entity, changes, via=self._writer(step))
        elif step in USERS:
            mechanism, password, rounds = USERS[step]
            values = config.decode("", (self.recorded.tree(step)["/config/users/bob"].data or "").encode())
            salt = scram.decode("/config/users/bob", mechanism, values[mechanism]).salt
            c.add_user("bob", password, mechanism=mechanism, iterations=rounds, salt=salt, via=self._writer(step))
        elif code.startswith("l") and "acl" in what:
            self._permit(c, step)
        else:
            self._further(c, step)

    def _further(self, c: KafkaCluster, step: str) -> None:
        code = step.partition("-")[0]
        match (self.name, code):
            case ("failures", "e6"):
                c.elect("unclean", [("y", 1), ("y", 2)])
            case ("failures", "h1"):
                c.delete_znode("/controller")
            case ("failures", "l1"):
                assert c.controller is not None
                c.pause(c.controller, BLIP_S)
            case ("administration", "b3"):
                for name in self._topics_in_order(step):  # one request, served topic by topic
                    self._until(c, self._create(c, step, name, {}))
            case ("administration", "c2"):
                c.add_partitions("x", 5, assignment=self._added(step, "x", 3))
            case ("administration", "n6"):
                c.add_partitions("x", 3)
            case ("administration", "e2"):
                c.reassign({("x", 0): None}, via=c.controller)
            case ("administration", "e3"):
                c.delete_topic("y")
            case ("administration", "m2" | "n7"):
                c.delete_topic("x")
            case ("administration", "m3"):
                for name in ("p", "q"):
                    self._until(c, c.delete_topic(name))
            case _:
                raise AssertionError(f"nobody plays {step}")

    @staticmethod
    def _until(c: KafkaCluster, answer: Future[AdminResponse]) -> None:
        while not answer.done:
            c.run_for(0.0001)

    def _broker(self, c: KafkaCluster, what: str, broker: int) -> None:
        match what:
            case "kill9":
                c.kill(broker)
            case "sigterm":
                c.shutdown(broker)
            case "stop":
                c.pause(broker)
            case "continue":
                c.resume(broker)

    def _create(self, c: KafkaCluster, step: str, name: str, given: Mapping[str, str]) -> Future[AdminResponse]:
        znode = self.recorded.tree(step).get(f"/brokers/topics/{name}")
        if self.name == "failures":
            given = {}
        if znode is None:
            return c.create_topic(name, assignment={0: [3, 2]}, config=given)
        fields = _json(znode)
        assignment = {int(number): ids for number, ids in fields["partitions"].items()}
        return c.create_topic(name, assignment=assignment, config=given, topic_id=fields.get("topic_id"))

    def _topics_in_order(self, step: str) -> list[str]:
        made = [entry.path for entry in self.transactions[step] if entry.op == "create"]
        return [path.rpartition("/")[2] for path in made if path.startswith("/brokers/topics/")]

    def _acl(self, step: str, resource: str) -> list[AclEntry]:
        """The rules of a resource as they were written in a step."""
        written = [e for e in self.transactions[step] if e.path == f"/kafka-acl/{resource}"]
        return list(acl.decode("", str(written[0].data).encode()))

    def _added(self, step: str, name: str, from_number: int) -> dict[int, list[int]]:
        partitions = _json(self.recorded.tree(step)[f"/brokers/topics/{name}"])["partitions"]
        return {int(number): ids for number, ids in partitions.items() if int(number) >= from_number}

    def _permit(self, c: KafkaCluster, step: str) -> None:
        match step.partition("-")[0]:
            case "l1" | "l4":
                c.add_acls("cluster", "kafka-cluster", [AclEntry(CAROL, "Create")])
            case "l2":
                to_topic, to_group = self._acl(step, "Topic/x"), self._acl(step, "Group/g")
                c.authorize_consumer("x", "g", to_topic=to_topic, to_group=to_group)
            case "l3":
                c.add_acls("topic", "*", [AclEntry(EVE, "All", "Deny")])
            case "l5":
                c.remove_acls("topic", "x", [AclEntry(DAN, "Read")])
            case "l6":
                c.remove_acls("group", "g")
            case "l7":
                c.remove_acls("topic", "nope")
            case _:
                raise AssertionError(f"nobody plays {step}")

    def _writer(self, step: str) -> int | None:
        """The broker that wrote first in a step: the one that was asked; None where a tool writes itself."""
        first = next((entry.who for entry in self.transactions.get(step, [])), "")
        return int(first[1]) if first.startswith("b") else None


def _json(znode: RecordedZnode) -> dict[str, Any]:
    fields = json.loads(znode.data or "")
    assert isinstance(fields, dict)
    return fields


def recorded() -> list[tuple[str, str]]:
    """The stories and releases that are kept, newest first."""
    found = [(name, path.name) for name in BROKERS for path in (DATA / name).iterdir() if path.is_dir()]
    return sorted(found, key=lambda pair: (pair[0], [-int(part) for part in pair[1].split(".")]))
