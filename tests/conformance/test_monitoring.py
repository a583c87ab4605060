"""The four-letter words beside a real server's: line for line the same form, key for key the same names (§5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from simzk.serve.settings import Settings
from simzk.wire.four_letter_words import WORDS
from tests.serve.served import Served, served
from tests.serve.tcp_client import Clients, word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.real_zookeeper import RealZooKeeper


@pytest.fixture
def server() -> Iterator[Served]:
    with served(Settings()) as running:
        yield running


def form(text: str) -> str:
    """A word's text with everything that may differ between two runs replaced by what it is."""
    text = re.sub(r"0x[0-9a-f]+", "HEX", text)
    text = re.sub(r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}", "DATE", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    return re.sub(r"-?\d+(\.\d+)?", "N", text)


@pytest.mark.java
@pytest.mark.parametrize("name", sorted(set(WORDS) - {"conf", "dump", "envi", "hash", "mntr", "srst", "crst"}))
def test_a_word_has_the_real_servers_form(server: Served, real_zookeeper: RealZooKeeper, name: str) -> None:
    texts = []
    for port in (real_zookeeper.port, server.port):
        with Clients(port):
            texts.append(form(word(port, name.encode())))
    real, ours = (sorted(text.splitlines()) for text in texts)
    assert ours == real


def keys(text: str, separator: str) -> list[str]:
    return [line.partition(separator)[0] for line in text.splitlines() if separator in line]


@pytest.mark.java
def test_settings_and_environment_have_the_real_keys(server: Served, real_zookeeper: RealZooKeeper) -> None:
    for name in (b"conf", b"envi"):
        real, ours = (keys(word(port, name), "=") for port in (real_zookeeper.port, server.port))
        # What the JVM tells of its memory has no counterpart here.
        assert ours == [key for key in real if not key.startswith("os.memory")]


@pytest.mark.java
def test_monitoring_has_real_keys_in_the_real_order_and_types(server: Served, real_zookeeper: RealZooKeeper) -> None:
    real, ours = (
        dict(line.split("\t") for line in word(port, b"mntr").splitlines())
        for port in (real_zookeeper.port, server.port)
    )
    assert list(ours) == [key for key in real if key in ours]
    assert {key: form(value) for key, value in ours.items()} == {key: form(real[key]) for key in ours}


@pytest.mark.java
def test_dump_has_the_real_form(server: Served, real_zookeeper: RealZooKeeper) -> None:
    headings = []
    for port in (real_zookeeper.port, server.port):
        with Clients(port):
            lines = form(word(port, b"dump")).splitlines()
        # How many sessions share a tick depends on the moment; what kinds of line there are does not.
        headings.append(list(dict.fromkeys(lines)))
    assert headings[0] == headings[1]
