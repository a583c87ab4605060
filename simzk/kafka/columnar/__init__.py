"""`/brokers/topics` of a large cluster in columns, for a `DataTree` to answer from (`simzk.zookeeper.backing`)."""

from simzk.kafka.columnar.backing import ColumnarTopics
from simzk.kafka.columnar.layouts import describe_brokers, load_layout

__all__ = ["ColumnarTopics", "describe_brokers", "load_layout"]
