"""Import of a layout from the znodes of a Kafka cluster of any release.

Rules of the import (docs/reference/kafka.md §1.3):
  - `/brokers/ids/N` gives live brokers and racks, `/brokers/topics/T` replicas, `partitions/P/state` leader and ISR,
    `/config/topics/T` `min.insync.replicas`;
  - a broker with replicas but without a registration is a dead broker;
  - a partition without a state has not started yet: no leader, an empty ISR;
  - replicas that a reassignment adds and removes are read from the topic znode, where 2.4 and later store them
    (KIP-455); earlier releases store them in `/admin/reassign_partitions`, which a layout cannot represent: the caller
    gets a note about that znode.

Rules of decoding many texts at once:
  - the compact form of 0.8.1 and later, without a leader that recovers, is decoded into columns all together, with the
    same result as the codecs in `simzk.kafka.zookeeper_mode.schemas`;
  - any other text is decoded by the codec and converted to that form; an error of the codec is collected.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from simzk.errors import LayoutError, ZnodeError
from simzk.jvm.numbers import INT_MAX, parse_int
from simzk.kafka.observation.recording import load
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import admin, broker_registration, config, partition_state
from simzk.kafka.zookeeper_mode.schemas import topic as topic_schema
from simzk.kafka.zookeeper_mode.schemas.cluster import canonical_uuid
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, IntArray, pack_flat
from simzk.partitions.layouts import Brokers, Layout
from simzk.partitions.layouts.layout import LONGEST_LIST, NAMED_PROBLEMS, Problems, find_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from simzk.kafka.topic_partition import ReplicaAssignment

_WHOLE = rb"(?:0|[1-9][0-9]{0,8})"
_NUMBER = rb"(?:0|-?[1-9][0-9]{0,8})"
_LIST = rb"\[(?:%b(?:,%b)*)?\]" % (_WHOLE, _WHOLE)
_STATE = re.compile(
    rb'{"controller_epoch":%b,"leader":%b,"version":1,"leader_epoch":%b,"isr":%b}' % (_NUMBER, _NUMBER, _NUMBER, _LIST)
)
_LISTS = rb'{((?:"%b":%b(?:,(?=")|(?=})))*)}' % (_WHOLE, _LIST)
_TOPIC = re.compile(
    rb'{(?:"version":[12],)?"partitions":%b(?:,"topic_id":"([0-9A-Za-z_-]{22})")?'
    rb'(?:,"adding_replicas":%b,"removing_replicas":%b)?(?:,"version":3)?}' % (_LISTS, _LISTS, _LISTS)
)
_LEADER, _LEADER_EPOCH, _STATE_NUMBERS = 1, 3, 4
"""Positions of numbers in the text of a state, and their count before the ISR."""
_TOPIC_PLACE = re.compile(r"/(?:brokers|config)/topics/([^/:,]+)")
_NOT_IN_LINES = bytes(set(range(256)) - set(b"-0123456789,\n"))
_COLON_TO_COMMA = bytes.maketrans(b":", b",")
_NO_STATE = b'{"controller_epoch":0,"leader":-1,"version":1,"leader_epoch":0,"isr":[]}'


class StateColumns(NamedTuple):
    """States of k partitions: int32[k]; `isr` is int32[k, w], padded."""

    leader: IntArray
    leader_epoch: IntArray
    isr: IntArray


class AssignmentColumns(NamedTuple):
    """Assignments of k partitions, sorted by topic and number, each once.

    `topic` is the index of the topic's path, `partition` the number; `replicas`, `adding` and `removing` are
    int32[k, w], padded.
    """

    topic: IntArray
    partition: IntArray
    replicas: IntArray
    adding: IntArray
    removing: IntArray


def read_topics(paths: Sequence[str], texts: Sequence[bytes], errors: list[ZnodeError]) -> AssignmentColumns:
    """Decode the assignments of many topics.

    Args:
        paths: path of each znode.
        texts: data of each znode.
        errors: list to which errors are appended; an invalid topic has no partitions in the columns.

    >>> own = b'{"version":1,"partitions":{"1":[2,3],"0":[7]}}'
    >>> columns = read_topics(["/a", "/b"], [own, b'{"partitions": {"5": []}}'], [])
    >>> columns.topic.tolist(), columns.partition.tolist(), columns.replicas.tolist()
    ([0, 0, 1], [0, 1, 5], [[7, -1], [2, 3], [-1, -1]])
    >>> moving = b'{"version":2,"partitions":{"0":[3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    >>> columns = read_topics(["/a"], [moving], [])
    >>> columns.adding.tolist(), columns.removing.tolist()
    ([[3]], [[1]])
    """
    lists: tuple[list[bytes], list[bytes], list[bytes]] = [], [], []  # replicas, adding and removing ones by topic
    for path, text in zip(paths, texts, strict=True):
        compact = _TOPIC.fullmatch(text)
        if compact is not None and (compact[2] is None or canonical_uuid(compact[2].decode())):
            found = [compact[1], compact[3] or b"", compact[4] or b""]
        else:
            partitions: Mapping[int, ReplicaAssignment] = {}
            with _collect_error(errors):
                partitions = topic_schema.decode(path, text).partitions
            found = [_encode_lists({number: one[kind] for number, one in partitions.items()}) for kind in range(3)]
        for texts_of_kind, text_of_kind in zip(lists, found, strict=True):
            texts_of_kind.append(text_of_kind)
    assigned, *moving = [_read_assignments(paths, texts_of_kind, errors) for texts_of_kind in lists]
    return AssignmentColumns(*assigned, *(_aligned(assigned, moved) for moved in moving))


class _Assignments(NamedTuple):
    """Lists of brokers by topic and partition, ascending, each partition once."""

    topic: IntArray
    partition: IntArray
    brokers: IntArray

    def keys(self) -> NDArray[np.int64]:
        return self.topic.astype(np.int64) << 32 | self.partition


def _read_assignments(paths: Sequence[str], texts: Sequence[bytes], errors: list[ZnodeError]) -> _Assignments:
    """Decode the contents of many JSON maps from partition to brokers, one map for each topic."""
    counts = [text.count(b":") for text in texts]
    together = b",".join(filter(None, texts)) + b","
    lines = together.replace(b"],", b"\n").translate(_COLON_TO_COMMA, b'"[') if any(counts) else b""
    heads, values, lengths = _read_lines(lines, 1)
    topic = np.repeat(np.arange(len(paths), dtype=np.int32), counts)
    partition = heads[:, 0]
    lists, too_long = _lists(values, lengths)
    errors += [_too_long(f"{paths[topic[row]]}, partition {partition[row]}", lengths[row]) for row in too_long]
    order = np.lexsort((partition, topic))
    # Of a repeated partition the last entry counts, as in the codec.
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(topic[order]) != 0) | (np.diff(partition[order]) != 0)
    order = order[last]
    return _Assignments(topic[order], partition[order], lists[order])


def _aligned(assigned: _Assignments, moving: _Assignments) -> IntArray:
    """Return the lists of `moving` in the rows of `assigned`; other partitions are ignored, as in the codec."""
    assert len(moving.topic) == len(moving.partition) == len(moving.brokers)
    found = np.full((len(assigned.topic), moving.brokers.shape[1]), NONE, np.int32)
    if len(moving.topic) and len(assigned.topic):
        keys, wanted = assigned.keys(), moving.keys()
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        known = keys[places] == wanted
        found[places[known]] = moving.brokers[known]
    return found


def _encode_lists(lists: Mapping[int, Sequence[int]]) -> bytes:
    """Encode a map from partition to brokers as Kafka does, without the braces."""
    texts = {number: b",".join(b"%d" % broker for broker in brokers) for number, brokers in lists.items()}
    return b",".join(b'"%d":[%b]' % entry for entry in texts.items())


def read_states(paths: Sequence[str], texts: Sequence[bytes | None], errors: list[ZnodeError]) -> StateColumns:
    """Decode the states of many partitions.

    Args:
        paths: path of each znode.
        texts: data of each znode; None: the partition has no state yet, so no leader and an empty ISR.
        errors: list to which errors are appended; an invalid state counts as missing in the columns.

    >>> own = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":5,"isr":[2,1]}'
    >>> columns = read_states(["/a", "/b", "/c"], [own, own.replace(b":", b" : "), None], [])
    >>> columns.leader.tolist(), columns.leader_epoch.tolist(), columns.isr.tolist()
    ([2, 2, -1], [5, 5, 0], [[2, 1], [2, 1], [-1, -1]])
    """
    is_compact, states = _STATE.fullmatch, []
    for path, text in zip(paths, texts, strict=True):
        state = text or b""
        if is_compact(state) is None:
            state = _NO_STATE
            if text is not None:
                with _collect_error(errors):
                    state = partition_state.encode(partition_state.decode(path, text)._replace(recovering=False))
        states.append(state)
    heads, values, lengths = _read_lines(b"\n".join((*states, b"")), _STATE_NUMBERS)
    assert len(heads) == len(lengths) == len(paths), "each znode gives one row"
    isr, too_long = _lists(values, lengths)
    errors += [_too_long(paths[row], lengths[row]) for row in too_long]
    return StateColumns(heads[:, _LEADER], heads[:, _LEADER_EPOCH], isr)


def _read_lines(lines: bytes, heads: int) -> tuple[IntArray, IntArray, NDArray[np.intp]]:
    """Parse lines of comma-separated integers: `heads` numbers followed by a list.

    Returns:
        the first numbers of each line, int32[k, heads], the concatenated lists, and their lengths.
    """
    text = lines.translate(None, _NOT_IN_LINES).replace(b",\n", b"\n")
    characters = np.frombuffer(text, np.uint8)
    separators = characters[(characters == ord(",")) | (characters == ord("\n"))]
    last = np.flatnonzero(separators == ord("\n"))
    lengths = np.diff(last, prepend=-1)
    numbers = np.fromstring(text.replace(b"\n", b",")[:-1], np.int32, sep=",") if text else np.zeros(0, np.int32)
    assert len(numbers) == len(separators), f"{len(separators)} separators for {len(numbers)} numbers"
    at = (last - lengths + 1)[:, None] + np.arange(heads)
    in_lists = np.ones(len(numbers), np.bool_)
    in_lists[at] = False
    assert (lengths >= heads).all(), "each line begins with its numbers"
    return numbers[at], numbers[in_lists], lengths - heads


def _lists(values: IntArray, lengths: NDArray[np.intp]) -> tuple[IntArray, list[int]]:
    """Return the padded lists, and the rows with too long lists, which are empty."""
    fits = lengths <= LONGEST_LIST
    if fits.all():
        return pack_flat(values, lengths), []
    return pack_flat(values[np.repeat(fits, lengths)], np.where(fits, lengths, 0)), np.flatnonzero(~fits).tolist()


def _too_long(where: str, length: int) -> ZnodeError:
    return ZnodeError(f"a list of {length} brokers", where=where, right=f"at most {LONGEST_LIST}")


class Znodes(Protocol):
    """Source of znodes for a layout."""

    def names(self, path: str, /) -> Iterable[str]:
        """Return the names of a znode's children in any order; none if the znode is missing."""

    def data(self, paths: Sequence[str], /) -> list[bytes | None]:
        """Return the data at paths; b"" for a znode without data, None for a missing znode."""


class _ZnodesByPath:
    """Source of znodes backed by a dictionary."""

    def __init__(self, znodes: Mapping[str, bytes | None]) -> None:
        self._znodes = znodes

    def names(self, path: str, /) -> Iterable[str]:
        parts = (known.rpartition("/") for known in self._znodes)
        return [name for parent, _, name in parts if parent == path]

    def data(self, paths: Sequence[str], /) -> list[bytes | None]:
        return [(self._znodes[path] or b"") if path in self._znodes else None for path in paths]


def ignore_note(_note: str) -> None:
    """Ignore a note about znodes that a layout cannot represent."""


def layout_of_recording(
    dump: Path,
    step: str | None,
    note: Callable[[str], None] = ignore_note,
    leave_out: Callable[[str], None] | None = None,
) -> tuple[str, Layout]:
    """Read the layout of a recorded tree.

    Args:
        dump: file of the recording.
        step: step after which the tree was recorded; None: the last one.
        note: see `layout_of`.
        leave_out: see `layout_of`.

    Returns:
        the name of the step, and the layout.

    Raises:
        LayoutError: the file or step does not exist, or the layout is invalid.
        ZnodeError: the file is no recording, or a znode in it is invalid.
    """
    try:
        recording = load(dump)
    except OSError as error:
        raise LayoutError(f"cannot be read: {error.strerror}", where=str(dump)) from error
    chosen = recording.steps[-1] if step is None else step
    if chosen not in recording.steps:
        raise LayoutError(f"has no step {chosen!r}", where=str(dump), right="one of " + ", ".join(recording.steps))
    znodes = {
        path: None if znode.data is None else znode.data.encode() for path, znode in recording.tree(chosen).items()
    }
    return chosen, layout_from_tree(znodes, where=f"{dump}, step {chosen}", note=note, leave_out=leave_out)


def layout_from_tree(
    znodes: Mapping[str, bytes | None],
    *,
    where: str,
    note: Callable[[str], None] = ignore_note,
    leave_out: Callable[[str], None] | None = None,
) -> Layout:
    """Read the layout of a tree of znodes.

    Args:
        znodes: data by path.
        where: name of the tree, for errors.
        note: see `layout_of`.
        leave_out: see `layout_of`.

    Raises:
        LayoutError: see `layout_of`.
        ZnodeError: see `layout_of`.

    >>> layout = layout_from_tree({
    ...     "/brokers/ids/1": b'{"host":"a","port":9092,"version":1,"jmx_port":-1,"timestamp":"0"}',
    ...     "/brokers/topics/t": b'{"version":1,"partitions":{"0":[1,2]}}',
    ...     "/brokers/topics/t/partitions/0/state":
    ...         b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}',
    ... }, where="example")
    >>> layout.brokers.live.tolist(), layout.leader_epoch.tolist(), layout.isr.tolist()
    ([True, False], [3], [[1]])
    """
    return layout_of(_ZnodesByPath(znodes), where=where, note=note, leave_out=leave_out)


def layout_of(
    znodes: Znodes,
    *,
    where: str,
    note: Callable[[str], None] = ignore_note,
    leave_out: Callable[[str], None] | None = None,
) -> Layout:
    """Read the layout of a source of znodes.

    Args:
        znodes: source of znodes; only those that a layout needs are read.
        where: name of the source, for errors.
        note: called with a description of znodes that a layout cannot represent.
        leave_out: called with each topic that is left out because a znode of it is invalid, and with each invalid
            registration, and why; None: such a source is rejected.

    Raises:
        LayoutError: the layout is invalid; names the first ten partitions.
        ZnodeError: znodes are invalid; names the first ten.
    """
    names = sorted(znodes.names(paths.TOPICS))
    while True:
        errors: list[ZnodeError] = []
        layout = _read_layout(znodes, names, errors)
        if leave_out is None:
            _raise_if_any(errors, where)
        invalid = _invalid_topics(errors, names) if errors else {}
        if not invalid and (problems := find_problems(layout)).total:
            if leave_out is None:
                problems.refuse(where)
            invalid = _topics_of_rows(layout, problems)
        if not invalid:
            break
        assert leave_out is not None, "an import that leaves nothing out is rejected above"
        for reason in invalid.values():
            leave_out(reason)
        names = [name for name in names if name not in invalid]
    if leave_out is not None:
        for error in errors:
            leave_out(str(error))  # registrations: a broker with replicas counts as dead
    if not layout.topics and not len(layout.brokers.ids):
        raise LayoutError("has no topics and no brokers", where=where, right="the chroot of Kafka's znodes")
    (requested,) = znodes.data([paths.REASSIGN_PARTITIONS])
    if requested is not None:
        note(_note_of_reassignment(requested))
    return layout


def _read_layout(znodes: Znodes, names: Sequence[str], errors: list[ZnodeError]) -> Layout:
    """Read the znodes of some topics and of all brokers; errors are collected, and the layout is not checked."""
    topic_paths = [paths.topic(name) for name in names]
    topics = read_topics(topic_paths, [text or b"" for text in znodes.data(topic_paths)], errors)
    states = _states(znodes, names, topics, errors)
    least = _min_insync_replicas(znodes, names, errors)
    brokers = _brokers(znodes, np.unique(topics.replicas[topics.replicas != NONE]).tolist(), errors)
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
    return layout if not len(brokers.ids) or brokers.ids[-1] <= MAX_BROKER_ID else _with_small_ids(layout)


def _with_small_ids(layout: Layout) -> Layout:
    """Return a layout whose brokers are numbered from 0 by ascending id; `cluster_ids` has their ids.

    Kafka accepts ids up to 2147483647, such as addresses without dots; a layout has masks over ids (`MAX_BROKER_ID`).
    """
    known = layout.brokers.ids

    def renumbered(ids: IntArray) -> IntArray:
        """Return the numbers of ids; an id that no replica list and no registration has is one beyond the last."""
        places = np.minimum(np.searchsorted(known, ids), len(known) - 1).astype(np.int32)
        return np.where(ids == NONE, np.int32(NONE), np.where(known[places] == ids, places, np.int32(len(known))))

    brokers = replace(layout.brokers, ids=np.arange(len(known), dtype=np.int32), cluster_ids=known.astype(np.int64))
    return replace(
        layout,
        brokers=brokers,
        replicas=renumbered(layout.replicas),
        isr=renumbered(layout.isr),
        leader=renumbered(layout.leader),
        adding=renumbered(layout.adding),
        removing=renumbered(layout.removing),
    )


def _invalid_topics(errors: Iterable[ZnodeError], names: Sequence[str]) -> dict[str, str]:
    """Return the first error of each topic with an invalid znode."""
    known = set(names)
    found: dict[str, str] = {}
    for error in errors:
        # A name of a topic has none of the characters that follow it in the place of an error.
        part = _TOPIC_PLACE.match(error.where or "")
        if part is not None and part[1] in known:
            found.setdefault(part[1], f"topic {part[1]}: {error}")
    return found


def _topics_of_rows(layout: Layout, problems: Problems) -> dict[str, str]:
    """Return the number of invalid partitions of each topic, with the message for one of the first."""
    counts = np.bincount(layout.topic[problems.rows], minlength=len(layout.topics))
    found = {}
    for topic in np.flatnonzero(counts).tolist():
        name, count = layout.topics[topic], int(counts[topic])
        shown = next((message for message in problems.first if f"({name}-" in message), "")
        found[name] = f"topic {name}: {count:,} invalid partition{'s' * (count != 1)}{shown and f': {shown}'}"
    return found


def _note_of_reassignment(data: bytes) -> str:
    """Describe `/admin/reassign_partitions`, which a layout cannot represent."""
    try:
        count = len(admin.decode_reassignment(paths.REASSIGN_PARTITIONS, data, strict=False))
    except ZnodeError:
        content = "cannot be parsed"
    else:
        content = f"requests the move of {count:,} partition{'s' * (count != 1)}"
    return f"{paths.REASSIGN_PARTITIONS} {content}: a layout contains only reassignments in topic znodes"


def _states(znodes: Znodes, names: Sequence[str], topics: AssignmentColumns, errors: list[ZnodeError]) -> StateColumns:
    above = [f"{paths.TOPICS}/{name}/partitions/" for name in names]
    places = zip(topics.topic.tolist(), topics.partition.tolist(), strict=True)
    state_paths = [f"{above[topic]}{partition}/state" for topic, partition in places]
    return read_states(state_paths, znodes.data(state_paths), errors)


def _min_insync_replicas(znodes: Znodes, names: Sequence[str], errors: list[ZnodeError]) -> list[int]:
    """Return the value of each topic; most topics share few configurations, so each text is decoded once."""
    known: dict[bytes | None, int] = {None: 1}
    config_paths = [f"/config/topics/{name}" for name in names]
    found = []
    for path, text in zip(config_paths, znodes.data(config_paths), strict=True):
        if text not in known:
            with _collect_error(errors):
                known[text] = _min_insync_replicas_of(path, text)
        found.append(known.get(text, 1))
    return found


def _min_insync_replicas_of(path: str, text: bytes | None) -> int:
    value = config.decode(path, text).get(config.MIN_INSYNC_REPLICAS, "1")
    number = parse_int(value)
    if number is None or number < 1:
        raise ZnodeError(
            f"{value!r} is not a number of replicas", where=f"{path}: {config.MIN_INSYNC_REPLICAS}", right="1 or more"
        )
    return number


def _brokers(znodes: Znodes, named: Sequence[int], errors: list[ZnodeError]) -> Brokers:
    racks: dict[int, str | None] = dict.fromkeys(named)
    registered: list[int] = []
    names = sorted(znodes.names(paths.BROKER_IDS))
    ids = [f"{paths.BROKER_IDS}/{name}" for name in names]
    for name, path, text in zip(names, ids, znodes.data(ids), strict=True):
        with _collect_error(errors):
            broker = paths.number_of(name)
            if broker is None or broker > INT_MAX:
                raise ZnodeError(f"{name} is not a broker id", where=path, right=f"0 to {INT_MAX}")
            racks[broker] = broker_registration.decode(path, text).rack
            registered.append(broker)
    brokers = Brokers.from_racks(racks)
    return Brokers(brokers.ids, brokers.racks, np.isin(brokers.ids, registered))


@contextmanager
def _collect_error(errors: list[ZnodeError]) -> Iterator[None]:
    """Append the error of an invalid znode to `errors`, and continue."""
    try:
        yield
    except ZnodeError as error:
        errors.append(error)


def _raise_if_any(errors: Sequence[ZnodeError], where: str) -> None:
    if len(errors) == 1:
        (error,) = errors
        raise ZnodeError(error.what, where=f"{where}, {error.where}", right=error.right)
    if errors:
        lines = [f"{len(errors):,} znodes are invalid:", *map(str, errors[:NAMED_PROBLEMS])]
        if len(errors) > NAMED_PROBLEMS:
            lines.append(f"and {len(errors) - NAMED_PROBLEMS:,} more")
        raise ZnodeError("\n  ".join(lines), where=where)
