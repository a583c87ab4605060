"""Odd HTTP requests to a real AdminServer and to ours: the same bytes, but for dates and identity hashes.

SIMZK_JETTY_JARS=~/.cache/simzk-jetty pytest tests/conformance/test_admin_requests.py
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from simzk.serve.clock import WallClock
from simzk.serve.configuration.settings import Settings
from tests.conformance import jetty
from tests.conformance.real_zookeeper import SERVER, class_path, four_letter_word, free_ports, java
from tests.serve.http_client import fetch
from tests.serve.served import served
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TICK_MS = 500
END = b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
TARGETS = (
    *(b"/commands/ruok;x=y", b"/commands;x=y/ruok", b"/commands/ruok;x=y?z=1", b"/commands/;x/ruok"),
    b"/commands/ruok;",
    *(b"/commands/../commands/ruok", b"/commands/x/../ruok", b"/commands/./ruok", b"/../commands/ruok"),
    *(b"/commands/ruok/..", b"/commands/..", b"/commands//ruok", b"//commands/ruok", b"/commands/ruok/"),
    *(b"/commands/%2e%2e/commands/ruok", b"/commands/x%2f..%2fruok", b"/commands/%00", b"/commands/ru%00ok"),
    *(b"/commands/%zz", b"/commands/ruok%", b"/commands/%72uok", b"/commands/%ff", b"/%zz", b"/commands/%u0072uok"),
    *(b"/commands/a%20b", b"/commands/a+b", b"/commands/<b>", b"/commands/%c3%a4", b"/commands/\xc3\xa4"),
    *(b"http://h/commands/ruok", b"*", b"commands/ruok", b"/commands/ruok#x", b"/x?a=%zz", b"/commands?a=%f"),
    *(b"/commands/stmk?traceMask=" + mask for mask in (b"99999999999999999999", b"9223372036854775807", b"+5", b"")),
    *(b"/commands/stmk?traceMask=" + mask for mask in (b"-9223372036854775809", b"%205", b"1_000", b"%D9%A3", b"%00")),
    *(b"/commands/stmk?traceMask", b"/commands/stmk?tracemask=1", b"/commands/stmk?traceMask=1&traceMask=2"),
)
ACCEPTED = (
    *(
        b"text/html;q=0.5,application/json",
        b"application/json;q=0",
        b"text/*",
        b"image/png",
        b"text/json",
        b"application/*",
    ),
    *(b"text/plain,*/*", b"*/*;q=0.1,text/plain;q=0.2", b"application/json, text/html", b"text/plain;charset=utf-8"),
    *(
        b"TEXT/PLAIN",
        b"text/plain;q=x",
        b"*/*, application/json;q=0.9",
        b"text/plain;q=0.5;level=1, application/json;q=0.4",
    ),
)
REQUESTS = (
    *(b"GET " + target + END for target in TARGETS),
    (b"GET /commands/ruok" + END).replace(b"\r\n", b"\n"),
    b"GET /commands/ruok HTTP/1.1\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET /commands/ruok HTTP/1.1\r\nHost: a\r\nConnection: close\n\n",
    b"POST /commands HTTP/1.1\nHost: a\nContent-Length: 2\nConnection: close\n\nab",
    b"GET /commands/ruok HTTP/1.1\rHost: a\r\n\r\n",
    b"\nGET /commands/ruok HTTP/1.1\nHost: a\nConnection: close\n\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(1, 60)),
    b"\x16\x03\x01\x00\x05hello",
    *(b"GET /x HTTP/" + version + b"\r\nHost: a\r\n\r\n" for version in (b"0.9", b"1.2", b"2.0", b"3.0")),
    *(b"GET /x HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n" for line in (b"X", b"X : b", b"X: a\r\n b", b": b")),
    *(b"GET /x HTTP/1.1\r\n" + line + b"\r\n\r\n" for line in (b"Host", b"Host: a:xx", b"Host: a\r\nExpect: x")),
    *(b"GET " + target + END for target in (b"?", b"?x=1")),
    *((b"GET /x" + END).replace(b"Host", b"Accept: " + accept + b"\r\nHost") for accept in ACCEPTED),
    (b"GET /commands/ruok" + END).replace(b"Host", b"Expect: 100-continue\r\nHost"),
)
BAD_QUERIES = (b"/commands/ruok?a=%zz", b"/commands/nope?a=%", b"/commands/ruok?a=%ff", b"/commands/ruok?%")


def said(port: int, asked: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.settimeout(10)
        connection.sendall(asked)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    text = re.sub(r"Date: [^\r]*", "Date: D", answer.decode("latin-1"))
    text = re.sub(r"(Servlet)-[0-9a-f]+", r"\1-I", text)
    return re.sub(r"Content-Length: \d{3,}", "Content-Length: N", re.sub(r"9\.4\.\d\d\.v\d+", "V", text))


def assert_dump_has_monotonic_time(port: int, admin_port: int) -> None:
    """A session's expiry in dump is a whole tick of the monotonic clock, at most one tick after its timeout."""
    with TcpClient(port) as client:
        begin_ms = time.monotonic_ns() // 1_000_000
        timeout_ms = client.connect(timeout_ms=6000).timeout_ms
        end_ms = time.monotonic_ns() // 1_000_000
        buckets = json.loads(fetch(admin_port, "/commands/dump")[2])["expiry_time_to_session_ids"]
        (key,) = (key for key, sessions in buckets.items() if sessions)  # a touched session leaves an empty one
    assert int(key) % TICK_MS == 0
    assert begin_ms + timeout_ms < int(key) <= end_ms + timeout_ms + TICK_MS


def test_dump_has_monotonic_time_as_a_real_server() -> None:
    settings = Settings(admin_port=0)
    with served(settings._replace(server=settings.server._replace(tick_time_ms=TICK_MS)), WallClock()) as ours:
        assert_dump_has_monotonic_time(ours.port, ours.admin_port)


@pytest.mark.java
@pytest.mark.timeout(150)
@pytest.mark.skipif(jetty.why_not() is not None, reason=str(jetty.why_not()))
def test_odd_requests_are_answered_alike(tmp_path: Path) -> None:
    port, admin_port = free_ports(2)
    config = tmp_path / "zoo.cfg"
    config.write_text(
        f"tickTime={TICK_MS}\ndataDir={tmp_path}/data\nclientPort={port}\n"
        f"admin.serverPort={admin_port}\nadmin.serverAddress=127.0.0.1\n"
    )
    main = ["-cp", f"{class_path()}:{jetty.jetty()}/*", SERVER, str(config)]
    with subprocess.Popen([*java(), "-Xmx256m", *main], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as real:
        try:
            deadline_s = time.monotonic() + 60
            while time.monotonic() < deadline_s:
                try:
                    if b"Mode:" in four_letter_word(port, b"srvr"):
                        break
                except OSError:
                    time.sleep(0.1)
            assert_dump_has_monotonic_time(port, admin_port)
            with served(Settings(admin_port=0)) as ours:
                for asked in REQUESTS:
                    assert said(ours.admin_port, asked) == said(admin_port, asked), asked
                for target in BAD_QUERIES:
                    # Behind the first cause, the real page has a second one, and Java's stack.
                    theirs, mine = (
                        said(at, b"GET " + target + END).partition("<tr><th>CAUSED BY")
                        for at in (admin_port, ours.admin_port)
                    )
                    assert mine[0] == theirs[0], target
        finally:
            real.kill()
