"""Recordings of simulated clusters, in the form of docs/replay.md: what no real cluster was recorded doing.

A recording and its replay share the simulation, so equality proves only that a replay reads the inputs: what chance
decided in the one run is the same in the other, which has another seed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from simzk.kafka.cluster.cluster import KafkaCluster
from simzk.kafka.observation.recording import RecordedZnode
from simzk.kafka.zookeeper_mode.replay.transactions import (
    RECORDER,
    RecordedOperation,
    RecordedTransaction,
    operation_of,
)
from simzk.zookeeper.transactions import CreateSessionTxn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from simzk.kafka.broker.timing import BrokerTiming
    from simzk.kafka.cluster.zookeeper_host import NetworkLink
    from simzk.zookeeper.requests import Request
    from simzk.zookeeper.transactions import Transaction

CLOCK_MS = 1_800_000_000_000
LASTS_S = 12.0
"""How long a step lasts: until a session of a killed broker is over, and ISRs are announced."""
CONFIG: Mapping[str, str | int | bool] = {
    "zookeeper.session.timeout.ms": 6000,
    "auto.leader.rebalance.enable": False,
    "delete.topic.enable": True,
}
_BROKER = re.compile(r"broker (\d+)")
_FIELDS = ("data", "v", "cv", "av", "eph", "nc", "dl")


class MadeStep(NamedTuple):
    """One step.

    Args:
        name: its name.
        actions: as of meta.json, but with `after`, in s after the step's beginning, for `at`.
        do: does them to the cluster, if not the obvious.
        lasts_s: how long the step lasts then.
        tools: commands of Kafka's tools.
    """

    name: str
    actions: Sequence[Mapping[str, object]] = ()
    do: Callable[[KafkaCluster], object] | None = None
    lasts_s: float = LASTS_S
    tools: Sequence[str] = ()


class _Log:
    """Transactions of a cluster with what a recording says of them."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._addresses: dict[int, str] = {}
        self._requests: dict[tuple[int, int], Request] = {}
        self._names: dict[int, str] = {}
        self.step: str | None = None
        self._noted: list[tuple[int, str | None, Transaction]] = []
        cluster.zookeeper_host.on_request = self._note_request
        cluster.server.on_transaction.append(self._note)

    def _note_request(self, link: NetworkLink, xid: int, request: Request) -> None:
        self._addresses[link.session_id] = link.address
        self._requests[link.session_id, xid] = request

    def _note(self, transaction: Transaction) -> None:
        self._noted.append((self._cluster.scheduler.now_us // 1000, self.step, transaction))

    def entries(self) -> list[RecordedTransaction]:
        """Return all transactions, the first at time 0."""
        return [self._entry(*one) for one in self._noted]

    @property
    def zero_ms(self) -> int:
        """Virtual time of the first transaction."""
        return self._noted[0][0]

    def _entry(self, at_ms: int, step: str | None, transaction: Transaction) -> RecordedTransaction:
        session = transaction.session_id
        operation = operation_of(transaction.record, self._requests.get((session, transaction.cxid)))
        return RecordedTransaction(
            **{name: getattr(operation, name) for name in RecordedOperation.__struct_fields__},
            who=self._who(session, isinstance(transaction.record, CreateSessionTxn)),
            session=hex(session),
            cxid=transaction.cxid,
            t=at_ms - self.zero_ms,
            step=step,
        )

    def _who(self, session: int, begins: bool) -> str:
        broker = _BROKER.fullmatch(self._addresses.get(session, ""))
        if session not in self._names:
            assert begins
            self._names[session] = f"{f'b{broker[1]}' if broker else 'tool'}#{len(self._names)}"
        return self._names[session] if len(self._names) > 1 and session != next(iter(self._names)) else RECORDER


def record(
    folder: Path,
    version: str,
    steps: Sequence[MadeStep],
    *,
    brokers: Sequence[int] = (1, 2, 3),
    seed: int = 1,
    has_acts: bool = True,
    timing: BrokerTiming | None = None,
) -> Path:
    """Play steps on a simulated cluster that boots all brokers first, and write the recording; return its folder.

    Args:
        folder: where to write.
        version: the release.
        steps: what is done after the boot.
        brokers: ids of the brokers.
        seed: of the cluster.
        timing: decisions about time.
        has_acts: whether meta.json has actions; if not, names and commands of tools say what was done.
    """
    folder.mkdir()
    boots = [MadeStep(f"boot-broker{broker}", [{"do": "start", "broker": broker}], lasts_s=3.0) for broker in brokers]
    cluster = KafkaCluster(
        version,
        brokers=brokers,
        seed=seed,
        config=CONFIG,
        tick_time_ms=500,
        max_session_timeout_ms=60_000,
        boot=False,
        timing=timing,
    )
    meta: list[dict[str, object]] = []
    dumps: list[dict[str, object]] = []
    with cluster:
        log = _Log(cluster)
        cluster.delete_znode("/nothing")  # the recorder's session is the first transaction
        cluster.advance(1)
        for step in (MadeStep("empty", lasts_s=1.0), *boots, *steps):
            begins_s = _wall_s(cluster, log)
            log.step = step.name
            for action in step.actions:
                if step.do is None:
                    _do(cluster, action)
            if step.do is not None:
                step.do(cluster)
            cluster.advance(step.lasts_s)
            acts = [
                {**{key: value for key, value in action.items() if key != "after"}, "at": begins_s + _after_s(action)}
                for action in step.actions
            ]
            tools = [{"cmd": command} for command in step.tools]
            meta.append({"step": step.name, "t0": begins_s, "tools": tools, **({"acts": acts} if has_acts else {})})
            dumps.append({"step": step.name, "tree": _tree(cluster)})
        entries = log.entries()
    whole = {"version": version, "config": CONFIG, "clock_ms": CLOCK_MS, "steps": meta}
    (folder / "meta.json").write_text(json.dumps(whole))
    (folder / "dumps.json").write_text(json.dumps(_as_changes(dumps)))
    (folder / "txns.json").write_bytes(msgspec.json.encode(entries))
    return folder


def _wall_s(cluster: KafkaCluster, log: _Log) -> float:
    return (CLOCK_MS + cluster.scheduler.now_us / 1000 - log.zero_ms) / 1000


def _after_s(action: Mapping[str, object]) -> int:
    """Return when an action is done, in s after the step's beginning."""
    return int(str(action.get("after", 0)))


def _do(cluster: KafkaCluster, action: Mapping[str, object]) -> None:
    broker = action.get("broker")
    match action["do"]:
        case "start":
            cluster.restart(int(str(broker)))
        case "kill" | "pause" | "resume" | "shutdown":
            getattr(cluster, str(action["do"]))(broker)
        case "write":
            path = str(action["path"])
            cluster.write_znode(path, str(action["text"]), create=cluster.tree.get(path) is None)
        case "delete_znode":
            cluster.delete_znode(str(action["path"]))
        case kind:
            raise AssertionError(f"say in `do` what {kind} is")


def _tree(cluster: KafkaCluster) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for path, znode in cluster.tree.walk():
        stat, data = znode.stat(), None if znode.data is None else znode.data.decode()
        fields = RecordedZnode(
            data,
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.ephemeral_owner != 0,
            stat.num_children,
            stat.data_length,
        )
        found[path] = dict(zip(_FIELDS, fields, strict=True))
    return found


def _as_changes(dumps: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the first step with its tree, the others with what they changed."""
    found, before = dumps[:1], dict[str, object]()
    for place, entry in enumerate(dumps):
        tree = entry["tree"]
        assert isinstance(tree, dict)
        if place:
            changed = {path: znode for path, znode in tree.items() if before.get(path) != znode}
            found.append(
                {"step": entry["step"], "changed": changed, "removed": [path for path in before if path not in tree]}
            )
        before = tree
    return found
