"""The command line around the commands: what is said when something is missing or wrong, and what is loaded when."""

from __future__ import annotations

import subprocess
import sys

import pytest

from simzk.cli import COMMANDS, EXTRAS


def simzk(*words: str, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run `simzk` in a new process, as if the modules `without` were not installed."""
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({list(without)!r})); sys.argv = {['simzk', *words]!r}\n"
        "from simzk.cli import main\nmain()"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("missing", ["typer", "msgspec", "numpy"])
def test_a_bare_install_says_the_one_line_to_type(missing: str) -> None:
    done = simzk("run", "scenarios/broker_failure.toml", without=(missing,))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"simzk: error: {missing} is not installed; this needs: pip install 'simzk[cli,kafka]'\n"


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


def test_an_unknown_command_is_exit_2() -> None:
    done = simzk("rnu")
    assert done.returncode == 2
    assert "rnu" in done.stderr


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
    assert {name for extras in EXTRAS.values() for name in extras.split(",")} <= known
