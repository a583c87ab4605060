"""Commands of the AdminServer and their JSON (§5).

Rules of this module:
  - a command is a row of `COMMANDS`: its primary name, its other names, and a function of the report; server.py appends
    `command` and `error`;
  - a command that resets counters does so through the report, which refers to the live ones;
  - host names are not resolved: they are those of the members' lines.

Source: org.apache.zookeeper.server.admin.Commands; QuorumVerifier's and QuorumServer's getters, as Jackson finds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.jvm.hash_codes import long_hash
from simzk.jvm.hash_map import hash_map_order, hash_set_of
from simzk.wire import monitoring

if TYPE_CHECKING:
    from collections.abc import Callable

    from simzk.wire.monitoring import ConnectionReport, Report
    from simzk.zookeeper.ensemble.membership import Endpoint
    from simzk.zookeeper.ensemble.roles import Learner

Answer = dict[str, Any]

_NO_LEADER = "server is not initialized"
_COUNTER_BITS = 32


def leader(report: Report) -> Answer:
    """Answer the command leader."""
    place = report.place
    if place is None or place.leader is None:
        return {"error": _NO_LEADER}
    return {"is_leader": place.leads, "leader_id": place.leader.server_id, "leader_ip": place.leader.peer.host}


def proposals(report: Report) -> Answer:
    """Return the fields that only a leader adds to server_stats and stats."""
    place = report.place
    if place is None or not place.leads:
        return {}
    tally = place.tally
    return {"proposal_stats": _buffer_sizes(tally.last_bytes, tally.least_bytes, tally.greatest_bytes)}


def _buffer_sizes(last: int, least: int, greatest: int) -> Answer:
    return {"last_buffer_size": last, "min_buffer_size": least, "max_buffer_size": greatest}


def observers(report: Report) -> Answer:
    """Answer the command observers: the observers that follow this leader."""
    learners = [] if report.place is None else [learner for learner in report.place.learners if learner.observes]
    return {"synced_observers": len(learners), "observers": [_observer(learner) for learner in learners]}


def _observer(learner: Learner) -> Answer:
    return {
        "remote_socket_address": f"/{learner.line.peer}",
        "sid": learner.line.server_id,
        "established": learner.since_ms,
        "queued_packets": 0,
        "queued_packets_size": 0,
        "packets_received": learner.forwarded,
        "packets_sent": learner.learned,
        "requests": learner.forwarded,
        "last_zxid": learner.zxid,
    }


def voting_view(report: Report) -> Answer:
    """Answer the command voting_view: the members with a vote."""
    place = report.place
    if place is None or place.leader is None:
        return {"current_config": {}}
    return {
        "current_config": {
            str(line.server_id): {
                "server_addresses": [str(line.peer)],
                "election_addresses": [str(line.election)],
                "client_address": "" if line.client is None else str(line.client),
                "learner_type": "participant",
            }
            for line in (place.line if one.server_id == place.line.server_id else one for one in place.membership.lines)
            if not line.observes
        }
    }


def zab_state(report: Report) -> Answer:
    """Answer the command zabstate."""
    place = report.place
    if place is None or place.leader is None:
        return {"voting": False, "zabstate": ""}
    line, zxid = place.line, report.server.zxid
    return {
        "myid": line.server_id,
        "is_leader": place.leads,
        "quorum_address": _addresses(line.peer),
        "election_address": _addresses(line.election),
        "client_address": "" if line.client is None else str(line.client),
        "voting": place.votes,
        "last_zxid": f"0x{zxid:x}",
        "zab_epoch": zxid >> _COUNTER_BITS,
        "zab_counter": zxid & ((1 << _COUNTER_BITS) - 1),
        "zabstate": "broadcast",
    }


def _addresses(endpoint: Endpoint) -> Answer:
    """Return an address in the form of MultipleAddresses with one address."""
    address = str(endpoint)
    return {
        "empty": False,
        "all_addresses": [address],
        "wildcard_addresses": [f"0.0.0.0:{endpoint.port}"],
        "all_ports": [endpoint.port],
        "all_host_strings": [endpoint.host],
        "reachable_address": address,
        "all_reachable_addresses": [address],
        "all_reachable_addresses_or_all": [address],
        "reachable_or_one": address,
        "one": address,
    }


# Names of zoo.cfg and the word conf, with those of the command configuration.
_CONFIGURATION = {
    "clientPort": "client_port",
    "dataDir": "data_dir",
    "dataLogDir": "data_log_dir",
    "tickTime": "tick_time",
    "maxClientCnxns": "max_client_cnxns",
    "minSessionTimeout": "min_session_timeout",
    "maxSessionTimeout": "max_session_timeout",
    "serverId": "server_id",
    "clientPortListenBacklog": "client_port_listen_backlog",
}


def _connection(connection: ConnectionReport, *, brief: bool) -> Answer:
    statistics = connection.statistics
    answer: Answer = {
        "remote_socket_address": connection.address,
        "interest_ops": int(connection.reading),
        "outstanding_requests": connection.queued,
        "packets_received": statistics.packets_received,
        "packets_sent": statistics.packets_sent,
    }
    if brief or not connection.session_id:
        return answer
    latency = statistics.latency
    return {
        **answer,
        "session_id": connection.session_id,
        "last_operation": statistics.last_operation,
        "established": statistics.established_ms,
        "session_timeout": connection.timeout_ms,
        "last_cxid": statistics.last_xid,
        "last_zxid": statistics.last_zxid,
        "last_response_time": statistics.last_response_ms,
        "last_latency": latency.last_ms,
        "min_latency": latency.minimum_ms,
        "avg_latency": int(latency.average_ms),
        "max_latency": latency.maximum_ms,
    }


def _connections(report: Report, *, brief: bool) -> Answer:
    plain, secure = (
        [_connection(connection, brief=brief) for connection in report.connections if connection.is_secure == securely]
        for securely in (False, True)
    )
    return {"connections": plain, "secure_connections": secure}


def _connection_stat_reset(report: Report) -> Answer:
    for connection in report.connections:
        if not connection.is_secure:  # the real server omits secure connections too [V]
            connection.statistics.reset()
    return {}


def _dump(report: Report) -> Answer:
    origin_ms = report.server.config.tick_origin_ms
    return {
        "expiry_time_to_session_ids": {
            str(expiry_ms - origin_ms): hash_map_order(ids, hash_of=long_hash)
            for expiry_ms, ids in monitoring.expiring_sessions(report).items()
        },
        "session_id_to_ephemeral_paths": _sets_by_session(monitoring.ephemeral_paths(report)),
    }


def _sets_by_session(paths: dict[int, list[str]]) -> Answer:
    """Return a HashMap by session id of HashSets made of the paths, in their orders."""
    ids = hash_map_order(paths, hash_of=long_hash)
    return {str(session_id): hash_set_of(paths[session_id], len(paths[session_id])).ordered() for session_id in ids}


def _trace_mask(report: Report) -> Answer:
    return {"tracemask": report.trace_mask}


def _hash(report: Report) -> Answer:
    digests = [{"zxid": zxid, "digest": digest, "digest_version": 2} for zxid, digest in report.digests]
    return {"digests": digests}


def _last_snapshot(report: Report) -> Answer:
    zxid, at_s = report.last_snapshot
    return {"zxid": f"{zxid & 0xFFFFFFFFFFFFFFFF:x}", "timestamp": at_s}


def _nothing(report: Report) -> Answer:
    return {}


def _server_stats(report: Report) -> Answer:
    statistics = report.statistics
    latency = statistics.latency
    sizes = _buffer_sizes(
        statistics.last_response_bytes, statistics.least_response_bytes, statistics.greatest_response_bytes
    )
    return {
        "version": report.server.config.rules.build,
        "read_only": report.server.mode == monitoring.READ_ONLY,
        "server_stats": {
            "packets_sent": statistics.packets_sent,
            "packets_received": statistics.packets_received,
            "fsync_threshold_exceed_count": monitoring.slow_fsyncs(report),
            "client_response_stats": sizes,
            "data_dir_size": report.data_bytes,
            "log_dir_size": report.log_bytes,
            "provider_null": False,
            "last_processed_zxid": report.server.zxid,
            "outstanding_requests": monitoring.outstanding(report),
            "server_state": report.server.mode,
            "avg_latency": monitoring.rounded(latency.average_ms),
            "max_latency": latency.maximum_ms,
            "min_latency": latency.minimum_ms,
            "num_alive_client_connections": len(report.connections),
            "auth_failed_count": 0,
            "non_mtlsremote_conn_count": 0,
            "non_mtlslocal_conn_count": 0,
            "uptime": report.uptime_ms,
        },
        "client_response": sizes,
        **proposals(report),
        "node_count": len(report.server.tree),
    }


def _stat_reset(report: Report) -> Answer:
    monitoring.reset(report)
    return {}


def _watch_summary(report: Report) -> Answer:
    by_path = monitoring.watching_sessions(report)
    return {
        "num_connections": len(monitoring.watched_paths(report)),
        "num_paths": len(by_path),
        "num_total_watches": sum(map(len, by_path.values())),
    }


def _watches_by_path(report: Report) -> Answer:
    watching = monitoring.watching_sessions(report)
    return {"path_to_session_ids": {path: _id_set(watching[path]) for path in hash_map_order(watching)}}


def _id_set(session_ids: list[int]) -> list[int]:
    """Return the ids in the order of a HashSet of Long, made of one whose capacity is their number."""
    count = len(session_ids)
    first = hash_map_order(session_ids, 1 << (count - 1).bit_length(), long_hash)
    return hash_map_order(first, 1 << max(int(count / 0.75), 15).bit_length(), long_hash)


class AdminCommand(NamedTuple):
    """One command: its names, the primary one first, and what returns its fields."""

    names: tuple[str, ...]
    answer: Callable[[Report], Answer]


SNAPSHOT, RESTORE = ("snapshot", "snap"), ("restore", "rest")
SET_TRACE_MASK = ("set_trace_mask", "stmk")
COMMANDS = (
    AdminCommand(
        ("configuration", "conf", "config"),
        lambda report: {name: report.settings[key] for key, name in _CONFIGURATION.items()},
    ),
    AdminCommand(("connection_stat_reset", "crst"), _connection_stat_reset),
    AdminCommand(("connections", "cons"), lambda report: _connections(report, brief=False)),
    AdminCommand(("dirs",), lambda report: {"datadir_size": report.data_bytes, "logdir_size": report.log_bytes}),
    AdminCommand(("dump",), _dump),
    AdminCommand(("environment", "env", "envi"), lambda report: dict(report.environment)),
    AdminCommand(("get_trace_mask", "gtmk"), _trace_mask),
    AdminCommand(("hash",), _hash),
    AdminCommand(
        ("initial_configuration", "icfg"), lambda report: {"initial_configuration": report.initial_configuration}
    ),
    AdminCommand(("is_read_only", "isro"), lambda report: {"read_only": report.server.mode == monitoring.READ_ONLY}),
    AdminCommand(("last_snapshot", "lsnp"), _last_snapshot),
    AdminCommand(("leader", "lead"), leader),
    AdminCommand(("monitor", "mntr"), lambda report: dict(monitoring.provider_values(report))),
    AdminCommand(("observer_connection_stat_reset", "orst"), _nothing),
    AdminCommand(("observers", "obsr"), observers),
    AdminCommand(RESTORE, _nothing),  # server.py adds the last zxid
    AdminCommand(("ruok",), _nothing),
    AdminCommand(("server_stats", "srvr"), _server_stats),
    AdminCommand(SET_TRACE_MASK, _trace_mask),  # server.py sets it before
    AdminCommand(SNAPSHOT, _nothing),  # server.py adds the bytes
    AdminCommand(("stat_reset", "srst"), _stat_reset),
    AdminCommand(("stats", "stat"), lambda report: {**_server_stats(report), **_connections(report, brief=True)}),
    AdminCommand(("system_properties", "sysp"), lambda report: dict(report.properties)),
    AdminCommand(("voting_view",), voting_view),
    AdminCommand(("watch_summary", "wchs"), _watch_summary),
    AdminCommand(
        ("watches", "wchc"),
        lambda report: {"session_id_to_watched_paths": _sets_by_session(monitoring.watched_paths(report))},
    ),
    AdminCommand(("watches_by_path", "wchp"), _watches_by_path),
    AdminCommand(("zabstate",), zab_state),
)
BY_NAME = {name: command for command in COMMANDS for name in command.names}
assert len(BY_NAME) == sum(len(command.names) for command in COMMANDS), "two commands have the same name"
_WITHOUT_LEADER = frozenset({"environment", "get_trace_mask", "set_trace_mask", "system_properties", "zabstate"})
NEEDS_LEADER = {name: command.names[0] for name, command in BY_NAME.items() if command.names[0] not in _WITHOUT_LEADER}
"""Primary names, by all names, of the commands that a server answers only while there is a leader."""
