"""Many runs: which they are, and what they came to: how often each thing failed, how each number is distributed.

Rules of this module:
  - a run is a function of (scenario, seed, Kafka version), so whoever plays it, wherever, gets the same result;
  - a number is told by its order over the runs, nearest rank: each figure is one that some run had;
  - a run without events of a kind had none of them; an expectation that failed settled at no time;
  - the seed beside a row is the first one that shows it: the smallest of those with the largest number.

What runs came to, as lines on a screen.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simzk.scenarios.reader import read_scenario
from simzk.scenarios.results import play_scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simzk.scenarios.reader import Scenario
    from simzk.scenarios.report_text import Line
    from simzk.scenarios.results import Result

HELD, FAILED, EVENTS, SETTLED_MS = "held", "failed", "events", "settled_ms"


class Run(NamedTuple):
    """One run to play.

    Args:
        number: its place among the runs.
        file: the scenario, as its user named it.
        path: the same, wherever the working directory is.
        seed: of the run.
        version: of Kafka; empty for the scenario's own.
    """

    number: int
    file: str
    path: str
    seed: int
    version: str


def plan_runs(files: Iterable[str], seed: int | None, seeds: int | None, version: str) -> list[Run]:
    """Every file with every seed, file by file; all files are checked.

    Args:
        files: the scenarios.
        seed: the first seed; None for the file's own, or for 1 where there are several.
        seeds: how many there are; None for one.
        version: of Kafka; empty for the scenarios' own.

    Raises:
        ScenarioError: a file that cannot be played.
    """
    runs: list[Run] = []
    for file in files:
        own = read_scenario(file).seed
        first = seed if seed is not None else own if seeds is None else 1
        path = os.path.abspath(file)
        runs += [Run(len(runs) + n, file, path, first + n, version) for n in range(seeds or 1)]
    return runs


def play_run(run: Run, *, documented: bool) -> Result:
    """Play one; `documented` for a result with its document."""
    status = os.stat(run.path)
    scenario = replace(_scenario(run.path, status.st_mtime_ns, status.st_size), path=Path(run.file))
    return play_scenario(scenario, run.seed, run.version, documented=documented)


@lru_cache(maxsize=16)
def _scenario(path: str, mtime_ns: int, size: int) -> Scenario:
    return read_scenario(path)


class OutcomeRow(NamedTuple):
    """One thing that runs of a scenario had, or came to.

    Args:
        file: the scenario.
        kind: `held`, `failed` (`name` is what), `events` (how many of kind `name` a run had) or `settled_ms` (when
            expectation `name` held, in ms of virtual time).
        name: empty for `held`.
        runs: how many had it: held, failed in this, had such an event, settled this.
        of: how many runs there were.
        least, median, p90, p99, most: of the number, over all runs (of `settled_ms` over those that settled); None
            where there is no number.
        seed: of the first run that has it; of the largest number, the first that has that.
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
    """The distribution of what runs came to, file by file in the order of the runs.

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
    return OutcomeRow(file, kind, name, runs, of, least, median, p90, p99, most, seed)


def _rank(count: int, percent: int) -> int:
    """The place of a percentile among `count` ordered numbers, by nearest rank.

    >>> [_rank(10, percent) for percent in (0, 50, 90, 99, 100)]
    [0, 4, 8, 9, 9]
    """
    return max(-(-count * percent // 100) - 1, 0)


_NUMBERS = {EVENTS: "events a run", SETTLED_MS: "expectations: held at, ms of virtual time"}
_HEADINGS = ("least", "median", "p90", "p99", "most", "seed")
_NAME_WIDTH, _WIDTH = 60, 9


def distribution(rows: Iterable[OutcomeRow]) -> list[Line]:
    """Tell how often each thing failed, and the order of each number over the runs; a seed that shows the most."""
    lines: list[Line] = []
    file, kind = "", ""
    for row in rows:
        if row.file != file:
            file, kind = row.file, ""
            lines.append([(f"{file}: {row.of:,} runs", "bold")])
        if row.kind in (HELD, FAILED):
            told, style = ("hold", "green") if row.kind == HELD else (f"fail in {row.name}, seed {row.seed}", "red")
            lines.append([(f"  {row.runs:,} ({row.runs / row.of:.2%}) {told}", style)])
            continue
        if row.kind != kind:
            kind = row.kind
            headings = "".join(heading.rjust(_WIDTH) for heading in _HEADINGS)
            lines.append([(f"  {_NUMBERS[kind]:<{_NAME_WIDTH}}{headings}", "bold")])
        numbers = (row.least, row.median, row.p90, row.p99, row.most, row.seed)
        name = row.name if len(row.name) < _NAME_WIDTH - 2 else f"{row.name[: _NAME_WIDTH - 5]}..."
        lines.append([(f"    {name:<{_NAME_WIDTH - 2}}{''.join(f'{number:>{_WIDTH},}' for number in numbers)}", "")])
    return lines
