"""Configuration of a server: the settings of zoo.cfg and of system properties, with their defaults."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper.releases import NEWEST, Rules, rules_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class ServerConfig(NamedTuple):
    """Configuration of a server.

    Attributes:
        tick_time_ms: unit of session expiry (tickTime; 2000 as in zoo_sample.cfg).
        tick_origin_ms: time at which the first tick begins; sessions expire at whole ticks from there.
        min_session_timeout_ms: shortest session timeout; None for two ticks.
        max_session_timeout_ms: longest session timeout; None for twenty ticks.
        server_id: first byte of session ids (myid; 1 for a standalone server).
        max_buffer_bytes: longest request (jute.maxbuffer).
        large_request_bytes: total length of large requests in flight, here of a single one; None for no limit
            (largeRequestMaxBytes with a largeRequestThreshold).
        extended_types: whether TTL nodes are allowed (zookeeper.extendedTypesEnabled).
        super_digest: digest id of the super user, "super:...", or None (superDigest).
        skip_acl: whether ACLs are stored but not checked (zookeeper.skipACL).
        enforce_quota: whether hard quotas are enforced (zookeeper.enforceQuota).
        reconfig_enabled: decides the error of `Reconfig` on a standalone server (reconfigEnabled).
        container_check_interval_ms: interval of the sweeps for empty containers and expired TTL nodes.
        container_unused_ms: time for which a container that never had a child is kept; 0 for ever.
        version: release whose behaviour the server has, as "3.4" or "3.9.1" (releases.py).
        x509: whether clients can authenticate by certificate, as with a TLS port.
        x509_super: certificate subject of the super user, or None (X509AuthenticationProvider.superUser).
        sasl_users: password by user name for SASL DIGEST-MD5; None for no SASL.
        required_schemes: a client must authenticate by one of these schemes before any other request; empty for no
            such requirement (enforce.auth.schemes, sessionRequireClientSASLAuth).
        providers: schemes offered beside the default ones (authProvider.*).
        digest_auth: whether the scheme digest is offered (DigestAuthenticationProvider.enabled).
        digest_algorithm: algorithm of the scheme digest, as in `hashlib` (DigestAuthenticationProvider.digestAlg).
        super_password: password of the SASL user "super" (SASLAuthenticationProvider.superPassword).
        super_users: names of SASL users that are super users (superUser).
        keeps_failed_logins: whether the connection stays open after a failed SASL login (allowSaslFailedClients).
        names_ephemerals: whether the record that ends a session lists its ephemerals, which decides the order of their
            deletion (closeSessionTxn.enabled).
        ensemble_names: names accepted by the scheme ensemble, or None for any name (ensembleAuthName).

    >>> ServerConfig(tick_time_ms=500).clamp_timeout(1)
    1000
    """

    tick_time_ms: int = 2000
    tick_origin_ms: int = 0
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
    names_ephemerals: bool = True

    @property
    def schemes(self) -> frozenset[str]:
        """Return the schemes allowed in ACLs beside world and auth (§4)."""
        return _schemes(self.providers, self.digest_auth, self.x509, self.sasl_users is not None)

    @property
    def passwords(self) -> Mapping[str, str] | None:
        """Return the password by user name for SASL logins; None for no SASL."""
        if self.sasl_users is None or self.super_password is None:
            return self.sasl_users
        return {**self.sasl_users, "super": self.super_password}

    @property
    def rules(self) -> Rules:
        """Return the rules of the version.

        Raises:
            ConfigError: the version is not simulated.
        """
        return rules_of(self.version)

    @property
    def longest_request_bytes(self) -> int:
        """Return the length of the longest accepted request."""
        large = self.large_request_bytes
        return self.max_buffer_bytes if large is None else min(self.max_buffer_bytes, large)

    def clamp_timeout(self, requested_ms: int) -> int:
        """Return the negotiated session timeout for a requested one (§1.3)."""
        shortest, longest = self.min_session_timeout_ms, self.max_session_timeout_ms
        shortest = self.tick_time_ms * 2 if shortest is None else shortest
        longest = self.tick_time_ms * 20 if longest is None else longest
        return min(max(requested_ms, shortest), longest)


@cache
def _schemes(providers: frozenset[str], digest: bool, x509: bool, sasl: bool) -> frozenset[str]:
    optional = {"digest": digest, "x509": x509, "sasl": sasl}
    return providers | {"ip", *(scheme for scheme, offered in optional.items() if offered)}
