"""Scenarios that ship with simzk, by name.

An installed simzk has them as package data, beside this module; a checkout or an editable install in the folder
`scenarios` at the top of the repository, which the wheel is built from.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import NamedTuple

from simzk.errors import ConfigError, ScenarioError, nearest

HERE = Path(__file__).parent
FOLDERS = (HERE / "examples", HERE.parents[1] / "scenarios")
"""Folders that may have the scenarios; the first one that exists has them."""


class Example(NamedTuple):
    """A scenario that ships with simzk.

    Args:
        name: its path below the folder of scenarios, without the suffix.
        path: its file.
        title: its title.
        recording: the recording that it starts from, relative to the file; empty for none.
    """

    name: str
    path: Path
    title: str
    recording: str


def examples() -> list[Example]:
    """Return all shipped scenarios, by name, those of known bugs of Kafka last.

    >>> names = [example.name for example in examples()]
    >>> names[0], names[-1].split("_")[0]
    ('anything_breaks', 'bugs/kafka')
    """
    folder = _folder()
    paths = sorted([*folder.glob("*.toml"), *folder.glob("*/*.toml")], key=lambda path: (len(path.parts), path))
    found = []
    for path in paths:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        name = path.relative_to(folder).with_suffix("").as_posix()
        found.append(Example(name, path, document["title"], document["cluster"].get("from", "")))
    return found


def find_scenario(word: str) -> str:
    """Return the path of a scenario: the word itself if it is a path, else the shipped scenario of that name.

    Raises:
        ConfigError: no file and no shipped scenario has this name.
        ScenarioError: the file does not exist, but a shipped scenario has its name.

    >>> find_scenario("mine/what_we_saw.toml")
    'mine/what_we_saw.toml'
    """
    if not Path(word).exists() and Path(word).suffix and Path(word).stem in [one.name for one in examples()]:
        right = f"a file, or {Path(word).stem}, which ships with simzk"
        raise ScenarioError("the file does not exist", where=word, right=right)
    if Path(word).exists() or Path(word).suffix:
        return word
    return str(find_example(word, accepted="a file, or a name that simzk examples lists").path)


def find_example(name: str, accepted: str = "a name that simzk examples lists") -> Example:
    """Return a shipped scenario.

    Args:
        name: its name.
        accepted: what is accepted, for the error.

    Raises:
        ConfigError: there is none of this name; the nearest name is suggested.
    """
    by_name = {example.name: example for example in examples()}
    if name in by_name:
        return by_name[name]
    raise ConfigError(f"no scenario {name!r} ships with simzk", right=nearest(name, by_name) or accepted)


def copy_example(example: Example, to: Path) -> list[Path]:
    """Copy a shipped scenario, and the recording that it starts from; return the new files.

    Raises:
        ConfigError: a file exists already or cannot be written; then nothing is copied.
    """
    copies = {example.path: to}
    if example.recording:
        copies[example.path.parent / example.recording] = to.parent / example.recording
    for target in copies.values():
        if target.exists():
            raise ConfigError("the file exists already", where=str(target), right="another name")
    try:
        for source, target in copies.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    except OSError as error:
        raise ConfigError(f"cannot write the file: {error.strerror}", where=str(error.filename or to)) from None
    return list(copies.values())


def _folder() -> Path:
    folder = next((folder for folder in FOLDERS if folder.is_dir()), None)
    assert folder is not None, f"simzk is installed without its scenarios: {FOLDERS[0]}"
    return folder
