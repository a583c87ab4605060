"""How the files of a data directory are named: `version-2/log.<zxid>`, `version-2/snapshot.<zxid>`, packed ones too."""

from __future__ import annotations

VERSION_FOLDER = "version-2"
LOG, SNAPSHOT = "log", "snapshot"


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
