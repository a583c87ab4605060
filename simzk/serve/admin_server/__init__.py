"""The AdminServer: monitoring commands, faults and snapshots over HTTP, and the metrics endpoint."""
