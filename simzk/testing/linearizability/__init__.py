"""A linearizability checker with models for znodes and a recording kazoo client."""
