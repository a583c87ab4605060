"""One story of requests that shows what changed between ZooKeeper's releases, and what real releases answered to it.

    python -m tests.conformance.releases record FOLDER [RELEASE...]

records what real releases answer (releases.py), each a fresh server.

Rules of this module:
  - a release that does not know hard quotas stops at the very sight of them: it is not shown that chapter;
  - a chapter has a session of its own for each of its two clients, so that a connection that is closed ends no story;
  - a line is a client and one message, normalised as the differential test does (comparison.py); what no server answers
    is a line, too.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Code, Reply
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.arms import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.arms import Asked, TcpArm
    from tests.conformance.comparison import Normaliser
    from tests.conformance.simulated_arms import SimulatedArm

ONE, TWO = 1, 2
_WORLD = Id("world", "anyone")
_NO_READ = (ACL(30, _WORLD),)
_SECRET = (ACL(1, _WORLD), ACL(31, Id("digest", "user:secret")))
_LIMITS, _STATS = "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"


def _new(path: str, flags: int = 0, acl: tuple[ACL, ...] = OPEN_ACL) -> req.Create:
    return req.Create(path, b"x", acl, flags)


_KINDS_OF_WATCHES: list[Asked] = [
    req.AddWatch("/k", 0),
    req.AddWatch("/k", 1),
    req.GetChildren("/", True),
    *[req.CheckWatches("/k", kind) for kind in (1, 2, 3, 4, 5, 6)],
    _new("/k"),
    _new("/k/c"),
    req.RemoveWatches("/k", 5),
    req.SetData("/k", b"", -1),
    req.RemoveWatches("/k", 4),
    req.SetData("/k", b"", -1),
    req.CheckWatches("/k", 3),
    req.RemoveWatches("/k", 2),
    req.SetData("/k", b"", -1),
    req.RemoveWatches("/k", 1),
    req.RemoveWatches("/k", 3),
    req.SetData("/k", b"", -1),
    req.CheckWatches("/k", 3),
]

Step = tuple[int, list["Asked"]]
CHAPTERS: dict[str, list[Step]] = {
    "the first tree": [
        (ONE, [req.GetChildren2("/", False), req.GetChildren2("/zookeeper", False), req.GetACL("/zookeeper")]),
        (ONE, [req.GetData("/zookeeper/config", False), req.GetACL("/zookeeper/config")]),
        (ONE, [req.GetData("/zookeeper/quota", False), req.Delete("/zookeeper/config", -1)]),
    ],
    "what every release knows": [
        (ONE, [req.Exists("/a", True), _new("/a"), req.Exists("/a", True), req.SetData("/a", b"two", 0)]),
        (ONE, [req.GetChildren2("/a", True), _new("/a/e", 1), _new("/a/s", 2), _new("/a/s", 3)]),
        (ONE, [req.GetChildren("/a", False), req.GetData("/a", True), req.SetData("/a", None, 9), req.GetACL("/a")]),
        (ONE, [req.SetACL("/a", OPEN_ACL, 0), req.SetACL("/a", OPEN_ACL, 0), req.Sync("/a"), req.Exists("/a", False)]),
        (ONE, [req.Delete("/a", -1), req.Delete("/a/e", 5), req.Delete("/a/e", 0), req.Exists("/a", False)]),
        (ONE, [req.Multi((req.Check("/a", 1), _new("/m"), req.SetData("/m", b"", 0), req.Delete("/m", 1)))]),
        (ONE, [req.Multi((_new("/m"), req.Delete("/none", -1), _new("/n"))), req.Multi(()), req.Ping()]),
        (ONE, [_new("/a/e2", 1), _new("/a/e2/c"), _new("/a/e2/.."), _new("a"), _new("/a/"), _new("/none/x")]),
        (ONE, [req.Sasl(b""), req.Auth(0, "digest", b"user:pw"), req.Auth(0, "ip", b"")]),
        (ONE, [req.SetWatches(0, ("/a", "/none"), ("/a", "/none"), ("/a", "/none"))]),
        (ONE, [req.CloseSession()]),
    ],
    "flags": [(ONE, [_new(f"/flag{flags}", flags) for flags in range(9)]), (ONE, [_new("/none/f", 7)])],
    "flags of missing parents": [(ONE, [_new("/none/f", flags) for flags in (-1, 4, 5, 6)])],
    "create2": [(ONE, [req.Create2("/create2", b"x", OPEN_ACL, 0)])],
    "create2 in a row": [(ONE, [req.Create2(f"/create2-{flags}", b"x", OPEN_ACL, flags)]) for flags in range(7)],
    "a container": [
        (ONE, [req.CreateContainer("/container", b"x", OPEN_ACL, 4)]),
        (ONE, [_new("/container/c"), req.Exists("/container", False)]),
    ],
    "a TTL node": [(ONE, [req.CreateTTL("/ttl", b"x", OPEN_ACL, 5, 1_000_000)]), (ONE, [req.Exists("/ttl", False)])],
    "delete of a container": [(ONE, [_new("/gone")]), (ONE, [req.DeleteContainer("/gone")])],
    "reconfig": [(ONE, [req.Reconfig(None, None, None, -1)])],
    "check of watches": [(ONE, [req.Exists("/c", True)]), (ONE, [req.CheckWatches("/c", 2)])],
    "an unset watch": [
        (ONE, [req.GetChildren("/", True)]),
        (ONE, [req.RemoveWatches("/", 1)]),
        (ONE, [req.RemoveWatches("/", 1), req.RemoveWatches("/", 9)]),
    ],
    "multiRead": [(ONE, [req.MultiRead((req.GetData("/", False), req.GetChildren("/none", False)))])],
    "getEphemerals": [(ONE, [_new("/mine", 1)]), (ONE, [req.GetEphemerals("/")])],
    "getAllChildrenNumber": [(ONE, [req.GetAllChildrenNumber("/zookeeper")])],
    "setWatches2": [(ONE, [req.SetWatches2(0, ("/none",), (), (), ("/w",), ("/w",))]), (ONE, [_new("/w", 1)])],
    "addWatch": [(ONE, [req.AddWatch("/aw", 0)]), (ONE, [_new("/aw"), _new("/aw/c"), req.SetData("/aw", b"", -1)])],
    "whoAmI": [(ONE, [req.WhoAmI()])],
    "an opcode of nobody": [(ONE, [Raw(99, b"")])],
    "a multi of create2": [(ONE, [req.Multi((req.Create2("/m2", b"", OPEN_ACL, 0),)), req.Ping()])],
    "a multi of containers": [(ONE, [req.Multi((req.CreateContainer("/mc", b"", OPEN_ACL, 4),)), req.Ping()])],
    "a multi of TTL nodes": [(ONE, [req.Multi((req.CreateTTL("/mt", b"", OPEN_ACL, 5, 10**6),)), req.Ping()])],
    "exists without permission": [
        (ONE, [_new("/hidden", 0, _NO_READ), req.Exists("/hidden", True), req.GetData("/hidden", False)]),
        (TWO, [req.SetData("/hidden", b"", -1)]),
        (ONE, [req.Ping()]),
    ],
    "events without permission": [
        (ONE, [_new("/shut"), req.GetData("/shut", True), req.GetChildren("/shut", True)]),
        (TWO, [req.SetACL("/shut", _NO_READ, -1), req.SetData("/shut", b"", -1), _new("/shut/c")]),
        (ONE, [req.Ping()]),
        (TWO, [req.SetACL("/shut", OPEN_ACL, -1), req.SetData("/shut", b"", -1), req.Delete("/shut/c", -1)]),
        (ONE, [req.Ping()]),
    ],
    "secrets of an ACL": [
        (ONE, [_new("/secret", 0, _SECRET), req.GetACL("/secret"), _new("/mute", 0, (ACL(2, _WORLD),))]),
        (ONE, [req.GetACL("/mute"), req.Exists("/mute", False)]),
    ],
    # One request at a time: the oldest releases pass over some.
    "kinds of watches": [(ONE, [asked]) for asked in _KINDS_OF_WATCHES],
    # One request at a time: with more under way, older releases count what is not yet applied, by chance or not.
    "hard quotas": [
        (ONE, [asked])
        for asked in (
            _new("/q"),
            _new("/zookeeper/quota/q"),
            req.Create(_STATS, b"", OPEN_ACL, 0),
            req.Create(_LIMITS, b"count=2,bytes=4,countHardLimit=2,byteHardLimit=4", OPEN_ACL, 0),
            req.GetData(_STATS, False),
            _new("/q/a"),
            _new("/q/b"),
            req.GetData(_STATS, False),
            req.SetData("/q", b"12345678", -1),
            req.SetData("/q", b"", 7),
            req.Delete("/q/a", -1),
            req.GetData(_STATS, False),
            req.Multi((_new("/q/d"),)),
            req.Multi((_new("/q/e"),)),
        )
    ],
    "soft quotas": [
        (
            ONE,
            [
                _new("/p"),
                _new("/zookeeper/quota/p"),
                req.Create("/zookeeper/quota/p/zookeeper_stats", b"", OPEN_ACL, 0),
            ],
        ),
        (ONE, [req.Create("/zookeeper/quota/p/zookeeper_limits", b"count=1,bytes=1", OPEN_ACL, 0), _new("/p/a")]),
        (ONE, [req.SetData("/p", b"12345", -1), req.GetData("/zookeeper/quota/p/zookeeper_stats", False)]),
    ],
    "an unknown scheme": [
        (ONE, [req.Create("/s", b"", (ACL(31, Id("foo", "x")),), 0)]),
        (ONE, [req.Auth(0, "foo", b"")]),
    ],
}


def tell(arm: TcpArm | SimulatedArm, normalise: Normaliser, *, hard_quotas: bool) -> Iterator[str]:
    """Play the story on a server, and tell all that its clients were sent."""
    xid = 0
    for chapter, steps in CHAPTERS.items():
        if chapter == "hard quotas" and not hard_quotas:
            continue
        yield f"== {chapter}"
        reported = dict.fromkeys((ONE, TWO), 0)
        arm.streams.clear()
        for client in (ONE, TWO):
            arm.connect(client, req.ConnectRequest(0, 0, 30_000, 0, bytes(16), False))
        for client, batch in steps:
            if not arm.is_open(client):
                yield f"{client} is cut off"
                break
            numbered = list(enumerate(batch, xid + 1))
            xid += len(batch)
            with contextlib.suppress(TimeoutError):
                arm.send(client, numbered)
            last = arm.streams[client][-1]
            if isinstance(last, Reply) and last.error == Code.UNIMPLEMENTED and last.zxid == -1:
                arm.let_expire(client)  # it is being closed
            for said in arm.streams[client][reported[client] :]:
                yield f"{client} {normalise(said)!r}"
            reported[client] = len(arm.streams[client])
            if arm.give_up(client):
                yield f"{client} receives nothing"
        for client in (ONE, TWO):
            if arm.is_open(client):
                arm.send(client, [(xid + 1, req.CloseSession())])
                for said in arm.streams[client][reported[client] :]:
                    yield f"{client} {normalise(said)!r}"
    yield "== the end"
