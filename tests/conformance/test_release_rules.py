"""Rules of single releases that no recorded story shows: what real servers answered, and simzk as these releases.

Real servers are asked again where a folder for their jars is named:

    SIMZK_ZOOKEEPER_RELEASES=~/.cache/simzk-zookeeper pytest tests/conformance/test_release_rules.py
"""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.zookeeper import requests as req
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.releases import by_name
from simzk.zookeeper.replies import ConnectResponse, Reply
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.conformance.arms import TcpArm
from tests.conformance.releases import real_release
from tests.conformance.simulated_arms import SimulatedArm
from tests.conformance.test_versions import RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conformance.arms import Arm

ONE, TWO = 1, 2
PATIENCE_S = 5.0

PATHS = ("/a/", "//", "/a/./b", "x", "/none", "/a\0")
BAD_ACL = (ACL(31, Id("none such", "x")),)


def connected(arm: Arm, client: int = ONE, *, read_only: bool | None = True) -> bool | None:
    """Connect, and return the last byte of the response."""
    arm.connect(client, req.ConnectRequest(0, 0, 30_000, 0, bytes(16), read_only))
    response = arm.streams[client][-1]
    assert isinstance(response, ConnectResponse)
    return response.read_only


def answers(arm: Arm, requests: list[req.Request]) -> Iterator[int | list[int]]:
    """Yield the code of each reply, and for a multi the codes of its results."""
    connected(arm)
    for xid, asked in enumerate(requests):
        begin = len(arm.streams[ONE])
        arm.send(ONE, [(xid, asked)])
        (reply,) = arm.streams[ONE][begin:]
        assert isinstance(reply, Reply)
        yield [result.error for result in reply.body] if isinstance(reply.body, list) else reply.error


def paths_of_writes(arm: Arm) -> list[int | list[int]]:
    writes: tuple[Callable[[str | None], req.Request], ...] = (
        lambda path: req.SetData(path, b"", -1),
        lambda path: req.SetACL(path, OPEN_ACL, -1),
        lambda path: req.Multi((req.Check(path, -1),)),
    )
    asked = [write(path) for write in writes for path in PATHS]
    asked += [req.SetData(None, b"", -1), req.SetACL(None, OPEN_ACL, -1), req.SetACL(None, BAD_ACL, -1)]
    return list(answers(arm, [*asked, req.SetACL("", OPEN_ACL, -1), req.Multi((req.Check("", -1),))]))


NOT_VALIDATED = [*[-101] * 12, *[[-101]] * 6, -5, -5, -114, 0, [0]]
VALIDATED = [*[-8, -8, -8, -8, -101, -8] * 2, *[[-8], [-8], [-8], [-8], [-101], [-8]], -8, -8, -8, -8, [-8]]


def read_only_byte(arm: Arm) -> list[bool | None]:
    return [connected(arm, ONE, read_only=None), connected(arm, TWO, read_only=False)]


def checked_watches(arm: Arm) -> list[int | list[int]]:
    checks = [req.CheckWatches(path, 3) for path in ("x", "x/y", "", "a/", "/none", "/", None)]
    watches = [req.AddWatch(path, 0) for path in ("", "x", "x/y")]
    return list(answers(arm, [*checks, *watches, *checks, req.AddWatch("/zookeeper", 1), *checks]))


CHECKED_BY_ALL = [
    *(-5, -121, -121, -121, -121, -121, -5),
    *(0, 0, 0),
    *(-5, 0, -121, -121, -121, -121, -5),
    0,
    *(-5, 0, -121, -5, -121, -121, -5),
]
CHECKED = [*[-121] * 7, 0, 0, 0, 0, 0, 0, *[-121] * 4, 0, 0, 0, 0, *[-121] * 4]


def times_to_live(arm: Arm) -> list[int | list[int]]:
    created = [req.CreateTTL(f"/{flags}", b"", OPEN_ACL, flags, 1000) for flags in (0, 1, 4, 5, 6, 7)]
    return list(answers(arm, [*created, req.Create("/plain", b"", OPEN_ACL, 5)]))


Story = tuple["Callable[[Arm], object]", object]
STORIES: dict[tuple[str, str], Story] = {
    **{(release, "paths of writes"): (paths_of_writes, NOT_VALIDATED) for release in ("3.4.6", "3.5.0")},
    **{(release, "paths of writes"): (paths_of_writes, VALIDATED) for release in ("3.4.7", "3.5.3", "3.9.5")},
    **{(release, "read-only byte"): (read_only_byte, [False, False]) for release in ("3.9.0", "3.9.1", "3.9.2")},
    **{(release, "read-only byte"): (read_only_byte, [None, False]) for release in ("3.4.6", "3.8.6", "3.9.3")},
    **{(release, "checked watches"): (checked_watches, CHECKED_BY_ALL) for release in ("3.6.0", "3.7.2", "3.8.6")},
    ("3.9.0", "checked watches"): (checked_watches, CHECKED),
    ("3.5.3", "times to live"): (times_to_live, [0, 0, 0, 0, 0, -8, 0]),
    ("3.5.4", "times to live"): (times_to_live, [-8, -8, -8, 0, 0, -8, -8]),
}


@pytest.mark.parametrize(("release", "name"), STORIES, ids=map("-".join, STORIES))
def test_a_release_answers_as_the_real_one_did(release: str, name: str) -> None:
    tell, expected = STORIES[release, name]
    assert tell(SimulatedArm(ServerConfig(version=release, extended_types=True), zxid=0)) == expected


@pytest.mark.by_hand(RELEASES)
@pytest.mark.parametrize(("release", "name"), STORIES, ids=map("-".join, STORIES))
def test_a_real_release_answers_as_it_did(release: str, name: str) -> None:
    tell, expected = STORIES[release, name]
    folder = Path(os.environ[RELEASES]).expanduser().resolve()
    with real_release(by_name()[release], folder) as server, closing(TcpArm(server.port, PATIENCE_S)) as arm:
        assert tell(arm) == expected
