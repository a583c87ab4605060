"""Story of an ensemble as its clients see it, the same for a real one and for simzk.

Rules of this module:
  - a chapter returns what was seen, by name, in terms that both can share: servers by their parts (the leader, the
    other two by id), zxids as counters since the chapter's first or as epochs since the story's first;
  - what a real ensemble does by chance (how far a follower is at some moment) is not looked at: who reads on a
    follower has it sync first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Closed, ConnectResponse, Reply, Stat
from tests.conformance.real_ensemble import SERVERS
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from tests.conformance.ensemble_arms import EnsembleArm

Seen = dict[str, object]
FAR_ZXID = 1 << 60
WORDS = (b"srvr", b"stat", b"ruok", b"isro", b"mntr", b"hash", b"conf", b"cons", b"dump", b"wchs", b"dirs", b"crst")


def create(path: str, flags: int = 0) -> req.Create:
    return req.Create(path, b"d", req.OPEN_ACL, flags)


# What is asked on the old connection of a session that has moved; nothing in the answers is a zxid or a time.
MOVED = (
    req.Ping(),
    req.GetData("/nowhere", False),
    req.Sync("/"),
    req.WhoAmI(),
    create("/moved"),
    req.Delete("/nowhere", -1),
    req.Multi(()),
    req.Multi((create("/moved"), req.Check("/", -1))),
    req.CreateContainer("/moved", b"", req.OPEN_ACL, 4),
    req.DeleteContainer("/zookeeper"),
    req.CloseSession(),
)


class Client(TcpClient):
    """A client that says what it gets, whatever that is."""

    def __init__(
        self, port: int, session: ConnectResponse | None = None, *, zxid: int = 0, read_only: bool | None = False
    ) -> None:
        super().__init__(port)
        session_id, password = (0, None) if session is None else (session.session_id, session.password)
        self.socket.sendall(self.wire.connect(req.ConnectRequest(0, zxid, 10_000, session_id, password, read_only)))
        self.greeting = self.next()

    @property
    def session(self) -> ConnectResponse:
        assert isinstance(self.greeting, ConnectResponse)
        return self.greeting

    def get(self, request: req.Request) -> Reply | Closed:
        """The reply, or Closed."""
        try:
            self.send(request)
        except (BrokenPipeError, ConnectionResetError):
            return Closed()
        answer = self.next()
        assert isinstance(answer, Reply | Closed)
        return answer

    def error(self, request: req.Request) -> int | str:
        """The error of the reply, or that the connection was closed."""
        answer = self.get(request)
        return answer.error if isinstance(answer, Reply) else "closed"

    def zxid(self, request: req.Request) -> int:
        """The zxid of a reply."""
        answer = self.get(request)
        assert isinstance(answer, Reply)
        return answer.zxid


def greeted(port: int, session: ConnectResponse | None = None, *, zxid: int = 0, read_only: bool | None = False) -> str:
    """How a server greets."""
    with Client(port, session, zxid=zxid, read_only=read_only) as client:
        match client.greeting:
            case ConnectResponse(session_id=0):
                return f"expired, read_only={client.greeting.read_only}"
            case ConnectResponse():
                kept = session is not None and session.session_id == client.greeting.session_id
                return f"{'kept' if kept else 'new'}, read_only={client.greeting.read_only}"
            case _:
                return "closed"


def data_and_stat(reply: Reply) -> tuple[bytes, Stat]:
    """The body of a `GetData` that found something."""
    assert isinstance(reply.body, tuple)
    data, stat = reply.body
    return data, stat


class Story:
    """The story of one ensemble; the chapters are played in order."""

    def __init__(self, arm: EnsembleArm) -> None:
        self._arm = arm
        self._leader = arm.leader
        self._low, self._high = (server for server in SERVERS if server != self._leader)
        self._epoch = 0

    def tell(self) -> Seen:
        """All chapters."""
        seen: Seen = {}
        for chapter in (self.quiet, self.moved, self.leader_lost, self.read_only):
            seen |= {f"{chapter.__name__}: {name}": what for name, what in chapter().items()}
        return seen

    def _parts(self) -> tuple[tuple[str, int], ...]:
        return (("leader", self._leader), ("low", self._low), ("high", self._high))

    def quiet(self) -> Seen:
        """Everybody is there."""
        arm, seen = self._arm, Seen()
        for part, server in self._parts():
            said = arm.word(server, b"srvr").splitlines()
            seen[f"srvr of {part}"] = [re.sub(r"\d.*", "", line) for line in said]
            seen[f"Mode of {part}"] = [line for line in said if line.startswith(("Mode", "Proposal"))]
            seen[f"isro of {part}"] = arm.word(server, b"isro")
            with Client(arm.port(server)) as client:
                seen[f"session of {part}"] = client.session.session_id >> 56 == server
                reply = client.get(req.GetData("/zookeeper/config", False))
                assert isinstance(reply, Reply)
                data, stat = data_and_stat(reply)
                seen[f"config of {part}"] = [
                    re.sub(rf"{arm.port(member)}$", f"port of {member}", re.sub(r":\d+:\d+:", ":q:e:", line))
                    for member, line in zip((*SERVERS, SERVERS[0]), data.decode().splitlines(), strict=True)
                ]
                seen[f"config's Stat of {part}"] = (
                    stat._replace(mtime_ms=0, data_length=0),
                    len(data) == stat.data_length,
                )
                self._epoch = client.zxid(create(f"/by-{part}")) >> 32
                seen[f"zxid ahead of {part}"] = greeted(arm.port(server), zxid=FAR_ZXID)
        with Client(arm.port(self._low)) as low, Client(arm.port(self._high)) as high:
            begin = low.zxid(create("/a"))
            seen["counters of writes"] = [
                low.zxid(create("/a")) - begin,
                high.zxid(create("/b")) - begin,
                low.zxid(req.Multi((create("/c"), create("/a")))) - begin,
                high.zxid(req.Multi(())) - begin,
                low.zxid(req.Delete("/b", -1)) - begin,
            ]
            seen["sync"] = low.zxid(req.Sync("/")) - begin, high.zxid(req.Sync("anything")) - begin
            seen["read after sync"] = high.error(req.Exists("/b", False)), high.error(req.Exists("/a", False))
            seen["close"] = low.zxid(req.CloseSession()) - begin, low.next()
        return seen

    def moved(self) -> Seen:
        """A session goes from one server to another, and its old connection stays."""
        arm, seen = self._arm, Seen()
        for was, at in (("low", "high"), ("low", "leader"), ("leader", "low")):
            old_port, new_port = (arm.port(dict(self._parts())[part]) for part in (was, at))
            for request in MOVED:
                how = f"{request} from {was} to {at}"
                with Client(old_port) as old:
                    begin = old.zxid(create("/e", 1))
                    with Client(new_port, old.session) as new:
                        answer = old.get(request)
                        seen[f"{how}, old"] = (answer.error, answer.body) if isinstance(answer, Reply) else "closed"
                        deleted = new.get(req.Delete("/e", -1))
                        seen[f"{how}, zxids"] = deleted.zxid - begin if isinstance(deleted, Reply) else "closed"
                        seen[f"{how}, nothing done"] = new.error(req.Exists("/moved", False))
                        seen[f"{how}, end"] = new.error(req.CloseSession()), new.next(), old.next()
        return seen

    def leader_lost(self) -> Seen:
        """First a follower is lost, then the leader; the follower comes back."""
        arm, seen = self._arm, Seen()
        arm.kill(self._low)
        with Client(arm.port(self._high)) as high, Client(arm.port(self._leader)) as of_leader:
            seen["two are a majority"] = high.error(create("/kept", 1)), of_leader.error(create("/too", 1))
            seen["both have it"] = high.error(req.Sync("/")), high.error(req.Exists("/too", False))
            arm.kill(self._leader)
            seen["lost"] = high.next(), of_leader.next()
            seen["words"] = [arm.word(self._high, word) for word in WORDS]
            seen["nobody is greeted"] = greeted(arm.port(self._high)), greeted(arm.port(self._high), high.session)
            arm.launch(self._low)
            arm.wait_for_mode(self._high, "leader")
            arm.wait_for_mode(self._low, "follower")
            for part, server, session in (
                ("leader's session at low", self._low, of_leader.session),
                ("high's at low", self._low, high.session),
                ("leader's at high", self._high, of_leader.session),
            ):
                with Client(arm.port(server), session) as again:
                    seen[part] = again.session == session
                    if part == "leader's session at low":
                        zxid = again.zxid(req.SetData("/too", b"", -1))
                        seen["first zxid"] = (zxid >> 32) - self._epoch, zxid & 0xFFFFFFFF
                    owned = again.get(req.GetEphemerals("/"))
                    seen[f"ephemerals of {part}"] = owned.body if isinstance(owned, Reply) else owned
            with Client(arm.port(self._high), of_leader.session) as again:
                seen["end"] = again.error(req.CloseSession()), again.next()
            self._kept = high.session
        return seen

    def read_only(self) -> Seen:
        """One server is left, and turns read-only."""
        arm, seen, port = self._arm, Seen(), self._arm.port(self._high)
        arm.kill(self._low)
        arm.kill(self._high)
        arm.launch(self._high)
        arm.wait_for_mode(self._high, "read-only")
        said = arm.word(self._high, b"srvr").splitlines()
        seen["srvr"] = [line for line in said if re.match("READ|Mode|Node|Proposal", line)]
        seen["isro"] = arm.word(self._high, b"isro")
        seen["who may not write alone"] = greeted(port), greeted(port, read_only=None)
        seen["a global session"] = greeted(port, self._kept, read_only=True)
        seen["zxid ahead"] = greeted(port, zxid=FAR_ZXID, read_only=True)
        with Client(port, read_only=True) as client:
            seen["greeting"] = client.session.read_only, client.session.session_id >> 56 == self._high
            for request in (
                req.GetData("/", True),
                req.Exists("/kept", False),
                create("/x"),
                create("bad"),
                req.Create2("/x", b"", req.OPEN_ACL, 0),
                req.CreateContainer("/x", b"", req.OPEN_ACL, 4),
                req.CreateTTL("/x", b"", req.OPEN_ACL, 5, 100),
                req.Delete("/a", -1),
                req.DeleteContainer("/a"),
                req.SetData("/a", b"", -1),
                req.SetACL("/a", req.OPEN_ACL, -1),
                req.Multi((create("/x"),)),
                req.Multi(()),
                req.MultiRead((req.GetData("/nowhere", False),)),
                req.Sync("/"),
                req.Reconfig(None, None, None, -1),
                req.GetEphemerals("/"),
                req.WhoAmI(),
                req.AddWatch("/", 0),
                req.Ping(),
            ):
                reply = client.get(request)
                assert isinstance(reply, Reply)
                seen[repr(request)] = reply.error, (reply.zxid >> 32) - self._epoch, reply.zxid & 0xFFFFFFFF
            wrong = client.session._replace(password=b"x" * 16)
            unknown = client.session._replace(session_id=12345)
            seen["unknown"] = greeted(port, unknown, read_only=True)
            with Client(port, client.session, read_only=True) as again:
                seen["re-attached"] = again.session == client.session, client.next()
                seen["wrong password"] = greeted(port, wrong, read_only=True)
                with Client(port, client.session, read_only=True) as last:
                    seen["close"] = last.error(req.CloseSession()), last.next()
        with Client(port, read_only=True) as client:
            arm.launch(self._low)
            arm.wait_for_mode(self._low, "leader", "follower")
            arm.wait_for_mode(self._high, "leader", "follower")
            seen["a majority again"] = client.next()
            seen["its session"] = greeted(port, client.session)
            seen["the session of before"] = greeted(port, self._kept)
        return seen
