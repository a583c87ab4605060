"""Fields of the records of coordinators: numbers, texts and bytes, written and read one after the other."""

from __future__ import annotations

import struct

from simzk.errors import SimzkError

TEXT_MAX_BYTES = (1 << 15) - 1
"""Longest text in a record."""


class RecordError(SimzkError):
    """Invalid record in the log of a coordinator."""


def fits(*texts: str | None) -> bool:
    """Return whether texts fit into a record.

    >>> fits("g", None), fits("x" * 32768)
    (True, False)
    """
    return all(text is None or len(text.encode()) <= TEXT_MAX_BYTES for text in texts)


class FieldWriter:
    """Fields of a record, written one after the other.

    Args:
        version: of the record, its first field.

    >>> writer = FieldWriter(2)
    >>> writer.texts("g")
    >>> writer.done().hex()
    '0002000167'
    """

    def __init__(self, version: int) -> None:
        self._parts = [struct.pack(">h", version)]

    def numbers(self, sizes: str, *values: int) -> None:
        """Write integers; `sizes` has a letter for each: `b` for 8 bits, `h` for 16, `i` for 32, `q` for 64."""
        assert len(sizes) == len(values)
        self._parts.append(struct.pack(f">{sizes}", *values))

    def texts(self, *values: str | None) -> None:
        """Write texts; None is null."""
        for value in values:
            data = None if value is None else value.encode()
            assert data is None or len(data) <= TEXT_MAX_BYTES, f"a text of {len(data)} bytes; see `fits`"
            self._parts.append(struct.pack(">h", -1 if data is None else len(data)) + (data or b""))

    def data(self, *values: bytes) -> None:
        """Write bytes."""
        self._parts += [struct.pack(">i", len(value)) + value for value in values]

    def done(self) -> bytes:
        """Return the record."""
        return b"".join(self._parts)


class FieldReader:
    """Fields of a record, read one after the other; each method raises `RecordError` where the bytes end too early.

    >>> reader = FieldReader(bytes.fromhex("0002000167"))
    >>> reader.number("h"), reader.string()
    (2, 'g')
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._data):
            raise RecordError(
                f"a record ends at byte {len(self._data)}, in a field of {count} bytes", where=f"byte {self._at}"
            )
        self._at += count
        assert count <= self._at <= len(self._data)
        return self._data[self._at - count : self._at]

    def number(self, size: str) -> int:
        """Read an integer; see `FieldWriter.numbers` for the letters of sizes."""
        return int.from_bytes(self._take(struct.calcsize(f">{size}")), "big", signed=True)

    def nullable_string(self) -> str | None:
        """Read a text, or null."""
        length = self.number("h")
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise RecordError(f"a text is no UTF-8: {error}", where=f"byte {self._at}") from None

    def string(self) -> str:
        """Read a text; null is an empty one."""
        return self.nullable_string() or ""

    def data(self) -> bytes:
        """Read bytes."""
        return self._take(self.number("i"))
