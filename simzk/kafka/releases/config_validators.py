# ruff: noqa: E501  # a line is a key
"""Validators of configuration keys of brokers and topics from 0.9 on.

`config_values.py` says how to read a line. Made by `python -m tests.kafka.make_validator_table`; do not edit.
"""

FORMAT_VERSIONS = """
0.8.0, 0.8.1, 0.8.2, 0.9.0, 0.10.0-IV0, 0.10.0-IV1, 0.10.1-IV0, 0.10.1-IV1, 0.10.1-IV2, 0.10.2-IV0, 0.11.0-IV0, 0.11.0-IV1
0.11.0-IV2, 1.0-IV0, 1.1-IV0, 2.0-IV0, 2.0-IV1, 2.1-IV0, 2.1-IV1, 2.1-IV2, 2.2-IV0, 2.2-IV1, 2.3-IV0, 2.3-IV1
2.4-IV0, 2.4-IV1, 2.5-IV0, 2.6-IV0, 2.7-IV0, 2.7-IV1, 2.7-IV2, 2.8-IV0, 2.8-IV1, 3.0-IV0, 3.0-IV1, 3.1-IV0
3.2-IV0, 3.3-IV0, 3.3-IV1, 3.3-IV2, 3.3-IV3, 3.4-IV0, 3.5-IV0, 3.5-IV1, 3.5-IV2, 3.6-IV0, 3.6-IV1, 3.6-IV2
3.7-IV0, 3.7-IV1, 3.7-IV2, 3.7-IV3, 3.7-IV4, 3.8-IV0, 3.9-IV0, 4.0-IV0, 4.0-IV1
"""

VALIDATORS = """
broker alter.log.dirs.replication.quota.window.num 1.1:range(1..)
broker alter.log.dirs.replication.quota.window.size.seconds 1.1:range(1..)
broker background.threads 0.9:range(1..)
broker compression.gzip.level 3.8:level()
broker compression.lz4.level 3.8:range(1..17)
broker compression.type 0.9:- 3.3:one-of(uncompressed,zstd,lz4,snappy,gzip,producer)
broker compression.zstd.level 3.8:range(-131072..22)
broker connection.failed.authentication.delay.ms 2.1:range(0..)
broker controller.quota.window.num 2.7:range(1..)
broker controller.quota.window.size.seconds 2.7:range(1..)
broker delegation.token.expiry.check.interval.ms 1.1:range(1..)
broker delegation.token.expiry.time.ms 1.1:range(1..)
broker delegation.token.max.lifetime.ms 1.1:range(1..)
broker fetch.max.bytes 2.5:range(1024..)
broker group.consumer.heartbeat.interval.ms 3.5:range(1..)
broker group.consumer.max.heartbeat.interval.ms 3.5:range(1..)
broker group.consumer.max.session.timeout.ms 3.5:range(1..)
broker group.consumer.max.size 3.5:range(1..)
broker group.consumer.migration.policy 3.8:any-case(DISABLED,DOWNGRADE,UPGRADE,BIDIRECTIONAL)
broker group.consumer.min.heartbeat.interval.ms 3.5:range(1..)
broker group.consumer.min.session.timeout.ms 3.5:range(1..)
broker group.consumer.session.timeout.ms 3.5:range(1..)
broker group.coordinator.append.linger.ms 3.8:range(0..)
broker group.coordinator.rebalance.protocols 3.7:list-of(consumer,classic) 3.8:list-of(consumer,classic,unknown) 3.9:list-of(consumer,classic,share,unknown)
broker group.coordinator.threads 3.5:range(1..)
broker group.max.size 2.2:range(1..)
broker group.share.delivery.count.limit 3.9:range(2..10)
broker group.share.heartbeat.interval.ms 3.9:range(1..)
broker group.share.max.groups 3.9:range(1..100)
broker group.share.max.heartbeat.interval.ms 3.9:range(1..)
broker group.share.max.record.lock.duration.ms 3.9:range(30000..3600000)
broker group.share.max.session.timeout.ms 3.9:range(1..)
broker group.share.max.size 3.9:range(10..1000)
broker group.share.min.heartbeat.interval.ms 3.9:range(1..)
broker group.share.min.record.lock.duration.ms 3.9:range(1000..30000)
broker group.share.min.session.timeout.ms 3.9:range(1..)
broker group.share.partition.max.record.locks 3.9:range(100..10000)
broker group.share.record.lock.duration.ms 3.9:range(1000..60000)
broker group.share.session.timeout.ms 3.9:range(1..)
broker inter.broker.protocol.version 0.9:- 2.1:version(2.1<2.1-IV2) 2.2:version(2.2<2.2-IV1) 2.3:version(2.3<2.3-IV1) 2.4:version(2.4<2.4-IV1) 2.5:version(2.5<2.5-IV0) 2.6:version(2.6<2.6-IV0) 2.7:version(2.7<2.7-IV2) 2.8:version(2.8<2.8-IV1) 3:version(3.0<3.0-IV1) 3.1:version(3.1<3.1-IV0) 3.2:version(3.2<3.2-IV0) 3.3:version(3.3<3.3-IV3) 3.4:version(3.4<3.4-IV0) 3.5:version(3.5<3.5-IV2) 3.6:version(3.6<3.6-IV2) 3.7:version(3.7<3.8-IV0) 3.8:version(3.8<3.9-IV0) 3.9:version(3.9<4.0-IV1)
broker kafka.metrics.polling.interval.secs 2.1:range(1..)
broker leader.imbalance.check.interval.seconds 0.9:- 3.2:range(1..)
broker log.cleaner.backoff.ms 0.9:range(0..)
broker log.cleaner.delete.retention.ms 0.9:- 3.3:range(0..)
broker log.cleaner.io.buffer.size 0.9:range(0..)
broker log.cleaner.max.compaction.lag.ms 2.3:- 3.3:range(1..)
broker log.cleaner.min.cleanable.ratio 0.9:- 3.3:range(0..1)
broker log.cleaner.min.compaction.lag.ms 0.10.1:- 3.3:range(0..)
broker log.cleaner.threads 0.9:range(0..)
broker log.cleanup.policy 0.9:one-of(compact,delete) 0.10.1:list-of(compact,delete)
broker log.dir.failure.timeout.ms 3.8:range(1..)
broker log.flush.interval.messages 0.9:range(1..)
broker log.flush.offset.checkpoint.interval.ms 0.9:range(0..)
broker log.flush.start.offset.checkpoint.interval.ms 0.11:range(0..)
broker log.index.interval.bytes 0.9:range(0..)
broker log.index.size.max.bytes 0.9:range(4..)
broker log.initial.task.delay.ms 3.8:range(0..)
broker log.local.retention.bytes 3.6:range(-2..)
broker log.local.retention.ms 3.6:range(-2..)
broker log.message.format.version 0.10:- 2.1:version(2.1<2.1-IV2) 2.2:version(2.2<2.2-IV1) 2.3:version(2.3<2.3-IV1) 2.4:version(2.4<2.4-IV1) 2.5:version(2.5<2.5-IV0) 2.6:version(2.6<2.6-IV0) 2.7:version(2.7<2.7-IV2) 2.8:version(2.8<2.8-IV1) 3:version(3.0<3.0-IV1) 3.1:version(3.1<3.1-IV0) 3.2:version(3.2<3.2-IV0) 3.3:version(3.3<3.3-IV3) 3.4:version(3.4<3.4-IV0) 3.5:version(3.5<3.5-IV2) 3.6:version(3.6<3.6-IV2) 3.7:version(3.7<3.8-IV0) 3.8:version(3.8<3.9-IV0) 3.9:version(3.9<4.0-IV1)
broker log.message.timestamp.after.max.ms 3.6:range(0..)
broker log.message.timestamp.before.max.ms 3.6:range(0..)
broker log.message.timestamp.difference.max.ms 0.10:range(0..) 0.11:- 3.3:range(0..)
broker log.message.timestamp.type 0.10:one-of(CreateTime,LogAppendTime)
broker log.retention.check.interval.ms 0.9:range(1..)
broker log.roll.hours 0.9:range(1..)
broker log.roll.jitter.hours 0.9:range(0..)
broker log.segment.bytes 0.9:range(14..)
broker log.segment.delete.delay.ms 0.9:range(0..)
broker max.connection.creation.rate 2.7:range(0..)
broker max.connections 2.3:range(0..)
broker max.connections.per.ip 0.9:range(1..) 2:range(0..)
broker max.incremental.fetch.session.cache.slots 1.1:range(0..)
broker max.request.partition.size.limit 3.8:range(1..)
broker message.max.bytes 0.9:range(0..)
broker metadata.log.max.record.bytes.between.snapshots 3:range(1..)
broker metadata.log.max.snapshot.interval.ms 3.4:range(0..)
broker metadata.log.segment.bytes 3:range(12..)
broker metadata.log.segment.min.bytes 3:range(12..)
broker metadata.max.idle.interval.ms 3.3:range(0..)
broker metrics.num.samples 0.9:range(1..)
broker metrics.sample.window.ms 0.9:range(1..)
broker min.insync.replicas 0.9:range(1..)
broker num.io.threads 0.9:range(1..)
broker num.network.threads 0.9:range(1..)
broker num.partitions 0.9:range(1..)
broker num.recovery.threads.per.data.dir 0.9:range(1..)
broker offsets.commit.timeout.ms 0.9:range(1..)
broker offsets.load.buffer.size 0.9:range(1..)
broker offsets.retention.check.interval.ms 0.9:range(1..)
broker offsets.retention.minutes 0.9:range(1..)
broker offsets.topic.num.partitions 0.9:range(1..)
broker offsets.topic.replication.factor 0.9:range(1..)
broker offsets.topic.segment.bytes 0.9:range(1..)
broker password.encoder.iterations 1.1:range(1024..)
broker password.encoder.key.length 1.1:range(8..)
broker process.roles 2.8:list-of(broker,controller)
broker producer.id.expiration.check.interval.ms 3.4:range(1..)
broker producer.id.expiration.ms 3.4:range(1..)
broker queued.max.requests 0.9:range(1..)
broker quota.consumer.default 0.9:range(1..) 3:-
broker quota.producer.default 0.9:range(1..) 3:-
broker quota.window.num 0.9:range(1..)
broker quota.window.size.seconds 0.9:range(1..)
broker remote.fetch.max.wait.ms 3.8:range(1..)
broker remote.log.index.file.cache.total.size.bytes 3:range(1..)
broker remote.log.manager.copier.thread.pool.size 3.8:range(1..) 3.9:threads()
broker remote.log.manager.copy.max.bytes.per.second 3.8:range(1..)
broker remote.log.manager.copy.quota.window.num 3.8:range(1..)
broker remote.log.manager.copy.quota.window.size.seconds 3.8:range(1..)
broker remote.log.manager.expiration.thread.pool.size 3.8:range(1..) 3.9:threads()
broker remote.log.manager.fetch.max.bytes.per.second 3.8:range(1..)
broker remote.log.manager.fetch.quota.window.num 3.8:range(1..)
broker remote.log.manager.fetch.quota.window.size.seconds 3.8:range(1..)
broker remote.log.manager.task.interval.ms 3:range(1..)
broker remote.log.manager.task.retry.backoff.max.ms 3:range(1..)
broker remote.log.manager.task.retry.backoff.ms 3:range(1..)
broker remote.log.manager.task.retry.jitter 3:range(0..0.5)
broker remote.log.manager.thread.pool.size 3:range(1..)
broker remote.log.metadata.custom.metadata.max.bytes 3.6:range(0..)
broker remote.log.metadata.manager.class.name 3:non-empty()
broker remote.log.metadata.manager.class.path 3:non-empty() 3.6:-
broker remote.log.metadata.manager.impl.prefix 3:non-empty()
broker remote.log.metadata.manager.listener.name 3:non-empty()
broker remote.log.reader.max.pending.tasks 3:range(1..)
broker remote.log.reader.threads 3:range(1..)
broker remote.log.storage.manager.class.name 3:non-empty()
broker remote.log.storage.manager.class.path 3:non-empty() 3.6:-
broker remote.log.storage.manager.impl.prefix 3:non-empty()
broker replica.fetch.backoff.ms 0.9:range(0..)
broker replica.fetch.max.bytes 0.9:- 0.10.1:range(0..)
broker replica.fetch.response.max.bytes 0.10.1:range(0..)
broker replication.quota.window.num 0.10.1:range(1..)
broker replication.quota.window.size.seconds 0.10.1:range(1..)
broker reserved.broker.max.id 0.9:range(0..)
broker security.inter.broker.protocol 0.9:- 3.3:one-of(PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL)
broker server.max.startup.time.ms 3.5:range(0..)
broker socket.listen.backlog.size 3.2:range(1..)
broker socket.request.max.bytes 0.9:range(1..)
broker ssl.client.auth 0.9:one-of(required,requested,none)
broker telemetry.max.bytes 3.7:range(1..)
broker transaction.abort.timed.out.transaction.cleanup.interval.ms 0.11:range(1..)
broker transaction.max.timeout.ms 0.11:range(1..)
broker transaction.remove.expired.transaction.cleanup.interval.ms 0.11:range(1..)
broker transaction.state.log.load.buffer.size 0.11:range(1..)
broker transaction.state.log.min.isr 0.11:range(1..)
broker transaction.state.log.num.partitions 0.11:range(1..)
broker transaction.state.log.replication.factor 0.11:range(1..)
broker transaction.state.log.segment.bytes 0.11:range(1..)
broker transactional.id.expiration.ms 0.11:range(1..)
broker unclean.leader.election.interval.ms 3.9:range(1..)
broker zookeeper.max.in.flight.requests 1.1:range(1..)
broker zookeeper.metadata.migration.min.batch.size 3.6:range(1..)
topic cleanup.policy 0.9:one-of(compact,delete) 0.10.1:list-of(compact,delete)
topic compression.gzip.level 3.8:level()
topic compression.lz4.level 3.8:range(1..17)
topic compression.type 0.9:one-of(uncompressed,snappy,lz4,gzip,producer) 2.1:one-of(uncompressed,zstd,lz4,snappy,gzip,producer)
topic compression.zstd.level 3.8:range(-131072..22)
topic delete.retention.ms 0.9:range(0..)
topic file.delete.delay.ms 0.9:range(0..)
topic flush.messages 0.9:range(0..) 3.3:range(1..)
topic flush.ms 0.9:range(0..)
topic follower.replication.throttled.replicas 0.10.1:replicas()
topic index.interval.bytes 0.9:range(0..)
topic leader.replication.throttled.replicas 0.10.1:replicas()
topic local.retention.bytes 3:range(-2..)
topic local.retention.ms 3:range(-2..)
topic max.compaction.lag.ms 2.3:range(1..)
topic max.message.bytes 0.9:range(0..)
topic message.format.version 0.10:- 2.1:version(2.1<2.1-IV2) 2.2:version(2.2<2.2-IV1) 2.3:version(2.3<2.3-IV1) 2.4:version(2.4<2.4-IV1) 2.5:version(2.5<2.5-IV0) 2.6:version(2.6<2.6-IV0) 2.7:version(2.7<2.7-IV2) 2.8:version(2.8<2.8-IV1) 3:version(3.0<3.0-IV1) 3.1:version(3.1<3.1-IV0) 3.2:version(3.2<3.2-IV0) 3.3:version(3.3<3.3-IV3) 3.4:version(3.4<3.4-IV0) 3.5:version(3.5<3.5-IV2) 3.6:version(3.6<3.6-IV2) 3.7:version(3.7<3.8-IV0) 3.8:version(3.8<3.9-IV0) 3.9:version(3.9<4.0-IV1)
topic message.timestamp.after.max.ms 3.6:range(0..)
topic message.timestamp.before.max.ms 3.6:range(0..)
topic message.timestamp.difference.max.ms 0.10:range(0..)
topic message.timestamp.type 0.10:- 2:one-of(CreateTime,LogAppendTime)
topic min.cleanable.dirty.ratio 0.9:range(0..1)
topic min.compaction.lag.ms 0.10.1:range(0..)
topic min.insync.replicas 0.9:range(1..)
topic retention.ms 0.9:- 2.2:range(-1..)
topic segment.bytes 0.9:range(14..)
topic segment.index.bytes 0.9:range(0..) 3.3:range(4..)
topic segment.jitter.ms 0.9:range(0..)
topic segment.ms 0.9:range(0..) 2:range(1..)
"""

INTERNAL = """
broker broker.heartbeat.interval.ms int 2.8:2000 3:removed
broker broker.session.timeout.ms int 2.8:9000 3:removed
broker controller.listener.names string 2.8:null 3:removed
broker controller.quorum.append.linger.ms int 2.8:25 3:removed
broker controller.quorum.bootstrap.servers list 3.8:"" 3.9:removed
broker controller.quorum.election.backoff.max.ms int 2.8:1000 3:removed
broker controller.quorum.election.timeout.ms int 2.8:1000 3:removed
broker controller.quorum.fetch.timeout.ms int 2.8:2000 3:removed
broker controller.quorum.request.timeout.ms int 2.8:2000 3:removed
broker controller.quorum.retry.backoff.ms int 2.8:20 3:removed
broker controller.quorum.voters list 2.8:"" 3:removed
broker group.consumer.assignors list 3.5:"" 3.6:org.apache.kafka.coordinator.group.assignor.RangeAssignor 3.7:removed
broker group.consumer.heartbeat.interval.ms int 3.5:5000 3.7:removed
broker group.consumer.max.heartbeat.interval.ms int 3.5:15000 3.7:removed
broker group.consumer.max.session.timeout.ms int 3.5:60000 3.7:removed
broker group.consumer.max.size int 3.5:2147483647 3.7:removed
broker group.consumer.migration.policy string 3.9:disabled
broker group.consumer.min.heartbeat.interval.ms int 3.5:5000 3.7:removed
broker group.consumer.min.session.timeout.ms int 3.5:45000 3.7:removed
broker group.consumer.session.timeout.ms int 3.5:45000 3.7:removed
broker group.coordinator.new.enable boolean 3.5:false
broker group.coordinator.threads int 3.5:1 3.7:removed
broker group.share.enable boolean 3.9:false
broker initial.broker.registration.timeout.ms int 2.8:60000 3:removed
broker log.initial.task.delay.ms long 3.8:30000
broker metadata.log.dir string 2.8:null 3:removed
broker metadata.log.segment.min.bytes int 3:8388608
broker node.id int 2.8:-1 3:removed
broker process.roles list 2.8:"" 3:removed
broker producer.id.expiration.check.interval.ms int 3.4:600000
broker remote.log.index.file.cache.total.size.bytes long 3:1073741824 3.7:removed
broker remote.log.manager.copier.thread.pool.size int 3.8:10 3.9:removed
broker remote.log.manager.expiration.thread.pool.size int 3.8:10 3.9:removed
broker remote.log.manager.task.interval.ms long 3:30000 3.6:removed
broker remote.log.manager.task.retry.backoff.max.ms long 3:30000
broker remote.log.manager.task.retry.backoff.ms long 3:500
broker remote.log.manager.task.retry.jitter double 3:0.2
broker remote.log.manager.thread.pool.size int 3:10 3.6:removed
broker remote.log.metadata.manager.class.name string 3:null 3.6:removed
broker remote.log.metadata.manager.class.path string 3:null 3.6:removed
broker remote.log.metadata.manager.impl.prefix string 3:null 3.6:removed
broker remote.log.metadata.manager.listener.name string 3:null 3.6:removed
broker remote.log.reader.max.pending.tasks int 3:100 3.6:removed
broker remote.log.reader.threads int 3:10 3.6:removed
broker remote.log.storage.manager.class.name string 3:null 3.6:removed
broker remote.log.storage.manager.class.path string 3:null 3.6:removed
broker remote.log.storage.manager.impl.prefix string 3:null 3.6:removed
broker remote.log.storage.system.enable boolean 3:false 3.6:removed
broker sasl.mechanism.controller.protocol string 2.8:GSSAPI 3:removed
broker server.max.startup.time.ms long 3.5:9223372036854775807
broker unclean.leader.election.interval.ms long 3.9:300000
broker unstable.api.versions.enable boolean 3.5:false
broker unstable.feature.versions.enable boolean 3.8:false
broker unstable.metadata.versions.enable boolean 3.7:false 3.8:removed
broker zookeeper.metadata.migration.min.batch.size int 3.6:200
topic local.retention.bytes long 3:-2 3.6:removed
topic local.retention.ms long 3:-2 3.6:removed
topic remote.storage.enable boolean 3:false 3.6:removed
"""
