"""Table of operations against the server: requests that take a zxid, and the permission of each request."""

from __future__ import annotations

import pytest

from simzk.zookeeper import requests as req
from simzk.zookeeper.operations import OPERATIONS, Kind, Operation
from simzk.zookeeper.replies import Code
from simzk.zookeeper.requests import ACL, OPEN_ACL, Id
from tests.zookeeper.story import Client, Story

BITS = (1, 2, 4, 8, 16)
EVERY_BIT = 31

ON_PATH: dict[type, req.Request] = {
    req.Create: req.Create("/p/n/new", b"", OPEN_ACL, 0),
    req.Create2: req.Create2("/p/n/new", b"", OPEN_ACL, 0),
    req.CreateContainer: req.CreateContainer("/p/n/new", b"", OPEN_ACL, 4),
    req.CreateTTL: req.CreateTTL("/p/n/new", b"", OPEN_ACL, 5, 1),
    req.Delete: req.Delete("/p/n/child", -1),
    req.Exists: req.Exists("/p/n", False),
    req.GetData: req.GetData("/p/n", False),
    req.SetData: req.SetData("/p/n", b"", -1),
    req.GetACL: req.GetACL("/p/n"),
    req.SetACL: req.SetACL("/p/n", OPEN_ACL, -1),
    req.GetChildren: req.GetChildren("/p/n", False),
    req.GetChildren2: req.GetChildren2("/p/n", False),
    req.GetAllChildrenNumber: req.GetAllChildrenNumber("/p/n"),
    req.Sync: req.Sync("/p/n"),
    req.AddWatch: req.AddWatch("/p/n", 0),
    req.DeleteContainer: req.DeleteContainer("/p/n/child"),
    req.GetEphemerals: req.GetEphemerals("/p/n"),
    req.SetWatches: req.SetWatches(0, ("/p/n",), (), ()),
    req.SetWatches2: req.SetWatches2(0, ("/p/n",), (), (), (), ()),
    req.Ping: req.Ping(),
    req.WhoAmI: req.WhoAmI(),
    req.Sasl: req.Sasl(b""),
    req.Auth: req.Auth(0, "ip", b""),
    req.CloseSession: req.CloseSession(),
}
# Theirs is what their operations need; watches that are not there; a standalone server refuses it before it looks;
# answered by no reply; a part of a multi, asked below.
NOT_ASKED = {req.Multi, req.MultiRead, req.CheckWatches, req.RemoveWatches, req.Reconfig, req.CreateSession, req.Check}


def stranger(perms: int) -> tuple[Story, Client]:
    """A client that has these permissions on /p/n, and a story to watch."""
    story = Story()
    owner = story.client()
    for path in ("/p", "/p/n", "/p/n/child"):
        owner.create(path)
    owner.body(req.SetACL("/p/n", (ACL(perms, Id("world", "anyone")),), -1))
    return story, story.client()


ASKED = [operation for operation in OPERATIONS if operation.request not in NOT_ASKED]


def test_all_are_asked_but_those_that_say_why_not() -> None:
    assert {operation.request for operation in ASKED} == set(ON_PATH)


@pytest.mark.parametrize("operation", ASKED, ids=lambda operation: operation.request.__name__)
def test_the_permission_suffices_and_its_lack_refuses(operation: Operation) -> None:
    needed = operation.permission
    for bit in BITS:
        if bit & needed:
            assert stranger(bit)[1].error(ON_PATH[operation.request]) == 0
    without = stranger(EVERY_BIT & ~needed)[1].error(ON_PATH[operation.request])
    assert without == (Code.NO_AUTH if needed else 0)


@pytest.mark.parametrize("operation", ASKED, ids=lambda operation: operation.request.__name__)
def test_writes_take_a_zxid_and_others_none(operation: Operation) -> None:
    for perms in (0, EVERY_BIT):
        story, client = stranger(perms)
        before = story.server.zxid
        client.ask(ON_PATH[operation.request])
        assert story.server.zxid - before == operation.is_write


def test_what_is_a_part_of_a_multi_is_asked_for_its_permission_there() -> None:
    (part,) = (operation for operation in OPERATIONS if operation.kind is Kind.PART)
    for bit in BITS:
        (result,) = stranger(bit)[1].body(req.Multi((part.request("/p/n", -1),)))
        assert result.error == (0 if bit & part.permission else Code.NO_AUTH)
