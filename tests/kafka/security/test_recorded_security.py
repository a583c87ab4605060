"""Answers about security, compared with those of real brokers of the same release."""

from __future__ import annotations

import json
from typing import Any

import pytest

import simzk
from simzk.kafka.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from simzk.kafka.releases.config_keys import broker_keys
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.client_requests.recorded import NO_ID, RELEASES, replayed
from tests.kafka.client_requests.recorded_admin import PROPERTIES, comparable
from tests.kafka.security.recorded_security import exchanges, of_release

WITH_AUTHORIZER = [release for release in RELEASES if of_release(release, "second")]
COMPARED_TOPICS = ("auto0", "secret", "deniedauto")
"""Topics of the recorded clusters that Metadata of all topics is compared for; there were others."""
PREPARE = ("allow", "deny")
"""First words of the steps that change ACLs."""
NOT_COMPARED = {
    ("denied: create: auto", "Metadata"): "allowed from 2.0 on; how soon the topic is there is chance",
    ("denied: create: create-topics", "CreateTopics"): "allowed from 2.0 on; how soon the topic is there is chance",
}
CREATES_BY_TOPIC = (2, 0)


@pytest.mark.parametrize("release", [release for release in RELEASES if of_release(release, "story")])
def test_sasl_requests_at_a_port_without_sasl(release: str) -> None:
    with simzk.KafkaCluster(release, 1) as cluster:
        for one in of_release(release, "story"):
            got = comparable(replayed(MemoryClient(cluster, 1), one, lambda: NO_ID))
            assert got == {"response": comparable(one["response"])}


def secured(release: str) -> simzk.KafkaCluster:
    """Return one broker with an authorizer and internal topics, as in the second recording."""
    known = broker_keys(kafka_version(release).number)
    config: dict[str, str | int | bool] = {key: value for key, value in PROPERTIES.items() if key in known}
    config |= {key: 1 for key in config if key.endswith("replication.factor")}
    config |= {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    config |= {"allow.everyone.if.no.acl.found": True, "auto.create.topics.enable": True}
    cluster = simzk.KafkaCluster(release, 1, {1: "rack1"}, config=config)
    cluster.create_topic("auto0", assignment={0: [1]})
    MemoryClient(cluster, 1).call(FindCoordinatorRequest(key="any"), 0, FindCoordinatorResponse)
    cluster.run_until_quiet()
    return cluster


def is_compared(one: dict[str, Any], release: str) -> bool:
    """Return whether an exchange is compared; the others prepare the next ones."""
    if one["step"].startswith("make topic"):
        return False
    step = (one["step"], one["api"])
    return kafka_version(release).number < CREATES_BY_TOPIC or step not in NOT_COMPARED


def with_compared_topics(answer: Any) -> Any:
    """Return an answer to Metadata without the topics that the simulated cluster does not have."""
    response = answer.get("response") or {}
    if "Brokers" in response and "Topics" in response:
        kept = [topic for topic in response["Topics"] if topic["Name"] in (None, "", *COMPARED_TOPICS)]
        return {"response": response | {"Topics": kept}}
    return answer


@pytest.mark.parametrize("release", WITH_AUTHORIZER)
def test_what_an_authorizer_denies(release: str) -> None:
    found, compared = [], 0
    with secured(release) as cluster:

        def secret_id() -> str:
            return cluster.brokers[1].metadata.topic_ids.get("secret", NO_ID)

        for one in of_release(release, "second"):
            client = MemoryClient(cluster, 1)
            got = with_compared_topics(comparable(replayed(client, one, secret_id)))
            client.connection.hang_up()
            if one["step"].startswith((*PREPARE, "make topic")):
                cluster.run_until_quiet()
            wanted = {name: one[name] for name in ("response", "closed", "no_answer") if name in one}
            wanted = with_compared_topics(comparable(wanted))
            if is_compared(one, release):
                compared += 1
                if got != wanted:
                    found.append(
                        f"{one['step']} | {one['api']} v{one['version']}: {json.dumps(wanted)}, {json.dumps(got)}"
                    )
    assert found == []
    assert compared > 75


def test_every_release_is_compared() -> None:
    assert {one["release"] for one in exchanges()} == set(RELEASES[2:])
