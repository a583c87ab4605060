"""Paths of Kafka's znodes (docs/reference/kafka.md §1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.jvm.numbers import INT_MAX, parse_int
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from simzk.kafka.metadata.entities import AclResource

ACLS = "/kafka-acl"
ACL_CHANGES = "/kafka-acl-changes"
ACL_CHANGE_PREFIX = "/kafka-acl-changes/acl_changes_"
PREFIXED_ACLS = "/kafka-acl-extended/prefixed"
EXTENDED_ACL_CHANGES = "/kafka-acl-extended-changes"
EXTENDED_ACL_CHANGE_PREFIX = "/kafka-acl-extended-changes/acl_changes_"
ADMIN = "/admin"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CLUSTER_ID = "/cluster/id"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
CONSUMERS = "/consumers"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
FEATURE = "/feature"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE_PREFIX = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX = "/log_dir_event_notification/log_dir_event_"
PRODUCER_IDS = "/latest_producer_id_block"

DEFAULT_ENTITY = "<default>"
"""Name of the entity with the default configuration of its type, as in a path."""

SEQUENCE_ID = "/brokers/seqid"
TOKENS = "/delegation_token/tokens"
TOKEN_CHANGES = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX = f"{TOKEN_CHANGES}/token_change_"


def token(token_id: str) -> str:
    """Return the path of a delegation token."""
    return f"{TOKENS}/{token_id}"


def consumer_offset(group_id: str, partition: TopicPartition) -> str:
    """Return the path of a group's offset in a partition, for clients that keep offsets in ZooKeeper."""
    return f"{CONSUMERS}/{group_id}/offsets/{partition.topic}/{partition.partition}"


def broker(broker_id: int) -> str:
    """Return the path of a broker's registration, an ephemeral znode."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """Return the path of a topic, with its replica assignment."""
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    """Return the path of the parent of a topic's partitions."""
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_partition: TopicPartition) -> str:
    """Return the path of the parent of a partition's state."""
    return f"{TOPICS}/{topic_partition.topic}/partitions/{topic_partition.partition}"


def state(topic_partition: TopicPartition) -> str:
    """Return the path of a partition's state, with leader and ISR."""
    return f"{TOPICS}/{topic_partition.topic}/partitions/{topic_partition.partition}/state"


def delete_topic(name: str) -> str:
    """Return the path of the request to delete a topic."""
    return f"{DELETE_TOPICS}/{name}"


def acl(resource: AclResource) -> str:
    """Return the path of the ACLs of a resource."""
    store = ACLS if resource.pattern == "LITERAL" else PREFIXED_ACLS
    return f"{store}/{resource.kind}/{resource.name}"


def config(entity_path: str) -> str:
    """Return the path of an entity's configuration, such as `topics/orders`."""
    return f"{CONFIG}/{entity_path}"


def parent(path: str) -> str:
    """Return the path of the parent, `/` for a child of the root.

    >>> parent("/brokers/ids"), parent("/brokers")
    ('/brokers', '/')
    """
    return path.rpartition("/")[0] or "/"


def state_partition(path: str) -> TopicPartition | None:
    """Return the partition with its state at a path; None for any other path.

    >>> state_partition("/brokers/topics/t/partitions/3/state")
    TopicPartition(topic='t', partition=3)
    >>> state_partition("/brokers/topics/t") is None
    True
    """
    match path.split("/"):
        case ["", "brokers", "topics", name, "partitions", text, "state"] if (number := number_of(text)) is not None:
            return TopicPartition(name, number)
    return None


def number_of(name: str) -> int | None:
    """Parse the number of a partition or broker in the form that Kafka writes; return None for any other name.

    >>> number_of("12"), number_of("012"), number_of("²")
    (12, None, None)
    """
    if not (name.isascii() and name.isdigit()) or len(name) > len(str(INT_MAX)) or (name[0] == "0" and name != "0"):
        return None
    number = int(name)
    return number if number <= INT_MAX else None


def broker_id(name: str) -> int:
    """Parse the broker id of a child of `/brokers/ids`, as Java does.

    Raises:
        ZnodeError: the name is not a broker id.
    """
    number = parse_int(name)
    if number is None or number < 0:
        raise ZnodeError("is not a broker id", where=f"{BROKER_IDS}/{name}", right="a number of 32 bits")
    return number
