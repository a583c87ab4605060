"""Stories of clients that log in to one broker by SASL, right and wrong, and of what it then lets them do.

`play` plays them with a real or a simulated broker of a release, which has the settings `settings(...)`, the users of
`JAAS` and `SCRAM_USERS`, the ACLs `ACLS` and the topics `TOPICS`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simzk.kafka.log.record_batches import BatchProducer, Record, encode_batch
from simzk.kafka.metadata.entities import AclEntry
from simzk.kafka.protocol import messages as m
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.releases.api_versions import accepted_versions
from tests.kafka.security.conversations import DELAY_MS, Conversation
from tests.kafka.security.sasl_client import ScramClient, plain_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.kafka.security.conversations import Wire

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
ADMIN, ADMIN_PASSWORD = "admin", "of-the-brokers"
PASSWORDS: Final = {
    ADMIN: ADMIN_PASSWORD,
    "alice": "secret",
    "bob": "tiger",
    "dora": "writes",
    "erin": "nothing",
    "frank": "denied",
    "größe": "ümlaut",
}
"""Users of PLAIN."""
SCRAM_USERS: Final = {"carol": "pencil", "d,e=f": "comma"}
"""Users of both mechanisms of SCRAM."""
SCRAM_256, SCRAM_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
CREDENTIALS: Final = {
    **{name: {SCRAM_256: password, SCRAM_512: password} for name, password in SCRAM_USERS.items()},
    **{name: {SCRAM_512: password} for name, password in PASSWORDS.items() if name.isascii()},
}
"""Passwords of the users of SCRAM, by mechanism."""
SALT: Final = b"1d5w0nwbkg8kz9uqg8ps51x2l2"
SALT_TEXT: Final = base64.b64encode(SALT).decode()
NONCE: Final = "fyko+d2lbbF"
"""The client's part of the nonce."""
DIGESTS: Final = {SCRAM_256: "sha256", SCRAM_512: "sha512"}
JAAS: Final = (
    f'{MODULE} required username="{ADMIN}" password="{ADMIN_PASSWORD}" '
    + " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    + ";"
)
LIFETIME_MS: Final = 3000
"""Lifetime of sessions of PLAIN and of SCRAM-SHA-256; those of SCRAM-SHA-512 have none."""
TOPICS: Final = ("open", "secret", "written")
GROUP, TRANSACTION = "team", "mine"
ACLS: Final[Mapping[tuple[str, str], tuple[AclEntry, ...]]] = {
    ("Topic", "open"): (
        AclEntry("User:alice", "Read"),
        AclEntry("User:carol", "Read"),
        AclEntry("User:größe", "Read"),
        AclEntry("User:d,e=f", "Read"),
        AclEntry("User:frank", "Write"),
    ),
    ("Topic", "secret"): (AclEntry("User:bob", "Read"),),
    ("Topic", "written"): (AclEntry("User:alice", "Write"), AclEntry("User:dora", "Write")),
    ("Topic", "*"): (AclEntry("User:frank", "Write", "Deny"),),
    ("Group", GROUP): (AclEntry("User:alice", "Read"),),
    ("Cluster", "kafka-cluster"): (AclEntry("User:dora", "IdempotentWrite"),),
    ("TransactionalId", TRANSACTION): (AclEntry("User:alice", "Write"),),
}
_TRANSACTIONS: Final = (0, 11)
_REQUESTS: Final = (1, 0)
_TOKENS: Final = (1, 1)
_SESSIONS: Final = (2, 2)
_SCRAM: Final = (0, 10, 2)


def settings(release: tuple[int, ...]) -> dict[str, str]:
    """Return the settings of the broker that matter to the stories."""
    chosen = {
        "sasl.enabled.mechanisms": "PLAIN" if release < _SCRAM else f"PLAIN,{SCRAM_256},{SCRAM_512}",
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
    }
    if release >= _TRANSACTIONS:  # simzk has no authorizer before
        authorizer = "authorizer.Acl" if release >= (2, 4) else "auth.SimpleAcl"
        chosen |= {"authorizer.class.name": f"kafka.security.{authorizer}Authorizer", "super.users": f"User:{ADMIN}"}
        chosen |= {"transaction.state.log.num.partitions": "1", "transaction.state.log.replication.factor": "1"}
        chosen |= {"transaction.state.log.min.isr": "1", "group.initial.rebalance.delay.ms": "0"}
    if release >= _TOKENS:
        chosen["delegation.token.master.key"] = "key"
    if release >= (2, 1):
        chosen["connection.failed.authentication.delay.ms"] = str(DELAY_MS)
    if release >= _SESSIONS:
        prefix = "listener.name.sasl_plaintext."
        for mechanism in ("plain", SCRAM_256.lower()):
            chosen[f"{prefix}{mechanism}.connections.max.reauth.ms"] = str(LIFETIME_MS)
    return chosen


def acls(release: tuple[int, ...]) -> dict[tuple[str, str], tuple[AclEntry, ...]]:
    """Return the ACLs by type and name of their resource."""
    return {resource: entries for resource, entries in ACLS.items() if release >= _TRANSACTIONS}


class Stage:
    """A broker of a release, to which conversations are opened.

    Args:
        release: the release.
        connect: returns a new connection.
    """

    def __init__(self, release: tuple[int, ...], connect: Callable[[], Wire]) -> None:
        self.release = release
        self._connect = connect
        self._open: list[tuple[str, Conversation]] = []
        accepted = accepted_versions(release[:2] if release >= (1,) else release[:3])
        self._accepted = accepted

    def versions(self, request: type[Any]) -> list[int]:
        """Return the versions of a request that the release accepts."""
        found = self._accepted.get(request.MESSAGE.api_key)
        return [] if found is None else list(range(found.low, found.high + 1))

    def top(self, request: type[Any]) -> int:
        """Return the highest version of a request."""
        return self.versions(request)[-1]

    def talk(self, name: str) -> Conversation:
        """Return a new conversation."""
        conversation = Conversation(self._connect())
        self._open.append((name, conversation))
        return conversation

    def written(self) -> list[dict[str, Any]]:
        """Return the conversations since the last call; end those that are open."""
        found = [{"talk": name, "lines": talk.lines} for name, talk in self._open]
        self.forget()
        return found

    def forget(self) -> None:
        """End all conversations."""
        for _, talk in self._open:
            talk.hang_up()
        self._open.clear()

    def handshakes(self) -> list[int]:
        """Return the versions of SaslHandshake: bare tokens, and tokens in requests."""
        return self.versions(m.SaslHandshakeRequest)

    def mechanisms(self) -> list[str]:
        """Return the mechanisms of SCRAM that the release has."""
        return list(DIGESTS) if self.release >= _SCRAM else []

    def user(self, name: str, *, label: str = "") -> Conversation:
        """Return a conversation of a user who has logged in, without end if possible; the login is not written down."""
        talk = self.talk(label or name)
        if name.isascii() and self.release >= _SCRAM:
            handshake(talk, SCRAM_512, 0)
            assert scram(talk, SCRAM_512, name, PASSWORDS[name], None)
        else:
            handshake(talk, "PLAIN", 0)
            assert token(talk, plain_token(name, PASSWORDS[name]), None) == b""
        talk.lines.clear()
        return talk


def handshake(talk: Conversation, mechanism: str, version: int) -> Any:
    """Choose a mechanism."""
    return talk.ask(m.SaslHandshakeRequest(mechanism=mechanism), version)


def token(talk: Conversation, data: bytes, version: int | None) -> bytes | None:
    """Send a token; return the answer, None for a failure.

    Args:
        talk: the conversation.
        data: the token.
        version: of SaslAuthenticate; None for a bare token.
    """
    if version is None:
        return talk.token(data)
    response = talk.ask(m.SaslAuthenticateRequest(auth_bytes=data), version)
    return None if response is None or response.error_code else bytes(response.auth_bytes)


def metadata(talk: Conversation, *names: str, version: int = 1) -> Any:
    """Ask for topics: the answer shows the client's principal."""
    topic = m.MetadataRequest.MetadataRequestTopic
    topics = [topic(name=name) for name in names or ("open", "secret")]
    return talk.ask(m.MetadataRequest(topics=topics), version)


def scram(
    talk: Conversation,
    mechanism: str,
    user: str,
    password: str,
    version: int | None,
    *,
    header: str = "n,,",
    extension: str = "",
    nonce: str | None = None,
    final: Callable[[bytes], bytes] = bytes,
) -> bool:
    """Log in by SCRAM; return whether the broker accepts it and knows the password too.

    Args:
        talk: the conversation, after the handshake.
        mechanism: the mechanism.
        user, password: of the user.
        version: of SaslAuthenticate; None for bare tokens.
        header: what comes before the user.
        extension: what follows the client's nonce.
        nonce: the nonce in the last message, of which the proof is made; the right one if None.
        final: changes the last message.
    """
    client = ScramClient(DIGESTS[mechanism], user, password, NONCE, extension)
    first = token(talk, client.first().replace(b"n,,", header.encode(), 1), version)
    if first is None:
        return False
    last = token(talk, final(client.final(first, nonce)), version)
    if last is None:
        return False
    client.check(last)
    talk.note("genuine", client.is_server_genuine)
    return client.is_server_genuine


def ways(stage: Stage) -> Iterator[tuple[int, int | None]]:
    """Yield versions of SaslHandshake and of SaslAuthenticate that belong together; None for bare tokens."""
    yield 0, None
    for version in stage.versions(m.SaslAuthenticateRequest):
        yield 1, version


# -- Logins by PLAIN


def plain_logins(stage: Stage) -> None:
    """Log in by PLAIN in each way."""
    for shakes, version in ways(stage):
        for user in ("alice", "bob", "größe"):
            talk = stage.talk(f"{user}, handshake v{shakes}, authenticate v{version}")
            handshake(talk, "PLAIN", shakes)
            token(talk, plain_token(user, PASSWORDS[user]), version)
            metadata(talk)


PLAIN_TOKENS: Final[Mapping[str, bytes]] = {
    "wrong password": plain_token("alice", "wrong"),
    "unknown user": plain_token("nobody", "secret"),
    "no user": plain_token("", "secret"),
    "no password": plain_token("alice", ""),
    "nothing": plain_token("", ""),
    "own identity": plain_token("alice", "secret", "alice"),
    "another identity": plain_token("alice", "secret", "bob"),
    "another identity and wrong password": plain_token("alice", "wrong", "bob"),
    "one part": b"alice",
    "two parts": b"alice\0secret",
    "four parts": b"\0alice\0secret\0more",
    "four parts, the last one empty": b"\0alice\0secret\0",
    "empty token": b"",
    "only separators": b"\0\0\0\0",
    "bytes that are not UTF-8": b"\0al\xffice\0secret",
    "identity that is not UTF-8": b"\xff\0alice\0secret",
    "large": b"\0alice\0" + b"x" * 20_000,
    "larger than a login may be": b"\0alice\0" + b"x" * 600_000,
}


def plain_tokens(stage: Stage) -> None:
    """Send tokens of PLAIN that are wrong, or unusual."""
    for name, data in PLAIN_TOKENS.items():
        for shakes, version in ways(stage):
            if version in (None, 0):
                if version is not None and len(data) > 500_000:
                    continue  # its line would be as large
                talk = stage.talk(f"{name}, handshake v{shakes}")
                handshake(talk, "PLAIN", shakes)
                if token(talk, data, version) is not None:
                    metadata(talk)
                talk.end()


# -- The order of requests


def mechanisms(stage: Stage) -> None:
    """Choose mechanisms that the broker does not have."""
    for version in stage.handshakes():
        for name in ("GSSAPI", "", "plain", "OAUTHBEARER"):
            talk = stage.talk(f"{name!r}, handshake v{version}")
            handshake(talk, name, version)
            talk.end()


def requests_before(stage: Stage) -> None:
    """Send other requests before the login, or in the middle of it."""
    others: list[tuple[Any, int]] = [(m.MetadataRequest(topics=[]), 1), (m.FindCoordinatorRequest(key="a"), 0)]
    others += [(m.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 0)] * (stage.release >= _REQUESTS)
    for request, version in others:
        name = request.MESSAGE.name
        talk = stage.talk(f"{name} first")
        talk.ask(request, version)
        talk.end()
        talk = stage.talk(f"{name} after ApiVersions")
        talk.ask(m.ApiVersionsRequest(), 0)
        talk.ask(request, version)
        talk.end()
        for shakes in stage.handshakes():
            if shakes == 0 or name != "SaslAuthenticateRequest":
                talk = stage.talk(f"{name} after the handshake v{shakes}")
                handshake(talk, "PLAIN", shakes)
                talk.ask(request, version)
                talk.end()


def api_versions(stage: Stage) -> None:
    """Ask for versions before, in the middle of and after the login."""
    request = m.ApiVersionsRequest(client_software_name="story", client_software_version="1.0")
    for version in stage.versions(m.ApiVersionsRequest):
        talk = stage.talk(f"v{version} before and after")
        talk.ask(request, version)
        handshake(talk, "PLAIN", 0)
        token(talk, plain_token("alice", "secret"), None)
        talk.ask(request, version)
        metadata(talk)
    talk = stage.talk("twice")
    talk.ask(request, 0)
    talk.ask(request, 0)
    talk.end()
    talk = stage.talk("unknown version first")
    talk.ask(request, 0, sent_version=99)
    talk.ask(request, 0)
    handshake(talk, "PLAIN", 0)
    token(talk, plain_token("alice", "secret"), None)
    metadata(talk)
    talk = stage.talk("unknown version twice")
    talk.ask(request, 0, sent_version=99)
    talk.ask(request, 0, sent_version=99)
    talk.ask(request, 0)
    talk.end()
    talk = stage.talk("unknown version after a known one")
    talk.ask(request, 0)
    talk.ask(request, 0, sent_version=99)
    talk.end()
    for shakes in stage.handshakes():
        talk = stage.talk(f"after the handshake v{shakes}")
        handshake(talk, "PLAIN", shakes)
        talk.ask(request, 0)
        talk.end()
        talk = stage.talk(f"unknown version after the handshake v{shakes}")
        handshake(talk, "PLAIN", shakes)
        talk.ask(request, 0, sent_version=99)
        talk.end()
    if stage.top(m.ApiVersionsRequest) >= 3:
        talk = stage.talk("invalid name of software")
        talk.ask(m.ApiVersionsRequest(client_software_name="_", client_software_version="_"), 3)
        handshake(talk, "PLAIN", 0)
        token(talk, plain_token("alice", "secret"), None)
        metadata(talk)


def handshakes(stage: Stage) -> None:
    """Choose a mechanism twice, in an unknown version, or after the login."""
    for version in stage.handshakes():
        talk = stage.talk(f"twice v{version}")
        handshake(talk, "PLAIN", version)
        handshake(talk, "PLAIN", version)
        talk.end()
    talk = stage.talk("unknown version")
    talk.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), 0, sent_version=9)
    talk.end()
    for version in stage.handshakes() if stage.release >= _SCRAM else ():
        talk = stage.talk(f"after the login v{version}, without a lifetime")
        handshake(talk, SCRAM_512, 0)
        scram(talk, SCRAM_512, "carol", "pencil", None)
        handshake(talk, SCRAM_512, version)
        metadata(talk)
        talk.end()
    if stage.release >= _REQUESTS:
        talk = stage.talk("token after the login")
        handshake(talk, "PLAIN", 1)
        token(talk, plain_token("alice", "secret"), 0)
        token(talk, plain_token("alice", "secret"), 0)
        metadata(talk)
        talk.end()


def garbage(stage: Stage) -> None:
    """Send bytes that are no request, at the beginning and instead of tokens."""
    frames = {
        "empty": b"",
        "one byte": b"\0",
        "text": b"GET / HTTP/1.1\r\n\r\n",
        "unknown API": b"\x03\xe8\0\0\0\0\0\1\xff\xff",
        "negative API": b"\xff\xff\0\0\0\0\0\1\xff\xff",
        "API that this release does not accept": b"\0\0\0\x63\0\0\0\1\xff\xff",
        "handshake that is cut": b"\0\x11\0\0\0\0\0\1\xff\xff\0\x05PL",
        "token of GSSAPI": b"\x60\x81\x80\x06\x09*\x86H\x86\xf7\x12\1\2\2" + b"\1\2\3" * 8,
        "too large": b"\0" * 600_000,
    }
    for name, frame in frames.items():
        talk = stage.talk(f"{name} first")
        talk.token(frame)
        talk.end()
        if len(frame) < 100 and stage.release >= _REQUESTS:
            talk = stage.talk(f"{name} for a request with a token")
            handshake(talk, "PLAIN", 1)
            talk.token(frame)
            talk.end()
    if stage.release >= _REQUESTS:
        talk = stage.talk("unknown version of SaslAuthenticate")
        handshake(talk, "PLAIN", 1)
        talk.ask(m.SaslAuthenticateRequest(auth_bytes=plain_token("alice", "secret")), 0, sent_version=9)
        talk.end()


# -- SCRAM


def scram_logins(stage: Stage) -> None:
    """Log in by SCRAM in each way, with right and wrong passwords."""
    for mechanism in stage.mechanisms():
        for shakes, version in ways(stage):
            for user, password in (
                *SCRAM_USERS.items(),
                ("carol", "wrong"),
                ("nobody", "pencil"),
                ("alice", "secret"),
            ):
                talk = stage.talk(f"{mechanism}, {user} {password}, handshake v{shakes}, authenticate v{version}")
                handshake(talk, mechanism, shakes)
                if scram(talk, mechanism, user, password, version):
                    metadata(talk)
                else:
                    talk.end()


def scram_messages(stage: Stage) -> None:
    """Send messages of SCRAM that are wrong, or unusual."""
    first: dict[str, bytes] = {
        "empty": b"",
        "text": b"carol",
        "channel binding": b"p=tls-unique,,n=carol,r=abc",
        "no nonce": b"n,,n=carol",
        "empty nonce": b"n,,n=carol,r=",
        "no user": b"n,,n=,r=abc",
        "mandatory extension": b"n,,m=x,n=carol,r=abc",
        "not UTF-8": b"n,,n=ca\xffrol,r=abc",
        "wrong escape": b"n,,n=ca=rol,r=abc",
        "line feed": b"n,,n=carol,r=abc\n",
    }
    headers = {
        "client could bind": "y,,",
        "own identity": "n,a=carol,",
        "another identity": "n,a=alice,",
        "identity of nobody": "n,a=,",
    }
    last: dict[str, Callable[[bytes], bytes]] = {
        "wrong proof": lambda text: text[:-8] + b"AAAAAAA=",
        "short proof": lambda text: text.partition(b",p=")[0] + b",p=AAAA",
        "no proof": lambda text: text.partition(b",p=")[0],
        "proof that is not base64": lambda text: text.partition(b",p=")[0] + b",p=*",
        "other channel": lambda text: text.replace(b"c=biws", b"c=eSws"),
        "empty": lambda _: b"",
        "text": lambda _: b"carol",
    }
    for shakes, version in [(0, None), (1, 0)][: 1 + (stage.release >= _REQUESTS)]:
        way = f"handshake v{shakes}"
        for name, data in first.items():
            talk = stage.talk(f"first message: {name}, {way}")
            handshake(talk, SCRAM_256, shakes)
            token(talk, data, version)
            talk.end()
        for name, header in headers.items():
            talk = stage.talk(f"header: {name}, {way}")
            handshake(talk, SCRAM_256, shakes)
            if scram(talk, SCRAM_256, "carol", "pencil", version, header=header):
                metadata(talk)
            else:
                talk.end()
        for name, change in last.items():
            talk = stage.talk(f"last message: {name}, {way}")
            handshake(talk, SCRAM_256, shakes)
            if scram(talk, SCRAM_256, "carol", "pencil", version, final=change):
                metadata(talk)
            talk.end()
        for name, nonce in (("of the client", NONCE), ("of another login", "abc")):
            talk = stage.talk(f"nonce {name}, {way}")
            handshake(talk, SCRAM_256, shakes)
            if scram(talk, SCRAM_256, "carol", "pencil", version, nonce=nonce):
                metadata(talk)
            talk.end()
        for extension in (",x=y", ",tokenauth=false", ",tokenauth=true"):
            talk = stage.talk(f"extension {extension}, {way}")
            handshake(talk, SCRAM_256, shakes)
            if scram(talk, SCRAM_256, "carol", "pencil", version, extension=extension):
                metadata(talk)
            else:
                talk.end()
        talk = stage.talk(f"the first message twice, {way}")
        handshake(talk, SCRAM_256, shakes)
        for _ in range(2):
            token(talk, b"n,,n=carol,r=abc", version)
        talk.end()


# -- Sessions with a lifetime (KIP-368)


def _logged_in(stage: Stage, name: str) -> Conversation:
    """Return a conversation of alice, whose session has a lifetime."""
    talk = stage.talk(name)
    handshake(talk, "PLAIN", 1)
    assert token(talk, plain_token("alice", "secret"), 1) is not None
    return talk


def sessions(stage: Stage) -> None:
    """Log in again during a session, rightly and wrongly, and let sessions end."""
    _renewals(stage, plain_token("alice", "secret"))
    _changes(stage, plain_token("alice", "secret"))
    _interruptions(stage, plain_token("alice", "secret"))
    _scram_sessions(stage)


def _renewals(stage: Stage, right: bytes) -> None:
    for version in stage.versions(m.SaslAuthenticateRequest):
        talk = _logged_in(stage, f"again v{version}, twice")
        for _ in range(2):
            talk.pause(1.3)
            handshake(talk, "PLAIN", 1)
            token(talk, right, version)
            metadata(talk)
        talk.pause(1.3)
        metadata(talk)
        talk.pause(2.5)
        metadata(talk)
        talk.end()
    talk = _logged_in(stage, "at once, then again at once")
    for _ in range(2):
        handshake(talk, "PLAIN", 1)
        token(talk, right, 1)
    metadata(talk)
    talk.end()


def _changes(stage: Stage, right: bytes) -> None:
    changes: dict[str, tuple[str, int, bytes]] = {
        "another user": ("PLAIN", 1, plain_token("bob", "tiger")),
        "wrong password": ("PLAIN", 1, plain_token("alice", "wrong")),
        "unknown user": ("PLAIN", 1, plain_token("nobody", "x")),
        "token that is none": ("PLAIN", 1, b"alice"),
        "bare tokens": ("PLAIN", 0, right),
        "another mechanism": (SCRAM_256, 1, b"n,,n=alice,r=abc"),
        "another mechanism, bare tokens": (SCRAM_256, 0, b"n,,n=alice,r=abc"),
        "unknown mechanism": ("GSSAPI", 1, right),
    }
    for name, (mechanism, version, data) in changes.items():
        talk = _logged_in(stage, name)
        talk.pause(1.3)
        response = handshake(talk, mechanism, version)
        if response is not None and response.error_code == ErrorCode.NONE:
            token(talk, data, 1 if version else None)
        metadata(talk)
        talk.end()


def _interruptions(stage: Stage, right: bytes) -> None:
    talk = _logged_in(stage, "other requests in the middle")
    talk.pause(1.3)
    handshake(talk, "PLAIN", 1)
    metadata(talk)
    talk.end()
    talk = _logged_in(stage, "versions in the middle")
    talk.pause(1.3)
    handshake(talk, "PLAIN", 1)
    talk.ask(m.ApiVersionsRequest(), 0)
    talk.end()
    talk = _logged_in(stage, "versions, then again")
    talk.pause(1.3)
    talk.ask(m.ApiVersionsRequest(), 0)
    handshake(talk, "PLAIN", 1)
    token(talk, right, 1)
    metadata(talk)
    talk.end()
    talk = _logged_in(stage, "again after the end")
    talk.pause(3.5)
    handshake(talk, "PLAIN", 1)
    token(talk, right, 1)
    metadata(talk)
    talk.end()
    talk = _logged_in(stage, "a token without a handshake")
    talk.pause(1.3)
    token(talk, right, 1)
    metadata(talk)
    talk.end()
    talk = stage.talk("bare tokens, session that ends")
    handshake(talk, "PLAIN", 0)
    token(talk, right, None)
    talk.pause(3.5)
    metadata(talk)
    talk.end()


def _scram_sessions(stage: Stage) -> None:
    talk = stage.talk("SCRAM, again")
    for _ in range(2):
        handshake(talk, SCRAM_256, 1)
        scram(talk, SCRAM_256, "carol", "pencil", 1)
        talk.pause(1.3)
    metadata(talk)
    talk.end()
    talk = stage.talk("SCRAM, wrong password the second time")
    for password in ("pencil", "wrong"):
        handshake(talk, SCRAM_256, 1)
        scram(talk, SCRAM_256, "carol", password, 1)
        talk.pause(1.3)
    metadata(talk)
    talk.end()


# -- Delegation tokens (KIP-48)


def _by_token(stage: Stage, name: str, token_id: str, secret: bytes, version: int | None, mechanism: str) -> None:
    password = base64.b64encode(secret).decode()
    talk = stage.talk(name)
    handshake(talk, mechanism, 0 if version is None else 1)
    if not scram(talk, mechanism, token_id, password, version, extension=",tokenauth=true"):
        talk.end()
        return
    metadata(talk)
    for kind in (m.CreateDelegationTokenRequest, m.DescribeDelegationTokenRequest):
        talk.ask(kind(), stage.versions(kind)[0])
    talk.end()


def delegation_tokens(stage: Stage) -> None:
    """Create tokens, log in by them, renew and expire them."""
    alice = stage.user("alice")
    renewer = m.CreateDelegationTokenRequest.CreatableRenewers(principal_type="User", principal_name="bob")
    for version in stage.versions(m.CreateDelegationTokenRequest):
        made = alice.ask(m.CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1), version)
    alice.ask(m.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=60_000), 1 if stage.release >= (2,) else 0)
    wrong = m.CreateDelegationTokenRequest.CreatableRenewers(principal_type="Group", principal_name="bob")
    alice.ask(
        m.CreateDelegationTokenRequest(renewers=[wrong], max_lifetime_ms=-1),
        stage.versions(m.CreateDelegationTokenRequest)[0],
    )
    token_id, secret = made.token_id, bytes(made.hmac)
    low = stage.versions(m.RenewDelegationTokenRequest)[0]
    for mechanism in DIGESTS:
        for way in (None, 0, *stage.versions(m.SaslAuthenticateRequest)[1:]):
            _by_token(stage, f"{mechanism}, authenticate v{way}", token_id, secret, way, mechanism)
    _by_token(stage, "wrong secret", token_id, b"wrong", 0, SCRAM_256)
    _by_token(stage, "unknown token", "unknown", secret, 0, SCRAM_256)
    talk = stage.talk("without the extension")
    handshake(talk, SCRAM_256, 1)
    scram(talk, SCRAM_256, token_id, "x", 0)
    talk.end()
    for user in ("bob", "erin", ADMIN):
        talk = stage.user(user)
        for version in stage.versions(m.DescribeDelegationTokenRequest):
            talk.ask(m.DescribeDelegationTokenRequest(owners=None), version)
        talk.ask(m.RenewDelegationTokenRequest(hmac=secret, renew_period_ms=1000), low)
        talk.ask(m.RenewDelegationTokenRequest(hmac=b"unknown", renew_period_ms=1000), low)
        talk.ask(m.ExpireDelegationTokenRequest(hmac=b"unknown", expiry_time_period_ms=-1), low)
        talk.ask(m.ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=1_000_000), low)
    talk = stage.user("alice", label="alice ends the token")
    low = stage.versions(m.ExpireDelegationTokenRequest)[0]
    talk.ask(m.DescribeDelegationTokenRequest(owners=None), low)
    talk.ask(m.ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1), low)
    talk.ask(m.ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1), low)
    _by_token(stage, "after its end", token_id, secret, 0, SCRAM_256)


# -- What users may do


def principals(stage: Stage) -> None:
    """Ask for topics as each user."""
    for user in PASSWORDS:
        talk = stage.user(user)
        metadata(talk, *TOPICS, "unknown")
        for mechanism in stage.mechanisms()[: user == "alice"]:
            for name, password in SCRAM_USERS.items():
                other = stage.talk(f"{name} by {mechanism}")
                handshake(other, mechanism, 0)
                scram(other, mechanism, name, password, None)
                metadata(other, *TOPICS, "unknown")


def _batch(producer: BatchProducer | None = None, *, is_transactional: bool = False) -> bytes:
    records = [Record(None, b"v", timestamp_ms=1_600_000_000_000)]
    return encode_batch(records, producer=producer or BatchProducer(), is_transactional=is_transactional)


def _produce(data: bytes, *topics: str, transaction: str | None = None, acks: int = -1) -> m.ProduceRequest:
    part = m.ProduceRequest.PartitionProduceData(index=0, records=data)
    named = [m.ProduceRequest.TopicProduceData(name=topic, partition_data=[part]) for topic in topics]
    return m.ProduceRequest(transactional_id=transaction, acks=acks, timeout_ms=3000, topic_data=named)


_PAIRS: Final = (("theirs", GROUP), (TRANSACTION, "other"), ("theirs", "other"), (TRANSACTION, GROUP))
"""Transactions and groups that alice may use, or not."""
_PRODUCE: Final = 3
"""The first version of Produce with batches."""


def idempotent_producers(stage: Stage) -> None:
    """Ask for producer ids and produce with them, as users who may write, or write idempotently, or neither."""
    talk, code = stage.user(ADMIN), -1
    while code != ErrorCode.NONE:  # the first producer ids may not be there yet
        talk.pause(0.1)
        code = talk.ask(m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 0).error_code
    stage.forget()
    for number, user in enumerate(("alice", "dora", "erin", "frank", "bob", ADMIN)):
        talk = stage.user(user)
        for version in stage.versions(m.InitProducerIdRequest):
            talk.ask(m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), version)
        produced = [version for version in stage.versions(m.ProduceRequest) if version >= _PRODUCE]
        for place, version in enumerate((produced[0], produced[-1])):
            producer = BatchProducer(5000 + number, 0, place)
            talk.ask(_produce(_batch(producer), "written"), version)
            talk.ask(_produce(_batch(), "written"), version)
            talk.ask(_produce(_batch(BatchProducer(6000 + number, 0, place)), "written", "secret"), version)


def _coordinator(stage: Stage, kind: int) -> None:
    """Wait for the coordinator of the transactions or of the group; nothing of it is written down."""
    talk = stage.user(ADMIN)
    codes: list[int] = []
    while codes[-1:] != [0] and len(codes) < 200:
        found = talk.ask(m.FindCoordinatorRequest(key=(GROUP, TRANSACTION)[kind], key_type=kind), 1)
        codes.append(found.error_code)
        if found.error_code == 0 and kind == 0:
            topic = m.OffsetFetchRequest.OffsetFetchRequestTopic(name="open", partition_indexes=[0])
            got = talk.ask(m.OffsetFetchRequest(group_id=GROUP, topics=[topic]), 2)
            codes.append(got.error_code)
        elif found.error_code == 0:
            request = m.InitProducerIdRequest(transactional_id="theirs", transaction_timeout_ms=60_000)
            codes.append(talk.ask(request, 0).error_code)
        talk.pause(0.1)
    assert codes[-1] == 0, codes
    stage.forget()


def transactions(stage: Stage) -> None:
    """Use transactions, groups and topics that the user may not use, or only in part."""
    own = _producer(stage)
    _add_partitions(stage, own)
    _add_records(stage, own)
    _add_offsets(stage, own)
    _ends(stage, own)


def _producer(stage: Stage) -> dict[str, Any]:
    """Return the producer of the transaction that alice may use."""
    for kind in (1, 0):
        _coordinator(stage, kind)
    alice, erin = stage.user("alice"), stage.user("erin")
    for talk in (erin, alice):
        for version in stage.versions(m.FindCoordinatorRequest)[1:4]:
            for name, kind in ((TRANSACTION, 1), ("theirs", 1), (GROUP, 0)):
                talk.ask(m.FindCoordinatorRequest(key=name, key_type=kind), version)
        for version in stage.versions(m.InitProducerIdRequest):
            for name in ("theirs", TRANSACTION):
                found = talk.ask(m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), version)
    return {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}


def _add_partitions(stage: Stage, own: Mapping[str, Any]) -> None:
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    chosen = {
        "denied": [("secret", [0])],
        "allowed and denied": [("written", [0]), ("secret", [0, 1])],
        "unknown": [("written", [0, 7])],
        "unknown and denied": [("written", [0, 7]), ("secret", [0]), ("nowhere", [0])],
        "allowed": [("written", [0])],
    }
    adds = [version for version in stage.versions(m.AddPartitionsToTxnRequest) if version < 4]
    for name, parts in chosen.items():
        talk = stage.user("alice", label=f"partitions: {name}")
        for version in adds:
            for transaction in ("theirs", TRANSACTION):
                request = m.AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=transaction,
                    v3_and_below_producer_id=own["producer_id"],
                    v3_and_below_producer_epoch=own["producer_epoch"],
                    v3_and_below_topics=[topic(name=one, partitions=numbers) for one, numbers in parts],
                )
                talk.ask(request, version)


def _add_records(stage: Stage, own: Mapping[str, Any]) -> None:
    talk = stage.user("alice", label="records")
    for version in (_PRODUCE, stage.top(m.ProduceRequest)):
        producer = BatchProducer(own["producer_id"], own["producer_epoch"], int(version > _PRODUCE))
        data = _batch(producer, is_transactional=True)
        talk.ask(_produce(data, "written", transaction="theirs"), version)
        talk.ask(_produce(data, "secret", transaction=TRANSACTION), version)
        talk.ask(_produce(data, "written", "secret", transaction=TRANSACTION), version)


def _add_offsets(stage: Stage, own: Mapping[str, Any]) -> None:
    talk = stage.user("alice", label="groups")
    for version in stage.versions(m.AddOffsetsToTxnRequest):
        for transaction, group in (
            ("theirs", GROUP),
            (TRANSACTION, "other"),
            ("theirs", "other"),
            (TRANSACTION, GROUP),
        ):
            talk.ask(m.AddOffsetsToTxnRequest(transactional_id=transaction, group_id=group, **own), version)
    commit = m.TxnOffsetCommitRequest
    for version in stage.versions(commit):
        talk = stage.user("alice", label=f"offsets v{version}")
        for transaction, group in (
            ("theirs", GROUP),
            (TRANSACTION, "other"),
            ("theirs", "other"),
            (TRANSACTION, GROUP),
        ):
            for names in (("open",), ("secret",), ("open", "secret"), ("open", "nowhere"), ("secret", "nowhere")):
                parts_of = [
                    commit.TxnOffsetCommitRequestTopic(
                        name=one,
                        partitions=[
                            commit.TxnOffsetCommitRequestPartition(
                                partition_index=0, committed_offset=1, committed_metadata=""
                            )
                        ],
                    )
                    for one in names
                ]
                talk.ask(commit(transactional_id=transaction, group_id=group, topics=parts_of, **own), version)


def _ends(stage: Stage, own: Mapping[str, Any]) -> None:
    shown = [kind for kind in (m.DescribeTransactionsRequest, m.ListTransactionsRequest) if stage.versions(kind)]
    for user in ("alice", "erin", ADMIN) if shown else ():
        talk = stage.user(user, label=f"{user} looks")
        request = m.DescribeTransactionsRequest(transactional_ids=[TRANSACTION, "theirs", "unknown"])
        talk.ask(request, 0)
        talk.ask(m.ListTransactionsRequest(), 0)
    for version in stage.versions(m.EndTxnRequest):
        talk = stage.user("alice", label=f"end v{version}")
        for transaction in ("theirs", TRANSACTION):
            if transaction == "theirs" or version == stage.top(m.EndTxnRequest):
                talk.ask(m.EndTxnRequest(transactional_id=transaction, committed=True, **own), version)
        erin = stage.user("erin", label=f"erin ends v{version}")
        erin.ask(m.EndTxnRequest(transactional_id=TRANSACTION, committed=True, **own), version)


class Story(NamedTuple):
    """A story, and the first release that has it."""

    play: Callable[[Stage], None]
    since: tuple[int, ...] = (0, 10)


STORIES: Final[Mapping[str, Story]] = {
    "principals": Story(principals),
    "logins by PLAIN": Story(plain_logins),
    "tokens of PLAIN": Story(plain_tokens),
    "mechanisms": Story(mechanisms),
    "requests before the login": Story(requests_before),
    "versions": Story(api_versions),
    "handshakes": Story(handshakes),
    "garbage": Story(garbage),
    "logins by SCRAM": Story(scram_logins, _SCRAM),
    "messages of SCRAM": Story(scram_messages, _SCRAM),
    "sessions": Story(sessions, _SESSIONS),
    "delegation tokens": Story(delegation_tokens, _TOKENS),
    "idempotent producers": Story(idempotent_producers, _TRANSACTIONS),
    "transactions": Story(transactions, _TRANSACTIONS),
}


def play(release: tuple[int, ...], connect: Callable[[], Wire], chosen: str | None = None) -> Iterator[dict[str, Any]]:
    """Play the stories of a release with a broker; yield what was written down.

    Args:
        release: the release.
        connect: returns a new connection to the broker.
        chosen: the only story to play; all if None.
    """
    stage = Stage(release, connect)
    for name, story in STORIES.items():
        if release >= story.since and chosen in (None, name):
            story.play(stage)
            for conversation in stage.written():
                yield {"story": name, **conversation}


def wait_for_topics(release: tuple[int, ...], connect: Callable[[], Wire]) -> None:
    """Wait until the broker leads the topics."""
    stage = Stage(release, connect)
    for _ in range(100):
        talk = stage.user(ADMIN)
        found = metadata(talk, *TOPICS)
        if all(topic.error_code == 0 and topic.partitions for topic in found.topics):
            break
        talk.pause(0.2)
    else:
        raise AssertionError(f"no leaders: {found}")
    stage.forget()
