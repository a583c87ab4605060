"""A share of the rounds of `kafka_fuzz`: mutated requests to brokers of four releases."""

from __future__ import annotations

import pytest

from tests.properties.kafka_fuzz import FRAMES_A_ROUND, RELEASES, ROUNDS_A_CLUSTER, fuzz

ROUNDS = 20


@pytest.mark.parametrize("place", range(len(RELEASES)), ids=RELEASES)
def test_mutated_requests_break_no_broker(place: int) -> None:
    assert fuzz(ROUNDS * FRAMES_A_ROUND, seed=7, first=place * ROUNDS_A_CLUSTER) == ROUNDS
