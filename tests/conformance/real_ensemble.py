"""A real ensemble of three ZooKeeper servers for tests: three processes of the server in PySpark's jars.

Rules of this module:
  - free ports are looked for, and others where somebody was quicker; nothing outside a temporary directory
    is touched; all processes are gone when `stop` returns;
  - what a server does by itself (an election, the turn to read-only) is waited for by asking it.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.conformance.real_zookeeper import SUPER_DIGEST, class_path, four_letter_word, free_ports, java

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

TICK_MS = 500
PATIENCE_S = 60.0
SERVERS = (1, 2, 3)
OBSERVER = 4
_SERVING = ("leader", "follower", "observer")


class RealEnsemble:
    """Three servers that turn read-only when they lose their quorum; started by `start` or as a context manager.

    Args:
        boot_from: a directory with the servers' data directories, by their numbers, to get copies of; new where None.
        observer: whether there is a fourth, which has no vote.
        upgrades: whether sessions are local, and if so, whether they become global ones; None for no local sessions.
        jetty: a folder with Jetty's jars, of which each server makes an AdminServer; None for no AdminServers.
    """

    def __init__(
        self,
        *,
        boot_from: Path | None = None,
        observer: bool = False,
        upgrades: bool | None = None,
        jetty: Path | None = None,
    ) -> None:
        self._upgrades = upgrades
        self._boot_from = boot_from
        self.servers = (*SERVERS, OBSERVER) if observer else SERVERS
        self._jetty = jetty
        self._stack = contextlib.ExitStack()
        self._directory = Path()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.ports: dict[int, int] = {}
        self.admin_ports: dict[int, int] = {}
        self.members = ""

    def start(self) -> None:
        """Start all of them and wait until each of them serves."""
        for _ in range(3):
            self._directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="real-ensemble-")))
            if self._boot_from is not None:
                shutil.copytree(self._boot_from, self._directory, dirs_exist_ok=True)
            count = len(self.servers)
            ports = free_ports(4 * count)
            self.ports = dict(zip(self.servers, ports[:count], strict=True))
            self.admin_ports = dict(zip(self.servers, ports[3 * count :], strict=True))
            self.members = "".join(
                f"server.{server}=127.0.0.1:{quorum}:{election}:{'observer' if server == OBSERVER else 'participant'}"
                f";127.0.0.1:{self.ports[server]}\n"
                for server, quorum, election in zip(
                    self.servers, ports[count : 2 * count], ports[2 * count : 3 * count], strict=True
                )
            )
            for server in self.servers:
                self.launch(server)
            self._stack.callback(self._end)
            if self._came_up():
                return
            said = {server: (self._directory / f"log.{server}").read_text()[-1500:] for server in self.servers}
            self._stack.close()
        raise RuntimeError(f"the real ensemble did not start: {said}")

    def _came_up(self) -> bool:
        return all(self._awaits(server, lambda mode: mode in _SERVING) for server in self.servers)

    def launch(self, server: int, *, local_sessions: bool = False) -> None:
        """Start the process of one server, on the data that it has; only with local sessions can it serve read-only."""
        data = self._directory / str(server)
        data.mkdir(exist_ok=True)
        if not (data / "myid").exists():
            (data / "myid").write_text(str(server))
        self.config(server).write_text(
            f"tickTime={TICK_MS}\ndataDir={data}\ninitLimit=20\nsyncLimit=20\n"
            f"admin.enableServer={str(self._jetty is not None).lower()}\nadmin.serverAddress=127.0.0.1\n"
            f"admin.serverPort={self.admin_ports[server]}\nmaxSessionTimeout=40000\nreconfigEnabled=true\n"
            f"4lw.commands.whitelist=*\nDigestAuthenticationProvider.superDigest={SUPER_DIGEST}\n"
            f"localSessionsEnabled={str(local_sessions or self._upgrades is not None).lower()}\n"
            f"localSessionsUpgradingEnabled={str(bool(self._upgrades)).lower()}\n{self.members}"
        )
        self.run(server)

    def config(self, server: int) -> Path:
        """A server's zoo.cfg, which it rewrites itself when it is reconfigured."""
        return self._directory / f"{server}.cfg"

    def run(self, server: int) -> None:
        """Start the process of one server on its zoo.cfg as it is."""
        config = self.config(server)
        settings = (
            "-Dreadonlymode.enabled=true",
            "-Dzookeeper.forceSync=no",
            "-Dfile.encoding=UTF-8",
        )
        path = class_path() if self._jetty is None else f"{class_path()}:{self._jetty}/*"
        main = ("-cp", path, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config))
        with (self._directory / f"log.{server}").open("ab") as output:
            self._processes[server] = subprocess.Popen(
                [*java(), "-Xmx256m", *settings, *main],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill(self, server: int) -> None:
        """Kill the process of one server."""
        process = self._processes.pop(server)
        process.kill()
        process.wait()

    @property
    def hosts(self) -> str:
        """Return the addresses of all servers, as a client's hosts."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def copy_data(self, target: Path) -> None:
        """Copy the data directories of the servers, each in a directory by its number."""
        for server in self.servers:
            shutil.copytree(self._directory / str(server), target / str(server))

    def word(self, server: int, word: bytes) -> str:
        """Return a server's reply to a four-letter word; empty if it refuses the connection."""
        try:
            return four_letter_word(self.ports[server], word).decode()
        except OSError:
            return ""

    def mode(self, server: int) -> str:
        """Return the mode that `srvr` reports; empty while the server does not serve."""
        return next(
            (line.partition(": ")[2] for line in self.word(server, b"srvr").splitlines() if line.startswith("Mode")), ""
        )

    def wait_for_mode(self, server: int, *modes: str) -> None:
        """Wait until a server is in one of these modes.

        Raises:
            TimeoutError: it did not come to that.
        """
        if not self._awaits(server, lambda mode: mode in modes):
            raise TimeoutError(f"server {server} is {self.mode(server)!r}, not one of {modes}")

    def _awaits(self, server: int, is_right: Callable[[str], bool]) -> bool:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            if server in self._processes and self._processes[server].poll() is not None:
                return False
            if is_right(self.mode(server)):
                return True
            time.sleep(0.05)
        return False

    @property
    def leader(self) -> int:
        """The server that leads."""
        return next(server for server in self._processes if self.mode(server) == "leader")

    def _end(self) -> None:
        for server in list(self._processes):
            self.kill(server)

    def stop(self) -> None:
        """Kill what runs and remove what it wrote."""
        self._stack.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
