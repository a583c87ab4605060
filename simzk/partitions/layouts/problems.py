"""What is wrong with the rows of a layout that somebody hands in, said row by row.

A layout is refused whole; the first ten wrong rows are named. Every rule is one line of a table: a mask over all rows,
computed at once, and the words for one row that it marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, any_of, contained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from simzk.partitions.layouts.layout import Brokers, Layout

NAMED_PROBLEMS = 10
"""How many wrong rows an error names."""

LONGEST_LIST = 255
"""The most replicas of a partition that are read: one absurd list would make every padded row as wide."""

_FEW = 8

LARGEST_INT32 = 2**31 - 1

TOPIC_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Kafka's rule for a topic's name (org.apache.kafka.common.internals.Topic)."""


@dataclass(frozen=True)
class Problems:
    """How many rows are wrong, and the first of them in words.

    Args:
        total: how many rows break at least one rule.
        first: at most ten sentences, by ascending row.
        of: what a row is.
    """

    total: int
    first: tuple[str, ...]
    of: str = "partition"

    def refuse(self, where: str) -> None:
        """Raise `LayoutError` for the file `where`, if any row is wrong."""
        if not self.total:
            return
        wrong = f"{self.total:,} {self.of}{'s' * (self.total != 1)}"
        more = self.total - len(self.first)
        lines = [f"{wrong} cannot be:", *self.first]
        if more > 0:
            lines.append(f"and {more:,} more")
        raise LayoutError("\n  ".join(lines), where=where)


Rule = tuple["NDArray[np.bool_]", "Callable[[int], str]"]


def find_problems(rows: Layout) -> Problems:
    """Check all rows of a layout against the rules of `layout.py`.

    The columns may still hold 64-bit integers as a file gave them, so that an id out of range is seen, not wrapped.
    """
    marked = np.zeros(len(rows), np.bool_)
    found: list[tuple[int, str]] = []
    for mask, words in _rules(rows):
        # The first rule that a row breaks is the one that is told.
        fresh = np.flatnonzero(mask & ~marked)[:NAMED_PROBLEMS]
        found.extend((int(row), words(int(row))) for row in fresh)
        marked |= mask
    found.sort()
    names = rows.topics
    first = tuple(
        f"row {row} ({names[rows.topic[row]]}-{rows.partition[row]}): {words}" for row, words in found[:NAMED_PROBLEMS]
    )
    return Problems(int(np.count_nonzero(marked)), first)


def _rules(rows: Layout) -> Iterator[Rule]:
    replicas, isr, leader = rows.replicas, rows.isr, rows.leader

    illegal = np.array([TOPIC_NAME.fullmatch(name) is None for name in rows.topics], np.bool_)
    if illegal.any():
        yield (
            illegal[rows.topic],
            lambda row: "no topic of Kafka can have this name; expected 1 to 249 of a-z A-Z 0-9 . _ -",
        )
    yield _outside(rows.partition), lambda row: "the partition's number is out of range (0 to 2147483647)"
    yield np.all(replicas == NONE, axis=1), lambda row: "the list of replicas is empty; expected one or more"
    yield (
        np.any(_outside(replicas, NONE, MAX_BROKER_ID), axis=1),
        lambda row: f"a broker id of replicas {_ids_of(replicas, row)} is out of range (0 to {MAX_BROKER_ID})",
    )
    known = np.isin(replicas, rows.brokers.ids) | (replicas == NONE)
    yield (
        ~np.all(known, axis=1),
        lambda row: f"replica on unknown broker {int(replicas[row][~known[row]][0])}; expected {_some(rows.brokers)}",
    )
    yield _repeated(replicas), lambda row: f"duplicate replicas {_ids_of(replicas, row)}; expected each once"
    yield (
        ~np.all(contained(isr, replicas) | (isr == NONE), axis=1),
        lambda row: f"ISR {_ids_of(isr, row)} has a member that is not in replicas {_ids_of(replicas, row)}",
    )
    yield _repeated(isr), lambda row: f"duplicate members in ISR {_ids_of(isr, row)}; expected each once"
    yield (
        (leader != NONE) & ~np.any(isr == leader[:, None], axis=1),
        lambda row: f"leader {int(leader[row])} is neither -1 (none) nor in ISR {_ids_of(isr, row)}",
    )
    yield (
        _outside(rows.leader_epoch),
        lambda row: f"leader_epoch {int(rows.leader_epoch[row])} is out of range (0 or more)",
    )
    yield (
        _outside(rows.min_insync_replicas, 1),
        lambda row: f"min_insync_replicas {int(rows.min_insync_replicas[row])} is out of range (1 or more)",
    )
    yield from _rules_of_moves(rows)
    yield (
        _seen_before(rows.topic, rows.partition),
        lambda row: "the partition stands in an earlier row too; expected it once",
    )


def _rules_of_moves(rows: Layout) -> Iterator[Rule]:
    """Who is added and removed: few partitions move at a time, mostly none, and the others are not looked at again."""
    moving = rows.reassigning
    if not len(moving):
        return
    columns = {"adding": rows.adding, "removing": rows.removing}
    replicas, adding, removing = rows.replicas[moving], rows.adding[moving], rows.removing[moving]

    def at(wrong: NDArray[np.bool_]) -> NDArray[np.bool_]:
        mask = np.zeros(len(rows), np.bool_)
        mask[moving[wrong]] = True
        return mask

    def of_row(row: int) -> str:
        return f"replicas {_ids_of(rows.replicas, row)}"

    for name, lists in (("adding", adding), ("removing", removing)):
        column = columns[name]
        yield (
            at(~np.all(contained(lists, replicas) | (lists == NONE), axis=1)),
            lambda row, name=name, column=column: (  # type: ignore[misc]
                f"{name} {_ids_of(column, row)} has a member that is not in {of_row(row)}"
            ),
        )
        yield (
            at(_repeated(lists)),
            lambda row, name=name, column=column: (  # type: ignore[misc]
                f"duplicate members in {name} {_ids_of(column, row)}; expected each once"
            ),
        )
    yield (
        at(any_of(contained(adding, removing))),
        lambda row: f"adding {_ids_of(rows.adding, row)} and removing {_ids_of(rows.removing, row)} share a member",
    )
    yield (
        at(np.all(contained(replicas, removing) | (replicas == NONE), axis=1)),
        lambda row: f"removing {_ids_of(rows.removing, row)} leaves nobody of {of_row(row)}; expected one at least",
    )


def _ids_of(lists: NDArray[np.int32], row: int) -> list[int]:
    return [int(broker) for broker in lists[row] if broker != NONE]


def _some(brokers: Brokers) -> str:
    """The brokers that there are, if they are few."""
    ids = brokers.ids.tolist()
    listed = ", ".join(map(str, ids[:_FEW]))
    return f"one of {listed}{', ...' if len(ids) > _FEW else ''}" if ids else "a broker of the layout, which has none"


def _outside(column: NDArray[np.int32], lowest: int = 0, highest: int = LARGEST_INT32) -> NDArray[np.bool_]:
    return (column < lowest) | (column > highest)


def _repeated(lists: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool[n]: whether a row of `lists` holds a broker twice. Column by column: rows are short, columns long."""
    result = np.zeros(len(lists), np.bool_)
    for right in range(1, lists.shape[1]):
        for left in range(right):
            result |= (lists[:, left] == lists[:, right]) & (lists[:, right] != NONE)
    return result


def _seen_before(topic: NDArray[np.int32], partition: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool[n]: whether (topic, partition) of a row stands in an earlier row."""
    key = (topic.astype(np.int64) << 32) | (partition.astype(np.int64) & 0xFFFFFFFF)
    if bool(np.all(key[1:] > key[:-1])):
        return np.zeros(len(key), np.bool_)
    result = np.ones(len(key), np.bool_)
    _, first = np.unique(key, return_index=True)
    result[first] = False
    return result
