"""Answers about security, compared with those of real brokers of the same release."""

from __future__ import annotations

import pytest

import simzk
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import NO_ID, RELEASES, replayed
from tests.kafka.client_requests.recorded_admin import comparable, sendable
from tests.kafka.security.recorded_security import exchanges, of_release


@pytest.mark.parametrize("release", [release for release in RELEASES if of_release(release, "story")])
def test_sasl_requests_at_a_port_without_sasl(release: str) -> None:
    with simzk.KafkaCluster(release, 1) as cluster:
        for one in of_release(release, "story"):
            got = comparable(replayed(MemoryClient(cluster, 1), sendable(one), lambda: NO_ID))
            assert got == {"response": comparable(one["response"])}


def test_every_release_is_compared() -> None:
    assert {one["release"] for one in exchanges()} == set(RELEASES[2:])
