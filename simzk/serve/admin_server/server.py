"""AdminServer: monitoring commands, metrics and faults over HTTP (§5).

Rules of this module:
  - `/commands/<name>` answers like the real server, status by status;
  - `/metrics` answers in Prometheus's text format, here and on a port of its own as with the real server's
    PrometheusMetricsProvider;
  - POST `/faults/<verb>?...` and GET `/faults` are simzk's own (faults.py), for requests that `AccessRules` accepts. A
    GET never changes state, except by the commands that a real server has;
  - `/` is the live page with its requests (live.py), where a real server has nothing;
  - what only simzk has may be limited to the clients' interface (`Settings.live_address`);
  - everything runs on the loop of the server;
  - a stopped server of an ensemble answers no command (a real one's AdminServer ends with it), but accepts faults,
    which can start it again.

Source: org.apache.zookeeper.server.admin.JettyAdminServer, JsonOutputter; PrometheusMetricsProvider, MetricsServlet.
"""

from __future__ import annotations

import json
import math
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from simzk.errors import SimzkError
from simzk.jvm.numbers import double_text
from simzk.serve.admin_server.access import AccessRules
from simzk.serve.admin_server.commands import BY_NAME, COMMANDS, NEEDS_LEADER, RESTORE, SET_TRACE_MASK, SNAPSHOT
from simzk.serve.admin_server.faults import FAULTS
from simzk.serve.admin_server.http import (
    BODY_BYTES,
    JSON,
    PROMETHEUS,
    STREAM,
    HttpRequest,
    HttpServer,
    Response,
    canonical_path,
    error_page,
    no_servlet,
    nothing,
)
from simzk.serve.admin_server.live import LiveView
from simzk.serve.admin_server.snapshots import CommandRejection, Snapshots
from simzk.serve.tcp.addresses import addresses_of, as_java, written
from simzk.wire.four_letter_words import NOT_SERVING
from simzk.wire.monitoring import families_of, text_of

if TYPE_CHECKING:
    from simzk.serve.admin_server.access import Rejection
    from simzk.serve.configuration.settings import Metrics
    from simzk.serve.simulated_brokers import SimulatedBrokers
    from simzk.serve.tcp.server import TcpServer

_SERVLET = "org.apache.zookeeper.server.admin.JettyAdminServer$CommandServlet"
# Methods of the live page's requests, and of POST /brokers/N/VERB below.
_LIVE = {
    **dict.fromkeys(("/live/state", "/live/node", "/live/picture", "/brokers"), "GET"),
    "/advance": "POST",
}
_BAD_QUERY = "Unable to parse URI query"
_NULL_POINTER = (
    'java.lang.NullPointerException: Cannot invoke "org.apache.zookeeper.server.admin.CommandResponse.getStatusCode()" '
    'because "cmdResponse" is null'
)


def pretty(value: Any, indent: str = "") -> str:
    """Return JSON in the layout of the real server: two blanks a level, blanks around colons, lists on one line.

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
        fields = [f"{inner}{pretty(key)} : {pretty(field, inner)}" for key, field in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{ }"
    if isinstance(value, list):
        return f"[ {', '.join(pretty(item, indent) for item in value)} ]" if value else "[ ]"
    if isinstance(value, float):
        return json.dumps("NaN") if math.isnan(value) else double_text(value)
    return json.dumps(value, ensure_ascii=False)


def is_simulators(path: str) -> bool:
    """Return whether only simzk answers a path, not a real AdminServer."""
    return path in _LIVE or path in ("/", "/faults", "/metrics") or path.startswith(("/faults/", "/brokers/"))


class AdminServer(HttpServer):
    """AdminServer of one server.

    Args:
        server: the server.
        address: the interface to listen on; empty for all.
        port: the port; 0 for any free one.
        path: URL path of the commands.
        brokers: the brokers of the simulated cluster that the server belongs to; None for none.

    Attributes:
        live_name: the address of its live page.

    Raises:
        ConfigError: it cannot listen, or the token is invalid.
    """

    def __init__(
        self,
        server: TcpServer,
        address: str,
        port: int,
        path: str = "/commands",
        *,
        brokers: SimulatedBrokers | None = None,
    ) -> None:
        self._brokers = brokers
        self.use_server(server)
        live_address = server.settings.live_address
        self._live_addresses = None if live_address is None else addresses_of(live_address)
        self._access = AccessRules(server.settings.admin_token, address)
        idle_ms = server.settings.admin_idle_ms
        super().__init__(
            address, port, self._answer, idle_ms=idle_ms, body_limit=self._limit_of_body, opens_body=self._opens_body
        )
        self._path = path
        self.live_name = self.name
        if live_address is not None and self._live_addresses is not None:
            self.live_name = written((live_address, int(self.name.rpartition(":")[2])))

    def use_server(self, server: TcpServer) -> None:
        """Use another server from now on: the one before was stopped, and this one is its new start."""
        self._server = server
        self._snapshots = Snapshots(server, server.settings.snapshot_interval_ms)
        self._live = LiveView(server, self._brokers)

    def _answer(self, request: HttpRequest) -> Response:
        path = canonical_path(request.path)
        if is_simulators(path) and not self._has_live_page_at(request.local_address):
            return no_servlet(request)
        if request.path == "/" and request.method in ("GET", "HEAD"):
            return self._live.page()
        if path in _LIVE or path.startswith("/brokers/"):
            return self._answer_live(request, path)
        if path == "/faults" and request.method in ("GET", "HEAD"):
            rejection = self._access.rejection(request)
            if rejection is not None:
                return _rejected(rejection)
            with self._server.driver.lock:
                rules = [rule.as_dict() for rule in self._server.driver.rules.list()]
            return _json({"command": "faults", "rules": rules, "error": None})
        if path.startswith("/faults/"):
            if request.method != "POST":
                return _json({"error": "a fault needs POST"}, HTTPStatus.METHOD_NOT_ALLOWED)
            rejection = self._access.rejection(request)
            if rejection is not None:
                return _rejected(rejection)
            return self._inject(path.removeprefix("/faults/"), request.parameters)
        if not self._server.driver.accepts_links:
            return _json({"error": "this server is stopped"}, HTTPStatus.SERVICE_UNAVAILABLE)
        if path == "/metrics" and request.method in ("GET", "HEAD"):
            return metrics_response(self._server, request, of_process=False)
        if not f"{path}/".startswith(f"{self._path}/") or request.method == "TRACE":
            return no_servlet(request)
        if request.method == "OPTIONS":
            return nothing(HTTPStatus.OK, _ALLOWED, is_dated=True)
        if request.method not in ("GET", "HEAD", "POST"):
            return nothing(HTTPStatus.METHOD_NOT_ALLOWED)
        return self._command(request, path.removeprefix(self._path).removeprefix("/"))

    def _has_live_page_at(self, address: str) -> bool:
        """Return whether what only simzk has is at an address of this machine."""
        return self._live_addresses is None or as_java(address) in self._live_addresses

    def _answer_live(self, request: HttpRequest, path: str) -> Response:
        """Answer the live page: what it shows is guarded like what it does, because it shows data without ACLs."""
        method = "GET" if _LIVE.get(path) == "GET" else "POST"
        if request.method not in (method, "HEAD" if method == "GET" else method):
            return _json({"error": f"{path} needs {method}"}, HTTPStatus.METHOD_NOT_ALLOWED)
        rejection = self._access.rejection(request)
        if rejection is not None:
            return _rejected(rejection)
        live, query = self._live, request.parameters
        try:
            if path == "/live/picture":
                return live.picture()
            if path == "/live/state":
                fields = live.state()
            elif path == "/live/node":
                fields = live.node(query.get("path", "/"))
            elif path == "/brokers":
                fields = live.brokers()
            else:
                live.advance(query) if path == "/advance" else live.act(path, query)
                fields = {}
        except SimzkError as error:
            status = HTTPStatus.BAD_REQUEST if method == "GET" or path == "/advance" else HTTPStatus.CONFLICT
            return _json({"error": str(error)}, status)
        return Response(HTTPStatus.OK, JSON, json.dumps({**fields, "error": None}), (("Cache-Control", "no-store"),))

    def _command(self, request: HttpRequest, name: str) -> Response:
        if not name:
            names = sorted(command.names[0] for command in COMMANDS)
            links = "".join(f'<a href="{self._path}/{name}">{name}</a>\n<br/>\n' for name in names)
            return Response(HTTPStatus.OK, "", links)
        if request.method != "POST" and not request.has_valid_query:
            cause = f"org.eclipse.jetty.http.BadMessageException: 400: {_BAD_QUERY}"
            return error_page(request, HTTPStatus.BAD_REQUEST, _BAD_QUERY, servlet=_SERVLET, cause=cause)
        if name in NEEDS_LEADER and not self._server.driver.server.mode:
            # The real server's command monitor fails there.
            status = HTTPStatus.INTERNAL_SERVER_ERROR if NEEDS_LEADER[name] == "monitor" else HTTPStatus.OK
            return _json({"command": NEEDS_LEADER[name], "error": NOT_SERVING}, status)
        if name in SNAPSHOT or name in RESTORE:
            return self._guarded(request, SNAPSHOT[0] if name in SNAPSHOT else RESTORE[0])
        if request.method == "POST" and name in BY_NAME:
            return _null_pointer_page(request)
        return self._answer_command(name, request.parameters)

    def _answer_command(self, name: str, query: dict[str, str]) -> Response:
        command = BY_NAME.get(name)
        if command is None:
            return _json({"command": name, "error": f"Unknown command: {name}"})
        primary = command.names[0]
        if command.names is SET_TRACE_MASK:
            error = self._set_trace_mask(query)
            if error is not None:
                return _json({"error": error, "command": primary})
        with self._server.driver.lock:
            fields = command.answer(self._server.report())
        fields["command"] = primary
        return _json(fields if "error" in fields else {**fields, "error": None})

    def _limit_of_body(self, request: HttpRequest) -> int:
        """Return how much body a request may have: of the commands, restore alone reads one, from who is permitted."""
        name = canonical_path(request.path).removeprefix(f"{self._path}/")
        return BODY_BYTES if name in RESTORE and self._refusal(request) is None else 0

    def _opens_body(self, request: HttpRequest) -> bool:
        """Return whether a POST opens its body: any command does (CommandsServlet.doPost)."""
        return canonical_path(request.path).startswith(f"{self._path}/")

    def _refusal(self, request: HttpRequest) -> CommandRejection | None:
        """Return why the client lacks permission for snapshot and restore; None if it has it."""
        address = request.address
        if self._server.settings.trusts_forwarded_for:
            address = request.headers.get("x-forwarded-for", address).split(",")[0].strip()
        return self._snapshots.rejection(request.headers.get("authorization"), address)

    def _guarded(self, request: HttpRequest, name: str) -> Response:
        """Answer snapshot or restore, which need permissions and their own HTTP method."""
        refusal = self._refusal(request)
        if refusal is not None:
            return _refused(name, refusal)
        if (request.method == "POST") != (name == RESTORE[0]):
            return _null_pointer_page(request)
        return self._restore(request.body) if name == RESTORE[0] else self._snapshot(request)

    def _snapshot(self, request: HttpRequest) -> Response:
        snapshot = self._snapshots.snapshot()
        if isinstance(snapshot, CommandRejection):
            return _refused(SNAPSHOT[0], snapshot)
        zxid, data = snapshot
        headers = (("last_zxid", f"0x{zxid:x}"), ("snapshot_size", str(len(data))))
        if request.parameters.get("streaming", "true").lower() == "true":
            return Response(HTTPStatus.OK, STREAM, data, headers)
        return _json({"command": SNAPSHOT[0], "error": None})._replace(headers=headers)

    def _restore(self, data: bytes) -> Response:
        zxid = self._snapshots.restore(data)
        if isinstance(zxid, CommandRejection):
            return _refused(RESTORE[0], zxid)
        return _json({"last_zxid": zxid, "command": RESTORE[0], "error": None})

    def _set_trace_mask(self, query: dict[str, str]) -> str | None:
        """Store the requested mask; return an error message if it is invalid."""
        asked = query.get("traceMask")
        required = "setTraceMask requires long traceMask argument"
        if asked is None:
            return required
        # Java's Long.parseLong reads the digits of any script.
        mask = int(asked) if re.fullmatch(r"[+-]?\d{1,4000}", asked) else None
        if mask is None or not -(2**63) <= mask < 2**63:
            return f"{required}, got {asked}"
        self._server.set_trace_mask(mask)
        return None

    def _inject(self, verb: str, query: dict[str, str]) -> Response:
        fault = FAULTS.get(verb)
        try:
            if fault is None:
                raise SimzkError(f"unknown fault {verb!r}", right=f"one of {', '.join(FAULTS)}")
            rule = fault(self._server, query)
        except SimzkError as error:
            return _json({"command": verb, "error": str(error)}, HTTPStatus.BAD_REQUEST)
        made = rule if isinstance(rule, dict) else {} if rule is None else {"rule": rule.number}
        return _json({"command": verb, **made, "error": None})


def _null_pointer_page(request: HttpRequest) -> Response:
    """Answer a method that a command does not support: the real server fails with a NullPointerException."""
    return error_page(
        request, HTTPStatus.INTERNAL_SERVER_ERROR, _NULL_POINTER, servlet=_SERVLET, cause=_NULL_POINTER
    )._replace(closes=True)


def _refused(name: str, refusal: CommandRejection) -> Response:
    return _json({"command": name, "error": refusal.error}, refusal.status)


def _rejected(rejection: Rejection) -> Response:
    response = _json({"error": rejection.reason}, rejection.status)
    asks = (("WWW-Authenticate", 'Bearer realm="simzk"'),) if rejection.status is HTTPStatus.UNAUTHORIZED else ()
    return response._replace(headers=asks)


def _json(fields: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, JSON, pretty(fields))


IDLE_MS = 30_000
PATH = "/metrics"
_ALLOWED = ("Allow", "GET, HEAD, POST, TRACE, OPTIONS")


def metrics_response(server: TcpServer, request: HttpRequest, *, of_process: bool) -> Response:
    """Return the metrics of a server, or those of the requested names."""
    names = parse_qs(request.query).get("name[]")
    with server.driver.lock:
        report = server.report()
        families = [*families_of(report), *(report.process if of_process else ())]
    return Response(HTTPStatus.OK, PROMETHEUS, text_of(families, frozenset(names) if names else None))


class MetricsServer(HttpServer):
    """Port for Prometheus of one server.

    Raises:
        ConfigError: it cannot listen.
    """

    def __init__(self, server: TcpServer, metrics: Metrics) -> None:
        self.use_server(server)
        super().__init__(metrics.address, metrics.port, self._answer, idle_ms=IDLE_MS)

    def use_server(self, server: TcpServer) -> None:
        """Use another server from now on, which replaces the one before."""
        self._server = server

    def _answer(self, request: HttpRequest) -> Response:
        is_path = canonical_path(request.path) == PATH
        if is_path and request.method == "OPTIONS":
            return nothing(HTTPStatus.OK, _ALLOWED, is_dated=True)
        if is_path and request.method in ("GET", "HEAD", "POST"):
            return metrics_response(self._server, request, of_process=True)
        return no_servlet(request)
