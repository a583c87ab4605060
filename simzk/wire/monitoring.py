"""The real server's metrics by name, in the order in which the word mntr lists them (§5).

Rules of this module:
  - names only; `monitoring.values` knows which of them are counted here. The others count parts that a server of simzk
    has not got (queues between threads, learners, caches, Netty), in which nothing ever happens: they are 0;
  - what the real server counts by the first name of a path (`..._per_namespace`) is not told.

Source: ServerMetrics, DefaultMetricsProvider; recorded from a standalone 3.9.5.

What both the four-letter words and the AdminServer tell: the numbers under their real names, worked out once (§5).

Rules of this module:
  - keys are the real server's without their prefix, in its order (metrics.py); what counts parts that this server has
    not got (queues between threads, learners, caches) is 0, for nothing happens there;
  - watches are told of the data table only where the real server does so.

Source: ZooKeeperServer.dumpMonitorValues, DataTree, WatchManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.jvm.hash_map import hash_map_order
from simzk.wire import ensemble_monitoring
from simzk.zookeeper.replies import EventType
from simzk.zookeeper.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simzk.wire.statistics import Report
    from simzk.zookeeper.sessions import Session

COUNTERS = (
    "watch_bytes",
    "stale_requests_dropped",
    "throttled_ops",
    "insecure_admin_count",
    "connection_rejected",
    "sessionless_connections_expired",
    "dead_watchers_queued",
    "stale_requests",
    "connection_drop_count",
    "response_packet_cache_hits",
    "bytes_received_count",
    "add_dead_watcher_stall_time",
    "request_throttle_wait_count",
    "requests_not_forwarded_to_commit_processor",
    "response_packet_cache_misses",
    "prep_processor_request_queued",
    "stale_replies",
    "response_bytes",
    "ensemble_auth_fail",
    "diff_count",
    "connection_revalidate_count",
    "quit_leading_due_to_disloyal_voter",
    "unrecoverable_error_count",
    "unsuccessful_handshake",
    "commit_count",
    "outstanding_changes_queued",
    "request_commit_queued",
    "ensemble_auth_skip",
    "skip_learner_request_to_next_processor_count",
    "proposal_count",
    "large_requests_rejected",
    "outstanding_changes_removed",
    "restore_error_count",
    "cnxn_closed_without_zk_server_running",
    "looking_count",
    "snapshot_rate_limited_count",
    "learner_proposal_received_count",
    "digest_mismatches_count",
    "dead_watchers_cleared",
    "ensemble_auth_success",
    "learner_commit_received_count",
    "snapshot_error_count",
    "connection_request_count",
    "response_packet_get_children_cache_misses",
    "snap_count",
    "stale_sessions_expired",
    "restore_rate_limited_count",
    "response_packet_get_children_cache_hits",
    "sync_processor_request_queued",
    "tls_handshake_exceeded",
    "revalidate_count",
)
"""Counts of something that happened."""

SUMMARIES = (
    "socket_closing_time",
    "proposal_process_time",
    "leader_unavailable_time",
    "node_created_watch_count",
    "session_queues_drained",
    "write_commit_proc_req_queued",
    "connection_token_deficit",
    "read_commit_proc_req_queued",
    "node_deleted_watch_count",
    "startup_txns_load_time",
    "sync_processor_queue_size",
    "follower_sync_time",
    "prep_processor_queue_size",
    "fsynctime",
    "inflight_snap_count",
    "reads_issued_from_session_queue",
    "restore_time",
    "learner_request_processor_queue_size",
    "snapshottime",
    "unavailable_time",
    "startup_txns_loaded",
    "reads_after_write_in_session_queue",
    "requests_in_session_queue",
    "write_commit_proc_issued",
    "prep_process_time",
    "pending_session_queue_size",
    "time_waiting_empty_pool_in_commit_processor_read_ms",
    "commit_process_time",
    "dbinittime",
    "inflight_diff_count",
    "netty_queued_buffer_capacity",
    "election_time",
    "commit_commit_proc_req_queued",
    "sync_processor_batch_size",
    "node_children_watch_count",
    "write_batch_time_in_commit_processor",
    "read_commit_proc_issued",
    "concurrent_request_processing_in_commit_processor",
    "observer_sync_time",
    "node_changed_watch_count",
    "sync_process_time",
    "startup_snap_load_time",
)
"""Least, mean and greatest of something."""

PERCENTILES = (
    "prep_processor_queue_time_ms",
    "jvm_pause_time_ms",
    "close_session_prep_time",
    "read_commitproc_time_ms",
    "updatelatency",
    "local_write_committed_time_ms",
    "request_throttle_queue_time_ms",
    "readlatency",
    "quorum_ack_latency",
    "om_commit_process_time_ms",
    "read_final_proc_time_ms",
    "commit_propagation_latency",
    "dead_watchers_cleaner_latency",
    "write_final_proc_time_ms",
    "proposal_ack_creation_latency",
    "proposal_latency",
    "om_proposal_process_time_ms",
    "sync_processor_queue_and_flush_time_ms",
    "propagation_latency",
    "server_write_committed_time_ms",
    "sync_processor_queue_time_ms",
    "sync_processor_queue_flush_time_ms",
    "write_commitproc_time_ms",
)
"""The same, with percentiles."""


READ_ONLY = "read-only"
_GAUGE_BUCKETS = 64  # of the map in which the real server keeps its gauges, and in whose order it tells them
_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_TRIGGERED = {
    "node_created_watch_count": EventType.NODE_CREATED,
    "node_deleted_watch_count": EventType.NODE_DELETED,
    "node_changed_watch_count": EventType.NODE_DATA_CHANGED,
    "node_children_watch_count": EventType.NODE_CHILDREN_CHANGED,
}


def rounded(average: float) -> float:
    """An average as the real server tells it, with four places."""
    return round(average, 4)


def outstanding(report: Report) -> int:
    """Requests read and not yet handled, of all connections."""
    return sum(connection.queued for connection in report.connections)


def watch_count(report: Report) -> int:
    """All watches, of both tables."""
    watches = report.server.watches
    return len(watches.data) + len(watches.child)


def watched_paths(report: Report) -> dict[int, list[str]]:
    """Session id to the paths that it watches for data (§5)."""
    paths: dict[int, list[str]] = {}
    for path, watcher, _ in report.server.watches.data.entries():
        paths.setdefault(watcher.session_id, []).append(path or "")
    return paths


def watching_sessions(report: Report) -> dict[str, list[int]]:
    """Path to the ids of the sessions that watch it for data (§5)."""
    sessions: dict[str, list[int]] = {}
    for path, watcher, _ in report.server.watches.data.entries():
        sessions.setdefault(path or "", []).append(watcher.session_id)
    return sessions


def expiring_sessions(report: Report) -> dict[int, list[int]]:
    """Time in ms to the ids of the sessions that expire then if nothing is heard of them; its leader's affair."""
    if ensemble_monitoring.follows(report):
        return {}
    sessions = report.server.sessions
    return by_expiry([session for session in map(sessions.get, sessions.ids()) if session is not None])


def by_expiry(sessions: Iterable[Session]) -> dict[int, list[int]]:
    """Time in ms to the ids of the sessions that expire then, in the order of time."""
    expiring: dict[int, list[int]] = {}
    for session in sessions:
        expiring.setdefault(session.expiry_ms, []).append(session.session_id)
    return dict(sorted(expiring.items()))


def ephemeral_paths(report: Report) -> dict[int, list[str]]:
    """Session id to its ephemeral znodes."""
    tree = report.server.tree
    return {session_id: tree.ephemerals_of(session_id) for session_id in tree.ephemerals}


def counters(report: Report) -> dict[str, int]:
    """All counts of things that happened; 0 where they cannot."""
    statistics = report.statistics
    counted = {
        "bytes_received_count": statistics.bytes_received,
        "connection_drop_count": statistics.dropped,
        "connection_rejected": statistics.rejected,
        "connection_request_count": statistics.connection_requests,
        "connection_revalidate_count": statistics.revalidations,
        "large_requests_rejected": statistics.large_rejected,
        "prep_processor_request_queued": statistics.requests,
        "response_bytes": statistics.response_bytes,
        "restore_error_count": statistics.restore_errors,
        "restore_rate_limited_count": statistics.restores_limited,
        "snapshot_rate_limited_count": statistics.snapshots_limited,
        "sessionless_connections_expired": statistics.expired_silent,
        "stale_sessions_expired": report.server.expired,
        "sync_processor_request_queued": statistics.requests,
        "watch_bytes": statistics.event_bytes,
    }
    if report.place is not None:
        counted |= ensemble_monitoring.counters(report.place)
        if ensemble_monitoring.follows(report):
            counted["prep_processor_request_queued"] = 0  # the leader prepares
    assert counted.keys() <= set(COUNTERS)
    return {name: counted.get(name, 0) for name in COUNTERS}


def summaries(report: Report) -> dict[str, Summary]:
    """All summaries by name; those of what cannot happen are empty."""
    triggered = report.server.watches.triggered
    known = {
        "readlatency": report.statistics.read_latency,
        "updatelatency": report.statistics.update_latency,
        "connection_token_deficit": report.statistics.token_deficit,
        **{name: triggered[kind] for name, kind in _TRIGGERED.items() if kind in triggered},
        **report.disk,
    }
    empty = Summary()
    sizes, times = ({}, {}) if report.place is None else ensemble_monitoring.queue_summaries(report.place)
    plain = {name: known.get(name, empty) for name in SUMMARIES}
    return {**plain, **{name: known.get(name, empty) for name in PERCENTILES}, **sizes, **times}


def has_percentiles(name: str) -> bool:
    return name in PERCENTILES or name.endswith(ensemble_monitoring.QUEUE_TIMES)


def slow_fsyncs(report: Report) -> int:
    """How many fsyncs took longer than the real server warns of (fsync.warningthresholdms)."""
    return report.disk["fsynctime"].above(report.slow_fsync_ms) if report.disk else 0


def reset(report: Report) -> None:
    """What srst and stat_reset ask for: all counts begin anew."""
    report.statistics.reset()
    report.server.expired = 0
    if report.place is not None:
        report.place.tally.reset()
    for summary in summaries(report).values():
        summary.reset()


def values(report: Report) -> dict[str, str | int | float]:
    """Everything that mntr and the monitor command tell, by key."""
    told: dict[str, str | int | float] = {**gauges(report), **counters(report)}
    for name, summary in summaries(report).items():
        told |= {
            f"avg_{name}": rounded(summary.mean),
            f"min_{name}": summary.least,
            f"max_{name}": summary.greatest,
            f"cnt_{name}": summary.count,
            f"sum_{name}": summary.total,
        }
        if has_percentiles(name):
            told |= {f"{label}_{name}": summary.percentile(share) for label, share in _SHARES.items()}
    return told


def gauges(report: Report) -> dict[str, str | int | float]:
    """How things stand at this moment, and what the whole server counts."""
    told: dict[str, str | int | float] = {**texts(report)}
    own, place = _own_gauges(report), report.place
    if place is not None and place.leader is not None:
        told |= ensemble_monitoring.place_values(place)
        own |= ensemble_monitoring.gauges(place, report.now_ms)
    if place is not None:
        own |= {
            "local_sessions": len(place.local),
            "global_sessions": len(report.server.sessions) - len(place.local),
        }
    in_order = hash_map_order(own, _GAUGE_BUCKETS)
    return told | {key: own[key] for key in in_order}


def texts(report: Report) -> dict[str, str]:
    """What is told first, and is no number."""
    return {"version": report.server.config.rules.build, "server_state": report.server.mode}


def _own_gauges(report: Report) -> dict[str, str | int | float]:
    """Those of every server."""
    tree, statistics = report.server.tree, report.statistics
    open_files, max_files = report.open_files
    return {
        "ephemerals_count": sum(map(len, tree.ephemerals.values())),
        "num_alive_connections": len(report.connections),
        "avg_latency": rounded(statistics.latency.average_ms),
        "outstanding_requests": outstanding(report),
        "znode_count": len(tree),
        "global_sessions": len(report.server.sessions),
        "non_mtls_remote_conn_count": 0,
        "last_client_response_size": statistics.last_response_bytes,
        "packets_sent": statistics.packets_sent,
        "packets_received": statistics.packets_received,
        "max_client_response_size": statistics.greatest_response_bytes,
        "connection_drop_probability": report.drop_chance,
        "watch_count": watch_count(report),
        "auth_failed_count": 0,
        "min_latency": statistics.latency.minimum_ms,
        "max_file_descriptor_count": max_files,
        "approximate_data_size": tree.data_size(),
        "open_file_descriptor_count": open_files,
        "local_sessions": 0,
        "uptime": report.uptime_ms,
        "max_latency": statistics.latency.maximum_ms,
        "outstanding_tls_handshake": 0,
        "min_client_response_size": statistics.least_response_bytes,
        "non_mtls_local_conn_count": 0,
    }
