"""Which servers of an ensemble are to be served here, and how each of them is.

Rules of this module:
  - numbered servers differ in nothing but their ports and directories: from a given port on each has the next;
  - servers with a zoo.cfg each are as their files say; what the ensemble has once, the files must say alike.
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
        settings: how each server is served, by its id.
        observers: of numbered servers, how many of the last have no vote.
        folder: of numbered servers with data directories, the one that those are in.
        membership: of servers with files, who belongs to it; None for numbered ones.
        read_only: whether a server without a majority serves read-only clients.
        notices: what is to be said about it.
    """

    settings: Mapping[int, Settings]
    observers: int = 0
    folder: Path | None = None
    membership: Membership | None = None
    read_only: bool = False
    notices: tuple[str, ...] = ()

    @property
    def common(self) -> Settings:
        """Those of the first server, for what all have in common."""
        return next(iter(self.settings.values()))


def numbered(settings: Settings, servers: int, *, observers: int = 0, read_only: bool = False) -> EnsemblePlan:
    """Servers 1, 2 and so on, all alike; those without a vote are the last.

    Args:
        settings: how each of them is served: its ports are the first one's, its folders what theirs are in.
        servers: how many that have a vote.
        observers: how many beside them that have none.
        read_only: whether a server without a majority serves read-only clients.

    >>> from simzk.serve.configuration.settings import Settings
    >>> plan = numbered(Settings(port=2181, admin_port=0), 3)
    >>> [(each.port, each.admin_port) for each in plan.settings.values()]
    [(2181, 0), (2182, 0), (2183, 0)]
    """
    ids = range(1, servers + observers + 1)
    return EnsemblePlan(
        {server_id: _nth(settings, server_id) for server_id in ids}, observers, settings.data_directory, None, read_only
    )


def _nth(settings: Settings, server_id: int) -> Settings:
    def port(first: int | None) -> int | None:
        return first + server_id - 1 if first else first

    def folder(common: Path | None) -> Path | None:
        return None if common is None else common / str(server_id)

    return settings._replace(
        port=port(settings.port) or 0,
        secure_port=port(settings.secure_port),
        admin_port=port(settings.admin_port),
        data_directory=folder(settings.data_directory),
        log_directory=folder(settings.log_directory),
    )


def of_files(files: Sequence[Settings], *, read_only: bool = False) -> EnsemblePlan:
    """Servers with a zoo.cfg each; whoever has left the ensemble is left out, as a real one would not start.

    Raises:
        ConfigError: a file is no ensemble's, two are one server's, or they do not say the same of what they share.
    """
    first = _belonging(files[0])
    settings: dict[int, Settings] = {}
    for file in files:
        belonging = _belonging(file)
        if belonging.server_id in settings:
            other = _belonging(settings[belonging.server_id]).file
            raise ConfigError(f"it is for server {belonging.server_id}, as {other} is", where=str(belonging.file))
        if belonging.membership.version == first.membership.version and _told(belonging) != _told(first):
            raise ConfigError(f"it has other servers than {first.file}", where=str(belonging.file), right="the same")
        for name, told, first_told in zip(file.server._fields, file.server, files[0].server, strict=True):
            if told != first_told:
                key = next((key for key, row in KEYS.items() if (row.name, row.of) == (name, "server")), name)
                raise ConfigError(f"its {key} is not that of {first.file}", where=str(belonging.file), right="the same")
        settings[belonging.server_id] = file
    read_only = read_only or any(file.read_only for file in files)
    if len(files) == 1 and not read_only:
        others = " ".join(f"--config ZOO{line.server_id}.CFG" for line in first.membership.lines[1:])
        right = f"one process with the files of all: simzk serve --config {first.file} {others}"
        raise ConfigError(f"it is one server's of {len(first.membership.lines)}", where=str(first.file), right=right)
    newest = max((_belonging(file).membership for file in files), key=lambda membership: membership.version)
    left = [server_id for server_id in settings if server_id not in newest.voters | newest.observers]
    notices = tuple(f"server {server_id} is no member any more, and is left out" for server_id in left)
    members = {server_id: file for server_id, file in settings.items() if server_id not in left}
    if not members:
        raise ConfigError("of these servers none is a member", where=str(first.file), right="files of members")
    return EnsemblePlan(members, membership=newest, read_only=read_only, notices=notices)


def _told(belonging: Belonging) -> object:
    """What the file of one server must say as the others do: all lines, but for where its own clients connect."""
    return sorted(line._replace(client=None) for line in belonging.membership.lines)


def _belonging(settings: Settings) -> Belonging:
    if settings.belonging is None:
        raise ConfigError("a file among several speaks of a lone server", where="--config", right="lines server.N=...")
    return settings.belonging
