"""HTTP server with the answers and error pages of the real server's Jetty.

Rules of this module:
  - a connection is kept for more requests, which are answered in order, one in a turn of the loop, and only while the
    client reads; a connection that neither sends nor reads is closed after a timeout;
  - a body has the length of Content-Length, or comes in chunks; the server says before it is read how much the request
    may have. A request that needs no body and has more than `IGNORED_BYTES` is answered at once, and the connection
    ends;
  - the handler gets a complete request, and returns a complete response.

Source: Jetty 9.4 (HttpParser, ErrorHandler), as JettyAdminServer and PrometheusMetricsProvider of 3.9.5 use it.
"""

from __future__ import annotations

import asyncio
import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes
from zlib import crc32

from simzk.serve.tcp.accepting import Acceptor
from simzk.serve.tcp.addresses import bind, name_of, peer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HEAD_BYTES = 8 * 1024
BODY_BYTES = 1024 * 1024 * 1024
SETTINGS_BYTES = 1024 * 1024
"""Most bytes of settings of brokers in a body."""
IGNORED_BYTES = 64 * 1024
LINGER_S = 1.0
"""How long the rest of an unread body is discarded: closing at once would lose the answer (RFC 9112, section 9.6)."""
BACKLOG = 100
JSON, HTML, STREAM = "application/json", "text/html;charset=iso-8859-1", "application/octet-stream"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
NO_SERVLET = "org.eclipse.jetty.servlet.ServletHandler$Default404Servlet"
_SERVER = "Jetty(9.4.58.v20250814)"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"})
_BLANK = re.compile(rb"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK_LENGTH = re.compile(rb"[0-9a-fA-F]{1,15}")
_VERSIONS = ("HTTP/1.1", "HTTP/1.0")
_OTHER_VERSIONS = {
    "HTTP/2.0": (HTTPStatus.UPGRADE_REQUIRED, "Upgrade Required"),
    "HTTP/0.9": (HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "Unsupported Version"),
}
_QUALITY = re.compile(r"[0-9]{1,3}(\.[0-9]{0,9})?|\.[0-9]{1,9}")
_CONTINUE = "100-continue"
_EXPECTATIONS = frozenset({_CONTINUE, "102-processing"})
_HOST_PORT = re.compile(r"(?:[^:\[][^:]*)?(?::(\+?[0-9]+))?|\[.*\](?::(\+?[0-9]+))?|[^\[]*:[^\[]*:.*")
"""Value of a Host: with one colon, in brackets, or an IPv6 address without them (HostPort)."""
_AUTHORITY = re.compile(r"(?:[^@]*@)?(?:\[.*\]|[^:]*)(?::[0-9]*)?")


class HttpRequest(NamedTuple):
    """HTTP request.

    Attributes:
        method: GET and so on.
        path: as it was sent, without the query.
        query: the part after the question mark.
        headers: by their names in lower case.
        body: the complete body; empty before it is read, and where more than `IGNORED_BYTES` are not.
        address: the client's.
        local_address: the one of this machine that the client connected to.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    address: str
    local_address: str

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of the query, the first of each name."""
        return dict(reversed(parse_qsl(self.query, keep_blank_values=True)))

    @property
    def has_valid_query(self) -> bool:
        """Whether all escapes of the query are well-formed and UTF-8."""
        if re.search("%(?![0-9a-fA-F]{2})", self.query):
            return False
        try:
            unquote_to_bytes(self.query).decode()
        except UnicodeDecodeError:
            return False
        return True


class Response(NamedTuple):
    """HTTP response; Jetty's own error pages have no date, and the worst of them close the connection.

    Without `has_length` the length is left out where the connection ends. A response with `on_close` has no end: the
    connection stays open until the client closes it, or the server stops. Then `on_close` is called.
    """

    status: HTTPStatus
    kind: str
    body: str | bytes
    headers: tuple[tuple[str, str], ...] = ()
    is_dated: bool = True
    closes: bool = False
    has_length: bool = True
    on_close: Callable[[], None] | None = None


class BadRequestError(Exception):
    """Malformed request: the status, and Jetty's reason."""

    def __init__(self, status: HTTPStatus, reason: str = "") -> None:
        self.status = status
        self.reason = reason or status.phrase
        super().__init__(self.reason)


def canonical_path(path: str) -> str:
    """Return a path as Jetty finds its servlet by (URIUtil.decodePath, canonicalPath).

    Parameters of parts (`;x=y`) are removed, escapes are decoded, as UTF-8 if they are that and else as Latin-1, and
    dot parts are resolved, escaped ones too.

    Raises:
        BadRequestError: an escape is malformed or NUL, or the path leads above the root.

    >>> canonical_path("/a;x=y/%62/../c")
    '/a/c'
    """
    bad = BadRequestError(HTTPStatus.BAD_REQUEST)
    bare = re.sub(";[^/]*", "", path)
    if not bare.startswith("/") or re.search("%(?!u[0-9a-fA-F]{4}|[0-9a-fA-F]{2})|%00|%u0000", bare):
        raise bad
    wide = re.sub("%u([0-9a-fA-F]{4})", lambda found: quote(chr(int(found[1], 16)), errors="replace"), bare)
    raw = unquote_to_bytes(wide.encode("latin-1"))
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    parts: list[str] = []
    names = text.split("/")[1:]
    for place, name in enumerate(names):
        is_last = place == len(names) - 1
        if name == "..":
            if not parts:
                raise bad
            parts.pop()
        elif name != ".":
            parts.append(name)
            continue
        if is_last:
            parts.append("")
    return "/" + "/".join(parts)


def nothing(status: HTTPStatus, *headers: tuple[str, str], is_dated: bool = False) -> Response:
    """Return a response without a body."""
    return Response(status, "", "", headers, is_dated)


def error_page(
    request: HttpRequest, status: HTTPStatus, message: str = "", *, servlet: str = NO_SERVLET, cause: str = ""
) -> Response:
    """Return Jetty's error page, in the form of the header Accept."""
    message = message or status.phrase
    # Jetty appends the identity hash of the servlet, which is any number.
    rows = {"URI": request.path, "STATUS": str(status.value), "MESSAGE": message}
    rows["SERVLET"] = f"{servlet}-{crc32(servlet.encode()):x}" if servlet else "-"
    if cause:
        rows["CAUSED BY"] = cause
    fresh = ("Cache-Control", "must-revalidate,no-cache,no-store")
    for kind in accepted_types(request.headers.get("accept")):
        if kind in ("text/html", "text/*", "*/*"):
            return Response(status, HTML, _page(rows, f"{status.value} {message}", cause), (fresh,), is_dated=False)
        if kind in (JSON, "text/json"):
            fields = {"servlet": rows["SERVLET"], "message": message, "url": request.path, "status": rows["STATUS"]}
            lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items())
            return Response(status, kind, f"{{\n{lines}\n}}", (fresh,), is_dated=False)
        if kind == "text/plain":
            lines = "".join(f"{name}: {value}\n" for name, value in rows.items())
            plain = f"HTTP ERROR {status.value} {message}\n{lines}"
            return Response(status, "text/plain;charset=iso-8859-1", plain, (fresh,), is_dated=False)
    return nothing(status, fresh)._replace(has_length=False)


def accepted_types(accept: str | None) -> list[str]:
    """Return the media types of a header Accept as Jetty orders them (QuotedQualityCSV, MOST_SPECIFIC_MIME_ORDERING).

    The quality decides, then how specific a type is, then the order; those of quality 0 or an invalid one are left out.

    >>> accepted_types("*/*, text/plain;q=0.5, application/json, text/html;q=0"), accepted_types(None)
    (['application/json', '*/*', 'text/plain'], ['text/html'])
    """
    if accept is None:
        return ["text/html"]
    rated: list[tuple[float, int, str]] = []
    for item in accept.split(","):
        kind, *parameters = (part.strip() for part in item.split(";"))
        quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        others = [part for part in parameters if not part.startswith("q=")]
        rating = float(quality) if _QUALITY.fullmatch(quality) else 0.0
        if kind and rating > 0:
            specific = 0 if kind == "*/*" else 1 if kind.endswith("/*") else 3 if others else 2
            rated.append((rating, specific, ";".join((kind, *others))))
    return [kind for _, _, kind in sorted(rated, key=lambda row: row[:2], reverse=True)]


def no_servlet(request: HttpRequest) -> Response:
    """Answer a path that has no servlet."""
    if request.method == "TRACE":
        return nothing(HTTPStatus.FORBIDDEN)
    if request.method == "OPTIONS":
        return nothing(HTTPStatus.OK, ("Allow", "GET, HEAD, TRACE, OPTIONS"), is_dated=True)
    if request.method in ("GET", "HEAD"):
        return error_page(request, HTTPStatus.NOT_FOUND)
    if request.method == "POST":
        message = "HTTP method POST is not supported by this URL"
        return error_page(request, HTTPStatus.METHOD_NOT_ALLOWED, message)
    return nothing(HTTPStatus.METHOD_NOT_ALLOWED)


def _date() -> str:
    from email.utils import formatdate

    return formatdate(usegmt=True)


def _page(values: Mapping[str, str], title: str, cause: str) -> str:
    from html import escape

    title = escape(title)
    rows = "".join(f"<tr><th>{name}:</th><td>{escape(value)}</td></tr>\n" for name, value in values.items())
    trace = f"<h3>Caused by:</h3><pre>{escape(cause)}\n</pre>\n" if cause else ""
    return (
        '<html>\n<head>\n<meta http-equiv="Content-Type" content="text/html;charset=ISO-8859-1"/>\n'
        f"<title>Error {title}</title>\n</head>\n<body><h2>HTTP ERROR {title}</h2>\n<table>\n{rows}</table>\n{trace}"
        f'<hr/><a href="https://jetty.org/">Powered by Jetty:// {_SERVER[6:-1]}</a><hr/>\n\n</body>\n</html>\n'
    )


class HttpServer:
    """HTTP server on one port.

    Args:
        address: the interface to listen on; empty for all.
        port: the port; 0 for any free one.
        answer: returns the response to a request; called on the loop.
        idle_ms: idle timeout of a connection.
        body_limit: returns how many bytes of body a request may have, 0 if it needs none; called with its head, before
            the body is read.
        opens_body: returns whether a POST opens its body, though it may read nothing of it; a client that waits is then
            asked to send it.

    Raises:
        ConfigError: it cannot listen.
    """

    def __init__(
        self,
        address: str,
        port: int,
        answer: Callable[[HttpRequest], Response],
        *,
        idle_ms: int,
        body_limit: Callable[[HttpRequest], int] = lambda _: 0,
        opens_body: Callable[[HttpRequest], bool] = lambda _: True,
    ) -> None:
        listener = bind(address, port, BACKLOG)
        self._acceptor = Acceptor(listener, lambda: _Connection(self))
        self.answer = answer
        self.body_limit = body_limit
        self.opens_body = opens_body
        self.idle_s = idle_ms / 1000
        self.connections: dict[_Connection, None] = {}
        self.name = name_of(listener)

    async def start(self) -> None:
        """Accept connections on the running loop."""
        self._acceptor.start()

    def stop(self) -> None:
        """Refuse new connections, and close those that are open."""
        self._acceptor.close()
        self._acceptor.abort()
        for connection in list(self.connections):
            connection.end()


class _Head(NamedTuple):
    method: str
    target: str
    version: str
    headers: dict[str, str]

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants the connection to be kept."""
        option = self.headers.get("connection", "").lower()
        return option == "keep-alive" if self.version == "HTTP/1.0" else option != "close"

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for a status 100 before it sends a body."""
        return self.version == "HTTP/1.1" and _CONTINUE in _expectations(self.headers)

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    @property
    def body_length(self) -> int:
        """Length of a body that does not come in chunks."""
        return int(self.headers.get("content-length", "0"))


def _expectations(headers: Mapping[str, str]) -> list[str]:
    return [one.strip().lower() for one in headers.get("expect", "").split(",") if one.strip()]


def _is_host_port(value: str) -> bool:
    """Return whether a Host has a valid form, and a port from 1 to 65535 if any.

    >>> [_is_host_port(value) for value in ("", "a:+1", "[::1]:80", "::1", "a:", "a:0", "a:65536", "[::1", "[::1]x")]
    [True, True, True, True, False, False, False, False, False]
    """
    found = _HOST_PORT.fullmatch(value)
    port = None if found is None else found[1] or found[2]
    return found is not None and (port is None or (len(port) < 10 and 0 < int(port) < 1 << 16))


def _read_fields(lines: list[str]) -> dict[str, str]:
    """Return header fields by their names in lower case, the values of repeated Accept or Expect fields as one."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not name or line[0] in " \t":
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Header Folding")
        if " " in name:
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Illegal character SPACE=' '")
        if not colon:
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Illegal character LF=\\n")
        name, value = name.lower(), value.strip()
        if name == "host" and not _is_host_port(value):
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Bad HostPort")
        headers[name] = f"{headers[name]}, {value}" if name in ("accept", "expect") and name in headers else value
    return headers


def _read_head(lines: list[str]) -> _Head:
    words = lines[0].split()
    control = next((character for character in lines[0] if character < " "), None)
    if control is not None:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, f"Illegal character CNTL=0x{ord(control):x}")
    if len(words) < 2:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "No URI")
    if len(words) == 2:
        raise BadRequestError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "HTTP/0.9 not supported")
    if len(words) > 3 or words[2] not in _VERSIONS:
        unsupported = (HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "Unknown Version")
        raise BadRequestError(*_OTHER_VERSIONS.get(words[2], unsupported))
    if words[1].startswith("?"):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "Bad URI")
    headers = _read_fields(lines[1:])
    if words[2] == "HTTP/1.1":
        if "host" not in headers:
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "No Host")
        if not _EXPECTATIONS.issuperset(_expectations(headers)):
            raise BadRequestError(HTTPStatus.EXPECTATION_FAILED)
    if _LENGTH.fullmatch(headers.get("content-length", "0")) is None:
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "Invalid Content-Length Value")
    return _Head(words[0], words[1], words[2], headers)


class _Connection(asyncio.Protocol):
    """Connection of one client, with one request at a time."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._request: HttpRequest | None = None
        self._body = bytearray()
        self._body_limit = 0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._is_writable = True
        self._waits_for_turn = False
        self._discards = False
        self._on_close: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections[self] = None
        self._restart_timer(self._server.idle_s)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        del self._server.connections[self]
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._on_close is not None:
            self._on_close()

    def _restart_timer(self, after_s: float) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(after_s, self._on_idle)

    def _on_idle(self) -> None:
        """Drop an idle connection, with what its client does not read."""
        assert self._transport is not None, "the timer ends with the connection"
        before, self._unsent = self._unsent, self._transport.get_write_buffer_size()
        if self._unsent > 0 and (before == 0 or self._unsent < before):
            self._restart_timer(self._server.idle_s)
        else:
            self._transport.abort()

    def end(self) -> None:
        """Close the connection once all is sent."""
        if self._transport is not None:
            self._transport.close()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._restart_timer(self._server.idle_s)
        self._wait_for_turn()

    def data_received(self, data: bytes) -> None:
        if self._on_close is not None or self._discards:
            return  # the last response has no end, or its request's body is not read
        self._restart_timer(self._server.idle_s)
        self._buffer += data
        if not self._waits_for_turn:
            self._go_on()

    def _wait_for_turn(self) -> None:
        """Go on with the buffer in the next turn of the loop, after the other connections."""
        if not self._waits_for_turn:
            self._waits_for_turn = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._waits_for_turn = False
        self._go_on()

    def _go_on(self) -> None:
        """Parse what has arrived, and answer at most one request; stop reading while others wait in the buffer."""
        if self._transport is None or self._transport.is_closing() or self._discards or self._on_close is not None:
            return
        is_answered = False
        try:
            while self._is_writable and not is_answered and self._read_next():
                is_answered = self._head is None
        except BadRequestError as bad:
            page = f"<h1>Bad Message {bad.status.value}</h1><pre>reason: {bad.reason}</pre>"
            response = Response(bad.status, HTML, page, is_dated=False, closes=True)
            self._send(response, None, bad.reason, lingers=True)
            return
        waits = is_answered and bool(self._buffer)
        if waits and self._is_writable:
            self._wait_for_turn()
        if waits or not self._is_writable:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _read_next(self) -> bool:
        """Parse the next head, body or chunk; return whether it has arrived."""
        if self._head is None:
            assert not self._body, "a body before its head"
            return self._read_request_head()
        if self._head.is_chunked:
            return self._read_chunk()
        length = self._head.body_length
        if len(self._buffer) < length:
            return False
        self._body += self._buffer[:length]
        del self._buffer[:length]
        self._answer()
        return True

    def _read_request_head(self) -> bool:
        while (blank := _BLANK.match(self._buffer)) is not None:
            del self._buffer[: blank.end()]
        control = _CONTROL.search(self._buffer.partition(b"\n")[0])
        if control is not None:
            raise BadRequestError(HTTPStatus.BAD_REQUEST, f"Illegal character CNTL=0x{control[0][0]:x}")
        found = _HEAD_END.search(self._buffer)
        end = -1 if found is None else found.start()
        if end > HEAD_BYTES or (end < 0 and len(self._buffer) > HEAD_BYTES):
            if b" " in self._buffer[:HEAD_BYTES] and self._buffer.find(b"\n") not in range(HEAD_BYTES):
                raise BadRequestError(HTTPStatus.REQUEST_URI_TOO_LONG, "URI Too Long")
            raise BadRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if end < 0:
            return False
        assert found is not None
        lines = [line.removesuffix("\r") for line in self._buffer[:end].decode("latin-1").split("\n")]
        if any("\r" in line for line in lines):
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Bad EOL")
        self._head = _read_head(lines)
        del self._buffer[: found.end()]
        self._begin_request(self._head)
        return True

    def _begin_request(self, head: _Head) -> None:
        """Ask the server how much body it reads, or answer a request that needs no more."""
        assert self._transport is not None
        target = head.target.partition("#")[0]
        scheme, colon, rest = target.partition("://")
        if colon and scheme.isalpha():
            authority, _, rest = rest.partition("/")
            if _AUTHORITY.fullmatch(authority) is None:
                raise BadRequestError(HTTPStatus.BAD_REQUEST)
            target = f"/{rest}"
        path, _, query = target.partition("?")
        peer, own = peer_of(self._transport)[0], self._transport.get_extra_info("sockname")[0]
        request = HttpRequest(head.method, path, query, head.headers, b"", address=peer, local_address=own)
        if head.method in _METHODS:
            self._request = request
        if path != "*" and head.method in _METHODS:
            canonical_path(path)
            self._body_limit = self._server.body_limit(request)
        if not self._accepts_body(head.body_length) or not head.expects_continue:
            return
        # Jetty asks for a body that has not arrived where somebody opens it, and waits only for one that is read.
        opens = head.method == "POST" and self._server.opens_body(request)
        if head.method in ("GET", "HEAD") or not (self._buffer or opens):
            self._answer(is_read=False)
        elif not self._buffer:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if not self._body_limit:
                self._answer(is_read=False, is_asked_for=True)

    def _read_chunk(self) -> bool:
        """Parse one chunk of a body; the last one is empty."""
        line = self._buffer.find(b"\r\n", 0, HEAD_BYTES)
        if line < 0:
            if len(self._buffer) >= HEAD_BYTES:
                raise BadRequestError(HTTPStatus.BAD_REQUEST)
            return False
        text = self._buffer[:line].partition(b";")[0].strip()
        if _CHUNK_LENGTH.fullmatch(text) is None:
            raise BadRequestError(HTTPStatus.BAD_REQUEST)
        length = int(text, 16)
        if not self._accepts_body(len(self._body) + length):
            return True
        end = line + 2 + length + 2
        if len(self._buffer) < end:
            return False
        self._body += self._buffer[line + 2 : end - 2]
        del self._buffer[:end]
        if not length:
            self._answer()
        return True

    def _accepts_body(self, length: int) -> bool:
        """Return whether a body may have a length; answer a request that needs none."""
        if length <= max(self._body_limit, IGNORED_BYTES):
            return True
        if self._body_limit:
            raise BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Payload Too Large")
        self._answer(is_read=False)
        return False

    def _answer(self, *, is_read: bool = True, is_asked_for: bool = False) -> None:
        """Answer the request, and forget it.

        Args:
            is_read: whether its body is read; False for one that stays unread, with which the connection ends.
            is_asked_for: whether the client was asked to send it all the same; the answer then does not say that the
                connection ends.
        """
        head, request, body = self._head, self._request, bytes(self._body) if is_read else b""
        assert head is not None
        self._head, self._request, self._body, self._body_limit = None, None, bytearray(), 0
        if request is None:
            response = nothing(HTTPStatus.NOT_IMPLEMENTED)
        elif request.path == "*":
            response = error_page(request, HTTPStatus.BAD_REQUEST, servlet="")
        else:
            response = self._server.answer(request._replace(body=body))
        if is_read:
            self._send(response, head)
            return
        if not is_asked_for:
            response = response._replace(closes=True, has_length=bool(response.body))
        # Jetty's error pages say first that the connection ends if a body is still to come.
        is_owed = not self._buffer and (head.is_chunked or head.body_length > 0)
        says_first = is_owed and response.closes and response.status >= HTTPStatus.BAD_REQUEST
        self._send(response._replace(on_close=None), head, lingers=True, says_first=says_first)

    def _send(
        self,
        response: Response,
        head: _Head | None,
        reason: str = "",
        *,
        lingers: bool = False,
        says_first: bool = False,
    ) -> None:
        assert self._transport is not None
        body = response.body if isinstance(response.body, bytes) else response.body.encode()
        is_held = response.on_close is not None
        if is_held:
            assert self._idle_timer is not None
            self._on_close = response.on_close
            self._idle_timer.cancel()
        ends = not is_held and (response.closes or (head is not None and not head.keeps_alive))
        closing = [("Connection", "close")]
        is_old = head is not None and not head.keeps_alive and head.version == _VERSIONS[1]  # it expects the end
        names_close = says_first or (head is not None and not head.keeps_alive and not is_old)
        fields = [
            *(closing if names_close else []),
            *([("Date", _date())] if response.is_dated else []),
            *response.headers,
            *([("Content-Type", response.kind)] if response.kind else []),
            *([] if is_held or (ends and not response.has_length) else [("Content-Length", str(len(body)))]),
            *(closing if (response.closes or is_held) and not names_close and not is_old else []),
            ("Server", _SERVER),
        ]
        status = response.status
        jettys = "Server Error" if status is HTTPStatus.INTERNAL_SERVER_ERROR else status.phrase
        lines = f"HTTP/1.1 {status.value} {reason or jettys}\r\n"
        lines += "".join(f"{name}: {value}\r\n" for name, value in fields)
        self._transport.write(
            f"{lines}\r\n".encode("latin-1") + (b"" if head is not None and head.method == "HEAD" else body)
        )
        if lingers:
            self._discards = True
            self._buffer.clear()
            self._transport.write_eof()
            self._transport.resume_reading()
            self._restart_timer(LINGER_S)
        elif ends:
            self._transport.close()
