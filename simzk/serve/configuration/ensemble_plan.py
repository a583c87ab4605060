"""Servers of an ensemble to serve in one process, with the settings of each.

Rules of this module:
  - numbered servers differ only in their ports and directories: each has the next port after the given one;
  - servers with a zoo.cfg each have the settings of their files; settings of the whole ensemble must be equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.serve.configuration.keys import KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simzk.serve.configuration.members import Belonging
    from simzk.serve.configuration.settings import Settings
    from simzk.zookeeper.ensemble.membership import Membership


@dataclass(frozen=True)
class EnsemblePlan:
    """An ensemble to serve.

    Attributes:
        settings: settings of each server, by its number.
        observers: number of numbered servers without a vote, which are the last ones.
        folder: folder of the data directories of numbered servers.
        membership: the members, for servers with files; None for numbered ones.
        read_only: whether a server without a majority serves read-only clients.
        notices: warnings about the files.
    """

    settings: Mapping[int, Settings]
    observers: int = 0
    folder: Path | None = None
    membership: Membership | None = None
    read_only: bool = False
    notices: tuple[str, ...] = ()

    @property
    def common(self) -> Settings:
        """Settings of the first server, for those that all have in common."""
        return next(iter(self.settings.values()))


def numbered(settings: Settings, servers: int, *, observers: int = 0, read_only: bool = False) -> EnsemblePlan:
    """Return a plan of servers 1, 2 and so on with equal settings; observers are the last.

    Args:
        settings: common settings, with the ports of the first server and the folders of all.
        servers: number of voters.
        observers: number of observers beside them.
        read_only: whether a server without a majority serves read-only clients.

    >>> from simzk.serve.configuration.settings import Settings
    >>> plan = numbered(Settings(port=2181, admin_port=0), 3)
    >>> [(each.port, each.admin_port) for each in plan.settings.values()]
    [(2181, 0), (2182, 0), (2183, 0)]
    """
    each = {server_id: _nth(settings, server_id) for server_id in range(1, servers + observers + 1)}
    return EnsemblePlan(each, observers, settings.data_directory, read_only=read_only)


def _nth(settings: Settings, server_id: int) -> Settings:
    def port(first: int | None) -> int | None:
        return first + server_id - 1 if first else first

    data, logs = settings.data_directory, settings.log_directory
    return settings._replace(
        port=port(settings.port) or 0,
        secure_port=port(settings.secure_port),
        admin_port=port(settings.admin_port),
        data_directory=None if data is None else data / str(server_id),
        log_directory=None if logs is None else logs / str(server_id),
    )


def of_files(files: Sequence[Settings], *, read_only: bool = False) -> EnsemblePlan:
    """Return a plan of servers with a zoo.cfg each, without those that have left: real ones would not start.

    Raises:
        ConfigError: a file has no ensemble, two are for the same server, or common settings differ.
    """
    assert files, "an ensemble of no file"
    first = _belonging(files[0])
    settings: dict[int, Settings] = {}
    for file in files:
        belonging = _belonging(file)
        where = str(belonging.file)
        if belonging.server_id in settings:
            other = _belonging(settings[belonging.server_id]).file
            raise ConfigError(f"it is for server {belonging.server_id}, like {other}", where=where)
        has_same_version = belonging.membership.version == first.membership.version
        if has_same_version and _common_lines(belonging) != _common_lines(first):
            raise ConfigError(f"its servers differ from those of {first.file}", where=where, right="the same")
        for name, value, first_value in zip(file.server._fields, file.server, files[0].server, strict=True):
            if value != first_value:
                key = next((key for key, row in KEYS.items() if (row.name, row.of) == (name, "server")), name)
                raise ConfigError(f"its {key} differs from that of {first.file}", where=where, right="the same")
        settings[belonging.server_id] = file._replace(read_only=file.read_only or read_only)
    read_only = read_only or any(file.read_only for file in files)
    if len(files) == 1 < len(first.membership.lines) and not read_only:
        others = " ".join(f"--config ZOO{line.server_id}.CFG" for line in first.membership.lines[1:])
        count = len(first.membership.lines)
        right = (
            f"one process with the files of all: simzk serve --config {first.file} {others}"
            f"; without files: simzk serve --servers {count}"
        )
        what = f"it is the file of one of {count} servers, which simzk runs in one process, not in one each"
        raise ConfigError(what, where=str(first.file), right=right)
    newest = max((_belonging(file).membership for file in files), key=lambda membership: membership.version)
    left = [server_id for server_id in settings if server_id not in newest.voters | newest.observers]
    notices = tuple(f"server {server_id} has left the ensemble, and is not started" for server_id in left)
    members = {server_id: file for server_id, file in settings.items() if server_id not in left}
    if not members:
        raise ConfigError("none of these servers is a member", where=str(first.file), right="files of members")
    return EnsemblePlan(members, membership=newest, read_only=read_only, notices=notices)


def _common_lines(belonging: Belonging) -> object:
    """Return what must be equal in all files: the lines without client ports."""
    return sorted(line._replace(client=None) for line in belonging.membership.lines)


def _belonging(settings: Settings) -> Belonging:
    if settings.belonging is None:
        raise ConfigError("a file of several is that of a single server", where="--config", right="lines server.N=...")
    return settings.belonging
