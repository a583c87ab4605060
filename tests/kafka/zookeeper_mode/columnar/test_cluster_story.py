"""The same story in clusters with topics as columns and as objects, with clients and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simzk.kafka.cluster import cluster as cluster_module
from tests.kafka.zookeeper_mode.columnar.cluster_arms import (
    ALL,
    BROKERS,
    BY_SINGLE_REQUESTS,
    CLIENT_STEPS,
    OBJECTS,
    Arms,
    layout_of,
)

if TYPE_CHECKING:
    from tests.kafka.zookeeper_mode.columnar.cluster_arms import Kind

pytestmark = pytest.mark.slow

Step = tuple[str, int, int, float | None]

FAILURES = ("kill", "kill", "restart", "restart", "shutdown", "expire", "pause", "resume", "disconnect")
CUTS = ("cut", "cut off", "heal")
ORDERS = ("create", "grow", "delete", "elect", "elect uncleanly", "reassign", "reassign", "cancel")


@pytest.fixture(autouse=True)
def constant_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set one latency for all messages, so that single requests arrive together as a batch does."""
    monkeypatch.setattr(cluster_module, "LATENCY_US", (400, 400))


def steps(verbs: tuple[str, ...], paces: st.SearchStrategy[float | None]) -> st.SearchStrategy[list[Step]]:
    one = st.tuples(st.sampled_from(verbs), st.integers(0, BROKERS - 1), st.integers(0, 47), paces)
    return st.lists(one, min_size=3, max_size=10)


def play_story(kinds: tuple[Kind, ...], story: list[Step], seed: int, version: str) -> Arms:
    arms = Arms(layout_of(24, seed), seed=seed, version=version, kinds=kinds)
    for step in story:
        arms.play(*step)
    arms.play("heal", 0, 0)
    return arms


EXAMPLES = max(5, settings().max_examples // 16)
QUICKLY = st.sampled_from([None, None, 0.0, 0.001, 0.3, 5.0])
VERSIONS = st.sampled_from(["3.9", "3.3", "2.8", "2.7"])


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    story=steps((*FAILURES, *CUTS, *ORDERS, *CLIENT_STEPS, "listen"), QUICKLY), seed=st.integers(0, 3), version=VERSIONS
)
def test_columns_equal_objects_for_clients(story: list[Step], seed: int, version: str) -> None:
    """Compare batches with single requests under any steps."""
    play_story((BY_SINGLE_REQUESTS, OBJECTS), story, seed, version)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(story=steps((*FAILURES, *ORDERS, *CLIENT_STEPS, "listen"), st.none()), seed=st.integers(0, 3), version=VERSIONS)
def test_batches_over_columns_leave_what_single_requests_leave_in_objects(
    story: list[Step], seed: int, version: str
) -> None:
    """Leave out repeated failovers, in which the order of elections among equal partitions is random."""
    play_story(ALL, story, seed, version)


def test_a_state_that_cannot_be_read() -> None:
    """Each new controller fails on invalid data until it is repaired."""
    arms = Arms(layout_of(24), kinds=(BY_SINGLE_REQUESTS, OBJECTS))
    arms.play("write what cannot be read", 1, 3, 1.0)
    arms.play("kill", 0, 0, 18.5)
    stumbled = [event.who for event in arms.arms[0].history if event.what == "failover failed"]
    assert len(set(stumbled)) > 1
    arms.play("write by condition", 1, 3)
    assert arms.arms[0].controller is not None
