"""The table of APIs: every API that a release lists has a module, which handles the keys that stand beside it."""

from __future__ import annotations

from importlib import import_module

import pytest

import simzk
from simzk.kafka.client_requests.apis import APIS
from simzk.kafka.client_requests.broker_api import NEED_KRAFT
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.releases.versions import kafka_version

API_VERSIONS = 18
"""`broker_api` answers it."""


@pytest.mark.parametrize("line", ["0.8.2", "0.11", "2.4", "3.9"])
def test_every_api_of_a_release_has_a_module(line: str) -> None:
    listed = set(accepted_versions(kafka_version(line).number))
    assert listed - {API_VERSIONS, *NEED_KRAFT} <= {key for keys in APIS.values() for key in keys}


def test_a_module_handles_the_keys_that_stand_beside_it() -> None:
    with simzk.KafkaCluster("3.9", 1) as cluster:
        for module, keys in APIS.items():
            made = import_module(f"simzk.kafka.client_requests.{module}").handlers(cluster.brokers[1])
            assert sorted(made) == sorted(keys), module
