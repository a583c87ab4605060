"""Records of 64-bit numbers for millions of rows, stored in half the bytes.

Rules of the module:

1. A column stores the lower 32 bits of each number. The upper halves of a row's numbers and its *form* (any value of
   the caller) are one entry of a dictionary, and the row stores the 16-bit code of the entry: zxids of one epoch, times
   within 50 days and equally created nodes share an entry.
2. A row without a record has code 0.
3. There are codes for 65,534 entries. A row that needs another entry has its record in a dictionary (`_beside`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

Form = TypeVar("Form", bound="Hashable")

_LOW_BITS = 32
_LOW_MASK = 2**32 - 1
_NO_RECORD = 0
_BESIDE = 2**16 - 1


class PackedRecords(Generic[Form]):
    """Records by row.

    Args:
        width: the numbers of a record, each a signed 64-bit integer.

    >>> records: PackedRecords[str] = PackedRecords(2)
    >>> records.put(7, (2**40 + 5, -1), "ordinary")
    >>> records.get(7), records.get(6)
    (([1099511627781, -1], 'ordinary'), None)
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._low: NDArray[np.uint32] = np.empty((0, width), dtype=np.uint32)
        self._code: NDArray[np.uint16] = np.empty(0, dtype=np.uint16)
        self._entries: list[tuple[tuple[int, ...], Form] | None] = [None]
        self._codes: dict[tuple[tuple[int, ...], Form], int] = {}
        self._beside: dict[int, tuple[list[int], Form]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return self._low.nbytes + self._code.nbytes

    def get(self, row: int) -> tuple[list[int], Form] | None:
        """Return the numbers and the form of a row's record, None if it has no record."""
        assert row >= 0
        code = self._code.item(row) if row < len(self._code) else _NO_RECORD
        if code == _BESIDE:
            numbers, form = self._beside[row]
            return list(numbers), form
        entry = self._entries[code]
        if entry is None:
            return None
        highs, form = entry
        low: list[int] = self._low[row].tolist()
        return [high << _LOW_BITS | part for high, part in zip(highs, low, strict=True)], form

    def form(self, row: int) -> Form | None:
        """Return the form of a row's record, None if it has no record."""
        assert row >= 0
        code = self._code.item(row) if row < len(self._code) else _NO_RECORD
        if code == _BESIDE:
            return self._beside[row][1]
        entry = self._entries[code]
        return None if entry is None else entry[1]

    def forms_of(self, rows: NDArray[np.integer]) -> list[Form | None]:
        """Return the form of each of many rows, int[k]; None for a negative row or one without record."""
        there = (rows >= 0) & (rows < len(self._code))
        codes = np.zeros(len(rows), dtype=np.uint16)
        codes[there] = self._code[rows[there]]
        forms = [entry and entry[1] for entry in self._entries]
        beside = self._beside
        return [
            beside[row][1] if code == _BESIDE else forms[code]
            for row, code in zip(rows.tolist(), codes.tolist(), strict=True)
        ]

    def put(self, row: int, numbers: Sequence[int], form: Form) -> None:
        """Write a row's record."""
        assert row >= 0
        assert len(numbers) == self.width
        self.reserve(row + 1)
        code = self._code_of(tuple([number >> _LOW_BITS for number in numbers]), form)
        if self._code.item(row) == _BESIDE:
            del self._beside[row]
        if code == _BESIDE:
            self._beside[row] = list(numbers), form
        else:
            self._low[row] = [number & _LOW_MASK for number in numbers]
        self._code[row] = code

    def fill(self, first: int, numbers: NDArray[np.int64], form: Form) -> None:
        """Write the records of consecutive rows at once, int64[k, width], all of one form.

        Few upper halves may differ, as in zxids and times of one batch.
        """
        assert numbers.shape[1] == self.width
        self.reserve(first + len(numbers))
        highs, kinds = _distinct(numbers >> _LOW_BITS)
        codes = np.array([self._code_of(tuple(high), form) for high in highs.tolist()], dtype=np.uint16)
        assert (codes != _BESIDE).all(), "rows are filled while there is room"
        self._low[first : first + len(numbers)] = numbers & _LOW_MASK
        self._code[first : first + len(numbers)] = codes[kinds]

    def update(self, rows: NDArray[np.integer], columns: Mapping[int, NDArray[np.int64]]) -> None:
        """Write some of the numbers of rows that have a record.

        Args:
            rows: int[k], distinct.
            columns: by index of the number, the new values, int64[k] each.
        """
        assert all(len(numbers) == len(rows) for numbers in columns.values())
        codes, fields = self._codes_of(rows), list(columns)
        highs = [column >> _LOW_BITS for column in columns.values()]
        assert (codes != _NO_RECORD).all(), "a row without a record"
        if len(rows) and all((parts == parts[0]).all() for parts in (codes, *highs)):
            to_all = self._code_with(int(codes[0]), fields, [int(parts[0]) for parts in highs])
            if to_all != _BESIDE:  # as nearly always: rows written alike before, and now
                low, begins = self._low.ravel(), rows * np.intp(self.width)
                for field, numbers in columns.items():
                    low[begins + field] = numbers & _LOW_MASK
                if to_all != codes[0]:
                    self._code[rows] = to_all
                return
        kinds, inverse = _distinct(np.column_stack((codes, *highs)))
        to = np.array([self._code_with(code, fields, kind) for code, *kind in kinds.tolist()], dtype=np.uint16)[inverse]
        beside = (codes == _BESIDE) | (to == _BESIDE)
        packed = rows[~beside]
        for field, numbers in columns.items():
            self._low[packed, field] = numbers[~beside] & _LOW_MASK
        self._code[packed] = to[~beside]
        changes = zip(*(numbers[beside].tolist() for numbers in columns.values()), strict=True)
        for row, changed in zip(rows[beside].tolist(), changes, strict=True):
            record = self.get(row)
            assert record is not None
            for field, number in zip(fields, changed, strict=True):
                record[0][field] = number
            self.put(row, *record)

    def _code_with(self, code: int, fields: Sequence[int], highs: Sequence[int]) -> int:
        """Return the code of an entry with other upper halves in some fields."""
        entry = self._entries[code] if code != _BESIDE else None
        if entry is None:
            return _BESIDE
        changed = list(entry[0])
        for field, high in zip(fields, highs, strict=True):
            changed[field] = high
        return self._code_of(tuple(changed), entry[1])

    def clear(self, row: int) -> None:
        """Remove a row's record if it has one."""
        assert row >= 0
        if row < len(self._code):
            self._beside.pop(row, None)
            self._code[row] = _NO_RECORD

    def rows(self) -> NDArray[np.intp]:
        """Return the rows that have a record, ascending."""
        return np.flatnonzero(self._code)

    def forms(self, rows: NDArray[np.integer] | None = None) -> list[tuple[Form, int]]:
        """Count the rows, all if None, by form; a form may occur more than once."""
        asked = self.rows() if rows is None else rows[rows < len(self._code)]
        codes = self._code[asked]
        counts = np.bincount(codes, minlength=1)[:_BESIDE].tolist()
        found = [(entry[1], counts[code]) for code, entry in enumerate(self._entries[: len(counts)]) if entry]
        if self._beside:
            found += [(self._beside[row][1], 1) for row in asked[codes == _BESIDE].tolist()]
        return found

    def where(self, rows: NDArray[np.integer], is_so: Callable[[Form], bool]) -> NDArray[np.bool_]:
        """Return which rows have a record with a form for which `is_so` is true: bool[k]."""
        codes = self._codes_of(rows)
        if len(codes) and codes[0] != _BESIDE and (codes == codes[0]).all():
            entry = self._entries[codes[0]]
            return np.full(len(codes), entry is not None and is_so(entry[1]))
        so = np.zeros(_BESIDE + 1, dtype=np.bool_)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            entry = self._entries[code] if code != _BESIDE else None
            so[code] = entry is not None and is_so(entry[1])
        found = so[codes]
        for place in np.flatnonzero(codes == _BESIDE).tolist():
            found[place] = is_so(self._beside[int(rows[place])][1])
        return found

    def _codes_of(self, rows: NDArray[np.integer]) -> NDArray[np.uint16]:
        assert rows.min(initial=0) >= 0, "numpy would read a negative row from the end"
        if rows.max(initial=0) < len(self._code):
            return self._code.take(rows)
        codes = np.zeros(len(rows), dtype=np.uint16)
        known = rows < len(self._code)
        codes[known] = self._code[rows[known]]
        return codes

    def _code_of(self, highs: tuple[int, ...], form: Form) -> int:
        entry = (highs, form)
        code = self._codes.get(entry)
        if code is None:
            code = len(self._entries)
            if code >= _BESIDE:
                return _BESIDE
            self._codes[entry] = code
            self._entries.append(entry)
        return code

    def reserve(self, rows: int) -> None:
        """Extend to at least `rows` rows."""
        present = len(self._code)
        if rows <= present:
            return
        capacity = rows if not present else max(rows, present + present // 4)
        low, code = self._low, self._code
        self._low = np.zeros((capacity, self.width), dtype=np.uint32)
        self._code = np.zeros(capacity, dtype=np.uint16)
        self._low[:present], self._code[:present] = low, code
        assert len(self._low) == len(self._code) >= rows

    def check(self) -> None:
        """Assert every invariant of the structure."""
        assert len(self._entries) == len(self._codes) + 1 <= _BESIDE
        assert all(self._entries[code] == entry for entry, code in self._codes.items())
        assert np.flatnonzero(self._code == _BESIDE).tolist() == sorted(self._beside)
        assert int(self._code[self._code != _BESIDE].max(initial=0)) < len(self._entries)


def _distinct(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return the distinct rows of an array, and the index of each row among them; fast if all are equal."""
    if (rows == rows[:1]).all():
        return rows[:1], np.zeros(len(rows), dtype=np.intp)
    kinds, inverse = np.unique(rows, axis=0, return_inverse=True)
    return kinds, inverse.ravel()
