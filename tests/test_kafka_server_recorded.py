"""Answers over TCP, compared with those of real brokers of ten releases.

The requests, and what is compared, are those of `test_admin_requests.py`, `test_recorded_answers.py` and
`test_recorded_records.py` in `tests/kafka/client_requests`, which play them in virtual time. One command plays all of
them, the releases that are marked slow too:

    pytest -m "slow or not slow" tests/test_kafka_server_recorded.py
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pytest

import simzk
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.structs import Message
from simzk.kafka.releases.config_keys import broker_keys
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.client_requests import recorded_groups, recorded_transactions
from tests.kafka.client_requests import test_admin_requests as admin
from tests.kafka.client_requests import test_recorded_groups as groups
from tests.kafka.client_requests import test_recorded_transactions as transactions
from tests.kafka.client_requests.recorded import RELEASES
from tests.kafka.client_requests.recorded import TOPICS as TOPICS_OF_ANSWERS
from tests.kafka.client_requests.recorded import of_release as answers_of_release
from tests.kafka.client_requests.recorded_admin import of_release as admin_of_release
from tests.kafka.client_requests.recorded_records import NO_ID, TOPICS, Replay, compared, of_release
from tests.kafka.client_requests.recorded_transactions import APIS, DATA_APIS, TRANSACTION_RELEASES
from tests.kafka.client_requests.test_recorded_answers import OF_LOGS, differing
from tests.kafka.client_requests.test_recorded_records import ALLOWED, WITHOUT_RACKS
from tests.kafka.clusters import FOR_EVER
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.kafka.client_requests.recorded import Exchange

M = TypeVar("M", bound=Message)
SHARE = ("3.9.1",)
"""The release that every run plays."""
PLAYED = [pytest.param(release, marks=() if release in SHARE else pytest.mark.slow) for release in RELEASES]
MOMENT_S = 0.02
"""How long bytes on their way within this machine may need, before time jumps further."""
SHORTEST_JUMP_S, LONGEST_JUMP_S = 0.01, 0.2
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

    def receive(self, frame: bytes) -> None:
        """Send the frame of a request."""
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def exchange(self, frame: bytes, limit_s: float = PATIENCE_S) -> bytes | None:
        """Send the frame of a request; return that of the response, or None if there is none."""
        del limit_s  # virtual time; that of the wall is given to the constructor
        self.receive(frame)
        return self._read_frame()

    def _read_frame(self) -> bytes | None:
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


class PatientTcpClient(TcpClient):
    """A connection to a broker whose responses may come later: while it waits, the time of the server jumps.

    Args:
        server: the server.
        broker: the broker's id.
    """

    def __init__(self, server: simzk.KafkaServer, broker: int) -> None:
        super().__init__(server.brokers[broker], PATIENCE_S)
        self._server = server
        self._frames: deque[bytes] = deque()

    @property
    def frames(self) -> Sequence[bytes]:
        """Responses that nobody has read."""
        if not self._frames:
            self._receive_soon()
        return self._frames

    def wait(self, limit_s: float) -> bytes | None:
        """Let time jump until a response arrives, the connection closes, or the limit is over."""
        step_s, waited_s = SHORTEST_JUMP_S, 0.0
        while not self._receive_soon():
            if self.closed or waited_s > limit_s:
                return None
            self._server.advance(step_s)
            waited_s += step_s
            step_s = min(2 * step_s, LONGEST_JUMP_S)
        return self._frames.popleft()

    def call(self, request: Message, version: int, kind: type[M]) -> M:
        """Send a request; return the response."""
        self.receive(encode_request(request, version, correlation_id=1, client_id="test"))
        frame = self._read_frame()
        assert frame is not None, f"no response to {request}; closed: {self.closed}"
        return decode_response(kind, version, frame)[2]

    def _receive_soon(self) -> bool:
        """Read a response that is there or arrives within a moment; return whether there is one."""
        if not self._frames and not self.closed and select.select([self._socket], (), (), MOMENT_S)[0]:
            frame = self._read_frame()
            if frame is not None:
                self._frames.append(frame)
        return bool(self._frames)


class ServerClock:
    """The time of the cluster of a server, in microseconds: wall time, which jumps when somebody waits."""

    def __init__(self, server: simzk.KafkaServer) -> None:
        self._server = server

    @property
    def now_us(self) -> int:
        """The present time."""
        with self._server.cluster.lock:
            return self._server.cluster.scheduler.now_us

    def run_until(self, at_us: int) -> None:
        """Let time jump, unless it has passed already."""
        left_us = at_us - self.now_us
        if left_us > 0:
            self._server.advance(left_us / 1_000_000)


def server_of(release: str, config: Mapping[str, int] | None = None) -> simzk.KafkaServer:
    """Return three brokers as the recorded ones were configured."""
    racks = None if release in WITHOUT_RACKS else {number: f"rack{number}" for number in (1, 2, 3)}
    given = {"auto.create.topics.enable": False, "default.replication.factor": 2, "delete.topic.enable": True}
    given |= {} if release.startswith("0.8") else FOR_EVER  # 0.8 does not know -1
    return simzk.KafkaServer(release, 3, racks, config=given | dict(config or {}))


def make_topics(server: simzk.KafkaServer, topics: Mapping[str, tuple[list[list[int]], dict[str, str]]]) -> None:
    """Create topics of the recorded cluster."""
    for name, (assignment, settings) in topics.items():
        server.create_topic(name, assignment=dict(enumerate(assignment)), config=settings)
    server.run_until_quiet()


def topic_id_of(server: simzk.KafkaServer, topic: str) -> str:
    """Return the id of a topic."""
    with server.cluster.lock:
        return server.cluster.brokers[1].metadata.topic_ids.get(topic, NO_ID)


@pytest.mark.parametrize("story", ["story", "reassign"])
@pytest.mark.parametrize("release", PLAYED)
def test_answers_about_the_cluster_over_tcp_are_those_of_real_brokers(release: str, story: str) -> None:
    """Topics, metadata, elections, reassignments and the APIs that a broker names."""
    compared = [one for one in answers_of_release(release, story) if "raw" not in one]
    if story == "story":
        assert len(compared) > 5
    config = OF_LOGS if broker_keys(kafka_version(release).number) else {}
    with server_of(release, config) as server:
        make_topics(server, {name: (assignment, {}) for name, assignment in TOPICS_OF_ANSWERS.items()})
        if story == "reassign":
            make_topics(server, {"move": ([[1, 2]], {})})
        assert server.controller == 1
        found = differing(
            compared,
            server.cluster.version,
            partial(connected, server),
            lambda: topic_id_of(server, "one"),
        )
    assert found == []


@pytest.mark.parametrize("release", [played for played in PLAYED if played.values[0] in admin.RELEASES])
def test_answers_to_administrators_over_tcp_are_those_of_real_brokers(release: str) -> None:
    """Configurations, quotas, users, features, tokens, log directories and ACLs."""
    config, own = admin.settings_of(release)
    found = []
    for part in admin.PARTS:
        compared = admin_of_release(release, part)
        if not compared:
            continue
        with simzk.KafkaServer(release, 3, admin.RACKS, config=config, broker_config=own) as server:
            topics = {name: (assignment, admin.CONFIGS.get(name, {})) for name, assignment in admin.MADE.items()}
            make_topics(server, topics)
            assert server.controller == 1
            connect = partial(connected, server)
            found += admin.differing(compared, connect, server.run_until_quiet)
    assert found == []


def connected(server: simzk.KafkaServer, exchange: Exchange) -> TcpClient:
    """Return a new connection to the broker of an exchange."""
    return TcpClient(server.brokers[exchange["broker"]], SILENCE_S if "no_answer" in exchange else PATIENCE_S)


@pytest.mark.parametrize("release", PLAYED)
def test_answers_to_producers_and_consumers_over_tcp_are_those_of_real_brokers(release: str) -> None:
    with server_of(release) as server:
        make_topics(server, TOPICS)
        limit_s = PATIENCE_S
        replay = Replay(
            lambda broker: TcpClient(server.brokers[broker], limit_s), lambda topic: topic_id_of(server, topic)
        )
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


@pytest.mark.parametrize("release", PLAYED)
def test_answers_to_consumer_groups_over_tcp_are_those_of_real_brokers(release: str) -> None:
    with simzk.KafkaServer(release, 3, config=groups.config_of(release)) as server:
        groups.make_topics(server, release)
        replay = recorded_groups.Replay(partial(PatientTcpClient, server), ServerClock(server))
        differing = replay.play(recorded_groups.of_release(release))
        with server.cluster.lock:
            for broker in server.cluster.brokers.values():
                broker.groups.check()
    assert groups.unexpected(release, differing) == []


@pytest.mark.parametrize("release", [one for one in PLAYED if one.values[0] in TRANSACTION_RELEASES])
def test_answers_to_transactional_producers_over_tcp_are_those_of_real_brokers(release: str) -> None:
    """The coordinators, and the leaders and groups of their transactions."""
    with simzk.KafkaServer(release, 3, config=transactions.CONFIG) as server:
        connect = partial(PatientTcpClient, server)
        transactions.prepare(server, release, connect)
        replay = recorded_transactions.Replay(server.cluster, connect, ServerClock(server))
        sent = recorded_transactions.of_release(release, (*APIS, *DATA_APIS))
        differing = replay.play(sent)
        with server.cluster.lock:
            for broker in server.cluster.brokers.values():
                broker.transactions.check()
                broker.groups.check()
    assert transactions.unexpected(release, differing) == []
