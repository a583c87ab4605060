"""Faults on single requests (`request_faults`, `verbs`), and random faults of a run (`plan`)."""
