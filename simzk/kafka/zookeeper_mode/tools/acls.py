"""AclCommand, Kafka's ACL tool, with its own authorizer that stores ACLs in ZooKeeper.

Rules of the module (docs/reference/kafka.md §1.3; AclAuthorizer and SimpleAclAuthorizer; the recorded stories):
  - the authorizer first creates its paths, from 1.1 on one for each resource type, and reads all ACLs;
  - the ACLs of a resource are one znode, from 0.10 on written only at the version that was read; it is deleted with the
    last ACL; each change is announced by a sequential znode;
  - up to 3.8 the tool lists the ACLs afterwards, with a second authorizer in a second session, which is closed first;
  - a difference between releases is a field of `AclRules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from simzk.kafka.metadata.entities import LITERAL, PREFIXED, AclEntry, AclResource
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.since import Profile, Release, at_release, before, by_release, since
from simzk.kafka.requests import AdminResponse, AlterAclsRequest
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION, PERSISTENT_SEQUENTIAL, KafkaZooKeeperClient
from simzk.kafka.zookeeper_mode.schemas import acl as acl_schema
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession

UNKNOWN_VERSION: Final = -2
"""Version of a missing znode (`ZkVersion.UnknownVersion`)."""
MAX_TRIES = 5
"""Attempts to write a znode that others change meanwhile (AclAuthorizer.maxUpdateRetries)."""

_KINDS = ("Cluster", "Topic", "Group", "TransactionalId", "DelegationToken", "User")


class AclRules(Profile):
    """Differences between releases in how ACLs are stored."""

    kinds: tuple[str, ...] = by_release(
        (),
        ((1, 1), ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken")),
        ((2, 5), ("Topic", "Group", "TransactionalId", "Cluster", "DelegationToken")),
        ((2, 6), ("Topic", "TransactionalId", "Cluster", "DelegationToken", "Group")),
        ((2, 7), ("DelegationToken", "Topic", "Group", "Cluster", "TransactionalId")),
        ((2, 8), ("Topic", "Cluster", "Group", "TransactionalId", "DelegationToken")),
        ((3, 0), ("Group", "Cluster", "Topic", "DelegationToken", "TransactionalId")),
        ((3, 2), ("Group", "DelegationToken", "Topic", "TransactionalId", "Cluster")),
        ((3, 3), ("Group", "DelegationToken", "Topic", "TransactionalId", "Cluster", "User")),
        ((3, 4), ("Topic", "TransactionalId", "User", "Group", "DelegationToken", "Cluster")),
        ((3, 6), ("User", "DelegationToken", "TransactionalId", "Topic", "Cluster", "Group")),
        ((3, 8), ("Cluster", "DelegationToken", "Group", "User", "Topic", "TransactionalId")),
        ((3, 9), ("Topic", "TransactionalId", "User", "Group", "Cluster", "DelegationToken")),
    )
    """Resource types, in the order in which the authorizer creates their paths.

    From 2.5 on the order is that of a set of Java enums, and their hashes differ between virtual machines: these are
    recorded (2.5.1, 2.6.3, 2.7.2, 2.8.2, 3.0.2, 3.2.3, 3.3.2, 3.4.1, 3.6.2, 3.8.1, 3.9.1); another recording of
    3.9.1 had another order.
    """
    has_prefixed: bool = since((2, 0))
    """A resource may stand for all names with a prefix (KIP-290)."""
    creates_changes_first: bool = before((2, 0))
    """The parent of notifications is created before those of the resource types."""
    is_conditional: bool = since((0, 10, 0))
    """A write requires the version that was read; 0.9 overwrites any version."""
    set_before_create: int | None = by_release(None, ((0, 10, 0), 0), ((1, 1), ANY_VERSION), ((2, 0), None))
    """Version with which a missing znode is set before it is created; None: it is created at once."""
    deletes_conditionally: bool = since((2, 4))
    """A znode is deleted only at the version that was read."""
    delete_of_missing: int | None = by_release(
        None, ((0, 10, 0), ANY_VERSION), ((1, 1), None), ((2, 5), UNKNOWN_VERSION)
    )
    """Version with which a missing znode is deleted (in vain) when all ACLs are removed; None: it is not deleted."""
    announces_unchanged: bool = since((0, 10, 0), before=(2, 4))
    """The removal of all ACLs from a resource without ACLs is announced (SimpleAclAuthorizer)."""
    lists_afterwards: bool = before((3, 9))
    """The tool lists the ACLs after a change, in a second session."""
    encode: Callable[[Iterable[AclEntry]], bytes] = by_release(
        acl_schema.encode, ((3, 8), acl_schema.encode_in_java_order)
    )
    """Encode the ACLs of a resource (§1.2)."""
    has_capital_kinds: bool = since((2, 5))
    """Notifications name the resource type in capitals."""


@cache
def acl_rules_of(number: Release) -> AclRules | None:
    """Return the rules of a release; None: the release has no ACLs (before 0.9).

    >>> acl_rules_of((2, 2, 0)) == acl_rules_of((2, 0, 0)), acl_rules_of((0, 8, 2))
    (True, None)
    """
    return None if number < (0, 9) else at_release(AclRules, number)


async def run(
    requests: Sequence[AlterAclsRequest], open_session: Callable[[], ZooKeeperSession], version: KafkaVersion
) -> AdminResponse:
    """Run a command: a session for the change, and within it a second one for the listing.

    Args:
        requests: added and removed ACLs, by resource.
        open_session: creates a session that is not started.
        version: release of the tool.
    """
    rules = acl_rules_of(version.number)
    prefixed = any(request.resource.pattern != LITERAL for request in requests)
    if rules is None or (prefixed and not rules.has_prefixed):
        return AdminResponse(ErrorCode.UNSUPPORTED_VERSION, f"Kafka {version.name} does not support these ACLs")
    session = open_session()
    await session.start()
    authorizer = ToolAuthorizer(KafkaZooKeeperClient(session, version), rules)
    try:
        await authorizer.start()
        for request in requests:
            response = await authorizer.alter(request)
            if response.error != ErrorCode.NONE:
                return response
        if rules.lists_afterwards:
            listing = open_session()
            await listing.start()
            await ToolAuthorizer(KafkaZooKeeperClient(listing, version), rules).start()
            await listing.close()
        return AdminResponse(ErrorCode.NONE)
    finally:
        if session.connected:
            await session.close()


@dataclass(eq=False)
class ToolAuthorizer:
    """Authorizer of the tool, in one ZooKeeper session.

    Args:
        client: ZooKeeper client of the tool.
        rules: rules of the release.
    """

    _client: KafkaZooKeeperClient
    _rules: AclRules

    async def start(self) -> None:
        """Create the paths, and read all ACLs."""
        await self.create_paths()
        for store, _ in self._stores():
            for kind in await self._client.children(store):
                for name in await self._client.children(f"{store}/{kind}"):
                    await self._client.read(f"{store}/{kind}/{name}")

    async def resources(self) -> list[AclResource]:
        """Return all resources with ACLs."""
        return [
            AclResource(kind, name, pattern)
            for store, pattern in self._stores()
            for kind in await self._client.children(store)
            for name in await self._client.children(f"{store}/{kind}")
        ]

    def _stores(self) -> list[tuple[str, str]]:
        """Return the parents of resources, with the pattern of each."""
        prefixed = [(paths.PREFIXED_ACLS, PREFIXED)] if self._rules.has_prefixed else []
        return [(paths.ACLS, LITERAL), *prefixed]

    async def create_paths(self) -> None:
        """Create the paths."""
        for path in self._paths() if self._rules.kinds else (paths.ACLS, paths.ACL_CHANGES):
            if self._rules.kinds or not await self._client.exists(path):
                await self._client.create_recursive(path)

    def _paths(self) -> list[str]:
        literal = [paths.ACLS, *(f"{paths.ACLS}/{kind}" for kind in self._rules.kinds)]
        if not self._rules.has_prefixed:
            return [literal[0], paths.ACL_CHANGES, *literal[1:]] if self._rules.creates_changes_first else literal
        prefixed = [paths.PREFIXED_ACLS, *(f"{paths.PREFIXED_ACLS}/{kind}" for kind in self._rules.kinds)]
        return [*literal, *prefixed, paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES]

    async def alter(self, request: AlterAclsRequest) -> AdminResponse:
        """Add and remove ACLs of a resource, and announce the change.

        Unchanged ACLs are written again too, and announced by 0.9 only (`updateResourceAcls`); 0.9 writes nothing if
        nothing is removed.
        """
        path = paths.acl(request.resource)
        for _ in range(MAX_TRIES):
            found = await self._client.read(path)
            present = () if found is None else acl_schema.decode(path, found[0], self._client.version.reading)
            kept = () if request.removed is None else (acl for acl in present if acl not in request.removed)
            wanted = tuple(dict.fromkeys((*kept, *request.added)))
            changes = wanted != present or not (self._rules.is_conditional or request.removed)
            if not request.added and found is None:
                return await self._remove_missing(request, path)
            if not changes and (found is None or not self._rules.is_conditional):
                return AdminResponse(ErrorCode.NONE)
            version = None if found is None else found[1].version
            if await self._write(path, wanted, version) == Code.OK:
                if changes:
                    await self._announce(request.resource)
                return AdminResponse(ErrorCode.NONE)
        return AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, f"{path} changed {MAX_TRIES} times meanwhile")

    async def _remove_missing(self, request: AlterAclsRequest, path: str) -> AdminResponse:
        if self._rules.delete_of_missing is not None:
            await self._client.session.call(Delete(path, self._rules.delete_of_missing))
        if self._rules.announces_unchanged and request.removed is None:
            await self._announce(request.resource)
        return AdminResponse(ErrorCode.NONE)

    async def _write(self, path: str, wanted: tuple[AclEntry, ...], version: int | None) -> Code:
        call = self._client.session.call
        if not wanted:
            expected = version if version is not None and self._rules.deletes_conditionally else ANY_VERSION
            return Code((await call(Delete(path, expected))).error)
        data = self._rules.encode(wanted)
        if version is not None:
            return Code((await call(SetData(path, data, version if self._rules.is_conditional else ANY_VERSION))).error)
        if self._rules.set_before_create is not None:
            code = Code((await call(SetData(path, data, self._rules.set_before_create))).error)
            if code != Code.NO_NODE:
                return code
        return await self._client.create_recursive(path, data)

    async def _announce(self, resource: AclResource) -> None:
        kind = resource.kind if not self._rules.has_capital_kinds else _CAPITALS[resource.kind]
        if resource.pattern == LITERAL:
            prefix, data = paths.ACL_CHANGE_PREFIX, acl_schema.encode_change(kind, resource.name)
        else:
            prefix = paths.EXTENDED_ACL_CHANGE_PREFIX
            data = acl_schema.encode_extended_change(kind, resource.name, resource.pattern)
        await self._client.create(prefix, data, PERSISTENT_SEQUENTIAL)


_CAPITALS: Final = dict(
    zip(_KINDS, ("CLUSTER", "TOPIC", "GROUP", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"), strict=True)
)


def kind_of(name: str) -> str | None:
    """Return a resource type in the spelling of paths, or None if the name is not a resource type.

    >>> kind_of("topic"), kind_of("TRANSACTIONAL_ID"), kind_of("door")
    ('Topic', 'TransactionalId', None)
    """
    plain = name.replace("_", "").replace("-", "").lower()
    return next((kind for kind in _KINDS if kind.lower() == plain), None)
