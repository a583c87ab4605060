"""The metrics endpoint on a port of its own, as the real server's PrometheusMetricsProvider opens it.

Source: PrometheusMetricsProvider and its MetricsServlet.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from simzk.serve.admin_server.http import PROMETHEUS, HttpServer, Request, Response, no_servlet, nothing
from simzk.wire.prometheus import families_of, text_of

if TYPE_CHECKING:
    from simzk.serve.configuration.settings import Metrics
    from simzk.serve.tcp.server import TcpServer

IDLE_MS = 30_000
PATH = "/metrics"
_ALLOWED = ("Allow", "GET, HEAD, POST, TRACE, OPTIONS")


def tell(server: TcpServer, request: Request, *, of_process: bool) -> Response:
    """All metrics of a server, or those of the names that are asked for."""
    asked = parse_qs(request.query).get("name[]")
    with server.driver.lock:
        report = server.report()
        families = [*families_of(report), *(report.process if of_process else ())]
    return Response(HTTPStatus.OK, PROMETHEUS, text_of(families, frozenset(asked) if asked else None))


class MetricsServer(HttpServer):
    """The endpoint of one server.

    Args:
        server: whom it tells of.
        metrics: where it listens.

    Raises:
        ConfigError: it cannot listen there.
    """

    def __init__(self, server: TcpServer, metrics: Metrics) -> None:
        self.follow(server)
        super().__init__(metrics.address, metrics.port, self._answer, idle_ms=IDLE_MS)

    def follow(self, server: TcpServer) -> None:
        """Tell of this server from now on, which takes the place of the other."""
        self._server = server

    def _answer(self, request: Request) -> Response:
        if request.plain_path == PATH and request.method == "OPTIONS":
            return nothing(HTTPStatus.OK, _ALLOWED, is_dated=True)
        if request.plain_path == PATH and request.method in ("GET", "HEAD", "POST"):
            return tell(self._server, request, of_process=True)
        return no_servlet(request)
