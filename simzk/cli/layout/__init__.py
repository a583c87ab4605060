"""The command `simzk layout`."""
