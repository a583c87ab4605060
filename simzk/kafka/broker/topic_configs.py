"""What a broker knows of its topics' configuration (LogConfig, TopicConfigHandler; docs/reference/kafka.md §1.8).

Rules of the module:
  - a topic's configuration is read once its first log on the broker is opened; until the answer is there, and where
    the topic says nothing, the broker's own defaults hold;
  - from then on it is what the last notification of a change found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.errors import ZnodeError
from simzk.kafka.schemas.java_numbers import parse_int
from simzk.kafka.session import SessionExpiredError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.kafka.broker_config import BrokerConfig
    from simzk.kafka.zk_client import KafkaZooKeeperClient
    from simzk.simulation import Process

MIN_ISR_KEY = "min.insync.replicas"


class TopicConfigs:
    """The configuration of topics, as one broker knows it.

    Args:
        process: the broker's.
        client: its use of ZooKeeper.
        config: its own configuration, where a topic has none.
        on_change: told of the topic whose configuration was read.
    """

    def __init__(
        self, process: Process, client: KafkaZooKeeperClient, config: BrokerConfig, on_change: Callable[[str], None]
    ) -> None:
        self._process = process
        self._client = client
        self._config = config
        self._on_change = on_change
        self._values: dict[str, dict[str, str]] = {}

    def open(self, topic: str) -> None:
        """The first log of a topic is opened here."""
        if self._client.version.heeds_min_isr and topic not in self._values:
            self._values[topic] = {}
            self._process.spawn(self._read(topic), f"configuration of {topic}")

    def update(self, topic: str, values: dict[str, str]) -> None:
        """A notification: the topic's configuration is another now."""
        self._values[topic] = dict(values)
        self._on_change(topic)

    def min_isr(self, topic: str) -> int:
        """How many replicas must be in sync for a write that all of them must have; 1 before there was such a thing."""
        if not self._client.version.heeds_min_isr:
            return 1
        own = parse_int(self._values.get(topic, {}).get(MIN_ISR_KEY, ""))
        return self._config.integer(MIN_ISR_KEY) if own is None else own

    async def _read(self, topic: str) -> None:
        try:
            values = await self._client.entity_config(f"topics/{topic}")
        except SessionExpiredError:
            self._values.pop(topic, None)  # read again when the next log is opened
            return
        except ZnodeError as problem:
            self._client.unusable(problem)
            return
        self.update(topic, values)
