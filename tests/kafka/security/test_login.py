"""SASL logins at the ports of simulated brokers, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simzk
from simzk.errors import ConfigError
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from tests.kafka.security.sasl_client import PLAIN_USERS, LoginClient, plain_token, run_for_ms, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = ("0.10.0", "0.11", "1.0", "1.1", "2.1", "2.2", "2.8", "3.9")
NUMBERS = {release: tuple(int(part) for part in release.split(".")) for release in RELEASES}
DELAY_MS = 100


@pytest.fixture(scope="module")
def secured() -> Iterator[simzk.KafkaCluster]:
    """A broker of 3.9 with SASL, sessions of a minute, and the SCRAM user carol."""
    config: dict[str, str | int | bool] = {**PLAIN_USERS, "connections.max.reauth.ms": 60_000}
    with simzk.KafkaCluster("3.9", 1, config=config, security="SASL_PLAINTEXT") as cluster:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            cluster.add_user("carol", "pencil", mechanism=mechanism)
            cluster.run_until_quiet()
        yield cluster


def serves(client: LoginClient) -> bool:
    """Return whether the broker answers another request."""
    client.send_request(MetadataRequest(topics=[]), 0)
    return client.wait() is not None


@pytest.mark.parametrize("release", RELEASES)
def test_plain_login_in_every_release(release: str) -> None:
    with simzk.KafkaCluster(release, 1, config=PLAIN_USERS, security="SASL_PLAINTEXT") as cluster:
        has_requests = NUMBERS[release] >= (1, 0)
        for version in (0, 1) if has_requests else (0,):
            client = LoginClient(cluster)
            assert client.log_in("bob", 'of "bob"', version=version)
            assert client.connection.principal == "User:bob"
            assert serves(client)
            wrong = LoginClient(cluster)
            assert not wrong.log_in("bob", "of alice", version=version)
            run_for_ms(cluster, DELAY_MS)
            assert wrong.closed
            assert not wrong.frames


@pytest.mark.parametrize("release", ["1.0", "2.1", "2.2", "3.9"])
def test_answers_to_failed_logins(release: str) -> None:
    number = NUMBERS[release]
    with simzk.KafkaCluster(release, 1, config=PLAIN_USERS, security="SASL_PLAINTEXT") as cluster:
        phase = " during authentication" if number >= (2, 2) else ""
        invalid = f"Authentication failed{phase} due to invalid credentials with SASL mechanism "
        tells_parts = number >= (2, 4)
        for mechanism, token, text in (
            ("PLAIN", plain_token("alice", "x"), "Authentication failed: Invalid username or password"),
            ("PLAIN", plain_token("nobody", "x"), "Authentication failed: Invalid username or password"),
            (
                "PLAIN",
                plain_token("", "x"),
                "Authentication failed: username not specified" if tells_parts else invalid + "PLAIN",
            ),
            (
                "PLAIN",
                b"alice",
                "Invalid SASL/PLAIN response: expected 3 tokens, got 1" if tells_parts else invalid + "PLAIN",
            ),
            ("SCRAM-SHA-256", b"n,,n=nobody,r=n", invalid + "SCRAM-SHA-256"),
        ):
            client = LoginClient(cluster)
            assert client.handshake(mechanism).error_code == ErrorCode.NONE
            started_ms = cluster.now_ms
            answer = client.authenticate(token)
            assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
            assert client.wait() is None
            assert client.closed
            waited_ms = cluster.now_ms - started_ms
            assert waited_ms >= DELAY_MS if number >= (2, 1) else waited_ms < DELAY_MS
        assert any(event.what == "login failed" for event in cluster.history)


def test_an_unknown_mechanism_is_answered_with_the_known_ones(secured: simzk.KafkaCluster) -> None:
    client = LoginClient(secured)
    answer = client.handshake("GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]  # in the order of a HashSet
    assert client.closed


def test_requests_before_the_login(secured: simzk.KafkaCluster) -> None:
    client = LoginClient(secured)
    assert client.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == ErrorCode.NONE
    assert client.handshake("PLAIN").error_code == ErrorCode.NONE
    assert client.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert client.closed
    for request, version in ((MetadataRequest(topics=[]), 1), (SaslAuthenticateRequest(auth_bytes=b""), 0)):
        refused = LoginClient(secured)
        refused.send_request(request, version)
        assert refused.wait() is None
        assert refused.closed
    twice = LoginClient(secured)
    assert twice.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == ErrorCode.NONE
    twice.send_request(ApiVersionsRequest(), 0)
    assert twice.wait() is None
    assert twice.closed


def test_an_unknown_version_of_api_versions_may_be_asked_first(secured: simzk.KafkaCluster) -> None:
    client = LoginClient(secured)
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    frame = encode_request(asked, 3, correlation_id=5, client_id="c")
    answer = client.exchange(frame[:2] + (99).to_bytes(2, "big") + frame[4:])
    assert answer is not None
    assert decode_response(ApiVersionsResponse, 0, answer)[2].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == ErrorCode.NONE
    assert client.log_in("alice", "secret")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("version", [0, 1])
def test_scram(secured: simzk.KafkaCluster, mechanism: str, version: int) -> None:
    client = LoginClient(secured)
    assert client.log_in("carol", "pencil", mechanism, version)
    assert client.connection.principal == "User:carol"
    assert serves(client)
    assert not LoginClient(secured).log_in("carol", "pen", mechanism, version)
    assert not LoginClient(secured).log_in("alice", "secret", mechanism, version)


def test_scram_users_are_those_in_zookeeper(secured: simzk.KafkaCluster) -> None:
    assert not LoginClient(secured).log_in("dora", "x", "SCRAM-SHA-512")
    secured.add_user("dora", "x", mechanism="SCRAM-SHA-512")
    secured.run_until_quiet()
    assert LoginClient(secured).log_in("dora", "x", "SCRAM-SHA-512")
    secured.kill(1)
    secured.advance(30)
    secured.restart(1)
    secured.run_until_quiet()
    assert LoginClient(secured).log_in("dora", "x", "SCRAM-SHA-512")
    secured.remove_user("dora", mechanism="SCRAM-SHA-512")
    secured.run_until_quiet()
    assert not LoginClient(secured).log_in("dora", "x", "SCRAM-SHA-512")


def test_a_session_lasts_as_long_as_the_setting_says(secured: simzk.KafkaCluster) -> None:
    client = LoginClient(secured)
    client.handshake("PLAIN")
    assert client.authenticate(plain_token("alice", "secret"), 1).session_lifetime_ms == 60_000
    run_for_ms(secured, 50_000)
    assert client.log_in("alice", "secret")  # in time
    run_for_ms(secured, 50_000)
    assert serves(client)
    run_for_ms(secured, 10_001)
    assert not serves(client)
    assert client.closed


def test_a_session_cannot_change_its_user_or_mechanism(secured: simzk.KafkaCluster) -> None:
    other_user, other_mechanism, too_soon = (LoginClient(secured) for _ in range(3))
    for client in (other_user, other_mechanism, too_soon):
        assert client.log_in("alice", "secret")
    other_user.handshake("PLAIN")
    answer = other_user.authenticate(plain_token("bob", 'of "bob"'), 1)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert other_user.closed
    assert other_mechanism.handshake("SCRAM-SHA-256").error_code == ErrorCode.NONE
    assert other_mechanism.send_token(b"n,,n=alice,r=n") is None
    assert other_mechanism.closed
    assert too_soon.log_in("alice", "secret")
    assert too_soon.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    run_for_ms(secured, 1000)
    assert too_soon.log_in("alice", "secret")


def test_sessions_without_a_lifetime_are_not_renewed() -> None:
    with simzk.KafkaCluster("2.8", 1, config=PLAIN_USERS, security="SASL_PLAINTEXT") as cluster:
        client = LoginClient(cluster)
        assert client.log_in("alice", "secret")
        assert client.handshake("PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert client.authenticate(b"").error_code == ErrorCode.ILLEGAL_SASL_STATE
        run_for_ms(cluster, 10_000_000)
        assert serves(client)


def test_a_paused_broker_does_not_answer_a_login(secured: simzk.KafkaCluster) -> None:
    client = LoginClient(secured)
    secured.pause(1)
    client.send_request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert client.wait(5.0) is None
    secured.resume(1)
    assert client.wait() is not None


def test_frames_of_any_bytes_authenticate_nobody(secured: simzk.KafkaCluster) -> None:
    handshakes = [
        encode_request(SaslHandshakeRequest(mechanism=name), version, correlation_id=1, client_id="c")
        for name in ("PLAIN", "SCRAM-SHA-256", "X")
        for version in (0, 1)
    ]
    tokens = [*tokens_of("alice", "wrong"), *tokens_of("carol", "pencil"), b"n,,n=carol,r=abc", b"c=biws,r=abc,p=AAAA"]
    wrapped = [
        encode_request(SaslAuthenticateRequest(auth_bytes=one), 0, correlation_id=2, client_id="c") for one in tokens
    ]
    versions = [encode_request(ApiVersionsRequest(), 0, correlation_id=3, client_id="c")]
    known = st.sampled_from([*handshakes, *tokens, *wrapped, *versions])
    cut = st.builds(lambda frame, size: frame[:size], known, st.integers(0, 30))
    frames = st.lists(st.one_of(known, cut, st.binary(max_size=40)), max_size=6)

    @settings(deadline=None)
    @given(frames)
    def check(sent: list[bytes]) -> None:
        client = LoginClient(secured)
        for frame in sent:
            client.connection.receive(frame)
            client.wait(1.0)
        if not client.closed:
            client.send_request(MetadataRequest(topics=[]), 0)
            client.wait(1.0)
            assert client.connection.principal == "User:ANONYMOUS"
        client.connection.hang_up()

    check()


def test_settings_that_are_wrong() -> None:
    for config, text in (
        ({"listener.name.sasl_plaintext.plain.sasl.jaas.config": "x"}, "does not configure a login module"),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "'GSSAPI' is not simulated"),
        ({"listener.name.sasl_plaintext.no.such": "x"}, "not simulated"),
        ({"connections.max.reauth.ms": "soon"}, "Invalid value soon"),
    ):
        with pytest.raises(ConfigError, match=text):
            simzk.KafkaCluster("3.9", 1, config=config, security="SASL_PLAINTEXT")
    with pytest.raises(ConfigError, match=r"no SASL_PLAINTEXT for clients of Kafka 0\.9"):
        simzk.KafkaCluster("0.9", 1, security="SASL_PLAINTEXT")
    with pytest.raises(ConfigError, match="'TLS' is not a security protocol"):
        simzk.KafkaCluster("3.9", 1, security="TLS")


def test_a_restart_with_a_wrong_setting_changes_nothing(secured: simzk.KafkaCluster) -> None:
    secured.kill(1)
    with pytest.raises(ConfigError):
        secured.restart(1, config={"sasl.enabled.mechanisms": "X"})
    secured.advance(30)
    secured.restart(1)
    secured.run_until_quiet()
    assert LoginClient(secured).log_in("alice", "secret")


def test_listeners_are_registered_with_their_protocol() -> None:
    with simzk.KafkaCluster("3.9", 1, config=PLAIN_USERS, security="SASL_PLAINTEXT") as cluster:
        node = cluster.tree.get("/brokers/ids/1")
        assert node is not None
        data = node.data or b""
        host, port = cluster.brokers[1].endpoint
        assert f'"endpoints":["SASL_PLAINTEXT://{host}:{port}"]'.encode() in data
        assert b'"listener_security_protocol_map":{"SASL_PLAINTEXT":"SASL_PLAINTEXT"}' in data
        assert b'"port":-1,"host":null' in data
        client = LoginClient(cluster)
        assert client.log_in("alice", "secret")
        (shown,) = client.call(MetadataRequest(topics=[]), 1, MetadataResponse).brokers
        assert (shown.host, shown.port) == (host, port)
