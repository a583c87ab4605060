"""`/brokers/topics` of a large cluster in columns, for a `DataTree` to answer from (`simzk.zookeeper.backing`)."""

from simzk.kafka.columnar.backing import ColumnarTopics

__all__ = ["ColumnarTopics"]
