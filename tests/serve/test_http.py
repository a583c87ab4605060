"""HTTP of the AdminServer: answers of a real 3.9.5, byte by byte except for dates and Java's identity hashes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from simzk.serve.configuration.settings import Settings
from tests.serve.http_client import fetch
from tests.serve.served import Served, served
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "Server: Jetty(9.4.58.v20250814)\r\n\r\n"
RUOK = '{\n  "command" : "ruok",\n  "error" : null\n}'
TOLD = f"HTTP/1.1 200 OK\r\nDate: D\r\nContent-Type: application/json\r\nContent-Length: 42\r\n{SERVER}{RUOK}"
ASKED = b"GET /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\n"
EXPECTING = ASKED[:-2] + b"Expect: 100-continue\r\n\r\n"
LAST = b"GET /commands/ruok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
TOLD_LAST = TOLD.replace("OK\r\n", "OK\r\nConnection: close\r\n")


def bad(status: int, reason: str) -> str:
    page = f"<h1>Bad Message {status}</h1><pre>reason: {reason}</pre>"
    kind = f"Content-Type: text/html;charset=iso-8859-1\r\nContent-Length: {len(page)}\r\n"
    return f"HTTP/1.1 {status} {reason}\r\n{kind}Connection: close\r\n{SERVER}{page}"


def empty(status: str, headers: str = "") -> str:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\n{SERVER}"


def page(status: str, uri: str, message: str) -> str:
    html = (
        '<html>\n<head>\n<meta http-equiv="Content-Type" content="text/html;charset=ISO-8859-1"/>\n'
        f"<title>Error {message}</title>\n</head>\n<body><h2>HTTP ERROR {message}</h2>\n<table>\n"
        f"<tr><th>URI:</th><td>{uri}</td></tr>\n<tr><th>STATUS:</th><td>{message[:3]}</td></tr>\n"
        f"<tr><th>MESSAGE:</th><td>{message[4:]}</td></tr>\n<tr><th>SERVLET:</th>"
        "<td>org.eclipse.jetty.servlet.ServletHandler$Default404Servlet-I</td></tr>\n</table>\n"
        '<hr/><a href="https://jetty.org/">Powered by Jetty:// 9.4.58.v20250814</a><hr/>\n\n</body>\n</html>\n'
    )
    return (
        f"HTTP/1.1 {status}\r\nCache-Control: must-revalidate,no-cache,no-store\r\n"
        f"Content-Type: text/html;charset=iso-8859-1\r\nContent-Length: N\r\n{SERVER}{html}"
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(Settings(admin_port=0)) as running:
        yield running


def said(server: Served, asked: bytes) -> str:
    """Return all bytes until the connection ends, with variable parts replaced."""
    with TcpClient(server.admin_port) as client:
        client.socket.sendall(asked)
        text = client.rest().decode()
    text = re.sub(r"Date: [^\r]*", "Date: D", text)
    return re.sub(r"(Servlet)-[0-9a-f]+", r"\1-I", text)


def request(method: str, target: str) -> bytes:
    return f"{method} {target} HTTP/1.0\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (LAST.replace(b"\r\n", b"\n"), TOLD_LAST),
        (LAST.replace(b"ruok", b"x/../%72uok;a=b"), TOLD_LAST),
        (LAST.replace(b"ruok", b"%00"), bad(400, "Bad Request")),
        (LAST.replace(b"ruok", b"%zz"), bad(400, "Bad Request")),
        (LAST.replace(b"/commands", b"/../commands"), bad(400, "Bad Request")),
        (b"GET / HTTP/1.1\rHost: a\r\n\r\n", bad(400, "Bad EOL")),
        (b"\x16\x03\x01\x02", bad(400, "Illegal character CNTL=0x16")),
        (b"GARBAGE\r\n\r\n", bad(400, "No URI")),
        (b"GET / HTTP/2.5\r\n\r\n", bad(505, "Unknown Version")),
        (b"GET /\r\n\r\n", bad(505, "HTTP/0.9 not supported")),
        (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", bad(505, "Unsupported Version")),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", bad(426, "Upgrade Required")),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bad(426, "Upgrade Required")),
        (b"GET ? HTTP/1.1\r\nHost: a\r\n\r\n", bad(400, "Bad URI")),
        (b"GET / HTTP/1.1\r\nHost\r\n\r\n", bad(400, "Illegal character LF=\\n")),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", bad(400, "Header Folding")),
        (b"GET / HTTP/1.1\r\nHost:\r\n\ta\r\n\r\n", bad(400, "Header Folding")),
        (b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", bad(400, "Header Folding")),
        (b"GET / HTTP/1.1\r\nHost: a:xx\r\n\r\n", bad(400, "Bad HostPort")),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", bad(417, "Expectation Failed")),
        (EXPECTING, TOLD.replace("42\r\n", "42\r\nConnection: close\r\n")),
        (EXPECTING.replace(b"1.1\r\nHost: a", b"1.0"), TOLD),
        (b"GET /commands/ruok HTTP/1.1\r\n\r\n", bad(400, "No Host")),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", bad(400, "Invalid Content-Length Value")),
        (b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", bad(400, "Illegal character SPACE=' '")),
        (b"\x00\xff\r\n\r\n", bad(400, "Illegal character CNTL=0x0")),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", bad(414, "URI Too Long")),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n", bad(431, "Request Header Fields Too Large")),
        (b"x" * 20_000, bad(431, "Request Header Fields Too Large")),
        (ASKED + b"\r\n" + LAST, TOLD + TOLD_LAST),
        (b"GET /commands/ruok HTTP/1.0\r\n\r\n", TOLD),
        (request("FOO", "/commands/ruok"), empty("501 Not Implemented")),
        (request("PUT", "/commands/ruok"), empty("405 Method Not Allowed")),
        (request("DELETE", "/x"), empty("405 Method Not Allowed")),
        (request("TRACE", "/commands"), empty("403 Forbidden")),
        (request("OPTIONS", "/commands/x"), empty("200 OK", "Date: D\r\nAllow: GET, HEAD, POST, TRACE, OPTIONS\r\n")),
        (request("OPTIONS", "/"), empty("200 OK", "Date: D\r\nAllow: GET, HEAD, TRACE, OPTIONS\r\n")),
    ],
)
def test_answers_are_jettys(server: Served, asked: bytes, answer: str) -> None:
    assert said(server, asked) == answer


@pytest.mark.parametrize(
    ("method", "target", "answer"),
    [
        ("GET", "/x", page("404 Not Found", "/x", "404 Not Found")),
        ("GET", "/x%3Cy", page("404 Not Found", "/x%3Cy", "404 Not Found")),
        (
            "POST",
            "/",
            page("405 Method Not Allowed", "/", "405 HTTP method POST is not supported by this URL"),
        ),
    ],
)
def test_error_pages_are_jettys(server: Served, method: str, target: str, answer: str) -> None:
    assert re.sub(r"Content-Length: \d+", "Content-Length: N", said(server, request(method, target))) == answer


@pytest.mark.parametrize(
    ("accept", "kind", "body"),
    [
        (
            "application/json",
            "application/json",
            '{\n"servlet":"S","message":"Not Found","url":"/x","status":"404"\n}',
        ),
        (
            "text/plain",
            "text/plain;charset=iso-8859-1",
            "HTTP ERROR 404 Not Found\nURI: /x\nSTATUS: 404\nMESSAGE: Not Found\nSERVLET: S\n",
        ),
    ],
)
def test_error_pages_in_other_forms(server: Served, accept: str, kind: str, body: str) -> None:
    status, headers, reported = fetch(server.admin_port, "/x", headers={"Accept": accept})
    assert (status, headers["Content-Type"]) == (404, kind)
    text = re.sub(r"org\.eclipse[\w.$-]+", "S", reported.decode())
    assert text.replace(",\n", ",") == body


HTML, JSON, TEXT = "text/html;charset=iso-8859-1", "application/json", "text/plain;charset=iso-8859-1"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html;q=0.5,application/json", JSON),
        ("application/json;q=0.5,text/html", HTML),
        ("text/plain;q=0.2, application/json;q=0.8", JSON),
        ("application/json;q=0", None),
        ("text/html;q=0,application/json", JSON),
        ("text/*", HTML),
        ("image/png", None),
        ("text/json", "text/json"),
        ("application/*", None),
        ("text/plain,*/*", TEXT),
        ("*/*;q=0.1,text/plain;q=0.2", TEXT),
        ("text/plain, application/json", TEXT),
        ("application/json, text/html", JSON),
        ("text/plain;charset=utf-8", None),
        ("TEXT/PLAIN", None),
        ("", None),
        ("text/plain;q=x", None),
        ("*/*, application/json;q=0.9", HTML),
        ("text/plain;q=0.5;level=1, application/json;q=0.4", JSON),
        ("text/plain\r\nAccept: application/json", TEXT),
    ],
)
def test_the_form_of_an_error_page_is_chosen_as_by_jetty(server: Served, accept: str, kind: str | None) -> None:
    answer = said(server, f"GET /x HTTP/1.0\r\nAccept: {accept}\r\n\r\n".encode())
    assert re.findall("Content-Type: (.*)\r", answer) == ([] if kind is None else [kind])
    assert ("Content-Length: " in answer) == (kind is not None)


def test_an_error_without_a_page_has_a_length_where_the_connection_is_kept(server: Served) -> None:
    asked = b"GET /x HTTP/1.1\r\nHost: a\r\nAccept: a/b\r\n\r\n"
    assert said(server, asked + LAST).partition("Server")[0].endswith("no-store\r\nContent-Length: 0\r\n")


CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n"
UNKNOWN = '{\n  "command" : "none",\n  "error" : "Unknown command: none"\n}'
TOLD_UNKNOWN = (
    f"HTTP/1.1 200 OK\r\nDate: D\r\nContent-Type: application/json\r\nContent-Length: 61\r\n{SERVER}{UNKNOWN}"
)
NOT_PERMITTED = '{\n  "command" : "restore",\n  "error" : "Auth info is missing for the command"\n}'
REFUSED = (
    "HTTP/1.1 401 Unauthorized\r\nDate: D\r\nContent-Type: application/json\r\n"
    f"Content-Length: 79\r\n{SERVER}{NOT_PERMITTED}"
)
ENDS = f"\r\nConnection: close\r\n{SERVER}"
ALLOWED = "Date: D\r\nAllow: GET, HEAD, POST, TRACE, OPTIONS"


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        # A command opens the body of a POST, though it reads none.
        ("POST /commands/none length", CONTINUE + TOLD_UNKNOWN),
        ("POST /commands/none chunks", CONTINUE + TOLD_UNKNOWN),
        ("POST /commands/none nothing", CONTINUE + TOLD_UNKNOWN),
        ("POST /commands/restore length", CONTINUE + REFUSED),
        # No other method does, and no other page.
        ("PUT /commands/ruok length", f"HTTP/1.1 405 Method Not Allowed{ENDS}"),
        ("DELETE /commands/ruok length", f"HTTP/1.1 405 Method Not Allowed{ENDS}"),
        ("TRACE /commands/ruok length", f"HTTP/1.1 403 Forbidden{ENDS}"),
        ("FOO /commands/ruok length", f"HTTP/1.1 501 Not Implemented{ENDS}"),
        ("OPTIONS /commands/ruok length", f"HTTP/1.1 200 OK\r\n{ALLOWED}{ENDS}"),
    ],
)
def test_a_body_that_was_not_sent_yet_is_asked_for_as_by_jetty(server: Served, asked: str, answer: str) -> None:
    method, path, body = asked.split()
    fields = {"length": "Content-Length: 2\r\n", "chunks": "Transfer-Encoding: chunked\r\n", "nothing": ""}[body]
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{fields}\r\n"
    assert said(server, head.encode()) == answer


@pytest.mark.parametrize(
    ("body", "order"),
    [("Content-Length: 2", ["Connection", "Cache-Control"]), ("Content-Length: 0", ["Cache-Control", "Connection"])],
)
def test_an_error_page_says_first_that_a_body_is_not_read(server: Served, body: str, order: list[str]) -> None:
    head = f"POST /commands/ruok HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{body}\r\n\r\n"
    answer = said(server, head.encode())
    assert answer.startswith(f"{CONTINUE}HTTP/1.1 500 Server Error\r\n{order[0]}: ")
    assert re.findall("^(Connection|Cache-Control): ", answer, re.MULTILINE) == order


def test_a_body_that_came_with_its_head_is_not_asked_for(server: Served) -> None:
    head = b"POST /commands/restore HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab"
    assert said(server, head + LAST) == REFUSED + TOLD_LAST


@pytest.mark.parametrize(
    ("expect", "is_met"),
    [
        ("", True),
        ("102-processing", True),
        ("100-Continue", True),
        ("100-continue, 102-processing", True),
        ("100-continue, x", False),
        ("x\r\nExpect: 100-continue", False),
        ("101-continue", False),
    ],
)
def test_expectations_are_those_of_jetty(server: Served, expect: str, is_met: bool) -> None:
    asked = f"GET /commands/ruok HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: {expect}\r\n\r\n"
    assert (said(server, asked.encode()) == bad(417, "Expectation Failed")) is not is_met


@pytest.mark.parametrize(
    ("host", "is_valid"),
    [
        *(
            (host, True)
            for host in ("", " ", " :80", " a:80", " a:65535", " a b", " [::1]", " [::1]:80", " ::1", " a/b")
        ),
        *((host, True) for host in (" user@a", " a,b", " a:+1", " []", " a:80:90", " []:1", " ]", "\t", " a:80 ")),
        *((host, False) for host in (" :", " a:", " a:0", " a:65536", " a:99999999999", " [::1", " [::1]x", " [x")),
        *((host, False) for host in (" a:-1", " a: 80", " a:x")),
    ],
)
def test_a_host_is_read_as_by_jetty(server: Served, host: str, is_valid: bool) -> None:
    asked = f"GET /commands/ruok HTTP/1.1\r\nHost:{host}\r\nConnection: close\r\n\r\n"
    assert said(server, asked.encode()) == (TOLD_LAST if is_valid else bad(400, "Bad HostPort"))


@pytest.mark.parametrize(("authority", "is_valid"), [("", True), ("b", True), ("b:1", True), ("b:x", False)])
def test_the_port_of_an_absolute_uri_is_a_number(server: Served, authority: str, is_valid: bool) -> None:
    asked = f"GET http://{authority}/commands/ruok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert said(server, asked.encode()) == (TOLD_LAST if is_valid else bad(400, "Bad Request"))


def test_what_is_no_command_of_a_method_is_a_stumble(server: Served) -> None:
    status, headers, body = fetch(server.admin_port, "/commands/srvr", "POST")
    assert (status, headers["Connection"]) == (500, "close")
    message = "java.lang.NullPointerException: Cannot invoke &quot;org.apache.zookeeper.server.admin.CommandResponse"
    assert f"<title>Error 500 {message}.getStatusCode()&quot; because &quot;cmdResponse&quot; is null" in body.decode()
    assert fetch(server.admin_port, "/commands/restore", headers={"Authorization": "ip"})[0] == 500


@pytest.mark.parametrize("name", ["/srvr", "srvr/", "srvr/x", "nonsense"])
def test_a_name_is_taken_as_it_is(server: Served, name: str) -> None:
    reported = fetch(server.admin_port, f"/commands/{name}")[2].decode()
    assert reported == f'{{\n  "command" : "{name}",\n  "error" : "Unknown command: {name}"\n}}'


def test_a_silent_connection_is_closed() -> None:
    with served(Settings(admin_port=0, admin_idle_ms=20)) as server, TcpClient(server.admin_port) as client:
        assert client.rest() == b""
