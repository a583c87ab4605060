"""Dialogue of a foreign client with its test, one line per event: it connects, reads, writes, watches, loses its
server, reconnects, and learns that its session has expired.

Rules of this module:
  - a client is a program with two arguments, hosts and a path; it says `connected 0xID`, `disconnected`, `expired` of
    its session, `changed PATH` once its watch on the path has fired and is set again, and what its own calls gave;
  - its server is a `simzk serve` with a data directory, which is killed with SIGKILL and started again on its port.
"""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kazoo.client import KazooClient

from tests.cli.test_serve import Process, serving
from tests.waiting import Reports, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATH = "/foreign"


class Foreign:
    """A client's program, and what it says."""

    def __init__(self, command: list[str], hosts: str) -> None:
        self.popen = subprocess.Popen(
            [*command, hosts, PATH], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said: list[str] = []
        self._lines = Reports()
        self._listening = in_thread(self._listen)
        self._errors = in_thread(self._hear_errors)

    def _listen(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self._lines(line.rstrip("\n"))
        self._lines("the end")

    def _hear_errors(self) -> str:
        assert self.popen.stderr is not None
        return self.popen.stderr.read()

    def until(self, wanted: str) -> str:
        """Return the next line with this prefix; fail if the client ends first."""
        while True:
            try:
                line = str(self._lines.next())
            except AssertionError:
                line = "nothing more in time"
                self.popen.kill()
            self.said.append(line)
            if line.startswith(wanted):
                return line
            if line.startswith(("the end", "failed", "nothing more")):
                self.popen.kill()
                raise AssertionError(f"no {wanted!r} in {self.said}:\n{self._errors.result(10)[-3000:]}")

    def close(self) -> None:
        """Kill it if it still runs."""
        self.popen.kill()
        self.popen.wait()
        self._listening.result(10)
        self._errors.result(10)
        assert self.popen.stdout is not None
        assert self.popen.stderr is not None
        self.popen.stdout.close()
        self.popen.stderr.close()

    def end(self) -> None:
        """It must end by itself, without complaint."""
        self.until("the end")
        assert self.popen.wait(10) == 0


@contextmanager
def foreign(command: list[str], port: int) -> Iterator[Foreign]:
    client = Foreign(command, f"127.0.0.1:{port}")
    try:
        yield client
    finally:
        client.close()


def hold(command: list[str], folder: Path) -> None:
    """Have the dialogue with a client."""
    data = ("--data-dir", str(folder / "data"))
    with serving("--port", "0", *data) as first, foreign(command, first.port) as client:
        port = first.port
        session = client.until("connected 0x")
        client.until("waiting")
        changed = f"changed {PATH}"
        if changed not in client.said:
            client.until(changed)  # another of the client's threads calls it
        created = {f"created {PATH}/ephemeral", f"created {PATH}/s-0000000001"}
        assert created | {"read one", "refused 2"} <= set(client.said), client.said
        first.end(signal.SIGKILL)
        client.until("disconnected")
        with serving("--port", str(port), *data, "--admin-port", "0") as second:
            # The same session, over the server's death: its ephemeral is kept, its watch set again.
            assert client.until("connected 0x") == session
            _write_three(port)
            client.until(changed)
            client.until("read three, the ephemeral is there")
            _expire(second, int(session.partition(" ")[2], 16))
            client.until("expired")
            client.end()


def _write_three(port: int) -> None:
    client = KazooClient(hosts=f"127.0.0.1:{port}")
    client.start(timeout=30)
    try:
        assert client.get(PATH)[0] == b"two"
        assert sorted(client.get_children(PATH))[0] == "ephemeral"
        client.set(PATH, b"three")
    finally:
        client.stop()
        client.close()


def _expire(process: Process, session_id: int) -> None:
    """By a POST to the AdminServer, which has said where it is."""
    assert process.popen.stderr is not None
    told = process.popen.stderr.readline()
    admin = re.search(r"AdminServer on (http://[^/]+)/", told)
    assert admin is not None, told
    asked = urllib.request.Request(f"{admin[1]}/faults/expire?session={session_id}", method="POST")
    with urllib.request.urlopen(asked, timeout=30) as answer:
        assert answer.status == 200
