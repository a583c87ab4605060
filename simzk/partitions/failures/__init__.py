"""Failures of brokers and racks over a layout: failure sets and their outcomes."""
