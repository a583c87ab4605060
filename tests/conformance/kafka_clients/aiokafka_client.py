"""aiokafka at the brokers that the first argument names: produce, consume, two members of a group, administration."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

RECORDS, PARTITIONS = 300, 4
LIMIT_S = 100


async def read(consumer: Any, count: int) -> list[bytes]:
    """Return the values of the next records."""
    found: list[bytes] = []
    while len(found) < count:
        batches = await consumer.getmany(timeout_ms=500)
        found += [record.value for records in batches.values() for record in records]
    return found


async def administer(servers: str) -> None:
    """Create, grow, describe and delete topics."""
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([NewTopic("orders", PARTITIONS - 1, 3), NewTopic("gone", 1, 1)])
    await admin.create_partitions({"orders": NewPartitions(PARTITIONS)})
    await admin.delete_topics(["gone"])
    partitions: list[object] = []
    while len(partitions) < PARTITIONS:
        await asyncio.sleep(0.05)
        partitions = (await admin.describe_topics(["orders"]))[0]["partitions"]
    assert "gone" not in await admin.list_topics()
    assert len((await admin.describe_cluster())["brokers"]) == 3
    await admin.close()


async def produce(servers: str, **options: object) -> None:
    """Send the records, all acknowledged by all in the ISR."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all", **options)
    await producer.start()
    sent = [await producer.send("orders", b"%d" % n, partition=n % PARTITIONS) for n in range(RECORDS)]
    await asyncio.gather(*sent)
    await producer.stop()


async def consume(servers: str) -> None:
    """Read all records without a group, and seek."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    partitions = [TopicPartition("orders", n) for n in range(PARTITIONS)]
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign(partitions)
    found = await read(consumer, 2 * RECORDS)
    assert sorted(found) == sorted(b"%d" % n for n in range(RECORDS) for _ in range(2))
    assert sum((await consumer.end_offsets(partitions)).values()) == 2 * RECORDS
    consumer.seek(partitions[1], 5)
    assert (await consumer.getone(partitions[1])).offset == 5
    await consumer.stop()


async def rebalance(servers: str) -> None:
    """Let two members share the topic; the second one continues where the first one committed."""
    from aiokafka import AIOKafkaConsumer

    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "group_id": "billing",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    first = AIOKafkaConsumer("orders", **options)
    await first.start()
    await read(first, 2 * RECORDS)
    await first.commit()
    second = AIOKafkaConsumer("orders", **options)
    await second.start()
    while not (len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2):
        await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
    await first.stop()
    while len(second.assignment()) < PARTITIONS:
        await second.getmany(timeout_ms=50)
    positions = [await second.position(partition) for partition in second.assignment()]
    assert sum(positions) == 2 * RECORDS
    await second.stop()


async def main(servers: str) -> None:
    """Do all of it."""
    await administer(servers)
    await produce(servers, compression_type="gzip")
    await produce(servers, enable_idempotence=True)
    await consume(servers)
    await rebalance(servers)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1]), LIMIT_S))
