"""Command line: one thin module per command.

Rules of this package:
  - a command is a row of `COMMANDS`; its module is imported only when the command runs or its help is shown;
  - a user's mistake is reported as one line on stderr with exit status 2, in `main` and nowhere else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, cast

from simzk.errors import SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "run": ("simzk.cli.run", "run"),
    "replay": ("simzk.cli.replay", "replay"),
    "layout": ("simzk.cli.layout.layout", "app"),
    "sweep": ("simzk.cli.sweep", "sweep"),
    "risk": ("simzk.cli.risk", "risk"),
    "report": ("simzk.cli.report", "report"),
    "timelines": ("simzk.cli.timelines", "timelines"),
}
"""Commands by name: the module, and the function or Typer app in it."""

PLAIN_COMMANDS = {"serve": ("simzk.cli.serve", "main")}
"""Commands that parse their own arguments, so that they start fast and need no extra package."""

EXTRAS = {
    "typer": "cli,kafka",
    "rich": "cli,kafka",
    "msgspec": "cli,kafka",
    "numpy": "cli,kafka",
    "pyarrow": "cli,layout",
    "pyspark": "cli,spark",
    "pandas": "cli,spark",
    "plotly": "cli,layout,report",
}
"""Extras of simzk that install each optional package."""

BAD_INPUT = 2


def main() -> None:
    """Run the command in `sys.argv`, and exit with its status."""
    try:
        if sys.argv[1:2] and sys.argv[1] in PLAIN_COMMANDS:
            sys.exit(run_plain(sys.argv[1], sys.argv[2:]))
        from simzk.cli.commands import make_app

        make_app()()
    except ModuleNotFoundError as error:
        extras = EXTRAS.get((error.name or "").partition(".")[0])
        if extras is None:
            raise
        _exit_with_error(f"{error.name} is not installed; this needs: pip install 'simzk[{extras}]'")
    except SimzkError as error:
        _exit_with_error(str(error))


def load(name: str) -> object:
    """Return the function of a command, or its app of subcommands."""
    module, attribute = COMMANDS[name]
    return getattr(import_module(module), attribute)


def run_plain(name: str, arguments: list[str]) -> int:
    """Run a command that parses its own arguments; return its exit status."""
    module, attribute = PLAIN_COMMANDS[name]
    command = cast("Callable[[list[str]], int]", getattr(import_module(module), attribute))
    return command(arguments)


def _exit_with_error(what: str) -> None:
    sys.stderr.write(f"simzk: error: {what}\n")
    sys.exit(BAD_INPUT)
