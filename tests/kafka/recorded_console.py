"""kafka-console-consumer as the recorded stories of 0.8 ran it: an old consumer, and a session of the tool's own.

Rules of the module (ConsoleConsumer of those releases; recorded):
  - the tool looks in a session of its own whether the group is known: 0.8.2 before its consumer comes, and never closes
    it; before, while its consumer waits;
  - it reads from the beginning, until it has what was written, and stops cleanly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simzk.kafka.consumer import white_list
from simzk.kafka.zookeeper_client.session import ZooKeeperSession
from simzk.simulation import Process
from simzk.zookeeper.transactions import CloseSessionTxn, CreateSessionTxn, Transaction

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.replay.transactions import RecordedTransaction

CONSOLE_TIMEOUT_MS = 30_000
READS_US = 1_000_000
_MEMBER = re.compile(r"/consumers/(\w+)/ids/\1_(.+)")


def consumer_id_of(entries: list[RecordedTransaction]) -> str:
    """The drawn part of the recorded consumer's name."""
    found = [match[2] for entry in entries if (match := _MEMBER.fullmatch(entry.path))]
    return found[0]


def read(c: KafkaCluster, entries: list[RecordedTransaction]) -> None:
    """Begin to read topic t1 as group g1; the tool stops a second later.

    Args:
        c: the cluster.
        entries: the recorded transactions: they tell the drawn name, and when the console's own session came.
    """
    begun = [entry.who for entry in entries if entry.op == "createSession"]
    consumer = next(entry.who for entry in entries if entry.path.startswith("/consumers"))
    tool = Process(c.scheduler, "console")
    console = ZooKeeperSession(tool, c.zookeeper_host, timeout_ms=CONSOLE_TIMEOUT_MS)

    def start() -> None:
        config = {"auto.offset.reset": "smallest"}
        member = c.consumer(
            "g1", white_list("t1"), consumer_id=consumer_id_of(entries), version=c.version, config=config
        )
        waits.append(member.process)
        c.scheduler.call_later(READS_US, "console", member.close)

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
        console.drop_connection()

    tool.spawn(look_and_leave(), "look")
