"""The command `simzk report`."""
