"""Ensemble membership in a zoo.cfg: lines `server.N=...`, or those of its dynamicConfigFile, and `myid`.

Rules of this module:
  - a file with one voter and no observer is that of a standalone server, unless standaloneEnabled is false; its own
    line can still have its client port;
  - `myid` in the dataDir is the number of the server that the file is for. It is read for a standalone server too,
    where it may be missing;
  - the name of a dynamicConfigFile ends with its version, `zoo.cfg.dynamic.100000005`, as reconfigurations write it.

Source: QuorumPeerConfig (parseProperties, setupMyId, setupClientPort, parseDynamicConfig, getVersionFromFilename).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.jvm.numbers import wrapped_long
from simzk.serve.configuration.file_formats import read_properties
from simzk.zookeeper.ensemble.membership import MAX_SERVERS, MIN_VOTERS, Membership, in_java_order, parse_line
from simzk.zookeeper.replies import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.serve.configuration.file_formats import Entry
    from simzk.zookeeper.ensemble.membership import ServerLine

MYID = "myid"
DYNAMIC = "dynamicConfigFile"
_SERVER = "server."
_GROUPS = ("group", "weight")
_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}")
_LINE_END = re.compile(r"\r\n|\r|\n")
_VERSION = re.compile(r".*\.([0-9a-fA-F]{1,16})", re.DOTALL)
_UNSET = -1
"""Number that means a missing `myid` (QuorumPeerConfig.UNSET_SERVERID)."""
_FORM = "HOST:PORT:PORT[:participant or :observer][;[HOST:]PORT]"


@dataclass(frozen=True)
class Belonging:
    """Membership of one server in an ensemble, by its zoo.cfg; `membership` has all members."""

    file: Path
    server_id: int
    membership: Membership

    @property
    def line(self) -> ServerLine | None:
        """The server's own line; None if it has left the ensemble."""
        return next((line for line in self.membership.lines if line.server_id == self.server_id), None)


def read_membership(entries: Mapping[str, Entry], file: Path) -> Membership:
    """Return the members in a zoo.cfg or in its dynamicConfigFile; there may be none.

    Raises:
        ConfigError: a line is invalid, or the dynamicConfigFile cannot be read.
    """
    version, where = 0, file
    dynamic = entries.get(DYNAMIC)
    if dynamic is not None:
        for key, entry in entries.items():
            if key.startswith((_SERVER, *_GROUPS)):
                raise ConfigError(f"{key} is in the wrong file", where=f"{file}:{entry.line}", right=f"in {DYNAMIC}")
        where = Path(dynamic.value)
        entries = _read_dynamic(where, f"{file}:{dynamic.line}")
        found = _VERSION.fullmatch(where.name)
        version = int(found[1], 16) if found is not None else 0
    own = {key: entry for key, entry in entries.items() if key.startswith(_SERVER)}
    by_id = {line.server_id: line for line in (_line(key, entry, where, len(own)) for key, entry in own.items())}
    _check_groups(entries, by_id, where)
    return Membership(in_java_order(by_id.values()), version)


def is_ensemble(membership: Membership, file: Path, *, standalone_enabled: bool) -> bool:
    """Return whether the members of a zoo.cfg are an ensemble; otherwise the server is a standalone one.

    Raises:
        ConfigError: there are observers without an ensemble, there is no member although standaloneEnabled is false,
            or the ensemble is one that is not supported.

    >>> is_ensemble(Membership((parse_line(1, "h:2888:3888;2181"),)), Path("zoo.cfg"), standalone_enabled=True)
    False
    """
    voters, lines = len(membership.voters), membership.lines
    if voters < MIN_VOTERS and standalone_enabled:
        if voters < len(lines):
            what = "an ensemble of observers only" if not voters else "observers of an ensemble with one voter"
            raise ConfigError(what, where=str(file), right=f"{MIN_VOTERS} servers with a vote")
        return False
    if not voters:
        right = "lines server.N=..., or standaloneEnabled=true"
        raise ConfigError("no server has a vote", where=str(file), right=right)
    return True


def _check_groups(entries: Mapping[str, Entry], by_id: Mapping[int, ServerLine], file: Path) -> None:
    """Check groups and weights: in an ensemble they are not supported, for a standalone server they have no effect.

    Each server must be in a group, and each number in a group must be a server (QuorumHierarchical).
    """
    keys = [key for key in entries if key.startswith(_GROUPS)]
    if not keys:
        return
    where = f"{file}:{entries[keys[0]].line}"
    if len(by_id) > 1:
        raise ConfigError(f"{keys[0]} is not supported", where=where, right="majority quorums")
    grouped = {number.strip() for key in keys if key.startswith(_GROUPS[0]) for number in entries[key].value.split(":")}
    if grouped != set(map(str, by_id)):
        raise ConfigError("the groups are not those of the servers", where=where, right="each server in a group")


def _read_dynamic(path: Path, where: str) -> dict[str, Entry]:
    try:
        entries = read_properties(path.read_text(encoding="latin-1"), str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", where=where) from error
    for key, entry in entries.items():
        if not key.startswith((_SERVER, *_GROUPS)):
            raise ConfigError(f"{key} is in the wrong file", where=f"{path}:{entry.line}", right="lines server.N=...")
    return entries


def _line(key: str, entry: Entry, file: Path, count: int) -> ServerLine:
    """Return the server of one of `count` lines; only a standalone server may have any number."""
    where = f"{file}:{entry.line}"
    number = key.removeprefix(_SERVER)
    if _NUMBER.fullmatch(number) is None or (count > 1 and not 0 <= int(number) <= MAX_SERVERS):
        raise ConfigError(f"invalid server number in {key}", where=where, right=f"server.0 to server.{MAX_SERVERS}")
    try:
        return parse_line(int(number), entry.value)
    except RefusedError:
        raise ConfigError(f"invalid {key}: {entry.value!r}", where=where, right=_FORM) from None


def read_myid(folder: Path, membership: Membership, *, is_required: bool) -> int | None:
    """Return the number of the server that a dataDir belongs to; None without `myid`, or if it is -1.

    Args:
        folder: the dataDir.
        membership: members of the file.
        is_required: whether there must be one, as in an ensemble.

    Raises:
        ConfigError: the first line of `myid` is not a 64-bit number, or the file is required and cannot be read.
    """
    path = folder / MYID
    ids = ", ".join(str(line.server_id) for line in membership.lines)
    right = f"one of {ids}" if ids else "a number, or no such file"
    try:
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        if not is_required and not path.is_file():
            return None
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), right=right) from error
    first = _LINE_END.split(text, maxsplit=1)[0]
    number = int(first) if _NUMBER.fullmatch(first) is not None else None
    if number is None or number != wrapped_long(number):
        raise ConfigError(f"invalid server number {first!r}", where=str(path), right=right)
    if number == _UNSET:
        if is_required:
            raise ConfigError("it has no server number", where=str(path), right=right)
        return None
    return number
