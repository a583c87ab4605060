"""The command line around the commands: what is said when something is missing or wrong, and what is loaded when."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from simzk.cli.app import whole_command
from simzk.cli.commands import COMMANDS, EXTRAS
from tests.cli.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def simzk(*words: str, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run `simzk` in a new process, as if the modules `without` were not installed."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({list(without)!r})); sys.argv = {['simzk', *words]!r}\n"
        "from simzk.cli import main\nmain()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


OPTIONAL = tuple(EXTRAS)
"""All packages that a bare install lacks."""


@pytest.mark.parametrize(
    ("words", "packages", "extras"),
    [
        (["run", "x.toml"], "typer, rich, msgspec, numpy and crc32c are", "cli,kafka"),
        (["run", "x.toml", "--out=dir"], "typer, rich, msgspec, numpy, crc32c and pyarrow are", "cli,kafka,layout"),
        (
            ["sweep", "x.json", "--fail", "brokers:1", "--out", "dir"],
            "typer, rich, numpy, pyarrow, pyspark and pandas are",
            "cli,kafka,layout,spark",
        ),
        (["layout", "show", "--help"], "typer and rich are", "cli"),
    ],
)
def test_all_missing_packages_are_in_one_line(words: list[str], packages: str, extras: str) -> None:
    done = simzk(*words, without=OPTIONAL)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"simzk: error: {packages} not installed; this needs: pip install 'simzk[{extras}]'\n"


@pytest.mark.parametrize(("missing", "extra"), [("typer", "cli"), ("msgspec", "cli"), ("numpy", "kafka")])
def test_one_missing_package_is_named(missing: str, extra: str) -> None:
    done = simzk("run", "scenarios/broker_failure.toml", without=(missing,))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"simzk: error: {missing} is not installed; this needs: pip install 'simzk[{extra}]'\n"


def test_a_bare_install_shows_version_and_help() -> None:
    assert simzk("--version", without=OPTIONAL).stdout == simzk("--version").stdout
    for words in ([], ["--help"]):
        done = simzk(*words, without=OPTIONAL)
        assert (done.returncode, done.stderr) == (0, "")
        for name, command in COMMANDS.items():
            assert f"  {name} " in done.stdout
            assert command.summary in done.stdout
        assert done.stdout.count("needs: pip install 'simzk[cli,kafka]'") == 2, "run and replay"
        assert f"{COMMANDS['serve'].summary}\n  kafka " in done.stdout, "serve needs nothing"
        assert done.stdout.endswith(
            f"{COMMANDS['clusters'].summary}\n               needs: pip install 'simzk[kafka]'\n"
        )
    wrong = simzk("--versoin", without=OPTIONAL)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "simzk: error: there is no option '--versoin'; expected --help or --version\n"
    completion = simzk("--install-completion", without=OPTIONAL)
    assert completion.returncode == 2
    assert completion.stderr == "simzk: error: typer and rich are not installed; this needs: pip install 'simzk[cli]'\n"


def test_the_list_of_commands_needs_none_of_their_packages() -> None:
    done = simzk("--help", without=tuple(set(OPTIONAL) - {"typer", "rich"}))
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in COMMANDS)


def test_a_module_of_ours_that_is_missing_is_a_bug_and_not_an_extra() -> None:
    done = simzk("run", "x.toml", without=("simzk.scenarios.reader",))
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_every_command_is_listed_with_what_it_does() -> None:
    done = simzk("--help")
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert name in done.stdout


def test_the_version_is_said() -> None:
    assert simzk("--version").stdout.startswith("simzk ")


@pytest.mark.parametrize("without", [(), OPTIONAL], ids=["whole", "bare"])
def test_an_unknown_command_names_the_nearest_one(without: tuple[str, ...]) -> None:
    done = simzk("rnu", without=without)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "simzk: error: there is no command 'rnu'; did you mean 'run'?\n"
    done = simzk("xyz", without=without)
    assert done.stderr == f"simzk: error: there is no command 'xyz'; expected one of {', '.join(COMMANDS)}\n"


def test_an_unknown_subcommand_names_the_nearest_one() -> None:
    done = simzk("layout", "mkae")
    assert done.returncode == 2
    assert "Did you mean 'make'?" in done.stderr


def commands(name: str) -> Iterator[tuple[str, Any]]:
    """Yield a command, or the commands of a group, with their names."""
    command = whole_command(name)
    if not hasattr(command, "commands"):
        yield name, command
        return
    for inner in command.commands.values():
        yield f"{name} {inner.name}", inner


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_an_example_that_parses(name: str) -> None:
    for path, command in commands(name):
        example = f"Example: {COMMANDS[name].example}" if COMMANDS[name].parses_arguments else command.epilog
        words = shlex.split(example.removeprefix("Example: "))
        start = ["simzk", *path.split()]
        assert words[: len(start)] == start
        if COMMANDS[name].parses_arguments:
            import_module(COMMANDS[name].module).make_parser().parse_args(words[len(start) :])
        else:
            command.make_context(path, words[len(start) :])


def completions(shell: str, words: str) -> list[str]:
    """Return the completions of the last word, as a shell asks for them."""
    program = "import sys; sys.argv = ['simzk']\nfrom simzk.cli import main\nmain()"
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1), "_TYPER_COMPLETE_ARGS": words}
    environment = {**os.environ, **asked, "_SIMZK_COMPLETE": f"complete_{shell}"}
    if shell == "fish":
        environment["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return re.findall(r"[-.\w]+", done.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    found = completions(shell, "simzk s")
    assert {"sweep", "serve"} <= set(found)
    assert not {"run", "layout"} & set(found)


@pytest.mark.parametrize("words", ["simzk run --ka", "simzk serve --ka"], ids=["Typer", "parses its arguments"])
def test_shells_complete_options(words: str) -> None:
    assert any(found.startswith("--kafka") for found in completions("bash", words))


def test_shells_complete_scenarios_and_releases() -> None:
    assert "broker_failure" in completions("bash", "simzk run broker_f")
    assert "broker_failure" in completions("bash", "simzk new broker_f")
    for command in ("run x --kafka-version", "kafka --version", "layout make --kafka-version"):
        assert completions("bash", f"simzk {command} 0.10.") == ["0.10.2", "0.10.1", "0.10.0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run broker_failure --seed x", "--seed: 'x' is not a valid integer; expected the options of simzk run --help"),
        (r"run broker_failure --seed \1", r"--seed: '\\1' is not a valid integer; expected"),
        ("run broker_failure --seeds 0", "--seeds: '0' is not greater than or equal to 1; expected"),
        ("run --nope", "No such option: --nope; expected the options of simzk run --help"),
        ("layout nope", "No such command 'nope'; expected the options of simzk layout --help"),
        ("kafka --brokers x", "--brokers: 'x' is not a whole number; expected the options of simzk kafka --help"),
        ("serve --port x", "--port: 'x' is not a port, 0 to 65535; expected the options of simzk serve --help"),
        ("clusters --nope", "unrecognized arguments: --nope; expected the options of simzk clusters --help"),
        (
            "run broker_failure --json nowhere/x.json",
            "nowhere/x.json: cannot write the file: No such file or directory",
        ),
        ("run broker_failure --html .", ".: cannot write the file: Is a directory; expected the name of a file"),
    ],
)
def test_errors_of_arguments_have_one_form(words: str, said: str) -> None:
    done = simzk(*words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"simzk: error: {said}")


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["run", "scenarios/broker_failure.toml"], ["serve", "--help"]], ids=" ".join
)
def test_a_reader_that_left_is_no_failure(words: list[str], tmp_path: Path) -> None:
    """As `| head`: the reader is gone before the first byte, so every write of the process meets a closed pipe."""
    reader, writer = os.pipe()
    os.close(reader)
    out = ["--json", str(tmp_path / "runs.json")] if words[0] == "run" else []
    program = f"import sys; sys.argv = {['simzk', *words, *out]!r}\nfrom simzk.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")
    if out:
        assert json.loads((tmp_path / "runs.json").read_text())["runs"], "files are written all the same"


def test_bad_input_is_one_line_and_exit_2() -> None:
    done = simzk("run", "no/such/file.toml")
    assert done.returncode == 2
    what = "cannot read the file: No such file or directory; expected a scenario file"
    assert done.stderr == f"simzk: error: no/such/file.toml: {what}\n"


def test_a_command_loads_none_of_the_others() -> None:
    program = (
        "import sys; sys.argv = ['simzk', 'run', '--help']\nfrom simzk.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    loaded = set(done.stderr.splitlines())
    assert "simzk.cli.run" in loaded
    assert not loaded & {
        "simzk.cli.layout.layout",
        "simzk.cli.sweep",
        "simzk.cli.serve",
        "numpy",
        "pyarrow",
        "pyspark",
        "kazoo",
    }


def test_every_extra_is_one_that_the_project_has() -> None:
    from importlib.metadata import metadata

    known = set(metadata("simzk").get_all("Provides-Extra") or [])
    assert set(EXTRAS.values()) <= known


def test_simzk_alone_lists_its_commands_and_complains_of_nothing() -> None:
    for without in ((), OPTIONAL):
        done = simzk(without=without)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(name in done.stdout for name in COMMANDS)
