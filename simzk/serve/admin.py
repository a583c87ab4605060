"""The AdminServer: the monitoring commands, metrics and faults over HTTP (§5).

Rules of this module:
  - `/commands/<name>` answers as the real server's, where nothing of what is here is a POST; `/metrics` is
    Prometheus's text;
  - POST of `/faults/<verb>?...`, and GET of `/faults`, are simzk's own: a test's verbs for those who have only HTTP
    (admin_faults.py);
  - one request a connection, its body is not looked at, at most `REQUEST_BYTES` of it are read;
  - it runs on the loop of the server that it tells of;
  - of a server of an ensemble that is stopped it tells nothing (a real one's is gone with it), but faults are taken,
    for they are how it starts again.

Source: org.apache.zookeeper.server.admin.JettyAdminServer, JsonOutputter.
"""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from simzk.errors import SimzkError
from simzk.serve.admin_commands import BY_NAME, COMMANDS, SET_TRACE_MASK, SNAPSHOT, UNLESS_LOOKING
from simzk.serve.admin_faults import FAULTS
from simzk.serve.admin_snapshot import Refusal, Snapshots
from simzk.serve.tcp import bind, name_of
from simzk.wire.four_letter_words import NOT_SERVING
from simzk.wire.monitoring import prometheus

if TYPE_CHECKING:
    from simzk.serve.tcp import TcpServer

REQUEST_BYTES = 16 * 1024
BACKLOG = 100
_JSON, _HTML, _TEXT = "application/json", "", "text/plain; version=0.0.4; charset=utf-8"
_BYTES = "application/octet-stream"


class Response(NamedTuple):
    """What is answered."""

    status: HTTPStatus
    kind: str
    body: str | bytes
    headers: tuple[tuple[str, str], ...] = ()


def pretty(value: Any, indent: str = "") -> str:
    """JSON as the real server lays it out: two blanks a level, blanks round colons, lists on one line.

    >>> print(pretty({"connections": [{"sent": 1}], "empty": [], "error": None}))
    {
      "connections" : [ {
        "sent" : 1
      } ],
      "empty" : [ ],
      "error" : null
    }
    """
    if isinstance(value, dict):
        inner = indent + "  "
        fields = [f"{inner}{json.dumps(key)} : {pretty(field, inner)}" for key, field in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{ }"
    if isinstance(value, list):
        return f"[ {', '.join(pretty(item, indent) for item in value)} ]" if value else "[ ]"
    return json.dumps(value)


class AdminServer:
    """The HTTP door of one server.

    Args:
        server: whom it tells of.
        address: the interface to listen on; empty for all.
        port: the port; 0 for any free one.
        path: where the commands are found.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(self, server: TcpServer, address: str, port: int, path: str = "/commands") -> None:
        self.follow(server)
        self._listener = bind(address, port, BACKLOG)
        self._path = path
        self._accepting: asyncio.Server | None = None
        self.name = name_of(self._listener)

    def follow(self, server: TcpServer) -> None:
        """Tell of this server from now on: the one that it told of was stopped, and has been started anew."""
        self._server = server
        self._snapshots = Snapshots(server, server.settings.snapshot_interval_ms)

    async def start(self) -> None:
        """Begin to answer, on the running loop."""
        self._accepting = await asyncio.get_running_loop().create_server(
            lambda: _Request(self), sock=self._listener, backlog=BACKLOG
        )

    def stop(self) -> None:
        """Answer no more."""
        if self._accepting is not None:
            self._accepting.close()
        self._listener.close()

    def answer(self, method: str, target: str, authorization: str | None, address: str) -> Response:
        """What a request is answered that comes from an address, with that header or without it."""
        parts = urlsplit(target)
        path, query = unquote(parts.path).rstrip("/"), dict(parse_qsl(parts.query))
        if path == "/faults" and method in ("GET", "HEAD"):
            return _json({"command": "faults", "rules": self._rules(), "error": None})
        if path.startswith("/faults/"):
            if method != "POST":
                return Response(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, "a fault is a POST\n")
            return self._inject(path.removeprefix("/faults/"), query)
        if not self._server.host.is_open:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, "this server is stopped\n")
        is_command = f"{path}/".startswith(f"{self._path}/")
        if method == "OPTIONS":
            allowed = "GET, HEAD, POST, TRACE, OPTIONS" if is_command else "GET, HEAD, TRACE, OPTIONS"
            return Response(HTTPStatus.OK, _HTML, "", (("Allow", allowed),))
        if method == "TRACE":
            return Response(HTTPStatus.FORBIDDEN, _HTML, "")
        if method not in ("GET", "HEAD") and not (method == "POST" and is_command):
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, f"{method} is not answered here\n")
        if path == self._path:
            names = sorted(command.names[0] for command in COMMANDS)
            links = "".join(f'<a href="{self._path}/{name}">{name}</a>\n<br/>\n' for name in names)
            return Response(HTTPStatus.OK, _HTML, links)
        if path.startswith(f"{self._path}/"):
            name = path.removeprefix(f"{self._path}/")
            if name in UNLESS_LOOKING and not self._server.host.server.mode:
                return _looking(UNLESS_LOOKING[name])
            if name in SNAPSHOT:
                return self._snapshot(method, query, authorization, address)
            if method == "POST" and name in BY_NAME:
                return _no_post(name)
            return self._tell(name, query)
        if path == "/metrics":
            with self._server.host.lock:
                return Response(HTTPStatus.OK, _TEXT, prometheus(self._server.report()))
        return Response(HTTPStatus.NOT_FOUND, _TEXT, f"there is nothing at {path or '/'}\n")

    def _tell(self, name: str, query: dict[str, str]) -> Response:
        command = BY_NAME.get(name)
        if command is None:
            return _json({"command": name, "error": f"Unknown command: {name}"})
        primary = command.names[0]
        if command.names is SET_TRACE_MASK:
            error = self._set_trace_mask(query)
            if error is not None:
                return _json({"error": error, "command": primary})
        with self._server.host.lock:
            told = command.tell(self._server.report())
        told["command"] = primary
        return _json(told if "error" in told else {**told, "error": None})

    def _snapshot(self, method: str, query: dict[str, str], authorization: str | None, address: str) -> Response:
        taken = self._snapshots.take(authorization, address) if method != "POST" or authorization is None else None
        if taken is None:
            return _no_post(SNAPSHOT[0])
        if isinstance(taken, Refusal):
            return _json({"command": SNAPSHOT[0], "error": taken.error}, taken.status)
        headers = (("last_zxid", f"0x{taken.zxid:x}"), ("snapshot_size", str(len(taken.data))))
        if query.get("streaming", "true").lower() == "true":
            return Response(HTTPStatus.OK, _BYTES, taken.data, headers)
        return _json({"command": SNAPSHOT[0], "error": None})._replace(headers=headers)

    def _set_trace_mask(self, query: dict[str, str]) -> str | None:
        """Keep the mask that is asked for, or say what is wrong with it."""
        asked = query.get("traceMask")
        required = "setTraceMask requires long traceMask argument"
        if asked is None:
            return required
        try:
            self._server.trace_mask = int(asked)
        except ValueError:
            return f"{required}, got {asked}"
        return None

    def _inject(self, verb: str, query: dict[str, str]) -> Response:
        fault = FAULTS.get(verb)
        try:
            if fault is None:
                raise SimzkError(f"no fault is called {verb!r}", right=f"one of {', '.join(FAULTS)}")
            rule = fault(self._server, query)
        except SimzkError as error:
            return _json({"command": verb, "error": str(error)}, HTTPStatus.BAD_REQUEST)
        made = rule if isinstance(rule, dict) else {} if rule is None else {"rule": rule.number}
        return _json({"command": verb, **made, "error": None})

    def _rules(self) -> list[dict[str, object]]:
        with self._server.host.lock:
            return [rule.as_dict() for rule in self._server.host.rules.list()]


def _no_post(name: str) -> Response:
    """What is no command of POST: there the real server stumbles, with this status."""
    return Response(HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, f"{name} is not a POST\n")


def _looking(name: str) -> Response:
    """What a server of an ensemble answers that looks for a leader; a real one's command monitor stumbles there."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR if name == "monitor" else HTTPStatus.OK
    return _json({"command": name, "error": NOT_SERVING}, status)


def _json(told: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, _JSON, pretty(told))


def _header(head: bytes, name: bytes) -> str | None:
    """A header's value, without the blanks round it; None where there is none of this name."""
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.lower() == name:
            return value.strip().decode("latin-1")
    return None


class _Request(asyncio.Protocol):
    """One connection: its request is read as far as the end of its head, answered, and it is closed."""

    def __init__(self, admin: AdminServer) -> None:
        self._admin = admin
        self._transport: asyncio.Transport | None = None
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._head += data
        head, blank, _ = self._head.partition(b"\r\n\r\n")
        if not blank and len(self._head) <= REQUEST_BYTES:
            return
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if not blank or len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._send("GET", Response(HTTPStatus.BAD_REQUEST, _TEXT, "this is no request of HTTP/1.1\n"))
        else:
            assert self._transport is not None
            address = self._transport.get_extra_info("peername")[0]
            self._send(words[0], self._admin.answer(words[0], words[1], _header(head, b"authorization"), address))

    def _send(self, method: str, response: Response) -> None:
        assert self._transport is not None
        body = response.body if isinstance(response.body, bytes) else response.body.encode()
        named = (*((("Content-Type", response.kind),) if response.kind else ()), *response.headers)
        headers = "".join(f"{name}: {value}\r\n" for name, value in named)
        head = (
            f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
            f"Date: {formatdate(usegmt=True)}\r\n"
            f"{headers}"
            f"Content-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.pause_reading()
        self._transport.write(head.encode() + (b"" if method == "HEAD" else body))
        self._transport.close()
