"""The controller of Kafka 1.1 to 3.9: one queue of events, two state machines, and what it does at each event.

Rules of this room (docs/reference/kafka.md §2):
  - everything is read from ZooKeeper when an event is processed, one event at a time;
  - every write is fenced by the controller's epoch; a write that fails for it ends the controller's rule;
  - who leads, what stays in sync and how replicas move is decided by the batch functions of `simzk.partitions`;
  - the order of writes is that of the Scala collections that Kafka's controller walks (`scala_set`).
"""
