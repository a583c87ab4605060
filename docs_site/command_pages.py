"""Page of the commands, from the help of each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from docs_site.markdown import code, page, table
from simzk.cli.app import whole_command
from simzk.cli.commands import COMMANDS, EXTRAS

if TYPE_CHECKING:
    from argparse import ArgumentParser


def commands_page() -> str:
    """Return the page of all commands with their arguments, options and examples."""
    return page(
        "Commands",
        "The commands of `simzk`, as `simzk COMMAND --help` shows them.",
        table(["command", "does"], [(f"[simzk {name}](#simzk-{name})", row.summary) for name, row in COMMANDS.items()]),
        *(section for name in COMMANDS for section in _sections(name)),
    )


def _sections(name: str) -> list[str]:
    row = COMMANDS[name]
    extras = ",".join(dict.fromkeys(EXTRAS[package] for package in row.packages))
    needs = f"Needs `pip install 'simzk[{extras}]'`." if extras else "Needs no extra."
    head = [f"## simzk {name}", row.summary, f"Example: {code(row.example)}. {needs}"]
    if row.parses_arguments:
        return [*head, _options_of_parser(import_module(row.module).make_parser())]
    command = whole_command(name)
    subcommands = getattr(command, "commands", {})
    if not subcommands:
        return [*head, *_usage(command, f"simzk {name}")]
    sections = list(head)
    for subname, subcommand in subcommands.items():
        title = f"simzk {name} {subname}"
        sections += [f"### {title}", _text(subcommand.help), *_usage(subcommand, title)]
        sections += [_text(subcommand.epilog)] if subcommand.epilog else []
    return sections


def _usage(command: Any, title: str) -> list[str]:
    """Return the usage of a Typer command, and the table of its arguments and options."""
    context = command.make_context(title, [], resilient_parsing=True)
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    rows = [(code(names), _text(text)) for names, text in filter(None, records) if not names.startswith("--help")]
    usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
    return [f"```text\n{usage}\n```", table(["argument or option", "meaning"], rows)]


def _options_of_parser(parser: ArgumentParser) -> str:
    """Return the table of the options of a command that parses its own arguments."""
    rows = [
        (code(" ".join(filter(None, [", ".join(action.option_strings), _metavar(action)]))), _text(action.help or ""))
        for action in parser._actions
        if action.dest != "help"
    ]
    return table(["option", "meaning"], rows)


def _metavar(action: Any) -> str:
    if action.choices:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return "" if action.nargs == 0 else str(action.metavar or action.dest.upper())


def _text(text: str) -> str:
    """Return a help text on one line, with its signs as themselves."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*")
