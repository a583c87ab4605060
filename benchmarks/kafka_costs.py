"""Comparison of the cost model with measurements that it was not fitted to: recorded stories of other releases.

    python -m benchmarks.kafka_costs [--json OUT]

`simzk.kafka.cluster.cost_model.MEASURED` was fitted to one run of Kafka 3.9.1 with 2,000 partitions. Each recorded
story has the time of every transaction, too, of three brokers with a dozen partitions. Here every story is played
with those costs, and each of its bursts of the controller's writes is timed as in the recording: from the first to
the last of its state writes in a step, and, where a session ended, from that end to the last of them. What a burst
takes besides, in brokers' disks and in Java, is no part of the model: small bursts show how much that is.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import machine
from simzk.kafka.cluster.cost_model import MEASURED
from simzk.kafka.zookeeper_mode import paths
from simzk.zookeeper.transactions import CloseSessionTxn, CreateTxn, MultiTxn, SetDataTxn
from tests.kafka.recorded_story import RELEASES, Story, play

if TYPE_CHECKING:
    from simzk.kafka.cluster.cluster import KafkaCluster
    from simzk.kafka.zookeeper_mode.replay.transactions import RecordedTransaction
    from simzk.zookeeper.transactions import Transaction

WRITES_MIN = 3
"""A burst has so many state writes or more."""
APART_MS = 1500
"""What comes later than this after the write before is of another burst (a follower that is dropped, or back)."""
EVENTS = (
    ("b", "a topic is created"),
    ("d-", "the controller's broker dies"),
    ("j2", "a broker dies"),
    (("e-", "j-", "j3"), "a broker is back"),
)
Mark = tuple[float, str]
"""When, in ms; a state written ("state"), or a broker's session ended ("gone")."""


def real_marks(entries: list[RecordedTransaction]) -> list[Mark]:
    """The recorded marks of a step."""
    marks: list[Mark] = []
    for entry in entries:
        if entry.op == "closeSession" and any(path.startswith("/brokers/ids/") for path in entry.deleted):
            marks.append((entry.t, "gone"))
        writes = [part for part in entry.parts() if part.op in ("create", "setData")]
        marks.extend((entry.t, "state") for part in writes if paths.state_partition(part.path) is not None)
    return marks


class Watch:
    """Marks of a simulated cluster."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self.marks: list[Mark] = []
        cluster.server.on_transaction.append(self._see)

    def _see(self, transaction: Transaction) -> None:
        record = transaction.record
        now_ms = self._cluster.scheduler.now_us / 1000
        if isinstance(record, CloseSessionTxn) and any(path.startswith("/brokers/ids/") for path in record.paths):
            self.marks.append((now_ms, "gone"))
        for part in record.records if isinstance(record, MultiTxn) else (record,):
            if isinstance(part, SetDataTxn | CreateTxn) and paths.state_partition(part.path) is not None:
                self.marks.append((now_ms, "state"))


def bursts(marks: list[Mark]) -> dict[str, tuple[int, float]]:
    """Return size and duration of the first burst of a step, from its first write and from a session's end."""
    gone = next((at for at, kind in marks if kind == "gone"), None)
    states = [at for at, kind in marks if kind == "state" and (gone is None or at >= gone)]
    burst = states[:1]
    for at in states[1:]:
        if at - burst[-1] > APART_MS:
            break
        burst.append(at)
    if len(burst) < WRITES_MIN:
        return {}
    found = {"writes": (len(burst), burst[-1] - burst[0])}
    if gone is not None:
        found["session's end to last write"] = (len(burst), burst[-1] - gone)
    return found


def compare(release: str) -> list[dict[str, object]]:
    """Return the bursts of a release's story, recorded and simulated."""
    story = Story(release, options={"cost_model": MEASURED})
    rows: list[dict[str, object]] = []
    with story.empty_cluster() as cluster:
        for name, act in story.steps:
            watch = Watch(cluster)
            play(cluster, act, story.paces_s[name])
            real, ours = bursts(real_marks(story.transactions.get(name, []))), bursts(watch.marks)
            for kind in real.keys() & ours.keys():
                if real[kind][0] == ours[kind][0]:
                    row = {"release": release, "step": name, "what": kind, "states": real[kind][0]}
                    rows.append(row | {"real_ms": real[kind][1], "ours_ms": round(ours[kind][1], 1)})
    return sorted(rows, key=lambda row: (str(row["step"]), str(row["what"])))


def ratios_of(rows: list[dict[str, object]]) -> dict[tuple[str, str, str], list[float]]:
    """Return the ratios of simulated to recorded times, by measurement, event and kind of controller."""
    ratios: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        era = "one by one (up to 1.0)" if str(row["release"]).startswith(("0", "1.0")) else "pipelined (1.1 and later)"
        event = next((text for prefix, text in EVENTS if str(row["step"]).startswith(prefix)), "all else")
        ratio = float(str(row["ours_ms"])) / max(1.0, float(str(row["real_ms"])))
        ratios.setdefault((str(row["what"]), event, era), []).append(ratio)
    return ratios


def main() -> None:
    """Print recorded and simulated times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(machine())
    rows = [row for release in RELEASES for row in compare(release)]
    for row in rows:
        text = f"{row['release']:9} {row['step']:34} {row['what']:29} {row['states']:4} states"
        print(f"{text}  real {row['real_ms']:8.1f} ms  model {row['ours_ms']:8.1f} ms")
    for (kind, event, era), ratios in sorted(ratios_of(rows).items()):
        middle, count = statistics.median(ratios), len(ratios)
        text = f"{kind}, {event}, {era}: {count} bursts"
        print(f"{text}, model / real median {middle:.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "bursts": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
