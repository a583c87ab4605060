"""From a broker to the partitions that it holds, so that a broker's failure touches only these.

Rules of the module:

1. A broker's rows are one ascending array. Few changes are noted beside it and merged when it is next asked for, so
   that a change of one partition costs a dictionary entry and a reading costs what the broker holds.
2. Many changes at once are merged at once.
"""

from __future__ import annotations

import numpy as np

from simzk.partitions.arrays import NONE, BoolArray, IntArray, unpack

_NOTED_AT_MOST = 64
_NO_ROWS: IntArray = np.empty(0, dtype=np.int32)


class BrokerIndex:
    """Rows by broker.

    Args:
        replicas: int32[n, w], the replicas of all rows, padded; a row without any is in no broker's list.

    >>> from simzk.partitions.arrays import pack
    >>> BrokerIndex(pack([[1, 2], [2, 3]])).rows(2).tolist()
    [0, 1]
    """

    def __init__(self, replicas: IntArray) -> None:
        self._held = _grouped(np.arange(len(replicas), dtype=np.int32), replicas)
        self._noted: dict[int, dict[int, bool]] = {}

    def rows(self, broker: int) -> IntArray:
        """The rows that a broker holds, ascending. Costs what it holds."""
        noted = self._noted.pop(broker, None)
        if noted:
            added = np.array([row for row, holds in noted.items() if holds], dtype=np.int32)
            removed = np.array([row for row, holds in noted.items() if not holds], dtype=np.int32)
            self._merge(broker, added, removed)
        held = self._held.get(broker, _NO_ROWS)
        held.flags.writeable = False
        return held

    def brokers(self) -> list[int]:
        """The brokers that hold at least one row, ascending."""
        return [broker for broker in sorted(self._held.keys() | self._noted.keys()) if self.rows(broker).size]

    def brokers_beyond(self, brokers: BoolArray) -> list[int]:
        """Those that hold, or held, a row and are not among some, by a mask over broker ids; in any order."""
        size = len(brokers)
        return [b for b in self._held.keys() | self._noted.keys() if b >= size or not brokers[b]]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of rows."""
        return sum(held.nbytes for held in self._held.values())

    def check(self, replicas: IntArray) -> None:
        """Assert that the index says what the replicas say."""
        rebuilt = BrokerIndex(replicas)
        assert self.brokers() == rebuilt.brokers()
        for broker in rebuilt.brokers():
            assert self.rows(broker).tolist() == rebuilt.rows(broker).tolist(), f"index of broker {broker}"

    def add(self, rows: IntArray, replicas: IntArray) -> None:
        """Rows that did not exist, or held nothing: int32[k], with their replicas, int32[k, w]."""
        self._change(rows, replicas, True)

    def discard(self, rows: IntArray, replicas: IntArray) -> None:
        """Rows that are gone, or are about to hold something else, with the replicas they had."""
        self._change(rows, replicas, False)

    def _change(self, rows: IntArray, replicas: IntArray, holds: bool) -> None:
        if len(rows) <= _NOTED_AT_MOST:
            for row, ids in zip(rows.tolist(), unpack(replicas), strict=True):
                for broker in ids:
                    self._noted.setdefault(broker, {})[row] = holds
            return
        for broker, changed in _grouped(rows, replicas).items():
            self.rows(broker)
            self._merge(broker, *((changed, _NO_ROWS) if holds else (_NO_ROWS, changed)))

    def _merge(self, broker: int, added: IntArray, removed: IntArray) -> None:
        held = self._held.get(broker, _NO_ROWS)
        if removed.size:
            held = held[~np.isin(held, removed)]
        if added.size:
            held = np.union1d(held, added)
        self._held[broker] = held


def _grouped(rows: IntArray, replicas: IntArray) -> dict[int, IntArray]:
    """Broker to those of the rows, in order, whose replicas name it."""
    top = int(replicas.max(initial=NONE))
    # Sorting keys of 16 bits is a radix sort: linear, ten times faster at a million rows.
    keys = np.empty(replicas.shape, dtype=np.uint16 if top < 2**16 - 1 else np.int32)
    np.add(replicas, 1, out=keys, casting="unsafe")
    counts = np.bincount(keys.ravel(), minlength=1)
    # Of millions of rows each array is large: as few as can be at a time, that of places in place.
    places = np.argsort(keys.ravel(), kind="stable")
    del keys
    places //= replicas.shape[1]
    owners = rows[places]
    ends = np.cumsum(counts)
    brokers = np.flatnonzero(counts[1:])
    return {broker: owners[ends[broker] : ends[broker + 1]] for broker in brokers.tolist()}
