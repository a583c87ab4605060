"""Orders of configuration keys: in which they are defined, and in which brokers up to 2.5 describe them.

Rules of this module (ConfigDef, AdminManager.describeConfigs; read from the jars of 0.11.0.3 to 3.9.1 and recorded):
  - keys are parsed in the order of their definition, so the first invalid one of these is reported. Up to 0.10.2 it is
    the order of a HashMap. A later release has new keys in between. Keys of brokers of 3.0 and later that are not among
    those of 2.8 come last here;
  - `AbstractConfig.values()` copies a HashMap; a Scala map around a HashMap is cloned and filtered into new ones. From
    1.1 on it begins with what was given: the properties of the broker, or of a topic nearly all (LogConfig.fromProps);
  - keys that share a bucket stay in the order in which they came.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from simzk.jvm.hash_map import clone_capacity, concurrent_order, hash_map_order
from simzk.kafka.releases.config_keys import broker_keys, topic_config_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from simzk.kafka.releases.since import Release

_DEFINED: Final = {
    "broker": """
        zookeeper.connect zookeeper.session.timeout.ms zookeeper.connection.timeout.ms zookeeper.sync.time.ms
        zookeeper.set.acl zookeeper.max.in.flight.requests zookeeper.ssl.client.enable zookeeper.clientCnxnSocket
        zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password zookeeper.ssl.keystore.type
        zookeeper.ssl.truststore.location zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type
        zookeeper.ssl.protocol zookeeper.ssl.enabled.protocols zookeeper.ssl.cipher.suites
        zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.crl.enable zookeeper.ssl.ocsp.enable
        broker.id.generation.enable reserved.broker.max.id broker.id message.max.bytes num.network.threads
        num.io.threads num.replica.alter.log.dirs.threads background.threads queued.max.requests
        queued.max.request.bytes request.timeout.ms socket.connection.setup.timeout.ms
        socket.connection.setup.timeout.max.ms process.roles node.id initial.broker.registration.timeout.ms
        broker.heartbeat.interval.ms broker.session.timeout.ms metadata.log.dir controller.listener.names
        sasl.mechanism.controller.protocol authorizer.class.name port host.name listeners advertised.host.name
        advertised.port advertised.listeners listener.security.protocol.map control.plane.listener.name
        socket.send.buffer.bytes socket.receive.buffer.bytes socket.request.max.bytes max.connections.per.ip
        max.connections.per.ip.overrides max.connections max.connection.creation.rate connections.max.idle.ms
        connection.failed.authentication.delay.ms broker.rack num.partitions log.dir log.dirs log.segment.bytes
        log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours log.retention.ms log.retention.minutes
        log.retention.hours log.retention.bytes log.retention.check.interval.ms log.cleanup.policy
        log.cleaner.threads log.cleaner.io.max.bytes.per.second log.cleaner.dedupe.buffer.size
        log.cleaner.io.buffer.size log.cleaner.io.buffer.load.factor log.cleaner.backoff.ms
        log.cleaner.min.cleanable.ratio log.cleaner.enable log.cleaner.delete.retention.ms
        log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms log.index.size.max.bytes
        log.index.interval.bytes log.flush.interval.messages log.segment.delete.delay.ms
        log.flush.scheduler.interval.ms log.flush.interval.ms log.flush.offset.checkpoint.interval.ms
        log.flush.start.offset.checkpoint.interval.ms log.preallocate num.recovery.threads.per.data.dir
        auto.create.topics.enable min.insync.replicas log.message.format.version log.message.timestamp.type
        log.message.timestamp.difference.max.ms create.topic.policy.class.name alter.config.policy.class.name
        log.message.downconversion.enable controller.socket.timeout.ms default.replication.factor
        replica.lag.time.max.ms replica.socket.timeout.ms replica.socket.receive.buffer.bytes
        replica.fetch.max.bytes replica.fetch.wait.max.ms replica.fetch.backoff.ms replica.fetch.min.bytes
        replica.fetch.response.max.bytes num.replica.fetchers replica.high.watermark.checkpoint.interval.ms
        fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
        delete.records.purgatory.purge.interval.requests auto.leader.rebalance.enable
        leader.imbalance.per.broker.percentage leader.imbalance.check.interval.seconds
        unclean.leader.election.enable security.inter.broker.protocol inter.broker.protocol.version
        inter.broker.listener.name replica.selector.class controlled.shutdown.max.retries
        controlled.shutdown.retry.backoff.ms controlled.shutdown.enable group.min.session.timeout.ms
        group.max.session.timeout.ms group.initial.rebalance.delay.ms group.max.size offset.metadata.max.bytes
        offsets.load.buffer.size offsets.topic.replication.factor offsets.topic.num.partitions
        offsets.topic.segment.bytes offsets.topic.compression.codec offsets.retention.minutes
        offsets.retention.check.interval.ms offsets.commit.timeout.ms offsets.commit.required.acks
        delete.topic.enable compression.type transactional.id.expiration.ms transaction.max.timeout.ms
        transaction.state.log.min.isr transaction.state.log.load.buffer.size
        transaction.state.log.replication.factor transaction.state.log.num.partitions
        transaction.state.log.segment.bytes transaction.abort.timed.out.transaction.cleanup.interval.ms
        transaction.remove.expired.transaction.cleanup.interval.ms max.incremental.fetch.session.cache.slots
        fetch.max.bytes metrics.num.samples metrics.sample.window.ms metric.reporters metrics.recording.level
        kafka.metrics.reporters kafka.metrics.polling.interval.secs quota.producer.default quota.consumer.default
        quota.window.num replication.quota.window.num alter.log.dirs.replication.quota.window.num
        controller.quota.window.num quota.window.size.seconds replication.quota.window.size.seconds
        alter.log.dirs.replication.quota.window.size.seconds controller.quota.window.size.seconds
        client.quota.callback.class connections.max.reauth.ms sasl.server.max.receive.size security.providers
        principal.builder.class ssl.protocol ssl.provider ssl.enabled.protocols ssl.keystore.type
        ssl.keystore.location ssl.keystore.password ssl.key.password ssl.keystore.key ssl.keystore.certificate.chain
        ssl.truststore.type ssl.truststore.location ssl.truststore.password ssl.truststore.certificates
        ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.endpoint.identification.algorithm
        ssl.secure.random.implementation ssl.client.auth ssl.cipher.suites ssl.principal.mapping.rules
        ssl.engine.factory.class sasl.mechanism.inter.broker.protocol sasl.jaas.config sasl.enabled.mechanisms
        sasl.server.callback.handler.class sasl.client.callback.handler.class sasl.login.class
        sasl.login.callback.handler.class sasl.kerberos.service.name sasl.kerberos.kinit.cmd
        sasl.kerberos.ticket.renew.window.factor sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.login.refresh.min.period.seconds
        sasl.login.refresh.buffer.seconds delegation.token.master.key delegation.token.secret.key
        delegation.token.max.lifetime.ms delegation.token.expiry.time.ms delegation.token.expiry.check.interval.ms
        password.encoder.secret password.encoder.old.secret password.encoder.keyfactory.algorithm
        password.encoder.cipher.algorithm password.encoder.key.length password.encoder.iterations
        controller.quorum.voters controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms
        controller.quorum.election.backoff.max.ms controller.quorum.append.linger.ms
        controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
""",
    "topic": """
        segment.bytes segment.ms segment.jitter.ms segment.index.bytes flush.messages flush.ms retention.bytes
        retention.ms max.message.bytes index.interval.bytes delete.retention.ms min.compaction.lag.ms
        max.compaction.lag.ms file.delete.delay.ms min.cleanable.dirty.ratio cleanup.policy
        unclean.leader.election.enable min.insync.replicas compression.type compression.gzip.level
        compression.lz4.level compression.zstd.level preallocate message.format.version message.timestamp.type
        message.timestamp.difference.max.ms message.timestamp.before.max.ms message.timestamp.after.max.ms
        leader.replication.throttled.replicas follower.replication.throttled.replicas message.downconversion.enable
        remote.storage.enable local.retention.ms local.retention.bytes remote.log.copy.disable
        remote.log.delete.on.disable
""",
}
"""Keys in the order of their definition: of brokers in 2.8.2, of topics in 3.9.1."""
_OF_LOGS: Final = """
    segment.bytes segment.ms segment.jitter.ms segment.index.bytes flush.messages flush.ms retention.bytes
    retention.ms max.message.bytes index.interval.bytes delete.retention.ms min.compaction.lag.ms
    max.compaction.lag.ms file.delete.delay.ms min.cleanable.dirty.ratio cleanup.policy min.insync.replicas
    compression.type unclean.leader.election.enable preallocate message.format.version message.timestamp.type
    message.timestamp.difference.max.ms message.downconversion.enable
"""
"""Keys of topics in the order of KafkaServer.copyKafkaConfigToLog."""
_GIVEN_FIRST: Final = (1, 1)
_DEFINED_IN_ORDER: Final = (0, 11)


@cache
def _positions(owner: str, release: Release) -> dict[str, int]:
    """Return the positions of the keys of a `broker` or a `topic`."""
    names: Iterable[str] = _DEFINED[owner].split()
    if release < _DEFINED_IN_ORDER:
        known = (broker_keys if owner == "broker" else topic_config_keys)(_DEFINED_IN_ORDER)
        names = hash_map_order([name for name in names if name in known])
    return {name: number for number, name in enumerate(names)}


def parsed_order(owner: str, names: Collection[str], release: Release) -> list[str]:
    """Return keys of a `broker` or a `topic` in the order in which their values are parsed; unknown ones last.

    >>> parsed_order("topic", ["retention.ms", "cleanup.policy", "segment.bytes"], (3, 9))
    ['segment.bytes', 'retention.ms', 'cleanup.policy']
    """
    positions = _positions(owner, release)
    return sorted(names, key=lambda name: positions.get(name, len(positions)))


def described_order(
    owner: str, names: Collection[str], given: Sequence[str], is_asked: Callable[[str], bool], release: Release
) -> list[str]:
    """Return keys in the order of an answer of a broker up to 2.5.

    Args:
        owner: `broker` or `topic`.
        names: all keys that it has.
        given: the keys that its properties give, in their order.
        is_asked: whether a key is asked for.
        release: the release.
    """
    positions = _positions(owner, release)
    defined = sorted((name for name in names if name in positions), key=positions.__getitem__)
    values = _copied(hash_map_order(defined))
    if release >= _GIVEN_FIRST:
        if owner == "topic":
            of_logs = hash_map_order([name for name in _OF_LOGS.split() if name in names])
            given = [*of_logs, *(name for name in given if name not in of_logs)]
        first = hash_map_order(hash_map_order(_copied(concurrent_order(given))))
        values = hash_map_order([*first, *(name for name in values if name not in set(first))])
    return hash_map_order([name for name in values if is_asked(name)])


def _copied(names: list[str]) -> list[str]:
    """Return keys as a copy of a HashMap has them, which has its capacity from the beginning."""
    return hash_map_order(names, clone_capacity(len(names)))
