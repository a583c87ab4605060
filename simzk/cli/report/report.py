"""`simzk report`: one HTML page from the output directories of other commands."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simzk.pipeline.saved import Saved
    from simzk.report.saved_page import RiskTables, SwarmTables, SweepTables, TimelinesTables


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            help="Output directories of simzk timelines, sweep, risk or run --out; all go into one page.",
            metavar="DIR...",
        ),
    ],
    html: Annotated[Path, typer.Option("--html", help="HTML file to write; replaced if it exists.", metavar="OUT")],
) -> None:
    """Make one self-contained HTML page of timelines, sweeps, risks and swarms."""
    from simzk.cli.console import Progress
    from simzk.errors import ConfigError
    from simzk.pipeline.saved import find_saved
    from simzk.report.saved_page import to_html

    found = [saved for directory in directories for saved in find_saved(directory)]  # check all before reading any
    progress = Progress()
    tables = []
    try:
        for saved in found:
            progress.show(f"reading {saved.directory}")
            tables.append(_tables(saved))
    finally:
        progress.close()
    page = to_html(tables)
    try:
        html.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the file: {error.strerror}", where=str(html)) from None
    typer.echo(f"wrote {html}: {', '.join(saved.kind for saved in found)}")


def _tables(saved: Saved) -> TimelinesTables | SweepTables | RiskTables | SwarmTables:
    if saved.kind == "timelines":
        from simzk.cli.report.timelines import timelines_tables

        return timelines_tables(saved)
    if saved.kind == "sweep":
        from simzk.cli.report.sweep import sweep_tables

        return sweep_tables(saved)
    from simzk.cli.report.risk import risk_tables, swarm_tables

    return risk_tables(saved) if saved.kind == "risk" else swarm_tables(saved)
