"""Report of a replay: the differences of each step, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.kafka.zookeeper_mode.replay.player import Player
from simzk.kafka.zookeeper_mode.replay.recorded_run import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from simzk.kafka.zookeeper_mode.replay.player import StepReport


@dataclass(frozen=True)
class ReplayReport:
    """Result of a replay.

    Attributes:
        recording: the folder of the recording.
        recorded_version: Kafka release of the real cluster.
        version: Kafka release of the simulated cluster.
        steps: the steps in order, each with its differences.
    """

    recording: str
    recorded_version: str
    version: str
    steps: tuple[StepReport, ...]

    @property
    def equal(self) -> bool:
        """Whether all steps are equal, apart from allowed differences."""
        return all(step.equal for step in self.steps)

    def to_text(self) -> str:
        """Return the report as lines of text: each step, then its differences."""
        lines = []
        for step in self.steps:
            lines.append(f"{'equal' if step.equal else 'different':<9} {step.name}")
            lines += [f"    {line}" for line in step.lines()]
        count = sum(step.equal for step in self.steps)
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return "\n".join([*lines, f"{count} of {steps} equal (Kafka {self.version})"])

    def to_json(self) -> str:
        """Return the report as a JSON object."""
        runs = {"recording": self.recording, "recorded_version": self.recorded_version, "version": self.version}
        steps = [
            {
                "step": step.name,
                "equal": step.equal,
                "problems": list(step.problems),
                "tree": [one._asdict() for one in step.tree],
                "transactions": [one._asdict() for one in step.transactions],
            }
            for step in self.steps
        ]
        return json.dumps(runs | {"equal": self.equal, "steps": steps}, indent=1)


def replay(
    folder: Path,
    *,
    version: str | None = None,
    seed: int = 0,
    on_progress: Callable[[ReplayReport, int], None] = lambda _done, _of: None,
) -> ReplayReport:
    """Replay a recording and compare each step: `simzk.replay`, with its arguments and errors.

    Args:
        folder, version, seed: as of `simzk.replay`.
        on_progress: called before the first and after each step, with the report of the finished steps and the number
            of all.
    """
    run = load(folder)
    chosen = version or run.version
    player = Player(run, chosen, seed)
    steps: list[StepReport] = []

    def report() -> ReplayReport:
        return ReplayReport(str(folder), run.version, chosen, tuple(steps))

    with player.cluster:
        on_progress(report(), len(run.steps))
        for step in player.play():
            steps.append(step.report())
            on_progress(report(), len(run.steps))
    return report()
