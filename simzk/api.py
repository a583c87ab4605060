"""`simzk.KafkaCluster`: the simulated cluster together with an in-memory ZooKeeper for kazoo clients."""

from __future__ import annotations

import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.lifecycle import note_closing, note_made

try:
    import crc32c  # noqa: F401  # both imported here first, so that the error names the extra to install
    import numpy  # noqa: F401
except ImportError as missing:
    raise ConfigError(
        f"KafkaCluster needs {missing.name}, which is not installed", right="pip install 'simzk[kafka]'"
    ) from missing

from simzk.kafka.cluster import cluster as kafka

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from os import PathLike

    from simzk.kafka.replay.report import ReplayReport
    from simzk.serve.memory import ZooKeeper


class KafkaCluster(kafka.KafkaCluster):
    """A simulated Kafka cluster in virtual time that kazoo clients can use.

    The constructor, the methods and their errors are those of `simzk.kafka.cluster.cluster.KafkaCluster`. All of them
    may be called from several threads.

    >>> with KafkaCluster(brokers=3) as cluster:
    ...     client = cluster.zookeeper.client()
    ...     client.start()
    ...     sorted(client.get_children("/brokers/ids"))
    ['1', '2', '3']
    >>> cluster
    <KafkaCluster 3.9, 3 brokers, controller 1, 3.6 s>
    """

    # The threads of kazoo clients and those of the test share one server: whoever uses it holds this lock.
    @cached_property
    def lock(self) -> AbstractContextManager[object]:  # type: ignore[override]
        """The lock that every method and property acquires. Hold it to iterate over `tree` or `history` in a thread."""
        return threading.RLock()

    _zookeeper: ZooKeeper | None = None

    @property
    def zookeeper(self) -> ZooKeeper:
        """The cluster's ZooKeeper for kazoo clients, which see and change the same znodes as the brokers.

        A client's request is applied at the present virtual instant; the cluster reacts in the next `advance`.
        """
        from simzk.serve.memory import ZooKeeper

        host = self.zookeeper_host
        with self.lock:
            if self._zookeeper is None:
                self._zookeeper = ZooKeeper(server=self.server, now_ms=host.now_ms, pump=self.pump, rules=host.rules)
                self._zookeeper.wake_by(host.wake_at)
            return self._zookeeper

    def _note_ready(self) -> None:
        note_made(self)

    def close(self) -> None:
        """Stop the kazoo clients of this cluster, then kill all its processes; closing twice is allowed."""
        note_closing(self)
        if self._zookeeper is not None:  # without the lock, which the clients' threads need to end
            self._zookeeper.close()
        super().close()


def replay(recording: str | PathLike[str], *, version: str | None = None, seed: int = 0) -> ReplayReport:
    """Replay a recording of a real Kafka cluster on the simulation, and compare each step.

    The simulation does what was done to the real cluster, at the same time. What was chance in the real cluster is
    read from the recording: the winner of each controller election, when sessions expired and timers fired, the order
    in which followers joined ISRs, and ids. Everything else is computed, and compared after each step: every field of
    every znode, and every transaction in order.

    Args:
        recording: folder with `meta.json`, `dumps.json` and `txns.json` (each may be compressed: `.json.gz`), as
            docs/replay.md describes.
        version: Kafka release to simulate, such as "2.8"; that of the recording if None.
        seed: seed of the remaining random choices.

    Returns:
        the differences of each step.

    Raises:
        RecordingError: the recording is incomplete or invalid, or a step does not say what was done.
        ConfigError: the release is not simulated.

    Example::

        report = simzk.replay("recordings/2.4.1")
        assert report.equal, report.to_text()
    """
    try:
        from simzk.kafka.replay import report
    except ImportError as missing:
        raise ConfigError(
            "replay needs msgspec, which is not installed", right="pip install 'simzk[cli,kafka]'"
        ) from missing

    return report.replay(Path(recording), version=version, seed=seed)
