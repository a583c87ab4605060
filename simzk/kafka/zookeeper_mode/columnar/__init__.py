"""Znodes of the topics of a large cluster stored as columns, as a backing of a `DataTree`."""

from simzk.kafka.zookeeper_mode.columnar.backing import ColumnarTopics
from simzk.kafka.zookeeper_mode.columnar.layouts import describe_brokers, load_layout

__all__ = ["ColumnarTopics", "describe_brokers", "load_layout"]
