"""A real ZooKeeper for tests and benchmarks: the server in PySpark's jars, in a process of its own.

Rules of this module:
  - a free port is looked for, and another one where somebody was quicker; nothing outside a temporary directory is
    touched; the process is gone when `stop` returns;
  - a server that cannot start raises an error with the reason; tests that need Java have the mark `java`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import zlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

START_S = 60.0
# Of PySpark's jars, those that ZooKeeper's programs use.
JARS = (
    "audience-",
    "commons-",
    "jackson-",
    "jcl-",
    "jline-",
    "jul-",
    "log4j-",
    "metrics-",
    "netty-",
    "slf4j-",
    "snappy-",
    "zookeeper-",
)
SERVER = "org.apache.zookeeper.server.ZooKeeperServerMain"
# "super:test" of kazoo's own suite; the digest is public.
SUPER_DIGEST = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="


def jars() -> Path:
    """The folder of PySpark's jars, among which is ZooKeeper 3.9.

    Raises:
        RuntimeError: PySpark is not installed.
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("a real ZooKeeper comes with PySpark's jars: pip install 'simzk[spark]'")
    return Path(spec.origin).parent / "jars"


@cache
def class_path() -> str:
    """The class path of ZooKeeper 3.9: Java opens each jar of its path, and PySpark has two hundred others."""
    return ":".join(sorted(str(jar) for jar in jars().glob("*.jar") if jar.name.startswith(JARS)))


@cache
def java() -> list[str]:
    """The beginning of a command that starts a program with `class_path()`, or a longer path, in little time.

    The classes that a server loads are archived at the first use on a machine, which takes some seconds. A server
    starts with a quarter of the processor time then.

    Raises:
        RuntimeError: the server that was to be archived did not start.
    """
    folder = Path(tempfile.gettempdir(), f"simzk-tests-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    quick = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xlog:disable"]
    said = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    archive = folder / f"classes-{zlib.crc32(said + class_path().encode()):08x}.jsa"
    if not archive.exists():
        with RealZooKeeper(begin=[*quick, f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()}"]) as server:
            server.end_gently()
        os.replace(f"{archive}.{os.getpid()}", archive)
    return [*quick, f"-XX:SharedArchiveFile={archive}"]


def four_letter_word(port: int, word: bytes) -> bytes:
    """Return the reply of the server at `port` to a four-letter word."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(word)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def free_port() -> int:
    """A port that nobody has at this moment."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports that nobody has at this moment."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class RealZooKeeper:
    """One standalone server, started by `start` or as a context manager.

    Args:
        tick_time_ms: the server's tick; sessions may be from 2 ticks to 40 s long.
        settings: lines of zoo.cfg beside its own, by key; None leaves out a line of its own.
        properties: Java system properties beside those that make it quick (no fsync) and complete (extended types).
        boot_from: a data directory that it gets a copy of; an empty one where None.
        jars_from: the folder of its jars; PySpark's where None.
        begin: the beginning of its command; `java()` where None.
    """

    def __init__(
        self,
        *,
        tick_time_ms: int = 500,
        settings: Mapping[str, str | None] | None = None,
        properties: Mapping[str, str] | None = None,
        boot_from: Path | None = None,
        jars_from: Path | None = None,
        begin: list[str] | None = None,
    ) -> None:
        self._jars = jars_from
        self._begin = begin
        self._tick_time_ms = tick_time_ms
        self._boot_from = boot_from
        self._settings = settings or {}
        self._log = Path()
        self._properties = {
            "zookeeper.forceSync": "no",
            "zookeeper.extendedTypesEnabled": "true",
            "zookeeper.DigestAuthenticationProvider.superDigest": SUPER_DIGEST,
            **(properties or {}),
        }
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.data_directory = Path()

    @property
    def hosts(self) -> str:
        """Return the server's address, as a client's hosts."""
        return f"127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        """Return the server's log output."""
        return self._log.read_text()

    def start(self) -> None:
        """Start it and wait until it serves."""
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="real-zookeeper-")))
        self.data_directory = directory / "data"
        if self._boot_from is not None:
            shutil.copytree(self._boot_from, self.data_directory)
        log = self._log = directory / "log"
        for _ in range(5):
            self.port = free_port()
            self._process = self._launch(directory, log)
            if self._serves():
                self._stack.callback(self._end)
                return
            self._end()
            if "BindException" not in log.read_text():
                break
        reason = log.read_text()[-2000:]
        self._stack.close()
        raise RuntimeError(f"the real ZooKeeper did not start: {reason}")

    def _launch(self, directory: Path, log: Path) -> subprocess.Popen[bytes]:
        config = directory / "zoo.cfg"
        lines: dict[str, object] = {
            "tickTime": self._tick_time_ms,
            "dataDir": self.data_directory,
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            "maxSessionTimeout": 40000,
            "4lw.commands.whitelist": "*",
            "reconfigEnabled": "true",
            **self._settings,
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items() if value is not None))
        quiet = directory / "logback.xml"  # of 3.8 and later without other settings: every line of DEBUG
        quiet.write_text('<configuration><root level="ERROR"/></configuration>')
        properties = {"logback.configurationFile": quiet, **self._properties}
        settings = [f"-D{name}={value}" for name, value in properties.items()]
        if self._jars is None:
            begin = [*(self._begin or java()), "-cp", class_path()]
        else:
            begin = ["java", "-cp", f"{self._jars}/*"]
        with log.open("wb") as output:
            return subprocess.Popen(
                [*begin, "-Xmx512m", "-Dfile.encoding=UTF-8", *settings, SERVER, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _serves(self) -> bool:
        assert self._process is not None
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            if self._process.poll() is not None:
                return False
            with contextlib.suppress(OSError):
                if b"Mode:" in four_letter_word(self.port, b"srvr"):
                    return True
            time.sleep(0.05)
        return False

    def end_gently(self) -> None:
        """Let Java end by itself, which writes what it was asked to write at its exit."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(START_S)

    def _end(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Kill it and remove what it wrote."""
        self._stack.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
