"""Random but seeded traffic of several clients: every request of the table, good and bad (§1.4, §1.5).

Rules of this module:
  - a step is drawn from the generator's own `random.Random` and from what the simulated tree looks like now, so that
    most requests have something to do; if the trees differ the comparison has already failed;
  - what must come alone (because the real server answers it out of order, or closes behind it) comes alone;
  - what is known to differ (differences.py) is kept apart, each where its name stands in «», and nothing else is.
"""

from __future__ import annotations

import random
from contextlib import suppress
from struct import pack
from typing import TYPE_CHECKING, TypedDict

from simzk.wire.frames import CONNECT_REQUEST, MULTI_HEADER, MultiHeader
from simzk.wire.operations import BY_OPCODE, BY_REQUEST, CHECK, NOTHING, OPERATIONS, OperationCodec
from simzk.zookeeper import operations
from simzk.zookeeper import requests as req
from simzk.zookeeper.jute import MalformedError
from simzk.zookeeper.prepare import lacks_ttl
from simzk.zookeeper.releases import NEWEST, rules_of
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.znode import SPECIAL_PATHS
from tests.conformance.arms import Asked, Numbered, Raw, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.zookeeper.releases import Rules
    from simzk.zookeeper.tree import DataTree

NAMES = ("a", "b", "c", "d", "Aa", "BB", "é", "0", "long-name-of-a-node", "...")
BAD_PATHS = (
    "", "/", "//", "/a/", "a", "/a//b", "/.", "/a/..", "/a/./b", "/\x00", "/a\x01", "/\x7f", "/\x9f", "/\ud7ff",
    "/\ue000", "/\ufff0", "/\U0001f600", "/\xa0", "/ ", "/\ufeff", "/ok...", None, "/" + "long" * 500, "/a/b/../c",
    "/zookeeper/config/x", "/zookeeper/./config",
)  # fmt: skip
VERSIONS = (-1, -1, -1, 0, 0, 1, 2, 3, -2, 2**31 - 1, -(2**31))
DATA = (None, b"", b"x", b"some data", b"0123456789")

ACLS: tuple[tuple[ACL, ...] | None, ...] = (
    *[OPEN_ACL] * 50,
    None,
    (),
    (ACL(1, Id("world", "anyone")),),
    (ACL(31, Id("world", "someone")),),
    (ACL(31, Id("world", None)),),
    (ACL(31, Id("auth", "")),),
    (ACL(3, Id("auth", None)), ACL(1, Id("world", "anyone"))),
    (ACL(31, Id("digest", "bob:k")),),
    (ACL(31, Id("digest", "a:b:c")),),
    (ACL(17, Id("digest", ":a")), ACL(4, Id("digest", ":a"))),
    (ACL(31, Id("digest", "a:")),),
    (ACL(31, Id("ip", "127.0.0.1")),),
    (ACL(5, Id("ip", "127.0.0.0/8")), ACL(5, Id("ip", "127.0.0.0/8"))),
    (ACL(31, Id("ip", "10.0.0.0/8")),),
    (ACL(31, Id("ip", "::1/128")),),
    (ACL(31, Id("ip", "1.2.3")),),
    (ACL(31, Id("ip", "1.2.3.4/33")),),
    (ACL(31, Id("super", "")),),
    (ACL(31, Id(None, "x")),),
    (ACL(31, Id("none such", "x")),),
    (ACL(255, Id("world", "anyone")),),
    (ACL(0, Id("world", "anyone")),),
    (ACL(16, Id("world", "anyone")), ACL(31, Id("digest", "bob:k"))),
    (ACL(-1, Id("world", "anyone")),),
    (ACL(-(2**31), Id("world", "anyone")), ACL(2**31 - 1, Id("world", "anyone"))),
    tuple(ACL(31, Id("digest", f"user{number}:k")) for number in range(40)),
    *(
        (ACL(31, Id(scheme, text)), ACL(31, Id("world", "anyone")))
        for scheme, texts in {
            "ip": ("", "/", "127.0.0.1/", "127.0.0.1/-1", "127.0.0.1/8/8", "127.0.0.1/x", "::1", "1::/0", "0.0.0.0/0",
                   "256.1.1.1", "127.1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1:::2", "127.0.0.1 ", " 127.0.0.1", "/8",
                   "+1.2.3.4", "1.2.3.4/032", "127.0.0.1/+8", "::1/129", "::/64", "fe80::1%eth0", None),
            "digest": ("", ":", "::", "abc", "a:b:", "é:k", None),
            "world": ("", "ANYONE", "anyone "),
            "auth": ("x", "anyone"),
            "sasl": ("x",),
            "x509": ("x",),
            "ensemble": ("x",),
            "": ("", "x"),
            "DIGEST": ("a:b",),
        }.items()
        for text in texts
    ),
)  # fmt: skip
FLAGS = (0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, -1, 2**31 - 1, -(2**31))
TTLS_MS = (10**9, 10**9, 1, 2**40 - 1, 2**40, 0, -1, -2, 2**63 - 1, -(2**63))
WATCHER_TYPES = (0, 1, 2, 3, 4, 5, 6, -1, 2**31 - 1)
CREDENTIALS = (b"bob:pw", b"ann:pw", b"nocolon", b"", b"super:test", b"\xff:\xfe", b":", b"a:b:c", b"x" * 5000, None)
SCHEMES = (
    *["digest"] * 12, "ip", "ip", "none such", None, "world", "super", "sasl", "x509", "auth", "ensemble", "", "DIGEST",
)  # fmt: skip
BAD_OPCODES = (0, 10, 13, 23, 99, 108, -1, -2, -12, 2**31 - 1, -(2**31))
SPECIAL_XIDS = (-1, -2, -4, -8, 0, 1, 2**31 - 1, -(2**31))
NUMBERS = (-1, -2, 0, 1, 2**20, 2**31 - 1, -(2**31))


class Greeting(TypedDict, total=False):
    """How a client introduces itself beside its session: what `Pair.connect` takes.

    `password` is a key of `pair.PASSWORDS`; `ahead` is how many zxids it claims to have seen beyond the last one,
    `seen` which one instead.
    """

    password: str
    ahead: int
    seen: int
    protocol: int
    read_only: bool | None


MultiOperation = req.Create | req.Create2 | req.CreateContainer | req.CreateTTL | req.Delete | req.SetData | req.Check


class Traffic:
    """Draws steps.

    Args:
        seed: of all that is drawn.
        tree: what the simulated server holds, looked at for paths that exist.
        rules: rules of the release; None for the newest. What it does not know is asked alone, and seldom.
    """

    def __init__(self, seed: int, tree: DataTree, rules: Rules | None = None) -> None:
        self._random = random.Random(seed)
        self._tree = tree
        self._rules = rules_of(NEWEST) if rules is None else rules
        unknown = self._rules.unknown
        self._unknown = sorted(unknown, key=lambda kind: BY_REQUEST[kind].opcode)
        self._weights = {kind: weight for kind, weight in WEIGHTS.items() if kind not in unknown}
        self._mixed = [kind for kind, weight in self._weights.items() for _ in range(weight) if kind is not req.SetACL]
        if self._rules.checks_all_watches:
            # What one client sees of another's watches depends on the order of their requests, which no reply tells.
            self._mixed = [kind for kind in self._mixed if kind is not req.CheckWatches]
        self._reads = [kind for kind in self._mixed if not operations.BY_REQUEST[kind].is_write]
        self._not_removing = [kind for kind in self._mixed if kind not in _REMOVING]
        self._existing: list[str] = []
        self.look()

    def look(self) -> None:
        """From here on paths are drawn from what the tree holds now."""
        self._existing = [path for path, _ in self._tree.walk()]

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def pick(self, items: tuple[int, ...] | list[int]) -> int:
        return self._random.choice(items)

    def path(self) -> str | None:
        """Mostly a node that is there or could be."""
        draw = self._random.random()
        if draw < 0.06:
            return self._random.choice(BAD_PATHS)
        if draw < 0.10:
            return self._random.choice(sorted(SPECIAL_PATHS))
        if draw < 0.65:
            return self._random.choice(self._existing)
        return self.new_path()

    def new_path(self) -> str:
        """A path to make a node at: its parent mostly exists."""
        parents = [path for path in self._existing if path.count("/") < 4]
        parent = self._random.choice(parents)
        if parent in ("/", "/zookeeper/config", "/zookeeper/quota"):
            parent = "" if self.chance(0.9) or parent == "/" else parent
        name = self._random.choice(NAMES)
        return f"{parent}/{name}" if self.chance(0.95) else f"{parent}/{name}/{name}"

    def _data(self) -> bytes | None:
        return self._random.choice(DATA)

    def _version(self) -> int:
        return self._random.choice(VERSIONS)

    def _watch(self) -> bool:
        return self.chance(0.4)

    def _create(self, make: type) -> req.Request:
        path = self.new_path() if self.chance(0.9) else self.path()
        if path is not None and self.chance(0.05):
            path += "/"
        flags = self._random.choice(FLAGS)
        fields = (path, self._data(), self._random.choice(ACLS), flags)
        if make is req.CreateTTL:
            flags = self._random.choice((5, 6, 5, 6, flags))
            asked = req.CreateTTL(*fields[:3], flags, self._random.choice(TTLS_MS))
            if self._rules.demands_ttls:
                return asked._replace(flags=5) if kills(asked, self._rules) else asked
            return asked._replace(ttl_ms=10**9) if kills(asked, self._rules) else asked
        made: req.Request = make(*fields)
        return made

    def _read(self) -> req.GetData | req.GetChildren:
        make: type[req.GetData | req.GetChildren] = self._random.choice((req.GetData, req.GetChildren))
        return make(self.path(), self._watch())

    def _paths(self) -> tuple[str | None, ...] | None:
        if self.chance(0.01):
            return None
        return tuple(self.path() for _ in range(self._random.randrange(4)))

    def _since(self, zxid: int) -> int:
        return self._random.choice((0, zxid, zxid, zxid - 3, zxid - 20, 2**62, -1, 2**63 - 1, -(2**63)))

    def _text(self) -> str | None:
        return self._random.choice(("server.1=a", "1", "1,2", "", "x", "server.1=127.0.0.1:1:2;3", None))

    def _operations(self) -> tuple[req.Request, ...]:
        kinds: list[type] = [req.Create, req.Create, req.Create2, req.CreateContainer, req.CreateTTL]
        kinds += [req.Delete, req.SetData, req.SetData, req.Check]
        operations = []
        for _ in range(self._random.choice((0, 1, 2, 2, 3, 3, 4, 6))):
            operation = self.request(self._random.choice(kinds), 0)
            flags = getattr(operation, "flags", 0)
            # Such flags make the whole request malformed, mostly uninteresting.
            if not (isinstance(operation, req.CreateTTL) or 0 <= flags <= 4) and self.chance(0.95):
                operation = operation._replace(flags=0)  # type: ignore[call-arg]
            operations.append(operation)
        return tuple(operations)

    def request(self, kind: type, zxid: int) -> req.Request:
        """A request of this kind. `zxid` is the last one that the client may have seen."""
        path = self.path()
        choose = self._random.choice
        builders: dict[type, Callable[[], req.Request]] = {
            req.Delete: lambda: req.Delete(path, self._version()),
            req.Exists: lambda: req.Exists(path, self._watch()),
            req.GetData: lambda: req.GetData(path, self._watch()),
            req.SetData: lambda: req.SetData(path, self._data(), self._version()),
            req.GetACL: lambda: req.GetACL(path),
            req.SetACL: lambda: req.SetACL(path, choose(ACLS), self._version()),
            req.GetChildren: lambda: req.GetChildren(path, self._watch()),
            req.GetChildren2: lambda: req.GetChildren2(path, self._watch()),
            req.Sync: lambda: req.Sync(path),
            req.Ping: req.Ping,
            req.Check: lambda: req.Check(path, self._version()),
            req.Multi: lambda: req.Multi(self._operations()),  # type: ignore[arg-type]
            req.MultiRead: lambda: req.MultiRead(tuple(self._read() for _ in range(choose((0, 1, 3))))),
            req.Reconfig: lambda: req.Reconfig(self._text(), self._text(), self._text(), choose((-1, 0, 5, 2**63 - 1))),
            req.CheckWatches: lambda: req.CheckWatches(path, choose(WATCHER_TYPES)),
            req.RemoveWatches: lambda: req.RemoveWatches(path, choose(WATCHER_TYPES)),
            req.DeleteContainer: lambda: req.DeleteContainer(path),
            req.Auth: lambda: req.Auth(choose((0, 0, *NUMBERS)), choose(SCHEMES), choose(CREDENTIALS)),
            req.SetWatches: lambda: req.SetWatches(self._since(zxid), *[self._paths() for _ in range(3)]),
            req.SetWatches2: lambda: req.SetWatches2(self._since(zxid), *[self._paths() for _ in range(5)]),
            req.Sasl: lambda: req.Sasl(choose((None, b"", b"x"))),
            req.CreateSession: lambda: req.CreateSession(choose((500_000, 599_999, 2**20, 2**31 - 1))),
            req.GetEphemerals: lambda: req.GetEphemerals(choose((None, "", "/", " / ", "/a", path))),
            req.GetAllChildrenNumber: lambda: req.GetAllChildrenNumber(path),
            req.AddWatch: lambda: req.AddWatch(path, choose((0, 0, 0, 1, 1, 1, 2, *NUMBERS))),
            req.WhoAmI: req.WhoAmI,
            req.CloseSession: req.CloseSession,
        }
        if kind in (req.Create, req.Create2, req.CreateContainer, req.CreateTTL):
            return self._create(kind)
        asked = builders[kind]()
        return self.request(kind, zxid) if self._is_left_out(asked) else asked

    def _is_left_out(self, asked: req.Request) -> bool:
        """Whether the connection is deaf behind a request, or cannot be closed any more.

        From 3.6 to 3.8 «persistent watch on a null path», before 3.5 «null in 3.4». Or whether the server ends: «null
        path in a multi», «setData of the empty path».
        """
        if isinstance(asked, req.Sasl):
            return asked.token is None and self._rules.release < (3, 5, 0)
        if isinstance(asked, req.Multi):
            parts = any(self._is_left_out(part) for part in asked.operations)
            return parts or (asked.has_null_path and ends_over_null(self._rules.release))
        if isinstance(asked, req.SetData):
            return asked.path == "" and not self._rules.validates_all_paths
        return self._rules.checks_all_watches and watches_null(asked)

    def batch(self, zxid: int) -> list[Step]:
        """One to five requests that go out together."""
        self.look()
        draw = self._random.random()
        if draw < 0.012:
            return [self._numbered(req.CloseSession())]  # alone: «requests after closeSession»
        if draw < 0.03:
            return self._first(self.request(req.Auth, zxid), zxid)
        if draw < 0.033:
            return self._first(self.request(req.Sasl, zxid), zxid)
        if draw < 0.047:
            asked = self.request(req.CreateSession, zxid)
            # The ping gives the session its own timeout again, before the real server's clock ends it.
            return [self._numbered(asked if self.chance(0.5) else self._mangled(zxid, [req.CreateSession])), req.Ping()]
        if self._unknown and 0.047 <= draw < 0.05:
            return [self._numbered(self.request(self._random.choice(self._unknown), zxid))]
        if draw < 0.052:
            opcode = self._random.choice((*BAD_OPCODES, self._random.randrange(200, 2**31)))
            return [self._numbered(Raw(opcode, self._random.randbytes(self._random.randrange(20))))]
        if draw < 0.09:
            return [self._numbered(self._mangled(zxid, [*self._weights, req.Auth, req.Sasl]))]
        if draw < 0.12:
            return [self._numbered(self._patched_multi(zxid))]
        kinds = [kind for kind, weight in self._weights.items() for _ in range(weight)]
        count = self._random.choice((1, 1, 2, 3, 5))
        requests: list[Asked] = []
        # «pending ACL»: nothing follows closely behind a SetACL.
        while len(requests) < count and not (requests and isinstance(requests[-1], req.SetACL)):
            requests.append(self.request(self._random.choice(kinds), zxid))
        return [self._numbered(asked) for asked in requests]

    def _first(self, shown: req.Request, zxid: int) -> list[Step]:
        """Something that shows who one is, and requests behind it if it does not end the connection: «auth ahead»."""
        stays = isinstance(shown, req.Sasl) and shown.token is not None
        if isinstance(shown, req.Auth):
            stays = shown.scheme == "ip" or (shown.scheme == "digest" and shown.auth is not None)
        behind = [self._any_of(self._reads, zxid) for _ in range(self._random.randrange(4))] if stays else []
        return [self._numbered(asked) for asked in (shown, *behind)]

    def _numbered(self, asked: Asked) -> Step:
        """Now and then a request with an xid that means something to somebody, or that was there before."""
        if not self.chance(0.04):
            return asked
        xid = self._random.choice(SPECIAL_XIDS)
        known = not isinstance(asked, Raw) and BY_REQUEST[type(asked)].reply is NOTHING
        # A client could not tell a reply with a body from an event.
        return asked if xid == -1 and not known else Numbered(xid, asked)

    # What comes before requests, or in their place.

    def timeout_ms(self) -> int:
        """As a client asks for it; none so short that the real server's clock would matter."""
        return self._random.choice((500_000, 500_001, 599_999, 600_001, 2**31 - 1))

    def greeting_details(self, *, resumes: bool) -> Greeting:
        """Optional fields of a connect request."""
        details: Greeting = {"read_only": self._random.choice((False, False, False, True, None))}
        if self.chance(0.1):
            details["ahead"] = self._random.choice((1, 2**40))
        elif self.chance(0.1):
            details["seen"] = self._random.choice((0, -1, -(2**63), 2**63 - 1))
        if self.chance(0.1):
            details["protocol"] = self._random.choice(NUMBERS)
        if self.chance(0.2 if resumes else 0.05):
            details["password"] = self._random.choice(("wrong", "empty", "short", "long", "null"))
            if self._rules.release < (3, 5, 0) and details["password"] == "null":
                del details["password"]  # «null in 3.4»
        return details

    def greeting(self) -> bytes:
        """The first bytes of a connection that has no session for it: a request, a connect request cut short or for a
        session that never was, or nothing that anybody speaks."""
        session_id = self._random.choice((1, -1, 2**63 - 1, -(2**63), 0x0200_0000_0000_0001))
        password = self._random.choice((None, b"", bytes(16), bytes(300)))
        whole = CONNECT_REQUEST.encode(
            req.ConnectRequest(self._random.choice(NUMBERS), 0, 30_000, session_id, password, self.chance(0.5))
        )
        body = self._random.choice(
            (
                whole,
                whole + b"more",
                whole[: self._random.randrange(len(whole) - 1)],
                whole[:24] + pack(">i", self._random.choice((-2, 17, 2**31 - 1, -(2**31)))) + whole[28:],
                pack(">ii", 1, self._random.choice(OPERATIONS).opcode) + self._random.randbytes(60),
                b"",
            )
        )
        return pack(">i", len(body)) + body if self.chance(0.9) else self.bad_length() + body

    def bad_length(self) -> bytes:
        """The length of a frame that no server takes."""
        return pack(">i", self._random.choice((-1, -(2**31), 2**31 - 1, 0x100000, 0x7FFFFF)))

    def unfinished(self, zxid: int) -> bytes:
        """The beginning of a request, or nothing."""
        operation = BY_REQUEST[self._random.choice(list(self._weights))]
        body = pack(">ii", 1, operation.opcode) + operation.codec.encode(self.request(operation.request, zxid))
        frame = pack(">i", len(body)) + body
        return frame[: self._random.choice((0, self._random.randrange(len(frame))))]

    def volley(self, clients: Sequence[int], zxid: int) -> dict[int, list[Step]]:
        """Many requests of each client, all to be under way at once."""
        self.look()
        draw = self._random.random()
        if draw < 0.1:
            batches = self._acl_volley(clients, zxid)
        elif draw < 0.2:
            batches = self._closing_volley(clients, zxid)
        else:
            batches = {client: [self._any_of(self._mixed, zxid) for _ in range(self._length())] for client in clients}
        return {client: [self._numbered(asked) for asked in batch] for client, batch in batches.items()}

    def _length(self) -> int:
        return self._random.randrange(1, LONGEST_BATCH)

    def _any_of(self, kinds: Sequence[type], zxid: int) -> Asked:
        if self.chance(0.02):
            return self._mangled(zxid, self._reads)
        return calm(self.request(self._random.choice(kinds), zxid), self._rules)

    def _acl_volley(self, clients: Sequence[int], zxid: int) -> dict[int, list[Asked]]:
        """Reads, and changes of ACLs, of each node one: «pending ACL»."""
        paths = self._random.sample(self._existing, min(len(self._existing), len(clients)))
        batches: dict[int, list[Asked]] = {}
        for client, path in zip(clients, paths, strict=False):
            change = self.request(req.SetACL, zxid)
            assert isinstance(change, req.SetACL)
            reads = [self._any_of(self._reads, zxid) for _ in range(self._length())]
            reads.insert(self._random.randrange(len(reads) + 1), change._replace(path=path))
            batches[client] = reads
        return batches

    def _closing_volley(self, clients: Sequence[int], zxid: int) -> dict[int, list[Asked]]:
        """Some clients read and close their session while the others do all but remove nodes: «parent of a closing
        session», «requests after closeSession». Events may follow the reply: «events after closeSession»."""
        batches: dict[int, list[Asked]] = {}
        for client in clients:
            closes = self.chance(0.3)
            batches[client] = [
                self._any_of(self._reads if closes else self._not_removing, zxid) for _ in range(self._length())
            ]
            if closes:
                batches[client].append(req.CloseSession())
        return batches

    def _mangled(self, zxid: int, kinds: Sequence[type]) -> Raw:
        """A request whose body is cut short, has bytes too many, which the server does not mind, or others."""
        kind = self._random.choice([kind for kind in kinds if kind not in (req.WhoAmI, req.Ping)])
        asked = self.request(kind, zxid)
        operation = BY_REQUEST[type(asked)]
        body = operation.codec.encode(asked)
        draw, at = self._random.random(), self._random.randrange(len(body) + 1)
        if draw < 0.4:
            body = body[:at]
        elif draw < 0.5:
            body += self._random.randbytes(3)
        elif draw < 0.8:
            body = body[:at] + pack(">i", self._random.choice(NUMBERS)) + body[at + 4 :]
        else:
            body = body[:at] + self._random.randbytes(1) + body[at + 1 :]
        return self._unless_deadly(Raw(operation.opcode, body))

    def _patched_multi(self, zxid: int) -> Raw:
        """A multi or a multiRead of any operations under any types: reads among writes, and what may be in none."""
        body = bytearray()
        for _ in range(self._random.randrange(5)):
            kind = self._random.choice(
                (req.Create, req.CreateTTL, req.Delete, req.SetData, req.GetData, req.GetChildren)
            )
            operation = BY_REQUEST[self._random.choice((kind, kind, self._random.choice(list(self._weights))))]
            opcode = operation.opcode if self.chance(0.9) else self._random.choice(NUMBERS)
            MULTI_HEADER.write(body, MultiHeader(opcode, self.chance(0.02), self._random.choice((-1, -1, 0, 5))))
            body += operation.codec.encode(self.request(operation.request, zxid))
        MULTI_HEADER.write(body, MultiHeader(self._random.choice((-1, -1, 1, 99)), True, self._random.choice((-1, 0))))
        opcode = BY_REQUEST[self._random.choice((req.Multi, req.MultiRead))].opcode
        return self._unless_deadly(Raw(opcode, bytes(body)))

    def _unless_deadly(self, asked: Raw) -> Raw:
        if asked.opcode == BY_REQUEST[req.CreateSession].opcode and len(asked.body) >= 4:
            # The real server's clock could end a shorter session before the next request.
            return Raw(asked.opcode, pack(">i", max(500_000, int.from_bytes(asked.body[:4], "big", signed=True))))
        with suppress(MalformedError):
            decoded = BY_OPCODE[asked.opcode].codec.decode(asked.body)
            if (isinstance(decoded, req.CreateTTL) and kills(decoded, self._rules)) or self._is_left_out(decoded):
                return Raw(asked.opcode, b"")
        return asked


class Mutations(Traffic):
    """Traffic whose frames are changed as bytes, by who knows nothing of what they mean."""

    def mutated(self, zxid: int) -> bytes:
        """One to three frames with one to four changes."""
        self.look()
        data = bytearray()
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            kind = self._random.choice([*self._weights, req.Auth, req.Sasl, req.CreateSession, req.Check])
            body = BY_KIND[kind].codec.encode(self.request(kind, zxid))
            data += pack(">iii", 8 + len(body), self._random.randrange(1, 10**6), BY_KIND[kind].opcode) + body
        for _ in range(self._random.choice((0, 1, 1, 1, 2, 4))):
            self._mutate(data)
        return bytes(data)

    def _mutate(self, data: bytearray) -> None:
        at = self._random.randrange(len(data) + 1)
        draw = self._random.randrange(9)
        if draw == 0 and at < len(data):
            data[at] ^= 1 << self._random.randrange(8)
        elif draw == 1:
            data[at : at + 1] = self._random.randbytes(1)
        elif draw == 2:
            del data[at:]
        elif draw == 3:
            del data[at : at + self._random.randrange(1, 9)]
        elif draw == 4:
            data[at:at] = self._random.randbytes(self._random.randrange(1, 9))
        elif draw == 5:
            # Counts and lengths stand at such places, among other things.
            data[at : at + 4] = pack(">i", self._random.choice((*NUMBERS, 3, 8, 10**6)))
        elif draw == 6:
            data[at:at] = data[at : at + self._random.randrange(1, 40)]
        elif draw == 7:
            data[8:12] = pack(">i", self._random.choice((*BAD_OPCODES, *BY_OPCODE)))
        else:
            length = int.from_bytes(data[0:4], "big") + self._random.randrange(-9, 10)
            data[0:4] = pack(">I", max(0, length) & 0xFFFFFFFF)

    def is_left_out(self, opcode: int, body: bytes) -> bool:
        """Whether a frame must not be sent: «deadly requests», and what is left out of other traffic, too."""
        if opcode not in BY_OPCODE:
            return opcode == BY_KIND[req.Check].opcode and not self._rules.refuses_check
        return opcode != 0 and self._unless_deadly(Raw(opcode, body)) != Raw(opcode, body)


_RARE = {
    req.Auth: 0,
    req.CreateSession: 0,
    req.CloseSession: 0,
    req.Sasl: 0,
    req.Reconfig: 1,
    req.Ping: 1,
    req.WhoAmI: 1,
    req.Sync: 1,
}
_OFTEN = {req.Create: 8, req.Create2: 6, req.Multi: 8, req.SetData: 6, req.GetData: 4, req.Exists: 4, req.Delete: 5}
WEIGHTS: dict[type, int] = {
    operation.request: _RARE.get(operation.request, _OFTEN.get(operation.request, 2))
    for operation in OPERATIONS
    if _RARE.get(operation.request, 1)
}

_CHECK = OperationCodec(operations.BY_REQUEST[req.Check].opcode, req.Check, CHECK, None)
BY_KIND: dict[type, OperationCodec] = {**BY_REQUEST, req.Check: _CHECK}

LONGEST_BATCH = 80
_REMOVING = (req.Delete, req.DeleteContainer, req.Multi)


def kills(asked: req.CreateTTL, rules: Rules) -> bool:
    """Whether the real server ends over it: «deadly requests», and «time to live in 3.5.3»."""
    if rules.demands_ttls:
        return asked.flags not in (5, 6) and asked.ttl_ms < 0
    return not 0 < asked.ttl_ms < 2**40


def ends_over_null(release: tuple[int, int, int]) -> bool:
    """Whether the real server ends over a null path in a multi."""
    return release < (3, 4, 13) or (3, 5, 0) <= release < (3, 5, 4)


def watches_null(asked: req.Request) -> bool:
    """Whether a request sets a persistent watch on a null path."""
    if isinstance(asked, req.AddWatch):
        return asked.path is None
    if not isinstance(asked, req.SetWatches2):
        return False
    return None in (*(asked.persistent or ()), *(asked.persistent_recursive or ()))


def calm(asked: req.Request, rules: Rules) -> req.Request:
    """Return a request without parts whose result depends on requests in flight.

    Those are «ephemeral container» and «multi with a null ACL id».
    """
    if isinstance(asked, req.CreateContainer) and asked.flags in (1, 3):
        return asked._replace(flags=asked.flags - 1)
    if isinstance(asked, req.Multi):
        return req.Multi(tuple(_calm_operation(operation, rules) for operation in asked.operations))
    return asked


def _calm_operation(operation: MultiOperation, rules: Rules) -> MultiOperation:
    if isinstance(operation, req.Create | req.Create2 | req.CreateContainer | req.CreateTTL):
        nulls = operation.acl is None or any(None in entry.id for entry in operation.acl)
        operation = operation._replace(acl=OPEN_ACL if nulls else operation.acl)
        if not isinstance(operation, req.CreateTTL) and lacks_ttl(req.Create(*operation), rules):
            operation = operation._replace(flags=0)
    calmed = calm(operation, rules)
    assert isinstance(calmed, type(operation))
    return calmed
