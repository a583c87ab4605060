"""A cversion beyond 2^31-1: names of sequential nodes as real servers of three releases give them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.serve.configuration.settings import Settings
from simzk.zookeeper.config import ServerConfig
from tests.conformance.wrapped_cversions import RECORDED, RELEASES, directory, tell
from tests.serve.served import served, served_ensemble

if TYPE_CHECKING:
    from pathlib import Path

FOUND: dict[str, list[str]] = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("release", RELEASES)
def test_sequential_nodes_have_the_names_that_a_real_server_gives(release: str, tmp_path: Path) -> None:
    directory().write(tmp_path)
    settings = Settings(server=ServerConfig(version=release), data_directory=tmp_path)
    with served(settings) as server:
        assert list(tell(server.port)) == FOUND[release]
        server.tcp.driver.server.check()


@pytest.mark.parametrize("server_id", [1, 3])
def test_a_pipeline_to_a_member_of_an_ensemble_goes_on_too(server_id: int, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        directory().write(tmp_path / str(number))
    with served_ensemble(Settings(data_directory=tmp_path)) as ensemble:
        told = list(tell(ensemble.ports[server_id]))
    names = [line.partition(": ")[2] for line in told if " /b/" in line]
    assert names == [line.partition(": ")[2] for line in FOUND["3.9.5"] if " /b/" in line]
    assert len(names) == 7
