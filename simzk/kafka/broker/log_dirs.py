"""Log directories of one broker: where each log is, failed directories, and copies of logs that are being moved.

Rules of this module (LogManager; docs/reference/kafka.md §2.13):
  - a new log is created in the directory with the fewest logs, the first of several, or where a client wanted it;
  - logs in a failed directory are offline until the broker restarts; then the directory is empty;
  - after a failure a log that is missing, and is not new, may be in the failed directory: it is offline, too, and is
    not created again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.log.log import Log
    from simzk.kafka.topic_partition import TopicPartition


@dataclass(slots=True)
class FutureLog:
    """A copy of a log that is to replace it in another directory.

    Args:
        directory: its directory.
        end: the offset up to which the log is copied.
    """

    directory: int
    end: int = 0

    def follow(self, log: Log) -> None:
        """Truncate the copy as its log was truncated since, or begin it again where that begins."""
        self.end = max(log.start, min(self.end, log.end))

    def size_bytes(self, log: Log) -> int:
        """Return the size of the copied batches of a log."""
        return sum(batch.size_bytes for batch in log.batches if batch.next_offset <= self.end)


class LogDirs:
    """Log directories of one broker, by number; they survive its process.

    Args:
        directories: their paths, as clients see them.

    Attributes:
        futures: logs that are being moved.
    """

    def __init__(self, directories: Sequence[str]) -> None:
        assert directories, "no log directories; at least 1 is needed"
        self.paths = directories
        self.count = len(directories)
        self.failed: dict[int, None] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.futures: dict[TopicPartition, FutureLog] = {}
        self._preferred: dict[TopicPartition, int] = {}  # directories for logs that do not exist yet
        self._directory_of: dict[TopicPartition, int] = {}
        self._loads = [0] * len(directories)  # number of logs in each directory

    @property
    def live(self) -> list[int]:
        """Directories that have not failed."""
        return [directory for directory in range(self.count) if directory not in self.failed]

    def directory_of(self, partition: TopicPartition) -> int | None:
        """Return the directory number of a log; None if the log does not exist."""
        return self._directory_of.get(partition)

    def open(self, partition: TopicPartition, *, is_new: bool) -> bool:
        """Open or create a log; return false if it is, or may be, in a failed directory."""
        if partition not in self.offline and partition not in self._directory_of:
            live, preferred = self.live, self._preferred.pop(partition, None)
            if (self.failed and not is_new) or (preferred is not None and preferred not in live):
                self.offline[partition] = None
            else:
                assert live, "a broker without a live log directory halts"
                fewest = min(live, key=self._loads.__getitem__)  # the first with the fewest logs
                self._put(partition, fewest if preferred is None else preferred)
        assert (partition in self.offline) != (partition in self._directory_of)
        return partition not in self.offline

    def prefer(self, partition: TopicPartition, directory: int) -> None:
        """Remember in which directory a log is to be, unless it or its copy is there (maybeUpdatePreferredLogDir)."""
        assert directory in self.live, f"directory {directory} has failed or does not exist"
        future = self.futures.get(partition)
        if directory != self._directory_of.get(partition) and (future is None or directory != future.directory):
            self._preferred[partition] = directory

    def begin_move(self, partition: TopicPartition, directory: int) -> None:
        """Begin a copy of a log in another live directory, if there is none (maybeCreateFutureReplica)."""
        assert partition in self._directory_of, f"{partition} has no log"
        assert directory in self.live, f"directory {directory} has failed or does not exist"
        if directory == self._directory_of[partition] or partition in self.futures:
            return
        assert not self.failed, "no log is moved after a failure"
        self._preferred.pop(partition, None)
        self.futures[partition] = FutureLog(directory)
        self._loads[directory] += 1

    def cancel_move(self, partition: TopicPartition) -> None:
        """Delete the copy of a log, if there is one."""
        future = self.futures.pop(partition, None)
        if future is not None:
            self._loads[future.directory] -= 1

    def finish_move(self, partition: TopicPartition) -> None:
        """Replace a log by its copy."""
        directory = self.futures[partition].directory
        self._remove(partition)
        self._put(partition, directory)

    def delete(self, partition: TopicPartition) -> None:
        """Delete a log."""
        assert partition not in self.offline, f"{partition} is offline"
        self._remove(partition)

    def fail(self, directory: int) -> list[TopicPartition]:
        """Let a directory fail; return the partitions of its logs."""
        assert directory in self.live, f"directory {directory} has failed already or does not exist"
        self.failed[directory] = None
        lost = [partition for partition, where in self._directory_of.items() if where == directory]
        for partition in lost:
            self._remove(partition)
        for partition in [one for one, future in self.futures.items() if future.directory == directory]:
            self.cancel_move(partition)
        self.offline.update(dict.fromkeys(lost))
        return lost

    def restart(self) -> None:
        """Replace failed directories by empty ones: the broker restarts."""
        self.failed.clear()
        self.offline.clear()
        self._preferred.clear()

    def _put(self, partition: TopicPartition, directory: int) -> None:
        assert partition not in self._directory_of, f"{partition} has a log"
        self._directory_of[partition] = directory
        self._loads[directory] += 1

    def _remove(self, partition: TopicPartition) -> None:
        self.cancel_move(partition)
        directory = self._directory_of.pop(partition, None)
        if directory is not None:
            self._loads[directory] -= 1
            assert self._loads[directory] >= 0

    def check(self) -> None:
        """Assert every invariant."""
        assert self.failed.keys() <= set(range(self.count))
        assert not self.offline.keys() & self._directory_of.keys()
        assert set(self._directory_of.values()) <= set(self.live)
        assert self.futures.keys() <= self._directory_of.keys()
        copies = {partition: future.directory for partition, future in self.futures.items()}
        assert not copies.items() & self._directory_of.items(), "a log is moved to where it is"
        logs = [*self._directory_of.values(), *copies.values()]
        assert self._loads == [logs.count(number) for number in range(self.count)]
