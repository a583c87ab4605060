"""The old high-level consumer of Kafka 0.8.0 to 1.1, which stores its group in ZooKeeper."""

from simzk.kafka.zookeeper_mode.consumer.consumer import Consumer
from simzk.kafka.zookeeper_mode.consumer.subscriptions import Subscription, black_list, static, white_list

__all__ = ["Consumer", "Subscription", "black_list", "static", "white_list"]
