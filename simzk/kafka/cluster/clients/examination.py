"""Examination of a cluster that has healed: what clients were promised is there, and new clients are served.

Rules of this module:
  - after healing every partition takes a record with acks of all within seconds. A follower whose fetch was lost before
    sends the next one after `replica.socket.timeout.ms`, 30 s;
  - no transaction stays open beyond its timeout and the interval at which coordinators look for such ones;
  - then whole logs are read, the committed offsets, and the topics of administrators, and the ledger judges them;
  - a new group is formed, goes on without a member that crashes after its session timeout and not before, and keeps
    its generation when a static member restarts;
  - a partition that a known bug of Kafka keeps from serving clients is left out, and what depends on it: transactions
    on its topic, or all groups and transactions if coordinators need it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from simzk.kafka.cluster.clients.administrators import RETENTION, TopicAdministrator, delete_request
from simzk.kafka.cluster.clients.group_member import GroupMember, MemberSettings, fetch_offsets
from simzk.kafka.cluster.clients.producers import (
    IdempotentProducer,
    ResumedProducer,
    TransactionalProducer,
    TransactionSettings,
    produce_request,
)
from simzk.kafka.cluster.clients.readers import (
    COMMITTED,
    EARLIEST,
    FETCH,
    LATEST,
    UNCOMMITTED,
    FetchingClient,
    LogReader,
)
from simzk.kafka.cluster.clients.wire import GROUP_COORDINATOR, CoordinatorLostError
from simzk.kafka.cluster.clients.znode_watcher import ZooKeeperExaminer
from simzk.kafka.coordinator.coordinator_log import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from simzk.kafka.log.record_batches import Record, encode_batch
from simzk.kafka.observation.client_ledger import LogRecord
from simzk.kafka.protocol.messages import (
    DeleteRecordsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FetchResponse,
    ProduceResponse,
)
from simzk.kafka.rpc import REQUEST_TIMEOUT_MS, Disconnected
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from simzk.kafka.cluster.clients.fleet import ClientFleet
    from simzk.simulation import Process

ANSWERED_US: Final = 15_000_000
"""How long a healed cluster may take to serve a request: a broker may be loading, or an ISR be shrinking."""
COMMITTED_US: Final = 300_000
"""How long a commit may take when all replicas are in sync and fetch."""
ENDED_US: Final = 35_000_000
"""How long transactions may take to end, beside `_ABORT_INTERVAL`: their timeout, and the time to write markers."""
_ABORT_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
"""A minute up to 2.4, and 10 s since (KAFKA-9417)."""
HELD_LONGER_US: Final = 8_000_000
"""How much longer the timeout of a held transaction is than the interval at which coordinators look for such ones."""
GROUP_US: Final = 40_000_000
"""How long a group may take to become stable: a session timeout, a rebalance timeout, and delays."""
STEP_US: Final = 250_000
STATIC_SINCE: Final = 5
"""First version of JoinGroup with static members."""
_TOPIC_RESOURCE = 2
_GROUP, _INSTANCE = "examined group", "examined instance"
_LEFT, _HELD = "examined transactions", "held transactions"
COMMITS: Final = 3
"""How many transactions a producer has to commit."""


class Examiner(FetchingClient):
    """A client that examines the cluster.

    Args:
        process: its process.
        fleet: the clients of the run, which have ended.
        topics: number of partitions of the topics that clients use, by name.
        compacted: those of them that are compacted.
        unserved: partitions that a known bug of Kafka keeps from serving clients.

    Attributes:
        failures: what it has found missing, beside the violations of the ledger.
    """

    def __init__(
        self,
        process: Process,
        fleet: ClientFleet,
        topics: Mapping[str, int],
        compacted: Collection[str],
        unserved: Collection[TopicPartition] = (),
    ) -> None:
        super().__init__(process, fleet.ports)
        self.failures: list[str] = []
        self.is_done: bool = False
        self._fleet = fleet
        self._ledger = fleet.ledger
        self._compacted = compacted
        self._broken = {partition.topic for partition in unserved}
        partitions = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
        self._partitions = [partition for partition in partitions if partition not in unserved]
        if len(self._partitions) < len(partitions):
            left_out = len(partitions) - len(self._partitions)
            self._ledger.counts["partitions that a known bug keeps from serving clients"] += left_out
        process.spawn(self._run(), "examination")

    async def _run(self) -> None:
        fetching_us = self.now_us + REQUEST_TIMEOUT_MS * 1_000
        for partition in self._partitions:
            limit_us = max(ANSWERED_US, fetching_us - self.now_us)
            if await self._require(f"{partition} takes no record", limit_us, partial(self._append, partition)):
                await self._require_fast_commit(partition)
        await self._examine_zookeeper()
        await self._deliver_windows()
        if TRANSACTIONS_TOPIC not in self._broken:
            await self._examine_transactions_and_groups()
        self.is_done = True

    async def _examine_transactions_and_groups(self) -> None:
        for partition in self._partitions:
            failure = f"a transaction on {partition} stays open"
            await self._require(failure, self._aborted_us + ENDED_US, partial(self._has_ended, partition))
        if not self.failures:
            await self._read_logs()
            if OFFSETS_TOPIC not in self._broken:
                await self._read_offsets()
            await self._read_topics()
        whole = [one.topic for one in self._partitions if one.topic not in self._broken]
        if not self.failures and self._partitions:
            await self._delete_records()
        if not self.failures and whole and OFFSETS_TOPIC not in self._broken:
            await self._transact()
            await self._time_out(whole[0])
            await self._hold(whole[0])
            await self._form_group(whole[0])

    async def _require(self, failure: str, limit_us: int, holds: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until a condition holds; note a failure if it does not in time."""
        end_us = self.now_us + limit_us
        while True:
            try:
                if await holds():
                    return True
            except (Disconnected, CoordinatorLostError):
                pass
            if self.now_us >= end_us:
                self.failures.append(f"{failure} after {limit_us // 1_000_000} s")
                return False
            await self.process.sleep(STEP_US)

    async def _examine_zookeeper(self) -> None:
        """Let a client of ZooKeeper examine sessions and quotas."""
        examiner = ZooKeeperExaminer(self.process.scheduler, self._fleet.zookeeper, self._ledger)
        await self._require("the examination of ZooKeeper does not end", ENDED_US, partial(_is_done, examiner))
        examiner.kill()

    async def _deliver_windows(self) -> None:
        """Let idempotent producers deliver what they have sent: their numbers are still the next ones."""
        for stopped in list(self._fleet.clients):
            if isinstance(stopped, IdempotentProducer) and stopped.window and stopped.partition in self._partitions:
                resumed = self._fleet.resume(stopped)
                failure = f"{stopped.process.name} cannot deliver its batches to {stopped.partition}"
                await self._require(failure, ANSWERED_US, partial(_is_done, resumed))

    async def _led(self, partition: TopicPartition) -> int:
        self.forget_leader(partition)
        broker = await self.leader(partition)
        if broker is None:
            raise Disconnected(f"no leader of {partition}")
        return broker

    async def _append(self, partition: TopicPartition) -> bool:
        value = f"{self.process.name} {self.now_us}".encode()
        data = encode_batch([Record(b"examined", value, timestamp_ms=self.ports.now_ms())])
        answer = await self.call(await self._led(partition), produce_request(partition, data), ProduceResponse, 11)
        return not answer.responses[0].partition_responses[0].error_code

    async def _require_fast_commit(self, partition: TopicPartition) -> None:
        """Send one more record, and note a failure if its commit takes too long: nothing disturbs it."""
        before_us = self.now_us
        try:
            is_committed = await self._append(partition)
        except Disconnected:
            is_committed = False
        took_us = self.now_us - before_us
        if not is_committed or took_us > COMMITTED_US:
            self.failures.append(f"a record of {partition} is not committed fast, but after {took_us / 1_000_000:g} s")

    async def _has_ended(self, partition: TopicPartition) -> bool:
        broker = await self._led(partition)
        ends = [await self.list_offset(broker, partition, LATEST, level) for level in (COMMITTED, UNCOMMITTED)]
        return None not in ends and ends[0] == ends[1]

    async def _read_logs(self) -> None:
        logs: dict[TopicPartition, tuple[int, Sequence[LogRecord]]] = {}
        for partition in self._partitions:
            read = partial(self._read_log, partition, logs)
            if not await self._require(f"{partition} cannot be read", ANSWERED_US, read):
                return
            start, records = logs[partition]
            self._ledger.judge_log(partition, start, records, compacts=partition.topic in self._compacted)
        self._ledger.judge_transactions(logs)

    async def _read_log(
        self, partition: TopicPartition, logs: dict[TopicPartition, tuple[int, Sequence[LogRecord]]]
    ) -> bool:
        """Read the log start offset of a partition, and its records."""
        broker, sent = await self._led(partition), self._ledger.moment()
        start = await self.list_offset(broker, partition, EARLIEST)
        end = await self.list_offset(broker, partition, LATEST)
        if start is None or end is None:
            return False
        self._ledger.on_log_start(partition, start, broker=broker, sent=sent)
        reader, records = LogReader(start), list[LogRecord]()
        while reader.position < end:
            request = self.fetch_request({partition: reader.position}, isolation=COMMITTED)
            answer = self.answered(await self.call(broker, request, FetchResponse, FETCH))[partition]
            before = reader.position
            records += reader.read(answer)
            if reader.position == before:
                return False
        logs[partition] = start, records
        return True

    async def _read_offsets(self) -> None:
        """Read the offsets of all groups; those of transactions are named as their producers."""
        of_members = {one.settings.group: one.settings for one in self._fleet.clients if isinstance(one, GroupMember)}
        for group, settings in of_members.items():
            partitions = [TopicPartition(settings.topic, number) for number in range(settings.partitions)]
            sent = self._ledger.moment()
            for partition, offset in (await self._offsets_of(group, partitions)).items():
                self._ledger.on_fetched(group, None, partition, offset, sent=sent)
        for producing in self._transactions():
            group = producing.transactional_id
            partitions = [TopicPartition(producing.topic, number) for number in range(producing.partitions)]
            for partition, offset in (await self._offsets_of(group, partitions)).items():
                self._ledger.judge_offsets(group, partition, offset)

    def _transactions(self) -> list[TransactionSettings]:
        """Return the settings of producers whose transactional ids have used no topic that is left out."""
        found = [one.settings for one in self._fleet.clients if isinstance(one, TransactionalProducer)]
        # The next transaction of an id waits until the last one has its marker in every partition.
        stuck = {settings.transactional_id for settings in found if settings.topic in self._broken}
        return [settings for settings in found if settings.transactional_id not in stuck]

    async def _offsets_of(self, group: str, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}

        async def fetch() -> bool:
            broker = await self.coordinator(group, GROUP_COORDINATOR)
            offsets = await fetch_offsets(self, broker, group, partitions)
            found.update(offsets or {})
            return offsets is not None

        await self._require(f"the offsets of {group} cannot be read", ANSWERED_US, fetch)
        return found

    async def _read_topics(self) -> None:
        for one in self._fleet.clients:
            if isinstance(one, TopicAdministrator):
                for name, topic in one.topics.items():
                    found = await self._partition_counts(name)
                    if found.isdisjoint(topic.partitions):
                        self._ledger.administered.violate(f"{name} has {found} partitions, not {topic.partitions}")
                    elif None not in found and (retention := await self._retention(name)) not in topic.retention:
                        self._ledger.administered.violate(f"{name} has {RETENTION}={retention}, not {topic.retention}")

    async def _partition_counts(self, topic: str) -> set[int | None]:
        """Return the numbers of partitions of a topic that brokers tell, None where it does not exist.

        A broker that was not registered when a topic was deleted keeps it in its cache (`agreement.py`).
        """
        found: set[int | None] = set()

        async def ask(broker: int) -> bool:
            (answer,) = (await self.metadata(topic, broker)).topics
            found.add(None if answer.error_code else len(answer.partitions))
            return True

        for broker in self.ports.brokers:
            await self._require(f"broker {broker} has no metadata of {topic}", ANSWERED_US, partial(ask, broker))
        return found

    async def _retention(self, topic: str) -> str:
        """Return the value of `retention.ms` that a topic itself has; empty for none."""
        found: list[str] = []

        async def ask() -> bool:
            resource = DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[RETENTION]
            )
            request = DescribeConfigsRequest(resources=[resource])
            answer = await self.call(self.any_broker(), request, DescribeConfigsResponse, 1)
            (config,) = answer.results[0].configs
            found.append(config.value or "" if config.config_source == 1 else "")
            return True

        await self._require(f"the configuration of {topic} cannot be read", ANSWERED_US, ask)
        return found[-1] if found else ""

    async def _delete_records(self) -> None:
        """Delete all records where that is allowed: all replicas must follow."""
        for partition in self._partitions:
            if partition.topic not in self._compacted:
                deleted = partial(self._delete, partition)
                await self._require(f"the records of {partition} cannot be deleted", ANSWERED_US, deleted)

    async def _delete(self, partition: TopicPartition) -> bool:
        broker, everything = await self._led(partition), -1
        answer = await self.call(broker, delete_request(partition, everything), DeleteRecordsResponse, 2, 12_000)
        return not answer.topics[0].partitions[0].error_code

    @property
    def _aborted_us(self) -> int:
        """The longest time between two looks of a coordinator at transactions that are open for too long."""
        found = [broker.version.defaults[_ABORT_INTERVAL] for broker in self.ports.brokers.values()]
        return 1000 * max(int(interval) for interval in found if interval is not None)

    async def _transact(self) -> None:
        """Let each transactional id commit some transactions."""
        for settings in {one.transactional_id: one for one in self._transactions()}.values():
            steady = settings._replace(gap_us=STEP_US, aborts_in=1_000, leaves_in=1_000_000)
            producer = self._fleet.start_transactions(steady)
            failure = f"{settings.transactional_id} commits no transactions"
            await self._require(failure, self._aborted_us + ENDED_US, partial(_has_committed, producer))
            producer.kill()

    async def _time_out(self, topic: str) -> None:
        """Leave a transaction of each transactional id to its timeout: then its producer is fenced."""
        left_us = self._aborted_us + STEP_US
        used = {settings.transactional_id for settings in self._transactions()}
        settings = TransactionSettings(
            _LEFT, topic, 1, STEP_US, leaves_in=1, left_us=left_us, aborts_in=1_000, commits_offsets=False
        )
        start, ids = self._fleet.start_transactions, [_LEFT, *sorted(used)]
        producers = {name: start(settings._replace(transactional_id=name)) for name in ids}
        for name, producer in producers.items():
            failure = f"the producer of {name} is not fenced after its timeout"
            await self._require(failure, self._aborted_us + 2 * ENDED_US, partial(_is_fenced, producer))
        for producer in producers.values():
            producer.kill()

    async def _hold(self, topic: str) -> None:
        """Hold two transactions open for nearly their timeout: each has the whole of it, and nobody is fenced.

        While the second one is open, the coordinator looks at least once for those that are open for too long. Both
        commit offsets of a group that has no others.
        """
        timeout_us = self._aborted_us + HELD_LONGER_US
        held_us = timeout_us - HELD_LONGER_US // 4
        settings = TransactionSettings(
            _HELD,
            topic,
            1,
            STEP_US,
            timeout_us // 1000,
            aborts_in=1_000_000,
            leaves_in=1_000_000,
            held_us=held_us,
        )
        producer = self._fleet.start_transactions(settings)
        both = partial(_has_committed, producer, 2)
        await self._require(f"{_HELD} commits no transactions", 2 * timeout_us + ENDED_US, both)
        if producer.fenced:
            self.failures.append(f"the producer of {_HELD} is fenced before the timeout of its transaction")
        producer.kill()
        partition = TopicPartition(topic, 0)
        for offset in (await self._offsets_of(_HELD, [partition])).values():
            self._ledger.judge_offsets(_HELD, partition, offset)

    async def _form_group(self, topic: str) -> None:
        """Form a group of two members, of which one crashes, and one is static and restarts."""
        count = sum(one.topic == topic for one in self._partitions)
        is_static = self.ports.version(11, 9) >= STATIC_SINCE
        instance = _INSTANCE if is_static else ""
        settings = MemberSettings(_GROUP, topic, count, STEP_US * 2, instance_id=instance, commits_in=1_000)
        start = self._fleet.start_member
        kept, lost = start(settings), start(settings._replace(instance_id=""))
        failure = f"{_GROUP} has no assignment of {count} partitions to two members"
        if not await self._require(failure, GROUP_US, partial(_share, kept, lost, count)):
            return
        before = kept.generation
        await self.process.sleep(2 * settings.session_ms * 1000)
        if kept.generation != before:
            self.failures.append(f"{_GROUP} has lost a member although it sends heartbeats")
            return
        lost.kill()
        crashed_us = self.now_us
        failure = f"{_GROUP} has not gone on without the member that crashed"
        if not await self._require(failure, GROUP_US, partial(_owns, kept, count)):
            return
        session_us = settings.session_ms * 1000
        if kept.joined_us - crashed_us < session_us - 2 * settings.gap_us:
            self.failures.append(
                f"{_GROUP} has lost a member {(kept.joined_us - crashed_us) / 1_000_000:g} s after a heartbeat"
            )
        if is_static:
            before = kept.generation
            kept.kill()
            again = start(settings)
            if await self._require(f"{_INSTANCE} does not come back", GROUP_US, partial(_owns, again, count)):
                if again.generation != before:
                    self.failures.append(
                        f"{_GROUP} has generation {again.generation} after a static member restarted, not {before}"
                    )
                again.kill()


async def _has_committed(producer: TransactionalProducer, count: int = COMMITS) -> bool:
    """Return whether a producer has committed some transactions."""
    return producer.committed >= count


async def _is_fenced(producer: TransactionalProducer) -> bool:
    """Return whether a producer was fenced."""
    return producer.fenced > 0


async def _is_done(client: ResumedProducer | ZooKeeperExaminer) -> bool:
    """Return whether a client has ended."""
    return client.is_done


async def _owns(member: GroupMember, count: int) -> bool:
    """Return whether a member has all partitions."""
    return len(member.positions) == count


async def _share(one: GroupMember, other: GroupMember, count: int) -> bool:
    """Return whether two members share all partitions in one generation."""
    return one.generation == other.generation >= 0 and len(one.positions) + len(other.positions) == count
