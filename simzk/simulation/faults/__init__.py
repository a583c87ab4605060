"""Faults: the plan drawn from a seed, the table of rules, the point where they apply, and the verbs."""
