"""Four-letter words: a client sends four bytes instead of a connect request, is answered by text, and is closed (§5).

Rules of this module:
  - a word is one row of `WORDS`: its name, the function that answers it, and how it differs from most words. To add a
    word, write its function and its row; the whitelist, the ports and zoo.cfg read the table;
  - an answer is a function of the report, in the real server's form;
  - crst, srst and stmk change the live counters and the trace mask through the report;
  - the caller closes a connection without an answer if its first four bytes are no word.

Source: org.apache.zookeeper.server.command, FourLetterCommands; docs/reference/zookeeper.md §5.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from simzk.wire import monitoring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from simzk.wire.monitoring import ConnectionReport, Report
    from simzk.zookeeper.sessions import Session

WORD_BYTES: Final = 4
DEFAULT_TRACE_MASK: Final = 306
NOT_SERVING: Final = "This ZooKeeper instance is not currently serving requests"


class FourLetterWord(NamedTuple):
    """One word.

    Attributes:
        name: its four letters.
        answer: function that returns the text for a report.
        since: first release that has it.
        not_serving: answer of a server of an ensemble that has no leader; None for a word that answers all the same.
        argument_bytes: number of bytes that follow the word.
    """

    name: str
    answer: Callable[[Report, bytes], str]
    since: tuple[int, int, int] = (3, 4, 0)
    not_serving: str | None = f"{NOT_SERVING}\n"
    argument_bytes: int = 0


def is_word(first_bytes: bytes, release: tuple[int, int, int]) -> bool:
    """Return whether a connection that begins with these four bytes asks for a word instead of a session.

    Args:
        first_bytes: the four bytes.
        release: version number of the server.

    >>> is_word(b"ruok", (3, 4, 0)), is_word(b"RUOK", (3, 4, 0)), is_word(b"\\0\\0\\0\\x2d", (3, 4, 0))
    (True, False, False)
    """
    assert len(first_bytes) == WORD_BYTES
    word = WORDS.get(first_bytes.decode("ascii")) if first_bytes.isalpha() else None
    return word is not None and word.since <= release


def answer(word: str, report: Report, argument: bytes = b"") -> str:
    """Return the answer to a word.

    Args:
        word: name of a row of `WORDS`.
        report: state of the server.
        argument: bytes after the word, as many as its row says.
    """
    row = WORDS[word]
    assert len(argument) == row.argument_bytes, f"{word} has an argument of {row.argument_bytes} bytes"
    if row.not_serving is not None and not report.server.mode:
        return row.not_serving
    return row.answer(report, argument)


def _is_read_only(report: Report) -> bool:
    return report.server.mode == monitoring.READ_ONLY


def _stmk(report: Report, argument: bytes) -> str:
    (mask,) = struct.unpack(">q", argument)
    report.set_trace_mask(mask)
    return str(mask)


def _server_lines(report: Report) -> str:
    latency, statistics = report.statistics.latency, report.statistics
    rules = report.server.config.rules
    counts_connections = rules.release >= (3, 4, 4)
    connections = f"Connections: {len(report.connections)}\n" if counts_connections else ""
    sizes = ""
    if report.place is not None and report.place.leads and rules.sizes_proposals:
        tally = report.place.tally
        sizes = f"Proposal sizes last/min/max: {tally.last_bytes}/{tally.least_bytes}/{tally.greatest_bytes}\n"
    return (
        f"Latency min/avg/max: {latency.minimum_ms}/{monitoring.average_latency(report)}/{latency.maximum_ms}\n"
        f"Received: {statistics.packets_received}\n"
        f"Sent: {statistics.packets_sent}\n"
        f"{connections}"
        f"Outstanding: {monitoring.outstanding(report)}\n"
        f"Zxid: 0x{report.server.zxid:x}\n"
        f"Mode: {report.server.mode}\n"
        f"Node count: {len(report.server.tree)}\n"
        f"{sizes}"
    )


def _version_lines(report: Report) -> str:
    mode = "READ-ONLY mode; serving only read-only clients\n" if _is_read_only(report) else ""
    return f"Zookeeper version: {report.server.config.rules.build}\n{mode}"


def _connections_of_port(report: Report) -> list[ConnectionReport]:
    """Return the connections of the port that the word arrived at, plain or secured [V]."""
    return [connection for connection in report.connections if connection.is_secure == report.is_asked_securely]


def _connection_line(connection: ConnectionReport, details: str) -> str:
    statistics = connection.statistics
    counts = f"queued={connection.queued},recved={statistics.packets_received},sent={statistics.packets_sent}"
    return f" /{connection.address}[{int(connection.reading)}]({counts}{details})\n"


def _details(connection: ConnectionReport) -> str:
    """Return the fields that cons lists of a connection with a session."""
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


def _stat(report: Report, _: bytes) -> str:
    clients = "".join(_connection_line(connection, "") for connection in _connections_of_port(report))
    return f"{_version_lines(report)}Clients:\n{clients}\n{_server_lines(report)}"


def _cons(report: Report, _: bytes) -> str:
    clients = (_connection_line(connection, _details(connection)) for connection in _connections_of_port(report))
    return "".join(clients) + "\n"


def _crst(report: Report, _: bytes) -> str:
    for connection in _connections_of_port(report):
        connection.statistics.reset()
    return "Connection stats reset.\n"


def _srst(report: Report, _: bytes) -> str:
    monitoring.reset(report)
    return "Server stats reset.\n"


def _conf(report: Report, _: bytes) -> str:
    lines = "".join(f"{name}={value}\n" for name, value in report.settings.items())
    if report.place is None or report.place.leader is None:
        return lines
    return f"{lines}membership: \n{report.place.membership.text.decode()}"


def _envi(report: Report, _: bytes) -> str:
    return "Environment:\n" + "".join(f"{name}={value}\n" for name, value in report.environment.items())


def _dirs(report: Report, _: bytes) -> str:
    return f"datadir_size: {report.data_bytes}\nlogdir_size: {report.log_bytes}\n"


def _hash(report: Report, _: bytes) -> str:
    return "".join(f"{zxid:x}: {digest}\n" for zxid, digest in report.digests)


def _dump(report: Report, _: bytes) -> str:
    ephemerals = monitoring.ephemeral_paths(report)
    sessions = _session_lines(report)
    lines = ["SessionTracker dump:", *sessions]
    lines += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(ephemerals)}):"]
    for session_id, paths in ephemerals.items():
        lines += [f"0x{session_id:x}:", *(f"\t{path}" for path in paths)]
    return "\n".join([*lines, *_connection_sets(report), ""])


def _session_lines(report: Report) -> list[str]:
    place, sessions = report.place, report.server.sessions
    local = _session_sets(report, "Local Session Sets", place.local) if place is not None and place.has_local else []
    if not monitoring.tracks_expiry(report):
        return [*local, *_global_sessions(report)]
    if place is None or not place.has_local:
        return _session_sets(report, "Session Sets", list(sessions), sessions.emptied(report.now_ms))
    others = [session for session in sessions if session not in place.local]
    return [*local, *_session_sets(report, "Global Session Sets", others)]


def _global_sessions(report: Report) -> list[str]:
    """Return the lines of a follower, which does not track expiry: each session and its timeout."""
    timeouts = dict(report.server.sessions.timeouts_ms())
    return [
        f"Global Sessions({len(timeouts)}):",
        *(f"0x{session_id:x}\t{timeouts[session_id]}ms" for session_id in sorted(timeouts)),
    ]


def _session_sets(report: Report, heading: str, sessions: Sequence[Session], emptied: Iterable[int] = ()) -> list[str]:
    expiring = monitoring.by_expiry(sessions, emptied)
    assert sum(map(len, expiring.values())) == len(sessions), "each session expires once"
    lines = [f"{heading} ({len(expiring)})/({len(sessions)}):"]
    for expiry_ms, session_ids in expiring.items():
        lines.append(f"{len(session_ids)} expire at {report.date_of(expiry_ms)}:")
        lines += [f"\t0x{session_id:x}" for session_id in session_ids]
    return lines


def _connection_sets(report: Report) -> list[str]:
    sets: dict[int, list[ConnectionReport]] = {}
    for connection in report.connections:
        sets.setdefault(connection.expiry_ms, []).append(connection)
    assert sum(map(len, sets.values())) == len(report.connections), "each connection expires once"
    lines = ["Connections dump:", f"Connections Sets ({len(sets)})/({len(report.connections)}):"]
    for expiry_ms, connections in sorted(sets.items()):
        lines.append(f"{len(connections)} expire at {report.date_of(expiry_ms)}:")
        lines += [f"\tip: /{one.address} sessionId: 0x{one.session_id:x}" for one in connections]
    return lines


def _wchs(report: Report, _: bytes) -> str:
    by_session, by_path = monitoring.watched_paths(report), monitoring.watching_sessions(report)
    total = sum(map(len, by_path.values()))
    assert total == sum(map(len, by_session.values())), "each watch is listed by its path and by its session"
    return f"{len(by_session)} connections watching {len(by_path)} paths\nTotal watches:{total}\n"


def _wchc(report: Report, _: bytes) -> str:
    return _grouped({f"0x{session:x}": paths for session, paths in monitoring.watched_paths(report).items()})


def _wchp(report: Report, _: bytes) -> str:
    watching = monitoring.watching_sessions(report)
    return _grouped({path: [f"0x{session:x}" for session in sessions] for path, sessions in watching.items()})


def _grouped(groups: dict[str, list[str]]) -> str:
    return "".join("".join([f"{head}\n", *(f"\t{line}\n" for line in lines)]) for head, lines in groups.items()) + "\n"


def _mntr(report: Report, _: bytes) -> str:
    # Imported here: most servers are never asked for numbers.
    from simzk.jvm.numbers import double_text
    from simzk.wire.monitoring import provider_values as values

    texts = ((key, double_text(value) if isinstance(value, float) else value) for key, value in values(report).items())
    return "".join(f"zk_{key}\t{text}\n" for key, text in texts)


WORDS: Final = {
    word.name: word
    for word in (
        FourLetterWord("conf", _conf),
        FourLetterWord("cons", _cons),
        FourLetterWord("crst", _crst),
        FourLetterWord("dirs", _dirs, since=(3, 5, 1)),
        FourLetterWord("dump", _dump),
        FourLetterWord("envi", _envi, not_serving=None),
        FourLetterWord("gtmk", lambda report, _: str(report.trace_mask), not_serving=None),
        FourLetterWord("hash", _hash, since=(3, 6, 0), not_serving=NOT_SERVING),
        FourLetterWord("isro", lambda report, _: "ro" if _is_read_only(report) else "rw", not_serving="null"),
        FourLetterWord("mntr", _mntr),
        FourLetterWord("ruok", lambda report, _: "imok", not_serving=None),
        FourLetterWord("srst", _srst),
        FourLetterWord("srvr", lambda report, _: _version_lines(report) + _server_lines(report)),
        FourLetterWord("stat", _stat),
        FourLetterWord("stmk", _stmk, not_serving=None, argument_bytes=8),
        FourLetterWord("wchc", _wchc),
        FourLetterWord("wchp", _wchp),
        FourLetterWord("wchs", _wchs),
    )
}
ALL_WORDS: Final = frozenset(WORDS)
_COSTLY: Final = frozenset({"wchc", "wchp"})
"""Words that 3.4 does not answer unless they are whitelisted."""


def words_of(release: tuple[int, int, int]) -> frozenset[str]:
    """Return the words that a release has.

    >>> sorted(ALL_WORDS - words_of((3, 4, 14)))
    ['dirs', 'hash']
    """
    return frozenset(name for name, word in WORDS.items() if word.since <= release)


def answered_words(
    whitelist: frozenset[str] | None, release: tuple[int, int, int], *, read_only: bool
) -> frozenset[str]:
    """Return the words that a server answers; the others of its release are not executed.

    Args:
        whitelist: words of 4lw.commands.whitelist; None if it is not set.
        release: version number; releases before 3.4.10 and 3.5.3 have no whitelist.
        read_only: whether readonlymode.enabled is set, which needs `isro`.

    >>> sorted(answered_words(frozenset({"ruok"}), (3, 9, 5), read_only=True))
    ['isro', 'ruok', 'srvr']
    """
    known = words_of(release)
    assert "srvr" in known, "every release has the words that are always answered"
    if release < (3, 4, 10) or (3, 5, 0) <= release < (3, 5, 3):
        return known
    if whitelist is None:
        whitelist = known - _COSTLY if release < (3, 5, 0) else frozenset()
    always = {"srvr", "isro"} if read_only else {"srvr"}
    return known & (whitelist | always)
