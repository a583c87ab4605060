"""The data directories of an ensemble: one a server, each as a real ensemble's server has it (§6).

Rules of this module:
  - each server has a dataDir of its own, `DIR/1`, `DIR/2`, ... where nothing else is said: `myid`, and in `version-2`
    logs, snapshots, `acceptedEpoch` and `currentEpoch`; a real server boots from any of them, and these servers from
    what real ones wrote;
  - who has the newest epoch, and of those who has come farthest, has the history that all go on with; who lacks some
    of it gets a snapshot of it, and who has what the others never committed loses that;
  - an epoch is on disk before the first transaction of it, and no reply leaves before all that follow have it on disk.

Source: QuorumPeer.loadDataBase, FastLeaderElection.totalOrderPredicate, LearnerHandler.syncFollower.

Small files that are there whole or not at all.

Source: AtomicFileWritingIdiom.

What reconfigurations leave behind in the files of an ensemble's servers, so that they start again as they were.

Rules of this module:
  - where reconfigEnabled is set, the members stand in `zoo.cfg.dynamic.VERSION`, and zoo.cfg names that file; its own
    lines of members are gone from it, and so are its comments. As it was before it is kept as `zoo.cfg.bak`;
  - the new file is whole before zoo.cfg names it, so that whenever the process is killed either counts;
  - a server that is stopped learns of it when it starts.

Source: QuorumPeer.setQuorumVerifier, QuorumPeerConfig (writeDynamicConfig, editStaticConfig, backupOldConfig).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from simzk.errors import ConfigError
from simzk.serve.configuration.file_formats import read_properties
from simzk.serve.configuration.members import DYNAMIC
from simzk.serve.storage.data_directory import DataDirectory
from simzk.serve.storage.directory_reader import Loss, refusing
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

_MYID = "myid"
_ACCEPTED, _CURRENT = "acceptedEpoch", "currentEpoch"


class DataPlace(NamedTuple):
    """Where a server keeps its data.

    Attributes:
        path: its dataDir.
        log_path: its dataLogDir, or None.
        storage: how it is kept.
    """

    path: Path
    log_path: Path | None
    storage: Storage


def make_folder(path: Path, ids: Sequence[int]) -> None:
    """See to it that there is a folder for the dataDirs of numbered servers, and theirs alone.

    Raises:
        ConfigError: it holds something else, or other servers too: fewer than there were might not have it all.
    """
    with refusing(path):
        path.mkdir(parents=True, exist_ok=True)
        if (path / "version-2").exists():
            right = f"the servers' own directories in it, {', '.join(map(str, ids))}, or one server"
            raise ConfigError("it holds the data of a single server", where=str(path), right=right)
        for folder in sorted(path.iterdir()):
            if (folder / "version-2").is_dir() and folder.name.isdecimal() and int(folder.name) not in ids:
                most = max(int(name.name) for name in path.iterdir() if name.name.isdecimal())
                raise ConfigError("it is of no server of this ensemble", where=str(folder), right=f"{most} servers")


class EnsembleDirectory:
    """Where an ensemble keeps what it has acknowledged.

    Args:
        places: each server's own, by its id.

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
        for server_id, place in self._places.items():
            with refusing(place.path):
                self._refuse_another(server_id, place.path / _MYID)
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
        if config.membership is None:
            kept = self._kept_membership(past[farthest])
            if kept is not None:
                config = replace(config, membership=kept, here=tuple(config.ids))
        epoch = max(*accepted.values(), *current.values())
        ensemble = self._ensemble = Ensemble(config, now_ms=now_ms, past=past, epoch=epoch)
        with refusing(next(iter(self._places.values())).path):
            self._write_epochs()
        for server_id, directory in self._directories.items():
            directory.keep(ensemble.members[server_id], past[server_id])
            myid = self._places[server_id].path / _MYID
            if not myid.exists():
                write_whole(myid, f"{server_id}\n", fsync=self._places[server_id].storage.fsync)
        return ensemble

    def _kept_membership(self, restoration: Restoration) -> Membership | None:
        """What reconfigurations made of numbered servers; it stands in the tree, as in a real one's dynamicConfigFile.

        A server that is new makes a new ensemble: then it is those that there are.
        """
        if not all((place.path / _MYID).exists() for place in self._places.values()):
            return None
        node = restoration.tree.get("/zookeeper/config")
        return None if node is None else membership_of(node.data or b"")

    def _refuse_another(self, server_id: int, myid: Path) -> None:
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
                    write_whole(folder / name, str(member.epoch), fsync=self._places[server_id].storage.fsync)
                self._epochs[server_id] = member.epoch

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


def write_whole(path: Path, text: str, *, fsync: bool = True) -> None:
    """Put a text in the place of what a file held; whoever reads it meanwhile sees either.

    Args:
        path: the file.
        text: of ISO 8859-1.
        fsync: whether it is to outlive the machine.

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
    """The files of one server.

    Args:
        belonging: what its zoo.cfg said at the start.
    """

    def __init__(self, belonging: Belonging) -> None:
        self._file = belonging.file.absolute()
        self._server_id = belonging.server_id
        self._has_own_client_port = belonging.line is None or belonging.line.client is None
        self._version = belonging.membership.version

    def keep(self, membership: Membership) -> None:
        """Write down who belongs to the ensemble, unless that is written.

        Raises:
            OSError: the files cannot be written.
        """
        if membership.version == self._version:
            return
        dynamic = self._file.with_name(f"{self._file.name}.dynamic.{membership.version:x}")
        write_whole(dynamic, "\n".join(map(str, membership.lines)))
        text = self._file.read_text(encoding="latin-1")
        entries = read_properties(text, str(self._file))
        if DYNAMIC not in entries:
            write_whole(self._file.with_name(f"{self._file.name}.bak"), text)
        gone = _OF_MEMBERS if self._has_own_client_port else (*_OF_MEMBERS, _OF_CLIENTS)
        kept = "".join(f"{key}={entry.value}\n" for key, entry in entries.items() if not key.startswith(gone))
        write_whole(self._file, f"{kept}{DYNAMIC}={dynamic}\n")
        self._version = membership.version
