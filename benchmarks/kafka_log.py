"""Transaction log of any length of a simulated Kafka cluster whose brokers die and restart repeatedly.

One round of a simulated cluster's life is played once, in which each broker is killed and started again, and written
over and over. Each time has its own zxids, times and sessions, as if the cluster had lived on: sessions that a round
finds are those that the one before left behind. So what reads the log finds a history that is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.zookeeper.persistence import LOG_HEADER, encode_log_entry
from simzk.zookeeper.transactions import CreateSessionTxn, CreateTxn, MultiTxn, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


BROKERS, TOPICS, PARTITIONS = 6, 10, 50
VERSION = "3.9.1"
_BETWEEN_ROUNDS_MS = 60_000
_IDS = "/brokers/ids/"


class Life(NamedTuple):
    """A cluster's life.

    Args:
        start: until all topics are there.
        turn: what comes after, and can come again.
        heirs: of each broker's session at the beginning of a round, its session at the end.
    """

    start: list[Transaction]
    turn: list[Transaction]
    heirs: dict[int, int]


def play() -> Life:
    """Play one round; takes some seconds of processor time."""
    seen: list[Transaction] = []
    with KafkaCluster(version=VERSION, brokers=BROKERS, seed=1, boot=False) as cluster:
        cluster.server.on_transaction.append(seen.append)
        for broker in cluster.brokers:
            cluster.restart(broker)
        assert cluster.run_until_quiet()
        for number in range(TOPICS):
            cluster.create_topic(f"topic-{number}", partitions=PARTITIONS, replication_factor=3)
        assert cluster.run_until_quiet()
        start = len(seen)
        for broker in list(cluster.brokers):
            cluster.kill(broker)
            assert cluster.run_until_quiet()
            cluster.restart(broker)
            assert cluster.run_until_quiet()
    before, after = _sessions(seen[:start]), _sessions(seen)
    return Life(seen[:start], seen[start:], {before[path]: after[path] for path in before})


def _sessions(seen: list[Transaction]) -> dict[str, int]:
    """Return the session that registered each broker last."""
    found = {}
    for transaction in seen:
        record = transaction.record
        for step in record.records if isinstance(record, MultiTxn) else (record,):
            if isinstance(step, CreateTxn) and step.path.startswith(_IDS):
                found[step.path] = transaction.session_id
    return found


def transactions(life: Life) -> Iterator[Transaction]:
    """Yield the transactions of repeated rounds."""
    yield from life.start
    zxid_step = life.turn[-1].zxid - life.turn[0].zxid + 1
    ms_step = life.turn[-1].time_ms - life.turn[0].time_ms + _BETWEEN_ROUNDS_MS
    begun = sorted({t.session_id for t in life.turn if isinstance(t.record, CreateSessionTxn)})
    session_step = begun[-1] - begun[0] + 1
    sessions: dict[int, int] = {}
    number = 0
    while True:
        sessions = {old: sessions.get(heir, old) for old, heir in life.heirs.items()}
        sessions |= {session: session + number * session_step for session in begun}
        for session, cxid, zxid, time_ms, record in life.turn:
            yield Transaction(
                sessions.get(session, session), cxid, zxid + number * zxid_step, time_ms + number * ms_step, record
            )
        number += 1


def write_log(life: Life, path: Path, *, size: int | None = None, count: int | None = None) -> int:
    """Write a log.

    Args:
        life: what stands in it.
        path: a file that is not there yet.
        size, count: it ends with the transaction that makes it as large, or as long.

    Returns:
        how many transactions it has.
    """
    written, number = len(LOG_HEADER), 0
    with path.open("xb") as file:
        file.write(LOG_HEADER)
        for transaction in transactions(life):
            entry = encode_log_entry(transaction, 0)
            file.write(entry)
            written, number = written + len(entry), number + 1
            if (size is not None and written >= size) or number == count:
                break
    return number
