"""Conversations of clients with one broker, written down field by field, whether the broker is real or simulated.

Rules of this module:
  - a line says what was sent and what came of it: a response, `closed`, or `silent` if nothing came in `SILENCE_S`;
  - `late` says that it came after the delay of failed logins, which is far longer than anything else that a client
    waits for;
  - bytes are text if they are printable, else hexadecimal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from simzk.kafka.protocol.classes import message_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from tests.kafka.protocol.plain import to_plain

if TYPE_CHECKING:
    from simzk.kafka.protocol.structs import Message

DELAY_MS = 600
"""`connection.failed.authentication.delay.ms` of the broker."""
LATE_S = 0.45
SILENCE_S = 1.3
ANSWER_S = 20.0
CLIENT = "story"


class Wire(Protocol):
    """A connection to a broker."""

    def send(self, frame: bytes) -> None:
        """Send a frame."""

    def wait(self, limit_s: float) -> bytes | None:
        """Return the next frame; None if the connection is closed, or nothing comes."""

    @property
    def closed(self) -> bool:
        """Whether the broker has closed the connection."""

    def now_s(self) -> float:
        """Return the time."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""

    def end(self) -> None:
        """Close the connection, if it is open."""


def readable(value: Any) -> Any:
    """Return a value with bytes as text or hexadecimal."""
    if isinstance(value, dict):
        return {name: readable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [readable(item) for item in value]
    if not isinstance(value, bytes):
        return value
    if value.isascii() and value.decode("ascii", "replace").replace("\0", "a").isprintable():
        return {"text": value.decode()}
    return {"hex": value.hex()}


class Conversation:
    """A connection on which everything is written down.

    Args:
        wire: the connection.

    Attributes:
        lines: what was sent and what came of it, in order.
    """

    def __init__(self, wire: Wire) -> None:
        self.lines: list[dict[str, Any]] = []
        self._wire = wire
        self._number = 0

    def ask(self, request: Message, version: int, *, sent_version: int | None = None, limit_s: float = ANSWER_S) -> Any:
        """Send a request; return the response, None for none.

        Args:
            request: the request.
            version: its version.
            sent_version: another version that its header names.
            limit_s: how long to wait.
        """
        self._number += 1
        api = request.MESSAGE.name.removesuffix("Request")
        frame = encode_request(request, version, correlation_id=self._number, client_id=CLIENT)
        if sent_version is not None:
            frame = frame[:2] + sent_version.to_bytes(2, "big") + frame[4:]
        line = {"api": api, "version": version if sent_version is None else sent_version}
        line["request"] = readable(to_plain(request, version))
        answer = self._exchange(line, frame, limit_s)
        if answer is None:
            return None
        number, answered, response = decode_response(message_class(api + "Response"), version, answer)
        assert number == self._number
        line["response"] = readable(to_plain(response, answered))
        if answered != version:
            line["answered"] = answered
        return response

    def token(self, data: bytes) -> bytes | None:
        """Send a bare frame; return the answer, None for none."""
        line: dict[str, Any] = {"frame": readable(data) if len(data) < 1000 else {"size": len(data)}}
        answer = self._exchange(line, data, SILENCE_S)
        if answer is not None:
            line["answer"] = readable(answer)
        return answer

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self._wire.pause(seconds)

    def note(self, what: str, value: object) -> None:
        """Write down something that the client has found out."""
        self.lines.append({what: value})

    def end(self) -> None:
        """Note whether the broker closes the connection by itself, and close it."""
        line: dict[str, Any] = {"end": True}
        if self._expect(line, SILENCE_S) is not None:
            line["another answer"] = True
        self.lines.append(line)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection."""
        self._wire.end()

    def _exchange(self, line: dict[str, Any], frame: bytes, limit_s: float) -> bytes | None:
        self.lines.append(line)
        self._wire.send(frame)
        return self._expect(line, limit_s)

    def _expect(self, line: dict[str, Any], limit_s: float) -> bytes | None:
        began_s = self._wire.now_s()
        answer = self._wire.wait(limit_s)
        if answer is None:
            line["closed" if self._wire.closed else "silent"] = True
        if not line.get("silent") and self._wire.now_s() - began_s >= LATE_S:
            line["late"] = True
        return answer
