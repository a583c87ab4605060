"""Scenario files: what happens to a cluster, and what is expected of it, as TOML that can be played.

`reader` turns a file into steps, and names file, line and key of whatever is wrong with it; `player` plays the steps on
a `KafkaCluster` and judges the expectations; `telling` shows a run to people, and `results` hands it to programs.
"""
