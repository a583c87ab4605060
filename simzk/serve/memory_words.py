"""Four-letter words of a server in memory, as `KazooClient.command` and `KazooClient.server_version` ask for them.

A server in memory has no port and counts no traffic, so the answers have the counters and the configuration of a new
server on TCP, and the tree, sessions, watches and connections of this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.serve.tcp.process_info import environment, java_date, open_files, system_properties
from simzk.wire.four_letter_words import DEFAULT_TRACE_MASK, WORD_BYTES, WORDS, answer, is_word
from simzk.wire.monitoring import ConnectionReport, Report
from simzk.wire.statistics import ConnectionStatistics, ServerStatistics

if TYPE_CHECKING:
    from simzk.serve.wire_driver import WireDriver
    from simzk.zookeeper.connection import Connection
    from simzk.zookeeper.server import Server

_PORT = 2181
_SILENCE_MS = 10_000  # nio.sessionlessCnxnTimeout: the real server checks idle connections in steps of this


def answer_in_memory(driver: WireDriver, data: bytes, now_ms: int, uptime_ms: int) -> bytes | None:
    """Return the answer to the first bytes of a connection; None if they are no four-letter word."""
    first, argument = data[:WORD_BYTES], data[WORD_BYTES:]
    if len(first) < WORD_BYTES or not is_word(first, driver.server.config.rules.release):
        return None
    word = first.decode()
    size = WORDS[word].argument_bytes
    with driver.lock:
        report = _report(driver.server, driver.connections(), now_ms, uptime_ms)
        return answer(word, report, argument[:size].ljust(size, b"\0")).encode()


def _report(server: Server, connections: list[Connection | None], now_ms: int, uptime_ms: int) -> Report:
    """Return what monitoring commands report."""
    config = server.config
    return Report(
        server=server,
        statistics=ServerStatistics(),
        connections=[_connection(connection, now_ms) for connection in connections],
        settings={
            "clientPort": _PORT,
            "secureClientPort": -1,
            "dataDir": "",
            "dataDirSize": 0,
            "dataLogDir": "",
            "dataLogSize": 0,
            "tickTime": config.tick_time_ms,
            "maxClientCnxns": 0,
            "minSessionTimeout": config.clamp_timeout(0),
            "maxSessionTimeout": config.clamp_timeout(2**31 - 1),
            "clientPortListenBacklog": -1,
            "serverId": 0,
        },
        environment=environment(config.rules.build),
        properties=system_properties(""),
        data_bytes=0,
        log_bytes=0,
        digests=(),
        last_snapshot=(-1, -1),
        initial_configuration=None,
        trace_mask=DEFAULT_TRACE_MASK,
        set_trace_mask=lambda _: None,
        now_ms=now_ms,
        uptime_ms=uptime_ms,
        date_of=java_date,
        disk={},
        open_files=open_files(),
    )


def _connection(connection: Connection | None, now_ms: int) -> ConnectionReport:
    timeout_ms = _SILENCE_MS if connection is None else connection.timeout_ms
    return ConnectionReport(
        address="127.0.0.1:0",
        is_secure=False,
        reading=True,
        queued=0,
        statistics=ConnectionStatistics(now_ms),
        session_id=0 if connection is None else connection.session_id,
        timeout_ms=timeout_ms,
        expiry_ms=((now_ms + timeout_ms) // _SILENCE_MS + 1) * _SILENCE_MS,
    )
