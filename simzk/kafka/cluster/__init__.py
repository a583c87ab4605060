"""The simulated Kafka cluster as users hold it: brokers, ZooKeeper, operator calls and virtual time."""
