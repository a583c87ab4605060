"""Cutting a stream of bytes into frames: a 4-byte length, then so many bytes (§1.1)."""

from __future__ import annotations

from simzk.zookeeper.jute import MalformedError

_HEADER_BYTES = 4


class FrameBuffer:
    """Takes bytes as they arrive, gives whole frames.

    Args:
        max_bytes: the longest frame that is taken.

    Attributes:
        pending: the beginning of a frame that is not whole yet.

    >>> frames = FrameBuffer(100)
    >>> frames.receive(b"\\0\\0\\0\\2h"), frames.receive(b"i\\0\\0")
    ([], [b'hi'])
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.pending = b""

    def receive(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes.

        Raises:
            BadLengthError: a length that no frame may have; it is told before the body arrives. The error holds the
                frames that were whole before it.
        """
        buffer = self.pending + data if self.pending else data
        frames: list[bytes] = []
        at, end = 0, len(buffer)
        while end - at >= _HEADER_BYTES:
            length = int.from_bytes(buffer[at : at + _HEADER_BYTES], "big", signed=True)
            if not 0 <= length <= self._max_bytes:
                self.pending = b""
                raise BadLengthError(length, frames)
            behind = at + _HEADER_BYTES + length
            if behind > end:
                break
            frames.append(buffer[at + _HEADER_BYTES : behind])
            at = behind
        self.pending = buffer[at:]
        return frames


class BadLengthError(MalformedError):
    """A frame of a length that is refused; `frames` came whole before it."""

    def __init__(self, length: int, frames: list[bytes]) -> None:
        super().__init__(f"a frame of {length} bytes")
        self.length = length
        self.frames = frames


def framed(out: bytearray) -> bytes:
    """`out`, which begins with four bytes of room, with its length in them."""
    out[:_HEADER_BYTES] = (len(out) - _HEADER_BYTES).to_bytes(_HEADER_BYTES, "big")
    return bytes(out)


def new_frame() -> bytearray:
    """An empty frame, with room for its length."""
    return bytearray(_HEADER_BYTES)
