"""Controller of Kafka 0.8.0 to 3.9: one queue of events, two state machines, and the parts that process each event.

Rules of this room (docs/reference/kafka.md §2):
  - an event reads what it needs from ZooKeeper when it is processed, and events are processed one at a time;
  - every write is fenced by the controller epoch; a write that fails the check ends this controller's activity;
  - the batch functions of `simzk.partitions` decide leaders, ISRs and reassignments;
  - writes have the order in which Kafka's controller iterates its Scala collections (`context`).
"""
