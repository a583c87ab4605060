"""Exchanges of real brokers about configurations, log directories, quotas, users, ACLs, tokens and features.

`data/admin.jsonl.gz` has one exchange a line, in the order of the recording, as `recorded.py` says. Texts
that explain keys are there as checksums. It is made by

    python -m tests.kafka.client_requests.recorded_admin FOLDER

A `story` is that of three brokers without an authorizer; `second` is that of one broker with an authorizer.
"""

from __future__ import annotations

import re
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from tests.kafka.client_requests.recorded import KEPT, RELEASES, Exchange, masked
from tests.kafka.recorded_lines import read_lines, write_lines

FILE = Path(__file__).with_name("data") / "admin.jsonl.gz"
APIS = {
    "configs": ("DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"),
    "quotas": ("DescribeClientQuotas", "AlterClientQuotas"),
    "users": ("DescribeUserScramCredentials", "AlterUserScramCredentials"),
    "features": ("UpdateFeatures",),
    "tokens": (
        *("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken"),
        "DescribeDelegationToken",
    ),
    "log dirs": ("DescribeLogDirs", "AlterReplicaLogDirs"),
    "leadership": ("ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments"),
    "acls": ("DescribeAcls", "CreateAcls", "DeleteAcls"),
    "brokers": ("LeaderAndIsr",),
}
"""APIs of each part of the recordings."""
STEPS = (
    r"(describe|alter|incremental-alter|create|delete)-(?!log-dirs: all).*|update-features"
    r"|delegation tokens.*|acls without.*|allow .*|deny.*|denied.*"
)
PROPERTIES = {
    "auto.create.topics.enable": False,
    "auto.leader.rebalance.enable": False,
    "controlled.shutdown.enable": True,
    "default.replication.factor": 2,
    "delete.topic.enable": True,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "log.cleaner.dedupe.buffer.size": 8388608,
    "log.flush.scheduler.interval.ms": 3000000,
    "log.retention.ms": -1,
    "num.io.threads": 3,
    "num.network.threads": 2,
    "num.partitions": 1,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "replica.fetch.max.bytes": 20000,
    "replica.fetch.wait.max.ms": 200,
    "replica.lag.time.max.ms": 5000,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "zookeeper.connection.timeout.ms": 30000,
    "zookeeper.session.timeout.ms": 4000,
}
"""Settings of the recorded brokers. 2.4 and 2.8 had a `replica.lag.time.max.ms` of 3000."""
LAGS = {"2.4.1": 3000, "2.8.2": 3000}
PLACED = ("describe-log-dirs: none", 3)
"""A step and a broker: in which of two directories its log is depends on all topics that the recorded cluster had."""
INTERNAL = ("__consumer_offsets", "__transaction_state")
"""Topics that the recorded clusters had besides."""
UNKNOWN_SIZE = -1
SIZES = ("PartitionSize", "TotalBytes", "UsableBytes")
"""Fields with sizes of logs and disks."""
PLACES = ("listeners", "zookeeper.connect")
"""Keys whose values are addresses."""


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return all exchanges."""
    return tuple(read_lines(FILE))


def of_release(release: str, part: str, story: str = "story") -> list[Exchange]:
    """Return the exchanges of a release about one part."""
    return [
        one for one in exchanges() if (one["release"], one["story"]) == (release, story) and one["api"] in APIS[part]
    ]


def comparable(value: Any) -> Any:
    """Return a response without chance, with checksums for texts that explain keys."""
    return masked(_shortened(value))


def _shortened(value: Any) -> Any:
    if isinstance(value, list):
        return [_shortened(item) for item in value if not (isinstance(item, dict) and item.get("Name") in INTERNAL)]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if not isinstance(value, dict):
        return value
    short = {name: _shortened(item) for name, item in value.items()}
    if isinstance(short.get("Documentation"), str):
        short["Documentation"] = zlib.crc32(short["Documentation"].encode())
    if str(short.get("ErrorMessage")).startswith("Request "):
        short["ErrorMessage"] = "not authorized"  # the recorded text has the object of the request, with addresses
    for name in SIZES:
        if short.get(name, UNKNOWN_SIZE) != UNKNOWN_SIZE:
            short[name] = "*"
    if short.get("Name") in PLACES and short.get("Value"):
        short["Value"] = "*"
    return short


def without_empty_topics(value: Any) -> Any:
    """Return a response without topics that have no partitions."""
    if isinstance(value, list):
        kept = [item for item in value if not (isinstance(item, dict) and item.get("Partitions") == [])]
        return [without_empty_topics(item) for item in kept]
    if not isinstance(value, dict):
        return value
    return {name: without_empty_topics(item) for name, item in value.items()}


def select(folder: Path) -> list[Exchange]:
    """Return the exchanges of the compared steps from a folder of recordings."""
    found: list[Exchange] = []
    wanted = {api for apis in APIS.values() for api in apis}
    for release in RELEASES:
        for story in ("story", "second"):
            for file in sorted((folder / release).glob(f"{story}.jsonl*")):
                for line in read_lines(file):
                    step = line["step"].removeprefix("2nd pass, ")
                    if line.get("api") in APIS["leadership"] and story == "story":
                        continue  # recorded.py has them
                    if line.get("api") in wanted and re.fullmatch(STEPS, step) and (step, line["broker"]) != PLACED:
                        kept = {name: line[name] for name in KEPT if name in line} | {"step": step}
                        if "no_answer" in kept:
                            kept["no_answer"] = 1  # it is the time that the client waited
                        found.append({"release": release, "story": story, "place": len(found), **_shortened(kept)})
    return found


if __name__ == "__main__":
    write_lines(FILE, select(Path(sys.argv[1])))
