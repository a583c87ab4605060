"""SCRAM users, delegation tokens, and znodes that no recorded story contains."""

from __future__ import annotations

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.security.scram import credential
from simzk.kafka.zookeeper_mode.schemas import config, delegation_token, scram
from simzk.kafka.zookeeper_mode.schemas.broker_registration import decode_log_dir_failure, encode_log_dir_failure
from simzk.kafka.zookeeper_mode.schemas.delegation_token import DelegationToken
from tests.kafka.clusters import cluster, quiet
from tests.kafka.foreign_znodes import Migration, decode_migration, encode_migration

PATH = "/config/users/a%40b"
TOKEN = DelegationToken("abc", "User:a@b", "User:c", ("User:d", "User:e"), 2**40, 2**41, 2**42)

NAMES, TIMES = st.text(), st.integers(0, 2**63 - 1)
PRINCIPALS = NAMES.map("User:{}".format)


def test_a_user_is_added_beside_its_quota_and_removed() -> None:
    with cluster(1) as c:
        c.alter_config("users/a%40b", {"producer_byte_rate": "7"})
        quiet(c)
        c.add_user("a@b", "p", mechanism="SCRAM-SHA-512", iterations=5000)
        quiet(c)
        node = c.server.tree.get(PATH)
        assert node is not None
        values = config.decode(PATH, node.data)
        kept = scram.decode(PATH, "SCRAM-SHA-512", values.pop("SCRAM-SHA-512"))
        assert values == {"producer_byte_rate": "7"}
        assert kept == credential("SCRAM-SHA-512", "p", kept.salt, 5000)
        assert len(kept.stored_key) == 64
        c.remove_user("a@b", mechanism="SCRAM-SHA-512")
        quiet(c)
        assert config.decode(PATH, node.data) == {"producer_byte_rate": "7"}


def test_the_keys_are_those_of_the_standard() -> None:
    # The example of RFC 7677, §3: the server signs what was said with its key.
    nonce = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    said = f"n=user,r=rOprNGfwEbeRWgbNEkqO,{nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,{nonce}"
    kept = credential("SCRAM-SHA-256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    signature = hmac.digest(kept.server_key, said.encode(), "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(("mechanism", "iterations"), [("MD5", 4096), ("SCRAM-SHA-256", 4095)])
def test_credentials_that_kafka_rejects_are_rejected(mechanism: str, iterations: int) -> None:
    with cluster(1) as c, pytest.raises(ConfigError):
        c.add_user("a", "p", mechanism=mechanism, iterations=iterations)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("x", 'field S is "x"'),
        ("salt=cw==,stored_key=YQ==,server_key=Yg==,iterations=x", 'field S.iterations is "x"; expected a decimal'),
        ("salt=!,stored_key=YQ==,server_key=Yg==,iterations=4096", 'field S.salt is "!"; expected base64'),
    ],
)
def test_invalid_credentials_are_reported(value: str, complaint: str) -> None:
    with pytest.raises(ZnodeError, match=complaint):
        scram.decode("/z", "S", value)


def test_token_fields_have_the_order_of_scala_maps() -> None:
    def fields(text: bytes) -> str:
        return ", ".join(part.split('"')[-1] for part in text.decode().split('":')[:-1])

    v1_of_2_12 = "issueTimestamp, renewers, maxTimestamp, version, tokenId, owner, expiryTimestamp"
    v1_of_2_13 = "issueTimestamp, renewers, tokenId, owner, expiryTimestamp, maxTimestamp, version"
    v3_of_2_13 = "issueTimestamp, renewers, tokenRequester, tokenId, owner, expiryTimestamp, maxTimestamp, version"
    v3_of_2_12 = "issueTimestamp, renewers, tokenRequester, maxTimestamp, version, tokenId, owner, expiryTimestamp"
    assert fields(delegation_token.encode_v1(TOKEN, "2.12")) == v1_of_2_12
    assert fields(delegation_token.encode_v1(TOKEN, "2.13")) == v1_of_2_13
    assert fields(delegation_token.encode_v3(TOKEN, "2.13")) == v3_of_2_13
    assert fields(delegation_token.encode_v3(TOKEN, "2.12")) == v3_of_2_12


def test_tokens_of_both_versions_are_decoded() -> None:
    assert delegation_token.decode("/t", delegation_token.encode_v3(TOKEN, "2.13")) == TOKEN
    old = delegation_token.decode("/t", delegation_token.encode_v1(TOKEN, "2.12"))
    assert old == TOKEN._replace(requester=TOKEN.owner)
    assert delegation_token.decode("/t", b"") is None
    assert b'"owner":"User%3Aa%40b"' in delegation_token.encode_v1(TOKEN, "2.12")
    with pytest.raises(ZnodeError, match="field version is 4; expected 1 to 3"):
        delegation_token.decode("/t", delegation_token.encode_v3(TOKEN, "2.13").replace(b'"version":3', b'"version":4'))
    with pytest.raises(ZnodeError, match=r"field expiryTimestamp is .*; expected a whole number of 64 bits"):
        delegation_token.decode("/t", delegation_token.encode_v1(TOKEN._replace(expires_ms=2**63), "2.13"))


@given(st.builds(DelegationToken, NAMES, PRINCIPALS, PRINCIPALS, st.lists(PRINCIPALS).map(tuple), TIMES, TIMES, TIMES))
def test_tokens_round_trip(token: DelegationToken) -> None:
    assert delegation_token.decode("/t", delegation_token.encode_v3(token, "2.13")) == token


def test_a_log_directory_event_names_its_broker() -> None:
    assert decode_log_dir_failure("/e", encode_log_dir_failure(7)) == 7
    with pytest.raises(ZnodeError, match="/e: field broker is missing"):
        decode_log_dir_failure("/e", b'{"version":1,"event":1}')


def test_migrations_round_trip_with_fields_in_the_order_of_scala_maps() -> None:
    state = Migration(3000, 5, 6, 2**40)
    text = (
        '{"version":0,"kraft_metadata_offset":1099511627776,"kraft_controller_id":3000,'
        '"kraft_metadata_epoch":6,"kraft_controller_epoch":5}'
    )
    assert encode_migration(state, "2.13").decode() == text
    assert encode_migration(state, "2.12").decode().startswith('{"kraft_metadata_epoch":6,"kraft_controller_epoch":5,')
    assert decode_migration("/migration", text.encode()) == state
    with pytest.raises(ZnodeError, match="/migration: field version is -1; expected 0"):
        decode_migration("/migration", text.replace(":0,", ":-1,", 1).encode())


@pytest.mark.parametrize("version", ["0.10.2", "2.4", "2.7", "3.9"])
def test_changes_of_one_user_at_one_instant_are_all_kept(version: str) -> None:
    """Each change writes all keys of the user that it has read; an operator's commands run one after another."""
    with KafkaCluster(version, 2, seed=1) as c:
        c.add_user("a@b", "p", mechanism="SCRAM-SHA-256")
        c.add_user("a@b", "p", mechanism="SCRAM-SHA-512")
        c.add_user("c", "p")
        c.remove_user("c")
        last = c.add_user("c", "q", mechanism="SCRAM-SHA-512")
        quiet(c)
        assert last.done
        kept = {}
        for name in ("a%40b", "c"):
            node = c.tree.get(f"/config/users/{name}")
            assert node is not None
            kept[name] = set(config.decode(PATH, node.data))
        assert kept == {"a%40b": {"SCRAM-SHA-256", "SCRAM-SHA-512"}, "c": {"SCRAM-SHA-512"}}
