"""HTTP control of a simulated Kafka cluster: brokers, time, and faults of requests to brokers and to ZooKeeper.

Rules of this module:
  - the live page of an AdminServer is here too (live.py), with its reads and the verbs that only it has;
  - `GET /brokers` shows the brokers; `POST /brokers/N/kill`, `/stop`, `/start`, `/pause`, `/resume` and
    `POST /advance?seconds=S` change them;
  - `POST /broker_faults/KIND` adds a fault of clients' requests, `GET /broker_faults` lists them,
    `POST /broker_faults/release?rule=N` and `/clear` end them;
  - `GET /zookeeper` shows the servers of a ZooKeeper ensemble; `POST /zookeeper/N/kill`, `/start`, `/pause`, `/resume`,
    `/cut` and `/heal` change them, the last two also with `?broker=B`;
  - faults of ZooKeeper's requests are those of the AdminServer, at `/faults`;
  - `stop` is answered when the broker has left ZooKeeper, `start` when it serves; time jumps until then;
  - `start` accepts settings of the broker as Java properties in its body;
  - 404 for an unknown broker or verb, 409 where the broker's state does not fit, 400 for invalid settings or times;
  - whatever changes state is a POST; `AccessRules` has to accept every request, before its body is read.
"""

from __future__ import annotations

import json
import math
import re
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from simzk.documents import is_number
from simzk.errors import ConfigError, SimzkError
from simzk.serve.admin_server.access import AccessRules
from simzk.serve.admin_server.faults import SECONDS_MAX
from simzk.serve.admin_server.http import JSON, SETTINGS_BYTES, HttpRequest, Response, canonical_path
from simzk.serve.admin_server.server import AdminServer
from simzk.serve.configuration.file_formats import read_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simzk.serve.simulated_brokers import Json, SimulatedBrokers
    from simzk.serve.tcp.server import TcpServer

_OF_PAGE = ("/", "/live/state", "/live/node", "/live/picture")
_VERBS_OF_PAGE = ("expire", "disconnect", "cut", "heal")
VERBS = ("kill", "stop", "start", "pause", "resume")
SERVER_VERBS = ("kill", "start", "pause", "resume", "cut", "heal")
_SERVER = re.compile(r"/zookeeper/(\d{1,10})/([a-z]+)")
_BROKER = re.compile(r"/brokers/(\d{1,10})/([a-z]+)")
_FAULT = re.compile(r"/broker_faults/([a-z_]+)")


class UnknownBrokerError(SimzkError):
    """A request names a broker or a ZooKeeper server that does not exist."""


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

    def zookeeper_state(self) -> Json:
        """Return the state of each server of the ensemble by number, and which is the leader."""

    def control_zookeeper(self, number: int, verb: str, broker: int | None) -> None:
        """Do something to a server of the ensemble.

        Args:
            number: its number.
            verb: one of `SERVER_VERBS`.
            broker: the broker that it is cut off from, for `cut` and `heal`; None for the other servers.

        Raises:
            UnknownBrokerError: there is no such server.
            ConfigError: the broker does not exist, or the verb has none.
            SimzkError: the server's state does not fit.
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
        shown: the same brokers, as the live page shows them.

    Raises:
        ConfigError: it cannot listen, or the token is invalid.
    """

    def __init__(
        self, server: TcpServer, address: str, port: int, brokers: ControlledBrokers, shown: SimulatedBrokers
    ) -> None:
        super().__init__(server, address, port, brokers=shown)
        self._controlled = brokers
        self._allowed = AccessRules(server.settings.admin_token, address)

    def _limit_of_body(self, request: HttpRequest) -> int:
        """Return how much body a request may have: settings are read from who is permitted."""
        starts = _BROKER.fullmatch(canonical_path(request.path)) is not None and request.method == "POST"
        return SETTINGS_BYTES if starts and self._allowed.rejection(request) is None else 0

    def _answer(self, request: HttpRequest) -> Response:
        path = canonical_path(request.path)
        verb = _BROKER.fullmatch(path)
        is_of_page = path in _OF_PAGE or (verb is not None and verb[2] in _VERBS_OF_PAGE)
        if path == "/faults" or path.startswith("/faults/") or is_of_page:
            return super()._answer(request)
        show = {
            "/brokers": self._controlled.control_state,
            "/zookeeper": self._controlled.zookeeper_state,
            "/broker_faults": self._controlled.request_faults,
        }.get(path)
        reads = show is not None and request.method in ("GET", "HEAD")
        act = show if reads else self._action(path, request)
        if act is None:
            known = (
                f"GET /brokers, POST /brokers/N/VERB with a verb of {', '.join(VERBS)}, GET /zookeeper, "
                f"POST /zookeeper/N/VERB with a verb of {', '.join(SERVER_VERBS)}, POST /advance, "
                "/broker_faults, /faults"
            )
            return _json({"error": f"there is no {request.method} {path}; expected {known}"}, HTTPStatus.NOT_FOUND)
        if not reads and request.method != "POST":
            return _json({"error": f"{path} needs POST"}, HTTPStatus.METHOD_NOT_ALLOWED)
        rejection = self._allowed.rejection(request)
        if rejection is not None:
            return _json({"error": rejection.reason}, rejection.status)
        try:
            return _json(act())
        except UnknownBrokerError as error:
            return _json({"error": str(error)}, HTTPStatus.NOT_FOUND)
        except ConfigError as error:
            return _json({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        except (SimzkError, TimeoutError) as error:
            return _json({"error": str(error)}, HTTPStatus.CONFLICT)

    def _action(self, path: str, request: HttpRequest) -> Callable[[], Json] | None:
        """Return what a POST to a path does, and its answer; None for an unknown path."""
        controlled, parameters = self._controlled, request.parameters
        broker, server, fault = (form.fullmatch(path) for form in (_BROKER, _SERVER, _FAULT))
        if fault is not None:
            return partial(controlled.change_request_faults, fault[1], parameters)
        if path == "/advance":
            return partial(_done, lambda: controlled.advance(_seconds(parameters.get("seconds", ""))))
        if broker is not None and broker[2] in VERBS:
            return partial(_done, lambda: controlled.control(int(broker[1]), broker[2], _properties(request.body)))
        if server is not None and server[2] in SERVER_VERBS:
            number, verb = int(server[1]), server[2]
            return partial(_done, lambda: controlled.control_zookeeper(number, verb, _broker(parameters)))
        return None


def _done(act: Callable[[], None]) -> Json:
    """Carry a request out, and return its answer."""
    act()
    return {"error": None}


def _broker(parameters: Mapping[str, str]) -> int | None:
    """Return the broker that a request names; None without one."""
    text = parameters.get("broker")
    if text is None:
        return None
    if not is_number(text):
        raise ConfigError(f"{text!r} is no broker", where="broker", right="the id of a broker")
    return int(text)


def _properties(body: bytes) -> dict[str, str]:
    return {key: entry.value for key, entry in read_properties(body.decode("latin-1"), "body").items()}


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (math.isfinite(seconds) and 0 <= seconds <= SECONDS_MAX):
        right = f"a number of seconds, 0 to {SECONDS_MAX:,}"
        raise ConfigError(f"{text!r} is no duration", where="seconds", right=right)
    return seconds


def _json(fields: Json, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, JSON, json.dumps(fields), (("Cache-Control", "no-store"),))
