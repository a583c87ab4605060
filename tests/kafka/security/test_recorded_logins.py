"""Logins and permissions at simulated brokers, compared with those at real ones, every field of every answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import simzk
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests.memory_client import MemoryClient
from tests.kafka.security import login_stories
from tests.kafka.security.recorded_logins import comparable, conversations

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = tuple(dict.fromkeys(one["release"] for one in conversations()))


class SimulatedWire:
    """A connection to a simulated broker.

    Args:
        cluster: its cluster.
        broker: its id.
    """

    def __init__(self, cluster: simzk.KafkaCluster, broker: int = 1) -> None:
        self._cluster = cluster
        self._client = MemoryClient(cluster, broker)

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self._client.connection.receive(frame)

    def wait(self, limit_s: float) -> bytes | None:
        """Return the next frame; None if the connection is closed, or nothing comes."""
        began_us, limit_us = self._cluster.scheduler.now_us, round(limit_s * 1_000_000)
        frame = self._client.wait(limit_s)
        if frame is None and not self._client.closed:
            self._cluster.run_for((began_us + limit_us - self._cluster.scheduler.now_us) / 1_000_000)
        return frame

    @property
    def closed(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._client.closed

    def now_s(self) -> float:
        """Return the time."""
        return self._cluster.scheduler.now_us / 1_000_000

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._cluster.run_for(seconds)

    def end(self) -> None:
        """Close the connection."""
        self._client.connection.hang_up()


def cluster_of(release: str) -> simzk.KafkaCluster:
    """Return a broker with the settings, users, ACLs and topics of the recorded one."""
    number = kafka_version(release).number
    config: dict[str, str | int | bool] = dict(login_stories.settings(number))
    config["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = login_stories.JAAS
    cluster = simzk.KafkaCluster(release, 1, {1: "rack1"}, config=config, security="SASL_PLAINTEXT")
    for name, passwords in login_stories.CREDENTIALS.items() if number >= (0, 10, 2) else ():
        for mechanism, password in passwords.items():
            cluster.add_user(name, password, mechanism=mechanism, salt=login_stories.SALT)
            cluster.run_until_quiet()
    for (kind, name), entries in login_stories.acls(number).items():
        cluster.add_acls(kind.lower(), name, entries)
        cluster.run_until_quiet()
    for topic in login_stories.TOPICS:
        cluster.create_topic(topic, assignment={0: [1]})
    cluster.run_until_quiet()
    return cluster


def played(release: str) -> Iterator[dict[str, Any]]:
    """Tell the stories to a simulated broker; yield what was written down."""
    with cluster_of(release) as cluster:
        number = tuple(int(part) for part in release.split("."))
        yield from login_stories.play(number, lambda: SimulatedWire(cluster))


@pytest.mark.parametrize("release", RELEASES)
def test_logins_and_permissions_are_those_of_real_brokers(release: str) -> None:
    wanted = {(one["story"], one["talk"]): one["lines"] for one in conversations() if one["release"] == release}
    got = {(one["story"], one["talk"]): one["lines"] for one in played(release)}
    assert list(got) == list(wanted)
    different = []
    for name, lines in wanted.items():
        for place, (one, other) in enumerate(zip(comparable(lines), comparable(got[name]), strict=False)):
            if one != other:
                different.append(f"{name} {place}\n  {json.dumps(one)}\n  {json.dumps(other)}")
                break
        else:
            if len(lines) != len(got[name]):
                different.append(f"{name}: {len(lines)} lines, {len(got[name])}")
    assert different == [], "\n".join(different)
