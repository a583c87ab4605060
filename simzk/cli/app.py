"""Typer app of `simzk`, which imports a command when it runs or its help is shown."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from simzk import __version__
from simzk.cli.arguments import usage_problem
from simzk.cli.commands import COMMANDS, DESCRIPTION, complete_release, load, run_plain

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable


_USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__mro__[1])
"""Error of arguments; releases of Typer import it from different places."""


class LazyGroup(TyperGroup):
    """A group that imports a command when it runs or its help is shown; the list of commands needs no import."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Return a command with its summary only; None if there is none of that name."""
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].summary) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments name; return its name, the command and its arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else whole_command(name), rest


def whole_command(name: str) -> Any:
    """Import and return a command with its options, or a group of commands."""
    row = COMMANDS[name]
    parser = import_module(row.module).make_parser() if row.parses_arguments else None
    behind = load(name) if parser is None else _with_options_of(name, parser)
    if not isinstance(behind, typer.Typer):
        function = cast("Callable[..., None]", behind)
        behind = typer.Typer(add_completion=False)
        behind.command(name, epilog=example_text(row.example))(function)
    command = get_command(behind)
    command.name = name
    return command


def example_text(command_line: str) -> str:
    """Return the last paragraph of a command's help."""
    return f"Example: {command_line}"


def _with_options_of(name: str, parser: ArgumentParser) -> Callable[..., None]:
    """Return the function of a command that parses its own arguments, with its options, for completion in a shell."""

    def run_it(ctx: typer.Context, **_: object) -> None:
        raise typer.Exit(run_plain(name, ctx.args))

    parameters = [Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for action in parser._actions:
        if action.dest != "help":
            is_flag = action.nargs == 0
            complete = complete_release if "--version" in action.option_strings else None
            option = typer.Option(
                False if is_flag else None, *action.option_strings, help=action.help, autocompletion=complete
            )
            kind = bool if is_flag else Path if action.type is Path else str
            parameters.append(Parameter(action.dest, Parameter.KEYWORD_ONLY, default=option, annotation=kind))
    run_it.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # Typer reads it
    run_it.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run_it


def make_app() -> typer.Typer:
    """Return the app of `simzk`."""
    app = typer.Typer(
        name="simzk",
        cls=LazyGroup,
        help=DESCRIPTION,
        epilog=example_text(COMMANDS["run"].example),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    return app


def run_app() -> int:
    """Run the command in `sys.argv`, and return its exit status.

    Raises:
        ConfigError: its arguments are wrong.
    """
    try:
        status = make_app()(standalone_mode=False)
    except _USAGE_ERROR as error:
        raise usage_problem(error) from None
    return status if isinstance(status, int) else 0


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"simzk {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Print the version and exit."
    ),
) -> None:
    pass  # each command does its own work
