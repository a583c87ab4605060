"""The command `simzk serve`."""
