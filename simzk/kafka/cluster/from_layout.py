"""A cluster that goes on from a layout, of any size: topics in columns, replicas in one table, requests in batches.

Rules of the module:
  - brokers that live in the layout live, the first of them is controller and takes over as after a failover; others are
    dead and can be started;
  - what brokers know and do stands in columns (`broker.light_replicas`): logs are empty, so nothing can be produced.
    The controller is that of any cluster;
  - many requests to ZooKeeper go as one, or as brokers of the real form send them, one by one: both leave the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from simzk.errors import ConfigError
from simzk.kafka.columnar.populated import populated
from simzk.kafka.releases.cluster_releases import Releases, local_registration
from simzk.kafka.schemas.uuid import uuid_text
from simzk.partitions.layouts.layout import find_problems
from simzk.zookeeper.config import ServerConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.partitions.layouts import Layout

BASE_PORT = 9092
START_MS = 1_735_689_600_000
_FIRST_IN_COLUMNS = (2, 7, 0)
_BOOT_LIMIT_SECONDS = 60.0


class LayoutStart(NamedTuple):
    """What a cluster goes on from, and whether its brokers send batches."""

    layout: Layout
    sends_batches: bool


class FromLayout:
    """The start of a cluster that a layout tells."""

    @classmethod
    def from_layout(
        cls,
        layout: Layout,
        *,
        version: str = "3.9",
        seed: int = 0,
        config: Mapping[str, str | int | bool] | None = None,
        tick_time_ms: int = 2000,
        base_port: int = BASE_PORT,
        start_ms: int = START_MS,
        sends_batches: bool = True,
    ) -> Self:
        """A cluster that goes on from a layout, be it one of millions of partitions.

        The layout's live brokers live, and the first of them is controller; others are dead and can be started. All
        znodes are there for any client; what stands behind them are columns. Brokers hold no records.

        Args:
            layout: such as `simzk.partitions.layouts.generate_layout` makes, or `read_layout` reads.
            version: which Kafka the brokers run, 2.7 or later.
            sends_batches: whether brokers send many requests to ZooKeeper as one; else as real ones do, one by one,
                which leaves the same znodes, zxids and history.
            seed, config, tick_time_ms, base_port, start_ms: as for a new cluster.

        Raises:
            ConfigError: the version cannot be simulated so.
            LayoutError: it is no layout; the first ten partitions that cannot be are named.

        >>> from simzk.kafka.cluster.cluster import KafkaCluster
        >>> from simzk.partitions.layouts import brokers_in_racks, generate_layout
        >>> layout = generate_layout(brokers_in_racks(6, 3), topics=20, partitions=600, replication_factor=3, seed=1)
        >>> cluster = KafkaCluster.from_layout(layout)
        >>> cluster.kill(5)
        >>> cluster.run_until_quiet()
        True
        >>> bool((cluster.table.leader == 5).any()), len(cluster.table.rows_with_replica(5))
        (False, 300)
        """
        find_problems(layout).refuse("layout")
        brokers = layout.brokers
        ids, racks = brokers.ids.tolist(), brokers.racks
        releases = Releases(ids, version, None, config)
        oldest = releases.oldest
        if oldest.version.number < _FIRST_IN_COLUMNS:
            raise ConfigError(f"Kafka {version} has leaders that write ISRs", where="version", right="2.7 or later")
        registrations = {
            broker: local_registration(base_port + broker, rack) for broker, rack in zip(ids, racks, strict=True)
        }
        restored = populated(
            layout,
            registrations,
            oldest.version,
            uuid_text(seed + 1),
            timeout_ms=oldest.config.integer("zookeeper.session.timeout.ms"),
            now_ms=start_ms,
        )
        cluster = cls.__new__(cls)
        cluster._build(  # type: ignore[attr-defined]
            releases,
            registrations,
            seed,
            ServerConfig(tick_time_ms=tick_time_ms),
            None,
            1,
            restored,
            start_ms,
            start=LayoutStart(layout, sends_batches),
        )
        for broker, live in restored.live.items():
            cluster.brokers[broker].attach(live.session_id, live.epoch)  # type: ignore[attr-defined]
        cluster.run_until_quiet(_BOOT_LIMIT_SECONDS)  # type: ignore[attr-defined]
        return cluster
