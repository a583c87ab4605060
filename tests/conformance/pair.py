"""A simulated and a real server asked alike, and compared after each answer (comparison.py)."""

from __future__ import annotations

from collections import Counter
from itertools import repeat
from struct import unpack
from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeVar, Unpack

import pytest

from simzk.wire.operations import BY_OPCODE, BY_REQUEST, request_codec, undecodable
from simzk.zookeeper import operations
from simzk.zookeeper import requests as req
from simzk.zookeeper import transactions as txns
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.jute import MalformedError
from simzk.zookeeper.releases import NEWEST, Rules, rules_of
from simzk.zookeeper.replies import Closed, Code, ConnectResponse, EventType, Reply, WatchedEvent
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.sessions import password_of
from simzk.zookeeper.znode import CONFIG_PATH
from tests.conformance.arms import Arm, Asked, Numbered, Raw, SimulatedSide, Step, TcpArm
from tests.conformance.comparison import Normaliser, differences
from tests.conformance.real_zookeeper import SUPER_DIGEST
from tests.conformance.simulated_arms import SimulatedArm
from tests.conformance.traffic import Greeting, Mutations, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
AnyReply = TypeVar("AnyReply", bound=Reply | ConnectResponse)
VOLLEYS = 8
QUIET_STEPS = 12
HISTORY = 60
MUTATIONS = 1500
CLIENTS = tuple(range(1, 13))
CLEANER = 0
TICK_MS = 2000
# No session is to end by the real server's clock, however busy the machine is.
TIMEOUT_MS, LONGEST_TIMEOUT_MS = 500_000, 600_000
PASSWORDS: dict[str, Callable[[int], bytes | None]] = {
    "right": password_of,
    "wrong": lambda session_id: bytes(16),
    "empty": lambda session_id: b"",
    "short": lambda session_id: password_of(session_id)[:15],
    "long": lambda session_id: password_of(session_id) + b"!",
    "null": lambda session_id: None,
}

# The real server sweeps by its own clock; sweeps have tests of their own.
SWEEPS_BY_HAND = {"znode.container.checkIntervalMs": str(10**9)}
# Like CONFIG below.
SETTINGS = {"maxSessionTimeout": str(LONGEST_TIMEOUT_MS)}
PROPERTIES = {**SWEEPS_BY_HAND, "zookeeper.enforceQuota": "true"}

CONFIG = ServerConfig(
    tick_time_ms=TICK_MS,
    max_session_timeout_ms=LONGEST_TIMEOUT_MS,
    extended_types=True,
    enforce_quota=True,
    super_digest=SUPER_DIGEST,
    reconfig_enabled=True,
    container_check_interval_ms=10**9,
)


def last_answer(stream: list[Any], begin: int) -> int:
    """Return the offset after the last reply, or `begin` if only watch events follow."""
    end = len(stream)
    while end > begin and isinstance(stream[end - 1], WatchedEvent):
        end -= 1
    return max(end, begin)


def name_of(asked: Asked) -> str:
    """A request's kind, as the table of what was met has it."""
    if not isinstance(asked, Raw):
        return type(asked).__name__
    known = BY_OPCODE.get(asked.opcode)
    return "Unknown" if known is None else f"{known.request.__name__} as bytes"


def place_of(asked: Asked, reply: Reply, rules: Rules) -> tuple[int, int]:
    """Return the position of a request in the order in which the real server processed them.

    Its threads do one request after the other. A write's reply has the zxid that the write took, a read's that of the
    write before it; what two reads of different clients do between the same writes is the same in either order.
    """
    if isinstance(asked, Raw):
        return reply.zxid, 1
    operation = operations.BY_REQUEST[type(asked)]
    return reply.zxid, 0 if operation.is_write and _shows_zxid(operation.opcode, asked, rules) else 1


def _shows_zxid(opcode: int, asked: req.Request, rules: Rules) -> bool:
    """Whether the reply to a write has the zxid that it took (§1.4)."""
    codec = request_codec(opcode, rules)
    assert codec is not None, f"{rules.release} does not know {asked}"
    try:
        codec.decode(BY_REQUEST[type(asked)].codec.encode(asked))
    except MalformedError as malformed:
        return undecodable(opcode, malformed, rules).takes_zxid
    return rules.decodes_before_zxid or not (isinstance(asked, req.Multi) and asked.has_null_path)


def events_of(record: txns.Record) -> set[tuple[int, str]]:
    """The types and paths of all events that a transaction may cause (§3)."""
    match record:
        case txns.MultiTxn():
            return set() if record.failed else {event for step in record.records for event in events_of(step)}
        case txns.CloseSessionTxn():
            return {event for path in record.paths for event in events_of(txns.DeleteTxn(path))}
        case txns.SetDataTxn():
            return {(EventType.NODE_DATA_CHANGED, record.path)}
        case txns.DeleteTxn() | txns.DeleteContainerTxn():
            kind = EventType.NODE_DELETED
        case txns.CreateTxn() | txns.Create2Txn() | txns.CreateContainerTxn() | txns.CreateTTLTxn():
            kind = EventType.NODE_CREATED
        case _:
            return set()
    return {(kind, record.path), (EventType.NODE_CHILDREN_CHANGED, record.path.rpartition("/")[0] or "/")}


class Exchange(NamedTuple):
    """A request, and what both sides answered."""

    client: int
    xid: int
    asked: Asked
    ours: Reply | ConnectResponse | None
    theirs: Reply | ConnectResponse | None

    @property
    def differs(self) -> bool:
        """Whether already the headers of both replies do."""
        return (self.ours and self.ours[:3]) != (self.theirs and self.theirs[:3]) and isinstance(self.theirs, Reply)

    def __str__(self) -> str:
        error = "unanswered" if self.theirs is None else f"{self.theirs[:3]}"
        ours = "" if not self.differs else f", ours {self.ours}, theirs {self.theirs}"
        return f"({self.client}, {self.xid}, {self.asked}) → {error}{ours}"


def padded(replies: Sequence[AnyReply]) -> Iterator[AnyReply | None]:
    """The replies, and None for each that did not come."""
    yield from replies
    yield from repeat(None)


class Pair:
    """Both arms, asked alike and compared after each answer.

    Args:
        real: the real server: its port, or its arm.
        simulated: our side; a server in this process, configured as `CONFIG`, where None.
        release: of both sides.
    """

    def __init__(self, real: int | TcpArm, simulated: SimulatedSide | None = None, release: str = NEWEST) -> None:
        self.real = TcpArm(real) if isinstance(real, int) else real
        self.rules = rules_of(release)
        config = CONFIG._replace(version=release)
        self.simulated: SimulatedSide = SimulatedArm(config, zxid=0) if simulated is None else simulated
        self._normalise = {"simulated": Normaliser(self.simulated.times_ms), "real": Normaliser()}
        # By zxid, what events a transaction may cause: those that come late are held against it.
        self._caused: dict[int, set[tuple[int, str]]] = {}
        self.simulated.server.on_transaction.append(
            lambda done: self._caused.__setitem__(done.zxid, events_of(done.record))
        )
        self._compared: dict[int, tuple[int, int]] = {}
        self._xids: dict[int, int] = {}
        self.sessions: dict[int, tuple[int, int]] = {}
        # Sessions whose client went on with another: they must be ended before the real server's clock does it.
        self._forsaken: list[tuple[int, int]] = []
        self.log: list[Exchange | tuple[object, ...]] = []
        self.met: Counter[tuple[str, int]] = Counter()
        self.met_xids: set[int] = set()
        self.connects: Counter[str] = Counter()
        # Events that the real server sent behind the reply to a closeSession, and that it kept from a session's end.
        self.late_events = self.lost_events = 0
        self.failed = False
        self.seed: int | None = None

    def connect(self, client: int, timeout_ms: int, *, resume: bool = False, **how: Unpack[Greeting]) -> None:
        """Open a connection on both sides: for a new session, or for the one that the client had."""
        self.log.append((client, "connect", timeout_ms, resume, how))
        seen = how.get("seen", self.simulated.server.zxid + how.get("ahead", 0))
        ids = self.sessions.get(client, (0, 0)) if resume else (0, 0)
        arms: tuple[Arm, Arm] = (self.simulated, self.real)
        for arm, session_id in zip(arms, ids, strict=True):
            secret = PASSWORDS[how.get("password", "right")](session_id)
            arm.connect(
                client,
                req.ConnectRequest(
                    how.get("protocol", 0), seen, timeout_ms, session_id, secret, how.get("read_only", False)
                ),
            )
        self.compare(client)
        answers = [self._connected(arm.streams[client]) for arm in (self.simulated, self.real)]
        if answers[0] and answers[1] and (answers[0], answers[1]) != self.sessions.get(client):
            self._forsaken.append(self.sessions.get(client, (0, 0)))
            self.sessions[client] = answers[0], answers[1]
        outcome = "new" if ids[1] == 0 else "taken up" if self.is_open(client) else "refused"
        self.connects[outcome if answers[1] or outcome != "new" else "closed"] += 1

    @staticmethod
    def _connected(stream: list[Any]) -> int:
        """The session id of the last answer to a connect request."""
        return next((said.session_id for said in reversed(stream) if isinstance(said, ConnectResponse)), 0)

    def _numbered(self, client: int, batch: Sequence[Step]) -> list[tuple[int, Asked]]:
        """The requests with their xids: the next in turn, but for those that have one of their own."""
        numbered: list[tuple[int, Asked]] = []
        for asked in batch:
            if isinstance(asked, Numbered):
                numbered.append((asked.xid, asked.asked))
            else:
                self._xids[client] = self._xids.get(client, 0) + 1
                numbered.append((self._xids[client], asked))
        return numbered

    def send(self, client: int, batch: Sequence[Step]) -> None:
        """Ask both sides, and compare their answers."""
        if not batch:
            return
        numbered = self._numbered(client, batch)
        our_begin, their_begin = len(self.simulated.streams[client]), len(self.real.streams[client])
        self.simulated.send(client, numbered)
        self.real.send(client, numbered)
        ours, theirs = (
            [said for said in arm.streams[client][begin:] if isinstance(said, Reply | ConnectResponse)]
            for arm, begin in ((self.simulated, our_begin), (self.real, their_begin))
        )
        for (xid, asked), our, their in zip(numbered, padded(ours), padded(theirs), strict=False):
            self.log.append(Exchange(client, xid, asked, our, their))
        self.compare(client)
        self._note(numbered, theirs)

    def greet(self, client: int, data: bytes) -> None:
        """A connection whose first bytes are such that both sides end it; the client has none at present."""
        self.log.append((client, "greeting", data[:80]))
        self.connects["greeted"] += 1
        self.simulated.greet(client, data)
        self.real.greet(client, data)
        self.compare(client)

    def volley(
        self, batches: Mapping[int, Sequence[Step]], order: Sequence[tuple[int, int]] | None = None
    ) -> list[tuple[int, int]]:
        """Requests of many clients, all under way at once on the real server; simzk is asked in the order that the
        replies tell, or in a given one.

        Returns:
            The order: the client, and the place among its requests, of each request.
        """
        numbered = {client: self._numbered(client, batch) for client, batch in batches.items()}
        begins = {client: len(self.real.streams[client]) for client in batches}
        self.real.volley(numbered)
        ordered, reported = [], {}
        for client, requests in numbered.items():
            reported[client] = [said for said in self.real.streams[client][begins[client] :] if isinstance(said, Reply)]
            for turn, ((xid, asked), reply) in enumerate(zip(requests, padded(reported[client]), strict=False)):
                place = (2**63, 1) if reply is None else place_of(asked, reply, self.rules)
                ordered.append((*place, client, turn, xid, asked, reply))
        if order is None:
            ordered.sort(key=lambda entry: entry[:4])
        else:
            by_place = {(client, turn): entry for entry in ordered for client, turn in [entry[2:4]]}
            ordered = [by_place[client, turn] for client, turn in order]
        for _, _, client, _, xid, asked, reply in ordered:
            begin = len(self.simulated.streams[client])
            self.simulated.ask(client, xid, asked)
            ours = [said for said in self.simulated.streams[client][begin:] if isinstance(said, Reply)]
            self.log.append(Exchange(client, xid, asked, ours[0] if ours else None, reply))
        self.simulated.server.check()
        for client in batches:
            self.compare(client)
            self._note(numbered[client], reported[client])
            self._judge_late(client)
        return [(client, turn) for _, _, client, turn, _, _, _ in ordered]

    def _judge_late(self, client: int) -> None:
        """Events between the reply to a closeSession and the end of the connection are of what others did since."""
        late = self.real.late.pop(client, [])
        if not late:
            return
        self.late_events += len(late)
        *_, closed_by, _ = self.real.streams[client]
        assert isinstance(closed_by, Reply)
        for event in late:
            if self.rules.events_have_zxids:
                assert event.zxid > closed_by.zxid, f"{event} belongs before the reply to closeSession"
                causes = [self._caused[event.zxid]]
            else:
                assert event.zxid == -1, f"{event} has no zxid in {self.rules.release}"
                causes = [caused for zxid, caused in self._caused.items() if zxid > closed_by.zxid]
            assert any((event.type, event.path) in caused for caused in causes), f"nothing caused {event}"

    def _note(self, asked: list[tuple[int, Asked]], replies: Sequence[Reply | ConnectResponse]) -> None:
        """Remember which kinds of request met which codes, those in multis too."""
        for (xid, request), reply in zip(asked, replies, strict=False):
            self.met_xids.add(xid)
            if isinstance(reply, ConnectResponse):
                self.met[name_of(request), Code.OK] += 1
                continue
            self.met[name_of(request), reply.error] += 1
            if isinstance(request, req.Multi | req.MultiRead) and isinstance(reply.body, list):
                for operation, result in zip(request.operations, reply.body, strict=False):
                    self.met[f"{name_of(operation)} in {name_of(request)}", result.error] += 1

    def known(self, batch: Sequence[req.Request]) -> list[req.Request]:
        """The requests without those that the release does not know: it closes the connection over them."""
        return [asked for asked in batch if type(asked) not in self.rules.unknown]

    @property
    def requests(self) -> int:
        """How many requests were answered and compared."""
        return sum(number for (name, _), number in self.met.items() if " in " not in name)

    def drop(self, client: int, unfinished: bytes = b"") -> None:
        """Cut the client's connection on both sides, behind the beginning of a request; a ping before it tells that
        all was read until then."""
        self.send(client, [req.Ping()])
        self.cut(client, unfinished)

    def cut(self, client: int, unfinished: bytes = b"") -> None:
        """Cut the client's connection on both sides, behind the beginning of a request."""
        self.log.append((client, "dropped behind", unfinished))
        self.connects["dropped"] += 1
        self.simulated.drop(client, unfinished)
        self.real.drop(client, unfinished)

    def break_off(self, client: int, data: bytes) -> None:
        """Bytes that are no request, over which both sides must end the connection."""
        self.log.append((client, "bytes", data[:40]))
        self.connects["broken off"] += 1
        self.simulated.break_off(client, data)
        self.real.break_off(client, data)
        self.compare(client)

    def let_expire(self, client: int, twin: int) -> None:
        """Say nothing for a client until its session has expired on both sides.

        The real server queues the events that the end of the session makes, and closes the socket without waiting
        for its sending thread: any number of the last of them may be lost. They are known from a twin, a client
        with the same watches that stays: simzk must have sent all of them, the real server a prefix of them.
        """
        assert isinstance(self.simulated, SimulatedArm), "its time is ours"
        self.send(twin, [req.Ping()])
        begins = {name: len(self.real.streams[name]) for name in (client, twin)}
        ours_begin = len(self.simulated.streams[client])
        self.log.append((client, "silent until it expires"))
        self.simulated.let_expire(client)
        *ours, our_end = self.simulated.streams[client][ours_begin:]
        self.real.await_events(twin, len(ours))
        self.real.let_expire(client)
        self.send(twin, [req.Ping()])
        *whole, _ = self.real.streams[twin][begins[twin] :]
        *theirs, their_end = self.real.streams[client][begins[client] :]
        assert our_end == their_end == Closed()
        assert ours == whole != []
        assert theirs == whole[: len(theirs)]
        self.lost_events += len(whole) - len(theirs)
        self._compared[client] = len(self.simulated.streams[client]), len(self.real.streams[client])

    def is_open(self, client: int) -> bool:
        return self.simulated.is_open(client)

    def compare(self, client: int) -> None:
        """Compare what the client was sent since the last time, up to the last answer: behind it, events may be on
        their way."""
        ours, theirs = self.simulated.streams[client], self.real.streams[client]
        our_begin, their_begin = self._compared.get(client, (0, 0))
        length = max(last_answer(ours, our_begin) - our_begin, last_answer(theirs, their_begin) - their_begin)
        simulated = tuple(self._normalise["simulated"](said) for said in ours[our_begin : our_begin + length])
        real = tuple(self._normalise["real"](said) for said in theirs[their_begin : their_begin + length])
        if simulated != real or self.simulated.is_open(client) != self.real.is_open(client):
            self._fail(client, differences(simulated, real))
        self._compared[client] = our_begin + length, their_begin + length

    def _fail(self, client: int, found: list[str]) -> Never:
        """Say what differs, what had been asked until then, and how to see it again."""
        self.failed = True
        at = next(
            (at for at, row in enumerate(self.log) if isinstance(row, Exchange) and row.differs), len(self.log) - 1
        )
        history = "\n  ".join(map(str, self.log[max(0, at - HISTORY) : at + 1]))
        pytest.fail(
            f"seed {self.seed}, client {client}: simulated | real differ:\n  "
            f"{chr(10).join(found[:20]) or 'one of them closed the connection'}\n"
            f"what was asked until the first reply that differs, in the order of the real server\n  {history}\n"
            f"play it again by\n  SIMZK_DIFFERENTIAL_FIRST_SEED={self.seed} SIMZK_DIFFERENTIAL_REQUESTS=1 "
            f"pytest tests/conformance/test_differential*.py -k traffic\nrelease {self.rules.build}"
        )

    def play(self, seed: int, kind: type[Traffic] = Traffic) -> None:
        """All of one seed's traffic, and then everything removed."""
        self.seed = seed
        self.log.clear()
        traffic = kind(seed, self.simulated.server.tree, self.rules)
        for _ in range(VOLLEYS):
            for _ in range(QUIET_STEPS):
                self._quiet_step(traffic)
            open_clients = [client for client in CLIENTS if self.is_open(client)]
            self.volley(traffic.volley(open_clients, self.simulated.server.zxid))
        self.clean()
        self.seed = None

    def play_mutations(self, seed: int) -> None:
        """Frames that were changed as bytes, one after the other, beside a seed's other traffic; all is removed."""
        self.seed = seed
        self.log.clear()
        traffic = Mutations(seed, self.simulated.server.tree, self.rules)
        for _ in range(MUTATIONS):
            client = traffic.pick(CLIENTS)
            if not self.is_open(client):
                self._open(client, traffic)
            elif traffic.chance(0.3):
                self._quiet_step(traffic)
            else:
                self.feed(client, traffic.mutated(self.simulated.server.zxid), traffic)
        self.clean()
        self.seed = None

    def feed(self, client: int, data: bytes, traffic: Mutations) -> None:
        """Send bytes frame by frame, as a server cuts them: the answer to one comes before the next is sent.

        What no frame can begin with, or what is too short to be a request, ends the connection; it is cut behind the
        beginning of another frame.
        """
        while data and self.is_open(client):
            length = int.from_bytes(data[:4], "big", signed=True)
            whole = len(data) >= 4 and 0 <= length <= len(data) - 4
            if len(data) >= 4 and (not 0 <= length <= CONFIG.max_buffer_bytes or (whole and length < 8)):
                self.break_off(client, data)
                return
            if not whole:
                self.drop(client, data)
                return
            xid, opcode = unpack(">ii", data[4:12])
            if xid != -1 and not traffic.is_left_out(opcode, data[12 : 4 + length]):
                self.send(client, [Numbered(xid, Raw(opcode, data[12 : 4 + length]))])
                if opcode == BY_REQUEST[req.CreateSession].opcode:
                    # The ping gives the session its own timeout again, before the real server's clock ends it.
                    self.send(client, [req.Ping()])
            data = data[4 + length :]

    def _quiet_step(self, traffic: Traffic) -> None:
        """Something of one client while no other asks: what the real server answers out of order, or by chance."""
        closed = [client for client in CLIENTS if not self.is_open(client)]
        client = traffic.pick(closed) if closed and traffic.chance(0.8) else traffic.pick(CLIENTS)
        if not self.is_open(client):
            self._open(client, traffic)
        elif traffic.chance(0.05):
            self.drop(client, traffic.unfinished(self.simulated.server.zxid))
        elif traffic.chance(0.05):
            # Taken up from elsewhere while the connection is still there, with the right password or not.
            self.connect(client, TIMEOUT_MS, resume=True, password="right" if traffic.chance(0.7) else "wrong")
        elif traffic.chance(0.02):
            self.break_off(client, traffic.bad_length())
        else:
            self.send(client, traffic.batch(self.simulated.server.zxid))

    def _open(self, client: int, traffic: Traffic) -> None:
        if traffic.chance(0.08):
            self.greet(client, traffic.greeting())
            return
        resume = client in self.sessions and traffic.chance(0.6)
        self.connect(client, traffic.timeout_ms(), resume=resume, **traffic.greeting_details(resumes=resume))
        if self.is_open(client) and traffic.chance(0.05):
            # Such a short session would soon be over by the real server's clock.
            self.connect(client, traffic.pick((0, -1, 1, -(2**31), 3999)), resume=True)
            self.connect(client, TIMEOUT_MS, resume=True)

    def _end_session(self, client: int) -> None:
        if not self.is_open(client):
            self.connect(client, TIMEOUT_MS, resume=True)
        if self.is_open(client):
            self.send(client, [req.CloseSession()])

    def take_forsaken(self, client: int) -> bool:
        """Give a client the last session that another one left; return whether it was one."""
        ids = self._forsaken.pop()
        if ids != (0, 0):
            self.sessions[client] = ids
        return ids != (0, 0)

    def clean(self) -> None:
        """End every session, remove every node, through both servers."""
        for client in CLIENTS:
            self._end_session(client)
        while self._forsaken:
            if self.take_forsaken(CLIENTS[0]):
                self._end_session(CLIENTS[0])
        self.connect(CLEANER, TIMEOUT_MS)
        self.send(CLEANER, [req.Auth(0, "digest", b"super:test")])
        nodes = [path for path, _ in self.simulated.server.tree.walk()]
        for path in nodes:
            self.send(CLEANER, [req.GetData(path, False), req.GetACL(path), req.GetChildren2(path, False)])
        initial = {"/", "/zookeeper", "/zookeeper/quota", *([CONFIG_PATH] if self.rules.has_config_node else [])}
        for path in reversed(nodes):
            self.send(CLEANER, [req.SetACL(path, OPEN_ACL, -1) if path in initial else req.Delete(path, -1)])
        # No session is left: while other tests run, the real server's clock would end it.
        self._end_session(CLEANER)
