"""A layout out of a cluster's znodes, of whichever Kafka version wrote them.

What is read (docs/reference/kafka.md §1.3): `/brokers/ids/N` for the live brokers and their racks, `/brokers/topics/T`
for the replicas, `partitions/P/state` for leader and ISR, `/config/topics/T` for `min.insync.replicas`. A broker that
replicas name and that is not registered is a broker that is down. A partition without a state has not been started yet:
no leader, an empty ISR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import LayoutError, ZnodeError
from simzk.kafka import paths
from simzk.kafka.recording import load
from simzk.kafka.schemas import broker_registration, config, partition_state, topic
from simzk.kafka.schemas.java_numbers import parse_int
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, pack
from simzk.partitions.layouts import Brokers, Layout
from simzk.partitions.layouts.problems import find_problems
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class _Row(NamedTuple):
    """One partition, as the znodes have it."""

    topic: int
    partition: int
    replicas: Sequence[int]
    isr: Sequence[int]
    leader: int
    leader_epoch: int
    min_insync_replicas: int


def layout_of_recording(dump: Path, step: str | None) -> tuple[str, Layout]:
    """The layout that stood in a recorded tree.

    Args:
        dump: the recording's file.
        step: after which step; the last one where None.

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
    return taken, layout_from_tree(znodes, where=f"{dump}, step {taken}")


def layout_from_tree(znodes: Mapping[str, bytes | None], *, where: str) -> Layout:
    """The layout that stands in a tree of znodes.

    Args:
        znodes: path to data.
        where: what the tree is, for errors.

    Raises:
        LayoutError: the znodes hold no layout that can be; the first ten partitions are named.
        ZnodeError: a znode cannot be read.

    >>> layout = layout_from_tree({
    ...     "/brokers/ids/1": b'{"host":"a","port":9092,"version":1,"jmx_port":-1,"timestamp":"0"}',
    ...     "/brokers/topics/t": b'{"version":1,"partitions":{"0":[1,2]}}',
    ...     "/brokers/topics/t/partitions/0/state":
    ...         b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}',
    ... }, where="example")
    >>> layout.brokers.live.tolist(), layout.leader_epoch.tolist(), layout.isr.tolist()
    ([True, False], [3], [[1]])
    """
    try:
        topics = _children(znodes, paths.TOPICS)
        rows = [row for number, name in enumerate(topics) for row in _partitions(znodes, number, name)]
        layout = _layout(znodes, topics, rows)
    except ZnodeError as error:
        raise ZnodeError(error.what, where=f"{where}, {error.where}", right=error.right) from error
    find_problems(layout).refuse(where)
    return layout


def _layout(znodes: Mapping[str, bytes | None], topics: list[str], rows: list[_Row]) -> Layout:
    columns = list(zip(*rows, strict=True)) or [()] * len(_Row._fields)
    replicas = pack(columns[2])
    return Layout(
        brokers=_brokers(znodes, replicas[replicas != NONE].tolist()),
        topics=tuple(topics),
        topic=_integers(columns[0]),
        partition=_integers(columns[1]),
        replicas=replicas,
        isr=pack(columns[3]),
        leader=_integers(columns[4]),
        leader_epoch=_integers(columns[5]),
        min_insync_replicas=_integers(columns[6]),
    )


def _brokers(znodes: Mapping[str, bytes | None], named: Sequence[int]) -> Brokers:
    racks: dict[int, str | None] = dict.fromkeys(named)
    registered: list[int] = []
    for name in _children(znodes, paths.BROKER_IDS):
        path = f"{paths.BROKER_IDS}/{name}"
        if (broker := paths.number_of(name)) is None:
            raise _no_broker_id(name, path)
        registered += _broker_ids([broker], path)
        racks[broker] = broker_registration.decode(path, znodes[path]).rack
    brokers = Brokers.from_racks(racks)
    return Brokers(brokers.ids, brokers.racks, np.isin(brokers.ids, registered))


def _partitions(znodes: Mapping[str, bytes | None], number: int, name: str) -> list[_Row]:
    path = f"{paths.TOPICS}/{name}"
    min_insync_replicas = _min_insync_replicas(znodes, name)
    rows = []
    for partition, assignment in sorted(topic.decode(path, znodes[path]).partitions.items()):
        state_path = f"{path}/partitions/{partition}/state"
        if state_path in znodes:
            state = partition_state.decode(state_path, znodes[state_path])
            isr, leader, leader_epoch = _broker_ids(state.isr, state_path), state.leader, state.leader_epoch
        else:
            isr, leader, leader_epoch = (), NONE, 0
        replicas = _broker_ids(assignment.replicas, path)
        rows.append(_Row(number, partition, replicas, isr, leader, leader_epoch, min_insync_replicas))
    return rows


def _min_insync_replicas(znodes: Mapping[str, bytes | None], name: str) -> int:
    path = f"/config/topics/{name}"
    value = config.decode(path, znodes.get(path)).get(MIN_INSYNC_REPLICAS, "1")
    number = parse_int(value)
    if number is None or number < 1:
        raise ZnodeError(
            f"{value!r} is no number of replicas", where=f"{path}: {MIN_INSYNC_REPLICAS}", right="1 or more"
        )
    return number


def _broker_ids(ids: Sequence[int], path: str) -> Sequence[int]:
    """The same ids, each of which can be one: -1 in a list would be taken for its end."""
    for broker in ids:
        if not 0 <= broker <= MAX_BROKER_ID:
            raise _no_broker_id(broker, path)
    return ids


def _no_broker_id(broker: object, path: str) -> ZnodeError:
    return ZnodeError(f"{broker} is no broker id", where=path, right=f"0 to {MAX_BROKER_ID}")


def _children(znodes: Mapping[str, bytes | None], parent: str) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in znodes if path.rpartition("/")[0] == parent)


def _integers(values: Sequence[object]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, np.int32)
