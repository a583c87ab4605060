"""Offset to which a follower truncates its log after its leader has said where an epoch ends.

Rules of this module (ReplicaFetcherThread.maybeTruncate, AbstractFetcherThread.getOffsetTruncationState;
docs/reference/kafka.md §2.17):
  - an answer without an offset means that the leader does not know: truncate to the high watermark;
  - an answer without an epoch (KIP-101, protocols before 2.0-IV0): truncate to its offset;
  - an answer with an epoch that the follower has: truncate to the lesser of both ends of that epoch (KIP-279);
  - an answer with an epoch that the follower does not have: truncate to the end of the largest smaller epoch, and ask
    again about that one. Without any smaller epoch truncate to the offset of the answer;
  - a log is never extended: an offset beyond the log end offset changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.log.batches import NO_EPOCH
from simzk.kafka.log.leader_epochs import NO_OFFSET, EpochEnd

if TYPE_CHECKING:
    from simzk.kafka.log.log import Log


class Truncation(NamedTuple):
    """Offset to truncate to, and whether the logs then match; otherwise the follower asks again."""

    offset: int
    is_complete: bool


def truncation_after(log: Log, answer: EpochEnd) -> Truncation:
    """Return where a follower truncates its log after an answer of its leader.

    Args:
        log: the follower's log.
        answer: where the leader's log ends the epoch that the follower asked for; its epoch is `NO_EPOCH` if the
            protocol has none.

    >>> from simzk.kafka.log.log import Log
    >>> log = Log()
    >>> _ = log.append(10, leader_epoch=1, identity=1), log.append(5, leader_epoch=3, identity=2)
    >>> truncation_after(log, EpochEnd(1, 12)), truncation_after(log, EpochEnd(2, 12))
    (Truncation(offset=10, is_complete=True), Truncation(offset=10, is_complete=False))
    """
    if answer.end_offset == NO_OFFSET:
        return Truncation(log.high_watermark, True)
    offset = min(answer.end_offset, log.end)
    if answer.epoch == NO_EPOCH:
        return Truncation(offset, True)
    own = log.end_offset_for(answer.epoch)
    if own.end_offset == NO_OFFSET:
        return Truncation(offset, True)
    if own.epoch != answer.epoch:
        return Truncation(min(own.end_offset, log.end), False)
    return Truncation(min(own.end_offset, offset), True)
