"""Table of commands: the module of each, its help, and the optional packages that it needs.

A command is a row of `COMMANDS`; its module is imported only when the command runs or its help is shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

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


CLI_PACKAGES = ("typer", "rich")
_TABLES = (*CLI_PACKAGES, "numpy", "pyarrow")
_CLUSTER = ("numpy", "crc32c")
_SPARK = ("pyarrow", "pyspark", "pandas")

COMMANDS = {
    "run": Command(
        "simzk.cli.run",
        "run",
        "Play scenario files on a simulated Kafka cluster.",
        "simzk run broker_failure --seeds 100 --jobs 2",
        (*CLI_PACKAGES, "msgspec", *_CLUSTER),
        {"--out": ("pyarrow",), "-o": ("pyarrow",), "--master": _SPARK},
    ),
    "examples": Command(
        "simzk.cli.examples",
        "examples",
        "List the scenarios that ship with simzk.",
        "simzk examples",
        CLI_PACKAGES,
    ),
    "new": Command(
        "simzk.cli.examples",
        "new",
        "Copy a scenario that ships with simzk, to begin your own with.",
        "simzk new broker_failure --out mine.toml",
        CLI_PACKAGES,
    ),
    "replay": Command(
        "simzk.cli.replay",
        "replay",
        "Replay a recorded real Kafka cluster on the simulation, and compare each step.",
        "simzk replay recordings/kafka-3.9.1 --json report.json",
        (*CLI_PACKAGES, "msgspec", *_CLUSTER),
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
    "kafka": Command(
        "simzk.cli.kafka",
        "main",
        "Serve a simulated Kafka cluster and its ZooKeeper on TCP ports.",
        "simzk kafka --version 3.9 --brokers 3",
        _CLUSTER,
        parses_arguments=True,
    ),
    "clusters": Command(
        "simzk.cli.clusters",
        "main",
        "Start and stop simulated Kafka clusters on request, over HTTP.",
        "simzk clusters --port 9090",
        _CLUSTER,
        parses_arguments=True,
    ),
}
"""Commands by name, in the order of `simzk --help`."""

EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "msgspec": "cli",
    "numpy": "kafka",
    "crc32c": "kafka",
    "pyarrow": "layout",
    "pyspark": "spark",
    "pandas": "spark",
}
"""Extra of simzk that installs each optional package."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as of a shell: 128 and the number of SIGINT."""

DESCRIPTION = "An in-memory ZooKeeper and a simulated Kafka cluster, with faults on demand and repeatable runs."


def packages_of(command: Command, words: Sequence[str]) -> list[str]:
    """Return the optional packages that a command line needs; for help, those that print it.

    >>> packages_of(COMMANDS["risk"], ["layout.parquet", "--master=local"])
    ['typer', 'rich', 'numpy', 'pyarrow', 'pyspark', 'pandas']
    """
    if "--help" in words:
        return [package for package in command.packages if package in CLI_PACKAGES]
    found = dict.fromkeys(command.packages)
    for option, packages in command.packages_of_options.items():
        if any(word == option or word.startswith(f"{option}=") for word in words):
            found |= dict.fromkeys(packages)
    return list(found)


def complete_release(incomplete: str) -> list[str]:
    """Return the Kafka release lines that begin so, for completion in a shell."""
    from simzk.kafka.releases.versions import LINES

    return [line for line in LINES if line.startswith(incomplete)]


def complete_scenario(incomplete: str) -> list[str]:
    """Return the shipped scenarios that begin so, for completion in a shell; it completes files by itself."""
    from simzk.scenarios.examples import examples

    return [example.name for example in examples() if example.name.startswith(incomplete)]


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
