"""Requests about delegation tokens (KIP-48), which brokers serve for clients that have logged in.

Rules of this module (KafkaApis.allowTokenRequests, DelegationTokenManager; refusals recorded 1.1 to 3.9):
  - a client without login and certificate, or that has logged in by a token, gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    whether tokens are enabled or not;
  - the secret of a token is HMAC-SHA-512 of its id with the brokers' key; clients name a token by it;
  - a client describes the tokens that it owns or may renew, and others as ACLs allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simzk.errors import ZnodeError
from simzk.kafka.client_requests.handlers import ANONYMOUS, Answer, ClientApi, Context, Handler
from simzk.kafka.metadata.entities import AclResource
from simzk.kafka.metadata.plane import MetadataRefusedError
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from simzk.kafka.requests import AdminResponse, CreateTokenRequest, ExpireTokenRequest, RenewTokenRequest

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from simzk.kafka.broker.delegation_tokens import DelegationTokens
    from simzk.kafka.client_requests.apis import ApiBroker
    from simzk.kafka.zookeeper_mode.schemas.delegation_token import DelegationToken
    from simzk.simulation import Future

CREATE_TOKEN, RENEW_TOKEN, EXPIRE_TOKEN, DESCRIBE_TOKENS = 38, 39, 40, 41
REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
NO_TIME = -1
REQUESTERS_FROM = 3
"""First version of CreateDelegationToken and DescribeDelegationToken with the requester (KIP-373)."""


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return TokensApi(broker.serving_broker, broker.tokens).handlers


@dataclass(eq=False)
class TokensApi(ClientApi):
    """Delegation tokens for clients of one broker.

    Args:
        tokens: the broker's tokens.
    """

    tokens: DelegationTokens

    @property
    def handlers(self) -> dict[int, Handler]:
        return {
            CREATE_TOKEN: self.serve_create,
            RENEW_TOKEN: self.serve_renew,
            EXPIRE_TOKEN: self.serve_expire,
            DESCRIBE_TOKENS: self.serve_describe,
        }

    # -- CreateDelegationToken

    def serve_create(self, context: Context, request: CreateDelegationTokenRequest, answer: Answer) -> None:
        """Create a token for the client, or for another user if the client may."""
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
        owner = owner if request.owner_principal_name else context.principal
        allows = self.broker.authorizer.allows
        if not _may_ask(context):
            answer(_created(context, owner, REFUSED))
        elif owner != context.principal and not allows("CreateTokens", AclResource("User", owner), context.principal):
            answer(_created(context, owner, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED))
        else:
            renewers = tuple(f"{one.principal_type}:{one.principal_name}" for one in request.renewers)
            asked = CreateTokenRequest(owner, context.principal, renewers, request.max_lifetime_ms)
            self.broker.spawn(self._create(context, asked, answer), "create a token")

    async def _create(self, context: Context, asked: CreateTokenRequest, answer: Answer) -> None:
        made = await _attempted(self.tokens.create(asked))
        response = _created(context, asked.owner, made.error)
        token = self.tokens.get(made.message) if made.error == ErrorCode.NONE else None
        if token is not None:
            response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
            response.max_timestamp_ms, response.token_id = token.ends_ms, token.token_id
            response.hmac = self.tokens.secret(token.token_id)
        answer(response)

    # -- RenewDelegationToken and ExpireDelegationToken

    def serve_renew(self, context: Context, request: RenewDelegationTokenRequest, answer: Answer) -> None:
        """Renew a token."""
        if not _may_ask(context):
            answer(RenewDelegationTokenResponse(error_code=REFUSED, expiry_timestamp_ms=NO_TIME))
            return
        token_id = self.tokens.id_of(bytes(request.hmac))
        work = self.tokens.renew(RenewTokenRequest(token_id, context.principal, request.renew_period_ms))
        self.broker.spawn(self._change(token_id, work, RenewDelegationTokenResponse, answer), "renew a token")

    def serve_expire(self, context: Context, request: ExpireDelegationTokenRequest, answer: Answer) -> None:
        """Set when a token expires."""
        if not _may_ask(context):
            answer(ExpireDelegationTokenResponse(error_code=REFUSED, expiry_timestamp_ms=NO_TIME))
            return
        token_id = self.tokens.id_of(bytes(request.hmac))
        work = self.tokens.expire(ExpireTokenRequest(token_id, context.principal, request.expiry_time_period_ms))
        self.broker.spawn(self._change(token_id, work, ExpireDelegationTokenResponse, answer), "expire a token")

    async def _change(
        self, token_id: str, work: Coroutine[Future[Any], None, AdminResponse], kind: type[Any], answer: Answer
    ) -> None:
        changed = await _attempted(work)
        expires_ms = NO_TIME
        if changed.error == ErrorCode.NONE:
            token = self.tokens.get(token_id)
            expires_ms = self.broker.now_ms() if token is None else token.expires_ms
        answer(kind(error_code=changed.error, expiry_timestamp_ms=expires_ms))

    # -- DescribeDelegationToken

    def serve_describe(self, context: Context, request: DescribeDelegationTokenRequest, answer: Answer) -> None:
        """Describe the tokens of some owners, or all, as far as the client may see them."""
        if not _may_ask(context):
            answer(DescribeDelegationTokenResponse(error_code=REFUSED))
        elif not self.tokens.enabled:
            answer(DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
        else:
            owners = request.owners
            asked = None if owners is None else {f"{one.principal_type}:{one.principal_name}" for one in owners}
            found = [token for token in self.tokens.all() if self._is_shown(context, token, asked)]
            answer(DescribeDelegationTokenResponse(tokens=[self._described(context, token) for token in found]))

    def _is_shown(self, context: Context, token: DelegationToken, owners: set[str] | None) -> bool:
        users = (token.owner, *token.renewers)
        if owners is not None and owners.isdisjoint(users):
            return False
        principal, allows = context.principal, self.broker.authorizer.allows
        return (
            principal in users
            or allows("Describe", AclResource("DelegationToken", token.token_id), principal)
            or allows("DescribeTokens", AclResource("User", token.owner), principal)
        )

    def _described(
        self, context: Context, token: DelegationToken
    ) -> DescribeDelegationTokenResponse.DescribedDelegationToken:
        (kind, name), requester = _principal(token.owner), _principal(token.requester)
        renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer
        described = DescribeDelegationTokenResponse.DescribedDelegationToken(
            principal_type=kind,
            principal_name=name,
            issue_timestamp=token.issued_ms,
            expiry_timestamp=token.expires_ms,
            max_timestamp=token.ends_ms,
            token_id=token.token_id,
            hmac=self.tokens.secret(token.token_id),
            renewers=[renewer(principal_type=one, principal_name=of) for one, of in map(_principal, token.renewers)],
        )
        if context.version >= REQUESTERS_FROM:
            described.token_requester_principal_type, described.token_requester_principal_name = requester
        return described


async def _attempted(work: Coroutine[Future[Any], None, AdminResponse]) -> AdminResponse:
    """Return the answer to a change; a write that ZooKeeper rejects is UNKNOWN_SERVER_ERROR."""
    try:
        return await work
    except (ZnodeError, MetadataRefusedError) as problem:
        return AdminResponse(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))


def _may_ask(context: Context) -> bool:
    """Return whether a client may ask about tokens."""
    return context.principal != ANONYMOUS and not context.by_token


def _created(context: Context, owner: str, code: ErrorCode) -> CreateDelegationTokenResponse:
    """Return the answer to CreateDelegationToken without a token."""
    kind, name = _principal(owner)
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if context.version >= REQUESTERS_FROM:
        requester = _principal(context.principal)
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    return response


def _principal(text: str) -> tuple[str, str]:
    """Return type and name of a principal.

    >>> _principal("User:a:b")
    ('User', 'a:b')
    """
    kind, _, name = text.partition(":")
    return kind, name
