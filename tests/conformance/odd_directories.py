"""Data directories that no sound server writes: of a small sound one, with one thing wrong, or several at random.

Rules of this module:
  - a directory is a list of snapshots and logs, whose records are written here field by field, so that nothing in
    simzk's own writers keeps a field from being wrong; frames, seals and checksums are right;
  - a change is a name and a function that changes a sound `Directory`.
"""

from __future__ import annotations

import random
from copy import deepcopy
from dataclasses import dataclass, field
from struct import pack
from typing import TYPE_CHECKING
from zlib import adler32

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# A table of changes by name: each is a lambda, whose value nobody reads.
# mypy: disable-error-code="func-returns-value"

SESSION = 0x100000000000007
OTHER_SESSION = 0x100000000000009
TTL = -(1 << 56)
CONTAINER = -(1 << 63)
TIME_MS = 1_700_000_000_000

Text = bytes | None
Acl = list[tuple[int, Text, Text]] | None
OPEN: Acl = [(31, b"world", b"anyone")]
READ: Acl = [(1, b"world", b"anyone")]
DIGEST: Acl = [(31, b"digest", b"bob:x"), (1, b"world", b"anyone")]


def text(value: Text) -> bytes:
    return pack(">i", -1) if value is None else pack(">i", len(value)) + value


def acls(acl: Acl) -> bytes:
    if acl is None:
        return pack(">i", -1)
    return pack(">i", len(acl)) + b"".join(
        pack(">i", perms) + text(scheme) + text(identity) for perms, scheme, identity in acl
    )


@dataclass
class Node:
    """Znode of a snapshot."""

    path: Text
    data: Text = b""
    acl_id: int = -1
    czxid: int = 1
    mzxid: int = 1
    ctime: int = TIME_MS
    mtime: int = TIME_MS
    version: int = 0
    cversion: int = 0
    aversion: int = 0
    owner: int = 0
    pzxid: int = 1

    def encode(self) -> bytes:
        numbers = (self.acl_id, self.czxid, self.mzxid, self.ctime, self.mtime)
        versions = (self.version, self.cversion, self.aversion)
        return text(self.path) + text(self.data) + pack(">qqqqqiiiqq", *numbers, *versions, self.owner, self.pzxid)


@dataclass
class Snapshot:
    """Snapshot with its zxid, without the sections of later releases."""

    zxid: int
    sessions: list[tuple[int, int]]
    acls: list[tuple[int, Acl]]
    nodes: list[Node]
    header: bytes = field(default_factory=lambda: pack(">4siq", b"ZKSN", 2, -1))

    def encode(self) -> bytes:
        parts = [self.header, pack(">i", len(self.sessions)), *(pack(">qi", *session) for session in self.sessions)]
        parts += [pack(">i", len(self.acls)), *(pack(">q", number) + acls(acl) for number, acl in self.acls)]
        parts += [*(node.encode() for node in self.nodes), text(b"/")]
        body = b"".join(parts)
        return body + pack(">qi1s", adler32(body), 1, b"/")


@dataclass
class Entry:
    """Entry of a log: its header and the bytes of its record."""

    zxid: int
    kind: int
    record: bytes
    session: int = SESSION
    time: int = TIME_MS + 1000

    def encode(self) -> bytes:
        data = pack(">qiqqi", self.session, 1, self.zxid, self.time, self.kind) + self.record
        return pack(">qi", adler32(data), len(data)) + data + b"B"


@dataclass
class Directory:
    """Snapshots and logs by the zxids in their names."""

    snapshots: list[Snapshot]
    logs: list[tuple[int, list[Entry]]]

    @property
    def snapshot(self) -> Snapshot:
        return self.snapshots[-1]

    @property
    def log(self) -> list[Entry]:
        return self.logs[-1][1]

    def node(self, path: bytes) -> Node:
        return next(node for node in self.snapshot.nodes if node.path == path)

    def write(self, place: Path) -> None:
        folder = place / "version-2"
        folder.mkdir(parents=True)
        for snapshot in self.snapshots:
            (folder / f"snapshot.{snapshot.zxid:x}").write_bytes(snapshot.encode())
        for zxid, entries in self.logs:
            body = b"".join(entry.encode() for entry in entries)
            (folder / f"log.{zxid:x}").write_bytes(pack(">4siq", b"ZKLG", 2, 0) + body + bytes(64))


# Records of logs


def create(path: Text, data: Text = b"x", acl: Acl = OPEN, *, ephemeral: bool = False, cversion: int = 1) -> bytes:
    return text(path) + text(data) + acls(acl) + pack(">?i", ephemeral, cversion)


def create_container(path: Text, acl: Acl = OPEN) -> bytes:
    return text(path) + text(b"") + acls(acl) + pack(">i", 1)


def create_ttl(path: Text, ttl: int, acl: Acl = OPEN) -> bytes:
    return create_container(path, acl) + pack(">q", ttl)


def set_data(path: Text, data: Text = b"new", version: int = 1) -> bytes:
    return text(path) + text(data) + pack(">i", version)


def set_acl(path: Text, acl: Acl, version: int = 1) -> bytes:
    return text(path) + acls(acl) + pack(">i", version)


def multi(*steps: tuple[int, bytes]) -> bytes:
    return pack(">i", len(steps)) + b"".join(pack(">i", kind) + text(record) for kind, record in steps)


def close_session(*paths: Text) -> bytes:
    return pack(">i", len(paths)) + b"".join(map(text, paths))


def sound() -> Directory:
    """Return a directory that any server boots from."""
    nodes = [
        Node(b"", czxid=0, mzxid=0, ctime=0, mtime=0, cversion=5, pzxid=6),
        Node(b"/zookeeper", czxid=0, mzxid=0, ctime=0, mtime=0, pzxid=0),
        Node(b"/zookeeper/config", acl_id=1, czxid=0, mzxid=0, ctime=0, mtime=0, aversion=-1, pzxid=0),
        Node(b"/zookeeper/quota", czxid=0, mzxid=0, ctime=0, mtime=0, pzxid=0),
        Node(b"/a", b"1", 2, czxid=2, mzxid=2, cversion=1, pzxid=3),
        Node(b"/a/b", None, 3, czxid=3, mzxid=3, pzxid=3),
        Node(b"/c", b"", 2, czxid=4, mzxid=4, owner=CONTAINER, pzxid=4),
        Node(b"/e", b"e", 2, czxid=5, mzxid=5, owner=SESSION, pzxid=5),
        Node(b"/t", b"t", 2, czxid=6, mzxid=6, owner=TTL | 60_000, pzxid=6),
    ]
    known = [(1, READ), (2, OPEN), (3, DIGEST)]
    log = [
        Entry(7, 1, create(b"/n", cversion=6)),
        Entry(8, 5, set_data(b"/a")),
        Entry(9, 15, create(b"/n/e", ephemeral=True)),
        Entry(10, 2, text(b"/a/b")),
        Entry(11, 7, set_acl(b"/n", DIGEST)),
        Entry(12, 14, multi((1, create(b"/m", cversion=7)), (5, set_data(b"/m", b"2")))),
    ]
    return Directory([Snapshot(6, [(SESSION, 30_000)], known, nodes)], [(7, log)])


ODD_PATHS: dict[str, bytes] = {
    "a dot": b"/a/.",
    "two dots": b"/..",
    "a trailing slash": b"/a/",
    "two slashes": b"/a//b",
    "only slashes": b"//",
    "U+FFFD": "/\ufffd".encode(),
    "an emoji": "/\U0001f600".encode(),
    "an emoji by surrogates": b"/\xed\xa0\xbd\xed\xb8\x80",
    "a part of a surrogate": b"/\xed\xa0",
    "malformed UTF-8": b"/\xffx",
    "a control character": b"/\x01\x7f",
    "a NUL": b"/x\0y",
    "private use": "/\ue000".encode(),
    "spaces": b"/ ",
}


def _append(directory: Directory, kind: int, record: bytes, **header: int) -> None:
    directory.log.append(Entry(directory.log[-1].zxid + 1, kind, record, **header))


def _renumber(directory: Directory, *zxids: int) -> None:
    for entry, zxid in zip(directory.log[-len(zxids) :], zxids, strict=True):
        entry.zxid = zxid


def _add(directory: Directory, node: Node) -> None:
    directory.snapshot.nodes.append(node)


CHANGES: dict[str, Callable[[Directory], object]] = {
    "nothing": lambda directory: None,
    # zxids
    "gap in a log": lambda directory: _renumber(directory, 13),
    "gap behind the snapshot": lambda directory: _renumber(directory, 9, 10, 11, 12, 13, 14),
    "gap to a new epoch": lambda directory: _renumber(directory, (1 << 32) + 1),
    "gap in a new epoch": lambda directory: _renumber(directory, (1 << 32) + 1, (1 << 32) + 3),
    "zxid of an older epoch": lambda directory: _renumber(directory, (1 << 32) + 1, 12),
    "zxid twice": lambda directory: _renumber(directory, 11),
    "zxids backwards": lambda directory: _renumber(directory, 12, 11),
    "zxid 0": lambda directory: _renumber(directory, 0),
    "negative zxid": lambda directory: _renumber(directory, -5),
    "gap between logs": lambda directory: directory.logs.append((15, [Entry(15, 2, text(b"/n/e"))])),
    "overlapping logs": lambda directory: directory.logs.append(
        (11, [*deepcopy(directory.log[4:]), Entry(13, 2, text(b"/n/e"))])
    ),
    "log of another zxid": lambda directory: directory.logs.append((14, [Entry(13, 2, text(b"/n/e"))])),
    # ACLs
    "null ACL in a snapshot": lambda directory: directory.snapshot.acls.append((4, None)),
    "null ACL beside an older snapshot": lambda directory: (
        directory.snapshots.insert(0, deepcopy(directory.snapshot)),
        setattr(directory.snapshots[0], "zxid", 5),
        directory.snapshot.acls.append((4, None)),
    ),
    "empty ACL in a snapshot": lambda directory: (
        directory.snapshot.acls.append((4, [])),
        setattr(directory.node(b"/a"), "acl_id", 4),
    ),
    "null id in a snapshot's ACL": lambda directory: directory.snapshot.acls.append((4, [(31, b"world", None)])),
    "null scheme in a snapshot's ACL": lambda directory: directory.snapshot.acls.append((4, [(31, None, b"x")])),
    "unknown scheme in a snapshot's ACL": lambda directory: (
        directory.snapshot.acls.append((4, [(31, b"what", b"ever")])),
        setattr(directory.node(b"/a"), "acl_id", 4),
    ),
    "ACL twice": lambda directory: directory.snapshot.acls.append((2, DIGEST)),
    "the same ACL with two ids": lambda directory: (
        directory.snapshot.acls.append((4, DIGEST)),
        setattr(directory.node(b"/a"), "acl_id", 4),
    ),
    "missing ACL id": lambda directory: setattr(directory.node(b"/a"), "acl_id", 99),
    "missing ACL id, untouched": lambda directory: setattr(directory.node(b"/t"), "acl_id", 99),
    "missing ACL id, set by the log": lambda directory: setattr(directory.node(b"/a/b"), "acl_id", 99),
    "missing ACL id of the root": lambda directory: setattr(directory.snapshot.nodes[0], "acl_id", 99),
    "missing ACL id, deleted": lambda directory: (
        setattr(directory.node(b"/a/b"), "acl_id", 99),
        directory.log.pop(3),
        _renumber(directory, 10, 11),
        _append(directory, 2, text(b"/a/b")),
    ),
    "missing ACL id of a parent": lambda directory: (
        setattr(directory.node(b"/a"), "acl_id", 99),
        _append(directory, 1, create(b"/a/z", cversion=2)),
    ),
    "ACL id -1 of its own": lambda directory: directory.snapshot.acls.append((-1, READ)),
    "ACL id 0": lambda directory: (
        directory.snapshot.acls.append((0, READ)),
        setattr(directory.node(b"/a"), "acl_id", 0),
    ),
    "null ACL in a log": lambda directory: _append(directory, 1, create(b"/z", acl=None, cversion=9)),
    "empty ACL in a log": lambda directory: _append(directory, 1, create(b"/z", acl=[], cversion=9)),
    "null id in a log's ACL": lambda directory: _append(directory, 1, create(b"/z", acl=[(31, b"world", None)])),
    "null scheme in a log's ACL": lambda directory: _append(directory, 1, create(b"/z", acl=[(31, None, b"x")])),
    "null ACL in a setACL": lambda directory: _append(directory, 7, set_acl(b"/a", None)),
    "empty ACL in a setACL": lambda directory: _append(directory, 7, set_acl(b"/a", [])),
    "null id in a setACL": lambda directory: _append(directory, 7, set_acl(b"/a", [(31, b"world", None)])),
    "null id in a multi": lambda directory: _append(
        directory, 14, multi((1, create(b"/z", acl=[(31, b"world", None)])))
    ),
    "null id in a failed multi": lambda directory: _append(
        directory, 14, multi((1, create(b"/z", acl=[(31, b"world", None)])), (-1, pack(">i", -101)))
    ),
    "null id in an ACL for a missing parent": lambda directory: _append(
        directory, 1, create(b"/none/z", acl=[(31, b"world", None)])
    ),
    "null id in a setACL of nothing": lambda directory: _append(
        directory, 7, set_acl(b"/none", [(31, b"world", None)])
    ),
    # Owners
    "unknown extended owner": lambda directory: setattr(directory.node(b"/e"), "owner", TTL | (1 << 40)),
    "unknown extended owner of the root": lambda directory: setattr(
        directory.snapshot.nodes[0], "owner", TTL | (1 << 40)
    ),
    "TTL of 0": lambda directory: setattr(directory.node(b"/t"), "owner", TTL),
    "largest TTL": lambda directory: setattr(directory.node(b"/t"), "owner", TTL | ((1 << 40) - 1)),
    "owner -1": lambda directory: setattr(directory.node(b"/e"), "owner", -1),
    "owner -2": lambda directory: setattr(directory.node(b"/e"), "owner", -2),
    "owner without a session": lambda directory: setattr(directory.node(b"/e"), "owner", OTHER_SESSION),
    "owner of a parent": lambda directory: setattr(directory.node(b"/a"), "owner", SESSION),
    "owner of a parent without a session": lambda directory: setattr(directory.node(b"/a"), "owner", OTHER_SESSION),
    "owner of the root": lambda directory: setattr(directory.snapshot.nodes[0], "owner", SESSION),
    "TTL with a child": lambda directory: _add(directory, Node(b"/t/x")),
    "negative TTL in a log": lambda directory: _append(directory, 21, create_ttl(b"/z", -1)),
    "TTL of 0 in a log": lambda directory: _append(directory, 21, create_ttl(b"/z", 0)),
    "TTL too large in a log": lambda directory: _append(directory, 21, create_ttl(b"/z", 1 << 40)),
    "largest TTL in a log": lambda directory: _append(directory, 21, create_ttl(b"/z", (1 << 40) - 1)),
    "container in a log": lambda directory: _append(directory, 19, create_container(b"/z")),
    "ephemeral of session 0 in a log": lambda directory: _append(
        directory, 1, create(b"/z", ephemeral=True), session=0
    ),
    "ephemeral of an unknown session in a log": lambda directory: _append(
        directory, 1, create(b"/z", ephemeral=True), session=OTHER_SESSION
    ),
    "ephemeral of a TTL's number in a log": lambda directory: _append(
        directory, 1, create(b"/z", ephemeral=True), session=TTL | 5
    ),
    "ephemeral of an unknown number in a log": lambda directory: _append(
        directory, 1, create(b"/z", ephemeral=True), session=TTL | (1 << 40)
    ),
    "ephemeral of a container's number in a log": lambda directory: _append(
        directory, 1, create(b"/z", ephemeral=True), session=CONTAINER
    ),
    # Paths and nodes
    **{
        f"{name} in a snapshot": lambda directory, path=path: _add(directory, Node(path, b"odd", 2))  # type: ignore[misc]
        for name, path in ODD_PATHS.items()
    },
    **{
        f"{name} in a log": lambda directory, path=path: (  # type: ignore[misc]
            _append(directory, 1, create(path, cversion=9)),
            _append(directory, 5, set_data(path)),
        )
        for name, path in ODD_PATHS.items()
    },
    "emojis below each other": lambda directory: (
        _add(directory, Node("/\U0001f600".encode(), b"", 2)),
        _add(directory, Node("/\U0001f600/\U0001f601".encode(), b"", 2)),
    ),
    "null path in a snapshot": lambda directory: _add(directory, Node(None)),
    "path without a slash in a snapshot": lambda directory: _add(directory, Node(b"x", b"odd")),
    "empty path at the end of a snapshot": lambda directory: _add(directory, Node(b"", b"odd")),
    "path without a parent in a snapshot": lambda directory: _add(directory, Node(b"/none/x")),
    "path twice in a snapshot": lambda directory: _add(directory, Node(b"/a/b", b"again", 2)),
    "parent twice in a snapshot": lambda directory: _add(directory, Node(b"/a", b"again", 2)),
    "no root": lambda directory: directory.snapshot.nodes.pop(0),
    "no nodes": lambda directory: directory.snapshot.nodes.clear(),
    "no /zookeeper": lambda directory: directory.snapshot.nodes.__delitem__(slice(1, 4)),
    "no /zookeeper/config": lambda directory: directory.snapshot.nodes.pop(2),
    "negative versions": lambda directory: (
        setattr(directory.node(b"/a"), "cversion", -(1 << 31)),
        setattr(directory.node(b"/a"), "version", -7),
    ),
    "times and zxids out of order": lambda directory: (
        setattr(directory.node(b"/a"), "mzxid", 1 << 40),
        setattr(directory.node(b"/a"), "ctime", -1),
    ),
    **{
        f"{name} in a log": lambda directory, kind=kind, record=record: _append(directory, kind, record)  # type: ignore[misc]
        for name, kind, record in (
            ("empty path in a create", 1, create(b"")),
            ("path without a slash in a create", 1, create(b"x")),
            ("null path in a create", 1, create(None)),
            ("root in a create", 1, create(b"/")),
            ("no parent in a create", 1, create(b"/none/x")),
            ("null data in a create", 1, create(b"/z", None)),
            ("create under an ephemeral", 1, create(b"/e/x")),
            ("create of what is there", 1, create(b"/a", b"other", DIGEST, cversion=40)),
            ("create2 of what is there", 15, create(b"/a", b"other", DIGEST, cversion=40)),
            ("container where something is", 19, create_container(b"/a", DIGEST)),
            ("create with cversion -1", 1, create(b"/z", cversion=-1)),
            ("create with a low cversion", 1, create(b"/z", cversion=-50)),
            ("old create", 1, create(b"/z")[:-4]),
            ("old create2", 15, create(b"/z")[:-4]),
            ("cut create", 1, create(b"/z")[:-6]),
            ("cut delete", 2, text(b"/a")[:-1]),
            ("empty path in a delete", 2, text(b"")),
            ("path without a slash in a delete", 2, text(b"x")),
            ("null path in a delete", 2, text(None)),
            ("root in a delete", 2, text(b"/")),
            ("delete of a parent", 2, text(b"/n")),
            ("delete of nothing", 2, text(b"/none")),
            ("delete without a parent", 2, text(b"/none/x")),
            ("delete of /zookeeper", 2, text(b"/zookeeper")),
            ("deleteContainer", 20, text(b"/c")),
            ("empty path in a setData", 5, set_data(b"")),
            ("root in a setData", 5, set_data(b"/")),
            ("null path in a setData", 5, set_data(None)),
            ("setData of nothing", 5, set_data(b"/none")),
            ("null data in a setData", 5, set_data(b"/a", None, -9)),
            ("empty path in a setACL", 7, set_acl(b"", DIGEST)),
            ("null path in a setACL", 7, set_acl(None, DIGEST)),
            ("reconfig", 16, set_data(b"/zookeeper/config", b"server.1=x")),
            ("check", 13, text(b"/a") + pack(">i", 1)),
            ("unknown type", 99, b""),
            ("type 0", 0, b""),
            ("error", -1, pack(">i", -101)),
            ("empty multi", 14, multi()),
            ("unknown type in a multi", 14, multi((99, b""))),
            ("setACL in a multi", 14, multi((7, set_acl(b"/a", DIGEST)))),
            ("steps of a failed multi", 14, multi((1, create(b"/z")), (-1, pack(">i", -101)), (5, set_data(b"/a")))),
            ("unknown type in a failed multi", 14, multi((99, b""), (-1, pack(">i", -101)))),
            ("cut step of a multi", 14, multi((1, create(b"/z")[:-6]))),
            ("step of a multi that fails", 14, multi((2, text(b"/none")), (5, set_data(b"/a", b"multi")))),
            ("empty path in a multi", 14, multi((1, create(b"")))),
            ("null data of a step", 14, pack(">iii", 1, 1, -1)),
            ("negative count of a multi", 14, pack(">i", -1)),
            ("createSession", -10, pack(">i", 4000)),
            ("negative timeout", -10, pack(">i", -4000)),
            ("closeSession", -11, close_session(b"/n/e", b"/e")),
            ("closeSession without paths", -11, b""),
            ("closeSession with null paths", -11, pack(">i", -1)),
            ("closeSession of others' nodes", -11, close_session(b"/n", b"/none")),
            ("closeSession of a parent", -11, close_session(b"/n", b"/n/e")),
            ("null path in a closeSession", -11, close_session(None)),
            ("empty path in a closeSession", -11, close_session(b"")),
            ("path without a slash in a closeSession", -11, close_session(b"x")),
            ("junk behind a record", 2, text(b"/none") + b"junk"),
        )
    },
    # Sessions and heads
    "session twice": lambda directory: directory.snapshot.sessions.append((SESSION, 4000)),
    "session 0": lambda directory: directory.snapshot.sessions.append((0, 4000)),
    "negative timeout of a session": lambda directory: directory.snapshot.sessions.append((OTHER_SESSION, -1)),
    "another magic of a snapshot": lambda directory: setattr(
        directory.snapshot, "header", pack(">4siq", b"ZKSX", 2, -1)
    ),
    "another version of a snapshot": lambda directory: setattr(
        directory.snapshot, "header", pack(">4siq", b"ZKSN", 9, 7)
    ),
}


REFUSED = frozenset(
    {
        "gap in a log",
        "gap in a new epoch",
        "zxids backwards",
        "gap between logs",
        "null ACL in a snapshot",
        "null ACL beside an older snapshot",
        "null id in a snapshot's ACL",
        "null scheme in a snapshot's ACL",
        "missing ACL id",
        "missing ACL id, set by the log",
        "missing ACL id of the root",
        "missing ACL id, deleted",
        "missing ACL id of a parent",
        "null id in a log's ACL",
        "null scheme in a log's ACL",
        "null id in a setACL",
        "null id in a multi",
        "unknown extended owner",
        "unknown extended owner of the root",
        "owner -1",
        "owner -2",
        "negative TTL in a log",
        "TTL of 0 in a log",
        "TTL too large in a log",
        "ephemeral of an unknown number in a log",
        "two slashes in a snapshot",
        "only slashes in a snapshot",
        "null path in a snapshot",
        "path without a parent in a snapshot",
        "no root",
        "empty path in a create in a log",
        "path without a slash in a create in a log",
        "null path in a create in a log",
        "empty path in a delete in a log",
        "path without a slash in a delete in a log",
        "null path in a delete in a log",
        "null path in a setData in a log",
        "null path in a setACL in a log",
        "check in a log",
        "unknown type in a log",
        "type 0 in a log",
        "empty path in a multi in a log",
        "null data of a step in a log",
        "negative count of a multi in a log",
        "null path in a closeSession in a log",
        "empty path in a closeSession in a log",
        "path without a slash in a closeSession in a log",
        "another magic of a snapshot",
    }
)
"""Changes with which a real 3.9.5 does not boot, with extended types."""

NOT_REPRODUCED = frozenset(
    {
        # Parts of the first tree that the real server can lose.
        "root in a delete in a log",
        "no nodes",
        # The real server takes each of these for the root, or for its child.
        "path without a slash in a snapshot",
        "empty path at the end of a snapshot",
        "only slashes in a log",
    }
)
"""Changes after which simzk boots to another tree than the real server, or does not boot."""

NOT_REPRODUCED_WITHOUT_TYPES = NOT_REPRODUCED | {"unknown extended owner of the root"}
"""The same without extended types."""


def changed(*names: str) -> Directory:
    """Return a sound directory with some changes."""
    directory = sound()
    for name in names:
        CHANGES[name](directory)
    return directory


def drawn(seed: int) -> tuple[str, ...]:
    """Return the names of two or three changes that fit each other."""
    draw = random.Random(seed)
    # Those that number the entries of the log anew come first, and once.
    numbering = [name for name in CHANGES if "zxid" in name or "gap" in name or name == "missing ACL id, deleted"]
    apart = {*numbering, *NOT_REPRODUCED, "no root"}
    others = [name for name in CHANGES if name not in apart]
    names = draw.sample(others, draw.choice((2, 3)))
    return (draw.choice(numbering), *names) if draw.random() < 0.2 else tuple(names)
