"""Ensemble membership in a zoo.cfg: lines `server.N=...`, or those of its dynamicConfigFile, and `myid`.

Rules of this module:
  - a single line, of a voter, is no ensemble, as in the real server (standaloneEnabled): the server runs alone;
  - `myid` in the dataDir is the number of the server that the file is for;
  - the name of a dynamicConfigFile ends with its version, `zoo.cfg.dynamic.100000005`, as reconfigurations write it.

Source: QuorumPeerConfig (parseProperties, setupMyId, setupClientPort, parseDynamicConfig, getVersionFromFilename).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.serve.configuration.file_formats import read_properties
from simzk.zookeeper.ensemble.membership import MAX_SERVERS, MIN_VOTERS, Membership, in_java_order, parse_line
from simzk.zookeeper.replies import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.serve.configuration.file_formats import Entry
    from simzk.zookeeper.ensemble.membership import ServerLine

MYID = "myid"
DYNAMIC = "dynamicConfigFile"
_MEMBER = re.compile(r"server\.(\d+)")
_GROUPED = re.compile(r"(group|weight)\.\d+")
_VERSION = re.compile(r".*\.([0-9a-fA-F]{1,16})", re.DOTALL)
_FORM = "HOST:PORT:PORT[:participant or :observer][;[HOST:]PORT]"


@dataclass(frozen=True)
class Belonging:
    """Membership of one server in an ensemble, by its zoo.cfg.

    Attributes:
        file: the zoo.cfg.
        server_id: the server's number.
        membership: all members.
    """

    file: Path
    server_id: int
    membership: Membership

    @property
    def line(self) -> ServerLine | None:
        """The server's own line; None if it has left the ensemble."""
        own = (line for line in self.membership.lines if line.server_id == self.server_id)
        return next(own, None)


def read_membership(entries: Mapping[str, Entry], file: Path) -> Membership | None:
    """Return the members in a zoo.cfg; None for a single server.

    Raises:
        ConfigError: a line is invalid, there are too few voters, or the dynamicConfigFile cannot be read.
    """
    version, where = 0, file
    dynamic = entries.get(DYNAMIC)
    if dynamic is not None:
        for key, entry in entries.items():
            if _MEMBER.fullmatch(key) or _GROUPED.fullmatch(key):
                raise ConfigError(f"{key} is in the wrong file", where=f"{file}:{entry.line}", right=f"in {DYNAMIC}")
        where = Path(dynamic.value)
        entries = _read_dynamic(where, f"{file}:{dynamic.line}")
        found = _VERSION.fullmatch(where.name)
        version = int(found[1], 16) if found is not None else 0
    lines = [
        _line(int(found[1]), key, entry, where) for key, entry in entries.items() if (found := _MEMBER.fullmatch(key))
    ]
    voters = sum(not line.observes for line in lines)
    if voters < MIN_VOTERS and voters == len(lines):
        return None
    if voters < MIN_VOTERS:
        raise ConfigError("an ensemble of observers only", where=str(where), right=f"{MIN_VOTERS} servers with a vote")
    for key, entry in entries.items():
        if _GROUPED.fullmatch(key):
            raise ConfigError(f"{key} is not supported", where=f"{where}:{entry.line}", right="majority quorums")
    return Membership(in_java_order(lines), version)


def _read_dynamic(path: Path, where: str) -> dict[str, Entry]:
    try:
        return read_properties(path.read_text(encoding="latin-1"), str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", where=where) from error


def _line(server_id: int, key: str, entry: Entry, file: Path) -> ServerLine:
    where = f"{file}:{entry.line}"
    if server_id > MAX_SERVERS:
        raise ConfigError(f"invalid server number in {key}", where=where, right=f"server.0 to server.{MAX_SERVERS}")
    try:
        return parse_line(server_id, entry.value)
    except RefusedError:
        raise ConfigError(f"invalid {key}: {entry.value!r}", where=where, right=_FORM) from None


def read_myid(folder: Path, membership: Membership) -> int:
    """Return the number of the server that a dataDir belongs to.

    Raises:
        ConfigError: `myid` is missing or invalid.
    """
    path = folder / MYID
    ids = ", ".join(str(line.server_id) for line in membership.lines)
    try:
        text = path.read_text(encoding="latin-1").strip()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), right=f"one of {ids}") from error
    if not text.isdecimal() or int(text) > MAX_SERVERS:
        raise ConfigError(f"invalid server number {text!r}", where=str(path), right=f"one of {ids}")
    return int(text)
