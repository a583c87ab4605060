"""Tables of a Kafka cluster's past, read from ZooKeeper transaction logs and snapshots."""
