"""Fetch sessions of clients beside a model that follows FetchSession.scala line by line."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simzk.kafka.client_requests.records.fetch_sessions import (
    EVICTED_AFTER_MS,
    AskedPartition,
    ClientSession,
    Fetching,
    FetchKey,
    FetchSessionCache,
    Sent,
)
from simzk.kafka.protocol.errors import ErrorCode

IDS = tuple("abcd")


@dataclass
class CachedPartition:
    """CachedPartition: what a request asks of a partition, and the offsets of the last response."""

    asked: AskedPartition
    high_watermark: int = -1
    log_start: int = -1

    def must_respond(self, now: Sent, *, has_records: bool, has_error: bool) -> bool:
        """Follow maybeUpdateResponseData."""
        must = has_records or has_error or (self.high_watermark, self.log_start) != now
        self.high_watermark, self.log_start = now
        if has_error:
            self.high_watermark = -1
        return must


@dataclass
class ModelSession:
    """FetchSession, with the keys under which FetchSessionCacheShard.touch files it."""

    id: int
    privileged: bool
    uses_topic_ids: bool
    created_ms: int
    partitions: dict[FetchKey, CachedPartition]
    epoch: int = 1
    last_used_ms: int = 0
    cached_size: int = -1

    @property
    def evictable_key(self) -> tuple[bool, int, int]:
        return self.privileged, self.cached_size, self.id


@dataclass
class ModelShard:
    """FetchSessionCacheShard: the sessions, and those that a client or a follower may replace."""

    slots: int
    sessions: dict[int, ModelSession] = field(default_factory=dict)
    by_all: dict[tuple[bool, int, int], ModelSession] = field(default_factory=dict)
    by_privileged: dict[tuple[bool, int, int], ModelSession] = field(default_factory=dict)

    def remove(self, session: ModelSession) -> None:
        del self.sessions[session.id]
        self.by_all.pop(session.evictable_key, None)
        self.by_privileged.pop(session.evictable_key, None)

    def touch(self, session: ModelSession, now_ms: int) -> None:
        session.last_used_ms = now_ms
        self.by_all.pop(session.evictable_key, None)
        self.by_privileged.pop(session.evictable_key, None)
        session.cached_size = len(session.partitions)
        is_old = now_ms - session.created_ms > EVICTED_AFTER_MS
        if not session.privileged or is_old:
            self.by_privileged[session.evictable_key] = session
        if is_old:
            self.by_all[session.evictable_key] = session

    def try_evict(self, key: tuple[bool, int, int], now_ms: int) -> bool:
        if not self.sessions:
            return False
        stale = min(self.sessions.values(), key=lambda one: (one.last_used_ms, one.id))
        if now_ms - stale.last_used_ms > EVICTED_AFTER_MS:
            self.remove(stale)
            return True
        evictable = self.by_privileged if key[0] else self.by_all
        if not evictable or key < min(evictable):
            return False
        self.remove(evictable[min(evictable)])
        return True


class Step(NamedTuple):
    """A request after a time, and what its response says of each partition, by number.

    Args:
        session: which of the sessions that ever were is named; there may be none.
        epoch: -1, 0, 1 for the epoch of the session, 2 for the one after it.
        learned: how many ids of topics the broker has names for.
    """

    wait_ms: int
    session: int
    epoch: int
    asked: tuple[int, ...]
    forgotten: tuple[int, ...]
    uses_topic_ids: bool
    is_privileged: bool
    learned: int
    news: tuple[str, ...]


STEPS = st.builds(
    Step,
    st.sampled_from([0, 0, 1, EVICTED_AFTER_MS - 1, EVICTED_AFTER_MS, EVICTED_AFTER_MS + 1]),
    st.integers(0, 2),
    st.sampled_from([0, 0, 1, 1, 1, 1, 1, 1, -1, 2]),
    st.lists(st.integers(0, 3), unique=True, max_size=4).map(tuple),
    st.lists(st.integers(0, 3), unique=True, max_size=2).map(tuple),
    st.sampled_from([True] * 11 + [False]),
    st.booleans(),
    st.integers(1, 4),
    st.tuples(*[st.sampled_from(["", "", "records", "error", "watermark", "start"])] * 4),
)


NOTHING = ("",) * 4


def key_of(number: int) -> FetchKey:
    return IDS[number], 0


@settings(max_examples=200)
@given(st.integers(0, 4), st.integers(1, 2), st.lists(STEPS, min_size=1, max_size=12))
@example(  # the partition that had records is served last from then on; the session has them as 2, 1, 0
    1,
    1,
    [
        Step(0, 0, 0, (0, 1, 2), (), True, False, 4, NOTHING),
        Step(0, 0, 1, (), (), True, False, 4, ("", "", "records", "")),
        Step(0, 0, 1, (), (), True, False, 4, NOTHING),
        Step(0, 0, 1, (1,), (0,), True, False, 4, ("", "records", "", "")),
        Step(0, 0, 1, (), (), True, False, 4, NOTHING),
    ],
)
@example(  # an id that was unknown gets its name later, and keeps it; a full request ends the session that it names
    2,
    1,
    [
        Step(0, 0, 0, (3,), (), True, False, 2, ("error",) * 4),
        Step(0, 0, 1, (), (), True, False, 4, NOTHING),
        Step(0, 0, 1, (3,), (), True, False, -1, NOTHING),
        Step(0, 0, 0, (0,), (), True, False, 4, NOTHING),
        Step(0, 0, 1, (), (), True, False, 4, NOTHING),
    ],
)
@example(  # a follower replaces a client's session, but no other follower's
    1,
    1,
    [
        Step(0, 9, 0, (0, 1), (), True, False, 4, NOTHING),
        Step(0, 9, 0, (0,), (), True, True, 4, NOTHING),
        Step(0, 9, 0, (0, 1, 2), (), True, True, 4, NOTHING),
    ],
)
@example(  # a session that was last used exactly two minutes ago is not stale; a larger one may replace an older one
    1,
    1,
    [
        Step(0, 0, 0, (0, 1), (), True, False, 4, NOTHING),
        Step(EVICTED_AFTER_MS, 0, 1, (), (), True, False, 4, NOTHING),
        Step(0, 9, 0, (0, 1, 2), (), True, False, 4, NOTHING),
        Step(1, 9, 0, (0, 1, 2), (), True, False, 4, NOTHING),
        Step(1, 0, 1, (), (), True, False, 4, NOTHING),
    ],
)
@example(
    1,
    1,
    [
        Step(0, 0, 0, (0, 1), (), True, False, 4, NOTHING),
        Step(EVICTED_AFTER_MS, 9, 0, (0,), (), True, False, 4, NOTHING),
    ],
)
def test_sessions_are_those_of_the_real_cache(slots: int, shards: int, steps: list[Step]) -> None:
    names: dict[str, str] = {}
    cache = FetchSessionCache(slots, shards, count(1).__next__, names.get)
    model = [ModelShard(slots // shards) for _ in range(shards)]
    numbers, opened, now_ms = count(1), 0, 0
    known: list[int] = []
    offsets = [Sent(0, 0)] * len(IDS)
    for at, step in enumerate(steps):
        now_ms += step.wait_ms
        names.clear()  # a deleted topic has no name any more
        names.update({name: name * 2 for name in IDS[: max(step.learned, 0)]})
        for number, news in enumerate(step.news):
            mark, start = offsets[number]
            offsets[number] = Sent(mark + (news == "watermark"), start + (news == "start"))
        asked = {
            key_of(number): AskedPartition(names.get(IDS[number]), at, number, topic_id=IDS[number])
            for number in step.asked
        }
        forgotten = [key_of(number) for number in step.forgotten]
        session_id = known[step.session % len(known)] if known and step.session < 9 else 7000
        shard, theirs = next(
            ((one, one.sessions[session_id]) for one in model if session_id in one.sessions), (model[0], None)
        )
        epoch = step.epoch if step.epoch < 1 else (theirs.epoch if theirs else 1) + step.epoch - 1
        found = cache.begin(session_id, epoch, asked, forgotten, now_ms, uses_topic_ids=step.uses_topic_ids)
        expected: ErrorCode | list[tuple[FetchKey, AskedPartition]]
        if step.epoch < 1:
            if theirs is not None:
                shard.remove(theirs)
            expected = list(asked.items())
        elif theirs is None:
            expected = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif theirs.epoch != epoch:
            expected = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        elif theirs.uses_topic_ids != step.uses_topic_ids:
            expected = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        else:
            for key, one in asked.items():
                cached = theirs.partitions.get(key)
                if cached is None:
                    theirs.partitions[key] = CachedPartition(one)
                else:  # the name stays
                    cached.asked = one._replace(topic=cached.asked.topic)
            for key in forgotten:
                theirs.partitions.pop(key, None)
            for cached in theirs.partitions.values():  # maybeResolveUnknownName
                if cached.asked.topic is None:
                    cached.asked = cached.asked._replace(topic=names.get(cached.asked.topic_id))
            expected = [(key, cached.asked) for key, cached in theirs.partitions.items()]
            if not theirs.partitions:
                shard.remove(theirs)
                expected, theirs = list(asked.items()), None
            else:
                shard.touch(theirs, now_ms)
                theirs.epoch += 1
        if isinstance(found, ErrorCode):
            assert found == expected
        else:
            assert list(found.partitions.items()) == expected
            said = {key: _said(key, step, offsets) for key in found.partitions}
            if step.epoch == 0:
                assert found.opens
                shard = model[opened % shards]
                opened += 1
                number = 0
                if len(shard.sessions) < shard.slots or shard.try_evict((step.is_privileged, len(asked), 0), now_ms):
                    number = next(numbers)
                    cached_parts = {key: CachedPartition(asked[key], *now) for key, now in reversed(said.items())}
                    made = ModelSession(number, step.is_privileged, step.uses_topic_ids, now_ms, cached_parts)
                    shard.sessions[number] = made
                    shard.touch(made, now_ms)
                    known.append(number)
                order = dict(reversed(said.items()))
                kinds = {"is_privileged": step.is_privileged, "uses_topic_ids": step.uses_topic_ids}
                assert cache.open(asked, order, now_ms, **kinds) == number
            elif step.epoch == -1 or theirs is None:
                assert (found.opens, found.session, found.is_full) == (False, None, True)
            else:
                assert found.session is not None
                assert (found.session.id, found.epoch, found.is_full) == (theirs.id, theirs.epoch, False)
                _compare_responses(found, found.session, theirs, step, said)
        assert list(cache.sessions) == [number for shard in model for number in shard.sessions]


def _said(key: FetchKey, step: Step, offsets: list[Sent]) -> Sent:
    """Return the offsets of a partition in a response; none with an error."""
    number = IDS.index(key[0])
    return Sent(-1, -1) if step.news[number] == "error" else offsets[number]


def _compare_responses(
    found: Fetching, ours: ClientSession, theirs: ModelSession, step: Step, said: dict[FetchKey, Sent]
) -> None:
    """Compare which partitions a response names (IncrementalFetchContext.PartitionIterator)."""
    for key in found.partitions:
        news = step.news[IDS.index(key[0])]
        has_records, has_error = news == "records", news == "error"
        cached = theirs.partitions[key]
        must = cached.must_respond(said[key], has_records=has_records, has_error=has_error)
        if has_records:
            theirs.partitions[key] = theirs.partitions.pop(key)
        assert ours.is_due(key, said[key], has_news=has_records or has_error, has_records=has_records) == must


@pytest.mark.parametrize(("epoch", "then"), [(1, 2), (2**31 - 2, 2**31 - 1), (2**31 - 1, 1)])
def test_epochs_begin_again_with_1(epoch: int, then: int) -> None:
    """Skip 0, which begins a session, and -1, which ends one (FetchMetadata.nextEpoch)."""
    session = ClientSession(7, epoch=epoch)
    session.use(0)
    assert session.epoch == then
