"""Mistakes of operators in znodes, and the story in which real clusters were recorded with them.

Three brokers with racks, a topic t1 (three partitions on all three). Each mistake is written by hand and stays until
quiescence; then leftover request znodes are deleted and the controller is replaced (`/controller` is deleted), so that
no controller meets two mistakes.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Mistake(NamedTuple):
    """One znode written by hand; `data` is None for a znode without data."""

    name: str
    path: str
    data: str | None


REASSIGN: Final = "/admin/reassign_partitions"
ELECT: Final = "/admin/preferred_replica_election"
DELETE: Final = "/admin/delete_topics"
TOPICS: Final = "/brokers/topics"
ASSIGNMENT: Final = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}


def _moves(*moves: str, beside: str = "") -> str:
    return f'{{"version":1,{beside}"partitions":[{",".join(moves)}]}}'


def _move(topic: str, partition: str, replicas: str, beside: str = "") -> str:
    return f'{{"topic":"{topic}","partition":{partition},"replicas":{replicas}{beside}}}'


def _topic(partitions: str, beside: str = "") -> str:
    return f'{{"version":1,"partitions":{{{partitions}}}{beside}}}'


MISTAKES: Final = (
    Mistake("reassign-no-json", REASSIGN, "{not json"),
    Mistake("reassign-empty", REASSIGN, ""),
    Mistake("reassign-list", REASSIGN, "[]"),
    Mistake("reassign-no-partitions", REASSIGN, '{"version":1}'),
    Mistake("reassign-unknown-field", REASSIGN, _moves(_move("t1", "0", "[1,3,2]"), beside='"throttle":1,')),
    Mistake("reassign-log-dirs", REASSIGN, _moves(_move("t1", "0", "[1,2]", ',"log_dirs":["any","any"]'))),
    Mistake("reassign-unknown-topic", REASSIGN, _moves(_move("nope", "0", "[1]"), _move("t1", "1", "[2,3]"))),
    Mistake("reassign-unknown-partition", REASSIGN, _moves(_move("t1", "7", "[1]"))),
    Mistake("reassign-duplicate", REASSIGN, _moves(_move("t1", "0", "[2,2]"))),
    Mistake("reassign-same", REASSIGN, _moves(_move("t1", "2", "[3,1,2]"))),
    Mistake("elect-no-json", ELECT, "{not json"),
    Mistake("elect-empty", ELECT, ""),
    Mistake("elect-no-partitions", ELECT, '{"version":1}'),
    Mistake(
        "elect-unknown",
        ELECT,
        _moves('{"topic":"nope","partition":0}', '{"topic":"t1","partition":9}', '{"topic":"t1","partition":2}'),
    ),
    Mistake("elect-unknown-field", ELECT, _moves('{"topic":"t1","partition":2,"why":1}', beside='"x":1,')),
    Mistake("delete-unknown", f"{DELETE}/nope", "x"),
    Mistake("topic-no-json", f"{TOPICS}/n1", "{not json"),
    Mistake("topic-no-partitions", f"{TOPICS}/n2", '{"version":1}'),
    Mistake("topic-dead-broker", f"{TOPICS}/n3", _topic('"0":[9]')),
    Mistake("topic-duplicate", f"{TOPICS}/n4", _topic('"0":[1,1]')),
    Mistake("topic-no-replicas", f"{TOPICS}/n5", _topic('"0":[]')),
    Mistake("topic-unknown-field", f"{TOPICS}/n6", _topic('"0":[1]', ',"x":1')),
    Mistake("topic-partitions-missing", f"{TOPICS}/n7", _topic('"1":[1],"5":[2]')),
    Mistake("isr-change-no-json", "/isr_change_notification/isr_change_0000000099", "{not json"),
    Mistake("log-dir-event-no-json", "/log_dir_event_notification/log_dir_event_0000000099", "{not json"),
    Mistake("config-change-no-json", "/config/changes/config_change_0000000099", "{not json"),
    Mistake("config-no-json", "/config/topics/t1", "{not json"),
    Mistake("reassign-dead-broker", REASSIGN, _moves(_move("t1", "2", "[3,1,9]"))),
    Mistake("reassign-no-replicas", REASSIGN, _moves(_move("t1", "1", "[]"))),
)
"""Mistakes in the order of the story; those that can block a controller come last."""

CLEARED: Final = (REASSIGN, ELECT)
"""Znodes to delete after each mistake, if they still exist, before `/controller` is deleted."""
