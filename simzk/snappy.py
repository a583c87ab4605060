"""Snappy compression of snapshots and record batches: raw blocks in the frames of snappy-java's streams, without IO.

Rules of this module:
  - a stream is a header, then frames of a length and a block; a block declares its unpacked length;
  - the packer finds repetitions as the reference implementation does, by a table of hashed four bytes, with steps that
    grow while it finds none. A block is never much longer than its data.

Source: format description of google/snappy; SnappyOutputStream, SnappyInputStream of snappy-java.
"""

from __future__ import annotations

import struct

STREAM_HEAD = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
BLOCK_BYTES = 32 * 1024
_MAX_BLOCK_BYTES = 1 << 28
_FRAME = struct.Struct(">i")
_LITERAL, _COPY_2 = 0, 2


class SnappyError(ValueError):
    """Malformed or truncated stream."""


def pack_frame(data: bytes) -> bytes:
    """Return a frame of a stream with at most `BLOCK_BYTES` of data.

    >>> pack_frame(b"abcdabcdabcdabcd")
    b'\\x00\\x00\\x00\\t\\x10\\x0cabcd.\\x04\\x00'
    """
    assert len(data) <= BLOCK_BYTES
    block = pack_block(data)
    return _FRAME.pack(len(block)) + block


def pack_block(data: bytes) -> bytes:
    """Return a block of the raw format."""
    assert len(data) <= 1 << 16, f"{len(data)} bytes are too many for offsets of two bytes"
    out = bytearray(_varint(len(data)))
    seen: dict[bytes, int] = {}
    at = literal = 0
    misses = 32
    last = len(data) - 4
    while at <= last:
        four = data[at : at + 4]
        before = seen.get(four, -1)
        seen[four] = at
        if before < 0:
            at += misses >> 5
            misses += 1
            continue
        length = 4
        while at + length < len(data) and data[before + length] == data[at + length]:
            length += 1
        _put_literal(out, data[literal:at])
        _put_copy(out, at - before, length)
        at += length
        literal, misses = at, 32
    _put_literal(out, data[literal:])
    return bytes(out)


def _varint(number: int) -> bytes:
    assert number >= 0
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _put_literal(out: bytearray, data: bytes) -> None:
    if not data:
        return
    size = len(data) - 1
    assert size < 1 << 16
    if size < 60:
        out.append(size << 2 | _LITERAL)
    else:
        width = 1 if size < 1 << 8 else 2
        out.append((59 + width) << 2 | _LITERAL)
        out += size.to_bytes(width, "little")
    out += data


def _put_copy(out: bytearray, offset: int, length: int) -> None:
    assert 0 < offset < 1 << 16, "a copy with an offset of two bytes"
    while length:
        part = min(length, 64)
        out.append((part - 1) << 2 | _COPY_2)
        out += offset.to_bytes(2, "little")
        length -= part


def unpack_block(block: bytes) -> bytes:
    """Return the data of a block of the raw format.

    Raises:
        SnappyError: the block is malformed.

    >>> unpack_block(pack_block(b"to be or not to be, to be or not"))
    b'to be or not to be, to be or not'
    """
    try:
        size, at = _read_varint(block)
        if size > _MAX_BLOCK_BYTES:
            raise SnappyError(f"a block of {size} bytes is too long")
        out, have, end = bytearray(), 0, len(block)
        # Most of a block is copies, so they are decoded without calls.
        while at < end:
            tag = block[at]
            kind, length = tag & 3, (tag >> 2) + 1
            if kind == _COPY_2:
                offset = block[at + 1] | block[at + 2] << 8
                at += 3
            elif kind == _LITERAL:
                at += 1
                if length > 60:
                    width = length - 60
                    length = int.from_bytes(block[at : at + width], "little") + 1
                    at += width
                out += block[at : at + length]
                at += length
                have += length
                if len(out) != have:
                    raise SnappyError("a literal is truncated")
                continue
            elif kind == 1:
                length, offset = (tag >> 2 & 7) + 4, tag >> 5 << 8 | block[at + 1]
                at += 2
            else:
                offset = int.from_bytes(block[at + 1 : at + 5], "little")
                at += 5
            begin = have - offset
            if not 0 <= begin < have:
                raise SnappyError("a copy begins before the block")
            if offset >= length:
                out += out[begin : begin + length]
            else:  # the copy overlaps its own output
                out += (out[begin:] * (length // offset + 1))[:length]
            have += length
            if have > size:
                break
    except IndexError:
        raise SnappyError("a block is truncated") from None
    if len(out) != size:
        raise SnappyError("a block has another length than it declares")
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    number = shift = at = 0
    while data[at] & 0x80:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 28:
            raise SnappyError("the length of a block has too many bytes")
    return number | data[at] << shift, at + 1


class Unpacker:
    """Unpacker of a stream, fed with bytes as they are read."""

    def __init__(self) -> None:
        self._buffer = b""
        self._begun = False

    def feed(self, data: bytes) -> bytes:
        """Return the data of the frames that these bytes complete.

        Raises:
            SnappyError: the stream is malformed.
        """
        self._buffer += data
        if not self._begun:
            if len(self._buffer) < len(STREAM_HEAD):
                return b""
            if not self._buffer.startswith(STREAM_HEAD[:8]):
                raise SnappyError("the stream has no snappy header")
            self._buffer, self._begun = self._buffer[len(STREAM_HEAD) :], True
        out = bytearray()
        at = 0
        while at + 4 <= len(self._buffer):
            (length,) = _FRAME.unpack_from(self._buffer, at)
            if not 0 <= length <= _MAX_BLOCK_BYTES:
                raise SnappyError(f"length {length} of a frame is out of range")
            if at + 4 + length > len(self._buffer):
                break
            out += unpack_block(self._buffer[at + 4 : at + 4 + length])
            at += 4 + length
        self._buffer = self._buffer[at:]
        return bytes(out)
