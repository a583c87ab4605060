"""Kafka with ZooKeeper, 0.8 to 3.9: sessions, znodes, the controller, the old consumer, tools and replays."""
