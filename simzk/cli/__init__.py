"""Command line: one thin module per command.

Rules of this package:
  - a command is a row of the table in `simzk/cli/commands.py`;
  - packages that are not installed are reported all at once, before any work;
  - a user's mistake is reported as one line on stderr with exit status 2, in `main` and nowhere else;
  - Ctrl-C keeps what is done, reports it on stderr and exits with status 130, without a trace;
  - the reader of stdout may leave early (`| head`): the command goes on;
  - `simzk --help` and `simzk --version` need the standard library only.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from simzk.cli.commands import (
    CLI_PACKAGES,
    COMMANDS,
    DESCRIPTION,
    EXTRAS,
    INTERRUPTED,
    missing_packages,
    not_installed,
    packages_of,
    run_plain,
)
from simzk.cli.messages import say
from simzk.errors import ConfigError, SimzkError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


BAD_INPUT = 2
COMPLETION = "_SIMZK_COMPLETE"
"""Environment variable with which a shell asks Typer for completions."""


def main() -> None:
    """Run the command in `sys.argv`, and exit with its status."""
    _start_fast()
    from simzk.cli.closed_pipe import closable_output

    with closable_output():
        _main()


def _start_fast() -> None:
    """Leave out what a process does while it imports its modules, though simzk does not need it."""
    # With the default of 700 objects the collector runs hundreds of times while a command imports its modules, a tenth
    # of its start, and finds nothing. Reference counting frees almost all garbage of simzk.
    gc.set_threshold(100_000, 50, 10)
    # OpenBLAS, which numpy loads, starts a thread for each core; simzk multiplies no large matrices. It takes a fifth
    # of the import of numpy on two cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _main() -> None:
    try:
        if not sys.argv[1:]:
            sys.argv.append("--help")
        name, *words = sys.argv[1:]
        if COMPLETION not in os.environ:
            _check(name, words)
        if name in COMMANDS and COMMANDS[name].parses_arguments:
            sys.exit(run_plain(name, words))
        if name not in COMMANDS and missing_packages(CLI_PACKAGES):
            sys.exit(_run_without_packages(name))
        from simzk.cli.app import run_app

        sys.exit(run_app())
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
        near = nearest(name, COMMANDS)
        if near:
            raise ConfigError(f"there is no command {name!r}; did you mean {near!r}?")
        raise ConfigError(f"there is no command {name!r}", right=f"one of {', '.join(COMMANDS)}")


def _run_without_packages(option: str) -> int:
    """Run `simzk OPTION` without Typer: print the version or the list of commands; return the exit status."""
    if option == "--version":
        from simzk import __version__

        sys.stdout.write(f"simzk {__version__}\n")
        return 0
    if option in ("--install-completion", "--show-completion"):
        raise ConfigError(not_installed(missing_packages(CLI_PACKAGES)))
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
    say("error", what)
    sys.exit(BAD_INPUT)
