"""simzk's server and a real ZooKeeper are asked the same; every field of every answer is compared (comparison.py).

`SIMZK_DIFFERENTIAL_SEEDS` says how many seeds are played (default 24, about 300 requests each), and
`SIMZK_DIFFERENTIAL_FIRST_SEED` from which one on:

    SIMZK_DIFFERENTIAL_SEEDS=1000 pytest tests/conformance/test_differential.py
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import Reply
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.pair import CLEANER, CLIENTS, TICK_MS

if TYPE_CHECKING:
    from tests.conformance.pair import Pair

SEEDS = int(os.environ.get("SIMZK_DIFFERENTIAL_SEEDS", "24"))
FIRST_SEED = int(os.environ.get("SIMZK_DIFFERENTIAL_FIRST_SEED", "0"))
ONE, TWO = CLIENTS[0], CLIENTS[1]

pytestmark = pytest.mark.java


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_a_real_server_answers_the_same(pair: Pair, seed: int) -> None:
    pair.play(seed)
    assert any(isinstance(said, Reply) for said in pair.real.streams[CLEANER])


def both_connected(pair: Pair) -> None:
    for client in (ONE, TWO):
        pair.connect(client, 30_000)


def test_lists_keep_their_order_as_they_grow_and_shrink(pair: Pair) -> None:
    both_connected(pair)
    pair.send(ONE, [req.Create("/list", b"", OPEN_ACL, 0)])
    names = [f"/list/{prefix}{number}" for number in range(60) for prefix in ("n", "topic-", "é")]
    for begin in range(0, len(names), 20):
        pair.send(ONE, [req.Create(path, b"", OPEN_ACL, 1) for path in names[begin : begin + 20]])
        pair.send(TWO, [req.GetChildren("/list", False)])
        pair.send(ONE, [req.GetEphemerals(None), req.GetEphemerals("/list/t")])
    pair.send(ONE, [req.Delete(path, -1) for path in names[::3]])
    # A table does not shrink; what comes back stands last in its bucket.
    pair.send(ONE, [req.GetChildren2("/list", False), *[req.Create(path, b"", OPEN_ACL, 1) for path in names[::6]]])
    pair.send(TWO, [req.GetChildren("/list", False), req.AddWatch("/list", 1), req.GetChildren("/list", True)])
    # The end of a session removes its nodes in an order of its own, each with its events.
    pair.send(ONE, [req.CloseSession()])
    pair.send(TWO, [req.Ping(), req.Exists("/list", False), req.Sync("/")])
    pair.clean()


def test_quotas_count_and_refuse_alike(pair: Pair) -> None:
    both_connected(pair)
    limits, stats = "/zookeeper/quota/q/zookeeper_limits", "/zookeeper/quota/q/zookeeper_stats"
    read = [req.GetData(stats, False), req.GetData(limits, False)]
    pair.send(ONE, [req.Create(path, b"1", OPEN_ACL, 0) for path in ("/q", "/q/a", "/q/a/b", "/zookeeper/quota/q")])
    pair.send(ONE, [req.Create(limits, b"count=5,bytes=20", OPEN_ACL, 0), req.Create(stats, b"", OPEN_ACL, 0), *read])
    pair.send(TWO, [req.GetData(stats, True)])
    for request in (
        req.Create("/q/c", b"some", OPEN_ACL, 0),
        req.SetData("/q/c", b"more of it", 0),
        req.SetData("/q/c", None, -1),
        req.Delete("/q/a/b", -1),
        req.SetData(limits, b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=4", -1),
        req.Create("/q/d", b"", OPEN_ACL, 0),
        req.Create("/q/e", b"", OPEN_ACL, 0),
        req.Create("/q/d", b"", OPEN_ACL, 0),
        req.SetData("/q/d", bytes(40), 7),
        req.SetData("/q/d", bytes(18), 0),
        req.SetData("/q/d", bytes(19), 7),
        req.Multi((req.Delete("/q/d", -1), req.Create("/q/f", b"1", OPEN_ACL, 0))),
        req.Delete(limits, -1),
        req.Create("/q/g", b"1", OPEN_ACL, 0),
    ):
        pair.send(ONE, [request])
        pair.send(ONE, list(read))
    pair.send(TWO, [req.Ping(), req.Exists("/q", False)])
    pair.clean()


def test_sequence_numbers_and_versions_alike(pair: Pair) -> None:
    both_connected(pair)
    sequential = req.Create("/seq/n-", b"", OPEN_ACL, 3)
    pair.send(ONE, [req.Create("/seq", b"", OPEN_ACL, 0), sequential, sequential])
    pair.send(TWO, [sequential, req.Create("/seq/plain", b"", OPEN_ACL, 0), sequential])
    pair.send(ONE, [req.Multi((sequential, sequential, req.Delete("/seq/n-0000000000", -1), sequential))])
    pair.send(ONE, [req.Multi((sequential, req.Check("/none", -1))), sequential, req.GetChildren2("/seq", False)])
    pair.clean()


def test_identities_in_the_order_of_the_real_set(pair: Pair) -> None:
    both_connected(pair)
    for name in (b"bob", b"ann", b"x:y:z", b":", b"", b"\xc3\xa9:1", b"super:test"):
        pair.send(ONE, [req.Auth(0, "digest", name)])
        pair.send(ONE, [req.WhoAmI()])
    pair.send(ONE, [req.Create("/auth", b"", (ACL(31, Id("auth", "")),), 0), req.GetACL("/auth")])
    pair.send(TWO, [req.GetACL("/auth"), req.GetData("/auth", False)])
    pair.clean()


def test_a_silent_session_ends_alike(pair: Pair) -> None:
    pair.connect(ONE, 2 * TICK_MS)
    pair.connect(TWO, 30_000)
    pair.send(ONE, [req.Create(path, b"", OPEN_ACL, 0) for path in ("/gone", "/stays")])
    ephemerals = [f"/gone/{name}" for name in ("x", "y", "topic-1", "lock-")]
    pair.send(ONE, [req.Create(path, b"", OPEN_ACL, 1) for path in ephemerals])
    pair.send(ONE, [req.GetChildren("/gone", True), req.Exists(ephemerals[0], True), req.GetData("/stays", True)])
    pair.send(TWO, [req.AddWatch("/gone", 0), req.GetData(ephemerals[1], True), req.AddWatch("/", 1)])
    pair.let_expire(ONE)
    pair.send(TWO, [req.GetChildren2("/gone", False), req.Ping()])
    # Its password does not bring it back.
    pair.connect(ONE, 30_000, resume=True)
    pair.clean()
