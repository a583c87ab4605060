"""Where a layout is imported from: a recording, a data directory, or a live ZooKeeper.

Rules of this module:
  - nothing of the source is changed: a directory may be a running server's, and is neither locked nor written to;
  - a live server is asked for what a layout needs and nothing else, and never more than `WINDOW` requests at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoAuthError

from simzk.errors import ConfigError
from simzk.kafka import paths
from simzk.kafka.layout_import import ignore_note, layout_from_tree, layout_of
from simzk.kafka.schemas import topic
from simzk.pipeline.logs.live import Guest, session
from simzk.serve.storage.directory_reader import DirectoryReader, as_config_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from simzk.partitions.layouts import Layout
    from simzk.serve.storage.directory_reader import Loss
    from simzk.zookeeper.persistence import Restoration

WINDOW = 128
"""Requests under way at once: enough to keep a server busy, few enough to leave it to others."""


def layout_of_directory(
    path: Path, log_path: Path | None, chroot: str, note: Callable[[str], None] = ignore_note
) -> tuple[Layout, list[Loss]]:
    """The layout that stands in a data directory, and what of it is lost.

    Args:
        path: the server's dataDir.
        log_path: its dataLogDir, if logs are not beside the snapshots.
        chroot: under which path Kafka's znodes are; empty for none.
        note: as of `layout_of`.

    Raises:
        ConfigError: the directory cannot be read, or is none.
        LayoutError: its tree holds no layout that can be.
        ZnodeError: a znode cannot be read.
    """
    reader = DirectoryReader(path, log_path, sleeping=True)
    with as_config_errors(reader.folder):
        restoration = reader.restore()
    layout = layout_of(_Restored(restoration, chroot), where=f"{path}{chroot and f', {chroot}'}", note=note)
    return layout, list(reader.losses)


class _Restored:
    """What was restored of a data directory, below a chroot."""

    def __init__(self, restoration: Restoration, chroot: str) -> None:
        self._restoration, self._chroot = restoration, chroot

    def names(self, path: str, /) -> list[str]:
        return self._restoration.names(f"{self._chroot}{path}")

    def data(self, paths: Sequence[str], /) -> list[bytes | None]:
        return self._restoration.data([f"{self._chroot}{path}" for path in paths] if self._chroot else paths)


def layout_of_server(hosts: str, tell: Callable[[str], None], note: Callable[[str], None] = ignore_note) -> Layout:
    """The layout that stands in a live ZooKeeper.

    It is read znode by znode while the cluster goes on, so two partitions may be shown at different instants.

    Args:
        hosts: as clients write them, with a chroot or without: `host:port,host:port/chroot`.
        tell: called with how far it is.
        note: as of `layout_of`.

    Raises:
        ConfigError: nobody answers there.
        LayoutError, ZnodeError: as `layout_of_directory`.
    """
    with session(hosts) as client:
        return layout_from_tree(dict(_read(Guest(client, WINDOW), tell)), where=hosts, note=note)


def _read(guest: Guest, tell: Callable[[str], None]) -> Iterator[tuple[str, bytes | None]]:
    names = _children(guest, paths.TOPICS)
    yield from _get(guest, [f"{paths.BROKER_IDS}/{name}" for name in _children(guest, paths.BROKER_IDS)])
    states: list[str] = []
    for path, data in _get(guest, [f"{paths.TOPICS}/{name}" for name in names]):
        yield path, data
        states.extend(f"{path}/partitions/{partition}/state" for partition in topic.decode(path, data).partitions)
    yield from _get(guest, [*(f"/config/topics/{name}" for name in names), paths.REASSIGN_PARTITIONS])
    for count, found in enumerate(_get(guest, states), start=1):
        if count % 1000 == 0 or count == len(states):
            tell(f"{count:,} of {len(states):,} partitions")
        yield found


def _children(guest: Guest, path: str) -> list[str]:
    return [name for _, names in guest.ask("get_children", [path]) for name in _readable(path, names)]


def _get(guest: Guest, wanted: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
    """The data of znodes in their order; those that are gone, or were never there, are left out."""
    for path, found in guest.ask("get", wanted):
        yield path, _readable(path, found)[0]


def _readable(path: str, found: Any) -> Any:
    """An answer that is one: a layout without what may not be read would be another cluster's."""
    if isinstance(found, NoAuthError):
        raise ConfigError("it may not be read", where=path, right="a ZooKeeper whose znodes everybody may read")
    return found
