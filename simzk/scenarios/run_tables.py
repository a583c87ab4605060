"""Tables of a run's page, from its document (`simzk run --json`).

Rules of this module:
  - states are derived from events: a broker or partition keeps its state from one event to the next;
  - a cluster that starts from a recording has states without a first event: they are the `before` of the first event,
    or the state at the end.
"""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.kafka.observation.observer import parse_state
from simzk.report.pages import RunTables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.report.table import Columns

Document = dict[str, Any]
END_MARGIN = 0.02
"""Share of the run that is added after its end, so that a change at the end is visible."""
SPAN = ("row", "from_s", "until_s", "state", "label")


class _Change(NamedTuple):
    """The state of a row from `at_s` on; no state if empty."""

    at_s: float
    state: str
    text: str


def tables_of(document: Document) -> RunTables:
    """Return the tables of a run."""
    events = document["timeline"]
    verdicts = document["expectations"]
    last_s = max([0.0, *(event["at_us"] / 1e6 for event in events), *(v["at_us"] / 1e6 for v in verdicts)])
    end_s = last_s * (1 + END_MARGIN)
    led, in_sync = _partitions(document)
    outcome = _outcome(verdicts, len(document["violations"]))
    return RunTables(
        title=document["title"],
        heading=f"{document['file']}, seed {document['seed']}, Kafka {document['kafka_version']}",
        held=document["held"],
        outcome=document["crash"] or outcome,
        replay=document["replay"],
        expectations={
            "held": [verdict["held"] for verdict in verdicts],
            "at, s": [verdict["at_us"] / 1e6 for verdict in verdicts],
            "line": [verdict["line"] for verdict in verdicts],
            "expectation": [verdict["name"] for verdict in verdicts],
            "failures": ["; ".join(verdict["failures"]) for verdict in verdicts],
        },
        violations=_columns(document["violations"]),
        brokers=_spans(_brokers(document), end_s),
        leaders=_spans(led, end_s),
        in_sync=_spans(in_sync, end_s),
        events={
            "at, s": [event["at_us"] / 1e6 for event in events],
            **{name: [event[name] for event in events] for name in ("who", "what", "subject", "before", "after")},
        },
    )


def _outcome(verdicts: Sequence[Mapping[str, Any]], violations: int) -> str:
    count, failed = len(verdicts), sum(not verdict["held"] for verdict in verdicts)
    parts = []
    if failed:
        parts.append(f"{failed} of {count} expectation{'s' * (count != 1)} failed.")
    if violations:
        parts.append(f"{violations} invariant violation{'s' * (violations != 1)}.")
    return " ".join(parts) or f"All {count} expectations held."


def _columns(rows: Sequence[Mapping[str, object]]) -> Columns:
    names = list(rows[0]) if rows else []
    return {name: [row[name] for row in rows] for name in names}


def _spans(changes: Mapping[str, Sequence[_Change]], end_s: float) -> Columns:
    """Return the spans of each row: its state from each change to the next."""
    spans: list[tuple[object, ...]] = []
    for row, of_row in changes.items():
        ends = [*(change.at_s for change in of_row[1:]), end_s]
        for change, until_s in zip(of_row, ends, strict=True):
            if change.state and until_s > change.at_s:
                spans.append((row, change.at_s, until_s, change.state, change.text))
    return {name: [span[at] for span in spans] for at, name in enumerate(SPAN)}


def _brokers(document: Document) -> dict[str, list[_Change]]:
    """Return the states of brokers: registered, away, or controller."""
    at_end = document["brokers"]
    acting = (int(e["who"].split()[1]) for e in document["timeline"] if e["who"].startswith("broker "))
    ids = sorted({*acting, *at_end})
    changes: dict[int, list[_Change]] = {broker: [] for broker in ids}
    registered: dict[int, bool] = {}
    # The election of the controller of a recorded cluster is no event, but its actions are.
    first_of_controller = next((e for e in document["timeline"] if e["who"].startswith("controller ")), None)
    first_controller: int | None = document["controller"]
    if first_of_controller is not None:
        was_elected = first_of_controller["what"] == "elected"
        first_controller = None if was_elected else int(first_of_controller["who"].split()[1])
    controller = first_controller
    for event in document["timeline"]:
        who, what, at_s = event["who"], event["what"], event["at_us"] / 1e6
        before = controller
        if what in ("registered", "registration gone"):
            registered[int(who.split()[1])] = what == "registered"
            concerned = [int(who.split()[1])]
        elif what == "elected" and who.startswith("controller "):
            controller = int(who.split()[1])
            concerned = [controller]
        elif what == "controller gone":
            controller = None
            concerned = [] if before is None else [before]
        else:
            continue
        for broker in concerned:
            state = "controller" if broker == controller else "registered" if registered.get(broker) else "away"
            changes[broker].append(_Change(at_s, state, state))
    for broker, of_broker in changes.items():
        # The registration of a broker of a recorded cluster is no event, but its end may be.
        was_registered = of_broker[0].state == "away" if of_broker else broker in at_end
        first = "controller" if broker == first_controller else "registered" if was_registered else "away"
        of_broker.insert(0, _Change(0.0, first, first))
    return {f"broker {broker}": changes[broker] for broker in ids}


def _partitions(document: Document) -> tuple[dict[str, list[_Change]], dict[str, list[_Change]]]:
    """Return the leader, and the number of out-of-sync replicas, of each partition over time."""
    led: dict[str, list[_Change]] = {}
    in_sync: dict[str, list[_Change]] = {}
    wanted, states = _replicas(document), _states(document)
    seen: dict[str, frozenset[int]] = {}
    for _, partition, text in states:
        state = parse_state(text)
        seen[partition] = seen.get(partition, frozenset()) | frozenset(state.isr if state else ())
    for at_s, partition, text in states:
        state = parse_state(text)
        if state is None:
            led.setdefault(partition, []).append(_Change(at_s, "", ""))
            in_sync.setdefault(partition, []).append(_Change(at_s, "", ""))
            continue
        # The replicas of a partition that is deleted by the end are unknown: take all that were ever in sync.
        replicas = next((ids for until_s, ids in wanted.get(partition, ()) if at_s < until_s), seen[partition])
        missing = len(replicas - set(state.isr))
        leader = "no leader" if state.leader < 0 else f"broker {state.leader}"
        sync = "no leader" if state.leader < 0 else f"{missing} missing" if missing else "all"
        led.setdefault(partition, []).append(_Change(at_s, leader, text))
        in_sync.setdefault(partition, []).append(_Change(at_s, sync, text))
    return led, in_sync


def _replicas(document: Document) -> dict[str, list[tuple[float, frozenset[int]]]]:
    """Return the assigned replicas of each partition over time, each set with the time of its end."""
    found: dict[str, list[tuple[float, frozenset[int]]]] = {}
    for event in document["timeline"]:
        before = _target(event["before"])
        if event["what"] in ("reassignment", "reassigned") and before:
            found.setdefault(event["subject"], []).append((event["at_us"] / 1e6, before))
    for partition in document["partitions"]:
        name = f"{partition['topic']}-{partition['partition']}"
        found.setdefault(name, []).append((inf, frozenset(partition["replicas"])))
    return found


def _target(text: str) -> frozenset[int]:
    """Return the target replicas of an assignment in an event, such as `[1, 2, 3] adding [1] removing [3]`."""
    lists = [frozenset(map(int, numbers.split(", "))) for numbers in re.findall(r"\[(\d[\d, ]*)\]", text)]
    removing = lists[-1] if " removing " in text else frozenset[int]()
    return lists[0] - removing if lists else frozenset()


def _states(document: Document) -> list[tuple[float, str, str]]:
    """Return (begin, partition, state as text) of each state of each partition; an empty state for a deleted one."""
    found: list[tuple[float, str, str]] = []
    known: dict[str, None] = {}
    for event in document["timeline"]:
        at_s, subject = event["at_us"] / 1e6, event["subject"]
        if event["what"] == "topic deleted":
            gone = [partition for partition in known if partition.rpartition("-")[0] == subject]
            found += [(at_s, partition, "") for partition in gone]
            for partition in gone:
                del known[partition]
        elif parse_state(event["after"]) is not None:
            if subject not in known and event["before"]:
                found.append((0.0, subject, event["before"]))
            known[subject] = None
            found.append((at_s, subject, event["after"]))
    for partition in document["partitions"]:
        name = f"{partition['topic']}-{partition['partition']}"
        if name not in known and "leader" in partition:
            leader = "none" if partition["leader"] < 0 else partition["leader"]
            found.append((0.0, name, f"leader {leader} epoch {partition['leader_epoch']} isr {partition['isr']}"))
    return sorted(found, key=lambda one: (one[1].rpartition("-")[0], int(one[1].rpartition("-")[2]), one[0]))
