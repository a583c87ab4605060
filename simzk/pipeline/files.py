"""The files of ZooKeeper data directories, as a path names them: the logs or the snapshots, oldest first.

Rules of this module:
  - a path is a file, a data directory, its `version-2`, or a pattern of those (`*`, `?`); commas separate several;
  - files are known by their names, as the server knows them: `log.<zxid>` and `snapshot.<zxid>`, packed ones too.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import NamedTuple

from simzk.errors import ConfigError

LOG, SNAPSHOT = "log", "snapshot"
_VERSION_FOLDER = "version-2"


class NumberedFile(NamedTuple):
    """A file, by the zxid in its name: the first one of a log, the last one of a snapshot."""

    zxid: int
    path: Path


def find_files(kind: str, text: str) -> list[NumberedFile]:
    """The files that a path names.

    Args:
        kind: LOG or SNAPSHOT.
        text: one path or several.

    Raises:
        ConfigError: there is nothing, or no such file in it.
    """
    found: dict[Path, NumberedFile] = {}
    for part in text.split(","):
        for path in _places(part.strip()):
            for file in _in_place(kind, path):
                found[file.path.resolve()] = file
    return sorted(found.values())


def _places(text: str) -> list[Path]:
    if glob.has_magic(text):
        places = [Path(place) for place in sorted(glob.glob(text))]
        if not places:
            raise ConfigError("nothing is named so", where=text)
        return places
    if not Path(text).exists():
        raise ConfigError("it is not there", where=text, right="a data directory of ZooKeeper, or a file of one")
    return [Path(text)]


def _in_place(kind: str, path: Path) -> list[NumberedFile]:
    if path.is_file():
        zxid = zxid_of(kind, path.name)
        # A file that was given by name is what its user says it is.
        return [NumberedFile(0 if zxid is None else zxid, path)]
    folder = path / _VERSION_FOLDER if (path / _VERSION_FOLDER).is_dir() else path
    numbered = [(zxid_of(kind, file.name), file) for file in sorted(folder.iterdir())]
    files = [NumberedFile(zxid, file) for zxid, file in numbered if zxid is not None]
    if not files:
        raise ConfigError(f"it holds no {kind}", where=str(path), right=f"{_VERSION_FOLDER}/{kind}.<zxid>")
    return files


def zxid_of(kind: str, name: str) -> int | None:
    """The zxid in a file's name; None where it is none of that kind (Util.getZxidFromName).

    >>> zxid_of("log", "log.1a"), zxid_of("log", "log.1a.gz"), zxid_of("log", "snapshot.1a")
    (26, 26, None)
    """
    prefix, _, rest = name.partition(".")
    if prefix != kind:
        return None
    try:
        return int(rest.partition(".")[0], 16)
    except ValueError:
        return None
