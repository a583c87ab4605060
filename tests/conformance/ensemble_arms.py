"""Two ensembles with the same handles: a real one and ours, so that one story judges both."""

from __future__ import annotations

from typing import Protocol

from simzk import ZooKeeperServer
from tests.conformance.real_ensemble import SERVERS, RealEnsemble
from tests.serve.tcp_client import word


class EnsembleArm(Protocol):
    """Operations of a story on an ensemble of servers 1, 2 and 3."""

    @property
    def leader(self) -> int: ...

    def port(self, server: int) -> int: ...

    def kill(self, server: int) -> None: ...

    def launch(self, server: int) -> None:
        """Start it again, with local sessions: a real server that has none cannot serve read-only."""

    def word(self, server: int, text: bytes) -> str: ...

    def wait_for_mode(self, server: int, *modes: str) -> None: ...


class RealArm:
    """The real one."""

    def __init__(self, real: RealEnsemble) -> None:
        self._real = real

    @property
    def leader(self) -> int:
        return self._real.leader

    def port(self, server: int) -> int:
        return self._real.ports[server]

    def kill(self, server: int) -> None:
        self._real.kill(server)

    def launch(self, server: int) -> None:
        self._real.launch(server, local_sessions=True)

    def word(self, server: int, text: bytes) -> str:
        return self._real.word(server, text)

    def wait_for_mode(self, server: int, *modes: str) -> None:
        self._real.wait_for_mode(server, *modes)


class SimulatedArm:
    """Ours, on virtual time."""

    def __init__(self) -> None:
        self._ours = ZooKeeperServer(servers=len(SERVERS), read_only=True)

    @property
    def leader(self) -> int:
        leader = self._ours.ensemble.leader
        assert leader is not None
        return leader

    def port(self, server: int) -> int:
        return int(self._ours.ensemble.hosts(server).rpartition(":")[2])

    def kill(self, server: int) -> None:
        self._ours.ensemble.stop(server)

    def launch(self, server: int) -> None:
        self._ours.ensemble.start(server)

    def word(self, server: int, text: bytes) -> str:
        return word(self.port(server), text)

    def wait_for_mode(self, server: int, *modes: str) -> None:
        self._ours.advance(2.0)
        assert self._ours.ensemble.modes[server] in modes

    def close(self) -> None:
        self._ours.close()
