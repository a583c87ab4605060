"""Snapshots round trip; one changed byte, and nothing of them is believed."""

from __future__ import annotations

from io import BytesIO
from zlib import adler32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.zookeeper.persistence import (
    DamageKind,
    Restoration,
    SnapshotDigest,
    SnapshotReader,
    TreeDigest,
    encode_snapshot,
)
from simzk.zookeeper.requests import OPEN_ACL
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode
from tests.zookeeper.persistence.strategies import INT32, INT64, UINT64, ZXIDS, contents, trees

SESSIONS = st.dictionaries(INT64, INT32, max_size=4)
SEAL_BYTES, DIGEST_BYTES, ZXID_BYTES = 13, 20, 8


def written(tree: DataTree, sessions: dict[int, int] | None = None, zxid: int = 0, digest: int = 0) -> bytes:
    return b"".join(encode_snapshot(tree, list((sessions or {}).items()), lambda: (zxid, digest)))


def small() -> DataTree:
    tree = DataTree()
    tree.plant("/a", Znode(b"some data", (), 0, 1, 1))
    return tree


@given(trees(), SESSIONS, ZXIDS, UINT64)
def test_round_trip(tree: DataTree, sessions: dict[int, int], zxid: int, digest: int) -> None:
    reader = SnapshotReader(BytesIO(written(tree, sessions, zxid, digest)))
    planted = DataTree.bare()
    for path, node in reader:
        planted.plant(path, node)
    planted.check()
    assert reader.damage is None
    assert contents(planted) == contents(tree)
    assert reader.sessions == sessions
    assert (reader.digest, reader.last_zxid) == (SnapshotDigest(zxid, 2, digest), zxid)


def test_a_new_server_has_the_snapshot_of_a_real_one() -> None:
    """The snapshot of an empty server has 478 bytes on 3.9.5, and an empty digest without transactions (§6)."""
    assert len(written(DataTree())) == 478
    assert TreeDigest(DataTree()).value == 1371985504


def test_cut_anywhere_it_is_damaged() -> None:
    """Any truncation is damage, except at the end of the format of an older version."""
    data = written(small(), {1: 2}, 9, 9)
    older = {len(data) - ZXID_BYTES - SEAL_BYTES, len(data) - ZXID_BYTES - DIGEST_BYTES - 2 * SEAL_BYTES}
    for cut in range(len(data)):
        reader = SnapshotReader(BytesIO(data[:cut]))
        paths = [path for path, _ in reader]
        assert (reader.damage is None) == (cut in older), cut
        assert cut not in older or "/a" in paths


def test_without_a_digest_it_may_still_have_its_last_zxid() -> None:
    """digest.enabled=false: the first seal is followed by zxid and seal; that seal is over the shorter file."""
    whole = written(small(), {}, 9, 9)
    head = whole[: len(whole) - ZXID_BYTES - DIGEST_BYTES - 2 * SEAL_BYTES]
    section = (9).to_bytes(8, "big")
    data = head + section + adler32(head + section).to_bytes(8, "big") + b"\0\0\0\1/"
    reader = SnapshotReader(BytesIO(data))
    assert len(list(reader)) == 5
    assert (reader.damage, reader.digest, reader.last_zxid) == (None, None, 9)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_one_changed_byte_is_noticed(flip: int) -> None:
    data = written(small(), {1: 2}, 9, 9)
    for at in range(len(data)):
        # Version and database id stand in the head, and are in the sum like all else.
        corrupt = bytearray(data)
        corrupt[at] ^= flip
        reader = SnapshotReader(BytesIO(bytes(corrupt)))
        list(reader)
        assert reader.damage is not None, at


@given(st.binary(max_size=100))
def test_any_file(data: bytes) -> None:
    reader = SnapshotReader(BytesIO(data))
    assert list(reader) == []
    assert reader.damage is not None


def test_what_is_no_snapshot_is_foreign() -> None:
    reader = SnapshotReader(BytesIO(b"some text that is long enough for a header"))
    assert reader.damage is not None
    assert reader.damage.kind is DamageKind.FOREIGN
    assert reader.damage.offset == 0


@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_tree_without_parents_is_refused(is_lazy: bool) -> None:
    """Each byte is in order, the tree is not."""
    tree = small()
    tree.plant("/a/b", Znode(b"", (), 0, 1, 1))
    tree.plant("/a/b/c", Znode(b"", (), 0, 1, 1))
    pieces = list(encode_snapshot(tree, [], lambda: (1, 1)))
    names = {piece: piece[4 : 4 + int.from_bytes(piece[:4], "big")] for piece in pieces[3:-4]}
    head = b"".join(piece for piece in pieces[:-3] if names.get(piece) != b"/a")
    data = head + adler32(head).to_bytes(8, "big") + b"\0\0\0\1/"
    whole = SnapshotReader(BytesIO(data))
    assert [path for path, _ in whole][1] == "/a/b"
    assert whole.damage is None
    damage = Restoration(is_lazy=is_lazy).load(SnapshotReader(BytesIO(data)), 1)
    orphan = next(piece for piece, name in names.items() if name == b"/a/b")
    assert damage == (DamageKind.RECORD, data.index(orphan) + len(orphan), None)


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize(
    ("name", "is_refused"),
    [(b"a\0b", False), (b"..", False), (b"", True), (b"\x7f", False), (b"\xff", False), (b".a/", True)],
)
def test_only_a_path_without_a_parent_is_refused(name: bytes, is_refused: bool, is_lazy: bool) -> None:
    """As by a real server (tests/conformance/test_odd_directories.py)."""
    placeholder = "p" * (len(name) or 1)
    tree = DataTree()
    tree.plant(f"/{placeholder}", Znode(b"", (), 0, 1, 1))
    pieces = list(encode_snapshot(tree, [], lambda: (1, 1)))
    head = b"".join(pieces[:-3])
    path = b"/" + placeholder.encode()
    bad = b"/" + name if name else b"//"
    head = head.replace(len(path).to_bytes(4, "big") + path, len(bad).to_bytes(4, "big") + bad)
    data = head + adler32(head).to_bytes(8, "big") + b"\0\0\0\1/"
    damage = Restoration(is_lazy=is_lazy).load(SnapshotReader(BytesIO(data)), 1)
    assert (damage is not None) == is_refused
    assert damage is None or damage.kind is DamageKind.RECORD


@pytest.mark.parametrize("is_lazy", [False, True])
def test_of_a_node_that_stands_twice_the_last_counts(is_lazy: bool) -> None:
    """As where a node is deleted and made again while a fuzzy snapshot is written (§6)."""
    tree = small()
    tree.plant("/a/b", Znode(b"", OPEN_ACL, 0, 1, 1))
    pieces = list(encode_snapshot(tree, [], lambda: (1, 1)))
    again = next(piece for piece in pieces if piece[4:6] == b"/a" and len(piece) < 100)
    head = b"".join(pieces[:-4]) + again.replace(b"some data", b"new bytes") + pieces[-4]
    data = head + adler32(head).to_bytes(8, "big") + b"\0\0\0\1/"
    restoration = Restoration(is_lazy=is_lazy)
    assert restoration.load(SnapshotReader(BytesIO(data)), 1) is None
    assert restoration.data(["/a"]) == [b"new bytes"]
    assert restoration.names("/a") == ["b"]
    restoration.finish().check()
    restoration.tree.check()
