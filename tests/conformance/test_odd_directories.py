"""Damaged and hand-made data directories: a real server and simzk boot from the same ones, to the same tree.

`SIMZK_ODD_DIRECTORIES` says how many random ones are compared; a seed is a directory.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from simzk.errors import ConfigError
from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.data_directory import DataDirectory
from simzk.zookeeper.config import ServerConfig
from tests.conformance.java_tools import told_by_java
from tests.conformance.odd_directories import (
    CHANGES,
    NOT_REPRODUCED,
    NOT_REPRODUCED_WITHOUT_TYPES,
    REFUSED,
    Directory,
    changed,
    drawn,
)

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.zookeeper.server import Server

COUNT = int(os.environ.get("SIMZK_ODD_DIRECTORIES", "300"))

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(600)]


def boots_of_real(places: list[Path], *, extended_types: bool) -> list[dict[str, Any]]:
    """Return what a real server boots to from each directory."""
    properties = {"zookeeper.forceSync": "no", "zookeeper.extendedTypesEnabled": str(extended_types).lower()}
    lines = told_by_java("Boots.java", *map(str, places), properties=properties).split("\n")
    return [json.loads(line) for line in lines if line]


def boot_of_simzk(place: Path, *, extended_types: bool) -> dict[str, Any]:
    with closing(DataDirectory(place, Storage(fsync=False))) as directory:
        try:
            server = directory.load(ServerConfig(extended_types=extended_types), now_ms=1)
        except ConfigError as error:
            return {"refused": str(error)}
    return described(server)


def described(server: Server) -> dict[str, Any]:
    tree = server.tree
    return {
        "zxid": server.zxid,
        "sessions": {
            str(session_id): found.timeout_ms
            for session_id in server.sessions.ids()
            if (found := server.sessions.get(session_id)) is not None
        },
        "ephemerals": {str(owner): sorted(paths) for owner, paths in tree.ephemerals.items() if len(paths)},
        "nodes": {
            path: {
                "data": None if node.data is None else node.data.hex(),
                "stat": list(node.stat()),
                "children": sorted(node.child_names()),
                "acl": [[perms, scheme, text] for perms, (scheme, text) in node.acl],
            }
            for path, node in [("", tree.find("")), *tree.in_any_order()]
            if node is not None
        },
    }


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """Return a boot without what has no order, and without the ACL of a node whose ACL is missing."""
    if "refused" in found:
        return {"refused": True}
    for node in found["nodes"].values():
        node["children"] = sorted(node["children"])
        if node["acl"] in (None, [[0, "unknown", "ACL"]]):
            node["acl"] = "missing"
    found["ephemerals"] = {owner: paths for owner, paths in found["ephemerals"].items() if paths}
    return found


def compared(tmp_path: Path, directories: list[Directory], *, extended_types: bool = True) -> list[tuple[Any, Any]]:
    """Return what the real server and simzk boot to from each."""
    places = []
    for number, directory in enumerate(directories):
        for arm in ("real", "ours"):
            directory.write(tmp_path / arm / str(number))
        places.append(tmp_path / "real" / str(number))
    real = boots_of_real(places, extended_types=extended_types)
    ours = [boot_of_simzk(tmp_path / "ours" / place.name, extended_types=extended_types) for place in places]
    return [(comparable(their), comparable(our)) for their, our in zip(real, ours, strict=True)]


@pytest.mark.parametrize("extended_types", [True, False])
def test_each_change_has_the_same_effect(tmp_path: Path, extended_types: bool) -> None:
    found = compared(tmp_path, [changed(name) for name in CHANGES], extended_types=extended_types)
    differing = {name for name, (real, ours) in zip(CHANGES, found, strict=True) if real != ours}
    assert differing == (NOT_REPRODUCED if extended_types else NOT_REPRODUCED_WITHOUT_TYPES)
    if extended_types:
        assert {name for name, (real, _) in zip(CHANGES, found, strict=True) if "refused" in real} == REFUSED


def test_random_changes_have_the_same_effect(tmp_path: Path) -> None:
    names = [drawn(seed) for seed in range(COUNT)]
    for changes, (real, ours) in zip(names, compared(tmp_path, [changed(*one) for one in names]), strict=True):
        assert ours == real, changes
