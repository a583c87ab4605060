"""Replication of one partition as five state machines: a judge of the simulation that shares no code with it.

They say what the TLA+ modules of https://github.com/hachikuji/kafka-specification say (KafkaReplication,
KafkaTruncateToHighWatermark, Kip101, Kip279, Kip320FirstTry, Kip320), in the words of Kafka and in plain Python.
A sixth, `KIP_320_SEEN`, is Kip320 for histories: its actions rely on requests and responses, where those of the module
look into the other replica. It allows more, and keeps the same properties.

Rules of this module:
  - a state is an immutable value; an action is a generator of the steps that it allows in a state;
  - obvious before fast: actions read like the prose of the protocol, and nothing is cached;
  - the controller writes the state of the partition and "sends" LeaderAndIsr at once: a set of all requests, from which
    a replica may accept any with a higher leader epoch, so lost, late and reordered requests are all covered;
  - there are no failures: a broker that does nothing is as good as dead, one that acts late as good as a zombie;
  - as in the modules, no replica accepts a LeaderAndIsr without a leader, elections are clean, and a follower whose log
    would have to grow to be "truncated" (Kip101 asks for that where the leader has more of the same epoch) waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

NOBODY = -1
"""No leader."""
NO_EPOCH = -1


class Record(NamedTuple):
    """A record: its identity, and the leader epoch in which it was appended."""

    id: int
    epoch: int


Log: TypeAlias = tuple[Record, ...]


class LeaderAndIsr(NamedTuple):
    """State of the partition as the controller writes and sends it."""

    leader_epoch: int
    leader: int
    isr: frozenset[int]


class Belief(NamedTuple):
    """Leader and epoch that a replica has accepted, and its high watermark."""

    high_watermark: int
    leader_epoch: int
    leader: int
    isr: frozenset[int]


class Left(NamedTuple):
    """Log and high watermark with which a replica left a leader epoch, as leader or as follower."""

    replica: int
    epoch: int
    log: Log
    high_watermark: int


class State(NamedTuple):
    """Logs and beliefs by replica, the written state, all requests, and the next unused numbers.

    `left` is the past of replicas, in the model of what brokers see of each other; the published modules have none.
    """

    logs: tuple[Log, ...]
    beliefs: tuple[Belief, ...]
    written: LeaderAndIsr
    requests: frozenset[LeaderAndIsr]
    next_record: int
    next_epoch: int
    left: frozenset[Left] = frozenset()


class Event(NamedTuple):
    """A step, as the history of a simulation would tell it.

    Args:
        kind: `elect`, `remove` or `repeat` (the controller), `lead` or `follow` (a replica accepts LeaderAndIsr),
            `append`, `fetch`, `truncate`, `advance` (a leader's high watermark), `expand` or `shrink` (a leader, the
            ISR).
        replica: the replica that acts or, for the controller and ISR changes, that is concerned.
        leader: the leader that is concerned; `NOBODY` for none.
        epoch: the leader epoch of a request or a record.
        offset: log end offset, or high watermark, after the step.
    """

    kind: str
    replica: int
    leader: int = NOBODY
    epoch: int = NO_EPOCH
    offset: int = -1


Step: TypeAlias = tuple[Event, State]
Action: TypeAlias = "Callable[[Model, State], Iterator[Step]]"


@dataclass(frozen=True)
class Model:
    """A version of the protocol, for some replicas and up to some numbers.

    Args:
        name: the module.
        actions: what may happen.
        replicas: number of replicas.
        records: number of records that may be appended.
        epochs: number of leader epochs.
    """

    name: str
    actions: tuple[Action, ...]
    replicas: int = 2
    records: int = 1 << 62
    epochs: int = 1 << 62

    def start(self) -> State:
        """Return the first state: empty logs, all replicas in sync, no leader."""
        everyone = frozenset(range(self.replicas))
        nothing = Belief(0, NO_EPOCH, NOBODY, frozenset())
        return State(
            ((),) * self.replicas,
            (nothing,) * self.replicas,
            LeaderAndIsr(NO_EPOCH, NOBODY, everyone),
            frozenset(),
            0,
            0,
        )

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step from a state."""
        for action in self.actions:
            yield from action(self, state)

    def next_states(self, state: State) -> Iterator[State]:
        """Yield the state after every step."""
        return (after for _, after in self.steps(state))

    def explain(self, state: State, event: Event) -> set[State]:
        """Return the states that an event may lead to; none if the protocol does not allow it.

        A field of the event that is not known is left at its default, and then not compared.

        >>> model = KAFKA_0_10(replicas=2)
        >>> (elected,) = model.explain(model.start(), Event("elect", replica=1))
        >>> elected.written.leader
        1
        >>> model.explain(elected, Event("append", replica=1))
        set()
        """
        return {after for said, after in self.steps(state) if _agree(event, said)}

    def judge(self, events: Iterable[Event], start: State | None = None) -> int | None:
        """Return the position of the first event that no sequence of steps explains; None if all are explained."""
        states = {self.start() if start is None else start}
        for position, event in enumerate(events):
            states = {after for state in states for after in self.explain(state, event)}
            if not states:
                return position
        return None

    # -- questions about a state

    def everyone(self) -> range:
        """Return all replicas."""
        return range(self.replicas)

    def presumed_leaders(self, state: State) -> Iterator[int]:
        """Yield the replicas that take themselves for the leader."""
        return (replica for replica in self.everyone() if state.beliefs[replica].leader == replica)

    def others(self, replica: int) -> Iterator[int]:
        """Yield the other replicas."""
        return (other for other in self.everyone() if other != replica)


def _agree(told: Event, said: Event) -> bool:
    defaults = Event("", 0)[2:]
    return told[:2] == said[:2] and all(
        asked in (default, found) for asked, found, default in zip(told[2:], said[2:], defaults, strict=True)
    )


def _with(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _with_log(state: State, replica: int, log: Log) -> State:
    return state._replace(logs=_with(state.logs, replica, log))


def _with_belief(state: State, replica: int, belief: Belief) -> State:
    return state._replace(beliefs=_with(state.beliefs, replica, belief))


# -- the controller


def _send(model: Model, state: State, leader: int, isr: frozenset[int]) -> Iterator[State]:
    """Write a state with the next leader epoch, and send it."""
    if state.next_epoch < model.epochs:
        sent = LeaderAndIsr(state.next_epoch, leader, isr)
        yield state._replace(written=sent, requests=state.requests | {sent}, next_epoch=state.next_epoch + 1)


def controller_elects(model: Model, state: State) -> Iterator[Step]:
    """Elect any member of the ISR that does not lead."""
    for replica in sorted(state.written.isr - {state.written.leader}):
        for after in _send(model, state, replica, state.written.isr):
            yield Event("elect", replica, epoch=state.next_epoch), after


def controller_removes(model: Model, state: State) -> Iterator[Step]:
    """Remove a failed replica from the ISR; a failed leader leads no more, and stays if it is the last member."""
    written = state.written
    for replica in sorted(written.isr | ({written.leader} - {NOBODY})):
        if written.leader == replica:
            isr = written.isr if written.isr == {replica} else written.isr - {replica}
            leader = NOBODY
        else:
            isr, leader = written.isr - {replica}, written.leader
        for after in _send(model, state, leader, isr):
            yield Event("remove", replica, leader=leader, epoch=state.next_epoch), after


# -- a replica accepts LeaderAndIsr


def replica_leads(model: Model, state: State) -> Iterator[Step]:
    """Become leader; the log and the high watermark stay."""
    for request in sorted(state.requests):
        leader = request.leader
        if leader != NOBODY and request.leader_epoch > state.beliefs[leader].leader_epoch:
            belief = Belief(state.beliefs[leader].high_watermark, request.leader_epoch, leader, request.isr)
            event = Event("lead", leader, leader, request.leader_epoch, belief.high_watermark)
            yield event, _with_belief(state, leader, belief)


def _follow(state: State, replica: int, request: LeaderAndIsr, end: int) -> Iterator[Step]:
    """Become follower, with a log that is truncated to an end that is not beyond it."""
    if end <= len(state.logs[replica]):
        watermark = min(end, state.beliefs[replica].high_watermark)
        belief = Belief(watermark, request.leader_epoch, request.leader, request.isr)
        after = _with_log(_with_belief(state, replica, belief), replica, state.logs[replica][:end])
        yield Event("follow", replica, request.leader, request.leader_epoch, end), after


def _acceptable(model: Model, state: State) -> Iterator[tuple[int, LeaderAndIsr]]:
    """Yield each replica with each request that makes it follow."""
    for request in sorted(state.requests):
        if request.leader != NOBODY:
            for replica in model.others(request.leader):
                if request.leader_epoch > state.beliefs[replica].leader_epoch:
                    yield replica, request


def follower_truncates_to_high_watermark(model: Model, state: State) -> Iterator[Step]:
    """Up to 0.10.2: truncate to the own high watermark."""
    for replica, request in _acceptable(model, state):
        yield from _follow(state, replica, request, state.beliefs[replica].high_watermark)


def _end_of_epoch(leader_log: Log, epoch: int, unknown: int) -> int:
    """Return the leader's answer to OffsetForLeaderEpoch as KIP-101 has it: the start of the next larger epoch."""
    if not leader_log:
        return unknown
    if leader_log[-1].epoch == epoch:
        return len(leader_log)
    larger = [offset for offset, record in enumerate(leader_log) if record.epoch > epoch]
    return min(larger, default=unknown)


def follower_truncates_by_epoch(model: Model, state: State) -> Iterator[Step]:
    """KIP-101 (0.11): truncate to the end of the own last epoch in the leader's log, else to the high watermark."""
    for replica, request in _acceptable(model, state):
        log, watermark = state.logs[replica], state.beliefs[replica].high_watermark
        end = _end_of_epoch(state.logs[request.leader], log[-1].epoch, watermark) if log else 0
        yield from _follow(state, replica, request, end)


def _matching_end(log: Log, leader_log: Log) -> int:
    """Return the offset after the last record that both logs have at the same place."""
    same = [offset for offset, pair in enumerate(zip(log, leader_log, strict=False)) if pair[0] == pair[1]]
    return max(same) + 1 if same else 0


def follower_truncates_to_match(model: Model, state: State) -> Iterator[Step]:
    """KIP-279 (2.0): truncate to where the logs match, found from the end backwards."""
    for replica, request in _acceptable(model, state):
        yield from _follow(state, replica, request, _matching_end(state.logs[replica], state.logs[request.leader]))


def fenced_follower_truncates_to_match(model: Model, state: State) -> Iterator[Step]:
    """KIP-320: the same, and the leader must be in the follower's leader epoch."""
    for replica, request in _acceptable(model, state):
        belief = state.beliefs[request.leader]
        if belief.leader == request.leader and belief.leader_epoch == request.leader_epoch:
            yield from _follow(state, replica, request, _matching_end(state.logs[replica], state.logs[request.leader]))


def follower_keeps_log(model: Model, state: State) -> Iterator[Step]:
    """First try of KIP-320: truncate later, at the leader's word."""
    for replica, request in _acceptable(model, state):
        belief = state.beliefs[replica]._replace(
            leader_epoch=request.leader_epoch, leader=request.leader, isr=request.isr
        )
        event = Event("follow", replica, request.leader, request.leader_epoch, len(state.logs[replica]))
        yield event, _with_belief(state, replica, belief)


# -- records


def leader_appends(model: Model, state: State) -> Iterator[Step]:
    """A leader, true or presumed, appends a record."""
    if state.next_record < model.records:
        for leader in model.presumed_leaders(state):
            record = Record(state.next_record, state.beliefs[leader].leader_epoch)
            after = _with_log(state, leader, (*state.logs[leader], record))
            event = Event("append", leader, leader, record.epoch, len(after.logs[leader]))
            yield event, after._replace(next_record=state.next_record + 1)


def _fetch(state: State, follower: int, leader: int) -> Iterator[Step]:
    """Copy the next record of a leader, and its high watermark as far as the log goes."""
    end = len(state.logs[follower])
    if end < len(state.logs[leader]):
        watermark = min(state.beliefs[leader].high_watermark, end + 1)
        after = _with_log(state, follower, (*state.logs[follower], state.logs[leader][end]))
        belief = state.beliefs[follower]._replace(high_watermark=watermark)
        yield Event("fetch", follower, leader, offset=end + 1), _with_belief(after, follower, belief)


def _followers(model: Model, state: State, leader: int) -> Iterator[int]:
    return (other for other in model.others(leader) if state.beliefs[other].leader == leader)


def follower_fetches(model: Model, state: State) -> Iterator[Step]:
    """Fetch from whoever both take for the leader, in whatever epochs."""
    for leader in model.presumed_leaders(state):
        for follower in _followers(model, state, leader):
            yield from _fetch(state, follower, leader)


def fenced_follower_fetches(model: Model, state: State) -> Iterator[Step]:
    """KIP-320: fetch in the same leader epoch only."""
    for leader in model.presumed_leaders(state):
        for follower in _followers(model, state, leader):
            if _is_in_epoch_of(state, leader, follower):
                yield from _fetch(state, follower, leader)


def matching_follower_fetches(model: Model, state: State) -> Iterator[Step]:
    """First try of KIP-320: fetch if the epoch of the last record is the leader's at that offset."""
    for leader in model.presumed_leaders(state):
        for follower in _followers(model, state, leader):
            if _has_epoch_of_leader(state, leader, follower, len(state.logs[follower])):
                yield from _fetch(state, follower, leader)


def follower_truncates_when_told(model: Model, state: State) -> Iterator[Step]:
    """First try of KIP-320: truncate at any time when the end of the log does not match the leader's."""
    for leader in model.presumed_leaders(state):
        for follower in _followers(model, state, leader):
            log, leader_log = state.logs[follower], state.logs[leader]
            differs = bool(log) and len(log) <= len(leader_log) and leader_log[len(log) - 1].epoch != log[-1].epoch
            if len(log) > len(leader_log) or differs:
                end = _matching_end(log, leader_log)
                belief = state.beliefs[follower]
                belief = belief._replace(high_watermark=min(end, belief.high_watermark))
                after = _with_log(_with_belief(state, follower, belief), follower, log[:end])
                yield Event("truncate", follower, leader, offset=end), after


# -- the high watermark


def _is_in_epoch_of(state: State, leader: int, follower: int) -> bool:
    """Return whether a replica, also the leader itself, follows a presumed leader in the leader's epoch."""
    own, its = state.beliefs[leader], state.beliefs[follower]
    return own.leader == its.leader == leader and own.leader_epoch == its.leader_epoch


def _has_epoch_of_leader(state: State, leader: int, follower: int, end: int) -> bool:
    """Return whether a replica follows and has, before an offset, a record of the epoch that the leader has there."""
    if state.beliefs[follower].leader != leader:
        return False
    log, leader_log = state.logs[follower], state.logs[leader]
    return end == 0 or (end <= min(len(log), len(leader_log)) and log[end - 1].epoch == leader_log[end - 1].epoch)


def _advance(model: Model, state: State, acknowledges: Callable[[State, int, int, int], bool]) -> Iterator[Step]:
    """Raise the high watermark by one record that all of the leader's ISR, itself included, has acknowledged."""
    for leader in model.presumed_leaders(state):
        belief = state.beliefs[leader]
        end = belief.high_watermark + 1
        assert leader in belief.isr, "a leader is sent in its ISR, and does not remove itself"
        if all(acknowledges(state, leader, member, end) for member in belief.isr):
            after = _with_belief(state, leader, belief._replace(high_watermark=end))
            yield Event("advance", leader, leader, offset=end), after


def leader_advances(model: Model, state: State) -> Iterator[Step]:
    """Count followers by their log end offset, whatever their epoch."""

    def acknowledges(state: State, leader: int, member: int, end: int) -> bool:
        return state.beliefs[member].leader == leader and end <= len(state.logs[member])

    return _advance(model, state, acknowledges)


def fenced_leader_advances(model: Model, state: State) -> Iterator[Step]:
    """KIP-320: count followers in the leader's epoch only."""

    def acknowledges(state: State, leader: int, member: int, end: int) -> bool:
        return _is_in_epoch_of(state, leader, member) and end <= len(state.logs[member])

    return _advance(model, state, acknowledges)


def matching_leader_advances(model: Model, state: State) -> Iterator[Step]:
    """First try of KIP-320: count followers with a record of the same epoch there."""
    return _advance(model, state, _has_epoch_of_leader)


# -- the ISR, by its leader


def _write_isr(state: State, leader: int, isr: frozenset[int]) -> Iterator[State]:
    """Write an ISR, which only the true leader can: the write is conditional."""
    belief = state.beliefs[leader]
    if state.written.leader == leader and belief.leader_epoch == state.written.leader_epoch:
        after = state._replace(written=state.written._replace(isr=isr))
        yield _with_belief(after, leader, belief._replace(isr=isr))


def _shrink(model: Model, state: State, is_behind: Callable[[State, int, int], bool]) -> Iterator[Step]:
    for leader in model.presumed_leaders(state):
        isr = state.beliefs[leader].isr
        for member in sorted(isr - {leader}):
            if is_behind(state, leader, member):
                for after in _write_isr(state, leader, isr - {member}):
                    yield Event("shrink", member, leader), after


def _expand(model: Model, state: State, may_join: Callable[[State, int, int], bool]) -> Iterator[Step]:
    for leader in model.presumed_leaders(state):
        isr = state.beliefs[leader].isr
        for follower in model.everyone():
            if follower not in isr and may_join(state, leader, follower):
                for after in _write_isr(state, leader, isr | {follower}):
                    yield Event("expand", follower, leader), after


def _is_caught_up(state: State, leader: int, follower: int, end: int) -> bool:
    """Return whether a follower, of whatever epoch, has a log up to an offset that the leader's log has."""
    reaches = end == 0 or end <= min(len(state.logs[leader]), len(state.logs[follower]))
    return state.beliefs[follower].leader == leader and reaches


def leader_shrinks(model: Model, state: State) -> Iterator[Step]:
    """Remove a member that does not follow or has not the whole log."""
    return _shrink(model, state, lambda s, leader, m: not _is_caught_up(s, leader, m, len(s.logs[leader])))


def leader_expands(model: Model, state: State) -> Iterator[Step]:
    """Add a follower that has the log up to the high watermark."""
    return _expand(model, state, lambda s, leader, f: _is_caught_up(s, leader, f, s.beliefs[leader].high_watermark))


def fenced_leader_shrinks(model: Model, state: State) -> Iterator[Step]:
    """KIP-320: remove a member that is in another epoch or has not the whole log."""
    return _shrink(
        model,
        state,
        lambda s, leader, m: not _is_in_epoch_of(s, leader, m) or len(s.logs[m]) < len(s.logs[leader]),
    )


def _watermark_is_in_epoch(state: State, leader: int) -> bool:
    """Return whether the high watermark has reached the leader's own epoch (KAFKA-7128)."""
    belief, log = state.beliefs[leader], state.logs[leader]
    end = belief.high_watermark
    return end == len(log) or (end < len(log) and log[end].epoch == belief.leader_epoch)


def fenced_leader_expands(model: Model, state: State) -> Iterator[Step]:
    """KIP-320: add a follower of the same epoch, once the high watermark is in that epoch."""

    def may_join(state: State, leader: int, follower: int) -> bool:
        return (
            _is_in_epoch_of(state, leader, follower)
            and len(state.logs[follower]) >= state.beliefs[leader].high_watermark
            and _watermark_is_in_epoch(state, leader)
        )

    return _expand(model, state, may_join)


def matching_leader_shrinks(model: Model, state: State) -> Iterator[Step]:
    """First try of KIP-320: remove a member without a record of the same epoch at the end."""
    return _shrink(model, state, lambda s, leader, m: not _has_epoch_of_leader(s, leader, m, len(s.logs[leader])))


def matching_leader_expands(model: Model, state: State) -> Iterator[Step]:
    """First try of KIP-320: add a follower with the same epoch at the high watermark, once that is in the own epoch."""
    return _expand(
        model,
        state,
        lambda s, leader, f: (
            _has_epoch_of_leader(s, leader, f, s.beliefs[leader].high_watermark) and _watermark_is_in_epoch(s, leader)
        ),
    )


# -- Kip320 as brokers see each other: by requests and responses, not by a look at the other's state


def _seen_in(state: State, replica: int, epoch: int) -> Left | None:
    """Return what a replica has had at the end of a leader epoch, or has now; None if it has not been in it."""
    belief = state.beliefs[replica]
    if belief.leader_epoch == epoch:
        return Left(replica, epoch, state.logs[replica], belief.high_watermark)
    return next((left for left in state.left if left[:2] == (replica, epoch)), None)


def _leaving(state: State, after: State, replica: int) -> State:
    """Note with which log a replica leaves its leader epoch."""
    belief = state.beliefs[replica]
    if belief.leader == NOBODY:
        return after
    left = Left(replica, belief.leader_epoch, state.logs[replica], belief.high_watermark)
    return after._replace(left=after.left | {left})


def _own_epochs(state: State, leader: int) -> Iterator[int]:
    """Yield a presumed leader's epoch, and those before it, up to the last of another leader."""
    yield state.beliefs[leader].leader_epoch
    for request in sorted(state.requests, reverse=True):
        if request.leader_epoch < state.beliefs[leader].leader_epoch:
            if request.leader not in (leader, NOBODY):
                return
            yield request.leader_epoch


def controller_repeats(model: Model, state: State) -> Iterator[Step]:
    """Write the same leader and ISR with the next epoch, as for the last member of an ISR that has failed."""
    for after in _send(model, state, state.written.leader, state.written.isr):
        yield Event("repeat", NOBODY, epoch=state.next_epoch), after


def seen_replica_leads(model: Model, state: State) -> Iterator[Step]:
    """Become leader; requests and responses of the epoch before may still be on their way."""
    for event, after in replica_leads(model, state):
        yield event, _leaving(state, after, event.replica)


def seen_follower_truncates_to_match(model: Model, state: State) -> Iterator[Step]:
    """Truncate to match a log that the leader has had in the epoch: its answer may come late."""
    for replica, request in _acceptable(model, state):
        leader = _seen_in(state, request.leader, request.leader_epoch)
        if leader is not None:
            for event, after in _follow(state, replica, request, _matching_end(state.logs[replica], leader.log)):
                yield event, _leaving(state, after, replica)


def seen_follower_fetches(model: Model, state: State) -> Iterator[Step]:
    """Append the next record that the leader has had in the epoch: its response may come late."""
    for follower in model.everyone():
        belief, end = state.beliefs[follower], len(state.logs[follower])
        if belief.leader in (NOBODY, follower):
            continue
        leader = _seen_in(state, belief.leader, belief.leader_epoch)
        if leader is not None and end < len(leader.log):
            watermark = min(leader.high_watermark, end + 1)
            after = _with_log(state, follower, (*state.logs[follower], leader.log[end]))
            after = _with_belief(after, follower, belief._replace(high_watermark=watermark))
            yield Event("fetch", follower, belief.leader, offset=end + 1), after


def seen_leader_advances(model: Model, state: State) -> Iterator[Step]:
    """Count what followers have fetched in the leader's epoch, or in those of the same leader just before it.

    It counts wherever they are now: a leader that stays keeps the log ends of its followers.
    """

    def acknowledges(state: State, leader: int, member: int, end: int) -> bool:
        seen = (_seen_in(state, member, epoch) for epoch in _own_epochs(state, leader))
        return any(one is not None and end <= len(one.log) for one in seen)

    return _advance(model, state, acknowledges)


def seen_leader_expands(model: Model, state: State) -> Iterator[Step]:
    """Add a follower with the log up to the high watermark and to the start of the leader's epoch.

    The module waits until the high watermark has reached that start; Kafka, since KAFKA-7128, until the follower has.
    """

    def may_join(state: State, leader: int, follower: int) -> bool:
        belief, log = state.beliefs[leader], state.logs[leader]
        own = (offset for offset, record in enumerate(log) if record.epoch == belief.leader_epoch)
        start = next(own, len(log))
        enough = len(state.logs[follower]) >= max(belief.high_watermark, start)
        return _is_in_epoch_of(state, leader, follower) and enough

    return _expand(model, state, may_join)


def seen_leader_shrinks(model: Model, state: State) -> Iterator[Step]:
    """Remove any follower: a leader has not heard of it for long enough, whatever it has."""
    return _shrink(model, state, lambda _state, _leader, _member: True)


# -- the versions of the protocol


def _versions(name: str, *own: Action) -> Callable[..., Model]:
    def make(replicas: int = 2, records: int = 1 << 62, epochs: int = 1 << 62) -> Model:
        return Model(name, (controller_elects, controller_removes, leader_appends, *own), replicas, records, epochs)

    return make


_UNFENCED = (replica_leads, leader_expands, leader_shrinks, leader_advances, follower_fetches)
KAFKA_0_10 = _versions("KafkaTruncateToHighWatermark", *_UNFENCED, follower_truncates_to_high_watermark)
KIP_101 = _versions("Kip101", *_UNFENCED, follower_truncates_by_epoch)
KIP_279 = _versions("Kip279", *_UNFENCED, follower_truncates_to_match)
KIP_320_FIRST_TRY = _versions(
    "Kip320FirstTry",
    replica_leads,
    matching_leader_expands,
    matching_leader_shrinks,
    matching_leader_advances,
    follower_keeps_log,
    matching_follower_fetches,
    follower_truncates_when_told,
)
KIP_320 = _versions(
    "Kip320",
    replica_leads,
    fenced_leader_expands,
    fenced_leader_shrinks,
    fenced_leader_advances,
    fenced_follower_truncates_to_match,
    fenced_follower_fetches,
)
KIP_320_SEEN = _versions(
    "Kip320 as brokers see each other",
    controller_repeats,
    seen_replica_leads,
    seen_leader_expands,
    seen_leader_shrinks,
    seen_leader_advances,
    seen_follower_truncates_to_match,
    seen_follower_fetches,
)


# -- properties


def _all_have_committed(state: State, leader: int, members: Iterable[int]) -> bool:
    """Return whether members have every record below a leader's high watermark, as the leader has it."""
    end = state.beliefs[leader].high_watermark
    committed = state.logs[leader][:end]
    return len(committed) == end and all(state.logs[member][:end] == committed for member in members)


def _leaders(state: State) -> Iterator[int]:
    return (replica for replica, belief in enumerate(state.beliefs) if belief.leader == replica)


def is_weak_isr(state: State) -> bool:
    """WeakIsr: the ISR that a presumed leader believes in has all below its high watermark."""
    return all(
        state.beliefs[leader].high_watermark == 0 or _all_have_committed(state, leader, state.beliefs[leader].isr)
        for leader in _leaders(state)
    )


def is_strong_isr(state: State) -> bool:
    """StrongIsr: the written ISR, whose members may be elected, has all below any presumed leader's high watermark."""
    return all(
        state.beliefs[leader].high_watermark == 0 or _all_have_committed(state, leader, state.written.isr)
        for leader in _leaders(state)
    )


def is_leader_in_isr(state: State) -> bool:
    """LeaderInIsr: the written leader is in the written ISR. The module forgets that at first there is no leader."""
    return state.written.leader == NOBODY or state.written.leader in state.written.isr


PROPERTIES: dict[str, Callable[[State], bool]] = {
    "WeakIsr": is_weak_isr,
    "StrongIsr": is_strong_isr,
    "LeaderInIsr": is_leader_in_isr,
}
"""Properties of the modules, by their names."""

# -- symmetry


def canonical(state: State) -> State:
    """Return the least of the states that differ in the names of replicas only."""
    return min((_renamed(state, names) for names in permutations(range(len(state.logs)))), key=_key)


def _key(state: State) -> tuple[object, ...]:
    beliefs = tuple((b.high_watermark, b.leader_epoch, b.leader, sorted(b.isr)) for b in state.beliefs)
    requests = sorted((r.leader_epoch, r.leader, sorted(r.isr)) for r in state.requests)
    written = state.written
    wrote = written.leader_epoch, written.leader, sorted(written.isr)
    return state.logs, beliefs, wrote, requests, sorted(state.left)


def _renamed(state: State, names: tuple[int, ...]) -> State:
    def one(replica: int) -> int:
        return NOBODY if replica == NOBODY else names[replica]

    def many(isr: frozenset[int]) -> frozenset[int]:
        return frozenset(map(one, isr))

    def sent(request: LeaderAndIsr) -> LeaderAndIsr:
        return LeaderAndIsr(request.leader_epoch, one(request.leader), many(request.isr))

    places = sorted(range(len(names)), key=names.__getitem__)
    return State(
        tuple(state.logs[place] for place in places),
        tuple(
            belief._replace(leader=one(belief.leader), isr=many(belief.isr))
            for belief in (state.beliefs[place] for place in places)
        ),
        sent(state.written),
        frozenset(map(sent, state.requests)),
        state.next_record,
        state.next_epoch,
        frozenset(left._replace(replica=names[left.replica]) for left in state.left),
    )
