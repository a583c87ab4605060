"""ACLs written by the release's tool, beyond the recorded stories."""

from __future__ import annotations

import pytest

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import acl
from tests.kafka.clusters import cluster, happened, quiet
from tests.kafka.foreign_znodes import decode_extended_change

ALICE, BOB = AclEntry("User:alice", "Read"), AclEntry("User:bob", "Write", "Deny", "127.0.0.9")
RESOURCE = "/kafka-acl/Group/g"


def test_acls_are_added_and_removed_and_the_znode_with_the_last() -> None:
    with cluster(1) as c:
        c.add_acls("group", "g", [ALICE, BOB])
        quiet(c)
        assert c.acls("group", "g") == (ALICE, BOB)
        c.remove_acls("group", "g", [ALICE])
        quiet(c)
        assert c.acls("group", "g") == (BOB,)
        node = c.server.tree.get(RESOURCE)
        assert node is not None
        assert node.version == 1
        c.remove_acls("group", "g", [BOB])
        quiet(c)
        assert c.server.tree.get(RESOURCE) is None
        assert c.acls("group", "g") == ()


def test_unchanged_acls_are_not_written() -> None:
    with cluster(1) as c:
        c.add_acls("group", "g", [ALICE])
        quiet(c)
        c.add_acls("group", "g", [ALICE])
        c.remove_acls("group", "g", [BOB])
        c.remove_acls("topic", "t")
        quiet(c)
        node = c.server.tree.get(paths.ACL_CHANGES)
        assert node is not None
        assert sorted(node.child_names()) == ["acl_changes_0000000000"]


def test_an_invalid_acl_znode_is_left_unchanged() -> None:
    with cluster(1) as c:
        c.add_acls("group", "g", [ALICE])
        quiet(c)
        c.write_znode(RESOURCE, '{"version":1,"acls":[{"principal":7}]}')
        quiet(c)
        answer = c.add_acls("group", "g", [BOB])
        quiet(c)
        assert answer.result().error == ErrorCode.UNKNOWN_SERVER_ERROR
        assert RESOURCE in answer.result().message
        assert "acls[0].principal" in answer.result().message
        assert happened(c, "refused") == ["authorize group g"]
        with pytest.raises(ZnodeError, match="principal"):
            c.acls("group", "g")


def test_a_release_without_prefixes_rejects_them() -> None:
    with KafkaCluster("1.1", brokers=1) as c:
        answer = c.add_acls("topic", "pre", [ALICE], prefixed=True)
        quiet(c)
        assert answer.result().error == ErrorCode.UNSUPPORTED_VERSION


def test_invalid_calls_are_rejected() -> None:
    with cluster(1) as c:
        with pytest.raises(ConfigError, match="no resource of type 'door'"):
            c.add_acls("door", "t", [ALICE])
        with pytest.raises(ConfigError, match="cannot be called"):
            c.add_acls("topic", "a/b", [ALICE])
        with pytest.raises(ConfigError, match="no rule"):
            c.add_acls("topic", "t", [])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b'{"version":2,"acls":[]}', "field version is 2; expected 1"),
        (b'{"version":1}', "field acls is missing; expected a list of objects"),
        (b'{"version":1,"acls":[{"principal":"User:a"}]}', "field acls[0].operation is missing; expected a string"),
    ],
)
def test_errors_name_path_field_and_accepted_values(data: bytes, complaint: str) -> None:
    with pytest.raises(ZnodeError) as raised:
        acl.decode("/z", data)
    assert str(raised.value) == f"/z: {complaint}"


def test_invalid_notifications_are_rejected() -> None:
    with pytest.raises(ZnodeError, match="Type:name"):
        acl.decode_change("/z", b"t1")
    with pytest.raises(ZnodeError, match="patternType"):
        decode_extended_change("/z", b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"SOME"}')
