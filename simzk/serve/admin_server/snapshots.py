"""Commands snapshot and restore of the AdminServer: permissions, rate limit, bytes (§5).

Rules of this module:
  - a client authenticates in the header Authorization, as "digest USER:PASSWORD" or "ip", and needs all permissions on
    the root;
  - with a data directory the snapshot is written there, and the file is sent; a restored tree is on disk before the
    reply;
  - a server of an ensemble is not restored, because its history would differ from the others'.

Source: org.apache.zookeeper.server.admin.Commands (SnapshotCommand, RestoreCommand, handleAuthentication,
handleAuthorization), RateLimiter, ZooKeeperServer.restoreFromSnapshot.
"""

from __future__ import annotations

import io
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.acl import ADMIN, CREATE, DELETE, READ, WRITE, digest_id, is_permitted
from simzk.zookeeper.requests import Id

if TYPE_CHECKING:
    from simzk.serve.tcp.server import TcpServer
    from simzk.zookeeper.persistence import Restoration

_PERMISSIONS = (READ, WRITE, CREATE, DELETE, ADMIN)


class CommandRejection(NamedTuple):
    """Rejection of a command; `error` is None if the real server gives no reason."""

    status: HTTPStatus
    error: str | None


class _Limiter:
    """Rate limiter: one call per interval; an interval begins with the first call after the last one (RateLimiter)."""

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
    """Snapshots of one server over HTTP: one in an interval, and one restore (admin.rateLimiterIntervalInMS)."""

    def __init__(self, server: TcpServer, interval_ms: int) -> None:
        self._server = server
        self._snapshot_limit, self._restore_limit = _Limiter(interval_ms), _Limiter(interval_ms)

    def rejection(self, authorization: str | None, address: str) -> CommandRejection | None:
        """Return why a client lacks permission; None if it has it."""
        if authorization is None:
            return CommandRejection(HTTPStatus.UNAUTHORIZED, "Auth info is missing for the command")
        identities = self._identities(authorization, address)
        if not identities:
            return CommandRejection(HTTPStatus.UNAUTHORIZED, "Not authenticated")
        skips = self._server.settings.server.skip_acl
        with self._server.driver.lock:
            root = self._server.driver.server.tree.get("/")
            assert root is not None, "every tree has a root"
            permitted = skips or all(is_permitted(root.acl, permission, identities) for permission in _PERMISSIONS)
        return None if permitted else CommandRejection(HTTPStatus.FORBIDDEN, "Not authorized")

    def snapshot(self) -> tuple[int, bytes] | CommandRejection:
        """Return the zxid of the last transaction of a snapshot, and its bytes."""
        settings = self._server.settings
        if not settings.gives_snapshots:
            return CommandRejection(HTTPStatus.SERVICE_UNAVAILABLE, None)
        if not settings.storage.tells_zxid:
            return CommandRejection(HTTPStatus.INTERNAL_SERVER_ERROR, None)
        if not self._snapshot_limit.allows():
            self._server.statistics.snapshots_limited += 1
            return CommandRejection(HTTPStatus.TOO_MANY_REQUESTS, None)
        with self._server.driver.lock:
            return self._server.driver.server.zxid, self._data()

    def restore(self, data: bytes) -> int | CommandRejection:
        """Replace the tree and sessions of the server by those of a snapshot; return its last zxid."""
        settings = self._server.settings
        if not settings.takes_snapshots:
            return CommandRejection(HTTPStatus.SERVICE_UNAVAILABLE, None)
        if not settings.storage.tells_zxid or self._server.ensemble_verbs is not None:
            return CommandRejection(HTTPStatus.INTERNAL_SERVER_ERROR, None)
        if not self._restore_limit.allows():
            self._server.statistics.restores_limited += 1
            return CommandRejection(HTTPStatus.TOO_MANY_REQUESTS, None)
        zxid, restoration = _read(data)
        if restoration is None:
            self._server.statistics.restore_errors += 1
            return CommandRejection(HTTPStatus.INTERNAL_SERVER_ERROR, None)
        restoration.finish()
        driver, directory = self._server.driver, self._server.directory
        with driver.lock:
            if directory is not None:
                directory.sync()
            driver.server.replace(restoration.tree, restoration.sessions, zxid, self._server.now_ms())
            if directory is not None:
                directory.restart_from_tree()
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
        return [Id("digest", digest), *([Id("super", "")] if digest == config.super_digest else [])]

    def _data(self) -> bytes:
        if self._server.directory is not None:
            return self._server.directory.snapshot().read_bytes()
        from simzk.zookeeper.persistence import TreeDigest, encode_snapshot

        server = self._server.driver.server
        digest = TreeDigest(server.tree).value
        return b"".join(encode_snapshot(server.tree, server.sessions.timeouts_ms(), lambda: (server.zxid, digest)))


def _read(data: bytes) -> tuple[int, Restoration | None]:
    """Parse a snapshot; return its last zxid and its content, None if it is damaged."""
    from simzk.zookeeper.persistence import Restoration, SnapshotReader

    first_look = SnapshotReader(io.BytesIO(data))
    for _ in first_look:
        pass
    zxid = first_look.last_zxid or 0
    restoration = Restoration()
    if first_look.damage is not None or restoration.load(SnapshotReader(io.BytesIO(data)), zxid) is not None:
        return zxid, None
    return zxid, restoration
