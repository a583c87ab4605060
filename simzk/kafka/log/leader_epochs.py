"""Leader epoch cache of a log: the start offset of each leader epoch, and where an epoch ends (KIP-101, KIP-279).

Rules of this module (LeaderEpochFileCache; docs/reference/kafka.md §2.17):
  - a batch of a new epoch assigns the epoch to its base offset, at the leader and at followers. Since KAFKA-7415
    (2.0.1) a leader assigns its epoch when it begins to lead, even if it appends nothing;
  - an epoch ends where the next one starts, the last epoch at the log end offset;
  - an epoch that is not cached ends where the largest smaller one ends: the answer names that epoch (KIP-279);
  - an epoch above all, or an undefined one, has no end. So has one below all up to 2.0.0; since KAFKA-7415 it ends
    where the first cached one starts;
  - up to 2.0.0 an epoch or a start offset below the last entry is ignored; since KAFKA-7415 it replaces the entries
    that contradict it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from simzk.kafka.log.batches import NO_EPOCH

NO_OFFSET = -1
"""An offset that is undefined (UNDEFINED_EPOCH_OFFSET)."""


class EpochStart(NamedTuple):
    """Entry of the cache: a leader epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """Answer to the question where an epoch ends.

    Args:
        epoch: the largest cached epoch up to the one asked for; `NO_EPOCH` if there is none.
        end_offset: the offset after its last record; `NO_OFFSET` if it is unknown.
    """

    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(NO_EPOCH, NO_OFFSET)


@dataclass(slots=True, eq=False, repr=False)
class LeaderEpochCache:
    """Start offsets of leader epochs, both ascending.

    Args:
        resolves_conflicts: whether a contradicting entry replaces others, and an epoch below all has an end
            (KAFKA-7415, 2.0.1).
        drops_empty: whether a truncation that removes no record removes an epoch without records (KAFKA-10706, 2.6.1).

    >>> cache = LeaderEpochCache()
    >>> cache.assign(0, 0), cache.assign(3, 10)
    (None, None)
    >>> cache.end_offset_for(1, log_end=15), cache.end_offset_for(3, log_end=15), cache.end_offset_for(4, log_end=15)
    (EpochEnd(epoch=0, end_offset=10), EpochEnd(epoch=3, end_offset=15), EpochEnd(epoch=-1, end_offset=-1))
    """

    resolves_conflicts: bool = True
    drops_empty: bool = True
    _entries: list[EpochStart] = field(default_factory=list, init=False)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All entries, ascending."""
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """The last epoch; `NO_EPOCH` if the cache is empty."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that an epoch starts at an offset; nothing changes if the last entry is of this epoch."""
        assert epoch >= 0, f"leader epoch {epoch} is undefined"
        assert start_offset >= 0, f"offset {start_offset} is undefined"
        last = self._entries[-1] if self._entries else None
        if last is not None and epoch == last.epoch and start_offset >= last.start_offset:  # nearly always
            return
        new = EpochStart(epoch, start_offset)
        if last is None:
            self._entries.append(new)
        elif not self.resolves_conflicts:
            if epoch > last.epoch and start_offset >= last.start_offset:
                self._entries.append(new)
        elif epoch != last.epoch or start_offset < last.start_offset:
            self._entries = [one for one in self._entries if one.epoch < epoch and one.start_offset < start_offset]
            self._entries.append(new)
        assert self._entries[0].epoch <= self.latest

    def end_offset_for(self, epoch: int, log_end: int) -> EpochEnd:
        """Return the largest cached epoch up to `epoch` and its end offset; the last one ends with the log."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return UNDEFINED
        assert self._entries[-1].start_offset <= log_end, f"epoch {self.latest} starts beyond the log"
        if epoch == self.latest:
            return EpochEnd(epoch, log_end)
        following = next(place for place, one in enumerate(self._entries) if one.epoch > epoch)
        end_offset = self._entries[following].start_offset
        if following:
            return EpochEnd(self._entries[following - 1].epoch, end_offset)
        return EpochEnd(epoch, end_offset) if self.resolves_conflicts else UNDEFINED

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at an offset or later."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end before an offset; the epoch at the offset then starts there."""
        before = [one for one in self._entries if one.start_offset <= start_offset]
        if before:
            self._entries[: len(before)] = [before[-1]._replace(start_offset=start_offset)]
        assert not self._entries or self._entries[0].start_offset >= start_offset

    def clear(self) -> None:
        """Remove all epochs."""
        self._entries.clear()

    def check(self) -> None:
        """Assert that epochs ascend, and their start offsets do not fall."""
        for before, after in zip(self._entries, self._entries[1:], strict=False):
            assert before.epoch < after.epoch, f"epoch {after.epoch} follows {before.epoch}"
            assert before.start_offset <= after.start_offset, f"epoch {after.epoch} starts before {before}"
