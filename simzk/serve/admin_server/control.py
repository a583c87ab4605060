"""HTTP control of a simulated Kafka cluster: brokers, time, and faults of requests to brokers and to ZooKeeper.

Rules of this module:
  - `GET /brokers` shows the brokers; `POST /brokers/N/kill`, `/stop`, `/start`, `/pause`, `/resume` and
    `POST /advance?seconds=S` change them;
  - `POST /broker_faults/KIND` adds a fault of clients' requests, `GET /broker_faults` lists them,
    `POST /broker_faults/release?rule=N` and `/clear` end them;
  - faults of ZooKeeper's requests are those of the AdminServer, at `/faults`;
  - `stop` is answered when the broker has left ZooKeeper, `start` when it serves; time jumps until then;
  - `start` accepts settings of the broker as Java properties in its body;
  - 404 for an unknown broker or verb, 409 where the broker's state does not fit, 400 for invalid settings or times;
  - whatever changes state is a POST that `Access` accepts; what is shown needs no permission: addresses and states.
"""

from __future__ import annotations

import json
import math
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from simzk.errors import ConfigError, SimzkError
from simzk.serve.admin_server.access import Access
from simzk.serve.admin_server.http import JSON, Request, Response
from simzk.serve.admin_server.server import AdminServer
from simzk.serve.configuration.file_formats import read_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.serve.simulated_brokers import Json
    from simzk.serve.tcp.server import TcpServer

VERBS = ("kill", "stop", "start", "pause", "resume")
_BROKER = re.compile(r"/brokers/(\d{1,10})/([a-z]+)")
_FAULT = re.compile(r"/broker_faults/([a-z_]+)")


class UnknownBrokerError(SimzkError):
    """A request names a broker that does not exist."""


class ControlledBrokers(Protocol):
    """The brokers of a simulated cluster, as far as they are controlled over HTTP."""

    def control_state(self) -> Json:
        """Return state and address of each broker by id, and which is the controller."""

    def control(self, number: int, verb: str, properties: Mapping[str, str]) -> None:
        """Do something to a broker, and return when it is done.

        Args:
            number: its id.
            verb: one of `VERBS`.
            properties: settings of the broker that change, for `start`.

        Raises:
            UnknownBrokerError: there is no such broker.
            ConfigError: a setting is invalid.
            SimzkError: the broker's state does not fit.
        """

    def advance(self, seconds: float) -> None:
        """Let time jump."""

    def request_faults(self) -> Json:
        """Return the rules of faults of clients' requests."""

    def change_request_faults(self, verb: str, parameters: Mapping[str, str]) -> Json:
        """Add a rule, or release or clear rules; return the rule.

        Args:
            verb: the kind of fault, `fail_next`, `release` or `clear`.
            parameters: of the request.

        Raises:
            ConfigError: the verb or a parameter is invalid.
        """


class ControlServer(AdminServer):
    """HTTP control of a cluster.

    Args:
        server: the server of the cluster's ZooKeeper, whose token applies here.
        address: the interface to listen on.
        port: the port; 0 for any free one.
        brokers: the cluster's brokers.

    Raises:
        ConfigError: it cannot listen, or the token is invalid.
    """

    def __init__(self, server: TcpServer, address: str, port: int, brokers: ControlledBrokers) -> None:
        super().__init__(server, address, port)
        self._controlled = brokers
        self._allowed = Access(server.settings.admin_token, address)

    def _answer(self, request: Request) -> Response:
        path = request.plain_path
        if path == "/faults" or path.startswith("/faults/"):
            return super()._answer(request)
        if path == "/brokers" and request.method in ("GET", "HEAD"):
            return _json(self._controlled.control_state())
        if path == "/broker_faults" and request.method in ("GET", "HEAD"):
            return _json(self._controlled.request_faults())
        found, fault = _BROKER.fullmatch(path), _FAULT.fullmatch(path)
        if path != "/advance" and fault is None and (found is None or found[2] not in VERBS):
            verbs = ", ".join(VERBS)
            known = f"GET /brokers, POST /brokers/N/VERB with a verb of {verbs}, POST /advance, /broker_faults, /faults"
            return _json({"error": f"there is no {request.method} {path}; expected {known}"}, HTTPStatus.NOT_FOUND)
        if request.method != "POST":
            return _json({"error": f"{path} needs POST"}, HTTPStatus.METHOD_NOT_ALLOWED)
        rejection = self._allowed.rejection(request)
        if rejection is not None:
            return _json({"error": rejection.reason}, rejection.status)
        try:
            if fault is not None:
                return _json(self._controlled.change_request_faults(fault[1], request.parameters))
            if found is None:
                self._controlled.advance(_seconds(request.parameters.get("seconds", "")))
            else:
                self._controlled.control(int(found[1]), found[2], _properties(request.body))
        except UnknownBrokerError as error:
            return _json({"error": str(error)}, HTTPStatus.NOT_FOUND)
        except ConfigError as error:
            return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except (SimzkError, TimeoutError) as error:
            return _json({"error": str(error)}, HTTPStatus.CONFLICT)
        return _json({"error": None})


def _properties(body: bytes) -> dict[str, str]:
    return {key: entry.value for key, entry in read_properties(body.decode("latin-1"), "body").items()}


def _seconds(text: str) -> float:
    """Return a duration.

    Raises:
        ConfigError: it is no number, or negative.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(f"{text!r} is no duration", where="seconds", right="a number of seconds, 0 or more")
    return seconds


def _json(fields: Json, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, JSON, json.dumps(fields), (("Cache-Control", "no-store"),))
