"""The four-letter words beside a real server's: line for line the same form, key for key the same names (§5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from simzk.serve.configuration.settings import Settings
from simzk.wire.four_letter_words import WORDS
from simzk.zookeeper import requests as req
from tests.conformance.real_zookeeper import RealZooKeeper
from tests.serve.served import Served, served
from tests.serve.tcp_client import Clients, TcpClient, word

if TYPE_CHECKING:
    from collections.abc import Iterator


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
@pytest.mark.parametrize("name", sorted(set(WORDS) - {"conf", "dump", "envi", "hash", "mntr", "srst", "crst", "stmk"}))
def test_a_word_has_the_real_servers_form(server: Served, real_zookeeper: RealZooKeeper, name: str) -> None:
    texts = []
    for port in (real_zookeeper.port, server.port):
        with Clients(port):
            texts.append(form(word(port, name.encode())))
    real, ours = (sorted(text.splitlines()) for text in texts)
    assert ours == real


@pytest.mark.java
@pytest.mark.parametrize("cut", [0, 4, 7, 8])
def test_a_trace_mask_must_come_with_its_word(server: Served, real_zookeeper: RealZooKeeper, cut: int) -> None:
    answers = []
    for port in (real_zookeeper.port, server.port):
        with TcpClient(port) as client:
            client.socket.sendall(b"stmk" + (7).to_bytes(8, "big")[:cut])
            answers.append(client.rest())
    assert answers == [b"7" if cut == 8 else b""] * 2
    assert word(real_zookeeper.port, b"stmk" + (306).to_bytes(8, "big")) == "306"


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
    real, ours = (monitored(port) for port in (real_zookeeper.port, server.port))
    assert list(ours) == [key for key in real if not key.endswith("_per_namespace")]
    assert {key: form(value) for key, value in ours.items()} == {key: form(real[key]) for key in ours}


def monitored(port: int) -> dict[str, str]:
    """Return mntr's values by key."""
    return dict(line.split("\t") for line in word(port, b"mntr").splitlines())


# What a server counts that simzk has not got, or measures of a machine: times, and what waits between threads. The last
# line: other threads count these, so that a client can look too early.
INCOMPARABLE = re.compile(
    r"zk_(uptime|(open|max)_file_descriptor_count|(avg|min|max)_latency|"
    r"(avg|min|max|sum|p\d+)_(read|update)latency|outstanding_changes_(queued|removed)|"
    r"response_packet_(get_children_)?cache_(hits|misses)|bytes_received_count|packets_(sent|received)|"
    r"(avg|min|max|cnt|sum|p\d+)_(connection_token_deficit|proposal_process_time|propagation_latency|"
    r"(prep|sync)_process(or)?_\w+|close_session_prep_time|request_throttle_queue_time_ms|snapshottime|dbinittime|"
    r"startup_\w+|jvm_pause_time_ms|\w+_per_namespace)|"
    r"response_bytes|(sync|prep)_processor_request_queued|outstanding_requests|connection_drop_count)"
)


def lived(port: int) -> list[dict[str, str]]:
    """Return mntr's comparable values after each of some requests."""
    reported = []

    def look() -> None:
        reported.append({key: value for key, value in monitored(port).items() if not INCOMPARABLE.fullmatch(key)})

    word(port, b"srst")
    with TcpClient(port) as client:
        session = client.connect(timeout_ms=30_000)
        look()
        for request in (
            req.Create("/m", b"xyz", req.OPEN_ACL, 0),
            req.Create("/m/d", b"", req.OPEN_ACL, 1),
            req.Create("/m", b"", req.OPEN_ACL, 0),
            req.GetData("/m", True),
            req.GetChildren("/m", True),
            req.Exists("/m/c", True),
            req.Exists("/m/d", True),
            req.Ping(),
            req.Sync("/m"),
            req.Multi((req.Check("/m", 0),)),
            req.SetACL("/m", req.OPEN_ACL, -1),
            req.GetACL("/m"),
            req.Auth(0, "digest", b"a:b"),
        ):
            client.ask(request)
            look()
        for change, events in (
            (req.SetData("/m", b"longer", -1), 1),
            (req.Create("/m/c", b"", req.OPEN_ACL, 0), 2),
            (req.Delete("/m/d", -1), 1),
        ):
            client.send(change)
            for _ in range(events + 1):
                client.next()
            look()
        with TcpClient(port) as refused:
            refused.connect()
            refused.send(req.Auth(0, "nobody", b""))
            refused.rest()
        look()
        with TcpClient(port) as closing:
            closing.connect()
            closing.ask(req.CloseSession())
            closing.rest()
        look()
    with TcpClient(port) as again:
        again.connect(session=session)
        look()
        again.ask(req.Delete("/m/c", -1))
        again.ask(req.Delete("/m", -1))
        again.ask(req.CloseSession())
        again.rest()
    word(port, b"srst")
    look()
    return reported


@pytest.mark.java
def test_counts_go_as_the_real_ones_through_a_session(server: Served) -> None:
    with RealZooKeeper(tick_time_ms=2000) as real:
        theirs, ours = lived(real.port), lived(server.port)
    assert len(ours[0]) > 250
    for step, (real_values, values) in enumerate(zip(theirs, ours, strict=True)):
        differing = {key for key in values.keys() | real_values.keys() if values.get(key) != real_values.get(key)}
        assert {key: (step, values.get(key), real_values.get(key)) for key in differing} == {}


@pytest.mark.java
def test_dump_has_the_real_form(server: Served, real_zookeeper: RealZooKeeper) -> None:
    headings = []
    for port in (real_zookeeper.port, server.port):
        with Clients(port):
            lines = form(word(port, b"dump")).splitlines()
        # How many sessions share a tick depends on the moment; what kinds of line there are does not.
        headings.append(list(dict.fromkeys(lines)))
    assert headings[0] == headings[1]
