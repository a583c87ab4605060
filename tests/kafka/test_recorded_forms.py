"""Each form of each znode that real brokers and tools of 15 releases wrote: read, and written again byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simzk.kafka.security.scram import credential
from simzk.kafka.zookeeper_mode.schemas import config, scram
from tests.kafka.znode_codecs import RELEASES, read, written_again

_DATA = Path(__file__).parent / "data"
FORMS = [
    (release, form["path"], form["data"])
    for form in json.loads((_DATA / "recorded_forms.json").read_text())
    for release in form["releases"]
]
WIKI = [tuple(entry.values()) for entry in json.loads((_DATA / "wiki_forms.json").read_text())]
"""The examples of Kafka's wiki, 0.8 to 0.10, with what each means; broken JSON of the page is mended."""


@pytest.mark.parametrize(("release", "path", "data"), FORMS, ids=[f"{r} {p}" for r, p, _ in FORMS])
def test_what_a_release_wrote_is_written_again_byte_for_byte(release: str, path: str, data: str) -> None:
    assert written_again(release, path, data.encode()).decode() == data


def test_no_release_is_left_out() -> None:
    assert sorted({release for release, _, _ in FORMS}) == sorted(RELEASES)


@pytest.mark.parametrize(("path", "data", "means"), WIKI, ids=[path for path, _, _ in WIKI])
def test_the_examples_of_the_wiki_read(path: str, data: str, means: str) -> None:
    assert str(read(path, data.encode())) == means


def test_each_user_of_the_recordings_has_the_password_it_was_given() -> None:
    seen = 0
    for _, path, data in FORMS:
        if path == "/config/users/alice":
            for mechanism, value in config.decode(path, data.encode()).items():
                kept = scram.decode(path, mechanism, value)
                assert scram.encode(kept) == value
                assert credential(mechanism, "secret", kept.salt, kept.iterations) == kept
                assert len(kept.salt) in (25, 26)
                seen += 1
    assert seen == 10
