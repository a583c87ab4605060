"""Clusters below a chroot, and with `zookeeper.set.acl`: trees and ACLs are those of recorded real clusters."""

from __future__ import annotations

import itertools
import json
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.exceptions import NoAuthError

import simzk
from simzk.errors import ConfigError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.cluster.zookeeper_access import ZooKeeperAccess
from simzk.kafka.observation import recording
from simzk.kafka.observation.recording import RecordedZnode, Recording
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction, by_step, load
from tests.kafka.clusters import QUICK, quiet
from tests.kafka.recorded_story import Story, play

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent / "data" / "secured"
RELEASES = tuple(sorted(path.name for path in FOLDER.iterdir() if path.is_dir()))
CHROOT = "/kafka"
OPEN = [[31, "world", "anyone"]]


class SecuredStory(Story):
    """The story of a release, played by brokers that log in, below a chroot; recorded paths are as Kafka calls them."""

    def __init__(self, release: str) -> None:
        super().__init__(release, FOLDER / release, {"zookeeper_chroot": CHROOT, "zookeeper_set_acl": True})
        self.steps_as_written: list[dict[str, Any]] = json.loads((FOLDER / release / "dumps.json").read_text())

    @cached_property
    def transactions(self) -> dict[str, list[RecordedTransaction]]:
        """The transactions of each step, their paths below the chroot."""
        found = by_step(load(FOLDER / self.release / "txns.json"))
        for entry in itertools.chain.from_iterable(found.values()):
            entry.path = entry.path.removeprefix(CHROOT)
        return found

    @cached_property
    def recorded(self) -> Recording:
        """The trees below the chroot."""
        deltas = []
        for entry in self.steps_as_written:
            changed = {
                path.removeprefix(CHROOT): RecordedZnode(
                    *(node[key] for key in ("data", "v", "cv", "av", "eph", "nc", "dl"))
                )
                for path, node in (entry.get("tree") or entry["changed"]).items()
                if path.startswith(f"{CHROOT}/")
            }
            removed = [path.removeprefix(CHROOT) for path in entry.get("removed", []) if path.startswith(f"{CHROOT}/")]
            deltas.append((entry["step"], changed, removed))
        return Recording(FOLDER / self.release, deltas)

    def acls(self, step: str) -> dict[str, list[list[object]]]:
        """The ACL of each znode below the chroot after a step."""
        found: dict[str, list[list[object]]] = {}
        for entry in self.steps_as_written:
            for path, node in (entry.get("tree") or entry["changed"]).items():
                if path.startswith(CHROOT):
                    found[path.removeprefix(CHROOT) or "/"] = node.get("acl", OPEN)
            for path in entry.get("removed", []):
                found.pop(path.removeprefix(CHROOT), None)
            if entry["step"] == step:
                break
        return found


@cache
def whole_story(release: str) -> dict[str, list[str]]:
    """The differences after each step, those of ACLs among them."""
    story = SecuredStory(release)
    found: dict[str, list[str]] = {}
    with story.empty_cluster() as c:
        for step, act in story.steps:
            play(c, act, story.lasts_s(step))
            below = story.recorded.tree(step)
            seen = [str(d) for d in recording.differences(c.tree, {"/": below_root(c), **below})]
            found[step] = [*seen, *acl_differences(c, story.acls(step))]
    return found


def below_root(c: KafkaCluster) -> RecordedZnode:
    """The chroot itself, which is compared apart."""
    node = c.tree.get("/")
    assert node is not None
    stat = node.stat()
    return RecordedZnode(
        None if node.data is None else node.data.decode(),
        stat.version,
        stat.cversion,
        stat.aversion,
        False,
        stat.num_children,
        stat.data_length,
    )


def acl_differences(c: KafkaCluster, recorded: Mapping[str, list[list[object]]]) -> list[str]:
    found = []
    for path, acl in recorded.items():
        node = c.tree.get(path)
        if node is not None:
            ours = [[entry.perms, entry.id.scheme, entry.id.id] for entry in node.acl]
            if ours != acl:
                found.append(f"{path}: acl is {ours}, recorded was {acl}")
    return found


STEPS = [(release, step) for release in RELEASES for step, _ in SecuredStory(release).steps]


@pytest.mark.parametrize("release", RELEASES)
def test_the_chroot_is_made_in_a_session_of_its_own(release: str) -> None:
    reported = [(entry.op, entry.path) for entry in SecuredStory(release).transactions["a1-boot-broker1"]]
    assert reported[:4] == [("createSession", ""), ("create", ""), ("closeSession", ""), ("createSession", "")]
    with SecuredStory(release).empty_cluster() as c:
        seen: list[tuple[str, str]] = []
        c.server.on_transaction.append(
            lambda done: seen.append((type(done.record).__name__, getattr(done.record, "path", "")))
        )
        c.restart(1)
        c.run_for(3)
        assert [name for name, _ in seen[:4]] == [
            "CreateSessionTxn",
            "CreateTxn",
            "CloseSessionTxn",
            "CreateSessionTxn",
        ]
        assert seen[1][1] == CHROOT


@pytest.mark.parametrize("version", ["3.9", "0.10.2"])
def test_who_does_not_log_in_reads_what_is_not_sensitive_and_changes_nothing(version: str) -> None:
    with simzk.KafkaCluster(version, brokers=1, config=QUICK, zookeeper_set_acl=True, zookeeper_chroot=CHROOT) as c:
        c.create_topic("t", partitions=1, replication_factor=1)
        c.add_user("alice", "secret")
        quiet(c)
        stranger = c.zookeeper.client()
        stranger.start()
        assert b"partitions" in stranger.get(f"{CHROOT}/brokers/topics/t")[0]
        with pytest.raises(NoAuthError):
            stranger.get(f"{CHROOT}/config/users/alice")
        with pytest.raises(NoAuthError):
            stranger.create(f"{CHROOT}/admin/delete_topics/t", b"")
        stranger.create(f"{CHROOT}/consumers/g", b"")
        stranger.stop()


def test_a_cluster_below_a_chroot_tells_the_same_history() -> None:
    def state_fields(chroot: str) -> list[str]:
        with KafkaCluster(brokers=3, seed=3, config=QUICK, zookeeper_chroot=chroot, boot=False) as c:
            for broker in (2, 1, 3):
                c.restart(broker)
                quiet(c)
            assert len(c.invariants) > 1
            c.create_topic("t", assignment={0: [1, 2, 3]})
            quiet(c)
            c.kill(1)
            quiet(c)
            c.reassign({("t", 0): [3, 2]})
            quiet(c)
            c.delete_topic("t")
            quiet(c)
            c.check()
            return [f"{event.who} {event.what} {event.subject} {event.after}" for event in c.history]

    assert sorted(state_fields("/a/b")) == sorted(state_fields(""))


@pytest.mark.parametrize(
    ("version", "path", "open_to"),
    [
        ("3.9", "/consumers", "all"),
        ("1.1", "/consumers", "readers"),
        ("1.0", "/consumers", "all"),
        ("0.10.2", "/controller_epoch", "all"),
        ("0.11", "/controller_epoch", "readers"),
        ("0.9", "/config/changes/config_change_", "all"),
        ("1.1", "/config/brokers", "nobody"),
        ("1.0", "/config/users", "nobody"),
        ("0.10.1", "/config/users", "readers"),
    ],
)
def test_what_strangers_may_do_depends_on_the_release(version: str, path: str, open_to: str) -> None:
    """The first three are recorded in 3.9.1, 1.1.1 and 0.10.2.2; the others stand in ZkUtils and ZkData."""
    rights = {"all": [(31, "world")], "readers": [(31, "auth"), (1, "world")], "nobody": [(31, "auth")]}
    acl = ZooKeeperAccess(secure=True).acl(path, kafka_version(version))
    assert [(entry.perms, entry.id.scheme) for entry in acl] == rights[open_to]


def test_a_release_that_sets_no_acls_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"0\.8\.2 sets no ACLs"):
        KafkaCluster("0.8.2", zookeeper_set_acl=True, boot=False)


@pytest.mark.parametrize("chroot", ["kafka", "/kafka/", "/", "/a//b"])
def test_a_chroot_that_is_no_path_is_refused(chroot: str) -> None:
    with pytest.raises(ConfigError, match="is no chroot"):
        KafkaCluster(zookeeper_chroot=chroot, boot=False)


@pytest.mark.parametrize(("release", "step"), STEPS)
def test_each_step_leaves_the_recorded_tree_and_acls(release: str, step: str) -> None:
    assert whole_story(release)[step] == []
