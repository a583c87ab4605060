"""Log directories of a broker: the directory of each log, and directories that failed.

Rules of this module (LogManager; docs/reference/kafka.md §2.13):
  - a new log is created in the directory with the fewest logs, the first of several;
  - logs in a failed directory are offline until the broker restarts; then the directory is empty;
  - after a failure a log that is missing, and is not new, may be in the failed directory: it is offline, too, and is
    not created again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.kafka.topic_partition import TopicPartition


class LogDirs:
    """Log directories of one broker, by number; they survive its process.

    Args:
        count: number of directories.
    """

    def __init__(self, count: int) -> None:
        assert count > 0, f"{count} log directories; at least 1 is needed"
        self.count = count
        self.failed: dict[int, None] = {}
        self.offline: dict[TopicPartition, None] = {}
        self._directory_of: dict[TopicPartition, int] = {}

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
            if self.failed and not is_new:
                self.offline[partition] = None
            else:
                self._directory_of[partition] = self._least_loaded()
        return partition not in self.offline

    def delete(self, partition: TopicPartition) -> None:
        """Delete a log."""
        assert partition not in self.offline, f"{partition} is offline"
        self._directory_of.pop(partition, None)

    def fail(self, directory: int) -> list[TopicPartition]:
        """Let a directory fail; return the partitions of its logs."""
        assert directory in self.live, f"directory {directory} has failed already or does not exist"
        self.failed[directory] = None
        lost = [partition for partition, where in self._directory_of.items() if where == directory]
        for partition in lost:
            del self._directory_of[partition]
        self.offline.update(dict.fromkeys(lost))
        return lost

    def restart(self) -> None:
        """Replace failed directories by empty ones: the broker restarts."""
        self.failed.clear()
        self.offline.clear()

    def _least_loaded(self) -> int:
        loads = dict.fromkeys(self.live, 0)
        for directory in self._directory_of.values():
            loads[directory] += 1
        return min(loads, key=lambda directory: loads[directory])

    def check(self) -> None:
        """Assert every invariant."""
        assert self.failed.keys() <= set(range(self.count))
        assert not self.offline.keys() & self._directory_of.keys()
        assert set(self._directory_of.values()) <= set(self.live)
