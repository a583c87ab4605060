"""Plan files: a fault plan as TOML, written to be edited by hand, and read with the errors of scenario files.

A plan names its seed and Kafka version, because the same faults under another seed are another run.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import field, structs

from simzk.errors import ConfigError
from simzk.kafka.releases.versions import kafka_version
from simzk.scenarios.faults.fault import Fault, FaultCheck
from simzk.scenarios.faults.plan import PLAN_KINDS, FaultPlan
from simzk.scenarios.source import Mistakes, Source, TomlTable, did_you_mean, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from simzk.scenarios.faults.fault import Setting


class PlanTable(TomlTable, kw_only=True):
    """A plan file; its faults are converted one by one."""

    seed: int
    safety: str
    liveness: str
    kafka_version: str = ""
    fault: list[dict[str, object]] = field(default_factory=list)


class SavedPlan(NamedTuple):
    """A plan with the run that it is for.

    Args:
        seed: the seed of everything random that is no fault.
        version: the Kafka version of all brokers; empty for the scenario's own.
        plan: the plan.
    """

    seed: int
    version: str
    plan: FaultPlan


class PlanFile:
    """A plan file, read and partly checked; `plan` checks it against the cluster of a scenario.

    Args:
        path: the file, as the user named it.

    Raises:
        ScenarioError: the file cannot be read, is not TOML, or its keys or values are invalid.
        SeveralMistakesError: the file has several mistakes.
    """

    def __init__(self, path: Path) -> None:
        self._source = source = Source(path)
        mistakes = Mistakes()
        table = None
        with mistakes:
            table = source.convert(source.document, PlanTable, ())
        faults = source.document.get("fault")
        self._faults: list[Fault] = []
        for index, fault in enumerate(faults if isinstance(faults, list) else ()):
            with mistakes:
                self._faults.append(_read_fault(source, fault, index))
        self._safety_us = self._liveness_us = 0
        self.version: str = ""
        if table is not None:
            with mistakes:
                self._safety_us = source.duration(table.safety, ("safety",), positive=True)
            with mistakes:
                self._liveness_us = source.duration(table.liveness, ("liveness",), positive=True)
            with mistakes:
                self.version = _version(source, table.kafka_version)
        mistakes.found.sort(key=lambda error: error.line)
        mistakes.report()
        assert table is not None
        self.seed: int = table.seed

    def plan(self, setting: Setting) -> FaultPlan:
        """Return the plan, checked against a cluster.

        Raises:
            ScenarioError: a fault cannot happen in the cluster, or begins after the end of the faults.
            SeveralMistakesError: several cannot.
        """
        mistakes = Mistakes()
        for index, fault in enumerate(self._faults):
            with mistakes:
                fault.check(FaultCheck(self._source, setting, ("fault", index), self._safety_us))
        mistakes.report()
        return FaultPlan(self._safety_us, self._liveness_us, ()).with_faults(tuple(self._faults))


def _read_fault(source: Source, table: object, index: int) -> Fault:
    at = ("fault", index)
    if not isinstance(table, dict):
        source.fail(at, "a fault is a table", "[[fault]]")
    kind = table.get("kind")
    if kind is None:
        source.fail(at, "the key kind is missing")
    if not isinstance(kind, str) or kind not in PLAN_KINDS:
        source.fail((*at, "kind"), f"unknown kind {kind!r}", did_you_mean(str(kind), PLAN_KINDS))
    return source.convert(table, PLAN_KINDS[kind], at)


def _version(source: Source, version: str) -> str:
    if version:
        try:
            kafka_version(version)
        except ConfigError as error:
            source.fail(("kafka_version",), error.what, error.right)
    return version


def write_plan(saved: SavedPlan, comments: Iterable[str] = ()) -> str:
    """Return the text of a plan file, below lines of comment."""
    plan = saved.plan
    lines = [f"# {comment}".rstrip() for comment in comments]
    lines.append(f"seed = {saved.seed}")
    if saved.version:
        lines.append(f"kafka_version = {_value(saved.version)}")
    lines += [f"safety = {_value(format_duration(plan.safety_us))}"]
    lines += [f"liveness = {_value(format_duration(plan.liveness_us))}"]
    for fault in plan.faults:
        lines += ["", "[[fault]]", *(f"{key} = {_value(value)}" for key, value in fault_fields(fault))]
    return "\n".join(lines) + "\n"


def fault_fields(fault: Fault) -> list[tuple[str, object]]:
    """Return the keys and values of a fault in a plan file, without those that have their default.

    >>> from simzk.scenarios.faults.brokers import Kill
    >>> fault_fields(Kill(kind="kill", at="3s", broker=1, duration="10s"))
    [('at', '3s'), ('kind', 'kill'), ('broker', 1), ('for', '10s')]
    """
    found = {
        info.encode_name: getattr(fault, info.name)
        for info in structs.fields(fault)
        if info.default is msgspec.NODEFAULT or getattr(fault, info.name) != info.default
    }
    return [(key, found.pop(key)) for key in ("at", "kind")] + [
        *((key, value) for key, value in found.items() if key != "for"),
        *((key, value) for key, value in found.items() if key == "for"),
    ]


def _value(value: object) -> str:
    """Return a value as TOML, which writes text, numbers, booleans and lists of them as JSON does."""
    return json.dumps(value)
