"""Arrays of structs encoded from numpy columns, for clusters of millions of partitions.

Rules of the module:
  - the struct consists of numbers and arrays of numbers, as a partition of Metadata, UpdateMetadata or LeaderAndIsr
    does. Its layout comes from the table, as that of every encoder;
  - an array column is padded: int[k, w], each row's items from the left, then -1 (`simzk.partitions.arrays`);
  - rows are written as numpy records. If their arrays differ in length, records have room for the longest, and a mask
    cuts out the rest. Rows are processed in batches, so that memory stays near that of the result.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from simzk.kafka.protocol.decoding import rows_decoder
from simzk.kafka.protocol.encoding import ABSENT, EncodedRows
from simzk.kafka.protocol.schema import NUMBERS
from simzk.kafka.protocol.structs import ProtocolError, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from simzk.kafka.protocol.schema import Field

Column: TypeAlias = "NDArray[np.integer] | NDArray[np.bool_]"
S = TypeVar("S", bound=Struct)

BATCH = 1 << 15
"""Rows per batch: their records and mask fit into the processor's cache."""
WIDEST = (1 << 14) - 2
"""Longest array column: in a flexible version its length takes up to two bytes."""
_ONE_BYTE = 0x7F
"""Largest length, which is the number of items plus one, that takes one byte in a flexible version."""
_PADDING = -1


class _Array(NamedTuple):
    """Array column of one batch: the width of the longest arrays, and which rows have shorter ones, of which length."""

    width: int
    short: NDArray[np.intp]
    lengths: NDArray[np.intp]

    @property
    def has_long_lengths(self) -> bool:
        """Whether a length takes two bytes in a flexible version."""
        return self.width + 1 > _ONE_BYTE


_NO_ROWS = np.zeros(0, np.intp)


def encode_rows(kind: type[S], version: int, columns: Mapping[str, Column]) -> EncodedRows[S]:
    """Return an array of structs, encoded; a slice of it is an array for one topic.

    Args:
        kind: class of the structs, such as `MetadataResponse.MetadataResponsePartition`.
        version: version of the message.
        columns: values by attribute, of equal length. A field without a column has its default. A column of a field
            that the version lacks must be ignorable or have defaults only.

    Raises:
        ProtocolError: a value does not fit its field, or a column is wider than 16,382.

    >>> from simzk.kafka.protocol.messages import MetadataResponse
    >>> replicas = np.array([[1, 2], [2, -1]])
    >>> rows = encode_rows(
    ...     MetadataResponse.MetadataResponsePartition, 1, {"partition_index": np.arange(2), "replica_nodes": replicas}
    ... )
    >>> rows[1].partition_index, rows[1].replica_nodes, len(rows[:1])
    (1, [2], 1)
    """
    fields = _fields(kind, version, columns)
    count = next((len(column) for column in columns.values()), 0)
    assert all(len(column) == count for column in columns.values()), "columns of different lengths"
    flexible = version in kind.MESSAGE.flexible
    pieces, sizes = [], list[NDArray[np.intp] | int]()
    for start in range(0, count, BATCH):
        rows = min(BATCH, count - start)
        batch = {name: column[start : start + rows] for name, column in columns.items()}
        data, size = _encode_batch(fields, batch, rows, flexible=flexible)
        pieces.append(data)
        sizes.append(size)
    whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    bounds = _bounds(sizes, count)
    assert len(bounds) == count + 1, "each row has a position, and the last one an end"
    assert bounds[-1] == len(whole), "the sizes of the rows are those of their bytes"
    # A decoder is compiled when a row is read: nobody may ask for one.
    return EncodedRows(kind, version, memoryview(whole), bounds, lambda *rows: rows_decoder(kind, version)(*rows))


def _fields(kind: type[Struct], version: int, columns: Mapping[str, Column]) -> list[Field]:
    """Return the fields of a version; raise ProtocolError if the columns do not fit them."""
    unknown = columns.keys() - {field.attribute for field in kind.SCHEMA.fields}
    assert not unknown, f"{kind.__qualname__} has no field {sorted(unknown)}"
    for field in kind.SCHEMA.fields:
        column = columns.get(field.attribute)
        if version in field.versions:
            assert field.kind in NUMBERS, f"{field.name} is no number"
            assert column is None or version not in field.tagged, f"{field.name} is tagged"
            if column is not None:
                _check_column(kind, version, field, column)
        elif column is not None and not field.ignorable and not _is_default(column, field):
            raise ProtocolError(ABSENT, message=kind.__qualname__, version=version, field=field.name)
    return kind.SCHEMA.of_version(version)


def _check_column(kind: type[Struct], version: int, field: Field, column: Column) -> None:
    what = ""
    if column.ndim != (2 if field.is_array else 1):
        what = f"the column has {column.ndim} dimensions"
    elif field.is_array and column.shape[1] > WIDEST:
        what = f"an array of {column.shape[1]} items is longer than {WIDEST}"
    elif not np.can_cast(column.dtype, NUMBERS[field.kind]) and column.size:
        limits = np.iinfo(NUMBERS[field.kind])
        if int(column.min()) < limits.min or int(column.max()) > limits.max:
            what = f"a value is no {field.kind}"
    if what:
        raise ProtocolError(what, message=kind.__qualname__, version=version, field=field.name)


def _is_default(column: Column, field: Field) -> bool:
    return bool((column == (_PADDING if field.is_array else field.default)).all())


def _array(column: Column) -> _Array:
    """Return the lengths of a padded column's arrays."""
    assert column.ndim == 2, "an array column is padded"
    width = column.shape[1]
    short = np.flatnonzero(column[:, -1] == _PADDING) if width else _NO_ROWS
    if len(short) == 0:
        return _Array(width, short, short)
    lengths = (column[short] != _PADDING).sum(axis=1)
    if len(short) == len(column):  # no row needs the last place
        width = int(lengths.max())
        short = np.flatnonzero(lengths < width)
        lengths = lengths[short]
    return _Array(width, short, lengths)


@cache
def _dtype(parts: tuple[tuple[str, str, int], ...]) -> np.dtype[np.void]:
    """Return the type of records with these parts: name, type, width (-1 for one number)."""
    return np.dtype([(name, kind) if width < 0 else (name, kind, (width,)) for name, kind, width in parts])


def _encode_batch(
    fields: Sequence[Field], columns: Mapping[str, Column], rows: int, *, flexible: bool
) -> tuple[bytes, NDArray[np.intp] | int]:
    """Return the bytes of some rows, and the size of each row, or one size for all."""
    arrays = {
        field.attribute: _array(columns[field.attribute])
        for field in fields
        if field.is_array and field.attribute in columns
    }
    records = np.zeros(rows, _dtype(tuple(_parts(fields, arrays, flexible=flexible))))
    for field in fields:
        name = field.attribute
        if not field.is_array:
            if name in columns or field.default:
                records[name] = columns.get(name, field.default)
        elif name not in arrays:
            records[_length_of(name)] = (-1 if field.default is None else 0) + flexible
        else:
            width, short, lengths = arrays[name]
            encoded = _long_lengths if flexible and arrays[name].has_long_lengths else np.asarray
            records[_length_of(name)] = encoded(np.intp(width + flexible))
            if width:
                records[name] = columns[name][:, :width]
            if len(short):
                records[_length_of(name)][short] = encoded(lengths + flexible)
    uneven = {name: array for name, array in arrays.items() if len(array.short)}
    if not uneven:
        return records.tobytes(), records.dtype.itemsize
    return _cut(records, uneven, flexible=flexible)


def _long_lengths(lengths: NDArray[np.intp] | np.intp) -> NDArray[np.intp]:
    """Return unsigned varints in two bytes; the second one is unused if the first is enough."""
    more = lengths > _ONE_BYTE
    return np.stack([lengths & _ONE_BYTE | more * (_ONE_BYTE + 1), lengths >> 7], axis=-1)


def _parts(fields: Sequence[Field], arrays: Mapping[str, _Array], *, flexible: bool) -> Iterator[tuple[str, str, int]]:
    """Yield name, type and width (-1 for one number) of each part of the records."""
    for field in fields:
        if field.is_array:
            array = arrays.get(field.attribute)
            is_long = flexible and array is not None and array.has_long_lengths
            yield _length_of(field.attribute), "u1" if flexible else ">i4", 2 if is_long else -1
            width = 0 if array is None else array.width
        else:
            width = -1
        yield field.attribute, ">" + NUMBERS[field.kind], width
    if flexible:
        yield "tags", "u1", -1


def _length_of(name: str) -> str:
    return f"length of {name}"


def _cut(records: NDArray[np.void], uneven: Mapping[str, _Array], *, flexible: bool) -> tuple[bytes, NDArray[np.intp]]:
    """Return the bytes of records without the unused places of these arrays, and the size of each record."""
    size = records.dtype.itemsize
    used = np.ones((len(records), size), np.bool_)
    sizes = np.full(len(records), size, np.intp)
    assert records.dtype.fields is not None
    for name, array in uneven.items():
        width, short, lengths = array
        assert len(short) == len(lengths), "each shorter array has a length"
        kind, position = records.dtype.fields[name][:2]
        item = kind.base.itemsize
        used[short, position : position + width * item] = np.arange(width * item) < lengths[:, None] * item
        sizes[short] -= (width - lengths) * item
        if flexible and array.has_long_lengths:
            brief = short[lengths + 1 <= _ONE_BYTE]
            used[brief, records.dtype.fields[_length_of(name)][1] + 1] = False
            sizes[brief] -= 1
    return records.view(np.uint8).reshape(len(records), size)[used].tobytes(), sizes


def _bounds(sizes: Sequence[NDArray[np.intp] | int], count: int) -> Sequence[int]:
    """Return the position of each row, and the end of the last one."""
    first = sizes[0] if sizes else 0
    if isinstance(first, int) and all(isinstance(size, int) and size == first for size in sizes):
        return range(0, count * first + 1, first) if first else [0]
    bounds = np.zeros(count + 1, np.intp)
    for number, size in enumerate(sizes):
        bounds[1 + number * BATCH : 1 + (number + 1) * BATCH] = size
    return cast("Sequence[int]", np.cumsum(bounds))
