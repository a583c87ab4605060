"""Figures of a benchmark: printed as one line each, and written as JSON to compare later.

A figure has a value and a unit. It may have a demand, at most or at least, and a physical limit: the cost of moving the
same bytes on this machine by the simplest means. `python -m benchmarks.compare` compares two files.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.machine import machine
from benchmarks.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Limit(NamedTuple):
    """Physical limit of a figure in its unit, and what was measured for it."""

    value: float
    of: str


class Figure(NamedTuple):
    """One figure; `at_most`, `at_least` and `limit` are None if it has none."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    limit: Limit | None = None

    def demands(self) -> dict[str, tuple[float, bool]]:
        """Return whether the figure meets its limits, as text."""
        found = {}
        if self.at_most is not None:
            found["at_most"] = self.at_most, self.value <= self.at_most
        if self.at_least is not None:
            found["at_least"] = self.at_least, self.value >= self.at_least
        return found

    def line(self) -> str:
        """Return the figure as text."""
        text = f"{self.name}: {self.value:,g} {self.unit}"
        for side, (demanded, holds) in self.demands().items():
            words = side.replace("_", " ")
            text += f" {verdict(f'{words} {demanded:,g}', holds)}"
        if self.limit is not None:
            times = f", {self.value / self.limit.value:.1f} times" if self.limit.value else ""
            text += f"\n    limit {self.limit.value:,g} {self.unit}{times}: {self.limit.of}"
        return text

    def entry(self) -> dict[str, object]:
        """Return the figure as JSON values."""
        kept: dict[str, object] = {"value": self.value, "unit": self.unit}
        for side, (demanded, holds) in self.demands().items():
            kept |= {f"demanded_{side}": demanded, "holds": holds}
        if self.limit is not None:
            kept |= {"limit": self.limit.value, "limit_of": self.limit.of}
        return kept


def write_figures(benchmark: str, figures: list[Figure], details: Mapping[str, object], file: Path | None) -> None:
    """Print the figures, and write them with their details if there is a file."""
    on = machine()
    print(on)
    for figure in figures:
        print(figure.line())
    if file is not None:
        kept = {
            "benchmark": benchmark,
            "machine": on,
            "figures": {figure.name: figure.entry() for figure in figures},
            "details": details,
        }
        file.write_text(json.dumps(kept, indent=2) + "\n")


def medians(arms: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """The arms in turn, so many rounds after one that does not count: the median of each.

    Milliseconds of the processor, which a busy machine shows the same, and of the wall.
    """
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    for turn in range(rounds + 1):
        for name, run in arms.items():
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            run()
            if turn > 0:
                taken[name].append(((time.process_time() - cpu_s) * 1e3, (time.perf_counter() - wall_s) * 1e3))
    return {
        name: {
            "cpu_ms": round(statistics.median(cpu for cpu, _ in rounds_taken), 3),
            "wall_ms": round(statistics.median(wall for _, wall in rounds_taken), 3),
        }
        for name, rounds_taken in taken.items()
    }
