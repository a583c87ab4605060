"""TLS client that sees the records in which a server's bytes arrive."""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Self

from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from types import TracebackType

_HEADER_BYTES = 5  # of a record: type, version, length
_LENGTH_BYTES = 4  # before each message of ZooKeeper and of Kafka


class RecordClient:
    """One TLS connection to a port of this machine that decrypts one record at a time."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._raw = b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = tls.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        while not self._is_greeted():
            self._feed()
        self._flush()

    def _is_greeted(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        return True

    def _flush(self) -> None:
        self._socket.sendall(self._outgoing.read())

    def _feed(self) -> None:
        """Pass the next record to the TLS layer."""
        while len(self._raw) < (needed := _HEADER_BYTES + int.from_bytes(self._raw[3:_HEADER_BYTES], "big")):
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionResetError("the server closed the connection")
            self._raw += received
        self._incoming.write(self._raw[:needed])
        self._raw = self._raw[needed:]

    def send(self, data: bytes) -> None:
        """Send bytes at once."""
        self._object.write(data)
        self._flush()

    def record(self) -> bytes:
        """Return the bytes of the next record that has any; the TLS layer's own are skipped."""
        while True:
            self._feed()
            try:
                data = self._object.read(1 << 16)
            except ssl.SSLWantReadError:
                continue
            assert not self._object.pending(), "one record was passed on"
            return data

    def message(self) -> tuple[bytes, int]:
        """Return the next message with its length, and the number of its records.

        Raises:
            AssertionError: the last of its records has bytes of another message.
        """
        data, count = b"", 0
        while len(data) < _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big") or len(data) < _LENGTH_BYTES:
            data += self.record()
            count += 1
        length = int.from_bytes(data[:_LENGTH_BYTES], "big")
        assert len(data) == _LENGTH_BYTES + length, f"{len(data) - length - _LENGTH_BYTES} bytes of another message"
        return data, count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
