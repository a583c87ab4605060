"""Random transactions and trees, and the content of a tree for comparison."""

from __future__ import annotations

from hypothesis import strategies as st

from simzk.zookeeper import transactions as txns
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import CONTAINER_OWNER, MAX_TTL_MS, Znode, ttl_owner

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
UINT64 = st.integers(0, (1 << 64) - 1)
ZXIDS = st.integers(1, (1 << 62))
TIMES_MS = st.integers(0, 1 << 45)

NAMES = st.sampled_from(["a", "b", "c", "Aa", "BB", "ünï", "with space", "s-0000000001"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))
DATA = st.none() | st.binary(max_size=40)
ACLS = st.just(OPEN_ACL) | st.lists(
    st.builds(
        ACL, st.integers(0, 31), st.sampled_from([Id("world", "anyone"), Id("ip", "10.0.0.1"), Id("digest", "é:x")])
    ),
    min_size=1,
    max_size=3,
).map(tuple)

_STEPS = st.one_of(
    st.builds(txns.CreateTxn, PATHS, DATA, ACLS, st.booleans(), INT32),
    st.builds(txns.Create2Txn, PATHS, DATA, ACLS, st.booleans(), INT32),
    st.builds(txns.CreateContainerTxn, PATHS, DATA, ACLS, INT32),
    st.builds(txns.CreateTTLTxn, PATHS, DATA, ACLS, INT32, INT64),
    st.builds(txns.DeleteTxn, PATHS),
    st.builds(txns.SetDataTxn, PATHS, DATA, INT32),
    st.builds(txns.ErrorTxn, INT32),
)
RECORDS = st.one_of(
    _STEPS,
    st.builds(txns.DeleteContainerTxn, PATHS),
    st.builds(txns.SetACLTxn, PATHS, ACLS, INT32),
    st.builds(txns.CreateSessionTxn, INT32),
    st.builds(txns.CloseSessionTxn, st.lists(PATHS, max_size=3).map(tuple)),
    st.builds(txns.MultiTxn, st.lists(_STEPS | st.builds(txns.CheckTxn, PATHS, INT32), max_size=4).map(tuple)),
)
TRANSACTIONS = st.builds(txns.Transaction, INT64, INT32, ZXIDS, TIMES_MS, RECORDS)
DIGESTS = st.none() | UINT64

OWNERS = st.sampled_from([0, 0, 0, 7, 0x100000000000001, CONTAINER_OWNER, ttl_owner(1), ttl_owner(MAX_TTL_MS)])


@st.composite
def znodes(draw: st.DrawFn) -> Znode:
    node = Znode(draw(DATA), draw(ACLS), draw(OWNERS), draw(ZXIDS), draw(TIMES_MS))
    node.mzxid, node.pzxid, node.mtime_ms = draw(ZXIDS), draw(ZXIDS), draw(TIMES_MS)
    node.version, node.cversion, node.aversion = draw(INT32), draw(INT32), draw(INT32)
    return node


@st.composite
def trees(draw: st.DrawFn) -> DataTree:
    """A tree of any nodes; only ephemerals must not have children."""
    tree = DataTree()
    for path in sorted(draw(st.sets(PATHS, max_size=12))):
        names = path[1:].split("/")
        for depth in range(1, len(names) + 1):
            at = "/" + "/".join(names[:depth])
            if at not in tree:
                node = draw(znodes())
                if depth < len(names) and node.ephemeral_owner > 0:
                    node.ephemeral_owner = 0
                tree.plant(at, node)
            present = tree.get(at)
            assert present is not None
            if present.ephemeral_owner > 0:
                break
    tree.check()
    return tree


def contents(tree: DataTree) -> dict[str, tuple[object, ...]]:
    """Return the content of a tree as values."""
    return {
        path: (
            node.data,
            node.acl,
            node.czxid,
            node.mzxid,
            node.pzxid,
            node.ctime_ms,
            node.mtime_ms,
            node.version,
            node.cversion,
            node.aversion,
            node.ephemeral_owner,
        )
        for path, node in tree.walk()
    }
