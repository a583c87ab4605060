"""Clients of other languages, unmodified, against `simzk serve`: each holds the dialogue of clients/dialogue.py.

Java and Curator come with PySpark's jars. The others need their toolchain and library, which this command brings on
Debian, before it runs them:

    tests/conformance/clients/install && pytest tests/conformance/test_foreign_clients.py

Without it they are skipped, one line each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_serve import serving
from tests.conformance.clients.dialogue import hold
from tests.conformance.real_zookeeper import jars

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
# Where `install` puts what is not the system's.
BUILD = Path(os.environ.get("SIMZK_FOREIGN_CLIENTS", CLIENTS / ".build"))
INSTALL = "run tests/conformance/clients/install"


@pytest.mark.java
@pytest.mark.timeout(200)
@pytest.mark.parametrize("program", ["JavaClient.java", "CuratorClient.java"])
def test_clients_of_the_jvm(program: str, tmp_path: Path) -> None:
    options = ["-Xmx256m", "-Dlog4j2.level=OFF", "-Dorg.apache.logging.log4j.level=OFF"]
    hold(["java", *options, "-cp", f"{jars()}/*", str(CLIENTS / program)], tmp_path)


@pytest.mark.timeout(120)
def test_the_c_client(tmp_path: Path) -> None:
    binary = BUILD / "c-client"
    if not binary.exists():
        pytest.skip(f"the C client is not built: {INSTALL}")
    hold([str(binary)], tmp_path)


@pytest.mark.timeout(120)
def test_the_go_client(tmp_path: Path) -> None:
    binary = BUILD / "go" / "client"
    if not binary.exists():
        pytest.skip(f"the Go client is not built: {INSTALL}")
    hold([str(binary)], tmp_path)


@pytest.mark.timeout(120)
def test_the_node_client(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (BUILD / "node" / "node_modules" / "node-zookeeper-client").exists():
        pytest.skip(f"the Node client is not installed: {INSTALL}")
    # Node looks for libraries beside the program.
    program = shutil.copy(CLIENTS / "client.js", BUILD / "node" / "client.js")
    hold([node, str(program)], tmp_path)


@pytest.mark.timeout(120)
def test_the_c_command_line(tmp_path: Path) -> None:
    program = shutil.which("cli_mt") or "/usr/lib/zookeeper/bin/cli_mt"
    if not Path(program).exists():
        pytest.skip(f"cli_mt is not installed: {INSTALL}")
    script = "create /c\nset /c one\nget /c\nwexists /c\nset /c three\nls /\n"
    wanted = {
        "[/c]: rc = 0",
        "one",
        "version=1\taversion=0",
        "Watcher CHANGED_EVENT state = CONNECTED_STATE for path /c",
        "version=2\taversion=0",
        "zookeeper",
    }
    pipe = subprocess.PIPE
    with (
        serving("--port", "0") as server,
        subprocess.Popen(
            [program, f"127.0.0.1:{server.port}"], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
        ) as client,
    ):
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(script)
        client.stdin.flush()
        said: list[str] = []
        while not wanted <= set(said):
            line = client.stdout.readline()
            assert line, said
            said.append(line.strip())
        client.kill()
