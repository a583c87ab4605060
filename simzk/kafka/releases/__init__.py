"""Differences between Kafka releases, and the releases and settings of a cluster's brokers."""
