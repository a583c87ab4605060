"""Configuration of clients, users and addresses: entity types by release, and deletion of empty znodes."""

from __future__ import annotations

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from tests.kafka.clusters import QUICK, quiet

KEYS = {"consumer_byte_rate": "1"}


def altered(version: str, entity: str, changes: dict[str, str | None]) -> tuple[ErrorCode, bool]:
    """Return the response, and whether the znode of the entity exists."""
    with KafkaCluster(version, brokers=1, config=QUICK) as c:
        answer = c.alter_config(entity, changes)
        quiet(c)
        return answer.result().error, f"/config/{entity}" in c.server.tree


@pytest.mark.parametrize(
    ("entity", "taken_from"),
    [
        ("ips/127.0.0.9", "2.8"),
        ("ips/<default>", "2.8"),
        ("clients/c%201", "1.0"),
        ("users/u%401/clients/c%201", "1.0"),
    ],
)
def test_an_entity_is_taken_from_some_release_on(entity: str, taken_from: str) -> None:
    before = {"2.8": "2.7", "1.0": "0.11"}[taken_from]
    assert altered(before, entity, dict(KEYS)) == (ErrorCode.INVALID_REQUEST, False)
    assert altered(taken_from, entity, dict(KEYS)) == (ErrorCode.NONE, True)


@pytest.mark.parametrize(
    "entity", ["ips/no.such.host.example", "doors/1", "users/", "users/a/b", "users/a/clients", "clients/a/b"]
)
def test_what_names_no_entity_is_refused_and_nothing_is_written(entity: str) -> None:
    assert altered("3.9", entity, dict(KEYS)) == (ErrorCode.INVALID_REQUEST, False)


@pytest.mark.parametrize(("version", "stays"), [("3.9", False), ("3.5", False), ("3.4", True), ("1.1", True)])
def test_a_quota_without_keys_goes_with_what_is_empty_above_it(version: str, stays: bool) -> None:
    entity = "users/u/clients/c"
    with KafkaCluster(version, brokers=1, config=QUICK) as c:
        for value in ("1", None):
            c.alter_config(entity, {"consumer_byte_rate": value})
            quiet(c)
        for path in (f"/config/{entity}", "/config/users/u/clients", "/config/users/u"):
            assert (path in c.server.tree) == stays, path
        changes = c.server.tree.get("/config/changes")
        assert changes is not None
        assert len(list(changes.child_names())) == 2


def test_a_users_quota_stays_while_a_client_of_the_user_has_one() -> None:
    with KafkaCluster("3.9", brokers=1, config=QUICK) as c:
        for entity, value in (("users/u", "1"), ("users/u/clients/c", "2"), ("users/u", None)):
            c.alter_config(entity, {"consumer_byte_rate": value})
            quiet(c)
        user = c.server.tree.get("/config/users/u")
        assert user is not None
        assert user.data == b'{"version":1,"config":{}}'
        c.alter_config("users/u/clients/c", {"consumer_byte_rate": None})
        quiet(c)
        assert "/config/users/u" not in c.server.tree
