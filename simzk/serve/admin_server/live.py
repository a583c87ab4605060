"""Live view of a server: its state as JSON values, the verbs of its page, and the page itself.

| request | effect |
| --- | --- |
| GET / | the page, without any data |
| GET /live/state | server, sessions with their watches, latest requests, simulated brokers |
| GET /live/node?path=PATH | data, Stat, ACL and children of a znode |
| GET /live/picture | what has happened to the simulated brokers so far: states over time, as the page of a run |
| GET /brokers | the simulated brokers and the partitions |
| POST /brokers/N/VERB | does it to broker N: kill, stop, start, pause, resume, expire, disconnect, cut, heal |
| POST /advance?seconds=S | lets time pass at once; sessions of connected clients stay alive |

Rules of this module:
  - lists are bounded, and say how long they are in full, so that a large server can be watched too;
  - requests are recorded from the first look on;
  - the page is one file without any other resource; its policy (CSP) allows its own script and style only, by their
    hashes. All texts of the server are set as text, never as HTML. The picture is a document of its own, in a frame
    that may run its script, and has neither the token nor the page's origin;
  - simulated brokers are an interface here (`SimulatedBrokers`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import SimzkError
from simzk.serve.admin_server.faults import required, seconds, whole
from simzk.serve.admin_server.http import Response
from simzk.serve.clock import StillClock
from simzk.serve.request_recorder import RecordedNotice, RequestRecorder
from simzk.serve.wire_driver import WireLink
from simzk.zookeeper.acl import ADMIN, CREATE, DELETE, READ, WRITE, without_secrets
from simzk.zookeeper.operations import operation_and_paths
from simzk.zookeeper.replies import Code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.serve.request_recorder import Exchange
    from simzk.serve.simulated_brokers import Json, SimulatedBrokers
    from simzk.serve.tcp.server import TcpServer
    from simzk.zookeeper.connection import Connection

SESSIONS_MAX = 100
"""Number of sessions in a state."""
WATCHES_MAX = 20
"""Number of watches, and of ephemerals, of one session in a state."""
REQUESTS_MAX = 60
"""Number of requests and watch events in a state."""
RECORDED_MAX = 1000
"""Number of requests, watch events and session changes that are stored for the page."""
CHILDREN_MAX = 500
"""Number of children of one znode in an answer."""
DATA_BYTES_MAX = 4096
"""Size of the data of one znode in an answer."""
ADVANCE_MAX_S = 3600.0
"""Longest time that one request lets pass: the server answers nobody meanwhile."""

HTML = "text/html; charset=utf-8"
# As ZooKeeper's own command line writes permissions (ZKUtil.getPermString).
_PERMISSIONS = ((CREATE, "c"), (DELETE, "d"), (READ, "r"), (WRITE, "w"), (ADMIN, "a"))


class LiveView:
    """Live view of one server; `brokers` are those of the simulated cluster that it belongs to, if it does."""

    def __init__(self, server: TcpServer, brokers: SimulatedBrokers | None) -> None:
        self._server = server
        self._brokers = brokers

    def state(self) -> Json:
        """Return the state of the server, its clients and the simulated brokers."""
        driver = self._server.driver
        if not driver.accepts_links:
            return {"stopped": True, "servers": self._servers()}
        with driver.lock:
            driver.tick()
            recorder = driver.group.recorder
            if recorder is None:
                recorder = RequestRecorder(records_max=RECORDED_MAX)
                driver.group.record(recorder)
            server = driver.server
            ids = server.sessions.ids()
            return {
                "stopped": False,
                "server": {
                    "name": self._server.name,
                    "version": server.config.rules.build.partition(",")[0],
                    "mode": server.mode,
                    "zxid": f"0x{server.zxid:x}",
                    "now_ms": driver.now_ms(),
                    "stands_still": isinstance(self._server.clock, StillClock),
                    "nodes": len(server.tree),
                    "watches": len(server.watches.data) + len(server.watches.child),
                    "rules": len(driver.rules.list()),
                },
                "sessions": [self._session(session_id) for session_id in ids[:SESSIONS_MAX]],
                "session_count": len(ids),
                "requests": _latest(recorder),
                "servers": self._servers(),
                "cluster": None if self._brokers is None else self._brokers.state(),
            }

    def _servers(self) -> list[Json] | None:
        """Return the servers of the ensemble; None for a single server."""
        verbs = self._server.ensemble_verbs
        if verbs is None:
            return None
        stopped, cut_off = verbs.stopped, verbs.cut_off
        return [
            {
                "id": number,
                "address": verbs.hosts(number),
                "state": "stopped" if number in stopped else mode or "not serving",
                "cut_off": number in cut_off,
                "verbs": ["start"] if number in stopped else ["stop", "heal" if number in cut_off else "cut"],
            }
            for number, mode in verbs.modes.items()
        ]

    def _session(self, session_id: int) -> Json:
        driver = self._server.driver
        server = driver.server
        session = server.sessions.get(session_id)
        assert session is not None, f"session 0x{session_id:x} ended under the lock"
        connection = server.connection_of(session_id)
        watches = [] if connection is None else self._watches(connection)
        owned = server.tree.ephemerals.get(session_id)
        ephemerals = [] if owned is None else owned.ordered()
        paused = driver.is_paused(session_id)
        # The sessions of simulated brokers are not on this driver's links: their brokers have verbs of their own.
        is_client = connection is not None and isinstance(connection.owner, WireLink)
        verbs = ["expire", *(["disconnect"] if is_client else []), *(["resume"] if paused else ["pause"] * is_client)]
        return {
            "id": f"0x{session_id & (1 << 64) - 1:x}",
            "address": "" if connection is None else connection.address,
            "connected": connection is not None,
            "paused": paused,
            "verbs": verbs,
            "timeout_ms": session.timeout_ms,
            "expires_in_ms": session.expiry_ms - driver.now_ms(),
            "watches": watches[:WATCHES_MAX],
            "watch_count": len(watches),
            "ephemerals": list(ephemerals[:WATCHES_MAX]),
            "ephemeral_count": len(ephemerals),
        }

    def _watches(self, connection: Connection) -> list[str]:
        """Return each watch of a client as text: its path, and its table or modes."""
        watches = self._server.driver.server.watches
        return [
            f"{path if path is not None else '(null)'} ({table}, {(mode.name or '').lower()})"
            for table, found in (("data", watches.data), ("children", watches.child))
            for path, mode in found.modes_of(connection).items()
        ]

    def node(self, path: str) -> Json:
        """Return a znode with its data and children; a missing one is a SimzkError."""
        driver = self._server.driver
        with driver.lock:
            driver.tick()
            node = driver.server.tree.get(path) if path else None
            if node is None:
                raise SimzkError(f"there is no znode {path}", where="path", right="the path of a znode")
            data, acl = node.data, without_secrets(node.acl)
            names = node.child_names()
            return {
                "path": path,
                "data": None if data is None else _text(data[:DATA_BYTES_MAX]),
                "data_bytes": len(data or b""),
                "stat": node.stat()._asdict(),
                "acl": [f"{scheme}:{text} {_permissions(perms)}" for perms, (scheme, text) in acl],
                "children": sorted(names)[:CHILDREN_MAX],
                "child_count": len(names),
            }

    def brokers(self) -> Json:
        """Return the simulated brokers and the partitions; without any it is a SimzkError."""
        driver = self._server.driver
        with driver.lock:
            driver.tick()
            return self._simulated().state()

    def picture(self) -> Response:
        """Return the picture of the simulated brokers; without any it is a SimzkError."""
        driver = self._server.driver
        with driver.lock:
            driver.tick()
            text = self._simulated().picture()
        return Response(HTTPStatus.OK, HTML, text, (*_HEADERS, ("Content-Security-Policy", "frame-ancestors 'none'")))

    def page(self) -> Response:
        """Return the page."""
        return page_response(("", "") if self._brokers is None else self._brokers.picture_sources)

    def act(self, path: str, query: Mapping[str, str]) -> None:
        """Do what a POST to /brokers/N/VERB asks for; what is impossible is a SimzkError."""
        found = re.fullmatch(r"/brokers/(\d{1,9})/([a-z_]+)", path)
        brokers = self._simulated()
        if found is None:
            raise SimzkError(f"{path} is unknown", right=f"/brokers/N/VERB; VERB is one of {', '.join(brokers.verbs)}")
        peer = whole(query["peer"], "peer") if "peer" in query else None
        driver = self._server.driver
        with driver.lock:
            driver.tick()
            brokers.act(int(found[1]), found[2], peer)
            driver.tick()
            driver.on_deadline(driver.now_ms())

    def advance(self, query: dict[str, str]) -> None:
        """Let the time of a POST to /advance pass.

        Raises:
            SimzkError: the time is missing, negative or too long.
        """
        duration_s = seconds(query)
        if not 0 <= duration_s <= ADVANCE_MAX_S:
            right = f"0 to {ADVANCE_MAX_S:g} seconds"
            raise SimzkError(f"{required(query, 'seconds')} s cannot pass at once", where="seconds", right=right)
        self._server.driver.group.skip(round(duration_s * 1000))

    def _simulated(self) -> SimulatedBrokers:
        if self._brokers is None:
            raise SimzkError("there are no simulated brokers", right="simzk serve --kafka FILE")
        return self._brokers


def _text(data: bytes) -> str:
    """Return data as text, and other bytes than UTF-8 as hexadecimal digits.

    >>> _text(b'{"a": 1}'), _text(bytes([0xac, 0xed, 0]))
    ('{"a": 1}', 'ac ed 00')
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex(" ")
    return data.hex(" ") if any(ord(character) < 32 and character not in "\t\r\n" for character in text) else text


def _permissions(perms: int) -> str:
    return "".join(letter for bit, letter in _PERMISSIONS if perms & bit)


def _latest(recorder: RequestRecorder) -> list[Json]:
    """Return the latest requests, watch events and session changes, oldest first, without pings."""
    latest: list[Json] = []
    for record in reversed(recorder.records()):
        if len(latest) == REQUESTS_MAX:
            break
        shown = _shown(record)
        if shown["what"] != "ping":
            latest.append({"at_ms": record.at_ms, "session": f"0x{record.session_id & (1 << 64) - 1:x}", **shown})
    return latest[::-1]


def _shown(record: Exchange | RecordedNotice) -> Json:
    if isinstance(record, RecordedNotice):
        return {"what": record.what, "paths": [record.path] if record.path else [], "result": ""}
    what, paths = operation_and_paths(record.request)
    code = record.error
    known = code in Code.__members__.values()
    result = "no reply yet" if code is None else "ok" if code == 0 else Code(code).name if known else f"error {code}"
    return {"what": what or "unknown", "paths": list(paths[:5]), "result": result}


# The page


_HEADERS = (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"))


@cache
def page_response(of_picture: tuple[str, str]) -> Response:
    """Return the page with its headers: the policy allows its own script and style, and those of the picture, only.

    Args:
        of_picture: sources of the picture's style and script; empty without a picture. A frame inherits the policy.
    """
    text = (Path(__file__).parent / "live.html").read_text(encoding="utf-8")
    hashes = {}
    for tag, other in zip(("style", "script"), of_picture, strict=True):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        hashes[tag] = f"'sha256-{digest}' {other}".rstrip()
    policy = (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Response(HTTPStatus.OK, HTML, text, (("Content-Security-Policy", policy), *_HEADERS))
