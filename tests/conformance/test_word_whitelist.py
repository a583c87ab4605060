"""Which four-letter words a real server answers for each 4lw.commands.whitelist and release: the same as here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simzk.serve.clock import StillClock
from simzk.serve.configuration.zoo_cfg import parse_zoo_cfg
from simzk.wire.four_letter_words import WORDS
from simzk.zookeeper.releases import BUILDS
from tests.conformance.real_zookeeper import RealZooKeeper, four_letter_word
from tests.conformance.releases import fetched
from tests.conformance.test_versions import RELEASES
from tests.serve.served import served

pytestmark = [pytest.mark.slow, pytest.mark.java]

LISTS = (None, "", "ruok", " stat , nonsense", "ruok,*,nonsense", "SRVR")
OLDER = ("3.4.9", "3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.6")


def reported(port: int) -> dict[str, str]:
    """Return for each word whether it is answered, refused, or ends the connection."""
    found = {}
    for name in [*WORDS, "ruoK", "abcd"]:
        # stmk waits for its argument if it is answered
        try:
            text = four_letter_word(port, name.encode() + bytes(8)).decode()
        except ConnectionResetError:
            text = ""
        # an executed hash is empty too before the first 128 transactions
        found[name] = text if "not executed" in text else "answered" if text else "closed"
    return found


def compare(listed: str | None, release: str, jars: Path | None, *, read_only: bool) -> None:
    properties = {"readonlymode.enabled": "true"} if read_only else {}
    with RealZooKeeper(settings={"4lw.commands.whitelist": listed}, properties=properties, jars_from=jars) as real:
        expected = reported(real.port)
    lines = [f"readonlymode.enabled={str(read_only).lower()}"]
    lines += [] if listed is None else [f"4lw.commands.whitelist={listed}"]
    file = "dataDir=/none\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    settings = parse_zoo_cfg(file + "\n".join(lines))
    settings = settings._replace(data_directory=None, server=settings.server._replace(version=release))
    with served(settings, StillClock()) as ours:
        found = reported(ours.port)
    assert found == expected


@pytest.mark.timeout(60)
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("listed", LISTS)
def test_the_same_words_are_answered(listed: str | None, *, read_only: bool) -> None:
    compare(listed, list(BUILDS)[-1], None, read_only=read_only)


@pytest.mark.by_hand(RELEASES)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("listed", LISTS[:3])
@pytest.mark.parametrize("release", OLDER)
def test_the_same_words_are_answered_by_older_releases(release: str, listed: str | None) -> None:
    jars = fetched(release, Path(os.environ[RELEASES]).expanduser().resolve())
    compare(listed, release, jars, read_only=False)
