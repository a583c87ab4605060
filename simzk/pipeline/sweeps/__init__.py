"""Sweeps: every failure set of a layout and its outcome, computed on Spark."""
