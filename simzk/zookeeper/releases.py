"""Releases of ZooKeeper, 3.4 to 3.9: their names, their version texts, and what clients can see of their differences.

Rules of this module:
  - the texts in srvr, stat, mntr and envi are those of the releases' jars: `python -m tests.conformance.releases
    builds` downloads the jars and prints the table;
  - a release has its published name and its number; two numbers are the newest release of a line;
  - `Rules` are the differences in recorded answers (tests/conformance/data/versions). The rest of the server behaves as
    the newest release and reads `Rules` where an older one differs.

Source: the recordings; ZooDefs.OpCode, Request.isValid and WatchManager of the releases.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from simzk.errors import ConfigError
from simzk.zookeeper import requests as req

BUILDS = {
    "3.4.0": "3.4.0-1202560, built on 11/16/2011 07:18 GMT",
    "3.4.1": "3.4.1-1212694, built on 12/10/2011 00:05 GMT",
    "3.4.2": "3.4.2-1221870, built on 12/21/2011 20:46 GMT",
    "3.4.3": "3.4.3-1240972, built on 02/06/2012 10:48 GMT",
    "3.4.4": "3.4.4-1386507, built on 09/17/2012 08:33 GMT",
    "3.4.5": "3.4.5-1392090, built on 09/30/2012 17:52 GMT",
    "3.4.6": "3.4.6-1569965, built on 02/20/2014 09:09 GMT",
    "3.4.7": "3.4.7-1713338, built on 11/09/2015 04:32 GMT",
    "3.4.8": "3.4.8--1, built on 02/06/2016 03:18 GMT",
    "3.4.9": "3.4.9-1757313, built on 08/23/2016 06:50 GMT",
    "3.4.10": "3.4.10-39d3a4f269333c922ed3db283be479f9deacaa0f, built on 03/23/2017 10:13 GMT",
    "3.4.11": "3.4.11-37e277162d567b55a07d1755f0b31c32e93c01a0, built on 11/01/2017 18:06 GMT",
    "3.4.12": "3.4.12--1, built on 03/27/2018 04:49 GMT",
    "3.4.13": "3.4.13-2d71af4dbe22557fda74f9a9b4309b15a7487f03, built on 06/29/2018 00:39 GMT",
    "3.4.14": "3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT",
    "3.5.0-alpha": "3.5.0-alpha-1615249, built on 08/01/2014 22:13 GMT",
    "3.5.1-alpha": "3.5.1-alpha-1693007, built on 07/28/2015 07:19 GMT",
    "3.5.2-alpha": "3.5.2-alpha-1750793, built on 06/30/2016 13:15 GMT",
    "3.5.3-beta": "3.5.3-beta-8ce24f9e675cbefffb8f21a47e06b42864475a60, built on 04/03/2017 16:19 GMT",
    "3.5.4-beta": "3.5.4-beta-7f51e5b68cf2f80176ff944a9ebd2abbc65e7327, built on 05/11/2018 16:27 GMT",
    "3.5.5": "3.5.5-390fe37ea45dee01bf87dc1c042b5e3dcce88653, built on 05/03/2019 12:07 GMT",
    "3.5.6": "3.5.6-c11b7e26bc554b8523dc929761dd28808913f091, built on 10/08/2019 20:18 GMT",
    "3.5.7": "3.5.7-f0fdd52973d373ffd9c86b81d99842dc2c7f660e, built on 02/10/2020 11:30 GMT",
    "3.5.8": "3.5.8-f439ca583e70862c3068a1f2a7d4d068eec33315, built on 05/04/2020 15:53 GMT",
    "3.5.9": "3.5.9-83df9301aa5c2a5d284a9940177808c01bc35cef, built on 01/06/2021 20:03 GMT",
    "3.5.10": "3.5.10-a32c7183d42325b03e44a06aade6a0f16955bf13, built on 05/29/2022 16:59 GMT",
    "3.6.0": "3.6.0--b4c89dc7f6083829e18fae6e446907ae0b1f22d7, built on 02/25/2020 14:38 GMT",
    "3.6.1": "3.6.1--104dcb3e3fb464b30c5186d229e00af9f332524b, built on 04/21/2020 15:01 GMT",
    "3.6.2": "3.6.2--803c7f1a12f85978cb049af5e4ef23bd8b688715, built on 09/04/2020 12:44 GMT",
    "3.6.3": "3.6.3--6401e4ad2087061bc6b9f80dec2d69f2e3c8660a, built on 04/08/2021 16:35 GMT",
    "3.6.4": "3.6.4--d65253dcf68e9097c6e95a126463fd5fdeb4521c, built on 12/18/2022 18:10 GMT",
    "3.7.0": "3.7.0-e3704b390a6697bfdf4b0bef79e3da7a4f6bac4b, built on 2021-03-17 09:46 UTC",
    "3.7.1": "3.7.1-a2fb57c55f8e59cdd76c34b357ad5181df1258d5, built on 2022-05-07 06:45 UTC",
    "3.7.2": "3.7.2-c06c7c8a3e95779d4becb1938b378596e3b420d0, built on 2023-10-06 09:51 UTC",
    "3.8.0": "3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f, built on 2022-02-25 08:49 UTC",
    "3.8.1": "3.8.1-74db005175a4ec545697012f9069cb9dcc8cdda7, built on 2023-01-25 16:31 UTC",
    "3.8.2": "3.8.2-139d619b58292d7734b4fc83a0f44be4e7b0c986, built on 2023-07-05 19:24 UTC",
    "3.8.3": "3.8.3-6ad6d364c7c0bcf0de452d54ebefa3058098ab56, built on 2023-10-05 10:34 UTC",
    "3.8.4": "3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC",
    "3.8.5": "3.8.5-19f1842d4b6ee1f82cc8b05284959b26c6ae507d, built on 2025-09-03 21:35 UTC",
    "3.8.6": "3.8.6-6df26081269769c160c8c3a24929c60c91cd19c3, built on 2026-01-28 20:28 UTC",
    "3.9.0": "3.9.0-1674a5e97f43bc38e9bf56b04f83a7ae34d68249, built on 2023-07-19 09:09 UTC",
    "3.9.1": "3.9.1-40487256d9b9f274484798758699e49c26d91cda, built on 2023-10-02 15:06 UTC",
    "3.9.2": "3.9.2-e454e8c7283100c7caec6dcae2bc82aaecb63023, built on 2024-02-12 20:59 UTC",
    "3.9.3": "3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC",
    "3.9.4": "3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19 19:53 UTC",
    "3.9.5": "3.9.5-293c895a8d966a3ecb92872be4a1daf87d725da2, built on 2026-02-11 20:18 UTC",
}
"""Output of `org.apache.zookeeper.Version --full` by release, oldest first."""


def number_of(release: str) -> tuple[int, int, int]:
    """Return the version number of a release.

    >>> number_of("3.5.4-beta")
    (3, 5, 4)
    """
    major, minor, last = map(int, release.partition("-")[0].split("."))
    return major, minor, last


def by_name() -> dict[str, str]:
    """Return the release by each of its names: its own, its number, and two numbers for the newest of a line.

    >>> names = by_name()
    >>> names["3.5"], names["3.5.4"], names["3.5.4-beta"]
    ('3.5.10', '3.5.4-beta', '3.5.4-beta')
    """
    assert list(BUILDS) == sorted(BUILDS, key=number_of), "two numbers are the newest release of their line"
    names: dict[str, str] = {}
    for release in BUILDS:
        number = number_of(release)
        names |= {".".join(map(str, number[:size])): release for size in (2, 3)}
        names[release] = release
    return names


def listed() -> str:
    """Return all release names as one line of text.

    >>> listed().partition(", 3.6")[0]
    '3.4, 3.4.0 to 3.4.14, 3.5, 3.5.0-alpha to 3.5.10'
    """
    lines: dict[str, list[str]] = {}
    for release in BUILDS:
        lines.setdefault(release.rpartition(".")[0], []).append(release)
    return ", ".join(f"{line}, {members[0]} to {members[-1]}" for line, members in lines.items())


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
"""First release with a request; requests that are not listed are older than 3.4."""


class Rules:
    """Differences of a release, which is named as in `BUILDS`, from the newest one.

    Attributes:
        release: version number.
        build: text that the server shows as its version.
        unknown: requests that the release does not have.
        refuses_unknown: whether an unknown request is answered and closes the connection (3.4.6); before, it is
            ignored.
        has_config_node: whether /zookeeper/config exists (3.5.0).
        guards_config_node: whether clients can only read it (3.5.3).
        enables_reconfig: whether reconfiguration has to be enabled (3.5.3).
        last_flags: largest valid flags of a create; containers and TTL nodes came with 3.5.
        demands_ttls: whether the flags of TTL nodes are valid only in `CreateTTL`, and demanded there (3.5.4). In 3.5.3
            a create with them makes a plain node, and a `CreateTTL` with any flags a TTL node.
        flags_come_first: whether flags are checked before the parent (3.5).
        multi_keeps_opcodes: whether creates in a multi keep their opcodes, so that the result of a `Create2` has a
            Stat; invalid flags and null ACLs there make the multi malformed (3.7.2 and 3.8.2). Before, the flags alone
            decide what a create makes, and flags and ACLs are checked when it is processed.
        enforces_quotas: whether there are hard quotas (3.7.0).
        clients_delete_containers: whether `DeleteContainer` of a client decodes its path (3.9.0).
        watches_have_modes: whether watches of several modes on one path are separate (3.9.0); before, the last mode
            replaces the others, and `RemoveWatches` has no types for watches of `AddWatch`.
        events_have_zxids: whether an event has the zxid of its cause (3.9.0).
        counts_data: whether the reported size of all data is counted with each write (3.6.0); before, it is computed.
        hides_unreadable: whether `Exists` and the delivery of events need READ (3.8.4 and 3.9.2).
        hides_secrets: whether `GetACL` needs READ or ADMIN, and shows digests only with ADMIN (3.4.14 and 3.5.5).
        rejects_gaps: whether a server does not boot from logs in which transactions are missing (3.9.4).
        ip_acls_exclude: characters that no ip id of an ACL may have, though addresses have them: `:` of IPv6 addresses
            before 3.9.4, `/` of blocks before 3.5.0.
        checks_all_watches: whether `CheckWatches` finds the watches of every connection (3.6.0 to 3.8).
        refuses_check: whether a `Check` outside a multi is unknown (3.8.5 and 3.9.3); before, it is a write, and its
            success is never answered.
        path_edges_are_valid: whether the first and last characters of the invalid ranges (U+001F, U+007F, U+009F,
            U+F8FF, U+FFF0, U+FFFF) are valid in paths (3.4).
        validates_all_paths: whether setData, setACL and check validate their paths (3.4.7 and 3.5.1); before, there is
            no node at an invalid path, and "" is the root.
        null_scheme_is_invalid: whether a null scheme is INVALID_ACL (3.5.0); before, the server fails on it.
        identities_are_hashed: whether the identities of a connection are a set, in an order of hash codes (3.6.0);
            before, a list.
        expands_auth_last: whether the identities that replace the scheme auth follow the other entries of an ACL (3.4).
        null_acl_is_invalid: whether a null ACL is INVALID_ACL (3.6.0); before, the server fails on it.
        delete_checks_acl_first: whether the permission to delete is checked before the existence of the node (3.6.0).
        close_lists_ephemerals: whether the end of a session deletes its ephemerals in the order of a copy of their set
            (3.6.0); before, in the order of the set.
        decodes_before_zxid: whether a write with a malformed body takes no zxid (3.9.0).
        resumes_by_kind: whether the events of `SetWatches` depend on the kind of watch (3.4.6); before, a data watch
            gets a creation for a younger znode, and an exists watch a data change for an older one.
        only_raises_cversions: whether a create changes the cversion and the pzxid of the parent only if its cversion is
            higher (3.6.0); before, it also wraps from 2^31-1 to -2^31.
        deletes_orphans: whether the deletion of a node removes it though its parent is missing (before 3.5.5).
        create_replaces_orphans: whether a create in a log replaces a node that its parent does not list (before 3.8.5
            and 3.9.4).
        digests_trees: whether transactions have the digest of the tree, so that the end of a session fails if the
            parent of an ephemeral is missing (3.6.0).
        sizes_proposals: whether a leader reports the sizes of its proposals (3.4.13 and 3.5.4).
        always_sends_read_only: whether a connect response has its last byte even if the request had none (3.9.0 to
            3.9.2).
    """

    def __init__(self, name: str) -> None:
        release = number_of(name)
        self.release: Final = release
        self.build: Final = BUILDS[name]
        self.unknown: Final = frozenset(request for request, first in SINCE.items() if release < first)
        self.refuses_unknown: Final = release >= (3, 4, 6)
        self.has_config_node: Final = release >= (3, 5, 0)
        self.guards_config_node: Final = release >= (3, 5, 3)
        self.enables_reconfig: Final = release >= (3, 5, 3)
        self.last_flags: Final = 6 if release >= (3, 5, 3) else 4 if release >= (3, 5, 1) else 3
        self.demands_ttls: Final = release >= (3, 5, 4)
        self.flags_come_first: Final = release >= (3, 5, 0)
        self.multi_keeps_opcodes: Final = release >= (3, 8, 2) or (3, 7, 2) <= release < (3, 8, 0)
        self.enforces_quotas: Final = release >= (3, 7, 0)
        self.clients_delete_containers: Final = release >= (3, 9, 0)
        self.watches_have_modes: Final = release >= (3, 9, 0)
        self.events_have_zxids: Final = release >= (3, 9, 0)
        self.counts_data: Final = release >= (3, 6, 0)
        self.hides_unreadable: Final = release >= (3, 9, 2) or (3, 8, 4) <= release < (3, 9, 0)
        self.hides_secrets: Final = release >= (3, 5, 5) or (3, 4, 14) <= release < (3, 5, 0)
        self.rejects_gaps: Final = release >= (3, 9, 4)
        self.ip_acls_exclude: Final = "" if release >= (3, 9, 4) else ":" if release >= (3, 5, 0) else ":/"
        self.checks_all_watches: Final = (3, 6, 0) <= release < (3, 9, 0)
        self.refuses_check: Final = release >= (3, 9, 3) or (3, 8, 5) <= release < (3, 9, 0)
        self.path_edges_are_valid: Final = release < (3, 5, 0)
        self.validates_all_paths: Final = release >= (3, 5, 1) or (3, 4, 7) <= release < (3, 5, 0)
        self.null_scheme_is_invalid: Final = release >= (3, 5, 0)
        self.identities_are_hashed: Final = release >= (3, 6, 0)
        self.expands_auth_last: Final = release < (3, 5, 0)
        self.null_acl_is_invalid: Final = release >= (3, 6, 0)
        self.delete_checks_acl_first: Final = release >= (3, 6, 0)
        self.close_lists_ephemerals: Final = release >= (3, 6, 0)
        self.only_raises_cversions: Final = release >= (3, 6, 0)
        self.deletes_orphans: Final = release < (3, 5, 5)
        self.create_replaces_orphans: Final = release < (3, 8, 5) or (3, 9, 0) <= release < (3, 9, 4)
        self.digests_trees: Final = release >= (3, 6, 0)
        self.sizes_proposals: Final = release >= (3, 5, 4) or (3, 4, 13) <= release < (3, 5, 0)
        self.decodes_before_zxid: Final = release >= (3, 9, 0)
        self.resumes_by_kind: Final = release >= (3, 4, 6)
        self.always_sends_read_only: Final = (3, 9, 0) <= release < (3, 9, 3)
        assert self.has_config_node or not self.guards_config_node, "only a node that exists is guarded"
        assert not (self.checks_all_watches and self.watches_have_modes), "watches with modes are checked by connection"

    def read_only_byte(self, requested: bool | None, *, is_read_only: bool) -> bool | None:
        """Return the last byte of a connect response; None if it is not sent.

        Args:
            requested: the last byte of the request; None if it had none.
            is_read_only: whether the server serves without a leader.
        """
        return None if requested is None and not self.always_sends_read_only else is_read_only


@cache
def rules_of(version: str) -> Rules:
    """Return the rules of a version, as "3.4" or "3.9.1".

    Raises:
        ConfigError: the version is not simulated.

    >>> rules_of("3.4").release
    (3, 4, 14)
    >>> rules_of("3.9.1").hides_unreadable, rules_of("3.9").hides_unreadable
    (False, True)
    """
    name = by_name().get(version)
    if name is None:
        raise ConfigError(f"ZooKeeper {version!r} is not simulated", where="version", right=f"one of {listed()}")
    return Rules(name) if name == version else rules_of(name)  # one object for all names
