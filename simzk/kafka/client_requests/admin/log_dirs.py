"""DescribeLogDirs and AlterReplicaLogDirs, served by the broker that is asked (KIP-113).

Rules of this module (ReplicaManager; recorded 1.1 to 3.9):
  - each log directory lists the logs in it, with their bytes; a directory that has failed is KAFKA_STORAGE_ERROR;
  - a log is moved as `broker/log_dir_moves.py` says; its copy is listed with how many records it lacks;
  - where a log is to be is remembered for a replica that this broker does not have yet, until it restarts;
  - after the failure of a directory no move begins;
  - a partition that this broker does not have is REPLICA_NOT_AVAILABLE, from 2.4 on UNKNOWN_TOPIC_OR_PARTITION if the
    metadata cache lacks it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.kafka.client_requests.handlers import Answer, ClientApi, Context, Handler
from simzk.kafka.protocol.errors import ErrorCode
from simzk.kafka.protocol.messages import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from simzk.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from simzk.kafka.broker.log_dir_moves import LogDirMoves
    from simzk.kafka.broker.log_dirs import LogDirs
    from simzk.kafka.client_requests.apis import ApiBroker

ALTER_LOG_DIRS, DESCRIBE_LOG_DIRS = 34, 35
UNKNOWN_TOPICS_SINCE = (2, 4)
NAME_MAX, COPY_SUFFIX = 255, len(".-future") + 32
"""Length of a directory's name, and of what the copy of a log adds to it (UnifiedLog.logFutureDirName)."""
DISK_BYTES = 1 << 40
"""Size of each disk, as clients see it; the logs are in memory."""

Directory = DescribeLogDirsResponse.DescribeLogDirsResult


def handlers(broker: ApiBroker) -> dict[int, Handler]:
    """Return the handlers of a broker, by API key."""
    return LogDirsApi(broker.serving_broker, broker.log_dirs, broker.log_dir_moves).handlers


@dataclass(eq=False)
class LogDirsApi(ClientApi):
    """Log directories for clients of one broker.

    Args:
        log_dirs: its log directories.
        moves: moves logs between them.
    """

    log_dirs: LogDirs
    moves: LogDirMoves

    @property
    def handlers(self) -> dict[int, Handler]:
        return {ALTER_LOG_DIRS: self.serve_alter, DESCRIBE_LOG_DIRS: self.serve_describe}

    def serve_describe(self, context: Context, request: DescribeLogDirsRequest, answer: Answer) -> None:
        """Describe the log directories, with some partitions or all."""
        if not self.broker.allows_on_cluster("Describe", context.principal):
            answer(DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        asked = None
        if request.topics is not None:
            asked = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
        results = [self._directory(number, asked) for number in range(self.log_dirs.count)]
        answer(DescribeLogDirsResponse(results=results))

    def _directory(self, number: int, asked: Collection[TopicPartition] | None) -> Directory:
        path = self.log_dirs.paths[number]
        if number not in self.log_dirs.live:
            return Directory(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
        # Topics that were not asked for are listed, without partitions (recorded 2.8 and 3.4).
        lists_every_topic = (2, 8) <= self.broker.version.number < (3, 9)
        topics: dict[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]] = {}
        part, used = DescribeLogDirsResponse.DescribeLogDirsPartition, 0
        for partition, replica in self.broker.replicas.replicas.items():
            future = self.log_dirs.futures.get(partition)
            is_copy = future is not None and future.directory == number
            if self.log_dirs.directory_of(partition) != number and not is_copy:
                continue
            shown = part(partition_index=partition.partition, partition_size=replica.log.size_bytes)
            if future is not None and is_copy:
                shown.partition_size, shown.is_future_key = future.size_bytes(replica.log), True
                shown.offset_lag = max(0, replica.log.end - future.end)
            used += shown.partition_size
            is_asked = asked is None or partition in asked
            if is_asked or lists_every_topic:
                topics.setdefault(partition.topic, [])
            if is_asked:
                topics[partition.topic].append(shown)
        kind = DescribeLogDirsResponse.DescribeLogDirsTopic
        return Directory(
            log_dir=path,
            topics=[kind(name=topic, partitions=partitions) for topic, partitions in topics.items()],
            total_bytes=DISK_BYTES,
            usable_bytes=DISK_BYTES - used,
        )

    def serve_alter(self, context: Context, request: AlterReplicaLogDirsRequest, answer: Answer) -> None:
        """Move replicas to other log directories."""
        if not self.broker.allows_on_cluster("Alter", context.principal):
            answer(AlterReplicaLogDirsResponse())
            return
        part = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult
        topics: dict[str, list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]] = {}
        for directory in request.dirs:
            for topic in directory.topics:
                for number in topic.partitions:
                    code = self._move(TopicPartition(topic.name, number), directory.path)
                    topics.setdefault(topic.name, []).append(part(partition_index=number, error_code=code))
        kind = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
        results = [kind(topic_name=topic, partitions=partitions) for topic, partitions in topics.items()]
        answer(AlterReplicaLogDirsResponse(results=results))

    def _move(self, partition: TopicPartition, path: str) -> ErrorCode:
        rules = self.broker.version.broker
        if rules.limits_moved_names and len(str(partition)) + COPY_SUFFIX > NAME_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if path not in self.log_dirs.paths:
            return ErrorCode.LOG_DIR_NOT_FOUND
        number = list(self.log_dirs.paths).index(path)
        if number not in self.log_dirs.live or partition in self.log_dirs.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        current, future = self.log_dirs.directory_of(partition), self.log_dirs.futures.get(partition)
        if future is not None and future.directory != number:
            self.log_dirs.cancel_move(partition)
        if rules.moves_logs or current is None:
            self.log_dirs.prefer(partition, number)
        if current is None:
            is_known = partition in self.broker.cache.partitions or self.broker.version.number < UNKNOWN_TOPICS_SINCE
            return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not rules.moves_logs:
            return ErrorCode.NONE
        if self.log_dirs.failed and current != number:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.log_dirs.begin_move(partition, number)
        self.moves.go_on()
        return ErrorCode.NONE
