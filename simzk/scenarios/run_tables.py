"""Tables of a run's page, from its document and its log of znodes (`simzk run --json`).

Rules of this module:
  - states are derived from events: a broker or partition keeps its state from one event to the next;
  - a cluster that starts from a recording has states without a first event: they are the `before` of the first event,
    or the state at the end;
  - the end of a pause or of a cut link is no event if the fault has a duration: it is computed from the duration.
"""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.kafka.observation.observer import parse_state
from simzk.report.run_page import RunTables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simzk.report.table import Columns

Document = dict[str, Any]
END_MARGIN = 0.02
"""Share of the run that is added after its end, so that a change at the end is visible."""
SPAN = ("row", "from_s", "until_s", "state", "label", "text")

UP, STUCK, DEAD = "up", "paused or cut off", "dead"
REGISTERED, LEADS = "registered", "controller"
PREFERRED, OTHER, NO_LEADER = "preferred leader", "other leader", "no leader"
IN_SYNC, OUT_OF_SYNC = "all in sync", "replicas missing"


class _Change(NamedTuple):
    """The state of a row from `at_s` on, with its description and the short text in its bar; no state if empty."""

    at_s: float
    state: str
    label: str
    text: str = ""


def tables_of(document: Document, znodes: Document | None = None) -> RunTables:
    """Return the tables of a run.

    Args:
        document: a run of `simzk run --json`; with `end_us` it lasts at least as long.
        znodes: the `znodes` beside it; None if they were not logged.
    """
    logged = znodes or {}
    events = document["timeline"]
    verdicts = document["expectations"]
    last_s = max(
        [
            document.get("end_us", 0) / 1e6,
            *(event["at_us"] / 1e6 for event in events),
            *(v["at_us"] / 1e6 for v in verdicts),
        ]
    )
    end_s = last_s * (1 + END_MARGIN)
    led, in_sync = _partitions(document)
    return RunTables(
        title=document["title"],
        heading=f"{document['file']}, seed {document['seed']}, Kafka {document['kafka_version']}",
        held=document["held"],
        outcome=document["crash"] or _outcome(verdicts, len(document["violations"])),
        replay=document["replay"],
        expectations={
            "held": [verdict["held"] for verdict in verdicts],
            "at, s": [verdict["at_us"] / 1e6 for verdict in verdicts],
            "line": [verdict["line"] for verdict in verdicts],
            "expectation": [verdict["name"] for verdict in verdicts],
            "failures": ["; ".join(verdict["failures"]) for verdict in verdicts],
        },
        violations=_violations(document["violations"]),
        brokers=_spans(_processes(document), end_s),
        sessions=_spans(_sessions(document), end_s),
        controllers=_spans(_controllers(document), end_s),
        leaders=_spans(led, end_s),
        in_sync=_spans(in_sync, end_s),
        marks=_marks(document),
        events={
            "at, s": [event["at_us"] / 1e6 for event in events],
            **{name: [event[name] for event in events] for name in ("who", "what", "subject", "before", "after")},
            "kind": [_kind(event) for event in events],
        },
        end_s=end_s,
        why=document.get("why", ""),
        faults=document["faults"] or "",
        rest=document.get("rest", f"{document['replay']} --json OUT"),
        topics=_topics(document),
        znodes_at_start=logged.get("at_start", {}),
        znode_changes=_znode_changes(logged.get("changes", ())),
    )


def _outcome(verdicts: Sequence[Mapping[str, Any]], violations: int) -> str:
    count, failed = len(verdicts), sum(not verdict["held"] for verdict in verdicts)
    parts = []
    if failed:
        parts.append(f"{failed} of {count} expectation{'s' * (count != 1)} failed.")
    if violations:
        parts.append(f"{violations} invariant violation{'s' * (violations != 1)}.")
    return " ".join(parts) or f"All {count} expectations held."


def _violations(violations: Sequence[Mapping[str, Any]]) -> Columns:
    if not violations:
        return {}
    events = [violation["event"] for violation in violations]
    return {
        "at, s": [event["at_us"] / 1e6 for event in events],
        "invariant": [violation["invariant"] for violation in violations],
        "detail": [violation["detail"] for violation in violations],
        "event": [
            " ".join(event[key] for key in ("who", "what", "subject", "after") if event[key]) for event in events
        ],
    }


def _topics(document: Document) -> list[str]:
    subjects = (event["subject"] for event in document["timeline"] if parse_state(event["after"]) is not None)
    names = {subject.rpartition("-")[0] for subject in subjects}
    return sorted(names | {partition["topic"] for partition in document["partitions"]})


def _znode_changes(rows: Sequence[Mapping[str, Any]]) -> Columns:
    return {
        "at, s": [row["at_us"] / 1e6 for row in rows],
        "path": [row["path"] for row in rows],
        "data": [row["data"] for row in rows],
    }


_KINDS = (
    ("leader", ("leader lost", "leader moved", "leader elected", "epoch raised")),
    ("ISR", ("ISR shrunk", "ISR expanded", "ISR change refused", "ISR change dropped")),
    ("controller", ("elected", "ready", "resigned", "fenced", "controller gone", "doubtful")),
)
_KIND_OF = {what: kind for kind, whats in _KINDS for what in whats}
_COMPONENTS = {"operator": "step", "expectation": "expectation", "fault": "fault"}


def _kind(event: Mapping[str, str]) -> str:
    """Return the kind of an event, by which the page filters."""
    who, what = event["who"], event["what"]
    if who in _COMPONENTS:
        return _COMPONENTS[who]
    if what.startswith("fault: "):
        return "fault"
    return _KIND_OF.get(what) or ("broker" if who.startswith("broker ") and not event["subject"] else "metadata")


def _marks(document: Document) -> Columns:
    """Return the marks of steps, faults, expectations and violations on the time axis."""
    marks: list[tuple[object, ...]] = []
    for event in document["timeline"]:
        at_s, kind = event["at_us"] / 1e6, _kind(event)
        if kind == "expectation":
            failed = bool(event["after"])
            said = f"{event['subject']}: {event['after']}" if failed else event["subject"]
            marks.append((at_s, "failed" if failed else "held", said))
        elif kind in ("step", "fault"):
            who = () if event["who"] in _COMPONENTS else (event["who"],)
            marks.append((at_s, kind, " ".join([*who, event["what"], event["subject"], event["after"]]).strip()))
    for violation in document["violations"]:
        at_s = violation["event"]["at_us"] / 1e6
        marks.append((at_s, "violation", f"{violation['invariant']}: {violation['detail']}"))
    return {name: [mark[at] for mark in marks] for at, name in enumerate(("at_s", "kind", "label"))}


def _spans(changes: Mapping[str, Sequence[_Change]], end_s: float) -> Columns:
    """Return the spans of each row: its state from each change to the next."""
    spans: list[tuple[object, ...]] = []
    for row, of_row in changes.items():
        ends = [*(change.at_s for change in of_row[1:]), end_s]
        assert of_row[0].at_s >= 0, f"{row} begins before the run"
        for change, until_s in zip(of_row, ends, strict=True):
            if change.state and until_s > change.at_s:
                spans.append((row, change.at_s, until_s, change.state, change.label, change.text))
    return {name: [span[at] for span in spans] for at, name in enumerate(SPAN)}


def _broker_ids(document: Document) -> list[int]:
    acting = (int(e["who"].split()[1]) for e in document["timeline"] if e["who"].startswith("broker "))
    return sorted({*acting, *document["brokers"]})


def _broker_name(document: Document, broker: int) -> str:
    rack = document.get("racks", {}).get(str(broker))
    return f"broker {broker} ({rack})" if rack else f"broker {broker}"


_ALIVE_AFTER = {"started": True, "killed": False, "stopped": False, "halted": False, "power lost": False}
"""Events of a broker's process, and whether it runs after them."""


class _Process:
    """The process of one broker over time, from events."""

    def __init__(self, *, alive: bool) -> None:
        self._turns: list[tuple[float, str]] = [(0.0, UP if alive else "")]
        self._stuck: list[tuple[float, float]] = []
        self._cut_s: float | None = None

    def observe(self, at_s: float, what: str, after: str) -> None:
        if what in _ALIVE_AFTER:
            self._turns.append((at_s, UP if _ALIVE_AFTER[what] else DEAD))
            self._end_pause(at_s)
        elif what == "paused":
            self._stuck.append((at_s, at_s + _duration_s(after)))
        elif what == "resumed":
            self._end_pause(at_s)

    def cut(self, at_s: float, duration_s: float) -> None:
        self._stuck.append((at_s, at_s + duration_s))
        self._cut_s = at_s

    def heal(self, at_s: float) -> None:
        if self._cut_s is not None:
            self._end_pause(at_s)
            self._cut_s = None

    def _end_pause(self, at_s: float) -> None:
        self._stuck = [(begin, min(end, at_s)) for begin, end in self._stuck]

    def changes(self) -> list[_Change]:
        times = sorted({at_s for at_s, _ in self._turns} | {edge for pair in self._stuck for edge in pair} - {inf})
        found: list[_Change] = []
        for at_s in times:
            state = [state for begin, state in self._turns if begin <= at_s][-1]
            if state == UP and any(begin <= at_s < end for begin, end in self._stuck):
                state = STUCK
            if not found or found[-1].state != state:
                found.append(_Change(at_s, state, state))
        return found


def _duration_s(text: str) -> float:
    """Return the seconds in a text such as `for 20 s` or `for 1.5s`; infinity if it has none."""
    found = re.search(r"for ([\d.e+-]+) ?s", text)
    return float(found[1]) if found else inf


def _processes(document: Document) -> dict[str, list[_Change]]:
    """Return the states of broker processes: up, paused or cut off, dead."""
    of_brokers = [event for event in document["timeline"] if event["who"].startswith("broker ")]
    first = {int(event["who"].split()[1]): event["what"] for event in reversed(of_brokers)}
    found = {broker: _Process(alive=first.get(broker) != "started") for broker in _broker_ids(document)}
    for event in document["timeline"]:
        who, what, at_s = event["who"], event["what"], event["at_us"] / 1e6
        if who.startswith("broker "):
            found[int(who.split()[1])].observe(at_s, what, event["after"])
        elif who in ("operator", "fault"):
            _observe_network(found, at_s, what, _duration_s(event["after"]))
    return {_broker_name(document, broker): process.changes() for broker, process in found.items()}


def _observe_network(processes: Mapping[int, _Process], at_s: float, what: str, duration_s: float) -> None:
    """Observe a step or fault that cuts a broker off or connects it again."""
    if what.startswith(("heal all", "heals everything")):
        for process in processes.values():
            process.heal(at_s)
        return
    named = re.match(r"(cut|cuts off|heal) broker (\d+)", what)
    if named is not None and int(named[2]) in processes:
        process = processes[int(named[2])]
        if named[1] == "heal":
            process.heal(at_s)
        else:
            process.cut(at_s, duration_s)


def _sessions(document: Document) -> dict[str, list[_Change]]:
    """Return when each broker was registered in ZooKeeper, by an ephemeral znode of its session."""
    changes: dict[int, list[_Change]] = {broker: [] for broker in _broker_ids(document)}
    for event in document["timeline"]:
        if event["what"] in ("registered", "registration gone"):
            state = REGISTERED if event["what"] == "registered" else ""
            changes[int(event["who"].split()[1])].append(_Change(event["at_us"] / 1e6, state, state))
    for broker, of_broker in changes.items():
        # The registration of a broker of a recorded cluster is no event, but its end may be.
        was_registered = not of_broker[0].state if of_broker else broker in document["brokers"]
        first = REGISTERED if was_registered else ""
        of_broker.insert(0, _Change(0.0, first, first))
    return {_broker_name(document, broker): changes[broker] for broker in changes}


def _controllers(document: Document) -> dict[str, list[_Change]]:
    """Return the controller over time, as one row."""
    # The election of the controller of a recorded cluster is no event, but its actions are.
    first = next((e for e in document["timeline"] if e["who"].startswith("controller ")), None)
    controller: str = "" if document["controller"] is None else str(document["controller"])
    if first is not None:
        controller = "" if first["what"] == "elected" else first["who"].split()[1]
    changes = [_Change(0.0, LEADS if controller else "", f"broker {controller}", controller)]
    for event in document["timeline"]:
        if event["what"] == "elected" and event["who"].startswith("controller "):
            broker = event["who"].split()[1]
            changes.append(_Change(event["at_us"] / 1e6, LEADS, f"broker {broker}, {event['after']}", broker))
        elif event["what"] == "controller gone":
            changes.append(_Change(event["at_us"] / 1e6, "", ""))
    return {"controller": changes}


def _partitions(document: Document) -> tuple[dict[str, list[_Change]], dict[str, list[_Change]]]:
    """Return the leader, and whether replicas are out of sync, of each partition over time."""
    led: dict[str, list[_Change]] = {}
    in_sync: dict[str, list[_Change]] = {}
    wanted, states = _replicas(document), _states(document)
    seen: dict[str, dict[int, None]] = {}
    for _, partition, text in states:
        state = parse_state(text)
        seen.setdefault(partition, {}).update(dict.fromkeys(state.isr if state else ()))
    for at_s, partition, text in states:
        state = parse_state(text)
        if state is None:
            led.setdefault(partition, []).append(_Change(at_s, "", ""))
            in_sync.setdefault(partition, []).append(_Change(at_s, "", ""))
            continue
        # The replicas of a partition that is deleted by the end are unknown: use all that were ever in sync.
        replicas = next((ids for until_s, ids in wanted.get(partition, ()) if at_s < until_s), tuple(seen[partition]))
        missing = sorted(set(replicas) - set(state.isr))
        is_preferred = bool(replicas) and state.leader == replicas[0]
        leader = NO_LEADER if state.leader < 0 else PREFERRED if is_preferred else OTHER
        number = "" if state.leader < 0 else str(state.leader)
        lacks = f"; missing: {', '.join(map(str, missing))}" if missing else ""
        sync = NO_LEADER if state.leader < 0 else OUT_OF_SYNC if missing else IN_SYNC
        led.setdefault(partition, []).append(_Change(at_s, leader, text, number))
        members = ",".join(map(str, state.isr))
        in_sync.setdefault(partition, []).append(_Change(at_s, sync, f"ISR {list(state.isr)}{lacks}", members))
    assert led.keys() == in_sync.keys(), "both charts have the same partitions"
    return led, in_sync


def _replicas(document: Document) -> dict[str, list[tuple[float, tuple[int, ...]]]]:
    """Return the assigned replicas of each partition over time, each list with the time of its end."""
    found: dict[str, list[tuple[float, tuple[int, ...]]]] = {}
    for event in document["timeline"]:
        before = _target(event["before"])
        if event["what"] in ("reassignment", "reassigned") and before:
            found.setdefault(event["subject"], []).append((event["at_us"] / 1e6, before))
    for partition in document["partitions"]:
        name = f"{partition['topic']}-{partition['partition']}"
        found.setdefault(name, []).append((inf, tuple(partition["replicas"])))
    return found


def _target(text: str) -> tuple[int, ...]:
    """Return the target replicas of an assignment in an event, such as `[1, 2, 3] adding [1] removing [3]`."""
    lists = [tuple(map(int, numbers.split(", "))) for numbers in re.findall(r"\[(\d[\d, ]*)\]", text)]
    removing = lists[-1] if " removing " in text else ()
    return tuple(broker for broker in lists[0] if broker not in removing) if lists else ()


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
