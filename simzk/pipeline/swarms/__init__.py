"""Runs of scenarios under many seeds, as Spark tables."""
