"""Typer app of `simzk`, which imports a command on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from simzk import __version__
from simzk.cli import COMMANDS, PLAIN_COMMANDS, load, run_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.core import TyperCommand


class LazyGroup(TyperGroup):
    """A group that imports a command when it runs or its help is shown."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the table."""
        return [*COMMANDS, *PLAIN_COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Import and return a command; None if there is none of that name."""
        if cmd_name in PLAIN_COMMANDS:
            return _plain_command(cmd_name)
        if cmd_name not in COMMANDS:
            return None
        behind = load(cmd_name)
        if not isinstance(behind, typer.Typer):
            function = cast("Callable[..., None]", behind)
            behind = typer.Typer(add_completion=False)
            behind.command(cmd_name)(function)
        command = get_command(behind)
        command.name = cmd_name
        return cast("TyperCommand", command)


def _plain_command(name: str) -> TyperCommand:
    """Return a command that parses its own arguments, for the list of `simzk --help`."""
    module = import_module(PLAIN_COMMANDS[name][0])

    def run_it(ctx: typer.Context) -> None:
        raise typer.Exit(run_plain(name, ctx.args))

    app = typer.Typer(add_completion=False)
    app.command(name, help=(module.__doc__ or "").partition("\n")[0])(run_it)
    return cast("TyperCommand", get_command(app))


def make_app() -> typer.Typer:
    """Return the app of `simzk`."""
    app = typer.Typer(
        name="simzk",
        cls=LazyGroup,
        help="An in-memory ZooKeeper and a simulated Kafka cluster.",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"simzk {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Print the version and exit."
    ),
) -> None:
    """An in-memory ZooKeeper and a simulated Kafka cluster, with faults on demand and repeatable runs."""
