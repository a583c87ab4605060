"""`simzk serve` as a script starts it: first line, signals, a data directory that survives a kill, refusals."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from simzk.zookeeper import requests as req
from tests.serve.tcp_client import TcpClient, word
from tests.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


class Process:
    """A running `simzk serve`."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "simzk", "serve", *arguments]
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.popen.stdout is not None
        self.line = self.popen.stdout.readline()
        self.port = int(self.line.rpartition(":")[2] or 0)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; the exit status and what was said on stderr."""
        self.popen.send_signal(number)
        _, said = self.popen.communicate(timeout=PATIENCE_S)
        return self.popen.returncode, said


@contextmanager
def serving(*arguments: str) -> Iterator[Process]:
    process = Process(*arguments)
    try:
        yield process
    finally:
        if process.popen.poll() is None:
            process.end(signal.SIGKILL)


def refused(*arguments: str) -> str:
    """Return the error of a `simzk serve` that must not start."""
    command = [sys.executable, "-m", "simzk", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_line_says_where_and_a_signal_stops_it(number: signal.Signals) -> None:
    with serving("--port", "0") as process, TcpClient(process.port) as client:
        assert process.line == f"listening on 127.0.0.1:{process.port}\n"
        client.connect()
        assert client.ask(req.Create("/a", b"", req.OPEN_ACL, 0)).error == 0
        assert process.end(number) == (0, "")


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--data-dir", str(tmp_path / "data"))
    with serving(*arguments) as process, TcpClient(process.port) as client:
        session = client.connect(timeout_ms=30_000)
        client.ask(req.Create("/a", b"kept", req.OPEN_ACL, 0))
        client.ask(req.Create("/e", b"", req.OPEN_ACL, 1))
        process.end(signal.SIGKILL)
    with serving(*arguments) as process, TcpClient(process.port) as client:
        assert client.connect(session=session).session_id == session.session_id
        assert client.ask(req.GetData("/a", False)).body[0] == b"kept"  # type: ignore[index]
        assert client.ask(req.GetEphemerals(None)).body == ["/e"]
        assert process.end(signal.SIGTERM) == (0, "")


def test_a_zoo_cfg_in_the_place_of_the_real_server(tmp_path: Path) -> None:
    config = tmp_path / "zoo.cfg"
    config.write_text(
        f"tickTime=500\ndataDir={tmp_path}/data\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.serverPort=0\n"
    )
    with serving("--config", str(config)) as process:
        assert word(process.port, b"ruok").startswith("ruok is not executed")
        assert "Mode: standalone" in word(process.port, b"srvr")
        status, said = process.end(signal.SIGTERM)
        assert status == 0
        assert said.startswith("simzk: AdminServer on http://0.0.0.0:")


def test_a_damaged_log_is_said_and_the_rest_is_served(tmp_path: Path) -> None:
    with serving("--port", "0", "--data-dir", str(tmp_path)) as process, TcpClient(process.port) as client:
        client.connect()
        client.ask(req.Create("/a", b"", req.OPEN_ACL, 0))
        client.ask(req.Create("/b", b"", req.OPEN_ACL, 0))
        process.end(signal.SIGKILL)
    (log,) = tmp_path.glob("version-2/log.*")
    log.write_bytes(log.read_bytes()[:-5])
    with serving("--port", "0", "--data-dir", str(tmp_path)) as process, TcpClient(process.port) as client:
        client.connect()
        assert [client.ask(req.Exists(path, False)).error for path in ("/a", "/b")] == [0, -101]
        assert process.end(signal.SIGTERM)[1].startswith("simzk: lost: ")


def test_a_data_directory_is_one_process_at_a_time(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--data-dir", str(tmp_path))
    with serving(*arguments) as process:
        assert refused(*arguments) == (
            f"simzk: error: {tmp_path}/version-2: another server is using it;"
            " expected a directory of its own for each server\n"
        )
        process.end(signal.SIGKILL)
    with serving(*arguments) as process:
        assert process.end(signal.SIGTERM) == (0, "")


def test_what_cannot_be_is_one_line_and_exit_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused("--port", str(port)) == (
            f"simzk: error: 127.0.0.1:{port}: cannot listen: Address already in use; "
            "expected a free port, or 0 for any\n"
        )
        assert "Address already in use" in refused("--port", "0", "--admin-port", str(port))
    assert "is not a port" in refused("--port", "x")
    assert "unrecognized arguments: --sevrers 3" in refused("--sevrers", "3")
    assert "cannot be read: No such file" in refused("--config", str(tmp_path / "none.cfg"))
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in refused("--port", "0", "--data-dir", str(tmp_path / "file"))


def test_a_corrupt_data_directory_is_one_line_and_exit_2(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--data-dir", str(tmp_path))
    with serving(*arguments) as process, TcpClient(process.port) as client:
        client.connect()
        for name in "abc":
            client.ask(req.Create(f"/{name}", b"", req.OPEN_ACL, 0))
        process.end(signal.SIGKILL)
    (log,) = tmp_path.glob("version-2/log.*")
    (snapshot,) = tmp_path.glob("version-2/snapshot.*")
    whole = log.read_bytes()
    log.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    assert f"{log}: " in refused(*arguments)
    log.write_bytes(b"no log at all")
    assert f"{log}: " in refused(*arguments)
    log.write_bytes(whole)
    snapshot.write_bytes(snapshot.read_bytes()[:-9])
    assert "it contains only damaged snapshots; expected a whole snapshot" in refused(*arguments)


def test_warnings_about_a_zoo_cfg_are_lines_on_stderr(tmp_path: Path) -> None:
    config = tmp_path / "zoo.cfg"
    config.write_text(f"dataDir={tmp_path}/data\nclientPort=0\nadmin.enableServer=false\nsnpCount=3\nsnapCount=few\n")
    with serving("--config", str(config)) as process:
        said = (
            "4: unknown key snpCount has no effect",
            "5: invalid snapCount: 'few', the default is used instead; expected a whole number",
        )
        lines = "".join(f"simzk: warning: {config}:{line}\n" for line in said)
        assert process.end(signal.SIGTERM) == (0, lines)
    config.write_text("tickTime=fast\n")
    assert refused("--config", str(config)) == (
        f"simzk: error: {config}:1: invalid tickTime: 'fast'; expected a whole number\n"
    )
