"""ACLs of a broker: AclAuthorizer, SimpleAclAuthorizer.

Rules of this module (docs/reference/kafka.md §1.3):
  - `authorizer.class.name` enables it, whatever its value; clients are at 127.0.0.1, and `User:ANONYMOUS` without login
    and certificate;
  - ACLs are cached. The broker reads all at its start, and one resource for each notification;
  - a Deny wins over every Allow. A resource without ACLs is open to all if `allow.everyone.if.no.acl.found` is true,
    and users in `super.users` may do everything;
  - Read, Write, Delete or Alter allow Describe; AlterConfigs allows DescribeConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simzk.errors import ZnodeError
from simzk.kafka.broker.notifications import Notifications
from simzk.kafka.metadata.entities import LITERAL, PREFIXED, AclEntry, AclResource
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AlterAclsRequest
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import acl as acl_schema
from simzk.kafka.zookeeper_mode.schemas.json_text import read_object
from simzk.kafka.zookeeper_mode.tools.acls import ToolAuthorizer, acl_rules_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.releases.settings import BrokerConfig
    from simzk.kafka.requests import AdminResponse
    from simzk.kafka.zookeeper_mode.client.zk_client import KafkaZooKeeperClient
    from simzk.simulation import Process

CLASS, OPEN, SUPER_USERS = "authorizer.class.name", "allow.everyone.if.no.acl.found", "super.users"
CLUSTER: Final = AclResource("Cluster", "kafka-cluster")
PRINCIPAL, HOST = "User:ANONYMOUS", "127.0.0.1"
ALL, ANY_NAME, ANY_USER, ANY_HOST = "All", "*", "User:*", "*"
_NOT_NAMED = "\0"
"""A name that no resource has, for which ACLs of all names hold."""
NOT_AUTHORIZED = "Request is not authorized."
"""Text of an error; Kafka's has the object of the request, with addresses and identities."""
_IMPLIED: Final = {
    "Describe": ("Describe", "Read", "Write", "Delete", "Alter"),
    "DescribeConfigs": ("DescribeConfigs", "AlterConfigs"),
}
"""Operations that allow another one."""


class Authorizer:
    """ACLs, cached by one broker.

    Attributes:
        acls: the ACLs of each resource.
    """

    def __init__(
        self, process: Process, client: KafkaZooKeeperClient, config: BrokerConfig, now_ms: Callable[[], int]
    ) -> None:
        rules = acl_rules_of(client.version.number)
        self.acls: dict[AclResource, tuple[AclEntry, ...]] = {}
        self.is_enabled = bool(config.given.get(CLASS)) and rules is not None
        self._client = client
        self._is_open = config.given.get(OPEN) == "true"
        self._supers = [user.strip() for user in config.given.get(SUPER_USERS, "").split(";")]
        self._store = None if rules is None else ToolAuthorizer(client, rules)
        self._changes = [AclChanges(process, client, paths.ACL_CHANGES, now_ms, self)]
        if rules is not None and rules.has_prefixed:
            self._changes.append(AclChanges(process, client, paths.EXTENDED_ACL_CHANGES, now_ms, self))

    async def load(self) -> None:
        """Create the paths, and read all ACLs."""
        if self.is_enabled and self._store is not None:
            await self._store.create_paths()
            for resource in await self._store.resources():
                await self.read(resource)
            for changes in self._changes:
                changes.start()

    def handle_new(self) -> None:
        """Read the notifications again, after a new session."""
        if self.is_enabled:
            for changes in self._changes:
                changes.handle_new()

    async def read(self, resource: AclResource) -> None:
        """Read the ACLs of a resource."""
        path = paths.acl(resource)
        found = await self._client.read(path)
        entries: tuple[AclEntry, ...] = ()
        try:
            if found is not None:
                entries = acl_schema.decode(path, found[0], self._client.version.reading)
        except ZnodeError as problem:
            self._client.unusable(problem)
        if entries:
            self.acls[resource] = entries
        else:
            self.acls.pop(resource, None)

    async def alter(
        self, resource: AclResource, added: tuple[AclEntry, ...], removed: tuple[AclEntry, ...]
    ) -> AdminResponse:
        """Add and remove ACLs of a resource in ZooKeeper, and announce the change."""
        assert self._store is not None, "the release has no ACLs"
        assert self.is_enabled
        response = await self._store.alter(AlterAclsRequest(resource, added, removed))
        if response.error == ErrorCode.NONE:
            await self.read(resource)
        return response

    def allows_any(self, operation: str, kind: str, principal: str = PRINCIPAL) -> bool:
        """Return whether a client may do something with any resource of a kind (KIP-679)."""
        names = dict.fromkeys(known.name for known in self.acls if known.kind == kind and known.name != ANY_NAME)
        return any(self.allows(operation, AclResource(kind, name), principal) for name in (*names, _NOT_NAMED))

    def allows(self, operation: str, resource: AclResource, principal: str = PRINCIPAL) -> bool:
        """Return whether a client, such as `User:alice`, may do an operation, such as `Alter`, to a resource.

        Without an authorizer it may.
        """
        if not self.is_enabled or principal in self._supers:
            return True
        entries = [entry for known, of_known in self.acls.items() if _covers(known, resource) for entry in of_known]
        if not entries:
            return self._is_open
        users, hosts = (principal, ANY_USER), (HOST, ANY_HOST)
        mine = [entry for entry in entries if entry.principal in users and entry.host in hosts]
        if any(entry.permission == "Deny" and entry.operation in (operation, ALL) for entry in mine):
            return False
        accepted = (*_IMPLIED.get(operation, (operation,)), ALL)
        return any(entry.permission == "Allow" and entry.operation in accepted for entry in mine)


@dataclass(eq=False)
class AclChanges(Notifications):
    """Notifications of ACL changes."""

    _authorizer: Authorizer

    async def handle(self, path: str, data: bytes | None) -> None:
        """Read the ACLs of a resource that changed."""
        if path.startswith(paths.ACL_CHANGE_PREFIX):
            resource = acl_schema.decode_change(path, data)
        else:
            fields = read_object(path, data)
            resource = AclResource(fields.text("resourceType"), fields.text("name"), fields.text("patternType"))
        kind = kind_of(resource.kind)
        if kind is None:
            raise ZnodeError(f"names a resource of type {resource.kind}", where=path, right="a type of resources")
        await self._authorizer.read(resource._replace(kind=kind))


def _covers(known: AclResource, resource: AclResource) -> bool:
    """Return whether ACLs of one resource apply to another.

    >>> _covers(AclResource("Topic", "ord", PREFIXED), AclResource("Topic", "orders"))
    True
    """
    if known.kind != resource.kind:
        return False
    if known.pattern == LITERAL:
        return known.name in (resource.name, ANY_NAME)
    return known.pattern == PREFIXED and resource.name.startswith(known.name)
