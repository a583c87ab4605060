"""The state machine and the strategies that we offer, run by ourselves as a user would run them."""

from __future__ import annotations

from hypothesis import settings

from simzk.testing import KafkaClusterMachine


class SmallCluster(KafkaClusterMachine):
    """As it comes: three brokers."""


TestSmallCluster = SmallCluster.TestCase
TestSmallCluster.settings = settings(max_examples=30, stateful_step_count=20)
