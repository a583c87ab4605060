"""Data directories whose logs delete a parent before its children: what real servers answer, and what they write.

    python -m tests.conformance.orphan_story FOLDER   # record it, from the jars of the releases in FOLDER

Rules of this module:
  - a story is a data directory and a session that a client has with the server that booted from it; it is told in
    lines, in which times of the day are `NOW`;
  - a recording has the lines of each story by release, and the bytes of the log that the server wrote meanwhile, whose
    entries have the digests of its tree.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
import tempfile
import time
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.zookeeper import requests as req
from simzk.zookeeper.persistence import SnapshotReader, TransactionLogReader
from simzk.zookeeper.releases import Rules
from simzk.zookeeper.replies import ConnectResponse
from simzk.zookeeper.sessions import password_of
from tests.conformance.odd_directories import OPEN, Directory, Entry, Node, Snapshot, create, set_data, text
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.conformance.releases import fetched
from tests.serve.tcp_client import TcpClient, word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RECORDED = Path(__file__).parent / "data" / "orphans.json.xz"
RELEASES = ("3.4.14", "3.5.4-beta", "3.5.9", "3.6.4", "3.8.4", "3.9.5")
OWNER, LASTING = 0x100000000000007, 0x100000000000009
TICK_MS = 1000
OWNER_MS, LASTING_MS = 15_000, 30_000
EXPIRED_MS = 20_000
LAST_ZXID = 11
NEW = ConnectResponse(0, 0, 0, bytes(16), False)
"""A new session; 3.4 has no answer to a null password."""
_NOW = re.compile(r"(?<=time_ms=)(?!0\b|1700000000000|1700000001000)\d+")
_COUNTS = ("zk_approximate_data_size", "zk_ephemerals_count", "zk_znode_count")
PATHS = ("/p", "/p/a", "/p/a/x", "/p/a/y", "/p/a/z", "/p/e", "/p/n", "/f")


def directory(*log: bytes | tuple[int, bytes]) -> Directory:
    """Return a snapshot of /p with children and ephemerals, and a log that begins with the deletion of /p."""
    nodes = [
        Node(b"", czxid=0, mzxid=0, ctime=0, mtime=0, cversion=2, pzxid=3),
        Node(b"/zookeeper", czxid=0, mzxid=0, ctime=0, mtime=0, pzxid=0),
        Node(b"/zookeeper/quota", czxid=0, mzxid=0, ctime=0, mtime=0, pzxid=0),
        Node(b"/p", b"parent", 2, czxid=2, mzxid=2, cversion=3, pzxid=6),
        Node(b"/p/a", b"aa", 2, czxid=3, mzxid=3, cversion=2, pzxid=5),
        Node(b"/p/a/x", b"x", 2, czxid=4, mzxid=4, pzxid=4),
        Node(b"/p/a/y", None, 2, czxid=5, mzxid=5, pzxid=5),
        Node(b"/p/e", b"e", 2, czxid=6, mzxid=6, owner=OWNER, pzxid=6),
        Node(b"/f", b"f", 2, czxid=6, mzxid=6, owner=OWNER, pzxid=6),
    ]
    first = Entry(7, 2, text(b"/p"), session=LASTING)
    rest = [Entry(8 + place, *entry, session=LASTING) for place, entry in enumerate(log) if isinstance(entry, tuple)]
    return Directory(
        [Snapshot(6, [(OWNER, OWNER_MS), (LASTING, LASTING_MS)], [(2, OPEN)], nodes)], [(7, [first, *rest])]
    )


CHANGED = directory(
    (5, set_data(b"/p/a/x", b"later")),
    (1, create(b"/p/a/z", b"z", cversion=3)),
    (1, create(b"/p/n", b"n", cversion=4)),
    (2, text(b"/p/a/y")),
)
CREATED_AGAIN = directory(
    (1, create(b"/p", b"new", cversion=3)),
    (1, create(b"/p/a", b"again", cversion=1)),
    (1, create(b"/p/a/k", b"k", cversion=1)),
    (2, text(b"/p/e")),
)


def _create(path: str, flags: int = 0) -> req.Create:
    return req.Create(path, b"made", req.OPEN_ACL, flags)


_LOOKS = [
    look
    for path in PATHS
    for look in (req.Exists(path, False), req.GetData(path, False), req.GetChildren2(path, False))
]
_COUNTED = [req.GetAllChildrenNumber(path) for path in ("/", "/p", "/p/a")]
REQUESTS: list[req.Request] = [
    *_LOOKS,
    *_COUNTED,
    req.GetACL("/p/a/x"),
    req.SetData("/p/a/x", b"new", -1),
    req.SetACL("/p/a/x", req.OPEN_ACL, -1),
    *map(_create, ("/p/a", "/p/a/x", "/p/a/w", "/p/o")),
    _create("/p/a/s-", 2),
    *(req.Delete(path, -1) for path in ("/p/a", "/p/e", "/p/a/w")),
    req.Multi((req.Check("/p/a", 0), req.SetData("/p/a", b"multi", -1))),
    _create("/p"),
    req.GetChildren2("/p", False),
    *_COUNTED,
    *map(_create, ("/p/a", "/p/e", "/p/b")),
    req.GetChildren2("/p", False),
    req.Delete("/p/a", -1),
    # A deletion that the parent does not list counts as one that it does.
    req.Multi((req.Delete("/p/e", -1), req.Delete("/p", -1))),
    req.Exists("/p/b", False),
    _create("/p"),
    *(req.Delete(path, -1) for path in ("/p/a/x", "/p/a/z", "/p/a/s-0000000004", "/p/a", "/p/b", "/p")),
    *_LOOKS,
    req.GetAllChildrenNumber("/"),
]


def _shown(value: object) -> str:
    return _NOW.sub("NOW", repr(value))


def _asked(client: TcpClient, requests: list[req.Request], rules: Rules) -> Iterator[str]:
    for request in requests:
        if request.__class__ not in rules.unknown:
            yield f"{request} -> {_shown(client.ask(request))}"


def _counts(port: int) -> Iterator[str]:
    lines = word(port, b"mntr").splitlines()
    yield ", ".join(sorted(line.replace("\t", " ") for line in lines if line.split("\t")[0] in _COUNTS))
    listed = re.findall(r"^\t(/.*)$|^(0x[0-9a-f]+):$", word(port, b"dump"), re.MULTILINE)
    yield f"ephemerals of {[owner or path for path, owner in listed]}"


def _resumed(port: int) -> tuple[TcpClient, str]:
    client = TcpClient(port)
    kept = ConnectResponse(0, 0, OWNER, password_of(OWNER), False)
    return client, f"resumed: {client.connect(OWNER_MS, kept).session_id:#x}"


def requested(port: int, rules: Rules, wait: Callable[[int], None]) -> Iterator[str]:
    """Tell what a client is answered."""
    yield from _counts(port)
    with TcpClient(port) as client:
        client.connect(LASTING_MS, NEW)
        yield from _asked(client, REQUESTS, rules)
    yield from _counts(port)


def _ended(port: int, rules: Rules) -> Iterator[str]:
    client, told = _resumed(port)
    with client:
        yield told
    with TcpClient(port) as client:
        client.connect(LASTING_MS, NEW)
        again: list[req.Request] = [_create("/p"), _create("/p/e"), req.Delete("/p/e", -1), _create("/p/e")]
        looks: list[req.Request] = [req.Exists(path, False) for path in ("/p/e", "/f")]
        yield from _asked(client, [*looks, *again, *looks], rules)
    yield from _counts(port)


def expired(port: int, rules: Rules, wait: Callable[[int], None]) -> Iterator[str]:
    """Tell of the expiry of a session whose ephemeral has no parent."""
    wait(EXPIRED_MS)
    yield from _counts(port)
    yield from _ended(port, rules)


def closed(port: int, rules: Rules, wait: Callable[[int], None]) -> Iterator[str]:
    """Tell of the end of a session whose ephemeral has no parent, by its client."""
    client, told = _resumed(port)
    with client:
        yield told
        client.send(req.CloseSession())
        yield f"closed: {_shown(client.next())}, {client.next()}"
    yield from _ended(port, rules)


def looked_at(port: int, rules: Rules, wait: Callable[[int], None]) -> Iterator[str]:
    """Tell what is there."""
    yield from _counts(port)
    with TcpClient(port) as client:
        client.connect(LASTING_MS, NEW)
        yield from _asked(client, [*_LOOKS, *_COUNTED], rules)


STORIES = {
    "requested": (CHANGED, requested),
    "expired": (CHANGED, expired),
    "closed": (CHANGED, closed),
    "created again": (CREATED_AGAIN, looked_at),
}


def written(folder: Path) -> Iterator[str]:
    """Tell what a server wrote: its first snapshot, and its log."""
    for snapshot in (folder / "version-2").glob(f"snapshot.{LAST_ZXID:x}"):  # 3.4 writes none as it starts
        with snapshot.open("rb") as stream:
            reader = SnapshotReader(stream)
            for path, node in sorted(reader, key=lambda found: found[0]):
                if path != "/zookeeper/config":
                    yield f"in the snapshot: {path} {node.data!r} {_shown(node.stat())}"
        assert reader.damage is None
        sections = reader.digest is not None, reader.last_zxid
        yield f"in the snapshot: has a digest, last zxid: {sections}"
    for transaction, digest in TransactionLogReader(BytesIO(log_of(folder))):
        yield f"{transaction.zxid} {transaction.record}, digest: {digest is not None}"


def log_of(folder: Path) -> bytes:
    """Return the log that a server began, without the zeros at its end."""
    return (folder / "version-2" / f"log.{LAST_ZXID + 1:x}").read_bytes().rstrip(b"\0") + bytes(8)


def record(folder: Path) -> None:
    """Let real servers tell all stories."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for release in RELEASES:
        jars, found[release] = fetched(release, folder), {}
        for name, (place, tell) in STORIES.items():
            with tempfile.TemporaryDirectory() as kept:
                place.write(Path(kept) / "data")
                with RealZooKeeper(tick_time_ms=TICK_MS, boot_from=Path(kept) / "data", jars_from=jars) as server:
                    told = list(tell(server.port, Rules(release), lambda ms: time.sleep(ms / 1000)))
                    server.end_gently()
                    told += written(server.data_directory)
                    log = b64encode(log_of(server.data_directory)).decode()
            found[release][name] = {"told": told, "log": log}
    RECORDED.write_bytes(lzma.compress(json.dumps(found, indent=0).encode()))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
