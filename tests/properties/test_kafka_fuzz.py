"""A share of the rounds of `kafka_fuzz`: mutated requests to four releases, at ports with and without SASL."""

from __future__ import annotations

import pytest

from tests.properties.kafka_fuzz import FRAMES_A_ROUND, RELEASES, ROUNDS_A_CLUSTER, fuzz

pytestmark = pytest.mark.slow

ROUNDS = 20


@pytest.mark.parametrize("place", range(2 * len(RELEASES)), ids=[*RELEASES, *(f"{one}-sasl" for one in RELEASES)])
def test_mutated_requests_break_no_broker(place: int) -> None:
    assert fuzz(ROUNDS * FRAMES_A_ROUND, seed=7, first=place * ROUNDS_A_CLUSTER) == ROUNDS
