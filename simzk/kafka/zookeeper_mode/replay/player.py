"""Player of a recorded run on a simulated cluster, and the differences of each step.

Rules of this module:
  - virtual time follows the clock of the recording: each action happens when it did, and a step ends when the next
    one begins;
  - chance is an input, read from the recording (`inputs`): winners of controller elections, session expiries, checks
    for lagging followers, announcements, first fetches, reconnections, the order of ISR joins, ids. The rest is
    computed;
  - a command of Kafka's tools takes effect with the first transaction that belongs to it: the tool's own time to start
    is not simulated.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError, SimzkError
from simzk.kafka.broker.broker import BOOT_US
from simzk.kafka.broker.fetching import STARTS_US
from simzk.kafka.broker.timing import BrokerTiming
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation import recording
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.replay import comparison, console_consumer, inputs
from simzk.kafka.zookeeper_mode.replay import transactions as comparable
from simzk.kafka.zookeeper_mode.replay.allowed_differences import TABLE
from simzk.kafka.zookeeper_mode.schemas import config, scram
from simzk.kafka.zookeeper_mode.tools import reassign_partitions as reassign_tool
from simzk.kafka.zookeeper_mode.tools.operator import ZOOKEEPER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from simzk.kafka.observation.recording import RecordedTree
    from simzk.kafka.topic_partition import TopicPartition
    from simzk.kafka.zookeeper_mode.replay.actions import ReplayAction
    from simzk.kafka.zookeeper_mode.replay.allowed_differences import AllowedDifference, Number, StepContext
    from simzk.kafka.zookeeper_mode.replay.recorded_run import RecordedRun, RecordedStep
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction
    from simzk.zookeeper.transactions import Transaction

    TransactionKey = tuple[str, str, tuple[str, ...]]

REQUEST_MS = 5
"""Time from a request of a client to its first transaction."""
LONG_POLL_S = 0.5
"""A real follower fetched last up to this long before it was killed, in the middle of a long poll."""
EXIT_MS = 10
"""Time from the last transaction of a broker that ends while it starts to its end."""
CONNECT_US = 3_000
"""Time from a connection of a resumed broker to its new session."""
ELECTION_HEAD_START_US = 15_000
"""A recorded controller failed within 50 ms, and the others had taken part in the election before. The recordings are
equal from 7.5 to 30 ms."""
NEXT_JOIN_US = 1_000
"""Time until a follower joins that waited for another one: the fetches of real followers have different phases."""
ANNOUNCEMENT_RETRY_US = 100_000
ANNOUNCEMENT_RETRIES = 20
_WARM_UP_S = 1.0
_FIRST_CANCEL = (2, 4)
"""First release whose controller cancels reassignments (KIP-455)."""


@dataclass(frozen=True)
class StepReport:
    """Differences of one step.

    Attributes:
        name: the step.
        tree: differences between the trees after the step, field by field.
        transactions: differences between the transactions of the step.
        problems: actions that the simulated cluster refused, each with the reason.
    """

    name: str
    tree: tuple[recording.Difference, ...]
    transactions: tuple[comparison.TransactionDifference, ...]
    problems: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the step is equal, apart from allowed differences."""
        return not (self.tree or self.transactions or self.problems)

    def lines(self) -> list[str]:
        """Return one line for each difference."""
        return [*self.problems, *map(str, self.tree), *map(str, self.transactions)]


@dataclass(frozen=True)
class PlayedStep:
    """A step that was played: everything that is compared.

    Attributes:
        name, context, number: the step, what selects its allowed differences, and the release.
        before: the recorded tree before the step.
        simulated, recorded: the transactions of the step.
        tree: all differences between the trees after the step that were not there before it.
        problems: actions that the simulated cluster refused, each with the reason.
    """

    name: str
    context: StepContext
    number: Number
    before: RecordedTree
    simulated: tuple[comparable.ComparableTransaction, ...]
    recorded: tuple[comparable.ComparableTransaction, ...]
    tree: tuple[recording.Difference, ...]
    problems: tuple[str, ...]

    def report(self, table: Sequence[AllowedDifference] = TABLE) -> StepReport:
        """Return the differences without those that a table allows."""
        transactions = comparison.transaction_differences(
            self.simulated, self.recorded, self.before, self.number, self.context, table
        )
        return StepReport(self.name, self.tree, tuple(transactions), self.problems)


class _RacingExpiry(NamedTuple):
    """Expiry of a session right after the n-th transaction of a kind in a step."""

    step: str | None
    key: TransactionKey
    nth: int
    expire: Callable[[], None]


class Player:
    """Simulated cluster that repeats a recorded run.

    Args:
        run: the recorded run.
        version: Kafka release to simulate; that of the recording if None.
        seed: seed of the remaining random choices.
    """

    def __init__(self, run: RecordedRun, version: str | None = None, seed: int = 0) -> None:
        self._run = run
        self._joins: inputs.JoinOrder | None = None
        self._carried = comparison.CarriedOver()
        self._reconnects_us: dict[int, int] = {}
        self._registrations_us: dict[int, int] = {}
        self._failed_starts_us: dict[int, int] = {}
        self._answers_us: dict[int, int] = {}
        self._first_joins_us: dict[int, int] = {}
        self._first_fetches_us: dict[int, int] = {}
        ports = [port - broker for broker, port in run.ports.items()]
        self._base_port = ports[0] if ports else 0
        self.cluster: KafkaCluster = KafkaCluster(
            version or run.version,
            brokers=run.brokers,
            racks=run.racks or None,
            seed=seed,
            config=run.config,
            tick_time_ms=run.tick_time_ms,
            max_session_timeout_ms=run.max_session_timeout_ms,
            base_port=self._base_port,
            cluster_id=run.cluster_id,
            boot=False,
            timing=BrokerTiming(
                first_fetch_us=self._first_fetch_us,
                reconnect_pause_us=partial(self._pause_us, self._reconnects_us, CONNECT_US),
                may_join_isr=lambda partition, follower: self._joins is None or self._joins.allows(partition, follower),
                registration_pause_us=partial(self._pause_us, self._registrations_us, REQUEST_MS * 1000),
                announces_isr_changes=False,
                answer_pause_us=lambda broker: self._pause_us(self._answers_us, REQUEST_MS * 1000, broker) or 0,
                checks_isrs=False,
                election_head_start_us=ELECTION_HEAD_START_US,
                failed_start_us=partial(self._pause_us, self._failed_starts_us, 0),
                restarts_brokers=False,
            ),
        )
        self._version = kafka_version(version or run.version)
        # The recorder's session exists from the start; it is the first in the log.
        self.cluster.delete_znode("/nothing")
        self.cluster.advance(_WARM_UP_S)
        self._zero_us = self.cluster.scheduler.now_us
        self._step: str | None = None
        self._made: Counter[TransactionKey] = Counter()
        self._racing_expiries: list[_RacingExpiry] = []
        self._log = comparable.TransactionLog(self.cluster)
        self.cluster.server.on_transaction.append(self._note)

    def _note(self, transaction: Transaction) -> None:
        if self._joins is not None and self._joins.note(transaction):
            self.cluster.scheduler.call_later(NEXT_JOIN_US, "next join", self._consider_followers)
        key = self._log.comparable(transaction).key
        self._made[key] += 1
        for one in self._racing_expiries:
            if one.step == self._step and one.key == key and one.nth == self._made[key]:
                self.cluster.scheduler.call_later(0, "session expiry", one.expire)

    def _consider_followers(self) -> None:
        for broker in self.cluster.brokers.values():
            if broker.alive and not broker.paused:
                broker.replicas.consider_followers()

    def play(self) -> Iterator[PlayedStep]:
        """Play the steps in order, and yield the outcome of each."""
        for step, following in zip(self._run.steps, (*self._run.steps[1:], None), strict=True):
            yield self._play_step(step, () if following is None else following.transactions)

    def _play_step(self, step: RecordedStep, following: Sequence[RecordedTransaction]) -> PlayedStep:
        cluster = self.cluster
        self._joins = inputs.JoinOrder(step.transactions, step.before, inputs.isr_joins(following, step.tree))
        self._first_joins_us.clear()
        self._first_fetches_us.clear()
        self._step = step.name
        self._made.clear()
        self._prefer_controllers(step)
        self._set_topic_ids(step, step.begins_ms)
        self._schedule_timers(step)
        problems = []
        at_ms = step.begins_ms
        for action in step.actions:
            at_ms = max(at_ms, self._effect_ms(step, action))
            self._wait_until(at_ms)
            if action.kind in ("create_topic", "write"):
                self._set_topic_ids(step, at_ms)
            try:
                self._do(step, action)
            except SimzkError as refused:
                problems.append(f"{action.kind}: {refused}")
        self._wait_until(step.ends_ms)
        return PlayedStep(
            step.name,
            step.context,
            self._version.number,
            step.before,
            tuple(self._carried.shift(self._log.take())),
            tuple(comparable.recorded(step.transactions)),
            tuple(self._carried.new_differences(recording.differences(cluster.tree, step.tree))),
            tuple(problems),
        )

    # -- time

    def _virtual_us(self, at_ms: int) -> int:
        return at_ms * 1000 + self._zero_us

    def _wait_until(self, at_ms: int) -> None:
        left_us = self._virtual_us(at_ms) - self.cluster.scheduler.now_us
        if left_us > 0:
            self.cluster.advance(left_us / 1_000_000)

    def _schedule(self, at_ms: int, what: str, work: Callable[[], object]) -> None:
        at_us = max(self._virtual_us(at_ms), self.cluster.scheduler.now_us)
        self.cluster.scheduler.call_at(at_us, what, lambda: _run(work))

    def _effect_ms(self, step: RecordedStep, action: ReplayAction) -> int:
        """Return when an action takes effect, in ms of the recording."""
        if action.kind == "start":
            opened = self._opened(action)
            return action.at_ms if opened is None else max(opened.t - BOOT_US // 1000, 0)
        if action.broker is not None:
            return action.at_ms
        later = [entry for entry in step.transactions if entry.t >= action.at_ms]
        by_shell = action.kind in ("write", "delete_znode")
        own = [entry for entry in later if (_is_by_shell(entry, action) if by_shell else _belongs(entry, action))]
        return max(own[0].t - REQUEST_MS, action.at_ms) if own else action.at_ms

    def _opened(self, action: ReplayAction) -> RecordedTransaction | None:
        """Return the session that a broker opens after an action."""
        return self._next(action, lambda entry: entry.op == "createSession" and entry.broker == action.broker)

    def _next(self, action: ReplayAction, fits: Callable[[RecordedTransaction], bool]) -> RecordedTransaction | None:
        """Return the first fitting transaction after an action, before the next one on the same broker."""
        following = [
            other.at_ms
            for step in self._run.steps
            for other in step.actions
            if other.broker == action.broker and other.at_ms > action.at_ms
        ]
        found = next((entry for entry in self._run.transactions if entry.t >= action.at_ms and fits(entry)), None)
        return None if found is None or (following and found.t >= following[0]) else found

    # -- chance

    def _prefer_controllers(self, step: RecordedStep) -> None:
        winners = inputs.election_winners(step.transactions)
        controller = _fields(step.tree, paths.CONTROLLER).get("brokerid")
        if not winners and isinstance(controller, int):
            winners = [controller]
        if winners:
            self.cluster.prefer_controller(*winners)

    def _set_topic_ids(self, step: RecordedStep, from_ms: int) -> None:
        """Let each topic get the id that it got first from a time of the step on."""
        for drawn in reversed(inputs.topic_ids(step.transactions, step.before)):
            if drawn.at_ms >= from_ms:
                self.cluster.set_topic_id(drawn.topic, drawn.topic_id)

    def _schedule_timers(self, step: RecordedStep) -> None:
        for at_ms, leader in inputs.lag_checks(step.transactions, step.before):
            self._schedule(at_ms, "lag checks", partial(self.cluster.check_isrs, leader, early=LONG_POLL_S))
        for one in inputs.announcements(step.transactions):
            self._schedule(one.at_ms, "announcements", partial(self._announce, one.leader, one.missed))

    def _announce(self, leader: int, missed: Sequence[TopicPartition], retries: int = ANNOUNCEMENT_RETRIES) -> None:
        """Announce ISR changes now, or as soon as the last one is old enough."""
        if self.cluster.announce_isr_changes(leader, missed) and retries and not missed:
            again = partial(_run, partial(self._announce, leader, missed, retries - 1))
            self.cluster.scheduler.call_later(ANNOUNCEMENT_RETRY_US, "announcements", again)

    def _first_fetch_us(self, broker: int) -> int | None:
        if (joined_us := self._first_joins_us.pop(broker, None)) is not None:
            self._first_fetches_us[broker] = max(joined_us - self.cluster.scheduler.now_us, STARTS_US)
        return self._first_fetches_us.get(broker)

    def _pause_us(self, times_us: dict[int, int], takes_us: int, broker: int) -> int | None:
        """Return how long a broker pauses before work that takes a time, and ends when the recorded one did."""
        at_us = times_us.pop(broker, None)
        return None if at_us is None else max(at_us - self.cluster.scheduler.now_us - takes_us, 0)

    def _expire_when_recorded(self, action: ReplayAction) -> None:
        """Let the session of a stopped broker expire when the recorded one did."""
        assert action.broker is not None
        entries = self._run.transactions
        own = (entry for entry in reversed(entries) if entry.op == "createSession" and entry.broker == action.broker)
        session = next((entry.session for entry in own if entry.t <= action.at_ms), None)
        for place, entry in enumerate(entries):
            if entry.op == "closeSession" and entry.session == session and entry.cxid == inputs.EXPIRED_CXID:
                after_s = self._seconds_until_expiry(place)
                if (before := inputs.racing_predecessor(entries, place)) is not None:
                    self._expire_after(action.broker, before)
                    after_s += inputs.EXPIRY_RACE_MS / 1000
                self.cluster.expire(action.broker, after_s)

    def _expire_after(self, broker: int, before: RecordedTransaction) -> None:
        """Let the session of a broker expire right after a transaction, as soon as the simulation makes it."""
        earlier = [entry for entry in self._run.transactions if entry.step == before.step]
        keys = [one.key for one in comparable.recorded(earlier[: earlier.index(before) + 1])]
        expire = partial(self.cluster.expire_session, broker, self.cluster.brokers[broker].session_id)
        self._racing_expiries.append(_RacingExpiry(before.step, keys[-1], keys.count(keys[-1]), expire))

    def _seconds_until_expiry(self, place: int) -> float:
        """Return the time until an expiry. Sessions that expired together expire in one go, in the recorded order."""
        entries, first = self._run.transactions, place
        while first and entries[first - 1].cxid == inputs.EXPIRED_CXID and entries[first - 1].op == "closeSession":
            first -= 1
        left_us = max(self._virtual_us(entries[first].t) - self.cluster.scheduler.now_us, 0)
        return left_us / 1_000_000 + (place - first) / 1_000_000

    # -- actions

    def _do(self, step: RecordedStep, action: ReplayAction) -> None:
        cluster, broker = self.cluster, action.broker
        match action.kind:
            case "start" if broker is not None:
                if self._opened(action) is not None:
                    self._start(step, broker, action)  # else its process ended before
            case "pause" if broker is not None:
                cluster.pause(broker)
                self._expire_when_recorded(action)
            case "kill" if broker is not None:
                cluster.kill(broker)
                self._expire_when_recorded(action)
            case "resume" if broker is not None:
                if (opened := self._opened(action)) is not None:
                    self._reconnects_us[broker] = self._virtual_us(opened.t)
                    self._note_registration(broker, action)
                    elected_ms = inputs.first_election_ms(step.transactions, step.before, opened.t)
                    if self._version.controller.waits_for_removed_brokers and elected_ms is not None:
                        self._answers_us[broker] = self._virtual_us(elected_ms)
                cluster.resume(broker)
            case "shutdown" if broker is not None:
                if late := inputs.late_joins(step.transactions, broker):
                    inputs.LateFetch(cluster, late, broker)
                cluster.shutdown(broker)
            case "write":
                creates = any(entry.op == "create" and entry.path == action.path for entry in step.transactions)
                cluster.write_znode(action.path, action.text, create=creates)
            case "delete_znode":
                if any(_is_by_shell(entry, action) for entry in step.transactions):
                    cluster.delete_znode(action.path)
            case _ if action.gave_up and not any(_belongs(entry, action) for entry in step.transactions):
                return  # the tool gave up before anything was done
            case _:
                self._request(step, action)

    def _start(self, step: RecordedStep, broker: int, action: ReplayAction) -> None:
        self._first_fetches_us.pop(broker, None)
        if (joined_ms := inputs.first_join_ms(step.transactions, broker, action.at_ms)) is not None:
            self._first_joins_us[broker] = self._virtual_us(joined_ms)
        self._note_registration(broker, action)
        self._note_failed_start(broker, action)
        registered = self._next(action, lambda entry: _registered(entry, broker) is not None)
        fields = {} if registered is None else _registered(registered, broker) or {}
        port, rack = fields.get("port"), fields.get("rack")
        moved = port if isinstance(port, int) and port != self._base_port + broker else None
        self.cluster.restart(broker, port=moved, rack=rack if isinstance(rack, str) else None)

    def _note_failed_start(self, broker: int, action: ReplayAction) -> None:
        """Let a session whose broker never registers end when the recorded one did.

        A broker that finds its former registration shuts down, and closes its session last (KafkaServer.startup, all
        releases). For other reasons, which only its machine knows, the process ends after the session's last
        transaction: it closes the session, or halts (such as LogManager without a log directory), and it expires.
        """
        if (opened := self._opened(action)) is None:
            return
        own = [entry for entry in self._run.transactions if entry.session == opened.session]
        ended = self._next(action, lambda entry: entry.op == "closeSession" and entry.session == opened.session)
        if ended is None or any(_registered(entry, broker) is not None for entry in own):
            return
        ends_us = self._virtual_us(ended.t)
        self._failed_starts_us[broker] = ends_us
        is_refused = any(f"{paths.BROKER_IDS}/{broker}" in _paths(entry) for entry in own)
        if is_refused and ended.cxid != inputs.EXPIRED_CXID:
            return
        self._registrations_us.setdefault(broker, ends_us)
        self._schedule(own[-2].t + EXIT_MS, "exit", partial(self._halt, broker, ends_us))

    def _halt(self, broker: int, ends_us: int) -> None:
        self.cluster.kill(broker)
        self.cluster.expire(broker, max(ends_us - self.cluster.scheduler.now_us, 0) / 1_000_000)

    def _note_registration(self, broker: int, action: ReplayAction) -> None:
        """Let a broker register when the recorded one first tried to, after an action."""
        path = f"{paths.BROKER_IDS}/{broker}"
        tried = self._next(action, lambda entry: entry.broker == broker and path in _paths(entry))
        if tried is not None:
            self._registrations_us[broker] = self._virtual_us(tried.t)

    def _request(self, step: RecordedStep, action: ReplayAction) -> None:
        cluster = self.cluster
        match action.kind:
            case "create_topic":
                self._create_topic(step, action)
            case "add_partitions":
                self._add_partitions(step, action)
            case "delete_topic":
                cluster.delete_topic(action.topic)
            case "reassign":
                self._reassign(step, action)
            case "cancel_reassignment":
                self._cancel_reassignment(step, action)
            case "elect":
                via = self._served_by(step, action)
                cluster.elect(action.election, action.partitions, via=ZOOKEEPER if via == ZOOKEEPER else None)
            case "alter_config":
                cluster.alter_config(action.entity, _as_recorded(step, action), via=_writer(step, action))
            case "add_acls":
                cluster.add_acls(action.entity, action.text, action.entries or (), prefixed=action.prefixed)
            case "remove_acls":
                cluster.remove_acls(action.entity, action.text, action.entries, prefixed=action.prefixed)
            case "add_user":
                self._add_user(step, action)
            case "produce":
                self._produce(step, action)
            case "consume" if console_consumer.member_of(step.transactions) is None:
                right = "transactions of a group of kafka-console-consumer"
                raise ConfigError("no consumer with --zookeeper was recorded", where="consume", right=right)
            case "consume":
                expires = console_consumer.session_ends(step.transactions, self._run.transactions)
                console_consumer.read(cluster, action.topic, step.transactions, expires=expires)
            case _:
                raise ConfigError(f"the action {action.kind} cannot be replayed")

    def _reassign(self, step: RecordedStep, action: ReplayAction) -> None:
        """Reassign by Kafka's tool, or by the admin client; up to 2.5 the tool works in ZooKeeper."""
        targets = {(topic, partition): ids for topic, partition, ids in action.moves}
        via = None if reassign_tool.asks_brokers(self._version) else self._served_by(step, action)
        if None in targets.values():
            via = self.cluster.controller
        quick = inputs.config_writers(step.transactions)
        self.cluster.reassign(targets, throttle=action.throttle, via=via, first_brokers=quick)

    def _cancel_reassignment(self, step: RecordedStep, action: ReplayAction) -> None:
        """Cancel reassignments by Kafka's tool; in 2.4 and 2.5, whose tool cannot, only the admin client did it."""
        if self._version.number >= _FIRST_CANCEL and not reassign_tool.asks_brokers(self._version):
            targets = {(topic, partition): None for topic, partition, _ in action.moves}
            self.cluster.reassign(targets, via=self.cluster.controller)
            return
        moves = [{"topic": topic, "partition": number, "replicas": ids} for topic, number, ids in action.moves]
        self.cluster.cancel_reassignment(
            {"version": 1, "partitions": moves},
            preserve_throttles=action.preserves_throttles,
            first_brokers=inputs.config_writers(step.transactions),
        )

    def _create_topic(self, step: RecordedStep, action: ReplayAction) -> None:
        assignment = dict(enumerate(action.assignment or ()))
        if not assignment:
            assignment = {number: tuple(ids) for number, ids in sorted(_assignment(step, action).items())}
        via = self._served_by(step, action)
        self.cluster.create_topic(action.topic, assignment=assignment, config=dict(action.config), via=via)

    def _served_by(self, step: RecordedStep, action: ReplayAction) -> int | str | None:
        """Return who wrote for a request first: a broker, or ZOOKEEPER for a tool; None if nothing was written."""
        for entry in step.transactions:
            if entry.op != "createSession" and _belongs(entry, action):
                return ZOOKEEPER if entry.broker is None else entry.broker
        return None

    def _add_user(self, step: RecordedStep, action: ReplayAction) -> None:
        znode = step.tree.get(paths.config(action.entity))
        values = config.decode("", (znode.data or "").encode()) if znode is not None else {}
        value = values.get(action.text)
        salt = None if value is None else scram.decode(action.entity, action.text, value).salt
        name = action.entity.partition("/")[2]
        self.cluster.add_user(name, action.password, mechanism=action.text, salt=salt, via=_writer(step, action))

    def _produce(self, step: RecordedStep, action: ReplayAction) -> None:
        """Produce records. Brokers of 3.0 and later ask the controller for producer ids, in the recorded order."""
        if self._version.controller.allocates_producer_ids:
            for broker in inputs.producer_id_allocations(step.transactions):
                self.cluster.allocate_producer_ids(broker)
        self.cluster.produce(action.topic, action.partition, action.records)

    def _add_partitions(self, step: RecordedStep, action: ReplayAction) -> None:
        given = _assignment(step, action) if action.assignment is None else dict(enumerate(action.assignment))
        node = self.cluster.tree.get(paths.topic(action.topic))
        known = {} if node is None else inputs.assignment_in((node.data or b"").decode(errors="replace"))
        added = {number: tuple(ids) for number, ids in sorted(given.items()) if number not in known}
        self.cluster.add_partitions(action.topic, action.total, assignment=added)


def _run(work: Callable[[], object]) -> None:
    """Let a timer of a broker fire; nothing happens if the broker does not run."""
    with suppress(ConfigError):
        work()


def _as_recorded(step: RecordedStep, action: ReplayAction) -> dict[str, str | None]:
    """Return the changes of a configuration with numbers as the client wrote them, such as 50.0 for 50."""
    written = _fields(step.tree, paths.config(action.entity)).get("config", {})
    return {
        key: written[key] if value is not None and written.get(key) == f"{value}.0" else value
        for key, value in action.changes.items()
    }


def _fields(tree: RecordedTree, path: str) -> dict[str, Any]:
    """Return the fields of a recorded znode; none if it is missing, or is no JSON object."""
    znode = tree.get(path)
    return {} if znode is None else recording.json_fields(znode.data) or {}


def _assignment(step: RecordedStep, action: ReplayAction) -> dict[int, list[int]]:
    """Return the brokers of each partition of a topic after an action: as it was written, else as in the tree."""
    path = paths.topic(action.topic)
    written = (
        inputs.assignment_in(part.data)
        for entry in step.transactions
        if entry.t >= action.at_ms
        for part in entry.parts()
        if part.path == path and part.op in ("create", "setData")
    )
    found = next((found for found in written if found and len(found) >= action.total), {})
    return found or inputs.assignment_in(step.tree[path].data if path in step.tree else None)


def _paths(entry: RecordedTransaction) -> set[str]:
    asked = {part.asked.path for part in entry.parts() if part.asked is not None and part.asked.path is not None}
    return {part.path for part in entry.parts()} | asked


def _is_by_shell(entry: RecordedTransaction, action: ReplayAction) -> bool:
    """Return whether a transaction is that of an action on a znode."""
    return entry.broker is None and action.path in _paths(entry)


def _belongs(entry: RecordedTransaction, action: ReplayAction) -> bool:
    """Return whether a transaction belongs to a command of Kafka's tools: the tool's session, or what it concerns."""
    if entry.broker is None and entry.op == "createSession":
        return True
    names = {action.topic, *(topic for topic, _, _ in action.moves)} - {""}
    below = ("/config/brokers", f"/config/{action.entity or '?'}")
    exact = {
        paths.REASSIGN_PARTITIONS,
        paths.PREFERRED_ELECTION,
        *(f"{parent}/{name}" for parent in (paths.TOPICS, "/config/topics", paths.DELETE_TOPICS) for name in names),
    }
    return any(
        path in exact or path in below or path.startswith(tuple(f"{one}/" for one in below)) for path in _paths(entry)
    )


def _registered(entry: RecordedTransaction, broker: int) -> dict[str, object] | None:
    """Return the fields of a broker's registration in a transaction; None if there is none."""
    found = (inputs.registration(part, broker) for part in entry.parts())
    return next((fields for fields in found if fields is not None), None)


def _writer(step: RecordedStep, action: ReplayAction) -> int | None:
    """Return the broker that wrote a configuration first: the one that got the request; None for a tool."""
    path = f"/config/{action.entity}"
    writes = (entry for entry in step.transactions if any(one.startswith(path) for one in _paths(entry)))
    return next((entry.broker for entry in writes), None)
