"""Metrics of a server under their real names, for four-letter words, AdminServer commands and Prometheus (§5).

Rules of this module:
  - names and their order are those of a standalone server of the release, without the prefix that mntr adds;
  - a metric of a part that simzk does not have (queues between threads, learners, caches, Netty) is 0 or empty;
  - metrics by the first name of a path (`..._per_namespace`) are omitted;
  - watches are listed from the data table only where the real server does so;
  - Prometheus gets every family of a standalone 3.9.5 with its name, type and labels, also those without samples.

Source: ServerMetrics, DefaultMetricsProvider, ZooKeeperServer.dumpMonitorValues, DataTree, WatchManager; of ensembles:
LeaderZooKeeperServer, FollowerZooKeeperServer, ObserverZooKeeperServer (dumpMonitorValues, registerMetrics),
QuorumPeer, LearnerHandler, LearnerSessionTracker; PrometheusMetricsProvider and its client library's TextFormat.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from simzk.jvm.hash_map import hash_map_order
from simzk.jvm.numbers import double_text
from simzk.wire.statistics import Summary
from simzk.zookeeper.replies import EventType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from simzk.wire.statistics import ConnectionStatistics, ServerStatistics
    from simzk.zookeeper.ensemble.roles import EnsembleRole
    from simzk.zookeeper.releases import Rules
    from simzk.zookeeper.server import Server
    from simzk.zookeeper.sessions import Session


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


COUNTERS = _names(
    """
    proposal_count watch_bytes outstanding_changes_removed throttled_ops stale_requests_dropped
    large_requests_rejected insecure_admin_count connection_rejected cnxn_closed_without_zk_server_running
    sessionless_connections_expired looking_count dead_watchers_queued stale_requests connection_drop_count
    learner_proposal_received_count digest_mismatches_count dead_watchers_cleared response_packet_cache_hits
    bytes_received_count add_dead_watcher_stall_time request_throttle_wait_count
    requests_not_forwarded_to_commit_processor response_packet_cache_misses ensemble_auth_success
    prep_processor_request_queued learner_commit_received_count stale_replies connection_request_count
    response_bytes ensemble_auth_fail diff_count response_packet_get_children_cache_misses
    connection_revalidate_count quit_leading_due_to_disloyal_voter snap_count unrecoverable_error_count
    unsuccessful_handshake commit_count stale_sessions_expired response_packet_get_children_cache_hits
    sync_processor_request_queued outstanding_changes_queued request_commit_queued ensemble_auth_skip
    skip_learner_request_to_next_processor_count tls_handshake_exceeded revalidate_count restore_error_count
    snapshot_rate_limited_count snapshot_error_count restore_rate_limited_count
    """
)
"""Names of counters, in the order of a Java map of 64 buckets up to 3.8."""

SUMMARIES = _names(
    """
    socket_closing_time proposal_process_time leader_unavailable_time node_created_watch_count
    session_queues_drained write_commit_proc_req_queued connection_token_deficit read_commit_proc_req_queued
    node_deleted_watch_count startup_txns_load_time sync_processor_queue_size follower_sync_time
    prep_processor_queue_size fsynctime inflight_snap_count reads_issued_from_session_queue restore_time
    learner_request_processor_queue_size snapshottime unavailable_time startup_txns_loaded
    reads_after_write_in_session_queue requests_in_session_queue write_commit_proc_issued prep_process_time
    pending_session_queue_size time_waiting_empty_pool_in_commit_processor_read_ms commit_process_time dbinittime
    inflight_diff_count netty_queued_buffer_capacity election_time commit_commit_proc_req_queued
    sync_processor_batch_size node_children_watch_count write_batch_time_in_commit_processor read_commit_proc_issued
    concurrent_request_processing_in_commit_processor observer_sync_time node_changed_watch_count sync_process_time
    startup_snap_load_time
    """
)
"""Names of summaries: least, mean and greatest."""

PERCENTILES = _names(
    """
    prep_processor_queue_time_ms jvm_pause_time_ms close_session_prep_time read_commitproc_time_ms updatelatency
    local_write_committed_time_ms request_throttle_queue_time_ms readlatency quorum_ack_latency
    om_commit_process_time_ms read_final_proc_time_ms commit_propagation_latency dead_watchers_cleaner_latency
    write_final_proc_time_ms proposal_ack_creation_latency proposal_latency om_proposal_process_time_ms
    sync_processor_queue_and_flush_time_ms propagation_latency server_write_committed_time_ms
    sync_processor_queue_time_ms sync_processor_queue_flush_time_ms write_commitproc_time_ms
    """
)
"""Names of summaries that have percentiles too."""

_SINCE: dict[tuple[int, int, int], frozenset[str]] = {
    release: frozenset(_names(text))
    for release, text in (
        ((3, 6, 2), "inflight_snap_count inflight_diff_count jvm_pause_time_ms"),
        ((3, 6, 3), "non_mtls_remote_conn_count auth_failed_count non_mtls_local_conn_count"),
        (
            (3, 7, 0),
            """
            watch_bytes throttled_ops insecure_admin_count requests_not_forwarded_to_commit_processor response_bytes
            unsuccessful_handshake skip_learner_request_to_next_processor_count cnxn_closed_without_zk_server_running
            socket_closing_time proposal_process_time leader_unavailable_time learner_request_processor_queue_size
            unavailable_time request_throttle_queue_time_ms
            """,
        ),
        ((3, 7, 1), "observer_sync_time"),
        (
            (3, 9, 0),
            """
            restore_error_count snapshot_rate_limited_count snapshot_error_count restore_rate_limited_count restore_time
            """,
        ),
    )
}
"""Metrics that came with a release after 3.6.0."""

_TURNED = frozenset({"large_requests_rejected", "stale_requests_dropped"})
"""Counters that come first in their bucket once the map has grown to 128 buckets (ConcurrentHashMap.transfer)."""

_SLOW = "fsync_threshold_exceed_count"
_BEFORE_3_6: dict[str, tuple[int, int, int]] = {
    **dict.fromkeys(_names("version avg_latency max_latency min_latency packets_received packets_sent"), (3, 4, 0)),
    "num_alive_connections": (3, 4, 4),
    **dict.fromkeys(
        _names(
            """
            outstanding_requests server_state znode_count watch_count ephemerals_count approximate_data_size
            open_file_descriptor_count max_file_descriptor_count
            """
        ),
        (3, 4, 0),
    ),
    _SLOW: (3, 4, 13),
}
"""Keys of mntr before 3.6 with their first release; 3.5 does not have the last."""

_LOAD = 48
"""Entries of a map of 64 buckets before it grows."""

Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    labels: Labels
    value: float


class Family(NamedTuple):
    """Samples of one metric; an empty `help` stands for its name."""

    name: str
    kind: str
    samples: list[Sample]
    help: str = ""


class ConnectionReport(NamedTuple):
    """State of one open connection.

    Attributes:
        address: address of the client, as "127.0.0.1:35104".
        is_secure: whether its port is secured by TLS.
        reading: whether the server reads from it now.
        queued: number of requests read and not yet processed.
        statistics: its counters.
        session_id: 0 before it has a session.
        timeout_ms: negotiated session timeout.
        expiry_ms: time at which it is dropped if it stays silent.
    """

    address: str
    is_secure: bool
    reading: bool
    queued: int
    statistics: ConnectionStatistics
    session_id: int
    timeout_ms: int
    expiry_ms: int


class Report(NamedTuple):
    """State of a server, from which four-letter words and AdminServer commands are answered.

    Attributes:
        server: the state machine.
        statistics: its counters.
        connections: open connections, oldest first.
        settings: settings by their name in zoo.cfg, in the order of the word conf.
        environment: value by name, in the order of the word envi.
        properties: the real server's system properties, sorted by name.
        data_bytes: size of the data directory: snapshots, and logs if they are there.
        log_bytes: size of the log directory, by default the same one.
        digests: pairs of zxid and digest of the tree (§2.7); empty unless the server writes a log.
        last_snapshot: zxid of the newest snapshot and its time in seconds; -1 if there is none.
        initial_configuration: text of the configuration file, or None.
        trace_mask: mask of traces. There are no traces, but the mask is stored.
        set_trace_mask: function that stores another mask.
        now_ms: the present time.
        uptime_ms: time since the server began to serve.
        date_of: function that formats a time as Java's `Date` does.
        slow_fsync_ms: duration from which an fsync counts as slow.
        disk: summaries of the data directory, by the real server's names; empty without one.
        open_files: number of open file descriptors and its limit; -1 on platforms that do not count them.
        provider: metrics provider (metricsProvider.className); "null" counts nothing.
        process: metrics of the process, for "prometheus" only.
        drop_chance: probability that the connection throttle drops a connection.
        place: role of a server in its ensemble; None for a standalone server.
        is_asked_securely: whether the word arrived at a port secured by TLS; words list the connections of that port.
    """

    server: Server
    statistics: ServerStatistics
    connections: Sequence[ConnectionReport]
    settings: Mapping[str, str | int]
    environment: Mapping[str, str]
    properties: Mapping[str, str]
    data_bytes: int
    log_bytes: int
    digests: Sequence[tuple[int, int]]
    last_snapshot: tuple[int, int]
    initial_configuration: str | None
    trace_mask: int
    set_trace_mask: Callable[[int], None]
    now_ms: int
    uptime_ms: int
    date_of: Callable[[int], str]
    disk: Mapping[str, Summary]
    open_files: tuple[int, int]
    drop_chance: float = 0.0
    place: EnsembleRole | None = None
    is_asked_securely: bool = False
    slow_fsync_ms: int = 1000
    provider: Literal["default", "prometheus", "null"] = "default"
    process: Sequence[Family] = ()


READ_ONLY = "read-only"
_GAUGE_BUCKETS, _FEW_GAUGE_BUCKETS = 64, 32
"""Capacity of the HashMap of gauges, before 3.6.3 of a smaller one; the real server lists them in its order."""
_QUEUE_SIZES, _QUEUE_TIMES = "learner_handler_qp_size", "learner_handler_qp_time_ms"
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_TRIGGERED = {
    "node_created_watch_count": EventType.NODE_CREATED,
    "node_deleted_watch_count": EventType.NODE_DELETED,
    "node_changed_watch_count": EventType.NODE_DATA_CHANGED,
    "node_children_watch_count": EventType.NODE_CHILDREN_CHANGED,
}


def rounded(average: float) -> float:
    """Return an average with the four decimals of the real server."""
    return round(average, 4)


def average_latency(report: Report) -> float:
    """Return the average latency in ms, before 3.6 a whole number."""
    average_ms = report.statistics.latency.average_ms
    return rounded(average_ms) if report.server.config.rules.release >= (3, 6, 0) else int(average_ms)


def outstanding(report: Report) -> int:
    """Return the number of requests read and not yet processed."""
    return sum(connection.queued for connection in report.connections)


def watch_count(report: Report) -> int:
    """Return the number of data and child watches."""
    watches = report.server.watches
    return len(watches.data) + len(watches.child)


def watched_paths(report: Report) -> dict[int, list[str]]:
    """Return the paths with data watches by session id; the real server omits child watches (§5).

    A session whose last watch has had its event has none left. Sessions are in the order of their first watches; the
    real server's is that of identity hashes.
    """
    watchers = report.server.watches.data.watchers()
    return {watcher.session_id: [_shown(path) for path in paths] for watcher, paths in watchers}


def watching_sessions(report: Report) -> dict[str, list[int]]:
    """Return the ids of the sessions with data watches by path (§5); as above, for the order of sessions."""
    table = report.server.watches.data
    return {_shown(path): [watcher.session_id for watcher in table.by_path[path]] for path in table.ordered_paths()}


def _shown(path: str | None) -> str:
    return "null" if path is None else path


def tracks_expiry(report: Report) -> bool:
    """Return whether this server decides when sessions expire: a standalone server or a leader."""
    return report.place is None or report.place.leads


def expiring_sessions(report: Report) -> dict[int, list[int]]:
    """Return the ids of sessions by the time in ms at which they expire; empty on a follower."""
    if not tracks_expiry(report):
        return {}
    sessions = report.server.sessions
    return by_expiry(sessions, sessions.emptied(report.now_ms))


def by_expiry(sessions: Iterable[Session], emptied: Iterable[int] = ()) -> dict[int, list[int]]:
    """Return the ids of sessions by the time in ms at which they expire, in ascending order.

    Times in `emptied`, at which no session expires any more, have none.
    """
    expiring: dict[int, list[int]] = {expiry_ms: [] for expiry_ms in emptied}
    for session in sessions:
        expiring.setdefault(session.expiry_ms, []).append(session.session_id)
    return dict(sorted(expiring.items()))


def ephemeral_paths(report: Report) -> dict[int, list[str]]:
    """Return the paths of ephemeral znodes by session id, both in the real server's order.

    A session is listed from its first ephemeral to its end.
    """
    tree = report.server.tree
    assert set(tree.owners) == tree.ephemerals.keys(), "owners and their ephemerals are noted together"
    return {session_id: tree.ephemerals_of(session_id, copied=False) for session_id in tree.owners}


def _later_than(release: tuple[int, int, int]) -> frozenset[str]:
    """Return the metrics that a release since 3.6.0 does not have."""
    return frozenset[str]().union(*(names for since, names in _SINCE.items() if release < since))


@cache
def known_metrics(rules: Rules) -> tuple[list[str], list[str]]:
    """Return the names of the counters and of the summaries that a release has, in its order."""
    later = _later_than(rules.release)
    counted = [name for name in COUNTERS if name not in later]
    if len(counted) > _LOAD:
        counted.sort(key=lambda name: name not in _TURNED)
    return hash_map_order(counted), [name for name in (*SUMMARIES, *PERCENTILES) if name not in later]


def counters(report: Report) -> dict[str, int]:
    """Return all counters; 0 for parts that simzk does not have."""
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
        counted |= _place_counters(report.place)
        if not report.place.leads:
            counted["prep_processor_request_queued"] = 0  # the leader prepares requests
    assert counted.keys() <= set(COUNTERS)
    names, _ = known_metrics(report.server.config.rules)
    return {name: counted.get(name, 0) for name in names}


def summaries(report: Report) -> dict[str, Summary]:
    """Return all summaries by name; empty for parts that simzk does not have."""
    triggered = report.server.watches.triggered
    known = {
        "readlatency": report.statistics.read_latency,
        "updatelatency": report.statistics.update_latency,
        "connection_token_deficit": report.statistics.token_deficit,
        **{name: Summary(triggered[kind]) for name, kind in _TRIGGERED.items() if kind in triggered},
        **report.disk,
    }
    empty = Summary()
    # Each learner of a leader has a queue, in which nothing ever waits here.
    learners = () if report.place is None else [learner.line.server_id for learner in report.place.learners]
    sizes, times = ({f"{learner}_{queue}": empty for learner in learners} for queue in (_QUEUE_SIZES, _QUEUE_TIMES))
    assert known.keys() <= {*SUMMARIES, *PERCENTILES}, "each summary has a place in the list of the real server"
    _, names = known_metrics(report.server.config.rules)
    return {name: known.get(name, empty) for name in names} | sizes | times


def has_percentiles(name: str) -> bool:
    """Return whether a summary has percentiles."""
    return name in PERCENTILES or name.endswith(_QUEUE_TIMES)


def slow_fsyncs(report: Report) -> int:
    """Return the number of fsyncs slower than fsync.warningthresholdms."""
    return report.disk["fsynctime"].above(report.slow_fsync_ms) if report.disk else 0


def reset(report: Report) -> None:
    """Reset all counters and summaries, as srst and stat_reset do."""
    report.statistics.reset()
    report.server.expired = 0
    if report.place is not None:
        report.place.tally.reset()
    for summary in summaries(report).values():
        summary.reset()
    assert not report.statistics.requests, "the summaries are those of the counters"


def values(report: Report) -> dict[str, str | int | float]:
    """Return all metrics of the default provider by key, as mntr and the monitor command list them."""
    values: dict[str, str | int | float] = {**gauges(report), **counters(report)}
    for name, summary in summaries(report).items():
        values |= {
            f"avg_{name}": rounded(summary.mean),
            f"min_{name}": summary.least,
            f"max_{name}": summary.greatest,
            f"cnt_{name}": summary.count,
            f"sum_{name}": summary.total,
        }
        if has_percentiles(name):
            values |= {f"{label}_{name}": summary.percentile(share) for label, share in _PERCENTILES.items()}
    return values


def gauges(report: Report) -> dict[str, str | int | float]:
    """Return the gauges of a server by name, texts first."""
    values: dict[str, str | int | float] = {**text_values(report)}
    own, place = _own_gauges(report), report.place
    if place is not None and place.leader is not None:
        values["peer_state"] = place.peer_state
        if place.observes:
            values["observer_master_id"] = place.leader.server_id
        own |= _place_gauges(place, report.now_ms)
    if place is not None:
        assert len(place.local) <= len(report.server.sessions), "a local session is one of the server's"
        own |= {"local_sessions": len(place.local), "global_sessions": len(report.server.sessions) - len(place.local)}
    assert values.keys().isdisjoint(own), "each gauge has one place"
    release = report.server.config.rules.release
    keys = [key for key in own if key not in _later_than(release)]
    buckets = _GAUGE_BUCKETS
    if release < (3, 6, 3):  # fewer gauges, and the average is registered before the other one of its bucket
        buckets = _FEW_GAUGE_BUCKETS
        keys.sort(key=lambda key: key != "avg_latency")
    return values | {key: own[key] for key in hash_map_order(keys, buckets)}


def _values_before_3_6(report: Report) -> dict[str, str | int | float]:
    """Return what mntr lists before there are providers of metrics (MonitorCommand of 3.4 and 3.5)."""
    rules = report.server.config.rules
    own, release = {**text_values(report), **_own_gauges(report)}, rules.release
    own["fsync_threshold_exceed_count"] = slow_fsyncs(report)
    later = {name for name, since in _BEFORE_3_6.items() if release < since or (name == _SLOW and release >= (3, 5, 0))}
    values: dict[str, str | int | float] = {name: own[name] for name in _BEFORE_3_6 if name not in later}
    place = report.place
    if place is not None and place.leads:
        synced = sum(not learner.observes for learner in place.learners)
        values |= {"followers": len(place.learners), "synced_followers": synced, "pending_syncs": 0}
        if rules.sizes_proposals:
            tally = place.tally
            values["last_proposal_size"] = tally.last_bytes
            values["max_proposal_size"], values["min_proposal_size"] = tally.greatest_bytes, tally.least_bytes
    return values


def text_values(report: Report) -> dict[str, str]:
    """Return the gauges that are texts."""
    return {"version": report.server.config.rules.build, "server_state": report.server.mode}


def _own_gauges(report: Report) -> dict[str, str | int | float]:
    """Return the gauges that every server has."""
    tree, statistics = report.server.tree, report.statistics
    rules = report.server.config.rules
    open_files, max_files = report.open_files
    return {
        "ephemerals_count": sum(map(len, tree.ephemerals.values())),
        "num_alive_connections": len(report.connections),
        "avg_latency": average_latency(report),
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
        "approximate_data_size": tree.reported_data_size() if rules.counts_data else tree.data_size(),
        "open_file_descriptor_count": open_files,
        "local_sessions": 0,
        "uptime": report.uptime_ms,
        "max_latency": statistics.latency.maximum_ms,
        "outstanding_tls_handshake": 0,
        "min_client_response_size": statistics.least_response_bytes,
        "non_mtls_local_conn_count": 0,
    }


def _place_gauges(place: EnsembleRole, now_ms: int) -> dict[str, str | int | float]:
    """Return the gauges of a server of an ensemble."""
    assert place.leader is not None, "without a leader there is no quorum"
    values: dict[str, str | int | float] = {"quorum_size": len(place.membership.voters)}
    if not place.leads:
        return values
    observers = sum(learner.observes for learner in place.learners)
    assert not any(learner.votes and learner.observes for learner in place.learners), "an observer has no vote"
    return {
        **values,
        "last_proposal_size": place.tally.last_bytes,
        "min_proposal_size": place.tally.least_bytes,
        "max_proposal_size": place.tally.greatest_bytes,
        "learners": len(place.learners),
        "synced_followers": len(place.learners) - observers,
        "synced_non_voting_followers": sum(not learner.votes and not learner.observes for learner in place.learners),
        "synced_observers": observers,
        "pending_syncs": 0,
        "leader_uptime": now_ms - place.since_ms,
    }


def _place_counters(place: EnsembleRole) -> dict[str, int]:
    """Return the counters of a server of an ensemble; an observer receives commits without proposals."""
    tally = place.tally
    assert not (place.leads and place.observes), "a leader has a vote"
    return {
        "commit_count": tally.proposed,
        "learner_commit_received_count": tally.learned,
        "learner_proposal_received_count": 0 if place.observes else tally.learned,
        "looking_count": tally.looked,
        "proposal_count": tally.proposed,
        "sync_processor_request_queued": tally.proposed + tally.learned,
    }


_MEDIAN, _QUANTILES = (0.5,), (0.5, 0.9, 0.99)
_UNUSED = {
    "ack_latency": "summary",
    "learner_handler_qp_size": "summary",
    "learner_handler_qp_time_ms": "summary",
    "quota_bytes_limit_per_namespace": "gauge",
    "quota_bytes_usage_per_namespace": "gauge",
    "quota_count_limit_per_namespace": "gauge",
    "quota_count_usage_per_namespace": "gauge",
    "quota_exceeded_error_per_namespace": "counter",
    "read_per_namespace": "summary",
    "write_per_namespace": "summary",
}
"""Families by namespace or by learner, which have no samples here."""


def text_of(families: Iterable[Family], names: frozenset[str] | None = None) -> str:
    """Return families as text; with `names`, only samples of these names and the families that have any."""
    lines: list[str] = []
    for name, kind, samples, about in families:
        selected = samples if names is None else [sample for sample in samples if sample.name in names]
        if names is None or selected:
            lines += [f"# HELP {name} {about or name}", f"# TYPE {name} {kind}"]
            lines += [f"{sample.name}{_labels(sample.labels)} {double_text(sample.value)}" for sample in selected]
    return "\n".join([*lines, ""])


def families_of(report: Report) -> Iterator[Family]:
    """Return the metric families of a server."""
    for kind, metrics in (("gauge", gauges(report)), ("counter", counters(report))):
        for name, value in metrics.items():
            if not isinstance(value, str):
                yield Family(name, kind, [Sample(name, (), value)])
    keyed: dict[str, list[Sample]] = {name: [] for name in _UNUSED}
    for name, summary in summaries(report).items():
        key, _, family = name.partition("_")
        quantiles = _QUANTILES if has_percentiles(name) else _MEDIAN
        if family in (_QUEUE_SIZES, _QUEUE_TIMES):
            keyed[family] += _summary(family, (("key", key),), summary, quantiles)
        else:
            yield Family(name, "summary", _summary(name, (), summary, quantiles))
    assert keyed.keys() == _UNUSED.keys(), "each family by key is listed"
    for name, kind in _UNUSED.items():
        yield Family(name, kind, keyed[name])


def provider_values(report: Report) -> dict[str, str | int | float]:
    """Return the metrics by key for mntr and the command monitor, in the form of the metrics provider."""
    if report.server.config.rules.release < (3, 6, 0):
        return _values_before_3_6(report)
    if report.provider == "default":
        return values(report)
    metrics: dict[str, str | int | float] = dict(text_values(report))
    if report.provider == "prometheus":
        for family in (*families_of(report), *report.process):
            for sample in family.samples:
                metrics[sample.name + _labels(sample.labels).replace(",}", "}")] = float(sample.value)
    return metrics


def _summary(name: str, labels: Labels, summary: Summary, quantiles: Iterable[float]) -> list[Sample]:
    samples: list[Sample] = []
    for quantile in quantiles:
        value = float(summary.percentile(quantile)) if summary.count else float("nan")
        samples.append(Sample(name, (*labels, ("quantile", str(quantile))), value))
    count, total = Sample(f"{name}_count", labels, summary.count), Sample(f"{name}_sum", labels, summary.total)
    return [*samples, count, total]


def _labels(labels: Labels) -> str:
    """Return the labels of a sample; the client library writes a comma after the last one."""
    if not labels:
        return ""
    escaped = ((name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for name, value in labels)
    return "{" + "".join(f'{name}="{value}",' for name, value in escaped) + "}"
