"""Kafka's operator tools, as they work against ZooKeeper and brokers."""
