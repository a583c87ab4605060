"""A client's side of SASL logins, written from RFC 4616 and RFC 5802, and its requests to a simulated broker."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import TYPE_CHECKING

from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.kafka.client_requests.memory_client import MemoryClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    import simzk

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="x" user_alice="secret" user_bob="of \\"bob\\"";'
)
PLAIN_USERS = {"listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS}
"""Settings with the users alice and bob."""


def plain_token(user: str, password: str, identity: str = "") -> bytes:
    """Return the token of PLAIN."""
    return f"{identity}\0{user}\0{password}".encode()


class ScramClient:
    """A client's side of SCRAM without channel binding.

    Attributes:
        is_server_genuine: whether the server has proved that it knows the credential.
    """

    def __init__(self, digest: str, user: str, password: str, nonce: str, extension: str = "") -> None:
        self._digest, self._password, self._nonce = digest, password, nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={escaped},r={nonce}{extension}"
        self._expected = ""
        self.is_server_genuine = False

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes, nonce: str | None = None) -> bytes:
        """Return the last message; with another nonce than the server's if one is given."""
        text = server_first.decode()
        fields = dict(part.split("=", 1) for part in text.split(","))
        assert fields["r"].startswith(self._nonce)
        assert fields["r"] != self._nonce
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self._digest, self._password.encode(), salt, rounds)
        client_key = hmac.digest(salted, b"Client Key", self._digest)
        unproved = f"c=biws,r={nonce or fields['r']}"
        message = f"{self._bare},{text},{unproved}".encode()
        signature = hmac.digest(hashlib.new(self._digest, client_key).digest(), message, self._digest)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        server_key = hmac.digest(salted, b"Server Key", self._digest)
        self._expected = base64.b64encode(hmac.digest(server_key, message, self._digest)).decode()
        return f"{unproved},p={proof}".encode()

    def check(self, server_final: bytes) -> None:
        self.is_server_genuine = server_final.decode() == f"v={self._expected}"


class LoginClient(MemoryClient):
    """A connection to a broker with SASL."""

    def __init__(self, cluster: simzk.KafkaCluster, broker: int = 1) -> None:
        super().__init__(cluster, broker)
        self.in_requests = True

    def handshake(self, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
        self.in_requests = version >= 1
        return self.call(SaslHandshakeRequest(mechanism=mechanism), version, SaslHandshakeResponse)

    def authenticate(self, token: bytes, version: int = 0) -> SaslAuthenticateResponse:
        return self.call(SaslAuthenticateRequest(auth_bytes=token), version, SaslAuthenticateResponse)

    def send_token(self, token: bytes) -> bytes | None:
        """Send a token as the handshake says; return the answer, None for no answer or an error."""
        if not self.in_requests:
            return self.exchange(token)
        frame = self.exchange(
            encode_request(SaslAuthenticateRequest(auth_bytes=token), 0, correlation_id=1, client_id="c")
        )
        if frame is None:
            return None
        response = decode_response(SaslAuthenticateResponse, 0, frame)[2]
        return None if response.error_code else bytes(response.auth_bytes)

    def log_in(self, user: str, password: str, mechanism: str = "PLAIN", version: int = 1, extension: str = "") -> bool:
        """Log in; return whether the broker accepts it."""
        assert self.handshake(mechanism, version).error_code == 0
        if mechanism == "PLAIN":
            return self.send_token(plain_token(user, password)) == b""
        client = ScramClient(
            mechanism.removeprefix("SCRAM-").replace("-", "").lower(), user, password, "fyko+d2lbbF", extension
        )
        server_first = self.send_token(client.first())
        if server_first is None:
            return False
        server_final = self.send_token(client.final(server_first))
        if server_final is None:
            return False
        client.check(server_final)
        return client.is_server_genuine


def run_for_ms(cluster: simzk.KafkaCluster, milliseconds: float) -> None:
    """Let time pass."""
    cluster.advance(milliseconds / 1000)


def tokens_of(user: str, password: str) -> Iterator[bytes]:
    """Return tokens that authenticate nobody but a user with this password."""
    yield plain_token(user, password)
    yield plain_token(user, password, user)
