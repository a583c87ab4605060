"""Delegation tokens of a broker: create, renew, expire (KIP-48; DelegationTokenManager, DelegationTokenManagerZk).

Rules of this module (docs/reference/kafka.md §1.3):
  - tokens are enabled by `delegation.token.master.key`. Then the broker creates the paths at its start, after its
    registration;
  - requests are answered from a cache, which is filled at the start and by notifications. A change writes the token's
    znode first, then a notification with the token's id;
  - only the owner of a token, or one of its renewers, may renew or expire it;
  - the broker of the controller removes expired tokens once an hour.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simzk.kafka.broker.notifications import Notifications
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.requests import AdminResponse, CreateTokenRequest, ExpireTokenRequest, RenewTokenRequest
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.client.zk_client import ANY_VERSION, PERSISTENT_SEQUENTIAL
from simzk.kafka.zookeeper_mode.schemas import delegation_token
from simzk.kafka.zookeeper_mode.schemas.delegation_token import DelegationToken
from simzk.kafka.zookeeper_mode.schemas.json_text import NoJsonError
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import Delete, SetData

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.releases.settings import BrokerConfig

MASTER_KEY = "delegation.token.master.key"
_MAX_LIFETIME = "delegation.token.max.lifetime.ms"
_RENEWAL = "delegation.token.expiry.time.ms"
_DISABLED = AdminResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)


@dataclass(eq=False)
class DelegationTokens(Notifications):
    """Delegation tokens, cached by one broker, with the notifications of their changes.

    Args:
        new_id: returns a random token id.
    """

    _config: BrokerConfig
    _new_id: Callable[[], str]
    _tokens: dict[str, DelegationToken] = field(default_factory=dict, init=False)

    @property
    def enabled(self) -> bool:
        """Whether the broker has a key for tokens, and its release supports them."""
        return self._client.version.znodes.encode_token is not None and bool(self._config.text(MASTER_KEY))

    def get(self, token_id: str) -> DelegationToken | None:
        """Return a token; None if there is none."""
        return self._tokens.get(token_id)

    def all(self) -> list[DelegationToken]:
        """Return all tokens."""
        return list(self._tokens.values())

    def secret(self, token_id: str) -> bytes:
        """Return the secret of a token."""
        return hmac.digest(self._config.text(MASTER_KEY).encode(), token_id.encode(), "sha512")

    def id_of(self, secret: bytes) -> str:
        """Return the id of the token with a secret; empty if there is none."""
        return next((one for one in self._tokens if hmac.compare_digest(self.secret(one), secret)), "")

    async def load(self) -> None:
        """Create the paths, and read the tokens."""
        if not self.enabled:
            return
        for path in (paths.TOKEN_CHANGES, paths.TOKENS):
            await self._client.create_recursive(path)
        for token_id in await self._client.children(paths.TOKENS):
            await self._read(token_id)
        self.start()

    async def handle(self, path: str, data: bytes | None) -> None:
        """Read a token that changed or was deleted."""
        await self._read((data or b"").decode(errors="replace"))

    async def _read(self, token_id: str) -> None:
        path = paths.token(token_id)
        found = await self._client.read(path)
        token = None
        try:
            if found is not None:
                token = delegation_token.decode(path, found[0], self._client.version.reading)
        except NoJsonError as problem:
            self._client.unusable(problem)
        if token is None:
            self._tokens.pop(token_id, None)
        else:
            self._tokens[token_id] = token

    async def create(self, request: CreateTokenRequest) -> AdminResponse:
        """Create a token; the message of the response is its id."""
        if not self.enabled:
            return _DISABLED
        if any(not renewer.startswith("User:") for renewer in (request.owner, *request.renewers)):
            return AdminResponse(ErrorCode.INVALID_PRINCIPAL_TYPE, "owner and renewers must be users (User:name)")
        now_ms, longest_ms = self._now_ms(), self._config.integer(_MAX_LIFETIME)
        ends_ms = now_ms + (longest_ms if request.max_lifetime_ms <= 0 else min(request.max_lifetime_ms, longest_ms))
        times = now_ms, min(ends_ms, now_ms + self._config.integer(_RENEWAL)), ends_ms
        token_id = self._new_id()
        assert token_id not in self._tokens, f"token {token_id} exists"
        return await self._update(DelegationToken(token_id, request.owner, request.requester, request.renewers, *times))

    async def renew(self, request: RenewTokenRequest) -> AdminResponse:
        """Renew a token from now on, at most until its maximum lifetime."""
        token = self._allowed(request.token_id, request.principal)
        if isinstance(token, AdminResponse):
            return token
        if self._is_expired(token):
            return AdminResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        life_ms = self._config.integer(_RENEWAL) if request.lifetime_ms < 0 else request.lifetime_ms
        return await self._update(token._replace(expires_ms=min(token.ends_ms, self._now_ms() + life_ms)))

    async def expire(self, request: ExpireTokenRequest) -> AdminResponse:
        """Set when a token expires, from now on; a negative lifetime deletes it at once."""
        token = self._allowed(request.token_id, request.principal)
        if isinstance(token, AdminResponse):
            return token
        if request.lifetime_ms < 0:
            return await self._remove(token.token_id)
        if self._is_expired(token):
            return AdminResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return await self._update(token._replace(expires_ms=min(token.ends_ms, self._now_ms() + request.lifetime_ms)))

    async def remove_expired(self) -> None:
        """Delete expired tokens."""
        for token in list(self._tokens.values()):
            if self._is_expired(token):
                await self._remove(token.token_id)

    def _allowed(self, token_id: str, principal: str) -> DelegationToken | AdminResponse:
        if not self.enabled:
            return _DISABLED
        token = self._tokens.get(token_id)
        if token is None:
            return AdminResponse(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, f"token {token_id} does not exist")
        if principal != token.owner and principal not in token.renewers:
            return AdminResponse(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, f"{principal} is neither owner nor renewer")
        return token

    def _is_expired(self, token: DelegationToken) -> bool:
        return min(token.ends_ms, token.expires_ms) < self._now_ms()

    async def _update(self, token: DelegationToken) -> AdminResponse:
        version, path = self._client.version, paths.token(token.token_id)
        assert token.expires_ms <= token.ends_ms, f"{token.token_id} is valid after its end"
        assert version.znodes.encode_token is not None
        data = version.znodes.encode_token(token, version.orders.scala)
        reply = await self._client.session.call(SetData(path, data, ANY_VERSION))
        if reply.error == Code.NO_NODE:
            await self._client.create(path, data)
        self._tokens[token.token_id] = token
        await self._announce(token.token_id)
        return AdminResponse(ErrorCode.NONE, token.token_id)

    async def _remove(self, token_id: str) -> AdminResponse:
        await self._client.children(paths.token(token_id))  # deleteRecursive asks first
        await self._client.session.call(Delete(paths.token(token_id), ANY_VERSION))
        self._tokens.pop(token_id, None)
        await self._announce(token_id)
        return AdminResponse(ErrorCode.NONE, token_id)

    async def _announce(self, token_id: str) -> None:
        assert self.enabled
        await self._client.create(paths.TOKEN_CHANGE_PREFIX, token_id.encode(), PERSISTENT_SEQUENTIAL)
