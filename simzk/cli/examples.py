"""`simzk examples` and `simzk new`: list the scenarios that ship with simzk, and copy one to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simzk.cli.commands import complete_scenario
from simzk.cli.console import JsonOut, console, escape, fact_table, text_output, write_json


def examples(json_out: JsonOut = None) -> None:
    """List the scenarios that ship with simzk: `simzk run NAME` plays one, `simzk new NAME` copies one."""
    from simzk.scenarios.examples import examples as shipped

    found = shipped()
    write_json(json_out, [{"name": one.name, "title": one.title, "file": str(one.path)} for one in found])
    with text_output(json_out):
        console().print(fact_table("Scenarios", ((one.name, escape(one.title)) for one in found)))


def new(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of a scenario that simzk examples lists.", metavar="NAME", autocompletion=complete_scenario
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write.", show_default="NAME.toml in this folder", metavar="FILE"),
    ] = None,
    json_out: JsonOut = None,
) -> None:
    """Copy a scenario that ships with simzk, to begin your own with."""
    from simzk.scenarios.examples import copy_example, find_example

    example = find_example(name)
    files = copy_example(example, Path(example.path.name) if out is None else out)
    write_json(json_out, {"name": example.name, "files": [str(file) for file in files]})
    with text_output(json_out):
        typer.echo(f"wrote {' and '.join(map(str, files))}; play it with: simzk run {files[0]}")
