"""Data directories on disk: transaction logs, snapshots and the dynamic configuration of an ensemble."""
