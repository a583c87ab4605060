"""Coordinators of consumer groups and of transactions, without I/O: their states and the records of these."""
