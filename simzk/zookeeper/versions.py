"""What changed between ZooKeeper's releases, as far as clients can see it: one table, from 3.4 to 3.9.

Rules of this module:
  - every release that was published (releases.py) has its rules: what differs in their recorded answers
    (tests/conformance/data/versions); a version without its last number is the newest of its line;
  - the rest of the server is written as the newest release is, and asks here where an older one differs.

Source: the recordings; ZooDefs.OpCode, Request.isValid and WatchManager of the releases' sources.
"""

from __future__ import annotations

from functools import cache

from simzk.errors import ConfigError
from simzk.tuples import NamedTuple
from simzk.zookeeper import releases
from simzk.zookeeper import requests as req

NEWEST = "3.9"

SINCE: dict[type, tuple[int, int, int]] = {
    req.Create2: (3, 5, 0),
    req.Reconfig: (3, 5, 0),
    req.CheckWatches: (3, 5, 0),
    req.RemoveWatches: (3, 5, 0),
    req.CreateContainer: (3, 5, 1),
    req.DeleteContainer: (3, 5, 1),
    req.CreateTTL: (3, 5, 3),
    req.MultiRead: (3, 6, 0),
    req.GetEphemerals: (3, 6, 0),
    req.GetAllChildrenNumber: (3, 6, 0),
    req.SetWatches2: (3, 6, 0),
    req.AddWatch: (3, 6, 0),
    req.WhoAmI: (3, 7, 0),
}
"""The first release that knows a request; those not named are older than 3.4."""


class Rules(NamedTuple):
    """How a release differs from the newest.

    Attributes:
        release: its number.
        build: how it introduces itself.
        unknown: the requests that it does not know.
        refuses_unknown: whether it says so and ends the connection (3.4.6): before, nobody is told anything.
        has_config_node: whether /zookeeper/config stands there (3.5.0).
        guards_config_node: whether all but its servers may only read it (3.5.3).
        enables_reconfig: whether a reconfiguration must have been enabled (3.5.3).
        last_flags: the largest flags of a create that mean something: containers and TTL nodes came with 3.5.
        demands_ttls: whether the flags of a TTL node are for `CreateTTL` only (3.5.4): 3.5.3 makes a plain one of them.
        flags_come_first: whether flags are looked at before the parent is (3.5).
        multi_tells_stats: whether a `Create2` in a multi is answered with a Stat, as it is alone (3.7.2 and 3.8.2).
        enforces_quotas: whether there are hard quotas (3.7.0).
        clients_delete_containers: whether a client's `DeleteContainer` finds its path (3.9.0).
        watches_have_modes: whether watches of several modes on one path are kept apart (3.9.0): before, the last one
            takes the place of the others, and those of `AddWatch` are not removed by a type of their own.
        events_have_zxids: whether an event tells the zxid of its cause (3.9.0).
        hides_unreadable: whether `Exists`, and the delivery of events, ask for READ (3.8.4 and 3.9.2).
        hides_secrets: whether `GetACL` asks for READ or ADMIN, and shows digests to ADMIN only (3.4.14 and 3.5.5).
        resumes_by_kind: whether `SetWatches` tells what a watch was for (3.4.6): before, one for data is told that a
            younger znode was created, and one for existence that an older znode has changed.
    """

    release: tuple[int, int, int]
    build: str
    unknown: frozenset[type]
    refuses_unknown: bool
    has_config_node: bool
    guards_config_node: bool
    enables_reconfig: bool
    last_flags: int
    demands_ttls: bool
    flags_come_first: bool
    multi_tells_stats: bool
    enforces_quotas: bool
    clients_delete_containers: bool
    watches_have_modes: bool
    events_have_zxids: bool
    hides_unreadable: bool
    hides_secrets: bool
    resumes_by_kind: bool


@cache
def rules_of(version: str) -> Rules:
    """The rules of a version, as "3.4" or "3.9.1".

    Raises:
        ConfigError: a version that is not simulated.

    >>> rules_of("3.4").release
    (3, 4, 14)
    >>> rules_of("3.9.1").hides_unreadable, rules_of("3.9").hides_unreadable
    (False, True)
    """
    name = releases.by_name().get(version)
    if name is None:
        raise ConfigError(
            f"there is no ZooKeeper {version!r} here", where="version", right=f"one of {releases.listed()}"
        )
    release = releases.number_of(name)
    return Rules(
        release=release,
        build=releases.BUILDS[name],
        unknown=frozenset(request for request, first in SINCE.items() if release < first),
        refuses_unknown=release >= (3, 4, 6),
        has_config_node=release >= (3, 5, 0),
        guards_config_node=release >= (3, 5, 3),
        enables_reconfig=release >= (3, 5, 3),
        last_flags=6 if release >= (3, 5, 3) else 4 if release >= (3, 5, 1) else 3,
        demands_ttls=release >= (3, 5, 4),
        flags_come_first=release >= (3, 5, 0),
        multi_tells_stats=release >= (3, 8, 2) or (3, 7, 2) <= release < (3, 8, 0),
        enforces_quotas=release >= (3, 7, 0),
        clients_delete_containers=release >= (3, 9, 0),
        watches_have_modes=release >= (3, 9, 0),
        events_have_zxids=release >= (3, 9, 0),
        hides_unreadable=release >= (3, 9, 2) or (3, 8, 4) <= release < (3, 9, 0),
        hides_secrets=release >= (3, 5, 5) or (3, 4, 14) <= release < (3, 5, 0),
        resumes_by_kind=release >= (3, 4, 6),
    )
