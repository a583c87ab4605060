"""Known differences between simzk and a real ZooKeeper, each with its reason and requests that show it.

Rules of this module:
  - these are all that are known (docs/reference/zookeeper.md §10 lists them by these names); the random traffic keeps
    them apart by name (traffic.py), for each would show in all that follows it;
  - `shows` ask both sides and fails where they differ, which it is expected to: a test that no longer fails tells that
    a difference is no more. What a real server does by chance is asked so often that chance does not decide;
  - in none of them, but the last, does simzk what a real server could not have done: the real one checks requests
    ahead of what it has applied, as its threads happen to run; simzk does one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.pair import CLIENTS, TICK_MS, TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.pair import Pair

ONE, TWO = CLIENTS[0], CLIENTS[1]
OFTEN = 200
# On a busy machine, the thread of the real server that closes the connection may come after all has been sent.
ROUNDS = 5
READ_AND_ADMIN = (ACL(17, Id("world", "anyone")),)


class Difference(NamedTuple):
    """One of them.

    Attributes:
        name: what it is called in the reference and where traffic avoids it.
        reason: what the real server does, and why.
        source: where in the real server.
        shows: each fails where both sides differ.
    """

    name: str
    reason: str
    source: str
    shows: tuple[Callable[[Pair], None], ...]


def _new(path: str, flags: int = 0, data: bytes = b"") -> req.Create:
    return req.Create(path, data, OPEN_ACL, flags)


def _connect(pair: Pair) -> None:
    for client in (ONE, TWO):
        pair.connect(client, TIMEOUT_MS)


def _set_acl(pair: Pair) -> None:
    _connect(pair)
    pair.send(ONE, [_new("/a")])
    for _ in range(OFTEN):
        pair.send(ONE, [req.SetACL("/a", READ_AND_ADMIN, -1), req.SetData("/a", b"x", -1)])
        pair.send(ONE, [req.SetACL("/a", OPEN_ACL, -1)])


def _multi_that_stumbles(pair: Pair) -> None:
    _connect(pair)
    pair.send(ONE, [_new("/s")])
    stumbling = req.Multi((_new("/s/n-", 2), _new("/x")._replace(acl=(ACL(31, Id("world", None)),))))
    for _ in range(OFTEN):
        pair.send(ONE, [stumbling, _new("/s/n-", 2)])


def _ephemeral_container(pair: Pair) -> None:
    _connect(pair)
    for number in range(OFTEN):
        container = f"/c{number}"
        pair.send(ONE, [req.CreateContainer(container, b"", OPEN_ACL, 1), _new(f"{container}/child")])


def _parent_of_a_closing_session(pair: Pair) -> None:
    pair.connect(TWO, TIMEOUT_MS)
    for number in range(OFTEN):
        parent = f"/p{number}"
        pair.connect(ONE, TIMEOUT_MS)
        pair.send(ONE, [_new(parent), *[_new(f"{parent}/e{each}", 1) for each in range(30)]])
        pair.volley({TWO: [req.Delete(parent, -1)] * 200, ONE: [req.CloseSession()]})


def _events_of_a_closed_session(pair: Pair) -> None:
    pair.connect(TWO, TIMEOUT_MS)
    pair.send(TWO, [_new("/a")])
    for _ in range(OFTEN):
        pair.connect(ONE, TIMEOUT_MS)
        pair.send(ONE, [req.AddWatch("/", 1)])
        pair.volley({TWO: [req.SetData("/a", b"", -1)] * 200, ONE: [req.CloseSession()]})
        assert not pair.late_events


def _auth_ahead(pair: Pair) -> None:
    _connect(pair)
    for _ in range(OFTEN):
        pair.send(ONE, [*[req.Delete("/none", -1)] * 20, req.Auth(0, "digest", b"bob:pw")])


def _hard_quota(pair: Pair) -> None:
    _connect(pair)
    quota = "/zookeeper/quota/q"
    pair.send(ONE, [_new("/q"), _new(quota), _new(f"{quota}/zookeeper_stats")])
    pair.send(ONE, [_new(f"{quota}/zookeeper_limits", data=b"count=-1,bytes=-1=;countHardLimit=5")])
    for _ in range(OFTEN):
        pair.send(ONE, [_new(f"/q/{number}") for number in range(10)])
        pair.send(ONE, [req.Delete(f"/q/{number}", -1) for number in range(10)])


def _last_events(pair: Pair) -> None:
    pair.connect(TWO, TIMEOUT_MS)
    for _ in range(ROUNDS):
        pair.connect(ONE, TIMEOUT_MS)
        # More than sockets hold for a client that does not read.
        for begin in range(0, 1500, 250):
            pair.send(ONE, [_new(f"/{number:04000}", 1) for number in range(begin, begin + 250)])
        pair.connect(ONE, 2 * TICK_MS, resume=True)
        for client in (ONE, TWO):
            pair.send(client, [req.AddWatch("/", 1)])
        pair.let_expire(ONE, TWO)
        assert not pair.lost_events


def _behind_a_close(pair: Pair) -> None:
    for _ in range(OFTEN):
        pair.connect(ONE, TIMEOUT_MS)
        pair.send(ONE, [req.CloseSession(), *[_new("/late")] * 20])


def _time_to_live(pair: Pair) -> None:
    _connect(pair)
    pair.send(ONE, [req.CreateTTL("/a", b"", OPEN_ACL, 0, -1)])


def _text_of_totals(pair: Pair) -> None:
    _connect(pair)
    quota = "/zookeeper/quota/q"
    pair.send(ONE, [_new("/q"), _new(quota), _new(f"{quota}/zookeeper_stats"), _new(f"{quota}/zookeeper_limits")])
    pair.send(ONE, [req.SetData(f"{quota}/zookeeper_stats", b"no totals", -1)])
    pair.send(ONE, [req.Delete("/q", -1)])


def _limits_of_nothing(pair: Pair) -> None:
    _connect(pair)
    pair.send(ONE, [_new("/zookeeper/quota/zookeeper_limits")])


def _limits_that_were_none(pair: Pair) -> None:
    _connect(pair)
    pair.send(ONE, [_new("/zookeeper/zookeeper_limits")])
    pair.send(ONE, [req.Delete("/zookeeper/zookeeper_limits", -1)])


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "pending ACL",
        "a request directly after a setACL may be checked against the old ACL, which the record of pending changes "
        "keeps",
        "PrepRequestProcessor.pRequest2Txn",
        (_set_acl,),
    ),
    Difference(
        "multi with a null ACL id",
        "a multi that fails on a null id in an ACL (-5) after other operations were checked does not roll those "
        "back; until the multi is applied, later creates get sequence numbers after theirs",
        "PrepRequestProcessor.pRequestHelper",
        (_multi_that_stumbles,),
    ),
    Difference(
        "ephemeral container",
        "a container made with the flags of an ephemeral (1, 3) is an ephemeral to checks (-108) until it is applied",
        "PrepRequestProcessor.pRequest2TxnCreate",
        (_ephemeral_container,),
    ),
    Difference(
        "parent of a closing session",
        "a pending closeSession marks its ephemerals as deleted but does not lower their parents' number of "
        "children: a delete of the parent may be -111; ephemerals created or deleted directly before it change the "
        "order of its deletions",
        "PrepRequestProcessor.pRequest2Txn",
        (_parent_of_a_closing_session,),
    ),
    Difference(
        "events after closeSession",
        "between the reply to closeSession and the end of the connection, events caused by other sessions may still "
        "arrive",
        "NIOServerCnxn.handleWrite",
        (_events_of_a_closed_session,),
    ),
    Difference(
        "requests after closeSession",
        "requests sent together with a closeSession, after it, may be answered -112; writes among them use zxids",
        "PrepRequestProcessor.pRequestHelper",
        (_behind_a_close,),
    ),
    Difference(
        "auth ahead",
        "auth and sasl are answered when they are read, before pending requests, and filter events at once",
        "ZooKeeperServer.processPacket",
        (_auth_ahead,),
    ),
    Difference(
        "pending hard quota",
        "hard quotas count applied changes: requests sent together may exceed them",
        "ZooKeeperServer.checkQuota",
        (_hard_quota,),
    ),
    Difference(
        "last events of a session",
        "the connection of an expiring session is closed without waiting for what is still to be sent: the last of "
        "its events may be lost",
        "NIOServerCnxnFactory.closeSession",
        (_last_events,),
    ),
    Difference(
        "deadly requests",
        "requests that the real server accepts, and that crash it when they are applied, so that it cannot read its "
        "log again: a createTTL with a negative ttl beside flags of another kind (here -8); a change below a quota "
        "whose zookeeper_stats hold no totals; a zookeeper_limits made right below /zookeeper/quota, or deleted "
        "elsewhere in /zookeeper (here done)",
        "EphemeralType.validateTTL, StatsTrack, PathTrie.addPath, Quotas.trimQuotaPath",
        (_time_to_live, _text_of_totals, _limits_of_nothing, _limits_that_were_none),
    ),
)

OF_OLD_RELEASES: dict[str, str] = {
    "null in 3.4": "a session that is asked for with a null password, and a null SASL token: the server neither "
    "answers nor closes the connection, and reads nothing more from it (simzk accepts the password, and closes after "
    "the token)",
    "persistent watch on a null path": "from 3.6 to 3.8 the connection cannot be closed any more: the server answers "
    "closeSession, fails on the watch, and leaves the socket open (simzk closes it)",
    "null path in a multi": "before 3.4.13, and from 3.5.0 to 3.5.3, the server ends, or answers nobody any more "
    "(simzk answers -5)",
    "setData of the empty path": "before 3.4.7 and in 3.5.0 the server ends as it applies the write (simzk answers -8)",
    "time to live in 3.5.3": "a createTTL of 2^40 ms or more makes a TTL node, and one of 0 or less, or of 2^60 or "
    "more, ends the server (simzk answers -8 to each)",
}
"""Further differences from releases before 3.9; docs/reference/zookeeper.md §0 lists them."""
