"""ISR changes that a leader asks the controller for (KIP-497): the module AsyncIsr as a state machine in plain Python.

It says what AsyncIsr of https://github.com/hachikuji/kafka-specification says: one leader, which never changes;
requests and answers may be lost, repeated and late; an ISR has a version, which the controller raises with each change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

LEADER = 0


class VersionedIsr(NamedTuple):
    """An ISR and its version: written, asked for, or answered."""

    isr: frozenset[int]
    version: int


class State(NamedTuple):
    """The written ISR; what the leader knows, and asked for since; log end offsets; all requests and all answers."""

    written: VersionedIsr
    known: VersionedIsr
    pending: frozenset[int]
    log_ends: tuple[int, ...]
    requests: frozenset[VersionedIsr]
    answers: frozenset[VersionedIsr]

    @property
    def high_watermark(self) -> int:
        """The least log end offset of the ISR and of all that was asked for."""
        return min(self.log_ends[replica] for replica in self.known.isr | self.pending)


@dataclass(frozen=True)
class AsyncIsr:
    """The module, for some replicas and up to some numbers.

    Args:
        replicas: number of replicas.
        records: number of records that may be appended.
        versions: number of changes of the ISR.
        counts_pending: whether the high watermark counts all that was asked for; without it the property breaks.
    """

    replicas: int = 2
    records: int = 1
    versions: int = 3
    counts_pending: bool = True

    def start(self) -> State:
        """Return the first state: all in sync, empty logs."""
        isr = VersionedIsr(frozenset(range(self.replicas)), 0)
        return State(isr, isr, frozenset(), (0,) * self.replicas, frozenset(), frozenset())

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield every step from a state, in a few words, with the state after it."""
        yield from self._controller(state)
        yield from self._requests(state)
        yield from self._logs(state)
        for answer in state.answers:
            if answer.version > state.known.version:
                yield f"the leader hears of {_text(answer)}", state._replace(known=answer, pending=frozenset())

    def _write(self, state: State, isr: frozenset[int]) -> Iterator[State]:
        if state.written.version < self.versions:
            written = VersionedIsr(isr, state.written.version + 1)
            yield state._replace(written=written, answers=state.answers | {written})

    def _controller(self, state: State) -> Iterator[tuple[str, State]]:
        for replica in state.written.isr - {LEADER}:
            for after in self._write(state, state.written.isr - {replica}):
                yield f"the controller removes {replica}", after
        for request in state.requests:
            if request.version == state.written.version:
                for after in self._write(state, request.isr):
                    yield f"the controller accepts {_text(request)}", after

    def _requests(self, state: State) -> Iterator[tuple[str, State]]:
        known = state.known
        for replica in range(self.replicas):
            if replica in known.isr and replica != LEADER:
                isr = known.isr - {replica}
            elif replica not in known.isr and state.log_ends[replica] >= self.high_watermark(state):
                isr = known.isr | {replica}
            else:
                continue
            asked = VersionedIsr(isr, known.version)
            after = state._replace(requests=state.requests | {asked}, pending=state.pending | isr)
            yield f"the leader asks for {_text(asked)}", after

    def _logs(self, state: State) -> Iterator[tuple[str, State]]:
        ends = state.log_ends
        for replica in range(self.replicas):
            if ends[replica] < (self.records if replica == LEADER else ends[LEADER]):
                after = (*ends[:replica], ends[replica] + 1, *ends[replica + 1 :])
                yield f"{replica} has {after[replica]} records", state._replace(log_ends=after)

    def high_watermark(self, state: State) -> int:
        """Return the high watermark of the leader."""
        if self.counts_pending:
            return state.high_watermark
        return min(state.log_ends[replica] for replica in state.known.isr)

    def is_valid_high_watermark(self, state: State) -> bool:
        """ValidHighWatermark: all of the written ISR has what is below the high watermark."""
        return all(state.log_ends[replica] >= self.high_watermark(state) for replica in state.written.isr)


def _text(isr: VersionedIsr) -> str:
    return f"{sorted(isr.isr)} after version {isr.version}"
