"""Clusters on request over HTTP, for tests in any language: a new one for each test, in the time of a request.

Rules of this module:
  - `POST /clusters` starts a cluster and tells where it listens; its query has options, its body settings of the
    brokers as Java properties. `GET /clusters` lists the clusters, `DELETE /clusters/ID` stops one;
  - with `hold=true` the response has the first line at once, and ends with the connection: when the client closes it,
    or dies, the cluster is stopped;
  - all clusters are stopped with the server;
  - 400 for an invalid option or setting, 404 for an unknown cluster; `AccessRules` has to accept every request, before
    its body is read.
"""

from __future__ import annotations

import json
import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from simzk.errors import ConfigError, SimzkError
from simzk.serve.admin_server.access import AccessRules
from simzk.serve.admin_server.http import JSON, SETTINGS_BYTES, HttpRequest, HttpServer, Response, canonical_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.serve.simulated_brokers import Json

IDLE_MS = 60_000
CLUSTERS_MAX = 500
HOLD = "hold"
_CLUSTER = re.compile(r"/clusters/(\d{1,10})")
_BOOLEANS = {"true": True, "false": False}
_KNOWN = "POST /clusters, GET /clusters, DELETE /clusters/ID"


class HostedCluster(Protocol):
    """A cluster that runs."""

    def announcement(self) -> Json:
        """Return where it listens."""

    def close(self) -> None:
        """Stop it, and free its ports."""


class ClustersServer(HttpServer):
    """HTTP server that starts and stops clusters.

    Args:
        address: the interface to listen on.
        port: the port; 0 for any free one.
        token: token that clients send; None if none is needed.
        start: starts a cluster; called with its options and the properties of its brokers.

    Raises:
        ConfigError: it cannot listen, or the token is invalid.
    """

    def __init__(
        self,
        address: str,
        port: int,
        token: str | None,
        start: Callable[[Mapping[str, str], str], HostedCluster],
    ) -> None:
        self._allowed = AccessRules(token, address)
        self._start_cluster = start
        self._clusters: dict[int, HostedCluster] = {}
        self._made = 0
        super().__init__(address, port, self._answer, idle_ms=IDLE_MS, body_limit=self._limit_of_body)

    def stop(self) -> None:
        """Stop all clusters, refuse new connections, and close those that are open."""
        for number in list(self._clusters):
            self._stop_cluster(number)
        super().stop()

    def _limit_of_body(self, request: HttpRequest) -> int:
        """Return how much body a request may have: settings are read from who is permitted."""
        is_start = request.method == "POST" and canonical_path(request.path) == "/clusters"
        return SETTINGS_BYTES if is_start and self._allowed.rejection(request) is None else 0

    def _answer(self, request: HttpRequest) -> Response:
        path = canonical_path(request.path)
        named = _CLUSTER.fullmatch(path)
        act: Callable[[], Response] | None = None
        if path == "/clusters" and request.method in ("GET", "HEAD"):
            act = self._list
        elif path == "/clusters" and request.method == "POST":
            act = partial(self._start, request)
        elif named is not None and request.method == "DELETE":
            act = partial(self._delete, int(named[1]))
        if act is None:
            what = f"there is no {request.method} {path}; expected {_KNOWN}"
            return _json({"error": what}, HTTPStatus.NOT_FOUND)
        rejection = self._allowed.rejection(request)
        if rejection is not None:
            return _json({"error": rejection.reason}, rejection.status)
        try:
            return act()
        except SimzkError as error:
            return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)

    def _list(self) -> Response:
        return _json({"clusters": [self._described(number) for number in self._clusters]})

    def _start(self, request: HttpRequest) -> Response:
        options = request.parameters
        held = options.pop(HOLD, "false")
        if held not in _BOOLEANS:
            raise ConfigError(f"{held!r} is no boolean", where=HOLD, right="true or false")
        if len(self._clusters) >= CLUSTERS_MAX:
            raise SimzkError(f"{CLUSTERS_MAX} clusters run", right="DELETE /clusters/ID of one that nobody needs")
        cluster = self._start_cluster(options, request.body.decode("latin-1"))
        self._made += 1
        number = self._made
        self._clusters[number] = cluster
        response = _json(self._described(number), HTTPStatus.CREATED)
        return response._replace(on_close=partial(self._stop_cluster, number)) if _BOOLEANS[held] else response

    def _delete(self, number: int) -> Response:
        if number not in self._clusters:
            known = ", ".join(map(str, self._clusters)) or "no cluster runs"
            return _json({"error": f"there is no cluster {number}; expected {known}"}, HTTPStatus.NOT_FOUND)
        self._stop_cluster(number)
        return _json({"error": None})

    def _stop_cluster(self, number: int) -> None:
        cluster = self._clusters.pop(number, None)
        if cluster is not None:
            cluster.close()

    def _described(self, number: int) -> Json:
        return {"id": number, **self._clusters[number].announcement()}


def _json(fields: Json, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, JSON, json.dumps(fields) + "\n", (("Cache-Control", "no-store"),))
