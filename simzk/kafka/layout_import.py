"""A layout out of a cluster's znodes, of whichever Kafka version wrote them.

What is read (docs/reference/kafka.md §1.3): `/brokers/ids/N` for the live brokers and their racks, `/brokers/topics/T`
for the replicas, `partitions/P/state` for leader and ISR, `/config/topics/T` for `min.insync.replicas`. A broker that
replicas name and that is not registered is a broker that is down. A partition without a state has not been started yet:
no leader, an empty ISR.

What reassignments under way add and remove stands in the topic's znode from 2.4 on (KIP-455). Before, it stands in
`/admin/reassign_partitions` alone: that a layout cannot say, so whoever imports is told of such a znode.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from simzk.errors import LayoutError, ZnodeError
from simzk.kafka import paths
from simzk.kafka.recording import load
from simzk.kafka.schemas import admin, broker_registration, config
from simzk.kafka.schemas.java_numbers import parse_int
from simzk.kafka.znode_columns import StateColumns, TopicColumns, read_states, read_topics
from simzk.partitions.arrays import MAX_BROKER_ID, NONE
from simzk.partitions.layouts import Brokers, Layout
from simzk.partitions.layouts.problems import NAMED_PROBLEMS, find_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class Znodes(Protocol):
    """What a layout is read from: some source of znodes."""

    def names(self, path: str, /) -> Iterable[str]:
        """The names of the children of the znode at a path, in any order; none where there is no znode."""

    def data(self, paths: Sequence[str], /) -> list[bytes | None]:
        """The data at some paths, in their order; b"" of znodes that have none, None where there is no znode."""


class _ZnodesByPath:
    """Znodes in a dictionary."""

    def __init__(self, znodes: Mapping[str, bytes | None]) -> None:
        self._znodes = znodes

    def names(self, path: str, /) -> Iterable[str]:
        places = (at.rpartition("/") for at in self._znodes)
        return [name for parent, _, name in places if parent == path]

    def data(self, paths: Sequence[str], /) -> list[bytes | None]:
        return [(self._znodes[path] or b"") if path in self._znodes else None for path in paths]


def unheard(_said: str) -> None:
    """Nobody asks what is not carried."""


def layout_of_recording(dump: Path, step: str | None, note: Callable[[str], None] = unheard) -> tuple[str, Layout]:
    """The layout that stood in a recorded tree.

    Args:
        dump: the recording's file.
        step: after which step; the last one where None.
        note: as of `layout_of`.

    Returns:
        the name of the step, and the layout.

    Raises:
        LayoutError: no such file or step, or a layout that cannot be.
        ZnodeError: the file is no recording, or a znode in it cannot be read.
    """
    try:
        recording = load(dump)
    except OSError as error:
        raise LayoutError(f"cannot be read: {error.strerror}", where=str(dump)) from error
    taken = recording.steps[-1] if step is None else step
    if taken not in recording.steps:
        raise LayoutError(f"has no step {taken!r}", where=str(dump), right="one of " + ", ".join(recording.steps))
    znodes = {
        path: None if znode.data is None else znode.data.encode() for path, znode in recording.tree(taken).items()
    }
    return taken, layout_from_tree(znodes, where=f"{dump}, step {taken}", note=note)


def layout_from_tree(
    znodes: Mapping[str, bytes | None], *, where: str, note: Callable[[str], None] = unheard
) -> Layout:
    """The layout that stands in a tree of znodes.

    Args:
        znodes: path to data.
        where: what the tree is, for errors.
        note: as of `layout_of`.

    Raises:
        LayoutError, ZnodeError: as `layout_of`.

    >>> layout = layout_from_tree({
    ...     "/brokers/ids/1": b'{"host":"a","port":9092,"version":1,"jmx_port":-1,"timestamp":"0"}',
    ...     "/brokers/topics/t": b'{"version":1,"partitions":{"0":[1,2]}}',
    ...     "/brokers/topics/t/partitions/0/state":
    ...         b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}',
    ... }, where="example")
    >>> layout.brokers.live.tolist(), layout.leader_epoch.tolist(), layout.isr.tolist()
    ([True, False], [3], [[1]])
    """
    return layout_of(_ZnodesByPath(znodes), where=where, note=note)


def layout_of(znodes: Znodes, *, where: str, note: Callable[[str], None] = unheard) -> Layout:
    """The layout that stands in some source of znodes.

    Args:
        znodes: the source; it is asked for what a layout takes and nothing else.
        where: what it is, for errors.
        note: told what stands there that no layout carries.

    Raises:
        LayoutError: the znodes hold no layout that can be; the first ten partitions are named.
        ZnodeError: znodes cannot be read; the first ten are named.
    """
    errors: list[ZnodeError] = []
    names = sorted(znodes.names(paths.TOPICS))
    topics = _topics(znodes, names, errors)
    states = _states(znodes, names, topics, errors)
    least = _min_insync_replicas(znodes, names, errors)
    brokers = _brokers(znodes, np.unique(topics.replicas[topics.replicas != NONE]).tolist(), errors)
    _refuse(errors, where)
    if not names and not len(brokers.ids):
        raise LayoutError(
            "holds no topics and no brokers", where=where, right="the chroot below which Kafka's znodes are"
        )
    layout = Layout(
        brokers=brokers,
        topics=tuple(names),
        topic=topics.topic,
        partition=topics.partition,
        replicas=topics.replicas,
        isr=states.isr,
        leader=states.leader,
        leader_epoch=states.leader_epoch,
        min_insync_replicas=np.array(least, np.int32)[topics.topic],
        adding=topics.adding,
        removing=topics.removing,
    )
    find_problems(layout).refuse(where)
    (asked,) = znodes.data([paths.REASSIGN_PARTITIONS])
    if asked is not None:
        note(_what_is_asked(asked))
    return layout


def _what_is_asked(data: bytes) -> str:
    """What `/admin/reassign_partitions` holds, in words."""
    try:
        count = len(admin.decode_reassignment(paths.REASSIGN_PARTITIONS, data, strict=False))
    except ZnodeError:
        holds = "holds what cannot be read"
    else:
        holds = f"asks to move {count:,} partition{'s' * (count != 1)}"
    return f"{paths.REASSIGN_PARTITIONS} {holds}: a layout carries what topics' znodes say is being reassigned, no more"


def _topics(znodes: Znodes, names: Sequence[str], errors: list[ZnodeError]) -> TopicColumns:
    topic_paths = [f"{paths.TOPICS}/{name}" for name in names]
    return read_topics(topic_paths, [text or b"" for text in znodes.data(topic_paths)], errors)


def _states(znodes: Znodes, names: Sequence[str], topics: TopicColumns, errors: list[ZnodeError]) -> StateColumns:
    above = [f"{paths.TOPICS}/{name}/partitions/" for name in names]
    places = zip(topics.topic.tolist(), topics.partition.tolist(), strict=True)
    state_paths = [f"{above[topic]}{partition}/state" for topic, partition in places]
    return read_states(state_paths, znodes.data(state_paths), errors)


def _min_insync_replicas(znodes: Znodes, names: Sequence[str], errors: list[ZnodeError]) -> list[int]:
    """Of each topic; few of them have a configuration of their own, and fewer one that no other has."""
    known: dict[bytes | None, int] = {None: 1}
    config_paths = [f"/config/topics/{name}" for name in names]
    found = []
    for path, text in zip(config_paths, znodes.data(config_paths), strict=True):
        if text not in known:
            with _noting(errors):
                known[text] = _min_insync_replicas_of(path, text)
        found.append(known.get(text, 1))
    return found


def _min_insync_replicas_of(path: str, text: bytes | None) -> int:
    value = config.decode(path, text).get(MIN_INSYNC_REPLICAS, "1")
    number = parse_int(value)
    if number is None or number < 1:
        raise ZnodeError(
            f"{value!r} is no number of replicas", where=f"{path}: {MIN_INSYNC_REPLICAS}", right="1 or more"
        )
    return number


def _brokers(znodes: Znodes, named: Sequence[int], errors: list[ZnodeError]) -> Brokers:
    racks: dict[int, str | None] = dict.fromkeys(named)
    registered: list[int] = []
    names = sorted(znodes.names(paths.BROKER_IDS))
    ids = [f"{paths.BROKER_IDS}/{name}" for name in names]
    for name, path, text in zip(names, ids, znodes.data(ids), strict=True):
        with _noting(errors):
            broker = paths.number_of(name)
            if broker is None or broker > MAX_BROKER_ID:
                raise ZnodeError(f"{name} is no broker id", where=path, right=f"0 to {MAX_BROKER_ID}")
            racks[broker] = broker_registration.decode(path, text).rack
            registered.append(broker)
    brokers = Brokers.from_racks(racks)
    return Brokers(brokers.ids, brokers.racks, np.isin(brokers.ids, registered))


@contextmanager
def _noting(errors: list[ZnodeError]) -> Iterator[None]:
    """A znode that cannot be read is noted, and what follows is read all the same."""
    try:
        yield
    except ZnodeError as error:
        errors.append(error)


def _refuse(errors: Sequence[ZnodeError], where: str) -> None:
    if len(errors) == 1:
        (error,) = errors
        raise ZnodeError(error.what, where=f"{where}, {error.where}", right=error.right)
    if errors:
        lines = [f"{len(errors):,} znodes cannot be read:", *map(str, errors[:NAMED_PROBLEMS])]
        if len(errors) > NAMED_PROBLEMS:
            lines.append(f"and {len(errors) - NAMED_PROBLEMS:,} more")
        raise ZnodeError("\n  ".join(lines), where=where)
