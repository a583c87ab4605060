"""SASL mechanisms: the examples of RFC 5802 and RFC 7677, and messages that are not accepted."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.kafka.security import scram
from simzk.kafka.security.mechanisms import PlainExchange, SaslMechanismError, ScramExchange
from tests.kafka.security.sasl_client import ScramClient, plain_token

RFC_7677 = (
    "SCRAM-SHA-256",
    "W22ZaJ0SNY7soEsUEjb6gQ==",
    "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
RFC_5802 = (
    "SCRAM-SHA-1",
    "QSXCR+Q6sek8bf92",
    "3rfcNHYJY1ZVvWVs7j",
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)


@pytest.mark.parametrize("example", [RFC_7677, RFC_5802], ids=lambda example: example[0])
def test_the_examples_of_the_standards(
    example: tuple[str, str, str, bytes, bytes, bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, salt, nonce, client_first, server_first, client_final, server_final = example
    monkeypatch.setitem(scram.MECHANISMS, "SCRAM-SHA-1", "sha1")  # Kafka does not have it
    stored = scram.credential(mechanism, "pencil", base64.b64decode(salt))
    exchange = ScramExchange(mechanism, {"user": stored}.get, lambda: nonce)
    assert exchange.evaluate(client_first) == server_first
    assert not exchange.is_complete
    assert exchange.evaluate(client_final) == server_final
    assert exchange.is_complete


def begun(*, checks_nonce: bool = True) -> ScramExchange:
    """Return an exchange with the user `a,b=c`, whose password is pencil."""
    stored = scram.credential("SCRAM-SHA-512", "pencil", b"salt")
    return ScramExchange("SCRAM-SHA-512", {"a,b=c": stored}.get, lambda: "server", checks_nonce=checks_nonce)


def test_a_name_with_separators() -> None:
    exchange, client = begun(), ScramClient("sha512", "a,b=c", "pencil", "n")
    client.check(exchange.evaluate(client.final(exchange.evaluate(client.first()))))
    assert exchange.is_complete
    assert exchange.user == "a,b=c"
    assert client.is_server_genuine


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"", "Invalid SCRAM client first message"),
        (b"y,,n=u,r=n", "Invalid SCRAM client first message"),
        (b"n,,n=u", "Invalid SCRAM client first message"),
        (b"n,,n=u=,r=n", "Invalid SCRAM client first message"),
        (b"n,,n=\xff,r=n", "Invalid SCRAM client first message"),
        (b"n,,n=u,r=n", "Authentication failed: Invalid user credentials"),
        (
            b"n,a=other,n=a=2Cb=3Dc,r=n",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_first_messages_that_fail(token: bytes, reason: str) -> None:
    exchange = begun()
    with pytest.raises(SaslMechanismError) as failure:
        exchange.evaluate(token)
    assert failure.value.reason == reason
    assert not exchange.is_complete


def test_last_messages_that_fail() -> None:
    for last in (b"", b"c=biws,r=nserver", b"c=biws,r=nserver,p=AAAA", b"c=biws,r=nserver,p=A", b"c=biws,r=n,p=AAAA"):
        exchange = begun()
        exchange.evaluate(ScramClient("sha512", "a,b=c", "pencil", "n").first())
        with pytest.raises(SaslMechanismError):
            exchange.evaluate(last)
        assert not exchange.is_complete


def test_a_replayed_nonce_is_accepted_by_old_releases_only() -> None:
    client = ScramClient("sha512", "a,b=c", "pencil", "n")
    for checks in (False, True):
        exchange = begun(checks_nonce=checks)
        first = exchange.evaluate(client.first())
        # The client signs what the server said, but repeats another nonce.
        final = client.final(first)
        forged = final.replace(b"r=nserver", b"r=n")
        with pytest.raises(SaslMechanismError) as failure:
            exchange.evaluate(forged)
        expected = "Invalid client nonce in the final client message." if checks else "Invalid client credentials"
        assert failure.value.reason == expected


@given(st.text(), st.text())
def test_only_the_password_is_accepted(user: str, password: str) -> None:
    exchange = PlainExchange({"alice": "secret"})
    try:
        exchange.evaluate(plain_token(user, password))
    except SaslMechanismError:
        assert (user, password) != ("alice", "secret")
    assert exchange.is_complete == ((user, password) == ("alice", "secret"))


@given(st.binary(max_size=60))
def test_random_tokens_fail(token: bytes) -> None:
    for exchange in (PlainExchange({"alice": "secret"}), begun()):
        with pytest.raises(SaslMechanismError):
            exchange.evaluate(token)
        assert not exchange.is_complete
