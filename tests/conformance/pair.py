"""A simulated and a real server asked alike, and compared after each answer (comparison.py)."""

from __future__ import annotations

from typing import Any

import pytest

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.replies import ConnectResponse, WatchedEvent
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.sessions import password_of
from tests.conformance.arms import Arm, Asked, RealArm, SimulatedArm
from tests.conformance.comparison import Normaliser, differences
from tests.conformance.real_zookeeper import SUPER_DIGEST
from tests.conformance.traffic import Traffic

STEPS = 130
CLIENTS = (1, 2, 3)
CLEANER = 0
TICK_MS = 2000

# Like CONFIG below. The real server sweeps by its own clock; sweeps have tests of their own.
PROPERTIES = {"znode.container.checkIntervalMs": str(10**9), "zookeeper.enforceQuota": "true"}

CONFIG = ServerConfig(
    tick_time_ms=TICK_MS,
    max_session_timeout_ms=40_000,
    extended_types=True,
    enforce_quota=True,
    super_digest=SUPER_DIGEST,
    reconfig_enabled=True,
    container_check_interval_ms=10**9,
)


def last_answer(stream: list[Any]) -> int:
    """The offset behind the last message of a stream that is no watch event."""
    return max((index + 1 for index, said in enumerate(stream) if not isinstance(said, WatchedEvent)), default=0)


class Pair:
    """Both arms, asked alike and compared after each answer."""

    def __init__(self, port: int) -> None:
        self.real = RealArm(port)
        self.simulated = SimulatedArm(CONFIG, zxid=0)
        self._normalise = {"simulated": Normaliser(self.simulated.times_ms), "real": Normaliser()}
        self._compared: dict[int, int] = {}
        self._xids: dict[int, int] = {}
        self.sessions: dict[int, tuple[int, int]] = {}
        # Sessions whose client went on with another: they must be ended before the real server's clock does it.
        self._forsaken: list[tuple[int, int]] = []
        self.log: list[str] = []
        self.failed = False

    def connect(
        self, client: int, timeout_ms: int, *, resume: bool = False, password: str = "right", ahead: int = 0
    ) -> None:
        """Open a connection on both sides: for a new session, or for the one that the client had."""
        self.log.append(f"client {client}: connect timeout={timeout_ms} resume={resume} {password} ahead={ahead}")
        seen = self.simulated.server.zxid + ahead
        ids = self.sessions.get(client, (0, 0)) if resume else (0, 0)
        arms: tuple[Arm, Arm] = (self.simulated, self.real)
        for arm, session_id in zip(arms, ids, strict=True):
            secret = {"right": password_of(session_id), "wrong": bytes(16), "null": None}[password]
            read_only = None if timeout_ms % 2 else False
            arm.connect(client, req.ConnectRequest(0, seen, timeout_ms, session_id, secret, read_only))
        self.compare(client)
        answers = [self._connected(arm.streams[client]) for arm in (self.simulated, self.real)]
        if answers[0] and answers[1] and (answers[0], answers[1]) != self.sessions.get(client):
            self._forsaken.append(self.sessions.get(client, (0, 0)))
            self.sessions[client] = answers[0], answers[1]

    @staticmethod
    def _connected(stream: list[Any]) -> int:
        """The session id of the last answer to a connect request."""
        return next((said.session_id for said in reversed(stream) if isinstance(said, ConnectResponse)), 0)

    def send(self, client: int, batch: list[Asked]) -> None:
        numbered = []
        for asked in batch:
            self._xids[client] = self._xids.get(client, 0) + 1
            numbered.append((self._xids[client], asked))
            self.log.append(f"client {client}: {asked}")
        self.simulated.send(client, numbered)
        self.real.send(client, numbered)
        self.compare(client)

    def drop(self, client: int) -> None:
        """Cut the client's connection on both sides; a ping before it tells that all was read until then."""
        self.send(client, [req.Ping()])
        self.log.append(f"client {client}: dropped")
        self.simulated.drop(client)
        self.real.drop(client)

    def let_expire(self, client: int) -> None:
        """Say nothing for a client until its session has expired on both sides.

        The real server queues the events that the end of the session makes, and closes the socket without waiting
        for its sending thread: any number of the last of them may be lost. The rest must be ours.
        """
        self.log.append(f"client {client}: silent until it expires")
        self.simulated.let_expire(client)
        self.real.let_expire(client)
        ours, theirs = self.simulated.streams[client], self.real.streams[client]
        del ours[len(theirs) - 1 : -1]
        self.compare(client)

    def is_open(self, client: int) -> bool:
        return self.simulated.is_open(client)

    def compare(self, client: int) -> None:
        """Compare what the client was sent since the last time, up to the last answer: behind it, events may be on
        their way."""
        begin = self._compared.get(client, 0)
        ours, theirs = self.simulated.streams[client], self.real.streams[client]
        end = max(map(last_answer, (ours, theirs)))
        simulated = tuple(self._normalise["simulated"](said) for said in ours[begin:end])
        real = tuple(self._normalise["real"](said) for said in theirs[begin:end])
        found = differences(simulated, real)
        if found or self.simulated.is_open(client) != self.real.is_open(client):
            self.failed = True
            history = "\n  ".join(self.log[-12:])
            pytest.fail(
                f"simulated | real differ:\n  {chr(10).join(found) or 'one of them closed the connection'}"
                f"\nafter\n  {history}\nsimulated: {ours[begin:end]}\nreal:      {theirs[begin:end]}"
            )
        self._compared[client] = end

    def play(self, seed: int) -> None:
        """All of one seed's traffic, and then everything removed."""
        traffic = Traffic(seed, self.simulated.server.tree)
        for _ in range(STEPS):
            client = traffic.pick(CLIENTS)
            if not self.is_open(client):
                self._open(client, traffic)
            elif traffic.chance(0.01):
                self.drop(client)
            elif traffic.chance(0.01):
                # Taken up from elsewhere while the connection is still there, with the right password or not.
                self.connect(client, 30_000, resume=True, password="right" if traffic.chance(0.7) else "wrong")
            else:
                self.send(client, traffic.batch(self.simulated.server.zxid))
        self.clean()

    def _open(self, client: int, traffic: Traffic) -> None:
        timeout_ms = traffic.pick((30_000, 30_001, 39_999, 40_001, 2**31 - 1))
        resume = client in self.sessions and traffic.chance(0.6)
        if traffic.chance(0.1):
            self.connect(client, timeout_ms, resume=resume, ahead=1 + traffic.pick((0, 2**40)))
        elif resume and traffic.chance(0.2):
            self.connect(client, timeout_ms, resume=True, password="wrong" if traffic.chance(0.5) else "null")
        else:
            self.connect(client, timeout_ms, resume=resume)

    def _end_session(self, client: int) -> None:
        if not self.is_open(client):
            self.connect(client, 30_000, resume=True)
        if self.is_open(client):
            self.send(client, [req.CloseSession()])

    def clean(self) -> None:
        """End every session, remove every node, through both servers."""
        for client in CLIENTS:
            self._end_session(client)
        while self._forsaken:
            ids = self._forsaken.pop()
            if ids != (0, 0):
                self.sessions[CLIENTS[0]] = ids
                self._end_session(CLIENTS[0])
        self.connect(CLEANER, 40_000)
        self.send(CLEANER, [req.Auth(0, "digest", b"super:test")])
        nodes = [path for path, _ in self.simulated.server.tree.walk()]
        for path in nodes:
            self.send(CLEANER, [req.GetData(path, False), req.GetACL(path), req.GetChildren2(path, False)])
        initial = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}
        for path in reversed(nodes):
            self.send(CLEANER, [req.SetACL(path, OPEN_ACL, -1) if path in initial else req.Delete(path, -1)])
        # No session is left: while other tests run, the real server's clock would end it.
        self._end_session(CLEANER)
