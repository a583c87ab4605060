"""Delegation tokens: their znodes, renewal, and expiry (KIP-48; DelegationTokenManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.zookeeper_mode import paths
from tests.kafka.clusters import QUICK, quiet

if TYPE_CHECKING:
    from simzk.kafka.requests import AdminResponse
    from simzk.simulation import Future

DAY_MS = 86_400_000
WITH_KEY = QUICK | {"delegation.token.master.key": "secret"}
ALICE, BOB, EVE = "User:alice", "User:bob", "User:eve"


def answer(c: KafkaCluster, asked: Future[AdminResponse]) -> tuple[ErrorCode, str]:
    c.run_for(1)
    return asked.result().error, asked.result().message


def one_token(c: KafkaCluster) -> str:
    error, token_id = answer(c, c.create_token(ALICE, renewers=[BOB]))
    assert error == ErrorCode.NONE
    return token_id


V3 = (
    '{"issueTimestamp":T,"renewers":["User%3Abob"],"tokenRequester":"User%3Aalice","tokenId":"I",'
    '"owner":"User%3Aalice","expiryTimestamp":T,"maxTimestamp":T,"version":3}'
)
V1_OF_2_13 = (
    '{"issueTimestamp":T,"renewers":["User%3Abob"],"tokenId":"I","owner":"User%3Aalice",'
    '"expiryTimestamp":T,"maxTimestamp":T,"version":1}'
)
V1_OF_2_12 = (
    '{"issueTimestamp":T,"renewers":["User%3Abob"],"maxTimestamp":T,"version":1,"tokenId":"I",'
    '"owner":"User%3Aalice","expiryTimestamp":T}'
)


@pytest.mark.parametrize(("version", "fields"), [("3.9", V3), ("3.2", V1_OF_2_13), ("1.1", V1_OF_2_12)])
def test_a_token_is_written_in_the_form_of_the_release_and_announced(version: str, fields: str) -> None:
    with KafkaCluster(version, brokers=2, config=WITH_KEY) as c:
        at_ms = c.now_ms
        token_id = one_token(c)
        assert len(token_id) == 22
        node = c.tree.get(paths.token(token_id))
        assert node is not None
        (token,) = c.tokens()
        assert at_ms <= token.issued_ms <= c.now_ms
        assert (token.expires_ms - token.issued_ms, token.ends_ms - token.issued_ms) == (DAY_MS, 7 * DAY_MS)
        reported = (node.data or b"").decode().replace(token_id, "I")
        for number in (token.issued_ms, token.expires_ms, token.ends_ms):
            reported = reported.replace(str(number), "T")
        assert reported == fields
        change = c.tree.get(f"{paths.TOKEN_CHANGE_PREFIX}0000000000")
        assert change is not None
        assert change.data == token_id.encode()


def test_renewal_is_for_owner_and_renewers_and_never_beyond_the_end() -> None:
    with KafkaCluster(brokers=2, config=WITH_KEY) as c:
        token_id = one_token(c)
        (before,) = c.tokens()
        assert answer(c, c.renew_token(token_id, EVE))[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert answer(c, c.renew_token("none", BOB))[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert c.tokens() == [before]
        assert answer(c, c.renew_token(token_id, BOB, lifetime_ms=100 * DAY_MS))[0] == ErrorCode.NONE
        assert c.tokens()[0].expires_ms == before.ends_ms
        assert answer(c, c.renew_token(token_id, ALICE, lifetime_ms=1000))[0] == ErrorCode.NONE
        c.run_for(5)
        assert answer(c, c.renew_token(token_id, ALICE))[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_another_broker_knows_a_token_by_its_notification() -> None:
    with KafkaCluster(brokers=2, config=WITH_KEY) as c:
        error, token_id = answer(c, c.create_token(ALICE, max_lifetime_ms=5000, via=1))
        assert error == ErrorCode.NONE
        assert answer(c, c.expire_token(token_id, ALICE, via=2)) == (ErrorCode.NONE, token_id)
        assert c.tokens() == []
        assert answer(c, c.renew_token(token_id, ALICE, via=1))[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_the_controllers_broker_takes_expired_tokens_away_within_the_hour() -> None:
    with KafkaCluster(brokers=2, config=WITH_KEY) as c:
        one_token(c)
        error, short = answer(c, c.create_token(BOB, max_lifetime_ms=60_000))
        assert error == ErrorCode.NONE
        c.run_for(600)
        assert len(c.tokens()) == 2
        c.run_for(3600)
        assert [token.owner for token in c.tokens()] == [ALICE]
        c.kill(c.controller or 0)
        assert c.run_until_quiet()
        c.run_for(25 * 3600)
        assert c.tokens() == []
        assert c.tree.get(paths.token(short)) is None


def test_a_restarted_broker_reads_the_tokens_that_are_there_and_leaves_what_it_cannot_read() -> None:
    with KafkaCluster(brokers=2, config=WITH_KEY) as c:
        token_id = one_token(c)
        c.write_znode(paths.token("bad"), "{not json")
        c.run_for(1)
        c.kill(2)
        quiet(c)
        c.restart(2)
        quiet(c)
        assert answer(c, c.expire_token(token_id, BOB, lifetime_ms=1000, via=2))[0] == ErrorCode.NONE


@pytest.mark.parametrize(("version", "key"), [("3.9", ""), ("1.0", "secret")])
def test_without_a_key_or_before_1_1_there_are_no_tokens(version: str, key: str) -> None:
    config = QUICK | ({"delegation.token.master.key": key} if key else {})
    with KafkaCluster(version, brokers=1, config=config) as c:
        assert answer(c, c.create_token(ALICE))[0] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert answer(c, c.renew_token("i", ALICE))[0] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert c.tree.get("/delegation_token") is None


def test_tokens_are_for_users() -> None:
    with KafkaCluster(brokers=1, config=WITH_KEY) as c:
        assert answer(c, c.create_token(ALICE, renewers=["Group:g"]))[0] == ErrorCode.INVALID_PRINCIPAL_TYPE
