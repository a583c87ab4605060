"""What an operator asks for about authorizations, users and tokens, as calls on a simulated cluster."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.kafka import paths
from simzk.kafka.requests import (
    AdminResponse,
    AlterAclsRequest,
    AlterConfigRequest,
    CreateTokenRequest,
    ExpireTokenRequest,
    RenewTokenRequest,
)
from simzk.kafka.schemas import acl as acl_schema
from simzk.kafka.schemas import delegation_token, scram
from simzk.kafka.schemas.acl import LITERAL, PREFIXED, AclEntry, AclResource
from simzk.kafka.schemas.config import sanitize
from simzk.kafka.tools.acls import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.kafka.schemas.delegation_token import DelegationToken
    from simzk.kafka.tools.operator import Operator
    from simzk.simulation import Future, Scheduler


class SecurityOperations:
    """The verbs; `_operator` carries them out."""

    _operator: Operator

    @property
    @abstractmethod
    def tree(self) -> KafkaTree:
        """The znodes as Kafka calls them."""

    scheduler: Scheduler

    def add_acls(
        self, kind: str, name: str, entries: Iterable[AclEntry], *, prefixed: bool = False
    ) -> Future[AdminResponse]:
        """Authorize or deny, as Kafka's AclCommand with `--add` does it in ZooKeeper.

        Args:
            kind: the type of the resource: cluster, topic, group, transactional id, delegation token or user.
            name: of the resource, or how the names of resources begin.
            entries: the rules that are added.
            prefixed: whether the name is a beginning (2.0 and later).

        Returns:
            the tool's answer, once time has passed; UNSUPPORTED_VERSION where the release knows no such thing.

        Raises:
            ConfigError: there is no such type of resource, or no rule is given.
        """
        resource, added = _resource(kind, name, prefixed=prefixed), tuple(entries)
        if not added:
            raise ConfigError("no rule is given", where="entries", right="one or more")
        return self._operator.alter_acls(f"authorize {kind} {name}", AlterAclsRequest(resource, added, ()))

    def authorize_consumer(
        self, topic: str, group: str, *, to_topic: Iterable[AclEntry], to_group: Iterable[AclEntry]
    ) -> Future[AdminResponse]:
        """Let somebody consume a topic in a group, as one command with `--consumer` does: two resources, one session.

        Args:
            topic, group: their names.
            to_topic: the rules that are added to the topic: Read and Describe of each principal.
            to_group: those that are added to the group: Read of each principal.
        """
        requests = [
            AlterAclsRequest(_resource(kind, name, prefixed=False), tuple(entries), ())
            for kind, name, entries in (("topic", topic, to_topic), ("group", group, to_group))
        ]
        return self._operator.alter_acls(f"authorize consumers of {topic} in {group}", *requests)

    def remove_acls(
        self, kind: str, name: str, entries: Iterable[AclEntry] | None = None, *, prefixed: bool = False
    ) -> Future[AdminResponse]:
        """Take rules away, as AclCommand with `--remove` does; all of the resource where none are given."""
        resource = _resource(kind, name, prefixed=prefixed)
        removed = None if entries is None else tuple(entries)
        return self._operator.alter_acls(f"unauthorize {kind} {name}", AlterAclsRequest(resource, (), removed))

    def acls(self, kind: str, name: str, *, prefixed: bool = False) -> tuple[AclEntry, ...]:
        """The rules of a resource as they stand in ZooKeeper.

        Raises:
            ConfigError: there is no such type of resource.
            ZnodeError: the znode cannot be used.
        """
        path = paths.acl(_resource(kind, name, prefixed=prefixed))
        node = self.tree.get(path)
        return () if node is None else acl_schema.decode(path, node.data)

    def add_user(
        self,
        name: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-256",
        iterations: int = scram.LEAST_ITERATIONS,
        salt: bytes | None = None,
        via: int | str | None = None,
    ) -> Future[AdminResponse]:
        """Let a user log in by SCRAM: its credential is a configuration of the user (0.10.2 and later).

        Args:
            name: the user's.
            password: the user's; what is kept of it is computed from it.
            mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
            iterations: rounds of hashing.
            salt: drawn where it is not given.
            via: as for `alter_config`.

        Raises:
            ConfigError: there is no such mechanism, or the rounds are too few.
        """
        drawn = scram.salt_of(self.scheduler.stream("scram salts").bits(scram.SALT_BITS)) if salt is None else salt
        value = scram.encode(scram.credential(mechanism, password, drawn, iterations))
        request = AlterConfigRequest(f"users/{sanitize(name)}", {mechanism: value})
        return self._operator.request(f"add user {name}", request, via)

    def remove_user(
        self, name: str, *, mechanism: str = "SCRAM-SHA-256", via: int | str | None = None
    ) -> Future[AdminResponse]:
        """Take a user's credential away; what else is configured for the user stays."""
        request = AlterConfigRequest(f"users/{sanitize(name)}", {mechanism: None})
        return self._operator.request(f"remove user {name}", request, via)

    def create_token(
        self,
        owner: str,
        *,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
        requester: str | None = None,
        via: int | None = None,
    ) -> Future[AdminResponse]:
        """Make a delegation token (KIP-48), where `delegation.token.master.key` is configured.

        Args:
            owner: who acts with it, such as `User:alice`.
            renewers: who may renew it, besides the owner.
            max_lifetime_ms: up to when it can be renewed, in milliseconds from now; the configured time where not
                positive, which is also the longest.
            requester: who asks for it where that is not the owner (3.3 and later).
            via: the broker that is asked; the controller's by default.

        Returns:
            the broker's answer, once time has passed: its message is the token's id.
        """
        request = CreateTokenRequest(owner, requester or owner, tuple(renewers), max_lifetime_ms)
        return self._operator.request(f"create a token for {owner}", request, via)

    def renew_token(
        self, token_id: str, principal: str, *, lifetime_ms: int = -1, via: int | None = None
    ) -> Future[AdminResponse]:
        """Let a token live so many milliseconds from now, up to its end; the configured time where that is negative."""
        request = RenewTokenRequest(token_id, principal, lifetime_ms)
        return self._operator.request(f"renew token {token_id}", request, via)

    def expire_token(
        self, token_id: str, principal: str, *, lifetime_ms: int = -1, via: int | None = None
    ) -> Future[AdminResponse]:
        """Let a token live only so many milliseconds more; it goes at once where that is negative."""
        request = ExpireTokenRequest(token_id, principal, lifetime_ms)
        return self._operator.request(f"expire token {token_id}", request, via)

    def tokens(self) -> list[DelegationToken]:
        """The delegation tokens as they stand in ZooKeeper, in the order of their ids.

        Raises:
            ZnodeError: one that cannot be used.
        """
        parent = self.tree.get(paths.TOKENS)
        found = []
        for token_id in () if parent is None else sorted(parent.child_names()):
            node = self.tree.get(paths.token(token_id))
            token = None if node is None else delegation_token.decode(paths.token(token_id), node.data)
            if token is not None:
                found.append(token)
        return found


def _resource(kind: str, name: str, *, prefixed: bool) -> AclResource:
    found = kind_of(kind)
    if found is None:
        raise ConfigError(f"there is no resource of type {kind!r}", where="kind", right="such as topic, group, cluster")
    if not name or "/" in name:
        raise ConfigError(f"a resource cannot be called {name!r}", where="name", right="a name without a slash")
    return AclResource(found, name, PREFIXED if prefixed else LITERAL)
