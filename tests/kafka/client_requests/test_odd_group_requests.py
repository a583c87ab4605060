"""Requests of groups with random content: each is answered or closes the connection, and the groups stay consistent."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import simzk
from simzk.kafka.coordinator.group_coordinator import GroupDescription
from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import encode_request
from simzk.kafka.protocol.structs import ProtocolError
from simzk.kafka.releases.api_versions import accepted_versions
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.protocol.plain import from_plain, random_message, to_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

APIS = (
    *("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
    *("OffsetDelete", "DescribeGroups", "ListGroups", "DeleteGroups"),
)
ROUNDS = 600
LONG = "x" * 40_000
TEXTS: dict[str, Sequence[str]] = {
    "GroupId": ("g", "h", "", LONG),
    "GroupInstanceId": ("i", "i", "j"),
    "ProtocolType": ("consumer", "connect", ""),
    "Name": ("orders", "range", "orders"),
}
"""Values that have a meaning for the cluster, by field."""


def made_plausible(rng: random.Random, value: Any, members: Sequence[str]) -> Any:
    """Return a random message of which most texts and timeouts mean something."""
    if isinstance(value, list):
        return [made_plausible(rng, item, members) for item in value]
    if not isinstance(value, dict):
        return value
    plausible = {}
    for field, item in value.items():
        if field in TEXTS and item is not None and rng.random() < 0.9:
            plausible[field] = rng.choice(TEXTS[field])
        elif field == "MemberId" and item is not None:
            plausible[field] = rng.choice(["", *members])
        elif field == "SessionTimeoutMs":
            plausible[field] = rng.choice([6000, 6000, 10_000, item])
        elif field == "GenerationId":
            plausible[field] = rng.choice([1, 2, 3, item])
        else:
            plausible[field] = made_plausible(rng, item, members)
    return plausible


@pytest.mark.parametrize("release", ["0.8.2", "0.9", "0.11", "2.4", "3.9"])
def test_every_request_is_answered(release: str) -> None:
    rng = random.Random(release)
    config = {"offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 1}
    with simzk.KafkaCluster(release, 1, config=config) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=1)
        cluster.create_topic("__consumer_offsets", partitions=1, replication_factor=1)
        cluster.run_until_quiet()
        accepted = accepted_versions(cluster.brokers[1].version.number)
        apis = [api for api in APIS if message_class(api + "Request").MESSAGE.api_key in accepted]
        clients = []
        for _ in range(ROUNDS):
            kind = message_class(rng.choice(apis) + "Request")
            version = rng.choice(list(accepted[kind.MESSAGE.api_key]))
            described = cluster.brokers[1].groups.describe("g")
            members = described.snapshot.members if isinstance(described, GroupDescription) else ()
            ids = [one.member_id for one in members]
            plain = made_plausible(rng, to_plain(random_message(rng, kind, version), version), ids)
            client = MemoryClient(cluster, 1)
            with suppress(ProtocolError):  # the long text does not fit
                frame = encode_request(from_plain(kind, plain), version, correlation_id=1, client_id="test")
                client.connection.receive(frame)
                clients.append((client, kind, plain))
            cluster.run_for(rng.choice([0.0, 0.01, 1.0]))
            cluster.brokers[1].groups.check()
        cluster.run_for(1)
        waits_long = (message_class("JoinGroupRequest"), message_class("SyncGroupRequest"))
        for client, kind, plain in clients:
            assert client.frames or client.closed or kind in waits_long, (kind, plain)
