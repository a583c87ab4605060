"""kafka-console-consumer with `--zookeeper`, as recorded of 0.8: an old consumer, and a session of the tool's own.

Rules of this module (ConsoleConsumer of those releases; recorded):
  - the tool looks in a session of its own whether the group is known: 0.8.2 before its consumer starts, never closing
    it; before, while its consumer waits;
  - it reads from the beginning, until it has what was written, and stops cleanly;
  - the member's id, which is drawn, and how far it read are read from the recording.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simzk.kafka.zookeeper_mode.client.session import ZooKeeperSession
from simzk.kafka.zookeeper_mode.consumer import white_list
from simzk.simulation import Process
from simzk.zookeeper.transactions import CloseSessionTxn, CreateSessionTxn, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.observation.recording import RecordedTree
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction

CONSOLE_TIMEOUT_MS = 30_000
READS_US = 1_000_000
_MEMBER = re.compile(r"/consumers/([^/]+)/ids/\1_(.+)")


def member_of(transactions: Sequence[RecordedTransaction]) -> tuple[str, str] | None:
    """Return the group and the consumer id of the first consumer that registers; None if none does."""
    found = (_MEMBER.fullmatch(entry.path) for entry in transactions)
    return next(((match[1], match[2]) for match in found if match is not None), None)


def offsets_read(tree: RecordedTree, topic: str) -> dict[int, int]:
    """Return the offsets of a topic that old consumers have committed, by partition, without zeros."""
    path = re.compile(rf"/consumers/[^/]+/offsets/{re.escape(topic)}/(\d+)")
    found = {int(match[1]): int(znode.data or "0") for at, znode in tree.items() if (match := path.fullmatch(at))}
    return {partition: offset for partition, offset in found.items() if offset}


def session_ends(transactions: Sequence[RecordedTransaction], recorded: Iterable[RecordedTransaction]) -> bool:
    """Return whether a recording shows the end of the first session of a step; it may stop before."""
    sessions = [entry.session for entry in transactions if entry.op == "createSession"]
    return any(entry.op == "closeSession" and entry.session == sessions[0] for entry in recorded)


def read(c: KafkaCluster, topic: str, transactions: Sequence[RecordedTransaction], *, expires: bool = True) -> None:
    """Begin to read a topic; the tool stops a second later.

    Args:
        c: the cluster.
        topic: the topic.
        transactions: the recorded transactions of the step, with those of the consumer.
        expires: whether a session that the tool does not close expires after the tool has stopped.
    """
    member = member_of(transactions)
    assert member is not None, "the recording has no old consumer"
    group, consumer_id = member
    begun = [entry.who for entry in transactions if entry.op == "createSession"]
    consumer = next(entry.who for entry in transactions if entry.path.startswith("/consumers"))
    tool = Process(c.scheduler, "console")
    console = ZooKeeperSession(tool, c.zookeeper_host, timeout_ms=CONSOLE_TIMEOUT_MS)

    def start() -> None:
        config = {"auto.offset.reset": "smallest"}
        found = c.consumer(group, white_list(topic), consumer_id=consumer_id, version=c.version, config=config)
        waits.append(found.process)
        c.scheduler.call_later(READS_US, "console", found.close)

    async def look() -> None:
        await console.start()
        await console.close()

    waits: list[Process] = []
    if begun.index(consumer) == 0:

        def note(transaction: Transaction) -> None:
            if isinstance(transaction.record, CreateSessionTxn) and not waits[0].paused and not console.connected:
                waits[0].pause()
                tool.spawn(look(), "look")
            elif isinstance(transaction.record, CloseSessionTxn) and transaction.session_id == console.session_id:
                waits[0].resume()
                c.server.on_transaction.remove(note)

        c.server.on_transaction.append(note)
        start()
        return

    async def look_and_leave() -> None:
        await console.start()
        start()
        await tool.sleep(READS_US)
        if expires:
            console.drop_connection()

    tool.spawn(look_and_leave(), "look")
