"""Observation of a simulated cluster: history events, invariants and comparison with recorded trees."""
