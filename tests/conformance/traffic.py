"""Random but seeded traffic of several clients: every request of the table, good and bad (§1.4, §1.5).

Rules of this module:
  - a step is drawn from the generator's own `random.Random` and from what the simulated tree looks like now, so that
    most requests have something to do; if the trees differ the comparison has already failed;
  - what must come alone (because the real server answers it out of order, or closes behind it) comes alone;
  - what a real server does by chance while other requests are under way is kept apart: docs/reference/zookeeper.md
    §10 lists it, each with its reason.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from simzk.wire.operations import BY_REQUEST, OPERATIONS
from simzk.zookeeper import requests as req
from simzk.zookeeper.paths import SPECIAL_PATHS
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.arms import Asked, Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simzk.zookeeper.tree import DataTree

NAMES = ("a", "b", "c", "d", "Aa", "BB", "é", "0", "long-name-of-a-node", "...")
BAD_PATHS = (
    "", "/", "//", "/a/", "a", "/a//b", "/.", "/a/..", "/a/./b", "/\x00", "/a\x01", "/\x7f", "/\x9f", "/\ud7ff",
    "/\ue000", "/\ufff0", "/\U0001f600", "/\xa0", "/ ", "/\ufeff", "/ok...", None,
)  # fmt: skip
VERSIONS = (-1, -1, -1, 0, 0, 1, 2, 3, -2, 2**31 - 1, -(2**31))
DATA = (None, b"", b"x", b"some data", b"0123456789")

ACLS: tuple[tuple[ACL, ...] | None, ...] = (
    *[OPEN_ACL] * 12,
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
)
FLAGS = (0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, -1)
CREDENTIALS = (b"bob:pw", b"ann:pw", b"nocolon", b"", b"super:test", b"\xff:\xfe", None)
SCHEMES = ("digest", "digest", "digest", "digest", "digest", "ip", "none such", None, "world", "super")
BAD_OPCODES = (0, 10, 13, 23, 99, 108, -1, -2, 2**31 - 1)


MultiOperation = req.Create | req.Create2 | req.CreateContainer | req.CreateTTL | req.Delete | req.SetData | req.Check


class Traffic:
    """Draws steps.

    Args:
        seed: of all that is drawn.
        tree: what the simulated server holds, looked at for paths that exist.
    """

    def __init__(self, seed: int, tree: DataTree) -> None:
        self._random = random.Random(seed)
        self._tree = tree
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
        if draw < 0.09:
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
            ttl_ms = self._random.choice((10**9, 10**9, 2**40 - 1, 2**40, 0, -1))
            # A TTL of -1 beside flags of another kind passes the real server's check, and kills it when applied.
            flags = self._random.choice((5, 6, 5, 6, flags))
            return req.CreateTTL(*fields[:3], flags if flags in (5, 6) or ttl_ms >= 0 else 5, ttl_ms)
        made: req.Request = make(*fields)
        return made

    def _read(self) -> req.GetData | req.GetChildren:
        make: type[req.GetData | req.GetChildren] = self._random.choice((req.GetData, req.GetChildren))
        return make(self.path(), self._watch())

    def _paths(self) -> tuple[str, ...]:
        return tuple(self.path() or "/a" for _ in range(self._random.randrange(4)))

    def _since(self, zxid: int) -> int:
        return self._random.choice((0, zxid, zxid - 3, zxid - 20, 2**62))

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
            req.Reconfig: lambda: req.Reconfig("server.1=a", None, None, -1),
            req.CheckWatches: lambda: req.CheckWatches(path, choose((0, 1, 2, 3, 4, 5, 6))),
            req.RemoveWatches: lambda: req.RemoveWatches(path, choose((0, 1, 2, 3, 4, 5, 6))),
            req.DeleteContainer: lambda: req.DeleteContainer(path),
            req.Auth: lambda: req.Auth(0, choose(SCHEMES), choose(CREDENTIALS)),
            req.SetWatches: lambda: req.SetWatches(
                self._since(zxid), self._paths(), self._paths(), None if self.chance(0.02) else self._paths()
            ),
            req.SetWatches2: lambda: req.SetWatches2(self._since(zxid), *[self._paths() for _ in range(5)]),
            req.Sasl: lambda: req.Sasl(b""),
            req.GetEphemerals: lambda: req.GetEphemerals(choose((None, "", "/", " / ", "/a", path))),
            req.GetAllChildrenNumber: lambda: req.GetAllChildrenNumber(path),
            req.AddWatch: lambda: req.AddWatch(path, choose((0, 0, 1, 1, 2, -1))),
            req.WhoAmI: req.WhoAmI,
            req.CloseSession: req.CloseSession,
        }
        if kind in (req.Create, req.Create2, req.CreateContainer, req.CreateTTL):
            return self._create(kind)
        return builders[kind]()

    def batch(self, zxid: int) -> list[Asked]:
        """One to five requests that go out together."""
        self.look()
        draw = self._random.random()
        if draw < 0.012:
            return [req.CloseSession()]
        if draw < 0.03:
            return [self.request(req.Auth, zxid)]
        if draw < 0.035:
            return [req.Sasl(b"")]
        if draw < 0.04:
            return [Raw(self._random.choice(BAD_OPCODES), b"")]
        if draw < 0.06:
            return [self._mangled(zxid, list(WEIGHTS))]
        kinds = [kind for kind, weight in WEIGHTS.items() for _ in range(weight)]
        count = self._random.choice((1, 1, 2, 3, 5))
        requests: list[Asked] = []
        # What follows closely behind a SetACL is checked by the real server against the old ACL or the new one, as
        # its threads happen to run (the ChangeRecord of a SetACL keeps the old): a race, so nothing does.
        while len(requests) < count and not (requests and isinstance(requests[-1], req.SetACL)):
            requests.append(self.request(self._random.choice(kinds), zxid))
        return requests

    def volley(self, clients: Sequence[int], zxid: int) -> dict[int, list[Asked]]:
        """Many requests of each client, all to be under way at once."""
        self.look()
        draw = self._random.random()
        if draw < 0.1:
            return self._acl_volley(clients, zxid)
        if draw < 0.2:
            return self._closing_volley(clients, zxid)
        return {client: [self._any_of(MIXED, zxid) for _ in range(self._length())] for client in clients}

    def _length(self) -> int:
        return self._random.randrange(1, LONGEST_BATCH)

    def _any_of(self, kinds: Sequence[type], zxid: int) -> Asked:
        if self.chance(0.02):
            return self._mangled(zxid, READ_KINDS)
        return calm(self.request(self._random.choice(kinds), zxid))

    def _acl_volley(self, clients: Sequence[int], zxid: int) -> dict[int, list[Asked]]:
        """Reads, and changes of ACLs, of each node one: a second would be checked against the first one's old ACL."""
        paths = self._random.sample(self._existing, min(len(self._existing), len(clients)))
        batches: dict[int, list[Asked]] = {}
        for client, path in zip(clients, paths, strict=False):
            change = self.request(req.SetACL, zxid)
            assert isinstance(change, req.SetACL)
            reads = [self._any_of(READ_KINDS, zxid) for _ in range(self._length())]
            reads.insert(self._random.randrange(len(reads) + 1), change._replace(path=path))
            batches[client] = reads
        return batches

    def _closing_volley(self, clients: Sequence[int], zxid: int) -> dict[int, list[Asked]]:
        """Some clients read and close their session while the others do all but remove nodes."""
        batches: dict[int, list[Asked]] = {}
        for client in clients:
            closes = self.chance(0.3)
            batches[client] = [
                self._any_of(READ_KINDS if closes else NOT_REMOVING, zxid) for _ in range(self._length())
            ]
            if closes:
                batches[client].append(req.CloseSession())
        return batches

    def _mangled(self, zxid: int, kinds: Sequence[type]) -> Raw:
        """A request whose body is cut short, or has bytes too many, which the server does not mind."""
        kind = self._random.choice([kind for kind in kinds if kind not in (req.WhoAmI, req.Ping)])
        operation = BY_REQUEST[kind]
        body = operation.codec.encode(self.request(kind, zxid))
        cut = self._random.randrange(len(body) + 4)
        return Raw(operation.opcode, body[:cut] if cut < len(body) else body + bytes(3))


_RARE = {req.Auth: 0, req.CloseSession: 0, req.Sasl: 0, req.Reconfig: 1, req.Ping: 1, req.WhoAmI: 1, req.Sync: 1}
_OFTEN = {req.Create: 8, req.Create2: 6, req.Multi: 8, req.SetData: 6, req.GetData: 4, req.Exists: 4, req.Delete: 5}
WEIGHTS: dict[type, int] = {
    operation.request: _RARE.get(operation.request, _OFTEN.get(operation.request, 2))
    for operation in OPERATIONS
    if _RARE.get(operation.request, 1)
}

LONGEST_BATCH = 80
_REMOVING = (req.Delete, req.DeleteContainer, req.Multi)
MIXED: list[type] = [kind for kind, weight in WEIGHTS.items() for _ in range(weight) if kind is not req.SetACL]
READ_KINDS: list[type] = [kind for kind in MIXED if not BY_REQUEST[kind].is_write]
NOT_REMOVING: list[type] = [kind for kind in MIXED if kind not in _REMOVING]


def calm(asked: req.Request) -> req.Request:
    """The request without what a real server does by chance while others are under way.

    - A container made with the flags of an ephemeral is one to what is checked before it is applied, and none later.
    - A multi that stumbles over a null after some of its operations were checked (-5) does not take those back: what
      is checked before it is passed over sees their effects, sequence numbers that are never used among them.
    """
    if isinstance(asked, req.CreateContainer) and asked.flags in (1, 3):
        return asked._replace(flags=asked.flags - 1)
    if isinstance(asked, req.Multi):
        return req.Multi(tuple(_calm_operation(operation) for operation in asked.operations))
    return asked


def _calm_operation(operation: MultiOperation) -> MultiOperation:
    if operation.path is None:
        operation = operation._replace(path="/a")
    if isinstance(operation, req.Create | req.Create2 | req.CreateContainer | req.CreateTTL):
        nulls = operation.acl is None or any(None in entry.id for entry in operation.acl)
        operation = operation._replace(acl=OPEN_ACL if nulls else operation.acl)
    calmed = calm(operation)
    assert isinstance(calmed, type(operation))
    return calmed
