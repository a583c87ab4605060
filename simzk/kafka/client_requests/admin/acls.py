"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140; prefixed patterns KIP-290).

Rules of this module (AclApis, AclAuthorizer; recorded 0.11 to 3.9, with and without an authorizer):
  - any broker answers from its cache, and writes to ZooKeeper itself;
  - up to 2.3 each ACL of a request is created or fails by itself; from 2.4 on an ACL that cannot be decoded fails all;
  - a filter with an unknown type matches nothing, from 2.8 on it closes the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ZnodeError
from simzk.kafka.broker.authorizer import CLUSTER, NOT_AUTHORIZED
from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.metadata.entities import LITERAL, PREFIXED, AclEntry, AclResource, is_principal
from simzk.kafka.metadata.plane import MetadataRefusedError, MetadataUnavailableError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from simzk.kafka.releases.since import Profile, at_release, before, by_release, since

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.client_requests.apis import ApiBroker


DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ANY = 1
"""This number matches any type, operation, permission or pattern."""
MATCH = 2
"""Pattern filter for all resources that apply to a name."""
KINDS = dict(enumerate(("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User"), start=2))
_OPERATIONS = ("All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs")
OPERATIONS = dict(
    enumerate((*_OPERATIONS, "AlterConfigs", "IdempotentWrite", "CreateTokens", "DescribeTokens"), start=2)
)
PERMISSIONS = {2: "Deny", 3: "Allow"}
PATTERNS = {3: LITERAL, 4: PREFIXED}
"""Names in ZooKeeper by the numbers of the protocol."""
_BAD_PRINCIPAL = "expected a string in format principalType:principalName but got {name}"
Acl = tuple[AclResource, AclEntry]


class AclTexts(Profile):
    """Differences between releases in answers."""

    disabled: str = by_release("No Authorizer is configured on the broker.", ((3, 0), "No Authorizer is configured."))
    """CreateAcls and DeleteAcls without an authorizer."""
    success: str | None = by_release(None, ((2, 8), ""))
    rejects_single_principals: bool = before((2, 4))
    """An ACL with an invalid principal fails alone, with INVALID_REQUEST."""
    bad_principal: str | None = by_release(
        _BAD_PRINCIPAL, ((2, 4), f"java.lang.IllegalArgumentException: {_BAD_PRINCIPAL}"), ((2, 8), None)
    )
    closes_at_unknown_filters: bool = since((2, 8))
    closes_at_unknown_acls: bool = before((2, 8))


class Filter(NamedTuple):
    """Filter of ACLs; None matches any name, principal or host."""

    kind: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def is_known(self) -> bool:
        """Whether all its types are known."""
        return (
            (self.kind == ANY or self.kind in KINDS)
            and (self.pattern in (ANY, MATCH) or self.pattern in PATTERNS)
            and (self.operation == ANY or self.operation in OPERATIONS)
            and (self.permission == ANY or self.permission in PERMISSIONS)
        )

    def matches(self, resource: AclResource, entry: AclEntry) -> bool:
        """Return whether an ACL matches; false if a type is unknown."""
        return (
            self.is_known
            and self._matches_resource(resource)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and (self.operation == ANY or OPERATIONS[self.operation] == entry.operation)
            and (self.permission == ANY or PERMISSIONS[self.permission] == entry.permission)
        )

    def _matches_resource(self, resource: AclResource) -> bool:
        if self.kind != ANY and KINDS[self.kind] != resource.kind:
            return False
        if self.pattern not in (ANY, MATCH) and PATTERNS[self.pattern] != resource.pattern:
            return False
        if self.name is None or self.name == resource.name:
            return True
        is_wider = resource.name == "*" if resource.pattern == LITERAL else self.name.startswith(resource.name)
        return self.pattern == MATCH and is_wider


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return AclsApi(broker.serving_broker).handlers


@dataclass(eq=False)
class AclsApi(ClientApi):
    """ACLs for clients of one broker."""

    def __post_init__(self) -> None:
        self.texts = at_release(AclTexts, self.broker.version.number)

    @property
    def handlers(self) -> dict[int, Handler]:
        return {DESCRIBE_ACLS: self.serve_describe, CREATE_ACLS: self.serve_create, DELETE_ACLS: self.serve_delete}

    def _refusal(self, context: Context, operation: str, disabled: str) -> tuple[ErrorCode, str] | None:
        """Return why the client may not do something; None if it may."""
        if not self.broker.authorizer.is_enabled:
            return ErrorCode.SECURITY_DISABLED, disabled
        if not self.broker.allows_on_cluster(operation, context.principal):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NOT_AUTHORIZED
        return None

    def _found(self, asked: Filter) -> list[Acl]:
        acls = self.broker.authorizer.acls
        return [(one, entry) for one, entries in acls.items() for entry in entries if asked.matches(one, entry)]

    # -- DescribeAcls

    def serve_describe(self, context: Context, request: DescribeAclsRequest, answer: Answer) -> None:
        """Describe the ACLs that match a filter."""
        asked = _filter(request)
        if not asked.is_known and self.texts.closes_at_unknown_filters:
            answer(None)
            return
        if (refused := self._refusal(context, "Describe", "No Authorizer is configured on the broker")) is not None:
            answer(DescribeAclsResponse(error_code=refused[0], error_message=refused[1]))
            return
        described: dict[AclResource, list[DescribeAclsResponse.AclDescription]] = {}
        for resource, entry in self._found(asked):
            described.setdefault(resource, []).append(
                DescribeAclsResponse.AclDescription(
                    principal=entry.principal,
                    host=entry.host,
                    operation=_number(OPERATIONS, entry.operation),
                    permission_type=_number(PERMISSIONS, entry.permission),
                )
            )
        resources = [
            DescribeAclsResponse.DescribeAclsResource(
                resource_type=_number(KINDS, resource.kind),
                resource_name=resource.name,
                pattern_type=_number(PATTERNS, resource.pattern),
                acls=acls,
            )
            for resource, acls in described.items()
        ]
        answer(DescribeAclsResponse(error_message=self.texts.success, resources=resources))

    # -- CreateAcls

    def serve_create(self, context: Context, request: CreateAclsRequest, answer: Answer) -> None:
        """Create ACLs."""
        acls = [_acl(one) for one in request.creations]
        if (refused := self._refusal(context, "Alter", self.texts.disabled)) is not None:
            answer(_created([refused] * len(acls)))
        elif None in acls:
            failed = [(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * len(acls)
            answer(None if self.texts.closes_at_unknown_acls else _created(failed))
        else:
            self.broker.spawn(self._create(request, acls, answer), "create ACLs")

    async def _create(self, request: CreateAclsRequest, acls: Sequence[Acl | None], answer: Answer) -> None:
        wrong = next((one.principal for one in request.creations if not is_principal(one.principal)), None)
        if wrong is not None and not self.texts.rejects_single_principals:
            text = self.texts.bad_principal and self.texts.bad_principal.format(name=wrong)
            answer(_created([(ErrorCode.UNKNOWN_SERVER_ERROR, text)] * len(acls)))
            return
        results = []
        for one, acl in zip(request.creations, acls, strict=True):
            assert acl is not None, "ACLs of unknown types are refused before"
            refused = self._problem(one) or await self._altered(acl[0], added=(acl[1],))
            results.append(refused or (ErrorCode.NONE, self.texts.success))
        answer(_created(results))

    def _problem(self, one: CreateAclsRequest.AclCreation) -> tuple[ErrorCode, str | None] | None:
        """Return why an ACL cannot be created; None if it can."""
        if not is_principal(one.principal) and self.texts.bad_principal is not None:
            return ErrorCode.INVALID_REQUEST, self.texts.bad_principal.format(name=one.principal)
        if KINDS[one.resource_type] == CLUSTER.kind and one.resource_name != CLUSTER.name:
            return ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER.name}"
        if not one.resource_name:
            return ErrorCode.INVALID_REQUEST, "Invalid empty resource name"
        if "/" in one.resource_name or "\0" in one.resource_name:
            return ErrorCode.UNKNOWN_SERVER_ERROR, "simzk does not simulate ACLs of names that are no names of znodes"
        return None

    async def _altered(
        self, resource: AclResource, *, added: tuple[AclEntry, ...] = (), removed: tuple[AclEntry, ...] = ()
    ) -> tuple[ErrorCode, str | None] | None:
        """Add or remove ACLs of a resource; return the error, None if it succeeds."""
        assert bool(added) != bool(removed), "ACLs are added, or removed"
        try:
            response = await self.broker.authorizer.alter(resource, added, removed)
        except (MetadataUnavailableError, ZnodeError, MetadataRefusedError) as problem:
            return ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)
        return None if response.error == ErrorCode.NONE else (response.error, response.message)

    # -- DeleteAcls

    def serve_delete(self, context: Context, request: DeleteAclsRequest, answer: Answer) -> None:
        """Delete the ACLs that match filters."""
        filters = [_filter(one) for one in request.filters]
        if self.texts.closes_at_unknown_filters and not all(one.is_known for one in filters):
            answer(None)
            return
        if (refused := self._refusal(context, "Alter", self.texts.disabled)) is not None:
            kind = DeleteAclsResponse.DeleteAclsFilterResult
            results = [kind(error_code=refused[0], error_message=refused[1]) for _ in filters]
            answer(DeleteAclsResponse(filter_results=results))
            return
        self.broker.spawn(self._delete(filters, answer), "delete ACLs")

    async def _delete(self, filters: Sequence[Filter], answer: Answer) -> None:
        found = [self._found(one) for one in filters]
        errors: dict[AclResource, tuple[ErrorCode, str | None] | None] = {}
        for resource in dict.fromkeys(resource for acls in found for resource, _ in acls):
            entries = tuple(dict.fromkeys(entry for acls in found for one, entry in acls if one == resource))
            errors[resource] = await self._altered(resource, removed=entries)
        kind = DeleteAclsResponse.DeleteAclsFilterResult
        results = [
            kind(error_message=None, matching_acls=[_deleted(one, entry, errors[one]) for one, entry in acls])
            for acls in found
        ]
        answer(DeleteAclsResponse(filter_results=results))


def _filter(asked: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> Filter:
    return Filter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _number(names: dict[int, str], name: str) -> int:
    """Return the number of a name, 0 if it is unknown."""
    return next((number for number, known in names.items() if known == name), 0)


def _created(results: Sequence[tuple[ErrorCode, str | None]]) -> CreateAclsResponse:
    kind = CreateAclsResponse.AclCreationResult
    return CreateAclsResponse(results=[kind(error_code=code, error_message=text) for code, text in results])


def _deleted(
    resource: AclResource, entry: AclEntry, error: tuple[ErrorCode, str | None] | None
) -> DeleteAclsResponse.DeleteAclsMatchingAcl:
    code, text = error or (ErrorCode.NONE, None)
    return DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_code=code,
        error_message=text,
        resource_type=_number(KINDS, resource.kind),
        resource_name=resource.name,
        pattern_type=_number(PATTERNS, resource.pattern),
        principal=entry.principal,
        host=entry.host,
        operation=_number(OPERATIONS, entry.operation),
        permission_type=_number(PERMISSIONS, entry.permission),
    )


def _acl(one: CreateAclsRequest.AclCreation) -> Acl | None:
    """Return the ACL to create; None if one of its types is unknown, or none that an ACL can have."""
    kind, pattern = KINDS.get(one.resource_type), PATTERNS.get(one.resource_pattern_type)
    operation, permission = OPERATIONS.get(one.operation), PERMISSIONS.get(one.permission_type)
    if kind is None or pattern is None or operation is None or permission is None:
        return None
    return AclResource(kind, one.resource_name, pattern), AclEntry(one.principal, operation, permission, one.host)
