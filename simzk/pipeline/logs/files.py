"""Log and snapshot files of ZooKeeper data directories, found by path, oldest first.

Rules of this module:
  - a path is a file, a data directory, its `version-2`, or a pattern of those (`*`, `?`); commas separate several;
  - files are recognised by name, as in the server: `log.<zxid>` and `snapshot.<zxid>`, also compressed;
  - if one of several paths matches nothing, the others are still read and the missing one is reported.
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
"""Suffix of a compressed log."""

_GZIP = b"\x1f\x8b"


class NumberedFile(NamedTuple):
    """A file with the zxid of its name: the first of a log, the last of a snapshot."""

    zxid: int
    path: Path


class Missing(NamedTuple):
    """A path that matches no file, with the reason."""

    path: str
    why: str
    right: str = ""

    def __str__(self) -> str:
        return f"{self.why}; expected {self.right}" if self.right else self.why


class FoundFiles(NamedTuple):
    """Result of a search for files.

    Args:
        files: unique files, oldest first.
        missing: paths that match no file.
    """

    files: list[NumberedFile]
    missing: list[Missing]


def find_files(kind: str, text: str) -> FoundFiles:
    """Return the files that a path names.

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
    return FoundFiles(sorted(files.values()), missing)


def some_files(kind: str, text: str) -> FoundFiles:
    """Return the files that a path names, at least one.

    Raises:
        ConfigError: there is none; names the first missing path and the reason.
    """
    found = find_files(kind, text)
    if not found.files:
        refuse(found.missing[0])
    return found


def refuse(missing: Missing) -> NoReturn:
    """Raise a ConfigError for a missing path."""
    raise ConfigError(missing.why, where=missing.path, right=missing.right)


def logs_in_folder(text: str) -> list[NumberedFile]:
    """Return the unique logs of a data directory, oldest first; empty if its server has written none yet.

    Raises:
        ConfigError: the folder does not exist.
    """
    path = Path(text)
    if not path.is_dir():
        right = "one data directory of ZooKeeper, or its version-2"
        raise ConfigError("it is no folder", where=text, right=right)
    folder = path / VERSION_FOLDER if (path / VERSION_FOLDER).is_dir() else path
    # While a log is being compressed both files exist: the plain one is complete.
    by_zxid: dict[int, Path] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.suffix == PACKED, reverse=True):
        zxid = zxid_of(LOG, file.name)
        if zxid is not None:
            by_zxid[zxid] = file
    return sorted(NumberedFile(zxid, file) for zxid, file in by_zxid.items())


@contextmanager
def opened(path: Path) -> Iterator[Seekable]:
    """Open a log and decompress it if it is compressed, whatever its name.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        is_packed = path.suffix == PACKED and stream.read(len(_GZIP)) == _GZIP
        stream.seek(0)
        yield Unzipped(stream) if is_packed else stream


def _places(text: str) -> list[Path | Missing]:
    if Path(text).exists():
        return [Path(text)]  # an existing path is no pattern
    if glob.has_magic(text):
        return [Path(place) for place in sorted(glob.glob(text))] or [Missing(text, "no file matches")]
    return [Missing(text, "the path does not exist", "a data directory of ZooKeeper, or a file of one")]


def _in_place(kind: str, path: Path) -> tuple[list[NumberedFile], list[Missing]]:
    if path.is_file():
        zxid = zxid_of(kind, path.name)
        # A file given by name is read as the requested kind.
        return [NumberedFile(0 if zxid is None else zxid, path)], []
    folder = path / VERSION_FOLDER if (path / VERSION_FOLDER).is_dir() else path
    try:
        numbered = [(zxid_of(kind, file.name), file) for file in sorted(folder.iterdir())]
    except OSError as error:
        return [], [Missing(str(path), unreadable(error))]
    files = [NumberedFile(zxid, file) for zxid, file in numbered if zxid is not None]
    return files, [] if files else [Missing(str(path), f"it contains no {kind}", f"{VERSION_FOLDER}/{kind}.<zxid>")]


def unreadable(error: OSError) -> str:
    """Return the reason why a file or folder cannot be read.

    >>> unreadable(PermissionError(13, "Permission denied"))
    'it cannot be read: Permission denied'
    """
    return f"it cannot be read: {error.strerror}"
