"""The AdminServer's commands snapshot and restore: who may have them, how often, and the bytes (§5).

Rules of this module:
  - whoever asks shows who they are in the header Authorization, as "digest USER:PASSWORD" or "ip", and must have all
    permissions on the root;
  - with a data directory the snapshot is written there, and what was written is sent; what was restored is on disk
    before it is told;
  - a server of an ensemble is not restored, for the others would have another history.

Source: org.apache.zookeeper.server.admin.Commands (SnapshotCommand, RestoreCommand, handleAuthentication,
handleAuthorization), RateLimiter, ZooKeeperServer.restoreFromSnapshot.
"""

from __future__ import annotations

import io
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.acl import ADMIN, CREATE, DELETE, READ, WRITE, digest_id, is_permitted
from simzk.zookeeper.persistence import Restoration, SnapshotReader, TreeDigest, encode_snapshot
from simzk.zookeeper.requests import Id

if TYPE_CHECKING:
    from simzk.serve.tcp.server import TcpServer

_PERMISSIONS = (READ, WRITE, CREATE, DELETE, ADMIN)


class Refusal(NamedTuple):
    """Why there is no snapshot; `error` is None where the real server says nothing."""

    status: HTTPStatus
    error: str | None


class Taken(NamedTuple):
    """A snapshot, and the last transaction that it holds."""

    zxid: int
    data: bytes


class _Limiter:
    """Lets one through in each interval, which begins with the first after the last one (RateLimiter)."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ns = interval_ms * 1_000_000
        self._begun_ns = time.monotonic_ns()
        self._is_free = True

    def allows(self) -> bool:
        now_ns = time.monotonic_ns()
        if now_ns > self._begun_ns + self._interval_ns:
            self._begun_ns, self._is_free = now_ns, True
        was_free, self._is_free = self._is_free, False
        return was_free


class Snapshots:
    """What hands out snapshots of one server, and takes them.

    Args:
        server: whose.
        interval_ms: how long nobody gets another, or brings one (admin.rateLimiterIntervalInMS).
    """

    def __init__(self, server: TcpServer, interval_ms: int) -> None:
        self._server = server
        self._taking, self._restoring = _Limiter(interval_ms), _Limiter(interval_ms)

    def who_is_not_let(self, authorization: str | None, address: str) -> Refusal | None:
        """Why who asks from an address may not, if they may not."""
        if authorization is None:
            return Refusal(HTTPStatus.UNAUTHORIZED, "Auth info is missing for the command")
        identities = self._identities(authorization, address)
        if not identities:
            return Refusal(HTTPStatus.UNAUTHORIZED, "Not authenticated")
        with self._server.driver.lock:
            return None if self._may(identities) else Refusal(HTTPStatus.FORBIDDEN, "Not authorized")

    def take(self) -> Taken | Refusal:
        """A snapshot."""
        settings = self._server.settings
        if not settings.gives_snapshots:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, None)
        if not settings.storage.tells_zxid:
            return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, None)
        if not self._taking.allows():
            self._server.statistics.snapshots_limited += 1
            return Refusal(HTTPStatus.TOO_MANY_REQUESTS, None)
        with self._server.driver.lock:
            return Taken(self._server.driver.server.zxid, self._data())

    def restore(self, data: bytes) -> int | Refusal:
        """Have the server be what a snapshot shows; the last zxid that it shows."""
        settings = self._server.settings
        if not settings.takes_snapshots:
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, None)
        if not settings.storage.tells_zxid or self._server.ensemble_verbs is not None:
            return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, None)
        if not self._restoring.allows():
            self._server.statistics.restores_limited += 1
            return Refusal(HTTPStatus.TOO_MANY_REQUESTS, None)
        zxid, restoration = _read(data)
        if restoration is None:
            self._server.statistics.restore_errors += 1
            return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, None)
        restoration.finish()
        driver, directory = self._server.driver, self._server.directory
        with driver.lock:
            if directory is not None:
                directory.sync()
            driver.server.replace(restoration.tree, restoration.sessions, zxid, self._server.now_ms())
            if directory is not None:
                directory.start_anew()
            driver.flush()
        return zxid

    def _identities(self, authorization: str, address: str) -> list[Id]:
        scheme, *credentials = authorization.split(" ")
        if scheme == "ip" and len(credentials) <= 1:
            return [Id("ip", address)]
        config = self._server.settings.server
        if scheme != "digest" or len(credentials) != 1 or not config.digest_auth:
            return []
        digest = digest_id(credentials[0].encode("latin-1"), config.digest_algorithm)
        is_super = digest == config.super_digest
        return [Id("digest", digest), *([Id("super", "")] if is_super else [])]

    def _may(self, identities: list[Id]) -> bool:
        root = self._server.driver.server.tree.get("/")
        assert root is not None
        skipped = self._server.settings.server.skip_acl
        return skipped or all(is_permitted(root.acl, permission, identities) for permission in _PERMISSIONS)

    def _data(self) -> bytes:
        if self._server.directory is not None:
            return self._server.directory.snapshot().read_bytes()
        server = self._server.driver.server
        digest = TreeDigest(server.tree).value
        return b"".join(encode_snapshot(server.tree, server.sessions.timeouts_ms(), lambda: (server.zxid, digest)))


def _read(data: bytes) -> tuple[int, Restoration | None]:
    """A snapshot's last zxid, and what it shows; None where it is damaged."""
    first_look = SnapshotReader(io.BytesIO(data))
    for _ in first_look:
        pass
    zxid = first_look.last_zxid or 0
    restoration = Restoration()
    if first_look.damage is not None or restoration.load(SnapshotReader(io.BytesIO(data)), zxid) is not None:
        return zxid, None
    return zxid, restoration
