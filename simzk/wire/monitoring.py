"""What both the four-letter words and the AdminServer tell: the numbers under their real names, worked out once (§5).

Rules of this module:
  - keys are the real server's without their prefix; only what this server truly knows is told, so that the counters of
    parts it has not got (learners, proposals, processors' queues) are absent instead of wrong;
  - watches are told of the data table only where the real server does so.

Source: ZooKeeperServer.dumpMonitorValues, DataTree, WatchManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simzk.wire.statistics import Report

READ_ONLY = "read-only"
DEFAULT_TRACE_MASK = 306


def rounded(average: float) -> float:
    """An average as the real server tells it, with four places."""
    return round(average, 4)


def outstanding(report: Report) -> int:
    """Requests read and not yet handled, of all connections."""
    return sum(connection.queued for connection in report.connections)


def watch_count(report: Report) -> int:
    """All watches, of both tables."""
    watches = report.server.watches
    return sum(1 for table in (watches.data, watches.child) for _ in table.entries())


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
    """Time in ms to the ids of the sessions that expire then if nothing is heard of them."""
    sessions = report.server.sessions
    expiring: dict[int, list[int]] = {}
    for session_id in sessions.ids():
        session = sessions.get(session_id)
        assert session is not None
        expiring.setdefault(session.expiry_ms, []).append(session_id)
    return dict(sorted(expiring.items()))


def ephemeral_paths(report: Report) -> dict[int, list[str]]:
    """Session id to its ephemeral znodes."""
    tree = report.server.tree
    return {session_id: tree.ephemerals_of(session_id) for session_id in tree.ephemerals}


def values(report: Report) -> dict[str, str | int | float]:
    """Everything that mntr, the monitor command and the metrics page tell, by key."""
    tree, statistics = report.server.tree, report.statistics
    open_files, max_files = report.open_files
    return {
        "version": report.server.config.rules.build,
        "server_state": report.server.mode,
        "ephemerals_count": sum(map(len, ephemeral_paths(report).values())),
        "num_alive_connections": len(report.connections),
        "avg_latency": rounded(statistics.latency.average_ms),
        "outstanding_requests": outstanding(report),
        "znode_count": len(tree),
        "global_sessions": len(report.server.sessions),
        "packets_sent": statistics.packets_sent,
        "packets_received": statistics.packets_received,
        "connection_drop_probability": 0.0,
        "watch_count": watch_count(report),
        "min_latency": statistics.latency.minimum_ms,
        "max_file_descriptor_count": max_files,
        "approximate_data_size": sum(len(path) + len(node.data or b"") for path, node in tree.walk()),
        "open_file_descriptor_count": open_files,
        "local_sessions": 0,
        "uptime": report.uptime_ms,
        "max_latency": statistics.latency.maximum_ms,
    }


def prometheus(report: Report) -> str:
    """The numbers in the text form that Prometheus reads, named as the real server's metrics provider names them."""
    lines = []
    for key, value in values(report).items():
        if not isinstance(value, str):
            lines += [f"# HELP {key} {key}", f"# TYPE {key} gauge", f"{key} {value}"]
    return "\n".join([*lines, ""])
