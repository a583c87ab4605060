"""The models break and keep what the published modules break and keep, and judge a history step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.models import replication
from tests.models.async_isr import AsyncIsr
from tests.models.exploration import explore
from tests.models.replication import (
    KAFKA_0_10,
    KIP_101,
    KIP_279,
    KIP_320,
    KIP_320_FIRST_TRY,
    PROPERTIES,
    Event,
    canonical,
    is_strong_isr,
    is_weak_isr,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.replication import Action, Model, State, Step


LOSS_OF_0_10 = (
    Event("elect", 0),
    Event("lead", 0, epoch=0),
    Event("follow", 1, leader=0, epoch=0),
    Event("append", 0, epoch=0, offset=1),
    Event("fetch", 1, leader=0, offset=1),
    Event("advance", 0, offset=1),
    Event("elect", 1),
    Event("elect", 0),
    Event("follow", 1, leader=0, epoch=2, offset=0),
)
"""KAFKA-1211: a follower that has the committed record truncates to its own, older high watermark."""


def found(model: Model, *properties: str) -> replication.Event | str:
    chosen = {name: PROPERTIES[name] for name in properties or PROPERTIES}
    return explore(model.start(), model.steps, chosen, canonical=canonical).violated


@pytest.mark.parametrize("name", ["WeakIsr", "StrongIsr"])
def test_truncation_to_the_high_watermark_breaks_both_properties(name: str) -> None:
    model = KAFKA_0_10(replicas=2, records=1, epochs=3)
    result = explore(model.start(), model.steps, {name: PROPERTIES[name]}, canonical=canonical)
    assert result.violated == name
    assert len(result.steps) <= 9
    assert found(model, "LeaderInIsr") == ""


@pytest.mark.slow
def test_kip_101_still_loses_records_at_fast_elections() -> None:
    assert found(KIP_101(replicas=2, records=2, epochs=4), "StrongIsr") == "StrongIsr"
    assert found(KIP_279(replicas=2, records=2, epochs=3), "StrongIsr") == ""


@pytest.mark.parametrize(("replicas", "records", "epochs"), [(2, 2, 3), (3, 1, 2)])
def test_kip_320_keeps_all_properties(replicas: int, records: int, epochs: int) -> None:
    model = KIP_320(replicas, records, epochs)
    result = explore(model.start(), model.steps, PROPERTIES, canonical=canonical)
    assert result.complete
    assert result.violated == ""


def expands_early(model: Model, state: State) -> Iterator[Step]:
    """Add a follower that has the log up to the high watermark, before that is in the own epoch (KAFKA-7128)."""
    return replication._expand(
        model,
        state,
        lambda s, leader, follower: (
            replication._is_in_epoch_of(s, leader, follower)
            and len(s.logs[follower]) >= s.beliefs[leader].high_watermark
        ),
    )


def with_mistake(model: Model, right: Action, wrong: Action) -> Model:
    assert right in model.actions
    return replace(model, actions=tuple(wrong if action is right else action for action in model.actions))


@pytest.mark.slow
def test_kip_320_keeps_strong_isr_with_three_replicas_and_elections() -> None:
    """Each of its fences is needed: without one of them the same bounds show a loss."""
    model = KIP_320(replicas=3, records=1, epochs=3)
    assert found(model) == ""
    early = with_mistake(model, replication.fenced_leader_expands, expands_early)
    assert found(early, "StrongIsr") == "StrongIsr"
    unfenced = with_mistake(model, replication.fenced_leader_advances, replication.leader_advances)
    assert found(unfenced, "StrongIsr") == "StrongIsr"


def test_symmetry_loses_no_violation_and_no_state() -> None:
    for make in (KAFKA_0_10, KIP_320, KIP_320_FIRST_TRY):
        model = make(replicas=2, records=1, epochs=2)
        every = explore(model.start(), model.steps, {})
        some = explore(model.start(), model.steps, {}, canonical=canonical)
        assert some.complete
        assert every.complete
        assert some.states < every.states <= 2 * some.states


def test_a_history_is_judged_step_by_step() -> None:
    assert KAFKA_0_10().judge(LOSS_OF_0_10) is None
    assert KIP_320().judge(LOSS_OF_0_10) == 8, "the leader of epoch 2 does not lead yet, so nobody truncates by its log"
    (*_, after) = _states(KAFKA_0_10(), LOSS_OF_0_10)
    assert not is_strong_isr(after)
    assert not is_weak_isr(after)


def _states(model: Model, events: tuple[Event, ...]) -> Iterator[State]:
    state = model.start()
    for event in events:
        (state,) = model.explain(state, event)
        yield state


@pytest.mark.parametrize(
    ("position", "wrong"),
    [
        (1, Event("lead", 1, epoch=0)),
        (2, Event("follow", 1, leader=0, epoch=1)),
        (3, Event("append", 1)),
        (4, Event("fetch", 1, leader=0, offset=2)),
        (4, Event("advance", 0, offset=1)),
        (5, Event("expand", 1, leader=0)),
        (8, Event("follow", 1, leader=0, epoch=2, offset=1)),
        (8, Event("lead", 0, epoch=0)),
    ],
)
def test_a_step_that_the_protocol_does_not_allow_is_found(position: int, wrong: Event) -> None:
    events = (*LOSS_OF_0_10[:position], wrong)
    assert KAFKA_0_10().judge(events) == position


def test_a_counterexample_is_explained_by_its_own_model() -> None:
    model = KAFKA_0_10(replicas=2, records=1, epochs=3)
    states = {model.start()}
    result = explore(model.start(), model.steps, {"StrongIsr": is_strong_isr})
    for text in result.steps:
        states = {after for state in states for said, after in model.steps(state) if str(said) == text}
        assert states
    assert not all(map(is_strong_isr, states))


@pytest.mark.parametrize(("replicas", "records", "versions"), [(2, 2, 4), (3, 1, 3)])
def test_asynchronous_isr_changes_keep_the_high_watermark_valid(replicas: int, records: int, versions: int) -> None:
    model = AsyncIsr(replicas, records, versions)
    result = explore(model.start(), model.steps, {"valid": model.is_valid_high_watermark})
    assert result.complete
    assert result.violated == ""
    mistaken = AsyncIsr(replicas, records, versions, counts_pending=False)
    result = explore(mistaken.start(), mistaken.steps, {"valid": mistaken.is_valid_high_watermark})
    assert result.violated == "valid", "the high watermark has to count the replicas that were asked for"
