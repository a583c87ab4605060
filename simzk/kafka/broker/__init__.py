"""One broker of a simulated cluster (KafkaServer).

`broker` starts and stops it, `request_handlers` dispatches its requests, `cluster_resources` is what brokers share.
Replication: `replica_manager` accepts control requests by epoch, `isr_changes` expands and shrinks ISRs, for replicas
with logs (`replica_logs`, `fetching`, `producing`) and for replicas without records (`empty_replicas`).
Configuration and tokens: `configs`, `delegation_tokens` and their `notifications`; `admin_handlers` changes topics.
"""
