"""`simzk replay`: replay a recorded real Kafka cluster on the simulation, and report the differences of each step.

Exit status: 0 if all steps are equal, apart from allowed differences; 1 if a step differs; 2 for invalid input.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (typer reads the annotation)
from typing import Annotated

import typer

from simzk.cli.console import JsonOut, Progress, text_output, write_text


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
    from simzk.kafka.replay.report import replay as play

    with Progress() as progress:
        report = play(
            recording,
            version=kafka_version,
            seed=seed,
            on_progress=lambda done, steps: progress.show(f"{done} of {steps} steps", done / steps),
        )
    if json_out is not None:
        write_text(json_out, report.to_json() + "\n")
    with text_output(json_out):
        typer.echo(report.to_text())
    raise typer.Exit(0 if report.equal else 1)
