"""Risk of a layout and of alternative assignments, computed on Spark."""
