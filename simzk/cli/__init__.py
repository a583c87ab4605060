"""Command line: one thin module per command.

Rules of this package:
  - a command is a row of `COMMANDS`; its module is imported only when the command runs or its help is shown;
  - packages that are not installed are reported all at once, before any work;
  - a user's mistake is reported as one line on stderr with exit status 2, in `main` and nowhere else;
  - Ctrl-C keeps what is done, reports it on stderr and exits with status 130, without a trace;
  - the reader of stdout may leave early (`| head`): the command goes on;
  - `simzk --help` and `simzk --version` need the standard library only.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

from simzk.errors import ConfigError, SimzkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Command(NamedTuple):
    """A command of simzk.

    Args:
        module, attribute: the module, and the function or Typer app in it.
        summary: what the command does, for the list of all commands.
        example: a command line, for its help.
        packages: optional packages that it always imports.
        packages_of_options: optional packages that it imports if an option is given.
        parses_arguments: True if it parses its own arguments, so that it starts fast and needs no package.
    """

    module: str
    attribute: str
    summary: str
    example: str
    packages: tuple[str, ...] = ()
    packages_of_options: dict[str, tuple[str, ...]] = {}  # noqa: RUF012 - never changed
    parses_arguments: bool = False


_CLI = ("typer", "rich")
_TABLES = (*_CLI, "numpy", "pyarrow")
_SPARK = ("pyarrow", "pyspark", "pandas")

COMMANDS = {
    "run": Command(
        "simzk.cli.run",
        "run",
        "Play scenario files on a simulated Kafka cluster.",
        "simzk run broker_failure --seeds 100 --jobs 2",
        (*_CLI, "msgspec", "numpy"),
        {"--out": ("pyarrow",), "-o": ("pyarrow",), "--master": _SPARK},
    ),
    "examples": Command(
        "simzk.cli.examples",
        "examples",
        "List the scenarios that ship with simzk.",
        "simzk examples",
        _CLI,
    ),
    "new": Command(
        "simzk.cli.examples",
        "new",
        "Copy a scenario that ships with simzk, to begin your own with.",
        "simzk new broker_failure --out mine.toml",
        _CLI,
    ),
    "replay": Command(
        "simzk.cli.replay",
        "replay",
        "Replay a recorded real Kafka cluster on the simulation, and compare each step.",
        "simzk replay recordings/kafka-3.9.1 --json report.json",
        (*_CLI, "msgspec", "numpy"),
    ),
    "layout": Command(
        "simzk.cli.layout.layout",
        "app",
        "Generate, import and show layouts, and show the effects of reassignment plans.",
        "simzk layout make --brokers 12 --partitions 5000 --out layout.parquet",
        _TABLES,
    ),
    "sweep": Command(
        "simzk.cli.sweep",
        "sweep",
        "Fail every set of brokers or racks of a layout, on Spark.",
        "simzk sweep layout.parquet --fail brokers:1 --fail racks:1 --out sweep",
        (*_TABLES, *_SPARK),
    ),
    "risk": Command(
        "simzk.cli.risk",
        "risk",
        "Estimate outages and data loss per year, for this and other assignments.",
        "simzk risk layout.parquet --compare rack-aware --compare copysets:4 --out risk",
        _TABLES,
        {"--master": _SPARK},
    ),
    "report": Command(
        "simzk.cli.report",
        "report",
        "Write one self-contained HTML page of results.",
        "simzk report sweep risk --html report.html",
        _TABLES,
    ),
    "timelines": Command(
        "simzk.cli.timelines",
        "timelines",
        "Extract the history of partitions from a real ZooKeeper's logs and snapshots.",
        "simzk timelines /var/lib/zookeeper --out timelines",
        (*_TABLES, *_SPARK),
    ),
    "serve": Command(
        "simzk.cli.serve",
        "main",
        "Serve a ZooKeeper on a TCP port.",
        "simzk serve --port 2181 --data-dir data",
        parses_arguments=True,
    ),
}
"""Commands by name, in the order of `simzk --help`."""

EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "msgspec": "cli",
    "numpy": "kafka",
    "pyarrow": "layout",
    "pyspark": "spark",
    "pandas": "spark",
}
"""Extra of simzk that installs each optional package."""

BAD_INPUT = 2
INTERRUPTED = 130
"""Exit status after Ctrl-C, as of a shell: 128 and the number of SIGINT."""

DESCRIPTION = "An in-memory ZooKeeper and a simulated Kafka cluster, with faults on demand and repeatable runs."
COMPLETION = "_SIMZK_COMPLETE"
"""Environment variable with which a shell asks Typer for completions."""


def main() -> None:
    """Run the command in `sys.argv`, and exit with its status."""
    from simzk.cli.closed_pipe import closable_output

    with closable_output():
        _main()


def _main() -> None:
    try:
        name, *words = sys.argv[1:] or ["--help"]
        if COMPLETION not in os.environ:
            _check(name, words)
        if name in COMMANDS and COMMANDS[name].parses_arguments:
            sys.exit(run_plain(name, words))
        if name not in COMMANDS and missing_packages(_CLI):
            sys.exit(_run_without_packages(name))
        from simzk.cli.commands import make_app

        make_app()()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        _exit_with_error(not_installed([package]))
    except SimzkError as error:
        _exit_with_error(str(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _check(name: str, words: Sequence[str]) -> None:
    """Raise a ConfigError if a command does not exist or needs packages that are not installed."""
    if name in COMMANDS:
        missing = missing_packages(packages_of(COMMANDS[name], words))
        if missing:
            raise ConfigError(not_installed(missing))
    elif not name.startswith("-"):
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS, n=1)
        if near:
            raise ConfigError(f"there is no command {name!r}; did you mean {near[0]!r}?")
        raise ConfigError(f"there is no command {name!r}", right=f"one of {', '.join(COMMANDS)}")


def packages_of(command: Command, words: Sequence[str]) -> list[str]:
    """Return the optional packages that a command line needs; for help, those that print it.

    >>> packages_of(COMMANDS["risk"], ["layout.parquet", "--master=local"])
    ['typer', 'rich', 'numpy', 'pyarrow', 'pyspark', 'pandas']
    """
    if "--help" in words:
        return [package for package in command.packages if package in _CLI]
    found = dict.fromkeys(command.packages)
    for option, packages in command.packages_of_options.items():
        if any(word == option or word.startswith(f"{option}=") for word in words):
            found |= dict.fromkeys(packages)
    return list(found)


def missing_packages(packages: Iterable[str]) -> list[str]:
    """Return the packages that are not installed."""
    from importlib.util import find_spec

    return [package for package in packages if find_spec(package) is None]


def not_installed(packages: Sequence[str]) -> str:
    """Return the message for missing packages.

    >>> not_installed(["typer"])
    "typer is not installed; this needs: pip install 'simzk[cli]'"
    >>> not_installed(["typer", "rich", "numpy"])
    "typer, rich and numpy are not installed; this needs: pip install 'simzk[cli,kafka]'"
    """
    *first, last = packages
    names = f"{', '.join(first)} and {last} are" if first else f"{last} is"
    extras = ",".join(dict.fromkeys(EXTRAS[package] for package in packages))
    return f"{names} not installed; this needs: pip install 'simzk[{extras}]'"


def load(name: str) -> object:
    """Return the function of a command, or its app of subcommands."""
    command = COMMANDS[name]
    return getattr(import_module(command.module), command.attribute)


def run_plain(name: str, arguments: list[str]) -> int:
    """Run a command that parses its own arguments; return its exit status."""
    command = cast("Callable[[list[str]], int]", load(name))
    return command(arguments)


def _run_without_packages(option: str) -> int:
    """Run `simzk OPTION` without Typer: print the version or the list of commands; return the exit status."""
    if option == "--version":
        from simzk import __version__

        sys.stdout.write(f"simzk {__version__}\n")
        return 0
    if option != "--help":
        raise ConfigError(f"there is no option {option!r}", right="--help or --version")
    width = max(map(len, COMMANDS)) + 2
    lines = ["Usage: simzk [OPTIONS] COMMAND [ARGS]...", "", f"  {DESCRIPTION}", "", "Options:"]
    lines += ["  --version  Print the version and exit.", "  --help     Show this message and exit.", "", "Commands:"]
    for name, command in COMMANDS.items():
        lines.append(f"  {name:{width}}{command.summary}")
        missing = missing_packages(command.packages)
        if missing:
            lines.append(f"  {'':{width}}  needs: {not_installed(missing).partition(': ')[2]}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _exit_with_error(what: str) -> None:
    sys.stderr.write(f"simzk: error: {what}\n")
    sys.exit(BAD_INPUT)
