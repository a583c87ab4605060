"""The state machine and the strategies that we offer, run by ourselves as a user would run them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis.stateful import run_state_machine_as_test

from simzk.testing import ClusterShape, Fault, KafkaClusterMachine, cluster_shapes, fault_schedules, play


class SmallCluster(KafkaClusterMachine):
    """As it comes: three brokers."""


TestSmallCluster = SmallCluster.TestCase
TestSmallCluster.settings = settings(max_examples=30, stateful_step_count=20)
