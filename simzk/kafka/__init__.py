"""A simulated Kafka cluster in ZooKeeper mode: schemas, controller, brokers, KafkaCluster."""
