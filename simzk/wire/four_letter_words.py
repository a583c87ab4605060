"""The four-letter words: four bytes instead of a session, text in answer, and the connection closes (§5).

Rules of this module:
  - a word is a row of `WORDS`: what it says is a function of the report, in the real server's form;
  - the two words that reset counters do so through the report, whose counters are the live ones;
  - what is not whitelisted is told so; what is no word at all is for the caller to close without an answer.

Source: org.apache.zookeeper.server.command, FourLetterCommands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.wire import ensemble_monitoring, monitoring
from simzk.wire.words import ALL_WORDS, SET_TRACE_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.wire.statistics import ConnectionReport, Report
    from simzk.zookeeper.sessions import Session

NOT_SERVING = "This ZooKeeper instance is not currently serving requests"


def _ruok(report: Report) -> str:
    return "imok"


def _isro(report: Report) -> str:
    return "ro" if report.server.mode == monitoring.READ_ONLY else "rw"


def _gtmk(report: Report) -> str:
    return str(report.trace_mask)


def _server_lines(report: Report) -> str:
    latency, statistics = report.statistics.latency, report.statistics
    return (
        f"Latency min/avg/max: {latency.minimum_ms}/{monitoring.rounded(latency.average_ms)}/{latency.maximum_ms}\n"
        f"Received: {statistics.packets_received}\n"
        f"Sent: {statistics.packets_sent}\n"
        f"Connections: {len(report.connections)}\n"
        f"Outstanding: {monitoring.outstanding(report)}\n"
        f"Zxid: 0x{report.server.zxid:x}\n"
        f"Mode: {report.server.mode}\n"
        f"Node count: {len(report.server.tree)}\n"
        f"{ensemble_monitoring.proposal_sizes(report)}"
    )


def _version_lines(report: Report) -> str:
    version = f"Zookeeper version: {report.server.config.rules.build}\n"
    if report.server.mode == monitoring.READ_ONLY:
        return version + "READ-ONLY mode; serving only read-only clients\n"
    return version


def _srvr(report: Report) -> str:
    return _version_lines(report) + _server_lines(report)


def _listed(report: Report) -> list[ConnectionReport]:
    """The connections of the port by which a word came [V]."""
    return [connection for connection in report.connections if connection.is_secure == report.is_asked_securely]


def _connection(connection: ConnectionReport, details: str) -> str:
    statistics = connection.statistics
    counts = f"queued={connection.queued},recved={statistics.packets_received},sent={statistics.packets_sent}"
    return f" /{connection.address}[{int(connection.reading)}]({counts}{details})\n"


def _details(connection: ConnectionReport) -> str:
    """What cons tells of a connection that has a session."""
    if not connection.session_id:
        return ""
    statistics = connection.statistics
    latency = statistics.latency
    last_xid = f",lcxid=0x{statistics.last_xid:x}" if statistics.last_xid >= 0 else ""
    return (
        f",sid=0x{connection.session_id:x},lop={statistics.last_operation},est={statistics.established_ms}"
        f",to={connection.timeout_ms}{last_xid},lzxid=0x{statistics.last_zxid & 0xFFFFFFFFFFFFFFFF:x}"
        f",lresp={statistics.last_response_ms},llat={latency.last_ms},minlat={latency.minimum_ms}"
        f",avglat={int(latency.average_ms)},maxlat={latency.maximum_ms}"
    )


def _stat(report: Report) -> str:
    clients = "".join(_connection(connection, "") for connection in _listed(report))
    return f"{_version_lines(report)}Clients:\n{clients}\n{_server_lines(report)}"


def _cons(report: Report) -> str:
    return "".join(_connection(connection, _details(connection)) for connection in _listed(report)) + "\n"


def _crst(report: Report) -> str:
    for connection in _listed(report):
        connection.statistics.reset()
    return "Connection stats reset.\n"


def _srst(report: Report) -> str:
    monitoring.reset(report)
    return "Server stats reset.\n"


def _conf(report: Report) -> str:
    lines = "".join(f"{name}={value}\n" for name, value in report.settings.items())
    if report.place is None or report.place.leader is None:
        return lines
    return f"{lines}membership: \n{report.place.membership.text.decode()}"


def _envi(report: Report) -> str:
    return "Environment:\n" + "".join(f"{name}={value}\n" for name, value in report.environment.items())


def _dirs(report: Report) -> str:
    return f"datadir_size: {report.data_bytes}\nlogdir_size: {report.log_bytes}\n"


def _hash(report: Report) -> str:
    return "".join(f"{zxid:x}: {digest}\n" for zxid, digest in report.digests)


def _dump(report: Report) -> str:
    ephemerals = monitoring.ephemeral_paths(report)
    sessions = ensemble_monitoring.session_dump(report, lambda heading, of: _session_sets(report, heading, of))
    lines = ["SessionTracker dump:", *sessions]
    lines += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(ephemerals)}):"]
    for session_id, paths in ephemerals.items():
        lines += [f"0x{session_id:x}:", *(f"\t{path}" for path in paths)]
    return "\n".join([*lines, *_connection_sets(report), ""])


def _session_sets(report: Report, heading: str, sessions: Sequence[Session]) -> list[str]:
    expiring = monitoring.by_expiry(sessions)
    lines = [f"{heading} ({len(expiring)})/({len(sessions)}):"]
    for expiry_ms, session_ids in expiring.items():
        lines.append(f"{len(session_ids)} expire at {report.date_of(expiry_ms)}:")
        lines += [f"\t0x{session_id:x}" for session_id in session_ids]
    return lines


def _connection_sets(report: Report) -> list[str]:
    sets: dict[int, list[ConnectionReport]] = {}
    for connection in report.connections:
        sets.setdefault(connection.expiry_ms, []).append(connection)
    lines = ["Connections dump:", f"Connections Sets ({len(sets)})/({len(report.connections)}):"]
    for expiry_ms, connections in sorted(sets.items()):
        lines.append(f"{len(connections)} expire at {report.date_of(expiry_ms)}:")
        lines += [f"\tip: /{one.address} sessionId: 0x{one.session_id:x}" for one in connections]
    return lines


def _wchs(report: Report) -> str:
    by_session, by_path = monitoring.watched_paths(report), monitoring.watching_sessions(report)
    total = sum(map(len, by_path.values()))
    return f"{len(by_session)} connections watching {len(by_path)} paths\nTotal watches:{total}\n"


def _wchc(report: Report) -> str:
    return _grouped({f"0x{session:x}": paths for session, paths in monitoring.watched_paths(report).items()})


def _wchp(report: Report) -> str:
    watching = monitoring.watching_sessions(report)
    return _grouped({path: [f"0x{session:x}" for session in sessions] for path, sessions in watching.items()})


def _grouped(groups: dict[str, list[str]]) -> str:
    return "".join("".join([f"{head}\n", *(f"\t{line}\n" for line in lines)]) for head, lines in groups.items()) + "\n"


def _mntr(report: Report) -> str:
    # Only who is asked for numbers loads how they are written.
    from simzk.wire.prometheus import java_double, values

    told = ((key, java_double(value) if isinstance(value, float) else value) for key, value in values(report).items())
    return "".join(f"zk_{key}\t{value}\n" for key, value in told)


WORDS: dict[str, Callable[[Report], str]] = {
    "conf": _conf,
    "cons": _cons,
    "crst": _crst,
    "dirs": _dirs,
    "dump": _dump,
    "envi": _envi,
    "gtmk": _gtmk,
    "hash": _hash,
    "isro": _isro,
    "mntr": _mntr,
    "ruok": _ruok,
    "srst": _srst,
    "srvr": _srvr,
    "stat": _stat,
    "wchc": _wchc,
    "wchp": _wchp,
    "wchs": _wchs,
}
assert {*WORDS, SET_TRACE_MASK.decode()} == ALL_WORDS, "each word has its answer; the one that sets is the caller's"
_ALWAYS_SAID = frozenset({"envi", "gtmk", "ruok"})


def answer(word: str, report: Report) -> str:
    """What a word says; a server of an ensemble that looks for a leader does not say much."""
    if report.server.mode or word in _ALWAYS_SAID:
        return WORDS[word](report)
    if word == "isro":
        return "null"
    return NOT_SERVING if word == "hash" else f"{NOT_SERVING}\n"
