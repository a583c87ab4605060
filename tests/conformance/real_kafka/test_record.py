"""The recorder: its story, its proxies, and a short recording of real brokers that is replayed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

import simzk
from simzk.kafka.zookeeper_mode.replay.actions import actions_of_step
from simzk.zookeeper.requests import Create, SetData
from tests.conformance.real_kafka.proxy import Proxies
from tests.conformance.real_kafka.record import RACKS, STORY, record
from tests.conformance.real_kafka.releases import RELEASES, Release, why_not
from tests.kafka.two_racks import RELEASES as RECORDED
from tests.kafka.two_racks import replayed

if TYPE_CHECKING:
    from pathlib import Path

WHY_NOT = why_not()


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: str(release.version))
def test_the_story_has_one_step_of_a_name_and_actions_that_can_be_replayed(release: Release) -> None:
    steps = [step for step in STORY if step.since <= release.number < step.until]
    names = [step.name.partition("-")[0] for step in steps]
    assert len(names) == len(set(names))
    for step in steps:
        records = step.actions(21)
        actions = actions_of_step(step.name, records, [], 0, 0.0)
        assert len(actions) == len(records)
        assert all(action.broker in {None, *RACKS} for action in actions)


@pytest.mark.parametrize("release", RECORDED)
def test_recordings_have_the_steps_of_the_story(release: str) -> None:
    number = tuple(map(int, release.split(".")))
    steps = [step for step in STORY if step.since <= number < step.until]
    names = [name.partition("-")[0] for name in replayed(release)]
    assert names == [step.name.partition("-")[0] for step in steps]


def test_proxies_name_sessions_and_keep_requests() -> None:
    with simzk.ZooKeeperServer() as server, Proxies(int(server.hosts.rpartition(":")[2]), ["b1", "tool"]) as proxies:
        ids = {}
        for name, port in proxies.ports.items():
            client = KazooClient(f"127.0.0.1:{port}")
            with closing(client):
                client.start()
                ids[name] = client.client_id[0]
                client.create(f"/{name}", b"1")
                client.set(f"/{name}", b"2", version=0)
                client.stop()
        assert [proxies.sessions[ids[name]] for name in ("b1", "tool")] == ["b1#1", "tool#2"]
        kept = [request for (session, _), request in proxies.requests.items() if session == ids["b1"]]
        (created,) = (request for request in kept if isinstance(request, Create))
        (written,) = (request for request in kept if isinstance(request, SetData))
        assert (created.path, created.data, created.flags) == ("/b1", b"1", 0)
        assert written == SetData("/b1", b"2", 0)


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
@pytest.mark.xdist_group("real_kafka")
@pytest.mark.timeout(600)
def test_real_brokers_are_recorded_and_replayed(tmp_path: Path) -> None:
    (release,) = (one for one in RELEASES if one.version == "3.9.1")
    said: list[str] = []
    record(release, tmp_path / "recording", said.append, STORY[:3])
    report = simzk.replay(tmp_path / "recording")
    assert said == [step.name for step in report.steps] == ["a0-empty", "a1-boot-broker11", "a2-boot-broker12"]
    assert report.equal, report.to_text()
