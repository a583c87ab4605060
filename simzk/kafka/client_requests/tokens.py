"""Requests about delegation tokens (KIP-48), which brokers serve on connections with SASL or TLS only.

Rules of this module (KafkaApis.allowTokenRequests; recorded 1.1 to 3.9):
  - these ports are PLAINTEXT: every request is DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, whether tokens are enabled or not.
    `KafkaCluster.create_token` and its sisters create tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from simzk.kafka.client_requests.broker_api import Answer, Context, Handler

CREATE_TOKEN, RENEW_TOKEN, EXPIRE_TOKEN, DESCRIBE_TOKENS = 38, 39, 40, 41
REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
USER, ANONYMOUS = "User", "ANONYMOUS"
NO_TIME = -1
REQUESTERS_FROM = 3
"""First version of CreateDelegationToken with the requester (KIP-373)."""


class TokensApi:
    """Delegation tokens for clients of one broker."""

    @property
    def handlers(self) -> dict[int, Handler]:
        """The handlers by API key."""
        return {
            CREATE_TOKEN: self.refuse_create,
            RENEW_TOKEN: self.refuse_renew,
            EXPIRE_TOKEN: self.refuse_expire,
            DESCRIBE_TOKENS: self.refuse_describe,
        }

    def refuse_create(self, context: Context, _request: CreateDelegationTokenRequest, answer: Answer) -> None:
        """Refuse to create a token."""
        response = CreateDelegationTokenResponse(
            error_code=REFUSED,
            principal_type=USER,
            principal_name=ANONYMOUS,
            issue_timestamp_ms=NO_TIME,
            expiry_timestamp_ms=NO_TIME,
            max_timestamp_ms=NO_TIME,
        )
        if context.version >= REQUESTERS_FROM:
            response.token_requester_principal_type, response.token_requester_principal_name = USER, ANONYMOUS
        answer(response)

    def refuse_renew(self, _context: Context, _request: RenewDelegationTokenRequest, answer: Answer) -> None:
        """Refuse to renew a token."""
        answer(RenewDelegationTokenResponse(error_code=REFUSED, expiry_timestamp_ms=NO_TIME))

    def refuse_expire(self, _context: Context, _request: ExpireDelegationTokenRequest, answer: Answer) -> None:
        """Refuse to expire a token."""
        answer(ExpireDelegationTokenResponse(error_code=REFUSED, expiry_timestamp_ms=NO_TIME))

    def refuse_describe(self, _context: Context, _request: DescribeDelegationTokenRequest, answer: Answer) -> None:
        """Refuse to describe tokens."""
        answer(DescribeDelegationTokenResponse(error_code=REFUSED))
