"""The command line: one thin module a command, loaded when it is asked for.

Rules of this room:
  - a command is a row of `COMMANDS`; its module is imported only when it runs or when its help is shown;
  - whatever a user got wrong is one line on stderr and exit 2, here and nowhere else.
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
    "layout": ("simzk.cli.layout.layout", "app"),
    "sweep": ("simzk.cli.sweep", "sweep"),
    "risk": ("simzk.cli.risk", "risk"),
    "report": ("simzk.cli.report.report", "report"),
    "timelines": ("simzk.cli.timelines", "timelines"),
}
"""Where each command stands: a module, and in it a function or an app of its own."""

PLAIN_COMMANDS = {"serve": ("simzk.cli.serve.serve", "main")}
"""Commands that parse their own arguments: they start at once, and on a bare install."""

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
"""Which extras bring a requirement that is not there."""

BAD_INPUT = 2


def main() -> None:
    """Run the command that `sys.argv` names, and exit with its status."""
    try:
        if sys.argv[1:2] and sys.argv[1] in PLAIN_COMMANDS:
            sys.exit(run_plain(sys.argv[1], sys.argv[2:]))
        from simzk.cli.commands import make_app

        make_app()()
    except ModuleNotFoundError as error:
        extras = EXTRAS.get((error.name or "").partition(".")[0])
        if extras is None:
            raise
        _complain(f"{error.name} is not installed; this needs: pip install 'simzk[{extras}]'")
    except SimzkError as error:
        _complain(str(error))


def load(name: str) -> object:
    """Return what stands behind a command: a function, or an app with commands of its own."""
    module, attribute = COMMANDS[name]
    return getattr(import_module(module), attribute)


def run_plain(name: str, arguments: list[str]) -> int:
    """Run a command that parses its own arguments; return its exit status."""
    module, attribute = PLAIN_COMMANDS[name]
    command = cast("Callable[[list[str]], int]", getattr(import_module(module), attribute))
    return command(arguments)


def _complain(what: str) -> None:
    sys.stderr.write(f"simzk: error: {what}\n")
    sys.exit(BAD_INPUT)
