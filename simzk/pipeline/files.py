"""The files of ZooKeeper data directories, as a path names them: the logs or the snapshots, oldest first.

Rules of this module:
  - a path is a file, a data directory, its `version-2`, or a pattern of those (`*`, `?`); commas separate several;
  - files are known by their names, as the server knows them: `log.<zxid>` and `snapshot.<zxid>`, packed ones too.
"""

from __future__ import annotations

import glob
import gzip
from pathlib import Path
from typing import IO

from simzk.errors import ConfigError
from simzk.tuples import NamedTuple
from simzk.zookeeper.persistence.file_names import LOG, VERSION_FOLDER, zxid_of

PACKED = ".gz"
"""The ending of a log that was packed."""


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


def logs_in_folder(text: str) -> list[NumberedFile]:
    """The logs that a data directory has now, oldest first, each once; none where its server wrote none yet.

    Raises:
        ConfigError: there is no such folder.
    """
    path = Path(text)
    if not path.is_dir():
        right = "one data directory of ZooKeeper, or its version-2"
        raise ConfigError("it is no folder", where=text, right=right)
    folder = path / VERSION_FOLDER if (path / VERSION_FOLDER).is_dir() else path
    # While one is being packed it stands there twice: the plain one is whole.
    by_zxid: dict[int, Path] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.suffix == PACKED, reverse=True):
        zxid = zxid_of(LOG, file.name)
        if zxid is not None:
            by_zxid[zxid] = file
    return sorted(NumberedFile(zxid, file) for zxid, file in by_zxid.items())


def opened(path: Path) -> IO[bytes]:
    """A log, unpacked where it is packed."""
    return gzip.open(path) if path.suffix == PACKED else path.open("rb")  # type: ignore[return-value]


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
    folder = path / VERSION_FOLDER if (path / VERSION_FOLDER).is_dir() else path
    numbered = [(zxid_of(kind, file.name), file) for file in sorted(folder.iterdir())]
    files = [NumberedFile(zxid, file) for zxid, file in numbered if zxid is not None]
    if not files:
        raise ConfigError(f"it holds no {kind}", where=str(path), right=f"{VERSION_FOLDER}/{kind}.<zxid>")
    return files
