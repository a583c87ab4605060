"""AclCommand, Kafka's tool for authorizations, as it works in ZooKeeper with an authorizer of its own.

Rules of the module (docs/reference/kafka.md §1.3; AclAuthorizer and SimpleAclAuthorizer; the recorded stories):
  - the authorizer makes its paths first, one of each type of resource from 1.1 on, and reads what is there;
  - the rules of a resource are one znode, written on condition of the version that was read (from 0.10 on); with the
    last rule the znode goes; each change is announced by a sequential znode;
  - up to 3.8 the tool shows the rules afterwards, with a second authorizer in a second session, which ends first;
  - how releases differ is one row of a table each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from simzk.kafka import paths
from simzk.kafka.requests import AdminResponse, AlterAclsRequest, Error
from simzk.kafka.schemas import acl as acl_schema
from simzk.kafka.schemas.acl import LITERAL, AclEntry, AclResource
from simzk.kafka.zookeeper_client.zk_client import ANY_VERSION, PERSISTENT_SEQUENTIAL, KafkaZooKeeperClient
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.kafka.releases.profile import KafkaVersion
    from simzk.kafka.zookeeper_client.session import ZooKeeperSession

UNKNOWN_VERSION: Final = -2
"""Of a znode that is not there (`ZkVersion.UnknownVersion`)."""
MAX_TRIES = 5
"""How often a write is tried whose znode changed meanwhile (AclAuthorizer.maxUpdateRetries)."""

_KINDS = ("Cluster", "Topic", "Group", "TransactionalId", "DelegationToken", "User")


@dataclass(frozen=True, kw_only=True)
class AclRules:
    """How one range of releases keeps authorizations.

    Args:
        kinds: the types of resources, in the order in which their paths are made at a start; none before 1.1. From 2.5
            on it is that of a set of Java enums, whose hashes are the virtual machine's: one of each release as
            recorded (2.5.1, 2.6.3, 2.7.2, 2.8.2, 3.0.2, 3.2.3, 3.3.2, 3.4.1, 3.6.2, 3.8.1, 3.9.1); another recording
            of 3.9.1 had another.
        prefixed: there are resources that name the beginning of a name (KIP-290).
        changes_first: the parent of notices is made before those of the types.
        conditional: a write asks for the version that was read; 0.9 overwrites whatever is there.
        tries_set: a znode that should not be there is set first, with this version, and created when it is not; None
            where it is created at once.
        conditional_delete: the znode is deleted on condition of its version.
        deletes_nothing: where all rules of a resource are removed that has none, it is deleted all the same, in vain,
            with this version; None where that is not tried.
        announces_nothing: and that is announced (`SimpleAclAuthorizer`, 0.10 to 2.3).
        shows: the tool lists the rules afterwards, in a second session.
        encode: writes the rules of a resource.
        capitals: notices name the type in capitals.
    """

    kinds: tuple[str, ...]
    prefixed: bool
    changes_first: bool
    conditional: bool
    tries_set: int | None
    conditional_delete: bool
    deletes_nothing: int | None
    announces_nothing: bool
    shows: bool
    encode: Callable[[Iterable[AclEntry]], bytes]
    capitals: bool


_3_9: Final = AclRules(
    kinds=("Topic", "TransactionalId", "User", "Group", "Cluster", "DelegationToken"),
    prefixed=True,
    changes_first=False,
    conditional=True,
    tries_set=None,
    conditional_delete=True,
    deletes_nothing=UNKNOWN_VERSION,
    announces_nothing=False,
    shows=False,
    encode=acl_schema.encode_in_java_order,
    capitals=True,
)
_3_8: Final = replace(
    _3_9, kinds=("Cluster", "DelegationToken", "Group", "User", "Topic", "TransactionalId"), shows=True
)
_3_6: Final = replace(
    _3_8,
    kinds=("User", "DelegationToken", "TransactionalId", "Topic", "Cluster", "Group"),
    encode=acl_schema.encode,
)
_3_4: Final = replace(_3_6, kinds=("Topic", "TransactionalId", "User", "Group", "DelegationToken", "Cluster"))
_3_3: Final = replace(_3_4, kinds=("Group", "DelegationToken", "Topic", "TransactionalId", "Cluster", "User"))
_3_2: Final = replace(_3_3, kinds=("Group", "DelegationToken", "Topic", "TransactionalId", "Cluster"))
_3_0: Final = replace(_3_2, kinds=("Group", "Cluster", "Topic", "DelegationToken", "TransactionalId"))
_2_8: Final = replace(_3_0, kinds=("Topic", "Cluster", "Group", "TransactionalId", "DelegationToken"))
_2_7: Final = replace(_2_8, kinds=("DelegationToken", "Topic", "Group", "Cluster", "TransactionalId"))
_2_6: Final = replace(_2_7, kinds=("Topic", "TransactionalId", "Cluster", "DelegationToken", "Group"))
_2_5: Final = replace(_2_6, kinds=("Topic", "Group", "TransactionalId", "Cluster", "DelegationToken"))
_2_4: Final = replace(
    _2_5,
    kinds=("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken"),
    capitals=False,
    deletes_nothing=None,
)
_2_0: Final = replace(_2_4, conditional_delete=False, announces_nothing=True)
_1_1: Final = replace(_2_0, prefixed=False, changes_first=True, tries_set=ANY_VERSION)
_0_10: Final = replace(_1_1, kinds=(), tries_set=0, deletes_nothing=ANY_VERSION)
_0_9: Final = replace(_0_10, conditional=False, tries_set=None, deletes_nothing=None, announces_nothing=False)

_SINCE: Final = (
    ((3, 9, 0), _3_9),
    ((3, 8, 0), _3_8),
    ((3, 6, 0), _3_6),
    ((3, 4, 0), _3_4),
    ((3, 3, 0), _3_3),
    ((3, 2, 0), _3_2),
    ((3, 0, 0), _3_0),
    ((2, 8, 0), _2_8),
    ((2, 7, 0), _2_7),
    ((2, 6, 0), _2_6),
    ((2, 5, 0), _2_5),
    ((2, 4, 0), _2_4),
    ((2, 0, 0), _2_0),
    ((1, 1, 0), _1_1),
    ((0, 10, 0), _0_10),
    ((0, 9, 0), _0_9),
)


def acl_rules_of(number: tuple[int, int, int]) -> AclRules | None:
    """The row of a release; None for those without authorizations, before 0.9.

    >>> acl_rules_of((2, 2, 0)) is acl_rules_of((2, 0, 0)), acl_rules_of((0, 8, 2))
    (True, None)
    """
    return next((rules for since, rules in _SINCE if number >= since), None)


async def run(
    requests: Sequence[AlterAclsRequest], open_session: Callable[[], ZooKeeperSession], version: KafkaVersion
) -> AdminResponse:
    """Carry out a command: a session for the change, a second one within it for what is shown.

    Args:
        requests: what is added and removed, resource by resource.
        open_session: makes a session that is not started yet.
        version: of the tool.
    """
    rules = acl_rules_of(version.number)
    prefixed = any(request.resource.pattern != LITERAL for request in requests)
    if rules is None or (prefixed and not rules.prefixed):
        return AdminResponse(Error.UNSUPPORTED_VERSION, f"Kafka {version.name} has no such authorizations")
    session = open_session()
    await session.start()
    authorizer = Authorizer(KafkaZooKeeperClient(session, version), rules)
    try:
        await authorizer.start()
        for request in requests:
            response = await authorizer.alter(request)
            if response.error != Error.NONE:
                return response
        if rules.shows:
            await _show(open_session(), version, rules)
        return AdminResponse(Error.NONE)
    finally:
        if session.connected:
            await session.close()


async def _show(session: ZooKeeperSession, version: KafkaVersion, rules: AclRules) -> None:
    await session.start()
    await Authorizer(KafkaZooKeeperClient(session, version), rules).start()
    await session.close()


class Authorizer:
    """What keeps authorizations, in a session of the tool's.

    Args:
        client: the tool's use of ZooKeeper.
        rules: those of the release.
    """

    def __init__(self, client: KafkaZooKeeperClient, rules: AclRules) -> None:
        self._client = client
        self._rules = rules

    async def start(self) -> None:
        """Make the paths, and read all rules that are there."""
        if self._rules.kinds:
            for path in self._paths():
                await self._client.create_recursive(path)
        else:
            for path in (paths.ACLS, paths.ACL_CHANGES):
                if not await self._client.exists(path):
                    await self._client.create_recursive(path)
        for store in (paths.ACLS, paths.PREFIXED_ACLS) if self._rules.prefixed else (paths.ACLS,):
            for kind in await self._client.children(store):
                for name in await self._client.children(f"{store}/{kind}"):
                    await self._client.read(f"{store}/{kind}/{name}")

    def _paths(self) -> list[str]:
        literal = [paths.ACLS, *(f"{paths.ACLS}/{kind}" for kind in self._rules.kinds)]
        if not self._rules.prefixed:
            return [literal[0], paths.ACL_CHANGES, *literal[1:]] if self._rules.changes_first else literal
        prefixed = [paths.PREFIXED_ACLS, *(f"{paths.PREFIXED_ACLS}/{kind}" for kind in self._rules.kinds)]
        return [*literal, *prefixed, paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES]

    async def alter(self, request: AlterAclsRequest) -> AdminResponse:
        """Add and remove rules of a resource, and announce it.

        What stays as it is is written again all the same, and is announced by 0.9 alone (`updateResourceAcls`); but 0.9
        writes nothing where nothing is removed.
        """
        path = paths.acl(request.resource)
        for _ in range(MAX_TRIES):
            found = await self._client.read(path)
            present = () if found is None else acl_schema.decode(path, found[0], self._client.version.reading)
            kept = () if request.removed is None else (acl for acl in present if acl not in request.removed)
            wanted = tuple(dict.fromkeys((*kept, *request.added)))
            changes = wanted != present or not (self._rules.conditional or request.removed)
            if not request.added and found is None:
                return await self._remove_nothing(request, path)
            if not changes and (found is None or not self._rules.conditional):
                return AdminResponse(Error.NONE)
            version = None if found is None else found[1].version
            if await self._write(path, wanted, version) == Code.OK:
                if changes:
                    await self._announce(request.resource)
                return AdminResponse(Error.NONE)
        return AdminResponse(Error.UNKNOWN_SERVER_ERROR, f"{path} changed {MAX_TRIES} times meanwhile")

    async def _remove_nothing(self, request: AlterAclsRequest, path: str) -> AdminResponse:
        if self._rules.deletes_nothing is not None:
            await self._client.session.call(Delete(path, self._rules.deletes_nothing))
        if self._rules.announces_nothing and request.removed is None:
            await self._announce(request.resource)
        return AdminResponse(Error.NONE)

    async def _write(self, path: str, wanted: tuple[AclEntry, ...], version: int | None) -> Code:
        call = self._client.session.call
        if not wanted:
            expected = version if version is not None and self._rules.conditional_delete else ANY_VERSION
            return Code((await call(Delete(path, expected))).error)
        data = self._rules.encode(wanted)
        if version is not None:
            return Code((await call(SetData(path, data, version if self._rules.conditional else ANY_VERSION))).error)
        if self._rules.tries_set is not None:
            code = Code((await call(SetData(path, data, self._rules.tries_set))).error)
            if code != Code.NO_NODE:
                return code
        return await self._client.create_recursive(path, data)

    async def _announce(self, resource: AclResource) -> None:
        kind = resource.kind if not self._rules.capitals else _CAPITALS[resource.kind]
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
    """The type of resources as it stands in paths, from any way of writing it.

    >>> kind_of("topic"), kind_of("TRANSACTIONAL_ID"), kind_of("door")
    ('Topic', 'TransactionalId', None)
    """
    plain = name.replace("_", "").replace("-", "").lower()
    return next((kind for kind in _KINDS if kind.lower() == plain), None)
