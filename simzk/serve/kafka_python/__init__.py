"""Unmodified kafka-python clients of a simulated cluster, in memory and in virtual time."""
