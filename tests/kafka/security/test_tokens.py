"""Delegation tokens: requests of clients that have logged in, and logins by a token."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

import pytest

import simzk
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
from tests.kafka.security.sasl_client import PLAIN_USERS, LoginClient

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "of the brokers"
DAY_MS = 86_400_000


@pytest.fixture
def cluster() -> Iterator[simzk.KafkaCluster]:
    """Two brokers with SASL and tokens."""
    config: dict[str, str | int | bool] = {**PLAIN_USERS, "delegation.token.master.key": KEY}
    with simzk.KafkaCluster("3.9", 2, config=config, security="SASL_PLAINTEXT") as made:
        yield made


def client(cluster: simzk.KafkaCluster, user: str = "alice") -> LoginClient:
    """Return a client that has logged in by a password."""
    made = LoginClient(cluster)
    assert made.log_in(user, {"alice": "secret", "bob": 'of "bob"'}[user])
    return made


def create(asks: LoginClient, renewer: str | None = None) -> CreateDelegationTokenResponse:
    """Create a token."""
    kind = CreateDelegationTokenRequest.CreatableRenewers
    renewers = [] if renewer is None else [kind(principal_type="User", principal_name=renewer)]
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1)
    return asks.call(request, 2, CreateDelegationTokenResponse)


def logs_in(cluster: simzk.KafkaCluster, broker: int, token_id: str, secret: bytes) -> LoginClient | None:
    """Return a client that has logged in by a token; None if it is refused."""
    made, password = LoginClient(cluster, broker), base64.b64encode(secret).decode()
    accepted = made.log_in(token_id, password, "SCRAM-SHA-512", extension=",tokenauth=true")
    return made if accepted else None


def test_a_token_logs_in_its_owner_at_every_broker(cluster: simzk.KafkaCluster) -> None:
    made = create(client(cluster))
    assert made.error_code == 0
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    assert made.hmac == hmac.digest(KEY.encode(), made.token_id.encode(), hashlib.sha512)
    assert made.expiry_timestamp_ms == made.issue_timestamp_ms + DAY_MS
    cluster.run_until_quiet()
    for broker in (1, 2):
        by_token = logs_in(cluster, broker, made.token_id, bytes(made.hmac))
        assert by_token is not None
        assert by_token.connection.principal == "User:alice"
        assert create(by_token).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert logs_in(cluster, broker, made.token_id, b"another") is None
        assert logs_in(cluster, broker, "unknown", bytes(made.hmac)) is None
        assert not LoginClient(cluster, broker).log_in(made.token_id, "x", "SCRAM-SHA-512")


def test_tokens_are_renewed_described_and_expired(cluster: simzk.KafkaCluster) -> None:
    alice, bob = client(cluster, "alice"), client(cluster, "bob")
    shared, own = create(alice, "bob"), create(alice)
    described = bob.call(DescribeDelegationTokenRequest(owners=None), 2, DescribeDelegationTokenResponse).tokens
    # Without an authorizer everybody may see all tokens.
    assert {token.token_id for token in described} == {shared.token_id, own.token_id}
    renew = RenewDelegationTokenRequest(hmac=shared.hmac, renew_period_ms=2 * DAY_MS)
    renewed = bob.call(renew, 2, RenewDelegationTokenResponse)
    assert renewed.error_code == 0
    assert renewed.expiry_timestamp_ms > shared.expiry_timestamp_ms
    renew.hmac = own.hmac
    refused = bob.call(renew, 2, RenewDelegationTokenResponse)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    expire = ExpireDelegationTokenRequest(hmac=own.hmac, expiry_time_period_ms=-1)
    assert alice.call(expire, 2, ExpireDelegationTokenResponse).error_code == 0
    again = alice.call(expire, 2, ExpireDelegationTokenResponse)
    assert again.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    cluster.run_until_quiet()
    assert logs_in(cluster, 1, own.token_id, bytes(own.hmac)) is None


def test_a_session_ends_with_its_token(cluster: simzk.KafkaCluster) -> None:
    made = create(client(cluster))
    cluster.run_until_quiet()
    by_token = logs_in(cluster, 1, made.token_id, bytes(made.hmac))
    assert by_token is not None
    cluster.advance(DAY_MS / 1000 + 1)
    by_token.send_request(DescribeDelegationTokenRequest(owners=None), 2)
    assert by_token.wait() is None
    assert by_token.closed


def test_brokers_without_a_key_have_no_tokens() -> None:
    with simzk.KafkaCluster("3.9", 1, config=PLAIN_USERS, security="SASL_PLAINTEXT") as cluster:
        assert create(client(cluster)).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
