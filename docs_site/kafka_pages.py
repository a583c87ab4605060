"""Pages of Kafka: what differs between releases, the znodes that each writes, and the invariants of the znodes."""

from __future__ import annotations

import json
from dataclasses import fields
from types import FunctionType
from typing import TYPE_CHECKING

from docs_site.markdown import attribute_docs, code, description, page, table
from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.agreement import AGREEMENTS
from simzk.kafka.observation.beliefs import BELIEFS
from simzk.kafka.observation.invariants import INVARIANTS
from simzk.kafka.releases.profile import (
    BrokerRules,
    ClientRules,
    ControllerRules,
    EntityConfigRules,
    OrderRules,
    ToolRules,
    ZnodeRules,
)
from simzk.kafka.releases.settings import topic_keys
from simzk.kafka.releases.versions import LINES, VERSIONS
from simzk.kafka.zookeeper_mode.schemas.json_text import Reading
from simzk.partitions.rules import ElectionRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from simzk.kafka.releases.since import Release

_OLDEST_FIRST = tuple(reversed(LINES))
_PARTS = (ZnodeRules, Reading, ClientRules, ControllerRules, BrokerRules, EntityConfigRules, ToolRules, OrderRules)
_DATA_MAX = 400


def ranges(values: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return each value with the first of the consecutive releases that have it.

    >>> ranges({"0.8.0": 1, "0.8.1": 1, "0.8.2": 2})
    [('0.8.0', 1), ('0.8.2', 2)]
    """
    found: list[tuple[str, object]] = []
    for release, value in values.items():
        if not found or found[-1][1] != value:
            found.append((release, value))
    return found


def in_words(values: Mapping[str, object]) -> str:
    """Return the releases in which a rule holds, or each value with its first release.

    >>> in_words({"0.8.0": False, "0.8.1": True, "0.8.2": False})
    'from 0.8.1, before 0.8.2'
    >>> in_words({"0.8.0": "a", "0.8.1": "b"})
    '0.8.0: `a`<br>0.8.1: `b`'
    """
    rows = ranges(values)
    if not all(isinstance(value, bool) for _, value in rows):
        return "<br>".join(f"{release}: {_text(value)}" for release, value in rows)
    spans = []
    for number, (first, value) in enumerate(rows):
        end = f"before {rows[number + 1][0]}" if number + 1 < len(rows) else ""
        if value:
            spans.append(", ".join(part for part in (f"from {first}" if number else "", end) if part) or "all")
    return "; ".join(spans) or "none"


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, type):
        return code(value.__name__)
    if isinstance(value, FunctionType):
        return code(f"{value.__module__.rpartition('.')[2]}.{value.__name__}")
    if isinstance(value, frozenset):
        return ", ".join(sorted(map(_text, value))) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(_text, value)) or "none"
    return code(repr(value) if isinstance(value, bytes) else value) or "none"


def releases_page() -> str:
    """Return the page of everything in which the simulated releases differ."""
    sections = []
    for part in _PARTS:
        docs = attribute_docs(part)
        values = {name: _declared(rows) for name, rows in part.rows.items()}
        rows = [(code(name), docs.get(name, ""), in_words(by_line)) for name, by_line in values.items()]
        sections += [f"## {part.__name__}", description(part), table(["field", "meaning", "releases"], rows)]
    docs = attribute_docs(ElectionRules)
    rules = {
        field.name: {line: getattr(VERSIONS[line].rules, field.name) for line in _OLDEST_FIRST}
        for field in fields(ElectionRules)
    }
    rows = [
        (code(name), docs[name], in_words({line: getattr(value, "value", value) for line, value in by_line.items()}))
        for name, by_line in rules.items()
    ]
    sections += ["## ElectionRules", description(ElectionRules), table(["field", "meaning", "releases"], rows)]
    return page(
        "Kafka releases",
        f"simzk simulates {len(LINES)} release lines: {', '.join(_OLDEST_FIRST)}. Each field below is one difference "
        "between them. The sections (§) are those of [the reference of Kafka](kafka.md), which has the sources.",
        *sections,
        "## Broker settings",
        "The simulated settings of a broker and their defaults; `config=` of `simzk.KafkaCluster` sets them.",
        _settings_table(),
        "## Topic settings",
        "The keys that the configuration of a topic may contain.",
        _topic_keys_table(),
    )


def _declared(rows: Sequence[tuple[Release, object]]) -> dict[str, object]:
    """Return the values of a field of a profile by the first release of each, oldest first."""
    return {".".join(map(str, first)): value for first, value in reversed(rows)}


def _settings_table() -> str:
    names = dict.fromkeys(name for line in _OLDEST_FIRST for name in VERSIONS[line].defaults)
    defaults = {name: {line: VERSIONS[line].defaults.get(name) for line in _OLDEST_FIRST} for name in names}
    rows = []
    for name, by_line in defaults.items():
        values = ranges(by_line)
        rows.append((code(name), in_words(by_line) if len(values) > 1 else _text(values[0][1])))
    return table(["setting", "default"], rows)


def _topic_keys_table() -> str:
    first: dict[str, str] = {}
    for line in _OLDEST_FIRST:
        for key in topic_keys(VERSIONS[line].number):
            first.setdefault(key, line)
    return table(["key", "first release"], [(code(key), first[key]) for key in sorted(first)])


def znodes_page() -> str:
    """Return the page of the znodes that a cluster of each release writes."""
    by_path: dict[str, dict[str, str]] = {}
    for line in _OLDEST_FIRST:
        for path, data in _znodes_of(line).items():
            by_path.setdefault(path, {})[line] = data
    rows = [(code(path), *_forms(by_line)) for path, by_line in sorted(by_path.items())]
    return page(
        "Kafka znodes",
        "The znodes of a simulated cluster of one broker with one topic, as brokers of each release write them. Data "
        "is shown once for each form: the fields and their order. All paths and contents, also those of requests of "
        "operators, are in [the reference of Kafka](kafka.md#13-znodes-of-the-cluster).",
        table(["path", "releases", "data"], rows),
    )


def _znodes_of(line: str) -> dict[str, str]:
    """Return the data of each znode of a small cluster of a release."""
    with KafkaCluster(version=line, brokers=1) as cluster:
        cluster.create_topic("orders", partitions=1, replication_factor=1, config={"retention.ms": "60000"})
        cluster.run_until_quiet()
        return {
            path: (node.data or b"").decode()
            for path, node in cluster.tree.walk()
            if path != "/" and not path.startswith("/zookeeper")
        }


def _forms(by_line: Mapping[str, str]) -> tuple[str, str]:
    """Return the releases that have a znode, and its data in each of its forms."""
    releases = in_words({line: line in by_line for line in _OLDEST_FIRST})
    shown = []
    forms = ranges({line: _form(data) for line, data in by_line.items()})
    for first, _ in forms:
        data = by_line[first]
        text = data if len(data) <= _DATA_MAX else f"{data[:_DATA_MAX]}…"
        shown.append(f"{first}: {code(text) or 'no data'}" if len(forms) > 1 else code(text))
    return releases, "<br>".join(shown)


def _form(data: str) -> object:
    """Return the form of a znode's data: the keys of JSON in order, with the version and spaces."""
    try:
        read = json.loads(data)
    except ValueError:
        return "text" if data else ""
    if not isinstance(read, dict):
        return "number"
    return (tuple(read), read.get("version"), '" : ' in data or '":  ' in data, _kinds(read.values()))


def _kinds(values: Iterable[object]) -> Sequence[str]:
    return [type(value).__name__ for value in values]


def invariants_page() -> str:
    """Return the page of the invariants that every simulated cluster is checked for."""
    rows = [
        (
            invariant.name,
            description(invariant),
            "all" if invariant.allows_leader_writes else "from 2.7: before, leaders write ISRs themselves",
        )
        for invariant in INVARIANTS
    ]
    beliefs = [(invariant.name, description(invariant)) for invariant in BELIEFS]
    return page(
        "Invariants",
        "Conditions that hold whatever fails. Every simulated cluster is checked for them at each event, "
        "and a violation names the event that caused it.",
        "## Of the znodes",
        table(["invariant", "meaning", "releases"], rows),
        "## Of what brokers believe",
        table(["invariant", "meaning"], beliefs),
        "## Of what brokers believe after faults",
        table(["invariant", "meaning"], [(one.name, description(one)) for one in AGREEMENTS]),
    )
