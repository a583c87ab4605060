"""Coordinators of consumer groups: a group's state machine, its records, and the groups of one broker, without I/O."""
