"""simzk's server and a real ZooKeeper are asked the same; every field of every answer is compared (comparison.py).

Twelve sessions have up to eighty requests each under way at once on the real server; simzk is asked in the order that
the zxids of the replies tell. `SIMZK_DIFFERENTIAL_REQUESTS` says how many are compared at least, and
`SIMZK_DIFFERENTIAL_FIRST_SEED` from which seed on (a seed is about 3,700 requests):

    SIMZK_DIFFERENTIAL_REQUESTS=1000000 pytest tests/conformance/test_differential.py

`SIMZK_DIFFERENTIAL_CHANGED` says how many requests are compared at least while frames are changed as bytes.

What is asked depends on what was answered, and the real server takes concurrent requests in an order of its own:
a seed played again is alike, not equal.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING

import pytest

import simzk
from simzk.wire.operations import BY_REQUEST, OPERATIONS
from simzk.zookeeper import requests as req
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance import traffic
from tests.conformance.differences import DIFFERENCES, OF_OLD_RELEASES
from tests.conformance.pair import CLIENTS, CONFIG, SWEEPS_BY_HAND, TICK_MS, TIMEOUT_MS, Pair
from tests.conformance.real_zookeeper import SUPER_DIGEST, RealZooKeeper
from tests.conformance.simulated_arms import TcpSimulatedArm

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.conftest import Pairs

ENOUGH = 200_000
REQUESTS = int(os.environ.get("SIMZK_DIFFERENTIAL_REQUESTS", ENOUGH))
CHANGED = int(os.environ.get("SIMZK_DIFFERENTIAL_CHANGED", "5000"))
FIRST_SEED = int(os.environ.get("SIMZK_DIFFERENTIAL_FIRST_SEED", "0"))
ONE, TWO = CLIENTS[0], CLIENTS[1]

UNLIKE = (AssertionError, pytest.fail.Exception)
REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "zookeeper.md"

pytestmark = [pytest.mark.slow, pytest.mark.java]


# Which codes each request must have met, those in multis too, for the traffic to have said anything of it. In a multi,
# Operations behind a failed one get -2.
_CREATE = {0, -5, -8, -101, -102, -108, -110, -114}
_IN_MULTI = {0, -2, -101, -102}
_READ = {0, -101, -102}
MUST_MEET: dict[str, set[int]] = {
    "Create": _CREATE,
    "Create2": _CREATE,
    "CreateContainer": _CREATE,
    "CreateTTL": _CREATE,
    "Delete": {0, -5, -8, -101, -102, -103, -111},
    "DeleteContainer": {0, -8, -101, -103, -111},
    "Exists": {*_READ, -5, -8},
    "GetData": _READ,
    "SetData": {0, -8, -101, -102, -103},
    "GetACL": _READ,
    "SetACL": {0, -101, -102, -103, -114},
    "GetChildren": _READ,
    "GetChildren2": _READ,
    "GetAllChildrenNumber": _READ,
    "GetEphemerals": {0},
    "Sync": {0},
    "Ping": {0},
    "Multi": {0, -5},
    "MultiRead": {0},
    "Reconfig": {-6},
    "CheckWatches": {0, -5, -121},
    "RemoveWatches": {0, -5, -121},
    "AddWatch": {0, -5},
    "SetWatches": {0, -5},
    "SetWatches2": {0, -5},
    "Auth": {0, -115},
    "Sasl": {0},
    "WhoAmI": {0},
    "CreateSession": {0},
    "CloseSession": {0},
    "Unknown": {-6},
    "Create in Multi": {*_IN_MULTI, -108, -110, -114},
    "Create2 in Multi": {*_IN_MULTI, -108, -110, -114},
    "CreateContainer in Multi": {*_IN_MULTI, -108, -110, -114},
    "CreateTTL in Multi": {*_IN_MULTI, -8, -108, -110, -114},
    "Delete in Multi": {*_IN_MULTI, -8, -103, -111},
    "SetData in Multi": {*_IN_MULTI, -8, -103},
    "Check in Multi": {*_IN_MULTI, -8, -103},
    "GetData in MultiRead": _READ,
    "GetChildren in MultiRead": _READ,
    "CreateSession as bytes": {0, -5},
    "Multi as bytes": {0, -5},
    **{f"{name} as bytes": {-5} for name in ("Exists", "GetData", "GetACL", "SetWatches", "AddWatch", "MultiRead")},
}


@pytest.mark.parametrize(
    "show",
    [
        pytest.param(
            show,
            marks=pytest.mark.xfail(strict=True, raises=UNLIKE, reason=known.reason),
            id=f"{known.name}:{show.__name__}",
        )
        for known in DIFFERENCES
        for show in known.shows
    ],
)
def test_a_known_difference_is_no_more(pairs: Pairs, show: Callable[[Pair], None]) -> None:
    pair = pairs.sound()
    try:
        show(pair)
        pair.clean()
    finally:
        pair.failed = True  # so that no other test meets what it has left behind


def test_differences_are_few_and_documented() -> None:
    section = REFERENCE.read_text().partition("\n# 10. ")[2].partition("\n\n")[2]
    documented = re.findall(r"^\d+\. \*\*(.+)\*\*: (.+) \(`(.+)`\)\.$", section, re.MULTILINE)
    assert documented == [(known.name, known.reason, known.source) for known in DIFFERENCES]
    assert len(DIFFERENCES) <= 10


def test_traffic_keeps_apart_what_is_known_to_differ_and_nothing_else() -> None:
    text = Path(traffic.__file__).read_text()
    assert set(re.findall(r"«(.+?)»", text)) <= {known.name for known in DIFFERENCES} | OF_OLD_RELEASES.keys()


def test_differences_of_old_releases_are_documented() -> None:
    documented = REFERENCE.read_text().partition("\n## 0. ")[2].partition("\n---")[0]
    for name, reason in OF_OLD_RELEASES.items():
        assert f"**{name}**: {reason}" in documented


def test_every_request_must_be_met() -> None:
    assert {operation.request.__name__ for operation in OPERATIONS} <= MUST_MEET.keys()


# Two minutes of a quiet machine for the default number; a million takes longer than a test is given else.
@pytest.mark.timeout(7200)
def test_traffic_is_answered_the_same(pair: Pair) -> None:
    begin, seed = pair.requests, FIRST_SEED
    while pair.requests - begin < REQUESTS:
        pair.play(seed)
        seed += 1
    if REQUESTS >= ENOUGH:
        missed = {(name, code) for name, codes in MUST_MEET.items() for code in codes} - pair.met.keys()
        assert not missed
        assert {"new", "taken up", "refused", "closed", "greeted", "dropped", "broken off"} <= pair.connects.keys()
        assert set(traffic.SPECIAL_XIDS) <= pair.met_xids


@pytest.mark.timeout(7200)
def test_frames_changed_as_bytes_are_answered_the_same(pair: Pair) -> None:
    begin, seed = pair.requests, FIRST_SEED
    while pair.requests - begin < CHANGED:
        pair.play_mutations(seed)
        seed += 1


@pytest.mark.timeout(600)
def test_traffic_over_tcp_is_answered_the_same() -> None:
    """A `ZooKeeperServer` as anybody starts it, and a real one that is set as it is."""
    alike = {"reconfigEnabled": "false"}
    with (
        RealZooKeeper(tick_time_ms=TICK_MS, settings=alike, properties=SWEEPS_BY_HAND) as real,
        simzk.ZooKeeperServer(super_digest=SUPER_DIGEST) as ours,
        closing(TcpSimulatedArm(ours)) as arm,
    ):
        pair = Pair(real.port, arm)
        with closing(pair.real):
            pair.play(FIRST_SEED)
        assert pair.requests > 2000
        assert {("Reconfig", -123), ("Multi", 0), ("CreateTTL", 0)} <= pair.met.keys()


def both_connected(pair: Pair) -> None:
    for client in (ONE, TWO):
        pair.connect(client, TIMEOUT_MS)


def test_lists_keep_their_order_as_they_grow_and_shrink(pair: Pair) -> None:
    both_connected(pair)
    pair.send(ONE, [req.Create("/list", b"", OPEN_ACL, 0)])
    names = [f"/list/{prefix}{number}" for number in range(60) for prefix in ("n", "topic-", "é")]
    for begin in range(0, len(names), 20):
        pair.send(ONE, [req.Create(path, b"", OPEN_ACL, 1) for path in names[begin : begin + 20]])
        pair.send(TWO, [req.GetChildren("/list", False)])
        pair.send(ONE, pair.known([req.GetEphemerals(None), req.GetEphemerals("/list/t")]))
    pair.send(ONE, [req.Delete(path, -1) for path in names[::3]])
    # A table does not shrink; what comes back stands last in its bucket.
    pair.send(ONE, [req.GetChildren2("/list", False), *[req.Create(path, b"", OPEN_ACL, 1) for path in names[::6]]])
    pair.send(
        TWO, pair.known([req.GetChildren("/list", False), req.AddWatch("/list", 1), req.GetChildren("/list", True)])
    )
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
    assert {("Create", -125), ("SetData", -125)} <= pair.met.keys()
    pair.clean()


QUOTA_TEXTS = (
    b"", b",", b";;", b"=1", b"==", b"=", b"a", b"a=b", b"foo=1", b"count=", b"count==5", b"count=a", b"count=+",
    b"count= 1", b" count=1", b"count=1;", b"count=1=2", b"count=1_0", b"count=1\n", b"COUNT=1", b"count=1,count=2",
    b"count=-5,bytes=-7", b"bytes=1", b"\xff\xfe", b"countHardLimit", b"countHardLimit=", b",countHardLimit=1", None,
    b"countHardLimit=1,,,", b"countHardLimit=4;byteHardLimit=0", b"byteHardLimit=9223372036854775807",
    b"byteHardLimit=9223372036854775808", "countHardLimit=\u0663".encode(), "countHardLimit=\U0001d7d8".encode(),
)  # fmt: skip


def test_texts_of_quotas_are_read_alike(pair: Pair) -> None:
    both_connected(pair)
    quota = "/zookeeper/quota/q"
    limits, stats = f"{quota}/zookeeper_limits", f"{quota}/zookeeper_stats"
    for path in ("/q", quota, stats, "/q/a", limits):
        pair.send(ONE, [req.Create(path, b"abc", OPEN_ACL, 0)])

    def change_below(text: bytes | None) -> None:
        for asked in (
            req.Create("/q/b", b"123", OPEN_ACL, 0),
            req.SetData("/q/a", text, 7),
            req.SetData("/q/a", b"1234", -1),
            req.Multi((req.Create("/q/c", b"1", OPEN_ACL, 0), req.SetData("/q/a", b"123", -1))),
        ):
            pair.send(ONE, [asked])
        pair.send(ONE, [req.GetData(stats, False)])

    for text in QUOTA_TEXTS:
        pair.send(ONE, [req.SetData(limits, text, -1)])
        change_below(text)
        pair.send(ONE, [req.Delete("/q/b", -1), req.Delete("/q/c", -1), req.SetData(stats, b"count=2,bytes=6", -1)])
    # What else stands in the totals is kept. Both limits, for what is not looked at is deadly: «deadly requests».
    for text in (
        b"bytes=9223372036854775807,zz=1,count=2,a=-4,B=7",
        "\U0001f600=1,\ufb00=2".encode(),
        b"",
        b"=5;bytes=x",
    ):
        pair.send(ONE, [req.SetData(limits, b"countHardLimit=9;byteHardLimit=99", -1), req.SetData(stats, text, -1)])
        change_below(text)
        pair.send(ONE, [req.SetData(stats, b"count=2,bytes=6", -1)])
        pair.send(ONE, [req.Delete("/q/b", -1), req.Delete("/q/c", -1)])
    assert {("Create", -5), ("SetData", -5), ("Create", -125)} <= pair.met.keys()
    pair.clean()


@pytest.mark.timeout(300)
def test_a_deep_chain_is_answered_alike(pair: Pair) -> None:
    both_connected(pair)
    quota = "/zookeeper/quota/q"
    for path in ("/q", quota, f"{quota}/zookeeper_stats", f"{quota}/zookeeper_limits"):
        pair.send(ONE, [req.Create(path, b"countHardLimit=9000" if "limits" in path else b"", OPEN_ACL, 0)])
    pair.send(TWO, [req.AddWatch("/", 1), req.AddWatch("/q", 1)])
    chain = ["/q" + "/n" * depth for depth in range(1, 2501)]
    for begin in range(0, len(chain), 500):
        pair.send(ONE, [req.Create(path, b"1", OPEN_ACL, 0) for path in chain[begin : begin + 500]])
        pair.send(TWO, [req.AddWatch(chain[begin + 250], 1), req.GetData(f"{quota}/zookeeper_stats", False)])
    pair.send(ONE, [req.SetData(chain[-1], b"22", -1), req.Create(f"{chain[-1]}/s-", b"", OPEN_ACL, 3)])
    pair.send(TWO, [req.GetAllChildrenNumber("/q"), req.GetData(f"{quota}/zookeeper_stats", False), req.Ping()])
    pair.send(ONE, [req.Delete(f"{chain[-1]}/s-0000000000", -1)])
    for begin in range(len(chain), 0, -500):
        pair.send(ONE, [req.Delete(path, -1) for path in chain[begin - 500 : begin][::-1]])
        pair.send(TWO, [req.GetData(f"{quota}/zookeeper_stats", False)])
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
        pair.send(ONE, pair.known([req.WhoAmI()]))
    pair.send(ONE, [req.Create("/auth", b"", (ACL(31, Id("auth", "")),), 0), req.GetACL("/auth")])
    pair.send(TWO, [req.GetACL("/auth"), req.GetData("/auth", False)])
    # The set is a table that grows, and turns some round as it does.
    for number in range(120):
        pair.send(TWO, [req.Auth(0, "digest", b"user-%d:x" % (number * number))])
        pair.send(TWO, pair.known([req.WhoAmI()]))
    pair.clean()


BROKEN_FRAMES = (
    pack(">i", -1),
    pack(">i", -(2**31)),
    pack(">i", 2**31 - 1),
    pack(">i", 0x100000),
    pack(">i", 0),
    pack(">ii", 4, 1),
    pack(">i", 7) + bytes(7),
    b"GET / HTTP/1.1\r\n\r\n",
    b"ruok",
)


@pytest.mark.parametrize("data", BROKEN_FRAMES, ids=lambda data: data[:12].hex())
def test_broken_frames_end_a_connection_alike(pair: Pair, data: bytes) -> None:
    both_connected(pair)
    pair.send(ONE, pair.known([req.Create("/held", b"", OPEN_ACL, 1), req.AddWatch("/", 1)]))
    pair.break_off(ONE, data)
    assert not pair.is_open(ONE)
    # Its session is still there.
    pair.send(TWO, [req.Exists("/held", False), req.Create("/other", b"", OPEN_ACL, 0)])
    pair.connect(ONE, TIMEOUT_MS, resume=True)
    pair.send(ONE, pair.known([req.GetEphemerals(None)]))
    pair.clean()


def test_the_longest_request_is_taken_alike(pair: Pair) -> None:
    both_connected(pair)
    pair.send(ONE, [req.Create("/big", b"", OPEN_ACL, 0)])
    around = len(pack(">ii", 0, 0)) + len(BY_REQUEST[req.SetData].codec.encode(req.SetData("/big", b"", -1)))
    longest = req.SetData("/big", bytes(CONFIG.max_buffer_bytes - around), -1)
    pair.send(ONE, [longest, req.Exists("/big", False), longest])
    pair.send(TWO, [req.GetData("/big", True)])
    pair.break_off(ONE, pack(">i", CONFIG.max_buffer_bytes + 1) + pack(">ii", 9, 5))
    pair.send(TWO, [req.GetData("/big", False)])
    pair.clean()


def test_a_silent_session_ends_alike(pair: Pair) -> None:
    pair.connect(ONE, 2 * TICK_MS)
    pair.connect(TWO, TIMEOUT_MS)
    pair.send(ONE, [req.Create(path, b"", OPEN_ACL, 0) for path in ("/gone", "/stays")])
    ephemerals = [f"/gone/{name}" for name in ("x", "y", "topic-1", "lock-")]
    pair.send(ONE, [req.Create(path, b"", OPEN_ACL, 1) for path in ephemerals])
    for client in (ONE, TWO):
        pair.send(client, [req.GetChildren("/gone", True), req.Exists(ephemerals[0], True), req.AddWatch("/", 1)])
        pair.send(client, [req.AddWatch("/gone", 0), req.GetData(ephemerals[1], True), req.GetData("/stays", True)])
    pair.let_expire(ONE, TWO)
    pair.send(TWO, [req.GetChildren2("/gone", False), req.Ping()])
    # Its password does not bring it back.
    pair.connect(ONE, TIMEOUT_MS, resume=True)
    pair.clean()
