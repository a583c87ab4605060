"""Keys of zoo.cfg that are accepted and have no effect here, each with the reason; docs/zoo_cfg.md lists them too.

Rules of this module:
  - a key whose effect a client could observe, in bytes or in files, is in keys.py instead;
  - a value with which the real server does not start is rejected: such a key has a reader.

Source: as in keys.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.serve.configuration import keys

if TYPE_CHECKING:
    from collections.abc import Callable

_ENSEMBLE = "it configures messages between servers of an ensemble; here they share one history in one process"
_THREADS = "it sizes Java's threads, queues or buffers; here one thread processes each request as it is read"
_AT_ONCE = (
    "it queues requests while others are in flight, or rejects queued ones with -127; here each request is processed"
    " as it is read, and none is queued"
)
_CACHE = "it sizes a cache, which changes no answer"
_WATCHES = "it selects a data structure for watches in Java; the events are the same"
_NETTY = "it configures Java's transport and TLS library"
_KERBEROS = "it configures Kerberos, which is not supported; users log in by DIGEST-MD5 (--jaas)"
_LOGGING = "it configures Java's logging"
_JAVA = "it monitors the Java virtual machine"
_BOUND = "entries read back from the disk may be twice as long as jute.maxbuffer"
_OLD_TTLS = "it reads TTL nodes that 3.5.3 wrote; new ones have the form of 3.5.4 and later with it, too"
_ONCE = "key stores are read once, at the start"


class WithoutEffect(NamedTuple):
    """Why keys have no effect here, and the reader that rejects values with which the real server does not start."""

    reason: str
    read: Callable[[str], object] = str


# The keys by their reason and reader.
_NAMES: dict[WithoutEffect, tuple[str, ...]] = {
    WithoutEffect(_ENSEMBLE, keys.integer): (
        "connectToLearnerMasterLimit", "observerMasterPort", "quorum.cnxn.threads.size",
        "multiAddress.reachabilityCheckTimeoutMs",
    ),
    WithoutEffect(_ENSEMBLE, keys.boolean): (
        "quorumListenOnAllIPs", "syncEnabled", "sslQuorum", "portUnification", "sslQuorumReloadCertFiles",
        "quorum.auth.enableSasl", "quorum.auth.serverRequireSasl", "quorum.auth.learnerRequireSasl",
        "multiAddress.enabled", "multiAddress.reachabilityCheckEnabled",
    ),
    WithoutEffect(_ENSEMBLE, keys.one_of("3")): ("electionAlg",),
    WithoutEffect(_ENSEMBLE, keys.one_of("observer", "participant")): ("peerType",),
    WithoutEffect(_ENSEMBLE): (
        "version", "oraclePath", "quorum.auth.learner.saslLoginContext", "quorum.auth.server.saslLoginContext",
        "quorum.auth.kerberos.servicePrincipal", "commitLogCount", "snapshotSizeFactor", "forceSnapshotSync",
        "leaderServes", "leaderConnectDelayDuringRetryMs", "leader.ackLoggingFrequency", "leader.closeSocketAsync",
        "leader.maxConcurrentDiffSyncs", "leader.maxConcurrentSnapSyncs", "leader.maxTimeToWaitForEpoch",
        "leader.nodelay", "follower.nodelay", "learner.asyncSending", "learner.closeSocketAsync",
        "follower.skipLearnerRequestToNextProcessor", "forward_learner_requests_to_commit_processor_disabled",
        "cnxTimeout", "quorumCnxnTimeoutMs", "electionPortBindRetry", "fastleader.minNotificationInterval",
        "fastleader.maxNotificationInterval", "observer.reconnectDelayMs", "observer.election.DelayMs",
        "observer.syncEnabled", "observerMaster.sizeLimit", "tcpKeepAlive", "enableEagerACLCheck", "initialize",
        "db.autocreate", "messageTracker.BufferSize", "messageTracker.Enabled",
        *(f"ssl.quorum.{store}.{name}" for store in ("keyStore", "trustStore")
          for name in ("location", "password", "passwordPath", "type")),
        "ssl.quorum.protocol", "ssl.quorum.enabledProtocols", "ssl.quorum.ciphersuites", "ssl.quorum.clientAuth",
        "ssl.quorum.hostnameVerification", "ssl.quorum.clientHostnameVerification", "ssl.quorum.allowReverseDnsLookup",
        "ssl.quorum.crl", "ssl.quorum.ocsp", "ssl.quorum.context.supplier.class",
        "ssl.quorum.handshakeDetectionTimeoutMillis",
    ),
    WithoutEffect(_THREADS): (
        "nio.numSelectorThreads", "nio.numWorkerThreads", "nio.directBufferBytes", "nio.shutdownTimeout",
        "commitProcessor.numWorkerThreads", "commitProcessor.maxReadBatchSize", "commitProcessor.maxCommitBatchSize",
        "commitProcessor.shutdownTimeout", "intBufferStartingSizeBytes", "flushDelay", "maxWriteQueuePollTime",
        "maxBatchSize", "admin.httpVersion", "metricsProvider.numWorkerThreads", "metricsProvider.maxQueueSize",
        "metricsProvider.workerShutdownTimeoutMs", "serverCnxnFactory", "clientTcpKeepAlive",
        "znode.container.maxPerMinute",
    ),
    WithoutEffect(_AT_ONCE): (
        "globalOutstandingLimit", "request_throttle_max_requests", "request_throttle_stall_time",
        "request_throttle_drop_stale", "request_throttler.shutdownTimeout", "request_stale_connection_check",
        "request_stale_latency_check", "throttled_op_wait_time",
    ),
    WithoutEffect(_CACHE): ("maxResponseCacheSize", "maxGetChildrenResponseCacheSize"),
    WithoutEffect(_WATCHES): (
        "watchManagerName", "watcherCleanThreadsNum", "watcherCleanThreshold", "watcherCleanIntervalInSeconds",
        "maxInProcessingDeadWatchers", "bitHashCacheSize",
    ),
    WithoutEffect(_NETTY): (
        "netty.advancedFlowControl.enabled", "netty.server.earlyDropSecureConnectionHandshakes",
        "netty.server.outstandingHandshake.limit", "ssl.sslProvider", "ssl.hostnameVerification",
        "ssl.allowReverseDnsLookup", "ssl.handshakeDetectionTimeoutMillis", "fips-mode", "admin.needClientAuth",
    ),
    WithoutEffect(_ONCE): ("client.certReload",),
    WithoutEffect(_OLD_TTLS): ("emulate353TTLNodes",),
    WithoutEffect(_BOUND): ("jute.maxbuffer.extrasize",),
    WithoutEffect(_KERBEROS): (
        "kerberos.removeHostFromPrincipal", "kerberos.removeRealmFromPrincipal", "kerberos.canonicalizeHostNames",
        "kerberos.minReLoginTimeMs", "security.auth_to_local", "requireKerberosConfig", "kinit", "sasl.serverconfig",
    ),
    WithoutEffect(_LOGGING): (
        "audit.enable", "audit.impl.class", "jmx.log4j.disable", "jmx.log4j.mbean", "pathStats.delay",
        "pathStats.enabled", "pathStats.initialDelay", "pathStats.maxDepth", "pathStats.sampleRate",
        "pathStats.slotCapacity", "pathStats.slotDuration", "pathStats.topPathMax",
    ),
    WithoutEffect(_JAVA, keys.integer): (
        "jvm.pause.info-threshold.ms", "jvm.pause.warn-threshold.ms", "jvm.pause.sleep.time.ms",
    ),
    WithoutEffect(_JAVA, keys.boolean): ("jvm.pause.monitor",),
}  # fmt: skip
WITHOUT_EFFECT = {name: row for row, names in _NAMES.items() for name in names}
assert len(WITHOUT_EFFECT) == sum(map(len, _NAMES.values())), "a key has two reasons"
assert not WITHOUT_EFFECT.keys() & keys.KEYS.keys() - keys.FLAGS, "a key has an effect and none"
