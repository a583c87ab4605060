"""Many runs: their plan, the frequency of each failure, and the distribution of each number over the runs.

Rules of this module:
  - a run is a function of (scenario, seed, Kafka version), so every worker gets the same result;
  - percentiles are by nearest rank, so that each figure is one of some run;
  - a run without events of a kind counts as 0; an expectation that failed has no time;
  - the seed of a row is the smallest one with the largest number.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simzk.scenarios.examples import find_scenario
from simzk.scenarios.probes import PROBES
from simzk.scenarios.reader import read_scenario, read_scenarios
from simzk.scenarios.results import play_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.scenarios.faults.plan import FaultPlan
    from simzk.scenarios.reader import Scenario
    from simzk.scenarios.report_text import Line
    from simzk.scenarios.results import Result

HELD, FAILED, EVENTS, SETTLED_MS = "held", "failed", "events", "settled_ms"


class Run(NamedTuple):
    """One run to play.

    Args:
        number: its index among the runs.
        file: the scenario file, as the user named it.
        path: its absolute path.
        seed: the seed.
        version: the Kafka version; empty for the scenario's own.
        plan: its faults; None to draw them from the seed, if the scenario has faults.
        plan_file: the file of the plan; empty for none.
    """

    number: int
    file: str
    path: str
    seed: int
    version: str
    plan: FaultPlan | None = None
    plan_file: str = ""


def plan_runs(files: Iterable[str], seed: int | None, seeds: int | None, version: str) -> list[Run]:
    """Return the runs of every file with every seed, file by file, after checking all files.

    Args:
        files: the scenario files, or names of shipped ones.
        seed: the first seed; None for the seed of the file, or for 1 if `seeds` is given.
        seeds: number of consecutive seeds; None for one.
        version: the Kafka version; empty for the scenarios' own.

    Raises:
        ScenarioError: a file is invalid.
    """
    runs: list[Run] = []
    files = list(files)
    for file, scenario in zip(files, read_scenarios(files), strict=True):
        first = seed if seed is not None else scenario.seed if seeds is None else 1
        path = os.path.abspath(find_scenario(file))
        runs += [Run(len(runs) + n, file, path, first + n, version) for n in range(seeds or 1)]
    return runs


def play_run(run: Run, *, documented: bool) -> Result:
    """Play one run, and return its result, with its document if `documented`."""
    status = os.stat(run.path)
    scenario = replace(_scenario(run.path, status.st_mtime_ns, status.st_size), path=Path(run.file))
    return play_scenario(scenario, run.seed, run.version, documented=documented, plan=run.plan, plan_file=run.plan_file)


@lru_cache(maxsize=16)
def _scenario(path: str, mtime_ns: int, size: int) -> Scenario:
    return read_scenario(path)


def probes_of(results: Iterable[Result]) -> dict[str, int]:
    """Return the number of runs that reached each probe, also of those that none reached; empty without faults."""
    counts = Counter(name for result in results for name in result.probes)
    assert counts.keys() <= PROBES.keys()
    return {name: counts[name] for name in PROBES} if counts else {}


def probe_lines(probes: dict[str, int], runs: int) -> list[Line]:
    """Return the probes as lines of text: how many of the runs reached each."""
    title = f"probes, reached in how many of {runs:,} run{'s' * (runs != 1)}:"
    lines: list[Line] = [[(title, "bold")]] if probes else []
    return lines + [[(f"  {count:>7,}  {name}", "" if count else "yellow")] for name, count in probes.items()]


def records_of(results: Iterable[Result]) -> dict[str, int]:
    """Return what became of the records of all runs together, by name."""
    counts = Counter[str]()
    for result in results:
        counts.update(result.records)
    return dict(sorted(counts.items()))


class OutcomeRow(NamedTuple):
    """An outcome or a number of the runs of one scenario.

    Args:
        file: the scenario file.
        kind: `held`, `failed` (in `name`), `events` (number of events of kind `name` in a run) or `settled_ms` (virtual
            time in ms at which expectation `name` held).
        name: the failure, kind of event or expectation; empty for `held`.
        runs: number of runs that held, failed in `name`, had such an event or expectation.
        of: number of all runs.
        least, median, p90, p99, most: distribution of the number over the runs (of `settled_ms` over those where the
            expectation held); None for `held` and `failed`.
        seed: the smallest seed with this outcome, or with the largest number.
    """

    file: str
    kind: str
    name: str
    runs: int
    of: int
    least: int | None
    median: int | None
    p90: int | None
    p99: int | None
    most: int | None
    seed: int


def outcomes_of(results: Iterable[Result]) -> list[OutcomeRow]:
    """Return the outcomes and distributions of runs, file by file in the order of the runs.

    >>> from simzk.scenarios.results import Result
    >>> def run(seed: int, elected: int) -> Result:
    ...     events = {"leader elected": elected} if elected else {}
    ...     return Result("a.toml", seed, "3.9", (), "", "", events, {}, None)
    >>> for row in outcomes_of([run(1, 0), run(2, 7), run(3, 4)]):
    ...     print(row.kind, row.name, row.runs, row.of, row.least, row.median, row.most, row.seed)
    held  3 3 None None None 1
    events leader elected 2 3 0 4 7 2
    """
    by_file: dict[str, list[Result]] = {}
    for result in results:
        by_file.setdefault(result.file, []).append(result)
    return [row for file, of_file in by_file.items() for row in _of_file(file, of_file)]


def _of_file(file: str, results: Sequence[Result]) -> Iterable[OutcomeRow]:
    of = len(results)
    held = [result.seed for result in results if result.held]
    if held:
        yield OutcomeRow(file, HELD, "", len(held), of, None, None, None, None, None, min(held))
    failed: dict[str, list[int]] = {}
    for result in results:
        for name in result.failed:
            failed.setdefault(name, []).append(result.seed)
    for name, seeds in sorted(failed.items(), key=lambda one: (-len(one[1]), one[0])):
        yield OutcomeRow(file, FAILED, name, len(seeds), of, None, None, None, None, None, min(seeds))
    for name in sorted({name for result in results for name in result.events}):
        yield _numbers(file, EVENTS, name, of, [(result.events.get(name, 0), result.seed) for result in results])
    # In the order of the scenario.
    for name in dict.fromkeys(name for result in results for name in result.settled_us):
        settled = [(result.settled_us[name] // 1000, result.seed) for result in results if name in result.settled_us]
        yield _numbers(file, SETTLED_MS, name, of, settled)


def _numbers(file: str, kind: str, name: str, of: int, numbers: list[tuple[int, int]]) -> OutcomeRow:
    ordered = sorted(number for number, _ in numbers)
    runs = len(numbers) if kind == SETTLED_MS else sum(number > 0 for number in ordered)
    seed = min(seed for number, seed in numbers if number == ordered[-1])
    least, median, p90, p99, most = (ordered[_rank(len(ordered), percent)] for percent in (0, 50, 90, 99, 100))
    assert runs <= len(numbers) <= of, "a number is of a run"
    assert (least, most) == (ordered[0], ordered[-1])
    return OutcomeRow(file, kind, name, runs, of, least, median, p90, p99, most, seed)


def _rank(count: int, percent: int) -> int:
    """Return the index of a percentile among `count` sorted numbers, by nearest rank.

    >>> [_rank(10, percent) for percent in (0, 50, 90, 99, 100)]
    [0, 4, 8, 9, 9]
    """
    return max(-(-count * percent // 100) - 1, 0)


_NUMBERS = {EVENTS: "events per run", SETTLED_MS: "time at which expectations held, ms"}
_HEADINGS = ("least", "median", "p90", "p99", "most", "seed")
_NAME_WIDTH, _WIDTH = 60, 9


def distribution(rows: Iterable[OutcomeRow]) -> list[Line]:
    """Return the outcomes and distributions as lines of a table."""
    lines: list[Line] = []
    file, kind = "", ""
    for row in rows:
        if row.file != file:
            file, kind = row.file, ""
            lines.append([(f"{file}: {row.of:,} run{'s' * (row.of != 1)}", "bold")])
        if row.kind in (HELD, FAILED):
            text, style = ("held", "green") if row.kind == HELD else (f"failed: {row.name} (seed {row.seed})", "red")
            lines.append([(f"  {row.runs:,} ({row.runs / row.of:.2%}) {text}", style)])
            continue
        if row.kind != kind:
            kind = row.kind
            headings = "".join(heading.rjust(_WIDTH) for heading in _HEADINGS)
            lines.append([(f"  {_NUMBERS[kind]:<{_NAME_WIDTH}}{headings}", "bold")])
        numbers = (row.least, row.median, row.p90, row.p99, row.most, row.seed)
        name = row.name if len(row.name) < _NAME_WIDTH - 2 else f"{row.name[: _NAME_WIDTH - 5]}..."
        lines.append([(f"    {name:<{_NAME_WIDTH - 2}}{''.join(f'{number:>{_WIDTH},}' for number in numbers)}", "")])
    return lines
