"""Answers over TCP to producers and consumers, compared with those of real brokers of ten releases.

The requests, and what is compared, are those of `tests/kafka/client_requests/test_recorded_records.py`, which plays
them in virtual time.
"""

from __future__ import annotations

import json
import socket
import struct

import pytest

import simzk
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.client_requests.recorded_records import NO_ID, TOPICS, Replay, compared, of_release
from tests.kafka.client_requests.test_recorded_records import ALLOWED, WITHOUT_RACKS
from tests.waiting import PATIENCE_S

SILENCE_S = 0.3
"""How long to wait for a response that the real broker did not send."""
APART_S = 0.002


class TcpClient:
    """A connection to a broker, with the interface of `MemoryClient`.

    Args:
        address: host and port of the broker.
        limit_s: longest time to wait for a response.
    """

    def __init__(self, address: str, limit_s: float) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._socket.settimeout(limit_s)
        self.closed = False

    @property
    def connection(self) -> TcpClient:
        """The connection, which is this object."""
        return self

    def hang_up(self) -> None:
        """Close the connection."""
        self._socket.close()

    def exchange(self, frame: bytes, limit_s: float) -> bytes | None:
        """Send the frame of a request; return that of the response, or None if there is none."""
        del limit_s  # virtual time; that of the wall is given to the constructor
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        try:
            head = self._read(4)
            return self._read(*struct.unpack(">i", head))
        except TimeoutError:
            return None
        except EOFError:
            self.closed = True
            return None

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                data = self._socket.recv(size - len(found))
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            found += data
        return found


def server_of(release: str) -> simzk.KafkaServer:
    """Return three brokers with the topics of the recorded cluster."""
    racks = None if release in WITHOUT_RACKS else {number: f"rack{number}" for number in (1, 2, 3)}
    config = {"auto.create.topics.enable": False, "default.replication.factor": 2, "delete.topic.enable": True}
    server = simzk.KafkaServer(release, 3, racks, config=config)
    for name, (assignment, settings) in TOPICS.items():
        server.create_topic(name, assignment=dict(enumerate(assignment)), config=settings)
    server.run_until_quiet()
    return server


@pytest.mark.parametrize("release", RELEASES)
def test_answers_over_tcp_are_those_of_real_brokers(release: str) -> None:
    with server_of(release) as server:
        limit_s = PATIENCE_S

        def topic_id(topic: str) -> str:
            with server.cluster.lock:
                return server.cluster.brokers[1].metadata.topic_ids.get(topic, NO_ID)

        replay = Replay(lambda broker: TcpClient(server.brokers[broker], limit_s), topic_id)
        found = []
        for exchange in of_release(release):
            limit_s = SILENCE_S if "no_answer" in exchange else PATIENCE_S
            got, wanted = compared(exchange, replay.play(exchange)), compared(exchange, exchange)
            server.advance(APART_S)
            if got != wanted and exchange["version"] not in ALLOWED.get((release, exchange["step"]), ((), ""))[0]:
                asked = f"{exchange['step']} | {exchange['api']} v{exchange['version']}"
                found.append(f"{asked}: expected\n  {json.dumps(wanted)}\n, got\n  {json.dumps(got)}")
        with server.cluster.lock:
            server.cluster.check()
    assert found == []
