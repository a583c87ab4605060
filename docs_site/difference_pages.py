"""Page of the known differences from real servers and brokers, from the tables that the comparisons use."""

from __future__ import annotations

from docs_site.markdown import code, description, page, table
from simzk.kafka.zookeeper_mode.replay.allowed_differences import FIRST, LAST, TABLE, Number, line
from tests.conformance.differences import DIFFERENCES, OF_OLD_RELEASES


def differences_page() -> str:
    """Return the page of known differences."""
    kinds = dict.fromkeys(type(row) for row in TABLE)
    return page(
        "Known differences",
        "All known differences between simzk and the real servers. Tests expect each of them: one that disappears, or "
        "an unknown one, fails. [What is not emulated](../fidelity.md) is another list.",
        "## ZooKeeper",
        "What a real ZooKeeper 3.9.5 may answer and simzk does not.",
        table(
            ["difference", "what the real server does", "source"],
            [(d.name, d.reason, code(d.source)) for d in DIFFERENCES],
        ),
        "## ZooKeeper before 3.9",
        table(["difference", "what the real server does"], list(OF_OLD_RELEASES.items())),
        "## Kafka: results that depend on timing",
        "A replay of a recorded cluster compares every znode and every transaction, except for these.",
        *(
            section
            for kind in kinds
            for section in (
                f"### {kind.__name__}",
                description(kind),
                table(
                    ["difference", "releases", "reason", "still compared"],
                    [(row.name, _releases(*row.releases), row.why, row.compared) for row in TABLE if type(row) is kind],
                ),
            )
        ),
    )


def _releases(since: Number, until: Number) -> str:
    first, last = (".".join(map(str, line(number))) for number in (since, until))
    if (since, until) == (FIRST, LAST):
        return "all"
    return first if first == last else f"{first} to {last}"
