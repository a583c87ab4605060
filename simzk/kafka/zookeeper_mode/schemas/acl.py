"""ACLs in `/kafka-acl/...` and `/kafka-acl-extended/...`, and the notifications of changes (docs/reference/kafka.md
§1.2, §1.3).

Rules of the module:
  - the path of a literal resource is `/kafka-acl/Type/name`, of a prefixed one
    `/kafka-acl-extended/prefixed/Type/name`;
  - the notification for a literal resource is the text `Type:name`, for a prefixed one JSON;
  - a reader accepts fields in any order and ignores unknown ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simzk.errors import ZnodeError
from simzk.kafka.metadata.entities import AclEntry, AclResource, is_principal
from simzk.kafka.zookeeper_mode.schemas.json_text import LENIENT, JsonObject, Reading, read_object, shown, write

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS: Final = frozenset({"topic", "group", "cluster", "transactionalid", "delegationtoken"})
PERMISSIONS: Final = frozenset({"allow", "deny"})
OPERATIONS: Final = frozenset(
    {
        *("read", "write", "create", "delete", "alter", "describe", "clusteraction", "all"),
        *("alterconfigs", "describeconfigs", "idempotentwrite"),
    }
)
VERSION = 1


def encode(entries: Iterable[AclEntry]) -> bytes:
    """Encode as Kafka 0.9 to 3.7 does.

    >>> encode([AclEntry("User:alice", "Read")]).decode()
    '{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
    """
    acls = [
        {"principal": e.principal, "permissionType": e.permission, "operation": e.operation, "host": e.host}
        for e in entries
    ]
    return write({"version": VERSION, "acls": acls})


def encode_in_java_order(entries: Iterable[AclEntry]) -> bytes:
    """Encode as Kafka 3.8 and later does: the fields in the order of a Java HashMap.

    >>> encode_in_java_order([AclEntry("User:alice", "Read")]).decode()
    '{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}'
    """
    acls = [
        {"principal": e.principal, "permissionType": e.permission, "host": e.host, "operation": e.operation}
        for e in entries
    ]
    return write({"acls": acls, "version": VERSION})


def decode(path: str, data: bytes | None, reading: Reading = LENIENT) -> tuple[AclEntry, ...]:
    """Decode the ACLs of a resource; a znode without data has none.

    Raises:
        ZnodeError: the data are invalid; names path, field and reason.
    """
    if not data:
        return ()
    fields = read_object(path, data, reading)
    if fields.integer("version") != VERSION:
        raise fields.wrong("version", str(VERSION))
    return tuple(_entry(acl, reading) for acl in fields.objects("acls"))


def _entry(fields: JsonObject, reading: Reading) -> AclEntry:
    entry = AclEntry(
        fields.text("principal"), fields.text("operation"), fields.text("permissionType"), fields.text("host")
    )
    if not is_principal(entry.principal):
        raise fields.wrong("principal", "type:name")
    if reading.rejects_unknown_acls and entry.permission.lower() not in PERMISSIONS:
        raise fields.wrong("permissionType", "Allow or Deny")
    if reading.rejects_unknown_acls and entry.operation.lower() not in OPERATIONS:
        raise fields.wrong("operation", "a known operation such as Read")
    return entry


def encode_change(kind: str, name: str) -> bytes:
    """Encode the notification for a literal resource; from 2.5 on its type is in capitals.

    >>> encode_change("Topic", "t1")
    b'Topic:t1'
    """
    return f"{kind}:{name}".encode()


def decode_change(path: str, data: bytes | None, reading: Reading = LENIENT) -> AclResource:
    """Decode the literal resource of a notification.

    Raises:
        ZnodeError: it names no resource.

    >>> decode_change("/kafka-acl-changes/acl_changes_0", b"TOPIC:a:b")
    AclResource(kind='TOPIC', name='a:b', pattern='LITERAL')
    """
    text = (data or b"").decode(errors="replace")
    kind, colon, name = text.partition(":")
    if not colon or (reading.rejects_unknown_acls and kind.lower() not in KINDS):
        raise ZnodeError(f"contains {shown(text)}", where=path, right="Type:name")
    return AclResource(kind, name)


def encode_extended_change(kind: str, name: str, pattern: str) -> bytes:
    """Encode the notification for a prefixed resource (2.0 and later).

    >>> encode_extended_change("Topic", "pre", "PREFIXED").decode()
    '{"version":1,"resourceType":"Topic","name":"pre","patternType":"PREFIXED"}'
    """
    return write({"version": VERSION, "resourceType": kind, "name": name, "patternType": pattern})
