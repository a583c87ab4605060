"""Data directories of an ensemble, and the files that its reconfigurations write (§6).

Rules of this module:
  - each server has its own dataDir, `DIR/1`, `DIR/2`, ... by default, with `myid`, and in `version-2` logs, snapshots,
    `acceptedEpoch` and `currentEpoch`; a real server boots from any of them, and these servers from those of real ones;
  - the server with the newest epoch, and among those the one with the greatest zxid, has the history that all continue.
    A server that lacks part of it gets a snapshot; one with transactions that were never committed loses them;
  - an epoch is on disk before its first transaction, and no reply is sent before all that follow have it on disk;
  - with reconfigEnabled, the members are in `zoo.cfg.dynamic.VERSION`, and zoo.cfg names that file; the members' lines
    and all comments are removed from zoo.cfg, whose previous content is kept as `zoo.cfg.bak`;
  - the new file is complete before zoo.cfg names it, so that a killed process leaves either the old or the new one;
  - a stopped server gets the new members when it starts.

Source: QuorumPeer (loadDataBase, setQuorumVerifier), FastLeaderElection.totalOrderPredicate,
LearnerHandler.syncFollower, AtomicFileWritingIdiom, QuorumPeerConfig (writeDynamicConfig, editStaticConfig,
backupOldConfig).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.serve.configuration.file_formats import read_properties
from simzk.serve.configuration.members import DYNAMIC, MYID
from simzk.serve.storage.data_directory import DataDirectory
from simzk.serve.storage.directory_reader import Loss, as_config_errors
from simzk.zookeeper.ensemble import Ensemble
from simzk.zookeeper.ensemble.membership import membership_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from simzk.serve.configuration.members import Belonging
    from simzk.serve.configuration.settings import Storage
    from simzk.zookeeper.ensemble import EnsembleConfig
    from simzk.zookeeper.ensemble.membership import Membership
    from simzk.zookeeper.persistence import Restoration

_ACCEPTED, _CURRENT = "acceptedEpoch", "currentEpoch"


class DataPlace(NamedTuple):
    """Data folders of one server: dataDir, dataLogDir if it is another, and how snapshots and logs are written."""

    path: Path
    log_path: Path | None
    storage: Storage


def make_folder(path: Path, ids: Sequence[int]) -> None:
    """Create the folder for the dataDirs of numbered servers, if it is missing.

    Raises:
        ConfigError: it contains the data of a single server, or of more servers: fewer servers might lack transactions.
    """
    with as_config_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        if (path / "version-2").exists():
            right = f"the servers' own directories in it, {', '.join(map(str, ids))}, or one server"
            raise ConfigError("it contains the data of a single server", where=str(path), right=right)
        for folder in sorted(path.iterdir()):
            if (folder / "version-2").is_dir() and folder.name.isdecimal() and int(folder.name) not in ids:
                most = max(int(name.name) for name in path.iterdir() if name.name.isdecimal())
                what = "it belongs to no server of this ensemble"
                raise ConfigError(what, where=str(folder), right=f"{most} servers")


class EnsembleDirectory:
    """Data directories of an ensemble.

    Args:
        places: the folders of each server, by its number.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from simzk.serve.configuration.settings import Storage
    >>> from simzk.zookeeper.ensemble import EnsembleConfig
    >>> with tempfile.TemporaryDirectory() as place:
    ...     storage = Storage(fsync=False)
    ...     directory = EnsembleDirectory({n: DataPlace(Path(place, str(n)), None, storage) for n in (1, 2, 3)})
    ...     ensemble = directory.load(EnsembleConfig(3), now_ms=0)
    ...     directory.close()
    ...     sorted(str(file.relative_to(place)) for file in Path(place, "1").rglob("*") if file.is_file())
    ['1/myid', '1/version-2/acceptedEpoch', '1/version-2/currentEpoch', '1/version-2/snapshot.0']
    """

    def __init__(self, places: Mapping[int, DataPlace]) -> None:
        self._places = dict(places)
        self._directories = {
            server_id: DataDirectory(place.path, place.storage, log_path=place.log_path)
            for server_id, place in places.items()
        }
        self._epochs = dict.fromkeys(self._directories, 0)
        self._ensemble: Ensemble | None = None

    def of(self, server_id: int) -> DataDirectory:
        """Return the directory of one server."""
        return self._directories[server_id]

    @property
    def losses(self) -> list[Loss]:
        """Data that is missing from the directories."""
        return [loss for directory in self._directories.values() for loss in directory.losses]

    # Booting

    def load(self, config: EnsembleConfig, now_ms: int) -> Ensemble:
        """Return the ensemble of these directories; a new one if they are empty.

        Raises:
            ConfigError: a directory cannot be used, belongs to another server, or no server would boot from it.
        """
        assert self._ensemble is None, "directories are loaded once"
        try:
            return self._load(config, now_ms)
        except BaseException:
            self.abandon()
            raise

    def _load(self, config: EnsembleConfig, now_ms: int) -> Ensemble:
        for server_id, place in self._places.items():
            myid = place.path / MYID
            with as_config_errors(place.path):
                if myid.exists() and myid.read_text(encoding="latin-1").strip() != str(server_id):
                    raise ConfigError("it belongs to another server", where=str(myid), right=str(server_id))
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
        assert {one.zxid for one in past.values()} == {past[farthest].zxid}, "all continue one history"
        if config.membership is None:
            kept = self._stored_membership(past[farthest])
            if kept is not None:
                config = replace(config, membership=kept, here=tuple(config.ids))
        epoch = max(*accepted.values(), *current.values())
        ensemble = self._ensemble = Ensemble(config, now_ms=now_ms, past=past, epoch=epoch)
        with as_config_errors(next(iter(self._places.values())).path):
            self._write_epochs()
        for server_id, directory in self._directories.items():
            directory.attach(ensemble.members[server_id], past[server_id])
            myid = self._places[server_id].path / MYID
            if not myid.exists():
                write_whole(myid, f"{server_id}\n", fsync=self._places[server_id].storage.fsync)
        return ensemble

    def _stored_membership(self, restoration: Restoration) -> Membership | None:
        """Return the members that reconfigurations of numbered servers have left in the tree; None for a new ensemble.

        A server without `myid` is new, so the ensemble is new too.
        """
        if not all((place.path / MYID).exists() for place in self._places.values()):
            return None
        node = restoration.tree.get("/zookeeper/config")
        return None if node is None else membership_of(node.data or b"")

    def _replace(self, server_id: int, restoration: Restoration, farthest: int, config: EnsembleConfig) -> Restoration:
        """Return the history that all continue, for a server with another one."""
        assert server_id != farthest, "a server keeps its own history"
        history = self._directories[farthest].restore(config.server)
        if restoration.zxid > history.zxid:
            self._directories[server_id].truncate(history.zxid)
        return history

    # Epochs

    def _read_epoch(self, server_id: int, name: str) -> int:
        path = self._directories[server_id].folder / name
        with as_config_errors(path):
            if not path.exists():
                return 0
            text = path.read_text(encoding="latin-1").strip()
        if not text.isdecimal():
            raise ConfigError(f"invalid epoch {text!r}", where=str(path), right="a whole number")
        return int(text)

    def _write_epochs(self) -> None:
        assert self._ensemble is not None
        for server_id, member in self._ensemble.members.items():
            assert member.epoch >= self._epochs[server_id], f"the epoch of server {server_id} goes back"
            if member.epoch != self._epochs[server_id]:
                folder = self._directories[server_id].folder
                for name in (_ACCEPTED, _CURRENT):  # in this order: currentEpoch must not exceed acceptedEpoch
                    write_whole(folder / name, str(member.epoch), fsync=self._places[server_id].storage.fsync)
                self._epochs[server_id] = member.epoch

    # Logging

    def sync(self) -> None:
        """Write the transactions that the servers have applied since the last call.

        Raises:
            OSError: a disk cannot be written to; nothing may be acknowledged any more.
        """
        self._write_epochs()
        for directory in self._directories.values():
            directory.sync()

    def close(self) -> None:
        """Write the transactions that were applied, and close the files; raise OSError as `sync`."""
        self._write_epochs()
        for directory in self._directories.values():
            directory.close()

    def abandon(self) -> None:
        """Close the files as they are, after a disk has failed."""
        for directory in self._directories.values():
            directory.abandon()


def write_whole(path: Path, text: str, *, fsync: bool = True) -> None:
    """Replace the content of a file atomically.

    Args:
        path: the file.
        text: its new content, in ISO 8859-1.
        fsync: whether to force it to the disk.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="latin-1", newline="") as stream:
        stream.write(text)
        stream.flush()
        if fsync:
            os.fsync(stream.fileno())
    partial.replace(path)


_OF_MEMBERS = ("server.", "group", "weight", DYNAMIC, "peerType")
_OF_CLIENTS = "clientPort"


class DynamicConfig:
    """Configuration files of one server, which reconfigurations rewrite; `belonging` is that at the start."""

    def __init__(self, belonging: Belonging) -> None:
        self._file = belonging.file.absolute()
        self._has_own_client_port = belonging.line is None or belonging.line.client is None
        self._version = belonging.membership.version

    def write(self, membership: Membership) -> None:
        """Write the members of the ensemble, if they have changed.

        Raises:
            OSError: the files cannot be written.
        """
        if membership.version == self._version:
            return
        assert membership.version > self._version, "an older membership would replace a newer one"
        dynamic = self._file.with_name(f"{self._file.name}.dynamic.{membership.version:x}")
        write_whole(dynamic, "\n".join(map(str, membership.lines)))
        text = self._file.read_text(encoding="latin-1")
        entries = read_properties(text, str(self._file))
        if DYNAMIC not in entries:
            write_whole(self._file.with_name(f"{self._file.name}.bak"), text)
        removed = _OF_MEMBERS if self._has_own_client_port else (*_OF_MEMBERS, _OF_CLIENTS)
        kept = "".join(f"{key}={entry.value}\n" for key, entry in entries.items() if not key.startswith(removed))
        write_whole(self._file, f"{kept}{DYNAMIC}={dynamic}\n")
        self._version = membership.version
