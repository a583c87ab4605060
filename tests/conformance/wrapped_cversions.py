"""Sequential creates below parents whose cversion is about to wrap, one by one, pipelined and in multis.

    python -m tests.conformance.wrapped_cversions FOLDER   # record it, from the jars of the releases in FOLDER

The real servers force each transaction to their disk, as by default: requests of a pipeline are then prepared while
earlier ones wait for it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import ConnectResponse, Reply, Stat
from tests.conformance.odd_directories import OPEN, Directory, Entry, Node, Snapshot, set_data
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.releases import fetched
from tests.serve.tcp_client import TcpClient

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).parent / "data" / "wrapped_cversions.json"
RELEASES = ("3.4.14", "3.5.9", "3.9.5")
LAST_BUT_ONE = (1 << 31) - 2
_NEW = ConnectResponse(0, 0, 0, bytes(16), False)


def directory() -> Directory:
    """Return a data directory with four parents."""
    first = Node(b"", czxid=0, mzxid=0, ctime=0, mtime=0, cversion=4, pzxid=3)
    others = [Node(path, czxid=0, mzxid=0, ctime=0, mtime=0, pzxid=0) for path in (b"/zookeeper", b"/zookeeper/quota")]
    parents = [
        Node(path, b"", 2, czxid=2, mzxid=2, cversion=LAST_BUT_ONE, pzxid=2) for path in (b"/a", b"/b", b"/c", b"/d")
    ]
    return Directory([Snapshot(6, [], [(2, OPEN)], [first, *others, *parents])], [(7, [Entry(7, 5, set_data(b"/a"))])])


def _next(parent: str) -> req.Create:
    return req.Create(f"{parent}/s", b"", req.OPEN_ACL, 2)


PIPELINES: list[list[req.Request]] = [
    [_next("/a")],
    [_next("/a")],
    [_next("/a")],
    [_next("/a")],
    [req.GetChildren2("/a", False)],
    [*[_next("/b")] * 5, req.GetChildren2("/b", False), _next("/b"), _next("/b")],
    [_next("/b")],
    [req.Multi((_next("/c"),) * 4)],
    [req.GetChildren2("/c", False)],
    [req.Multi((_next("/c"),) * 2)],
    [
        _next("/d"),
        req.Multi((_next("/d"),) * 2),
        _next("/d"),
        req.Multi((req.SetData("/d", b"", -1), _next("/d"))),
        req.Create("/d/x", b"", req.OPEN_ACL, 0),
        req.Delete("/d/x", -1),
        _next("/d"),
    ],
    [_next("/d"), req.GetChildren2("/d", False)],
]


def tell(port: int) -> Iterator[str]:
    """Tell what a client is answered to each pipeline, without times."""
    with TcpClient(port) as client:
        client.connect(20_000, _NEW)
        for requests in PIPELINES:
            client.send(*requests)
            for request in requests:
                reply = client.next()
                assert isinstance(reply, Reply)
                if isinstance(request, req.GetChildren2):
                    assert isinstance(reply.body, tuple)
                    names, stat = reply.body
                    yield f"{sorted(names)}, cversion {stat.cversion}, pzxid {stat.pzxid}"
                elif isinstance(request, req.Multi):
                    assert isinstance(reply.body, list)
                    results = [(one.error, one.body) for one in reply.body if not isinstance(one.body, Stat)]
                    yield f"{reply.zxid}: {results}"
                else:
                    yield f"{reply.zxid}: {reply.error} {reply.body}"


def record(folder: Path) -> None:
    """Ask real servers."""
    found = {}
    for release in RELEASES:
        with tempfile.TemporaryDirectory() as kept:
            directory().write(Path(kept) / "data")
            jars, properties = fetched(release, folder), {"zookeeper.forceSync": "yes"}
            with RealZooKeeper(boot_from=Path(kept) / "data", jars_from=jars, properties=properties) as server:
                found[release] = list(tell(server.port))
    RECORDED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
