"""Import of layouts from a data directory or a live ZooKeeper.

Rules of this module:
  - the source is not changed: a directory may belong to a running server, and is neither locked nor written to;
  - a live server gets only the requests that a layout needs, with at most `WINDOW` of them in flight.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoAuthError

from simzk.errors import ConfigError, ZnodeError
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.layout_import import ignore_note, layout_from_tree, layout_of
from simzk.kafka.zookeeper_mode.schemas import topic
from simzk.pipeline.logs.live_tree import Guest, session
from simzk.serve.storage.directory_reader import DirectoryReader, as_config_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from simzk.partitions.layouts import Layout
    from simzk.serve.storage.directory_reader import Loss
    from simzk.zookeeper.persistence import Restoration

WINDOW = 128
"""Requests in flight: enough to keep a server busy, few enough to leave capacity to other clients."""


def layout_of_directory(
    path: Path,
    log_path: Path | None,
    chroot: str,
    note: Callable[[str], None] = ignore_note,
    leave_out: Callable[[str], None] | None = None,
) -> tuple[Layout, list[Loss]]:
    """Return the layout in a data directory, and the losses in its files.

    Args:
        path: the server's dataDir.
        log_path: its dataLogDir, if it differs.
        chroot: the path of Kafka's znodes; empty for the root.
        note: as in `layout_of`.
        leave_out: as in `layout_of`.

    Raises:
        ConfigError: the directory cannot be read or is not a data directory.
        LayoutError: its tree is not a valid layout.
        ZnodeError: a znode cannot be parsed.
    """
    reader = DirectoryReader(path, log_path, is_lazy=True)
    with as_config_errors(reader.folder):
        restoration = reader.restore()
    where = f"{path}{chroot and f', {chroot}'}"
    layout = layout_of(_Restored(restoration, chroot), where=where, note=note, leave_out=leave_out)
    return layout, list(reader.losses)


class _Restored:
    """The restored tree of a data directory, below a chroot."""

    def __init__(self, restoration: Restoration, chroot: str) -> None:
        self._restoration, self._chroot = restoration, chroot

    def names(self, path: str, /) -> list[str]:
        return self._restoration.names(f"{self._chroot}{path}")

    def data(self, paths: Sequence[str], /) -> list[bytes | None]:
        return self._restoration.data([f"{self._chroot}{path}" for path in paths] if self._chroot else paths)


def layout_of_server(
    hosts: str,
    show_progress: Callable[[str, float], None],
    note: Callable[[str], None] = ignore_note,
    leave_out: Callable[[str], None] | None = None,
) -> Layout:
    """Return the layout in a live ZooKeeper.

    Znodes are read one by one while the cluster runs, so partitions may be from different times.

    Args:
        hosts: a connection string, with or without a chroot: `host:port,host:port/chroot`.
        show_progress: called with the progress as text, and as a share, 0 to 1.
        note: as in `layout_of`.
        leave_out: as in `layout_of`.

    Raises:
        ConfigError: no server answers.
        LayoutError, ZnodeError: as in `layout_of_directory`.
    """
    with session(hosts) as client:
        znodes = dict(_read(Guest(client, WINDOW), show_progress))
        return layout_from_tree(znodes, where=hosts, note=note, leave_out=leave_out)


def _read(guest: Guest, show_progress: Callable[[str, float], None]) -> Iterator[tuple[str, bytes | None]]:
    names = _children(guest, paths.TOPICS)
    yield from _get(guest, [f"{paths.BROKER_IDS}/{name}" for name in _children(guest, paths.BROKER_IDS)])
    states: list[str] = []
    for path, data in _get(guest, [f"{paths.TOPICS}/{name}" for name in names]):
        yield path, data
        with suppress(ZnodeError):  # the error of `layout_from_tree`, which reads the same data
            states.extend(f"{path}/partitions/{partition}/state" for partition in topic.decode(path, data).partitions)
    yield from _get(guest, [*(f"/config/topics/{name}" for name in names), paths.REASSIGN_PARTITIONS])
    for count, found in enumerate(_get(guest, states), start=1):
        if count % 1000 == 0 or count == len(states):
            show_progress(f"{count:,} of {len(states):,} partitions", count / len(states))
        yield found


def _children(guest: Guest, path: str) -> list[str]:
    return [name for _, names in guest.ask("get_children", [path]) for name in _readable(path, names)]


def _get(guest: Guest, wanted: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield the data of znodes in their order, without those that do not exist."""
    for path, found in guest.ask("get", wanted):
        yield path, _readable(path, found)[0]


def _readable(path: str, found: Any) -> Any:
    """Return an answer, or raise if access is denied: without these znodes the layout would be wrong."""
    if isinstance(found, NoAuthError):
        raise ConfigError("read access is denied", where=path, right="a ZooKeeper with znodes that everybody may read")
    return found
