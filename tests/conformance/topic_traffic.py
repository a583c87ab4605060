"""Traffic at the znodes of Kafka's topics: what Kafka writes there, what an operator might, and what nobody should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment
from simzk.kafka.zookeeper_mode.schemas.partition_state import encode, encode_spaced
from simzk.kafka.zookeeper_mode.schemas.topic import TopicZnode, encode_v1, encode_v2, encode_v3
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import OPEN_ACL
from tests.conformance.traffic import Traffic

if TYPE_CHECKING:
    from tests.conformance.arms import Step

TOPICS_PATH = "/brokers/topics"
NAMES = {
    "/": ("brokers",),
    "/brokers": ("topics", "topics", "ids"),
    TOPICS_PATH: ("t", "t", "orders", "é"),
}
NAMES_BELOW = (("partitions",) * 9 + ("config",), (*"00112345", "12", "x"), ("state",) * 9 + ("states",), ("below",))
"""Of what stands in a topic, in its `partitions`, in one of these, in its state."""

PLAIN = ReplicaAssignment((1, 2, 3))
MOVING = ReplicaAssignment((1, 2, 3), (3,), (1,))
TOPIC_TEXTS = (
    *tuple(
        write(TopicZnode(dict.fromkeys(range(count), assignment), topic_id))
        for write, topic_id in ((encode_v3, "TpQ2vLZGRz2kEHL51HUZyg"), (encode_v2, None), (encode_v1, None))
        for count in (1, 4, 6)
        for assignment in (PLAIN, MOVING)
    ),
    b'{"version":1, "partitions":{"0":[1]}}',
    b"{}",
    b"",
)
STATE_TEXTS = (
    *tuple(
        write(LeaderAndIsr(leader, epoch, isr, 1, recovering=epoch == 2))
        for write in (encode, encode, encode, encode_spaced)
        for epoch in range(4)
        for leader, isr in ((1, (1, 2, 3)), (2, (2,)), (-1, (3,)), (3, (3, 1)))
    ),
    b'{"leader":1}',
    b"",
    b'{"controller_epoch":1,"leader":9,"version":1,"leader_epoch":0,"isr":[1]}',
)
OTHERS = (None, b"", b"x")


def first_topic() -> list[Step]:
    """A topic as Kafka makes it, with the parents that it needs."""
    topic = f"{TOPICS_PATH}/t"
    nodes: list[tuple[str, bytes | None]] = [
        ("/brokers", b""),
        (TOPICS_PATH, b""),
        (topic, TOPIC_TEXTS[2]),
        (f"{topic}/partitions", None),
    ]
    for number in range(4):
        nodes.append((f"{topic}/partitions/{number}", None))
        nodes.append((f"{topic}/partitions/{number}/state", STATE_TEXTS[0]))
    return [req.Create(path, data, OPEN_ACL, 0) for path, data in nodes]


class TopicTraffic(Traffic):
    """Mostly at paths that are topics, and with the data that belongs there."""

    _begun = False

    def batch(self, zxid: int) -> list[Step]:
        if not self._begun or self.chance(0.2):
            self._begun = True
            return first_topic()
        return super().batch(zxid)

    def new_path(self) -> str:
        parents = [path for path in self._existing if path == "/" or path.startswith("/brokers")]
        parent = self._random.choice(parents)
        name = self._random.choice(self._names_at(parent))
        return f"{'' if parent == '/' else parent}/{name}"

    @staticmethod
    def _names_at(parent: str) -> tuple[str, ...]:
        depth = parent.count("/") - TOPICS_PATH.count("/") - 1
        if 0 <= depth < len(NAMES_BELOW) and parent.startswith(f"{TOPICS_PATH}/"):
            return NAMES_BELOW[depth]
        return NAMES.get(parent, ("below",))

    def request(self, kind: type, zxid: int) -> req.Request:
        asked = super().request(kind, zxid)
        if isinstance(asked, req.Create | req.Create2 | req.CreateContainer | req.SetData) and asked.path:
            depth = asked.path.count("/") if asked.path.startswith(TOPICS_PATH) else 0
            texts = {3: TOPIC_TEXTS, 6: STATE_TEXTS}.get(depth, OTHERS)
            asked = asked._replace(data=self._random.choice(texts))
            if isinstance(asked, req.Create | req.Create2) and self.chance(0.8):
                # As Kafka makes them: open to everybody, and nobody's.
                asked = asked._replace(acl=OPEN_ACL, flags=0)
        return asked
