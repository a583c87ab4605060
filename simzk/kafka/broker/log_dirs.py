"""The directories in which a broker keeps its logs: what lies where, and which have failed.

Rules of the module (LogManager; docs/reference/kafka.md §2.13):
  - a new log goes where the fewest are, to the first of several such directories;
  - what lay in a directory that failed is offline until the broker starts again: whoever repaired it has put an empty
    one in its place;
  - a replica that should be here and is not may lie in a directory that failed: it is offline too, not made anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.kafka.topic_partition import TopicPartition


class LogDirs:
    """The log directories of one broker, by number; they outlive its process.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        assert count > 0, f"{count} log directories"
        self.count = count
        self.failed: dict[int, None] = {}
        self.offline: dict[TopicPartition, None] = {}
        self._where: dict[TopicPartition, int] = {}

    @property
    def live(self) -> list[int]:
        """The directories that have not failed."""
        return [directory for directory in range(self.count) if directory not in self.failed]

    def where(self, partition: TopicPartition) -> int | None:
        """The directory of a log, None where there is none."""
        return self._where.get(partition)

    def open(self, partition: TopicPartition, *, is_new: bool) -> bool:
        """Find the log of a partition, or make it; false where it is, or may be, in a directory that failed."""
        if partition not in self.offline and partition not in self._where:
            if self.failed and not is_new:
                self.offline[partition] = None
            else:
                self._where[partition] = self._least_loaded()
        return partition not in self.offline

    def delete(self, partition: TopicPartition) -> None:
        """The log of a partition is no more."""
        assert partition not in self.offline, f"{partition} is offline"
        self._where.pop(partition, None)

    def fail(self, directory: int) -> list[TopicPartition]:
        """A directory fails; the partitions that were in it."""
        assert directory in self.live, f"directory {directory} has failed or is not there"
        self.failed[directory] = None
        lost = [partition for partition, where in self._where.items() if where == directory]
        for partition in lost:
            del self._where[partition]
        self.offline.update(dict.fromkeys(lost))
        return lost

    def restart(self) -> None:
        """The broker starts again, with empty directories in the place of those that failed."""
        self.failed.clear()
        self.offline.clear()

    def _least_loaded(self) -> int:
        loads = dict.fromkeys(self.live, 0)
        for directory in self._where.values():
            loads[directory] += 1
        return min(loads, key=lambda directory: loads[directory])

    def check(self) -> None:
        """Assert that what belongs together agrees."""
        assert self.failed.keys() <= set(range(self.count))
        assert not self.offline.keys() & self._where.keys()
        assert set(self._where.values()) <= set(self.live)
