"""The AdminServer's command snapshot: who may have it, how often, and the bytes (§5).

Rules of this module:
  - whoever asks shows who they are in the header Authorization, as "digest USER:PASSWORD" or "ip x", and must have all
    permissions on the root by one entry of its ACL;
  - with a data directory the snapshot is written there, and what was written is sent.

Source: org.apache.zookeeper.server.admin.Commands (SnapshotCommand, handleAuthentication, handleAuthorization).
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.acl import digest_id, is_permitted
from simzk.zookeeper.persistence import TreeDigest, encode_snapshot
from simzk.zookeeper.requests import Id

if TYPE_CHECKING:
    from simzk.serve.tcp import TcpServer

_ALL = 31


class Refusal(NamedTuple):
    """Why there is no snapshot; `error` is None where the real server says nothing."""

    status: HTTPStatus
    error: str | None


class Taken(NamedTuple):
    """A snapshot, and the last transaction that it holds."""

    zxid: int
    data: bytes


class Snapshots:
    """What hands out snapshots of one server.

    Args:
        server: whose.
        interval_ms: how long nobody gets another (admin.rateLimiterIntervalInMS).
    """

    def __init__(self, server: TcpServer, interval_ms: int) -> None:
        self._server = server
        self._interval_ms = interval_ms
        self._next_ns = 0

    def take(self, authorization: str | None, address: str) -> Taken | Refusal:
        """A snapshot for who asks from an address."""
        if authorization is None:
            return Refusal(HTTPStatus.UNAUTHORIZED, "Auth info is missing for the command")
        identities = self._identities(authorization, address)
        if not identities:
            return Refusal(HTTPStatus.UNAUTHORIZED, "Not authenticated")
        with self._server.host.lock:
            if not self._may(identities):
                return Refusal(HTTPStatus.FORBIDDEN, "Not authorized")
            now_ns = time.monotonic_ns()
            if now_ns < self._next_ns:
                return Refusal(HTTPStatus.TOO_MANY_REQUESTS, None)
            self._next_ns = now_ns + self._interval_ms * 1_000_000
            return Taken(self._server.host.server.zxid, self._data())

    def _identities(self, authorization: str, address: str) -> list[Id]:
        scheme, *credentials = authorization.split(" ")
        if len(credentials) != 1:
            return []
        if scheme == "ip":
            return [Id("ip", address)]
        if scheme != "digest":
            return []
        digest = digest_id(credentials[0].encode("latin-1"))
        is_super = digest == self._server.settings.server.super_digest
        return [Id("digest", digest), *([Id("super", "")] if is_super else [])]

    def _may(self, identities: list[Id]) -> bool:
        root = self._server.host.server.tree.get("/")
        assert root is not None
        entire = tuple(entry for entry in root.acl if entry.perms & _ALL == _ALL)
        if not entire:
            return Id("super", "") in identities
        return is_permitted(entire, _ALL, identities)

    def _data(self) -> bytes:
        if self._server.directory is not None:
            return self._server.directory.snapshot().read_bytes()
        server = self._server.host.server
        digest = TreeDigest(server.tree).value
        return b"".join(encode_snapshot(server.tree, server.sessions.timeouts_ms(), lambda: (server.zxid, digest)))
