"""HTML page of a failed test: the history of each cluster, and the requests and sessions of each ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simzk.report.page import Section, Table, Text, to_html
from simzk.testing.failure_report import describe, events_since

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.testing.failure_report import Start


def page_of(nodeid: str, command: str, starts: Sequence[Start]) -> str:
    """Return the page of a failed test.

    Args:
        nodeid: pytest's name of the test.
        command: the command that runs it again.
        starts: the servers of the test, at least one; the page of a single cluster is that of a run.
    """
    assert starts, "a page needs a server"
    (first, *others) = starts
    if hasattr(first.watched, "history") and not others:
        return _page_of_cluster(nodeid, command, first.watched)  # type: ignore[arg-type]
    sections = []
    for start in starts:
        events = [event._asdict() for event in events_since(start)]
        columns = {name: [event[name] for event in events] for name in ("who", "what", "subject", "before", "after")}
        table = Table({"at, s": [event["at_us"] / 1e6 for event in events], **columns})
        lines = [Text(line) for line in describe(start).splitlines() if not line.startswith("     ")]
        sections.append(Section(start.name, [*lines, table] if events else lines))
    return to_html(nodeid, [Text("The test failed."), Text(command, code=True)], sections)


def _page_of_cluster(nodeid: str, command: str, cluster: KafkaCluster) -> str:
    """Return the page of a run, which `simzk run --html` writes too."""
    from simzk.report.run_page import runs_page
    from simzk.scenarios.results import document_of_cluster
    from simzk.scenarios.run_tables import tables_of

    document: dict[str, object] = {
        "file": "pytest",
        "title": nodeid,
        "seed": cluster.seed,
        "kafka_version": cluster.version,
        "faults": None,
        "held": False,
        "crash": "The test failed.",
        "replay": command,
        "expectations": [],
        "violations": [],
        "rest": "the history of the cluster in the test",
        **document_of_cluster(cluster),
    }
    return runs_page([tables_of(document)])
