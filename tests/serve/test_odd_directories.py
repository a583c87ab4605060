"""Damaged and hand-made data directories: which simzk boots from is what a real 3.9.5 did, as recorded.

The trees are compared with a real server's in tests/conformance/test_odd_directories.py.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.serve.configuration.settings import Storage
from simzk.serve.storage.data_directory import DataDirectory
from simzk.zookeeper.config import ServerConfig
from simzk.zookeeper.persistence import SnapshotReader
from tests.conformance.odd_directories import CHANGES, NOT_REPRODUCED, REFUSED, changed

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.zookeeper.server import Server

# Trees with a node that has what no request gives it.
UNSOUND = {"create under an ephemeral in a log", "owner of the root", "owner of a parent"}
PLAIN = Storage(fsync=False)


def booted(place: Path, version: str = "3.9") -> Server:
    with closing(DataDirectory(place, PLAIN)) as directory:
        return directory.load(ServerConfig(extended_types=True, version=version), now_ms=1)


@pytest.mark.parametrize("name", sorted(CHANGES.keys() - NOT_REPRODUCED))
def test_a_change_is_refused_or_not(tmp_path: Path, name: str) -> None:
    changed(name).write(tmp_path)
    if name in REFUSED:
        with pytest.raises(ConfigError):
            booted(tmp_path)
        return
    server = booted(tmp_path)
    if name not in UNSOUND:
        server.check()
    # The snapshot that it wrote at once has the same tree.
    again = booted(tmp_path)
    assert again.zxid == server.zxid
    assert [path for path, _ in again.tree.walk()] == [path for path, _ in server.tree.walk()] or "emoji" in name


@pytest.mark.parametrize(("version", "is_refused"), [("3.9.3", False), ("3.9.4", True), ("3.8.6", False)])
def test_a_gap_is_refused_since_its_release(tmp_path: Path, version: str, is_refused: bool) -> None:
    changed("gap in a log").write(tmp_path)
    if is_refused:
        with pytest.raises(ConfigError, match="the transactions 0xc to 0xc are missing before it"):
            booted(tmp_path, version)
    else:
        assert booted(tmp_path, version).zxid == 13


def test_an_open_acl_that_a_client_set_has_an_id_in_a_snapshot(tmp_path: Path) -> None:
    changed("nothing").write(tmp_path)
    booted(tmp_path)
    with (tmp_path / "version-2" / "snapshot.c").open("rb") as stream:
        reader = SnapshotReader(stream)
        ids = {
            path: int.from_bytes(numbers[:8], "big", signed=True)
            for batch in reader.batches()
            for path, numbers in zip(batch.paths, batch.numbers, strict=True)
        }
    assert {path for path, acl_id in ids.items() if acl_id == -1} == {"/", "/zookeeper", "/zookeeper/quota"}
    assert ids["/a"] == ids["/m"] != ids["/zookeeper/config"]
