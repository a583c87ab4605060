"""Versions of each API that a release accepts, compared with what brokers of 27 releases answered to ApiVersions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simzk.kafka.protocol.classes import request_class
from simzk.kafka.releases.api_versions import accepted_versions, api_names
from simzk.kafka.releases.versions import VERSIONS, kafka_version

RECORDED = json.loads((Path(__file__).with_name("data") / "api_versions.json").read_text())
APIS = RECORDED["apis"].split(" ")


@pytest.mark.parametrize("release", RECORDED["releases"])
def test_a_release_accepts_what_was_recorded(release: str) -> None:
    recorded = {}
    for name, text in zip(APIS, RECORDED["releases"][release].split(" "), strict=True):
        if text != "-":
            low, _, high = text.rpartition("-")
            recorded[name] = (int(low or 0), int(high))
    accepted = accepted_versions(kafka_version(release).number)
    assert {api_names()[key]: tuple(versions) for key, versions in accepted.items()} == recorded
    assert list(accepted) == sorted(accepted)


def test_all_lines_from_0_10_0_on_were_recorded() -> None:
    names = {kafka_version(release).name for release in RECORDED["releases"]}
    assert names == {name for name in VERSIONS if name not in ("0.8.0", "0.8.1")}


@pytest.mark.parametrize("line", VERSIONS)
def test_accepted_versions_have_definitions(line: str) -> None:
    for key, versions in accepted_versions(VERSIONS[line].number).items():
        kind = request_class(key)
        assert kind is not None
        assert f"{api_names()[key]}Request" == kind.MESSAGE.name
        assert versions.low in kind.MESSAGE.versions
        assert versions.high in kind.MESSAGE.versions
