"""`simzk replay`: replay a recorded real Kafka cluster on the simulation, and report the differences of each step.

Exit status: 0 if all steps are equal, apart from allowed differences; 1 if a step differs; 2 for invalid input; 130
after Ctrl-C, with the report of the steps so far.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (typer reads the annotation)
from typing import TYPE_CHECKING, Annotated

import typer

from simzk.cli.console import JsonOut, Progress, exit_interrupted, text_output, write_text
from simzk.printable import printable_lines

if TYPE_CHECKING:
    from simzk.kafka.zookeeper_mode.replay.report import ReplayReport


def replay(
    recording: Annotated[
        Path, typer.Argument(help="Folder with meta.json, dumps.json and txns.json.", metavar="RECORDING")
    ],
    kafka_version: Annotated[
        str | None,
        typer.Option(help="Kafka version of the simulated cluster.", show_default="that of the recording", metavar="V"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the remaining random choices.")] = 0,
    json_out: JsonOut = None,
) -> None:
    """Replay a recorded real Kafka cluster on the simulation, and compare each step."""
    from simzk.kafka.zookeeper_mode.replay.report import replay as play

    compared: ReplayReport | None = None
    count = 0
    is_interrupted = False
    with Progress() as progress:

        def note(report: ReplayReport, steps: int) -> None:
            nonlocal compared, count
            compared, count = report, steps
            progress.show(f"{len(report.steps)} of {steps} steps", len(report.steps) / steps)

        try:
            compared = play(recording, version=kafka_version, seed=seed, on_progress=note)
        except KeyboardInterrupt:
            if compared is None:  # the recording is still being read
                raise
            is_interrupted = True
    if json_out is not None:
        write_text(json_out, compared.to_json() + "\n")
    with text_output(json_out):
        typer.echo(printable_lines(compared.to_text()))
    if is_interrupted:
        exit_interrupted(f"{len(compared.steps)} of {count} steps are compared")
    raise typer.Exit(0 if compared.equal else 1)
