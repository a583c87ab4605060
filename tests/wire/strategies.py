"""Any request that a client can put on the wire, and any body that a reply to it can have."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from simzk.wire.operations import READ_PARTS, WRITE_PARTS
from simzk.zookeeper import requests as req
from simzk.zookeeper.replies import ClientInfo, OperationResult, Stat
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
# What is beyond U+FFFF is written by units, as Java does, and reads as something else (test_jute.py).
TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)
PATHS = st.none() | TEXTS
DATA = st.none() | st.binary(max_size=20)
ACLS = (
    st.none() | st.just(OPEN_ACL) | st.lists(st.builds(ACL, INTS, st.builds(Id, PATHS, PATHS)), max_size=3).map(tuple)
)
NAMES = st.lists(TEXTS, max_size=4)
VECTORS = st.none() | NAMES.map(tuple)
STATS = st.builds(Stat, LONGS, LONGS, LONGS, LONGS, INTS, INTS, INTS, LONGS, INTS, INTS, LONGS)
FLAGS = st.integers(0, 3)
NOT_NULL_ACLS = ACLS.filter(lambda acl: acl is not None)

SINGLE: dict[type, st.SearchStrategy[Any]] = {
    req.Create: st.builds(req.Create, PATHS, DATA, ACLS, INTS),
    req.Create2: st.builds(req.Create2, PATHS, DATA, ACLS, INTS),
    req.CreateContainer: st.builds(req.CreateContainer, PATHS, DATA, ACLS, INTS),
    req.CreateTTL: st.builds(req.CreateTTL, PATHS, DATA, ACLS, INTS, LONGS),
    req.Delete: st.builds(req.Delete, PATHS, INTS),
    req.DeleteContainer: st.builds(req.DeleteContainer, TEXTS),
    req.Exists: st.builds(req.Exists, PATHS, st.booleans()),
    req.GetData: st.builds(req.GetData, PATHS, st.booleans()),
    req.SetData: st.builds(req.SetData, PATHS, DATA, INTS),
    req.GetACL: st.builds(req.GetACL, PATHS),
    req.SetACL: st.builds(req.SetACL, PATHS, ACLS, INTS),
    req.GetChildren: st.builds(req.GetChildren, PATHS, st.booleans()),
    req.GetChildren2: st.builds(req.GetChildren2, PATHS, st.booleans()),
    req.Sync: st.builds(req.Sync, PATHS),
    req.Ping: st.just(req.Ping()),
    req.Auth: st.builds(req.Auth, INTS, PATHS, DATA),
    req.SetWatches: st.builds(req.SetWatches, LONGS, VECTORS, VECTORS, VECTORS),
    req.SetWatches2: st.builds(req.SetWatches2, LONGS, *[VECTORS] * 5),
    req.AddWatch: st.builds(req.AddWatch, PATHS, INTS),
    req.CheckWatches: st.builds(req.CheckWatches, PATHS, INTS),
    req.RemoveWatches: st.builds(req.RemoveWatches, PATHS, INTS),
    req.GetEphemerals: st.builds(req.GetEphemerals, PATHS),
    req.GetAllChildrenNumber: st.builds(req.GetAllChildrenNumber, PATHS),
    req.WhoAmI: st.just(req.WhoAmI()),
    req.Reconfig: st.builds(req.Reconfig, PATHS, PATHS, PATHS, LONGS),
    req.Sasl: st.builds(req.Sasl, DATA),
    req.CreateSession: st.builds(req.CreateSession, INTS),
    req.CloseSession: st.just(req.CloseSession()),
}
IN_MULTI: dict[type, st.SearchStrategy[Any]] = {
    **{kind: st.builds(kind, PATHS, DATA, NOT_NULL_ACLS, FLAGS) for kind in (req.Create, req.Create2)},
    req.CreateContainer: st.builds(req.CreateContainer, PATHS, DATA, NOT_NULL_ACLS, st.integers(0, 4)),
    req.CreateTTL: st.builds(req.CreateTTL, PATHS, DATA, ACLS, st.sampled_from([5, 6]), LONGS),
    req.Delete: SINGLE[req.Delete],
    req.SetData: SINGLE[req.SetData],
    req.Check: st.builds(req.Check, PATHS, INTS),
}
ALL: dict[type, st.SearchStrategy[Any]] = {
    **SINGLE,
    req.Multi: st.builds(req.Multi, st.lists(st.one_of(*IN_MULTI.values()), max_size=4).map(tuple)),
    req.MultiRead: st.builds(
        req.MultiRead, st.lists(SINGLE[req.GetData] | SINGLE[req.GetChildren], max_size=4).map(tuple)
    ),
}
REQUESTS = st.one_of(*ALL.values())

_PATH_AND_STAT = st.tuples(PATHS, STATS)
BODIES: dict[type, st.SearchStrategy[Any]] = {
    **dict.fromkeys(SINGLE, st.none()),
    req.Create: PATHS,
    req.Create2: _PATH_AND_STAT,
    req.CreateContainer: _PATH_AND_STAT,
    req.CreateTTL: _PATH_AND_STAT,
    req.Exists: STATS,
    req.SetData: STATS,
    req.SetACL: STATS,
    req.GetData: st.tuples(DATA, STATS),
    req.Reconfig: st.tuples(DATA, STATS),
    req.GetACL: st.tuples(ACLS, STATS),
    req.GetChildren: NAMES,
    req.GetChildren2: st.tuples(NAMES, STATS),
    req.GetEphemerals: NAMES,
    req.Sync: PATHS,
    req.Sasl: DATA,
    req.GetAllChildrenNumber: INTS,
    req.AddWatch: INTS,
    req.WhoAmI: st.lists(st.builds(ClientInfo, TEXTS, TEXTS), max_size=3),
    req.Check: st.none(),
}


@st.composite
def answered(draw: st.DrawFn) -> tuple[req.Request, Any]:
    """A request and a body that its reply may have."""
    request = draw(REQUESTS)
    if not isinstance(request, req.Multi | req.MultiRead):
        return request, draw(BODIES[type(request)])
    assert set(WRITE_PARTS) <= set(BODIES)
    assert set(READ_PARTS) <= set(BODIES)
    if isinstance(request, req.Multi) and request.operations and draw(st.booleans()):
        failing = draw(st.integers(0, len(request.operations) - 1))
        errors = [0] * failing + [-110] + [-2] * (len(request.operations) - failing - 1)
        return request, [OperationResult(error, None) for error in errors]
    return request, [OperationResult(0, draw(BODIES[type(operation)])) for operation in request.operations]
