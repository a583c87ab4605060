"""Rows that somebody hands in, as an Arrow table or as JSON: columns of the kinds that they should be, or the first ten
rows that are not, each by its number, what it is of, what is wrong with it, and what would be right.

What comes in may come from any tool: integers of any width, plain or large strings and lists, a column of lists that
has no type because all are empty. Values that do not fit stay visible as 64-bit integers, for `problems.py` to name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simzk.errors import LayoutError
from simzk.partitions.arrays import pack_flat
from simzk.partitions.layouts.problems import LONGEST_LIST, NAMED_PROBLEMS, Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

_INT64: Final = range(-(2**63), 2**63)
_SHOWN: Final = 60


class Rows:
    """The rows of a table.

    Args:
        table: as it was handed in.
        schema: what its columns should be; others are not looked at.
        optional: columns that may be missing, with what stands for them; lists of nobody do.
        of: what a row is: a partition, a broker.
        names: the columns that say which one.
        where: the file, for errors.

    Raises:
        LayoutError: a column is missing.
    """

    def __init__(
        self,
        table: pa.Table,
        schema: pa.Schema,
        *,
        optional: Mapping[str, int],
        of: str,
        names: tuple[str, ...],
        where: str,
    ) -> None:
        self._table, self._schema, self._optional = table, schema, optional
        self._of, self._names, self._where = of, names, where
        for name in schema.names:
            if name not in table.column_names and name not in optional:
                raise LayoutError(f"has no column {name!r}", where=where, right=_told(schema))

    def column(self, name: str) -> pa.Array:
        """One column as one Arrow array of the right kind."""
        import pyarrow as pa

        table, field = self._table, self._schema.field(name)
        if name not in table.column_names:
            return pa.repeat(pa.scalar(self._optional[name], field.type), table.num_rows)
        if table.column_names.count(name) > 1:
            raise LayoutError(f"has two columns {name!r}", where=self._where)
        column = table.column(name)
        if not _same_kind(column.type, field.type):
            raise LayoutError(f"column {name!r} is {column.type}", where=self._where, right=str(field.type))
        if column.null_count and not field.nullable:
            self.refuse(
                np.flatnonzero(column.is_null().to_numpy()), lambda row: f"{name} is null; expected {field.type}"
            )
        one = column.unify_dictionaries().combine_chunks()
        # An empty table has a column of no chunks, which newer versions of pyarrow hand back chunked.
        one = pa.concat_arrays(one.chunks) if isinstance(one, pa.ChunkedArray) else one
        return one.cast(field.type) if pa.types.is_null(one.type) else one

    def integers(self, name: str) -> NDArray[Any]:
        """A column of integers: as int32 where the file has no more, else as int64."""
        return _to_numpy(self.column(name))

    def lists(self, name: str) -> NDArray[Any]:
        """A column of lists of broker ids as one row each, padded with -1 on the right; no rows where it is missing."""
        if name not in self._table.column_names:
            return np.empty((0, 1), np.int32)
        lists = self.column(name)
        flat, lengths = lists.flatten(), lists.value_lengths().to_numpy()

        def refuse(wrong: NDArray[np.bool_], what: str) -> None:
            """The rows of some values."""
            rows = np.unique(np.repeat(np.arange(len(lists)), lengths)[wrong])
            self.refuse(rows, lambda row: f"{name} {lists[row].as_py()} has {what}; expected ids of brokers")

        if flat.null_count:
            refuse(flat.is_null().to_numpy(zero_copy_only=False), "a null in it")
        values = _to_numpy(flat)
        if (values < 0).any():
            refuse(values < 0, "a negative id")
        if lengths.max(initial=0) > LONGEST_LIST:
            rows = np.flatnonzero(lengths > LONGEST_LIST)
            self.refuse(rows, lambda row: f"{name} lists {lengths[row]} brokers; expected at most {LONGEST_LIST}")
        return pack_flat(values, lengths)

    def refuse(self, rows: NDArray[np.intp], words: Callable[[int], str]) -> None:
        """Raise `LayoutError` for some rows, ascending, if there are any."""
        first = rows[:NAMED_PROBLEMS].tolist()
        lines = tuple(f"row {row}{self._name(row)}: {words(row)}" for row in first)
        Problems(len(rows), lines, self._of).refuse(self._where)

    def _name(self, row: int) -> str:
        """Which one a row says that it is, as far as it can be read."""
        values = [self._table.column(name)[row].as_py() for name in self._names if name in self._table.column_names]
        known = len(values) == len(self._names) and None not in values
        return f" ({'-'.join(map(str, values))})" if known else ""


def rows_of_json(rows: object, schema: pa.Schema, *, optional: Collection[str], of: str, where: str) -> pa.Table:
    """A list of JSON objects as an Arrow table.

    Raises:
        LayoutError: it is none, or values of it are not of the kind that they should be.
    """
    import pyarrow as pa

    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LayoutError("is no list of objects", where=where, right=_told(schema))
    fields = [field for field in schema if field.name not in optional or any(field.name in row for row in rows)]
    wrong = [(row, field) for row, values in enumerate(rows) for field in fields if not _fits(values, field)]
    first: dict[int, str] = {}
    for row, field in wrong:
        if row not in first and len(first) < NAMED_PROBLEMS:
            first[row] = f"row {row}{_name_of(rows[row])}: {_what_is_wrong(rows[row], field)}"
    Problems(len({row for row, _ in wrong}), tuple(first.values()), of).refuse(where)
    return pa.Table.from_pylist(rows, pa.schema([_widened(field) for field in fields]))


def _fits(values: dict[str, object], field: pa.Field) -> bool:
    """Whether the value of a field is of its kind: null too, where the field may be null."""
    from pyarrow import types

    value = values.get(field.name)
    if value is None:
        return bool(field.nullable)
    if types.is_list(field.type):
        return isinstance(value, list) and all(map(_is_integer, value))
    if types.is_integer(field.type):
        return _is_integer(value)
    return isinstance(value, bool if types.is_boolean(field.type) else str)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64


def _what_is_wrong(values: dict[str, object], field: pa.Field) -> str:
    right = f"expected {_kind(field.type)}"
    if field.name not in values:
        return f"{field.name} is missing; {right}"
    text = json.dumps(values[field.name])
    return f"{field.name} is {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'}; {right}"


def _kind(kind: pa.DataType) -> str:
    """A type in the words of JSON."""
    from pyarrow import types

    if types.is_list(kind):
        return "a list of whole numbers"
    if types.is_integer(kind):
        return "a whole number"
    return "true or false" if types.is_boolean(kind) else "a string"


def _name_of(values: dict[str, object]) -> str:
    """Which partition a row of JSON says that it is."""
    return f" ({values['topic']}-{values['partition']})" if {"topic", "partition"} <= values.keys() else ""


def _widened(field: pa.Field) -> pa.Field:
    """The field with room for 64 bits, so that what is out of range can be named."""
    import pyarrow as pa

    if field.type == pa.int32():
        return pa.field(field.name, pa.int64())
    return pa.field(field.name, pa.list_(pa.int64())) if pa.types.is_list(field.type) else field


def _same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether the values of one type can be read as the other: an integer of any width is an integer."""
    from pyarrow import types

    if types.is_null(given):  # no tool knows the type of a column that holds nothing
        return True
    if types.is_dictionary(given):
        given = given.value_type
    if types.is_list(wanted):
        is_list = types.is_list(given) or types.is_large_list(given)
        return is_list and _same_kind(given.value_type, wanted.value_type)
    if types.is_string(wanted):
        return bool(types.is_string(given) or types.is_large_string(given))
    if types.is_integer(wanted):
        return bool(types.is_integer(given))
    return bool(given == wanted)


def _to_numpy(array: pa.Array) -> NDArray[Any]:
    """Integers as int32 where the file has no more, else as int64, so that what is out of range stays visible."""
    import pyarrow as pa

    if array.type != pa.int32():
        # Beyond 63 bits nothing is in range anyway.
        array = array.cast(pa.int64(), safe=array.type != pa.uint64())
    column: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return column


def _told(schema: pa.Schema) -> str:
    """A schema in one line."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)
