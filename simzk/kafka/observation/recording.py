"""Recorded znode trees of real clusters: read, summarized, and compared with a simulated tree field by field.

A recording is a JSON file: a list of steps, the first with the whole `tree`, each later one with the znodes that
`changed` and those that were `removed`. A znode has `data` (text or null), `v`, `cv`, `av` (its three versions), `eph`
(whether it is ephemeral), `nc` (number of children), `dl` (bytes of data).

`EXEMPTIONS` lists all fields that a comparison leaves out, each with the reason why they cannot be equal.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from simzk.documents import gunzip, read_json
from simzk.errors import ZnodeError
from simzk.kafka.zookeeper_mode import paths
from simzk.kafka.zookeeper_mode.schemas import broker_registration, partition_state, topic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simzk.kafka.cluster.zookeeper_access import KafkaTree
    from simzk.zookeeper.znode import Znode

    RecordedTree: TypeAlias = Mapping[str, "RecordedZnode"]


class RecordedZnode(NamedTuple):
    """A recorded znode; `data` is None for null, and "" for zero bytes."""

    data: str | None
    version: int
    cversion: int
    aversion: int
    ephemeral: bool
    children: int
    data_length: int


class RecordingSummary(NamedTuple):
    """Brokers, racks and topics of a recorded tree, against which a scenario is validated."""

    brokers: tuple[int, ...]
    racks: dict[int, str]
    topics: dict[str, int]


class Difference(NamedTuple):
    """Difference between a simulated and a recorded tree in one field of one znode.

    Args:
        path: the znode.
        field: `exists`, a field of its JSON, `data` (the text, if all fields are equal), or a number of its Stat.
        recorded: the value of the real cluster.
        simulated: the value of the simulated tree.
    """

    path: str
    field: str
    recorded: str
    simulated: str

    def __str__(self) -> str:
        return f"{self.path}: {self.field} is {self.simulated}, recorded was {self.recorded}"


class Exemption(NamedTuple):
    """Fields of some znodes that are not compared, and the reason; no fields mean the whole znode."""

    pattern: re.Pattern[str]
    fields: frozenset[str]
    why: str

    def covers(self, path: str, field: str) -> bool:
        """Return whether a difference is left out."""
        return self.pattern.fullmatch(path) is not None and (not self.fields or field in self.fields)


EXEMPTIONS = (
    Exemption(
        re.compile(r"/brokers/ids/\d+|/controller"),
        frozenset({"timestamp", "data_length"}),
        "the wall time of the real run; virtual time starts at another instant",
    ),
    Exemption(
        re.compile(r"/zookeeper(/config)?"),
        frozenset(),
        "the server's own nodes, not Kafka's; the recording did not read /zookeeper/config",
    ),
)
"""All fields that cannot be equal, with reasons."""

_KINDS = (str | None, int, int, int, bool, int, int)
_FIELDS = dict(zip(("data", "v", "cv", "av", "eph", "nc", "dl"), _KINDS, strict=True))
"""Kinds of the fields of a znode, in the order of `RecordedZnode`."""


class Recording:
    """Trees of a real cluster after each step of a recorded story.

    Args:
        path: the file, for messages.
        deltas: name of each step, with the znodes that it changed and the paths that it removed.
    """

    def __init__(self, path: Path, deltas: list[tuple[str, dict[str, RecordedZnode], list[str]]]) -> None:
        assert deltas, "a recording begins with a whole tree"
        self.path = path
        self._deltas = deltas
        self.steps = tuple(name for name, _, _ in deltas)

    def tree(self, step: str) -> dict[str, RecordedZnode]:
        """Return the znodes after a step, by path; parents come before their children."""
        assert step in self.steps, f"no step {step}"
        znodes: dict[str, RecordedZnode] = {}
        for name, changed, removed in self._deltas:
            znodes.update(changed)
            for path in removed:
                del znodes[path]
            if name == step:
                break
        return dict(sorted(znodes.items()))

    def summary(self, step: str) -> RecordingSummary:
        """Return the brokers and topics of a tree.

        Every znode that a simulation decodes is decoded here once, so that an invalid recording is rejected early.

        Raises:
            ZnodeError: a registration, a topic or a state is invalid.
        """
        brokers: list[int] = []
        racks: dict[int, str] = {}
        topics: dict[str, int] = {}
        for path, znode in self.tree(step).items():
            data = None if znode.data is None else znode.data.encode()
            head, _, name = path.rpartition("/")
            if head == paths.BROKER_IDS and (broker := paths.number_of(name)) is not None:
                brokers.append(broker)
                if (rack := broker_registration.decode(path, data).rack) is not None:
                    racks[broker] = rack
            elif head == paths.TOPICS:
                topics[name] = len(topic.decode(path, data).partitions)
            elif paths.state_partition(path) is not None:
                partition_state.decode(path, data)
        return RecordingSummary(tuple(sorted(brokers)), racks, topics)


def load(path: Path) -> Recording:
    """Read a recording; a file name that ends in `.gz` means gzip.

    Raises:
        OSError: the file cannot be read.
        ZnodeError: the file is no JSON, or no recording.
    """
    packed = path.read_bytes()
    try:
        document = read_json(gunzip(packed) if path.suffix == ".gz" else packed)
    except ValueError as error:
        raise ZnodeError(f"it is no JSON ({error})", where=str(path), right="a recorded dumps.json") from None
    if not isinstance(document, list) or not document:
        raise ZnodeError("it is no recording", where=str(path), right="a list of steps")
    deltas = [_read_step(str(path), index, entry) for index, entry in enumerate(document)]
    known: set[str] = set()
    names: set[str] = set()
    for name, changed, removed in deltas:
        where = f"{path}: step {name}"
        if name in names:
            raise ZnodeError("two steps have this name", where=where, right="a name of its own for each step")
        names.add(name)
        known |= changed.keys()
        if missing := [one for one in removed if one not in known]:
            raise ZnodeError(f"it removes {missing[0]!r}, which no step made", where=where, right="paths of znodes")
        known.difference_update(removed)
    return Recording(path, deltas)


def differences(tree: KafkaTree, recorded: RecordedTree) -> list[Difference]:
    """Return all fields in which a tree differs from a recorded one, ordered by path, without the `EXEMPTIONS`."""
    simulated = dict(tree.walk())
    found: list[Difference] = []
    for path in sorted(simulated.keys() | recorded.keys()):
        ours, theirs = simulated.get(path), recorded.get(path)
        if ours is None or theirs is None:
            is_recorded, is_simulated = ("no" if znode is None else "yes" for znode in (theirs, ours))
            found.append(Difference(path, "exists", is_recorded, is_simulated))
        else:
            found.extend(_compare(path, ours, theirs))
    return [one for one in found if not any(exemption.covers(one.path, one.field) for exemption in EXEMPTIONS)]


def _compare(path: str, ours: Znode, theirs: RecordedZnode) -> list[Difference]:
    stat = ours.stat()
    numbers = (
        ("version", theirs.version, stat.version),
        ("cversion", theirs.cversion, stat.cversion),
        ("aversion", theirs.aversion, stat.aversion),
        ("ephemeral", theirs.ephemeral, stat.ephemeral_owner != 0),
        ("children", theirs.children, stat.num_children),
        ("data_length", theirs.data_length, stat.data_length),
    )
    found = [Difference(path, name, str(was), str(now)) for name, was, now in numbers if was != now]
    data = None if ours.data is None else ours.data.decode(errors="replace")
    if data != theirs.data:
        found.extend(_compare_data(path, data, theirs.data))
    return found


def _compare_data(path: str, ours: str | None, theirs: str | None) -> list[Difference]:
    assert ours != theirs, "equal data have no difference"
    our_fields, their_fields = json_fields(ours), json_fields(theirs)
    found = []
    if our_fields is not None and their_fields is not None:
        names = sorted(our_fields.keys() | their_fields.keys())
        values = ((name, _as_json(their_fields, name), _as_json(our_fields, name)) for name in names)
        found = [Difference(path, name, was, now) for name, was, now in values if was != now]
    return found or [Difference(path, "data", repr(theirs), repr(ours))]


def json_fields(data: str | None) -> dict[str, object] | None:
    """Return the fields of a JSON object; None if the text is no JSON, or another value."""
    try:
        fields = read_json(data or "")
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _as_json(fields: dict[str, object], name: str) -> str:
    return json.dumps(fields[name], separators=(",", ":")) if name in fields else "absent"


def _read_step(path: str, index: int, entry: object) -> tuple[str, dict[str, RecordedZnode], list[str]]:
    where = f"{path}: [{index}]"
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), str):
        raise ZnodeError("it is no step of a recording", where=where, right="an object with step and tree or changed")
    where = f"{path}: step {entry['step']}"
    znodes = entry.get("tree", entry.get("changed"))
    removed = entry.get("removed", [])
    if not isinstance(znodes, dict) or not isinstance(removed, list):
        raise ZnodeError("it is no step of a recording", where=where, right="an object with tree or changed")
    return str(entry["step"]), {name: _read_znode(where, name, znode) for name, znode in znodes.items()}, removed


def _read_znode(where: str, path: str, znode: object) -> RecordedZnode:
    if not isinstance(znode, dict):
        raise ZnodeError("it is no znode", where=f"{where}: {path}", right="an object")
    for key, kind in _FIELDS.items():
        if key not in znode or not isinstance(znode[key], kind):
            what = f"its field {key} is missing or of another kind"
            raise ZnodeError(what, where=f"{where}: {path}", right=f"the fields {', '.join(_FIELDS)}")
    return RecordedZnode(*(znode[key] for key in _FIELDS))
