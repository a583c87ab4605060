"""Monitoring commands take constant time: no command walks the tree, even with a million znodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.zookeeper_mode.columnar import ColumnarTopics, describe_brokers, load_layout
from simzk.partitions.layouts import brokers_in_racks, generate_layout
from simzk.serve.admin_server.commands import COMMANDS
from simzk.serve.configuration.settings import Settings
from simzk.wire.four_letter_words import WORDS, answer
from simzk.wire.monitoring import families_of, text_of
from simzk.zookeeper.tree import DataTree
from simzk.zookeeper.znode import Znode
from tests.serve.served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from simzk.serve.tcp.server import TcpServer
    from simzk.wire.monitoring import Report

QUESTIONS: dict[str, Callable[[Report], object]] = {
    **{word: lambda report, word=word: answer(word, report) for word in sorted(set(WORDS) - {"stmk"})},  # type: ignore[misc]
    **{command.names[0]: command.answer for command in COMMANDS},
    "metrics": lambda report: text_of(families_of(report)),
}


@pytest.fixture(scope="module", params=["columns", "objects"])
def server(request: pytest.FixtureRequest) -> Iterator[TcpServer]:
    """Return a server of a layout without connections, with topics as columns or as objects."""
    layout = generate_layout(brokers_in_racks(3, 0), topics=2, partitions=40, replication_factor=2, seed=1)
    with served(Settings()) as running:
        host, version = running.tcp.driver.server, kafka_version("3.9")
        topics = load_layout(host, layout, version, 0)
        describe_brokers(host, layout, version, 0)
        assert len(topics) == 2 * 2 + 2 * 40
        if request.param == "objects":
            objects = DataTree.bare()
            for path, node in host.tree.walk():
                node.children = None
                objects.plant(path, node)
            host.tree = objects
        yield running.tcp


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_answer_walks_the_tree(question: str, server: TcpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[object] = []
    for kind, visits in (
        (DataTree, ("walk", "get", "in_any_order")),
        (ColumnarTopics, ("look", "take")),
        (Znode, ("__init__", "child_names")),
    ):
        for name in visits:
            monkeypatch.setattr(kind, name, lambda *arguments: visited.append(arguments))
    QUESTIONS[question](server.report())
    assert visited == []


def test_the_reported_size_is_that_of_all_znodes(server: TcpServer) -> None:
    tree = server.driver.server.tree
    report = dict(line.split("\t") for line in answer("mntr", server.report()).splitlines())
    assert int(report["zk_approximate_data_size"]) == sum(
        len(path) + len(node.data or b"") for path, node in tree.walk()
    )
