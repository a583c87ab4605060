"""The data directories of an ensemble: one a server, side by side, each as a real ensemble's server has it (§6).

Rules of this module:
  - `DIR/1`, `DIR/2`, ... are the servers' dataDirs: `myid`, and in `version-2` logs, snapshots, `acceptedEpoch` and
    `currentEpoch`; a real server boots from any of them, and these servers from what real ones wrote;
  - who has the newest epoch, and of those who has come farthest, has the history that all go on with; who lacks some
    of it gets a snapshot of it, and who has what the others never committed loses that;
  - an epoch is on disk before the first transaction of it, and no reply leaves before all that follow have it on disk.

Source: QuorumPeer.loadDataBase, FastLeaderElection.totalOrderPredicate, LearnerHandler.syncFollower.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from simzk.errors import ConfigError
from simzk.serve.data_directory import DataDirectory
from simzk.serve.directory_reader import Loss, refusing
from simzk.serve.storage import Storage
from simzk.zookeeper.ensemble import Ensemble

if TYPE_CHECKING:
    from pathlib import Path

    from simzk.zookeeper.ensemble import EnsembleConfig
    from simzk.zookeeper.persistence import Restoration

_MYID = "myid"
_ACCEPTED, _CURRENT = "acceptedEpoch", "currentEpoch"


class EnsembleDirectory:
    """Where an ensemble keeps what it has acknowledged.

    Args:
        path: in which the servers' directories are; made if it is not there.
        servers: how many there are.
        log_path: in which the directories of their logs are, if not beside the snapshots.
        storage: how each is kept.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from simzk.zookeeper.ensemble import EnsembleConfig
    >>> with tempfile.TemporaryDirectory() as place:
    ...     directory = EnsembleDirectory(Path(place), 3, storage=Storage(fsync=False))
    ...     ensemble = directory.load(EnsembleConfig(3), now_ms=0)
    ...     directory.close()
    ...     sorted(str(file.relative_to(place)) for file in Path(place, "1").rglob("*") if file.is_file())
    ['1/myid', '1/version-2/acceptedEpoch', '1/version-2/currentEpoch', '1/version-2/snapshot.0']
    """

    def __init__(
        self,
        path: Path,
        servers: int,
        *,
        log_path: Path | None = None,
        storage: Storage | None = None,
    ) -> None:
        self._path = path
        self._storage = storage or Storage()
        self._directories = {
            server_id: DataDirectory(
                path / str(server_id),
                self._storage,
                log_path=None if log_path is None else log_path / str(server_id),
            )
            for server_id in range(1, servers + 1)
        }
        self._epochs = dict.fromkeys(self._directories, 0)
        self._ensemble: Ensemble | None = None

    def of(self, server_id: int) -> DataDirectory:
        """One server's directory."""
        return self._directories[server_id]

    @property
    def losses(self) -> list[Loss]:
        """What the servers' directories were found to lack."""
        return [loss for directory in self._directories.values() for loss in directory.losses]

    # Booting

    def load(self, config: EnsembleConfig, now_ms: int) -> Ensemble:
        """The ensemble that these directories hold; empty ones hold a new one.

        Raises:
            ConfigError: a directory cannot be used, is another server's, or holds what no server boots from.
        """
        assert self._ensemble is None, "directories are loaded once"
        try:
            return self._load(config, now_ms)
        except BaseException:
            self.abandon()
            raise

    def _load(self, config: EnsembleConfig, now_ms: int) -> Ensemble:
        with refusing(self._path):
            self._path.mkdir(parents=True, exist_ok=True)
            self._refuse_others()
        past = {server_id: directory.restore(config.server) for server_id, directory in self._directories.items()}
        accepted = {server_id: self._read_epoch(server_id, _ACCEPTED) for server_id in past}
        current = {
            server_id: max(self._read_epoch(server_id, _CURRENT), restoration.zxid >> 32)
            for server_id, restoration in past.items()
        }
        farthest = max(past, key=lambda server_id: (current[server_id], past[server_id].zxid, server_id))
        for server_id, restoration in past.items():
            if restoration.zxid != past[farthest].zxid:
                past[server_id] = self._replace(server_id, restoration, farthest, config)
        epoch = max(*accepted.values(), *current.values())
        ensemble = self._ensemble = Ensemble(config, now_ms=now_ms, past=past, epoch=epoch)
        with refusing(self._path):
            self._write_epochs()
        for server_id, directory in self._directories.items():
            directory.keep(ensemble.members[server_id], past[server_id])
            with refusing(self._path):
                self._write(self._path / str(server_id) / _MYID, f"{server_id}\n")
        return ensemble

    def _refuse_others(self) -> None:
        """What is there must be this ensemble's, whole: fewer servers than there were might not have it all."""
        if (self._path / "version-2").exists():
            right = f"the servers' own directories in it, {', '.join(map(str, self._directories))}, or one server"
            raise ConfigError("it holds the data of a single server", where=str(self._path), right=right)
        for folder in sorted(self._path.iterdir()):
            if not (folder / "version-2").is_dir():
                continue
            if folder.name.isdecimal() and int(folder.name) not in self._directories:
                most = max(int(name.name) for name in self._path.iterdir() if name.name.isdecimal())
                raise ConfigError("it is of no server of this ensemble", where=str(folder), right=f"{most} servers")
        for server_id in self._directories:
            myid = self._path / str(server_id) / _MYID
            if myid.exists() and myid.read_text(encoding="latin-1").strip() != str(server_id):
                raise ConfigError("it is another server's directory", where=str(myid), right=str(server_id))

    def _replace(self, server_id: int, restoration: Restoration, farthest: int, config: EnsembleConfig) -> Restoration:
        """The history that all go on with, for one who has another."""
        history = self._directories[farthest].restore(config.server)
        if restoration.zxid > history.zxid:
            self._directories[server_id].truncate(history.zxid)
        return history

    # Epochs

    def _read_epoch(self, server_id: int, name: str) -> int:
        path = self._directories[server_id].folder / name
        with refusing(path):
            if not path.exists():
                return 0
            text = path.read_text(encoding="latin-1").strip()
        if not text.isdecimal():
            raise ConfigError(f"{text!r} is no epoch", where=str(path), right="a whole number")
        return int(text)

    def _write_epochs(self) -> None:
        assert self._ensemble is not None
        for server_id, member in self._ensemble.members.items():
            if member.epoch != self._epochs[server_id]:
                folder = self._directories[server_id].folder
                for name in (_ACCEPTED, _CURRENT):  # never is the current one ahead of the accepted one
                    self._write(folder / name, str(member.epoch))
                self._epochs[server_id] = member.epoch

    def _write(self, path: Path, text: str) -> None:
        """A small file, whole or not at all (AtomicFileWritingIdiom)."""
        partial = path.with_name(f".{path.name}.partial")
        with partial.open("w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            if self._storage.fsync:
                os.fsync(stream.fileno())
        partial.replace(path)

    # Logging

    def sync(self) -> None:
        """Put on disk what the servers have applied since the last time.

        Raises:
            OSError: a disk does not take it; nothing may be acknowledged any more.
        """
        self._write_epochs()
        for directory in self._directories.values():
            directory.sync()

    def close(self) -> None:
        """Put on disk what was applied, and let go of the files.

        Raises:
            OSError: as `sync`.
        """
        self._write_epochs()
        for directory in self._directories.values():
            directory.close()

    def abandon(self) -> None:
        """Let go of the files as they are, for a disk takes nothing more."""
        for directory in self._directories.values():
            directory.abandon()
