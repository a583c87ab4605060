"""The files of ZooKeeper data directories, as a path names them: the logs or the snapshots, oldest first.

Rules of this module:
  - a path is a file, a data directory, its `version-2`, or a pattern of those (`*`, `?`); commas separate several;
  - files are known by their names, as the server knows them: `log.<zxid>` and `snapshot.<zxid>`, packed ones too;
  - where one of several paths leads to nothing, what the others lead to is found, and it is told.
"""

from __future__ import annotations

import glob
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from simzk.errors import ConfigError
from simzk.zookeeper.persistence.files import LOG, VERSION_FOLDER, Unzipped, zxid_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simzk.zookeeper.persistence.transaction_log import Seekable

PACKED = ".gz"
"""The ending of a log that was packed."""

_GZIP = b"\x1f\x8b"


class NumberedFile(NamedTuple):
    """A file, by the zxid in its name: the first one of a log, the last one of a snapshot."""

    zxid: int
    path: Path


class Missing(NamedTuple):
    """A path that leads to no file, and why."""

    path: str
    why: str
    right: str = ""

    def __str__(self) -> str:
        return f"{self.why}; expected {self.right}" if self.right else self.why


class Found(NamedTuple):
    """What some paths lead to.

    Args:
        files: oldest first, each once.
        missing: the paths that lead to none.
    """

    files: list[NumberedFile]
    missing: list[Missing]


def find_files(kind: str, text: str) -> Found:
    """The files that a path names.

    Args:
        kind: LOG or SNAPSHOT.
        text: one path or several.
    """
    files: dict[Path, NumberedFile] = {}
    missing: list[Missing] = []
    for part in text.split(","):
        for found in _places(part.strip()):
            if isinstance(found, Path):
                here, none = _in_place(kind, found)
                files |= {file.path.resolve(): file for file in here}
                missing += none
            else:
                missing.append(found)
    return Found(sorted(files.values()), missing)


def some_files(kind: str, text: str) -> Found:
    """The same, where there must be at least one.

    Raises:
        ConfigError: there is none; the first path that leads to nothing, and why.
    """
    found = find_files(kind, text)
    if not found.files:
        refuse(found.missing[0])
    return found


def refuse(missing: Missing) -> NoReturn:
    """Raise it as an error."""
    raise ConfigError(missing.why, where=missing.path, right=missing.right)


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


@contextmanager
def opened(path: Path) -> Iterator[Seekable]:
    """A log, unpacked where it is packed; one that is only named so is read as it is.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        is_packed = path.suffix == PACKED and stream.read(len(_GZIP)) == _GZIP
        stream.seek(0)
        yield Unzipped(stream) if is_packed else stream


def _places(text: str) -> list[Path | Missing]:
    if Path(text).exists():
        return [Path(text)]  # whatever its characters may mean to a pattern
    if glob.has_magic(text):
        return [Path(place) for place in sorted(glob.glob(text))] or [Missing(text, "nothing is named so")]
    return [Missing(text, "it is not there", "a data directory of ZooKeeper, or a file of one")]


def _in_place(kind: str, path: Path) -> tuple[list[NumberedFile], list[Missing]]:
    if path.is_file():
        zxid = zxid_of(kind, path.name)
        # A file that was given by name is what its user says it is.
        return [NumberedFile(0 if zxid is None else zxid, path)], []
    folder = path / VERSION_FOLDER if (path / VERSION_FOLDER).is_dir() else path
    try:
        numbered = [(zxid_of(kind, file.name), file) for file in sorted(folder.iterdir())]
    except OSError as error:
        return [], [Missing(str(path), unreadable(error))]
    files = [NumberedFile(zxid, file) for zxid, file in numbered if zxid is not None]
    return files, [] if files else [Missing(str(path), f"it holds no {kind}", f"{VERSION_FOLDER}/{kind}.<zxid>")]


def unreadable(error: OSError) -> str:
    """Why a file or folder cannot be read, in words.

    >>> unreadable(PermissionError(13, "Permission denied"))
    'it cannot be read: Permission denied'
    """
    return f"it cannot be read: {error.strerror}"
