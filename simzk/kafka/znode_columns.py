"""The texts of many topics, and of many partitions' states, to columns: those in Kafka's own form all together.

Rules of the module:
  - Kafka's own form is what releases from 0.8.1 on write, to the character, where no leader recovers; a text in it is
    what the codec in `schemas` reads it to be;
  - nothing is guessed: any other text goes to the codec, and is put into that form when it was read; what the codec
    refuses is told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from simzk.errors import ZnodeError
from simzk.kafka.schemas import partition_state
from simzk.kafka.schemas import topic as topic_schema
from simzk.kafka.schemas.uuid import canonical_uuid
from simzk.partitions.arrays import NONE, IntArray, pack_flat
from simzk.partitions.layouts.problems import LONGEST_LIST
from simzk.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
