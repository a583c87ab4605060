"""Timelines the slow, obvious way: a tree is kept, and after each transaction it is looked at."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from simzk.zookeeper import transactions as txns

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")


class Node(NamedTuple):
    """A znode; `set_by` is the session that made or set it last, `owner` that of an ephemeral."""

    data: bytes | None
    version: int
    set_by: int
    owner: int | None


class Interval(NamedTuple):
    """Value that held from one zxid until another; None if it held to the end."""

    what: tuple[object, ...]
    from_zxid: int
    until_zxid: int | None
    from_ms: int
    until_ms: int | None


class Ended(NamedTuple):
    """A session's life; None what is not known of it."""

    timeout_ms: int | None
    from_zxid: int | None
    until_zxid: int | None
    end: str | None
    ephemerals: list[str] | None


class Tree:
    """The tree and the sessions after some transactions."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[int, Ended] = {}
        self.ended: dict[int, Ended] = {}

    def owned_by(self, session: int) -> list[str]:
        return [path for path, node in self.nodes.items() if node.owner == session]

    def apply(self, transaction: txns.Transaction) -> None:
        session, cxid, zxid, _, record = transaction
        match record:
            case txns.CreateSessionTxn(timeout_ms):
                self.sessions[session] = Ended(timeout_ms, zxid, None, None, None)
            case txns.CloseSessionTxn():
                gone = self.owned_by(session)
                for path in gone:
                    del self.nodes[path]
                begun = self.sessions.pop(session, Ended(None, None, None, None, None))
                end = "closed" if cxid else "expired"
                self.ended[session] = begun._replace(until_zxid=zxid, end=end, ephemerals=sorted(gone))
            case txns.MultiTxn(records):
                if not any(isinstance(step, txns.ErrorTxn) for step in records):
                    for step in records:
                        self._step(session, step)
            case _:
                self._step(session, record)

    def _step(self, session: int, step: object) -> None:
        match step:
            case txns.CreateTxn(path, data, _, ephemeral, _):
                self.nodes[path] = Node(data, 0, session, session if ephemeral else None)
            case txns.SetDataTxn(path, data, version):
                self.nodes[path] = self.nodes[path]._replace(data=data, version=version, set_by=session)
            case txns.DeleteTxn(path):
                del self.nodes[path]
            case _:
                assert isinstance(step, (txns.CheckTxn, txns.ErrorTxn))

    def partitions(self) -> Iterator[tuple[Hashable, tuple[object, ...]]]:
        """Each partition that is there, and all that is known of it."""
        for path, node in self.nodes.items():
            match = STATE.fullmatch(path)
            if match is None:
                continue
            name, number = match[1], int(match[2])
            state = json.loads(node.data or b"")
            topic = json.loads(self.nodes[f"/brokers/topics/{name}"].data or b"")
            config = self.nodes.get(f"/config/topics/{name}")
            given = {} if config is None else json.loads(config.data or b"")["config"]
            least = int(given.get("min.insync.replicas", 1))
            replicas, isr, leader = topic["partitions"][str(number)], state["isr"], state["leader"]
            yield (
                (name, number),
                (
                    leader,
                    tuple(isr),
                    state["leader_epoch"],
                    state["controller_epoch"],
                    node.version,
                    tuple(replicas),
                    least,
                    node.set_by,
                    leader < 0,
                    len(isr) < len(replicas),
                    leader >= 0 and len(isr) < least,
                ),
            )

    def owners(self) -> Iterator[tuple[Hashable, tuple[object, ...]]]:
        """The controller and the brokers that are registered: which broker, and by which session."""
        for path, node in self.nodes.items():
            if path == "/controller":
                reported = json.loads(node.data or b"")
                yield "controller", (reported if isinstance(reported, int) else reported["brokerid"], node.owner)
            elif re.fullmatch(r"/brokers/ids/\d+", path):
                yield path, (int(path.rpartition("/")[2]), node.owner)


class Timelines:
    """All that happened in a history, in the order of the transactions."""

    def __init__(self, history: Iterable[txns.Transaction]) -> None:
        tree = Tree()
        self.partitions: dict[Hashable, list[Interval]] = {}
        self.owners: dict[Hashable, list[Interval]] = {}
        self.writers: Counter[tuple[object, ...]] = Counter()
        for transaction in history:
            tree.apply(transaction)
            _, _, zxid, self.end_ms, record = transaction
            _look(self.partitions, dict(tree.partitions()), zxid, self.end_ms)
            _look(self.owners, dict(tree.owners()), zxid, self.end_ms)
            for step in record.records if isinstance(record, txns.MultiTxn) else [record]:
                kind = type(step).__name__.removesuffix("Txn")
                self.writers[transaction.session_id, kind[0].lower() + kind[1:], getattr(step, "path", None)] += 1
        self.sessions = tree.sessions | tree.ended

    def moves(self, key: Hashable, field: int) -> list[tuple[int, object, object]]:
        """When one field of a partition became another one: zxid, before, after."""
        turns = pairwise(self.partitions[key])
        return [
            (after.from_zxid, before.what[field], after.what[field])
            for before, after in turns
            if before.until_zxid == after.from_zxid and before.what[field] != after.what[field]
        ]

    def seconds(self, key: Hashable, field: int | None) -> float:
        """Return how long a partition existed, or a field of it was true."""
        own = [one for one in self.partitions[key] if field is None or one.what[field]]
        return sum(((self.end_ms if one.until_ms is None else one.until_ms) - one.from_ms) / 1000 for one in own)


def _look(lines: dict[Hashable, list[Interval]], now: dict[Hashable, tuple[object, ...]], zxid: int, ms: int) -> None:
    for key in lines.keys() | now.keys():
        line = lines.setdefault(key, [])
        last = line[-1] if line and line[-1].until_zxid is None else None
        if last is not None and last.what != now.get(key):
            line[-1] = last._replace(until_zxid=zxid, until_ms=ms)
            last = None
        if last is None and key in now:
            line.append(Interval(now[key], zxid, None, ms, None))
