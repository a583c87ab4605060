"""Metadata of a cluster as its brokers have them, whatever serves them: cache, changes and entities."""
