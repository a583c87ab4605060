"""What may be set about a server: the names and defaults of zoo.cfg and of its system properties."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.releases import NEWEST, Rules, rules_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServerConfig(NamedTuple):
    """How a server behaves.

    Attributes:
        tick_time_ms: the unit of session expiry (tickTime; zoo_sample.cfg has 2000 ms as well).
        min_session_timeout_ms: the shortest timeout granted; two ticks where None.
        max_session_timeout_ms: the longest timeout granted; twenty ticks where None.
        server_id: the first byte of session ids (myid; 1 for a standalone server).
        max_buffer_bytes: the largest request frame (jute.maxbuffer).
        large_request_bytes: how long all large requests under way may be together, which one of them is here; None for
            any length (largeRequestMaxBytes, where there is a largeRequestThreshold).
        extended_types: whether TTL nodes may be made (zookeeper.extendedTypesEnabled).
        super_digest: "super:" and the digest of who may do everything, or None (superDigest).
        skip_acl: whether ACLs are kept but not looked at (zookeeper.skipACL).
        enforce_quota: whether hard quotas refuse (zookeeper.enforceQuota).
        reconfig_enabled: changes the error with which a standalone server refuses `Reconfig` (reconfigEnabled).
        container_check_interval_ms: how often empty containers and outlived TTL nodes are looked for.
        container_unused_ms: how long a container that never had a child is kept; 0 for ever.
        version: the release whose behaviour it has, as "3.4" or "3.9.1" (versions.py).
        x509: whether clients can be known by certificates, as where there is a TLS port.
        x509_super: the subject of the certificate of who may do everything, or None
            (X509AuthenticationProvider.superUser).
        sasl_users: name to password of who can log in by DIGEST-MD5; None for no SASL.
        required_schemes: a client must have shown an identity of one of these schemes before anything else, sasl for
            who must log in; empty for no such demand (enforce.auth.schemes, sessionRequireClientSASLAuth).
        providers: schemes that are offered beside those that are offered anyway (authProvider.*).
        digest_auth: whether there is the scheme digest (DigestAuthenticationProvider.enabled).
        digest_algorithm: by which it digests, as `hashlib` calls it (DigestAuthenticationProvider.digestAlg).
        super_password: of SASL's user "super", where there is SASL at all (SASLAuthenticationProvider.superPassword).
        super_users: names of SASL's users who may do everything (superUser).
        keeps_failed_logins: whether who fails to log in by SASL may stay, unknown (allowSaslFailedClients).
        ensemble_names: what the scheme ensemble lets clients call this server, or None for anything (ensembleAuthName).

    >>> ServerConfig(tick_time_ms=500).clamp_timeout(1)
    1000
    """

    tick_time_ms: int = 2000
    min_session_timeout_ms: int | None = None
    max_session_timeout_ms: int | None = None
    server_id: int = 1
    max_buffer_bytes: int = 0xFFFFF
    large_request_bytes: int | None = None
    extended_types: bool = False
    super_digest: str | None = None
    skip_acl: bool = False
    enforce_quota: bool = False
    reconfig_enabled: bool = False
    container_check_interval_ms: int = 60_000
    container_unused_ms: int = 0
    version: str = NEWEST
    x509: bool = False
    x509_super: str | None = None
    sasl_users: Mapping[str, str] | None = None
    required_schemes: tuple[str, ...] = ()
    providers: frozenset[str] = frozenset()
    digest_auth: bool = True
    digest_algorithm: str = "sha1"
    super_password: str | None = None
    super_users: frozenset[str] = frozenset()
    keeps_failed_logins: bool = False
    ensemble_names: frozenset[str] | None = None

    @property
    def schemes(self) -> frozenset[str]:
        """The schemes of which an id may stand in an ACL, beside world and auth (§4)."""
        return _schemes(self.providers, self.digest_auth, self.x509, self.sasl_users is not None)

    @property
    def passwords(self) -> Mapping[str, str] | None:
        """Who can log in by SASL, and with what; None for no SASL."""
        if self.sasl_users is None or self.super_password is None:
            return self.sasl_users
        return {**self.sasl_users, "super": self.super_password}

    @property
    def rules(self) -> Rules:
        """What the version says where releases differ.

        Raises:
            ConfigError: a version that is not simulated.
        """
        return rules_of(self.version)

    @property
    def longest_request_bytes(self) -> int:
        """The largest request frame that is taken."""
        large = self.large_request_bytes
        return self.max_buffer_bytes if large is None else min(self.max_buffer_bytes, large)

    def clamp_timeout(self, asked_ms: int) -> int:
        """The session timeout granted to a client that asks for `asked_ms` (§1.3)."""
        shortest, longest = self.min_session_timeout_ms, self.max_session_timeout_ms
        shortest = self.tick_time_ms * 2 if shortest is None else shortest
        longest = self.tick_time_ms * 20 if longest is None else longest
        return min(max(asked_ms, shortest), longest)


@cache
def _schemes(providers: frozenset[str], digest: bool, x509: bool, sasl: bool) -> frozenset[str]:
    optional = {"digest": digest, "x509": x509, "sasl": sasl}
    return providers | {"ip", *(scheme for scheme, offered in optional.items() if offered)}
