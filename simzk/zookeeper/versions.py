"""What changed between ZooKeeper's releases, as far as clients can see it: one table, from 3.4 to 3.9.

Rules of this module:
  - a release is one whose real answers are recorded (tests/conformance/data/versions), and the rules hold what differs
    in them; a version without its last number is the newest of these;
  - the rest of the server is written as the newest release is, and asks here where an older one differs.

Source: the recordings; ZooDefs.OpCode, Request.isValid and WatchManager of the releases' sources.
"""

from __future__ import annotations

from functools import cache

from simzk.errors import ConfigError
from simzk.tuples import NamedTuple
from simzk.zookeeper import requests as req

RELEASES = {
    (3, 4, 14): "3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT",
    (3, 5, 10): "3.5.10-a32c7183d42325b03e44a06aade6a0f16955bf13, built on 05/29/2022 16:59 GMT",
    (3, 6, 4): "3.6.4--d65253dcf68e9097c6e95a126463fd5fdeb4521c, built on 12/18/2022 18:10 GMT",
    (3, 7, 2): "3.7.2-c06c7c8a3e95779d4becb1938b378596e3b420d0, built on 2023-10-06 09:51 UTC",
    (3, 8, 3): "3.8.3-6ad6d364c7c0bcf0de452d54ebefa3058098ab56, built on 2023-10-05 10:34 UTC",
    (3, 8, 4): "3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC",
    (3, 9, 0): "3.9.0-1674a5e97f43bc38e9bf56b04f83a7ae34d68249, built on 2023-07-19 09:09 UTC",
    (3, 9, 1): "3.9.1-40487256d9b9f274484798758699e49c26d91cda, built on 2023-10-02 15:06 UTC",
    (3, 9, 5): "3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC",
}
"""Releases, and how each introduces itself in srvr, mntr and envi."""

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
        unknown: the requests that it refuses as unimplemented.
        has_config_node: whether /zookeeper/config stands there (3.5.0).
        last_flags: the largest flags of a create that mean something: containers and TTL nodes came with 3.5.
        flags_come_first: whether flags are looked at before the parent is (3.5).
        multi_tells_stats: whether a `Create2` in a multi is answered with a Stat, as it is alone (3.7.0).
        enforces_quotas: whether there are hard quotas (3.7.0).
        clients_delete_containers: whether a client's `DeleteContainer` finds its path (3.9.0).
        watches_have_modes: whether watches of several modes on one path are kept apart (3.9.0): before, the last one
            takes the place of the others, and those of `AddWatch` are not removed by a type of their own.
        events_have_zxids: whether an event tells the zxid of its cause (3.9.0).
        hides_unreadable: whether `Exists`, and the delivery of events, ask for READ (3.8.4 and 3.9.2).
    """

    release: tuple[int, int, int]
    build: str
    unknown: frozenset[type]
    has_config_node: bool
    last_flags: int
    flags_come_first: bool
    multi_tells_stats: bool
    enforces_quotas: bool
    clients_delete_containers: bool
    watches_have_modes: bool
    events_have_zxids: bool
    hides_unreadable: bool


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
    named = {".".join(map(str, release[:size])): release for release in sorted(RELEASES) for size in (2, 3)}
    if version not in named:
        raise ConfigError(
            f"there is no ZooKeeper {version!r} here", where="version", right=f"one of {', '.join(named)}"
        )
    release = named[version]
    return Rules(
        release=release,
        build=RELEASES[release],
        unknown=frozenset(request for request, first in SINCE.items() if release < first),
        has_config_node=release >= (3, 5, 0),
        last_flags=6 if release >= (3, 5, 3) else 3,
        flags_come_first=release >= (3, 5, 0),
        multi_tells_stats=release >= (3, 7, 0),
        enforces_quotas=release >= (3, 7, 0),
        clients_delete_containers=release >= (3, 9, 0),
        watches_have_modes=release >= (3, 9, 0),
        events_have_zxids=release >= (3, 9, 0),
        hides_unreadable=release >= (3, 9, 2) or (3, 8, 4) <= release < (3, 9, 0),
    )
