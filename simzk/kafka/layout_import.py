"""The texts of many topics, and of many partitions' states, to columns: those in Kafka's own form all together.

Rules of the module:
  - Kafka's own form is what releases from 0.8.1 on write, to the character, where no leader recovers; a text in it is
    what the codec in `schemas` reads it to be;
  - nothing is guessed: any other text goes to the codec, and is put into that form when it was read; what the codec
    refuses is told.

A layout out of a cluster's znodes, of whichever Kafka version wrote them.

What is read (docs/reference/kafka.md §1.3): `/brokers/ids/N` for the live brokers and their racks, `/brokers/topics/T`
for the replicas, `partitions/P/state` for leader and ISR, `/config/topics/T` for `min.insync.replicas`. A broker that
replicas name and that is not registered is a broker that is down. A partition without a state has not been started yet:
no leader, an empty ISR.

What reassignments under way add and remove stands in the topic's znode from 2.4 on (KIP-455). Before, it stands in
`/admin/reassign_partitions` alone: that a layout cannot say, so whoever imports is told of such a znode.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from simzk.errors import LayoutError, ZnodeError
from simzk.jvm.numbers import parse_int
from simzk.kafka import paths
from simzk.kafka.observation.recording import load
from simzk.kafka.schemas import admin, broker_registration, config, partition_state
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.schemas.cluster import canonical_uuid
from simzk.partitions.arrays import MAX_BROKER_ID, NONE, IntArray, pack_flat
from simzk.partitions.layouts import Brokers, Layout
from simzk.partitions.layouts.layout import LONGEST_LIST, NAMED_PROBLEMS, find_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

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
"""Where the numbers of a state stand in its form, and how many stand before the ISR."""
_NOT_IN_LINES = bytes(set(range(256)) - set(b"-0123456789,\n"))
_COLON_TO_COMMA = bytes.maketrans(b":", b",")
_NO_STATE = b'{"controller_epoch":0,"leader":-1,"version":1,"leader_epoch":0,"isr":[]}'


class StateColumns(NamedTuple):
    """What `state` znodes say of k partitions: int32[k], `isr` int32[k, w] padded."""

    leader: IntArray
    leader_epoch: IntArray
    isr: IntArray


class TopicColumns(NamedTuple):
    """What the znodes of topics say of all their partitions: the topic's place, number, and who holds it, who is added
    and who removed, each int32[k, w] padded.

    They stand by topic, in a topic by number, each once.
    """

    topic: IntArray
    partition: IntArray
    replicas: IntArray
    adding: IntArray
    removing: IntArray


def read_topics(paths: Sequence[str], texts: Sequence[bytes], errors: list[ZnodeError]) -> TopicColumns:
    """Read the assignments of many topics.

    Args:
        paths: of the znodes.
        texts: what they hold.
        errors: takes what is wrong: a text that cannot be read has no partitions in the columns.

    >>> own = b'{"version":1,"partitions":{"1":[2,3],"0":[7]}}'
    >>> columns = read_topics(["/a", "/b"], [own, b'{"partitions": {"5": []}}'], [])
    >>> columns.topic.tolist(), columns.partition.tolist(), columns.replicas.tolist()
    ([0, 0, 1], [0, 1, 5], [[7, -1], [2, 3], [-1, -1]])
    >>> moving = b'{"version":2,"partitions":{"0":[3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    >>> columns = read_topics(["/a"], [moving], [])
    >>> columns.adding.tolist(), columns.removing.tolist()
    ([[3]], [[1]])
    """
    assignments, additions, removals = [], [], []
    for path, text in zip(paths, texts, strict=True):
        own = _TOPIC.fullmatch(text)
        if own is not None and (own[2] is None or canonical_uuid(own[2].decode())):
            replicas, _, adding, removing = own.groups(b"")
        else:
            try:
                partitions = topic_schema.decode(path, text).partitions
            except ZnodeError as error:
                errors.append(error)
                partitions = {}
            replicas = _text_of({number: assigned.replicas for number, assigned in partitions.items()})
            adding = _text_of({number: assigned.adding for number, assigned in partitions.items()})
            removing = _text_of({number: assigned.removing for number, assigned in partitions.items()})
        assignments.append(replicas)
        additions.append(adding)
        removals.append(removing)
    held = _read_assignments(paths, assignments, errors)
    moving = [_at(held, _read_assignments(paths, texts, errors)) for texts in (additions, removals)]
    return TopicColumns(*held, *moving)


class _Assignments(NamedTuple):
    """Lists of brokers by topic and number, each once, ascending."""

    topic: IntArray
    partition: IntArray
    brokers: IntArray

    def keys(self) -> NDArray[np.int64]:
        return self.topic.astype(np.int64) << 32 | self.partition


def _read_assignments(paths: Sequence[str], texts: Sequence[bytes], errors: list[ZnodeError]) -> _Assignments:
    """Read what stands between the braces of many maps from numbers of partitions to brokers, a topic each."""
    counts = [text.count(b":") for text in texts]
    together = b",".join(filter(None, texts)) + b","
    lines = together.replace(b"],", b"\n").translate(_COLON_TO_COMMA, b'"[') if any(counts) else b""
    heads, values, lengths = _read_lines(lines, 1)
    topic = np.repeat(np.arange(len(paths), dtype=np.int32), counts)
    partition = heads[:, 0]
    lists, too_long = _lists(values, lengths)
    errors += [_too_long(f"{paths[topic[row]]}, partition {partition[row]}", lengths[row]) for row in too_long]
    order = np.lexsort((partition, topic))
    # Of a number that stands twice the last counts, as in any JSON.
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(topic[order]) != 0) | (np.diff(partition[order]) != 0)
    order = order[last]
    return _Assignments(topic[order], partition[order], lists[order])


def _at(held: _Assignments, moving: _Assignments) -> IntArray:
    """The lists of those that are held, nobody where there is none; of others nothing is looked at, as in the codec."""
    found = np.full((len(held.topic), moving.brokers.shape[1]), NONE, np.int32)
    if len(moving.topic) and len(held.topic):
        keys, wanted = held.keys(), moving.keys()
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        known = keys[places] == wanted
        found[places[known]] = moving.brokers[known]
    return found


def _text_of(lists: Mapping[int, Sequence[int]]) -> bytes:
    """The same map as Kafka writes it, between its braces."""
    return b",".join(b'"%d":[%b]' % (number, _joined(brokers)) for number, brokers in lists.items())


def read_states(paths: Sequence[str], texts: Sequence[bytes | None], errors: list[ZnodeError]) -> StateColumns:
    """Read the states of many partitions.

    Args:
        paths: of the znodes.
        texts: what they hold; None of a partition that has no state yet: it has no leader, and an empty ISR.
        errors: takes what is wrong: a text that cannot be read is like none in the columns.

    >>> own = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":5,"isr":[2,1]}'
    >>> columns = read_states(["/a", "/b", "/c"], [own, own.replace(b":", b" : "), None], [])
    >>> columns.leader.tolist(), columns.leader_epoch.tolist(), columns.isr.tolist()
    ([2, 2, -1], [5, 5, 0], [[2, 1], [2, 1], [-1, -1]])
    """
    own_form, states = _STATE.fullmatch, []
    for path, text in zip(paths, texts, strict=True):
        state = text or b""
        if own_form(state) is None:
            state = _NO_STATE
            if text is not None:
                try:
                    state = partition_state.encode(partition_state.decode(path, text)._replace(recovering=False))
                except ZnodeError as error:
                    errors.append(error)
        states.append(state)
    heads, values, lengths = _read_lines(b"\n".join((*states, b"")), _STATE_NUMBERS)
    isr, too_long = _lists(values, lengths)
    errors += [_too_long(paths[row], lengths[row]) for row in too_long]
    return StateColumns(heads[:, _LEADER], heads[:, _LEADER_EPOCH], isr)


def _read_lines(lines: bytes, heads: int) -> tuple[IntArray, IntArray, NDArray[np.intp]]:
    """Lines of numbers with commas between them, each of so many numbers and a list.

    Returns:
        The first numbers of each line, int32[k, heads], all lists one after the other, and how long each is.
    """
    text = lines.translate(None, _NOT_IN_LINES).replace(b",\n", b"\n")
    characters = np.frombuffer(text, np.uint8)
    separators = characters[(characters == ord(",")) | (characters == ord("\n"))]
    last = np.flatnonzero(separators == ord("\n"))
    lengths = np.diff(last, prepend=-1)
    numbers = np.fromstring(text.replace(b"\n", b",")[:-1], np.int32, sep=",") if text else np.zeros(0, np.int32)
    assert len(numbers) == len(separators)
    at = (last - lengths + 1)[:, None] + np.arange(heads)
    in_lists = np.ones(len(numbers), np.bool_)
    in_lists[at] = False
    return numbers[at], numbers[in_lists], lengths - heads


def _lists(values: IntArray, lengths: NDArray[np.intp]) -> tuple[IntArray, list[int]]:
    """The lists, padded, and the rows of those that are too long, which are empty here."""
    fits = lengths <= LONGEST_LIST
    if fits.all():
        return pack_flat(values, lengths), []
    return pack_flat(values[np.repeat(fits, lengths)], np.where(fits, lengths, 0)), np.flatnonzero(~fits).tolist()


def _too_long(where: str, length: int) -> ZnodeError:
    return ZnodeError(f"a list of {length} brokers", where=where, right=f"at most {LONGEST_LIST}")


def _joined(ids: Iterable[int]) -> bytes:
    return b",".join(b"%d" % broker for broker in ids)


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
