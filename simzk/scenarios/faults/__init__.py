"""Faults of a run: their kinds, plans that are drawn from a seed, plan files."""
