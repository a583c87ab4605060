"""Versions of each API that a release accepts from clients, as its brokers list them in ApiVersions.

Rules of this module:
  - a row is the API key, the API's name, and the highest version from each release on; the lowest version is 0, except
    of ControlledShutdown from 0.9 to 0.11;
  - from 0.10.0 on the table is what brokers of each release line answered to ApiVersions; before, what they
    accepted (recorded, tests/kafka/data/api_versions.json). 0.8.0 and 0.8.1 were not recorded: the table follows
    their KafkaApis.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from simzk.kafka.releases.since import Release

_HIGHEST: Final = """
0 Produce 0.8.0:0 0.9:1 0.10.0:2 0.11:3 1.0:5 2.0:6 2.1:7 2.4:8 2.8:9 3.7:10 3.8:11
1 Fetch 0.8.0:0 0.9:1 0.10.0:2 0.10.1:3 0.11:5 1.0:6 1.1:7 2.0:8 2.1:10 2.3:11 2.7:12 3.1:13 3.5:15 3.7:16 3.9:17
2 ListOffsets 0.8.0:0 0.10.1:1 0.11:2 2.0:3 2.1:4 2.2:5 2.8:6 3.0:7 3.5:8 3.9:9
3 Metadata 0.8.0:0 0.10.0:1 0.10.1:2 0.11:4 1.0:5 2.0:6 2.1:7 2.3:8 2.4:9 2.8:11 3.1:12
4 LeaderAndIsr 0.8.0:0 1.0:1 2.2:2 2.4:4 2.8:5 3.2:6 3.4:7
5 StopReplica 0.8.0:0 2.2:1 2.4:2 2.6:3 3.4:4
6 UpdateMetadata 0.8.0:0 0.9:1 0.10.0:2 0.10.2:3 1.0:4 2.2:5 2.4:6 2.8:7 3.4:8
7 ControlledShutdown 0.8.0:0 0.9:1 2.2:2 2.4:3
8 OffsetCommit 0.8.0:0 0.8.2:1 0.9:2 0.11:3 2.0:4 2.1:6 2.3:7 2.4:8 3.7:9
9 OffsetFetch 0.8.0:0 0.8.2:1 0.10.2:2 0.11:3 2.0:4 2.1:5 2.4:6 2.5:7 3.0:8 3.7:9
10 FindCoordinator 0.8.2:0 0.11:1 2.0:2 2.4:3 3.0:4 3.8:5 3.9:6
11 JoinGroup 0.9:0 0.10.1:1 0.11:2 2.0:3 2.2:4 2.3:5 2.4:6 2.5:7 3.2:9
12 Heartbeat 0.9:0 0.11:1 2.0:2 2.3:3 2.4:4
13 LeaveGroup 0.9:0 0.11:1 2.0:2 2.4:4 3.2:5
14 SyncGroup 0.9:0 0.11:1 2.0:2 2.3:3 2.4:4 2.5:5
15 DescribeGroups 0.9:0 0.11:1 2.0:2 2.3:3 2.4:5
16 ListGroups 0.9:0 0.11:1 2.0:2 2.4:3 2.6:4 3.8:5
17 SaslHandshake 0.10.0:0 1.0:1
18 ApiVersions 0.10.0:0 0.11:1 2.0:2 2.4:3 3.9:4
19 CreateTopics 0.10.1:0 0.10.2:1 0.11:2 2.0:3 2.4:5 2.7:6 2.8:7
20 DeleteTopics 0.10.1:0 0.11:1 2.0:2 2.1:3 2.4:4 2.7:5 2.8:6
21 DeleteRecords 0.11:0 2.0:1 2.6:2
22 InitProducerId 0.11:0 2.0:1 2.4:2 2.5:3 2.7:4 3.8:5
23 OffsetForLeaderEpoch 0.11:0 2.0:1 2.1:2 2.3:3 2.8:4
24 AddPartitionsToTxn 0.11:0 2.0:1 2.7:2 2.8:3 3.6:4 3.8:5
25 AddOffsetsToTxn 0.11:0 2.0:1 2.7:2 2.8:3 3.8:4
26 EndTxn 0.11:0 2.0:1 2.7:2 2.8:3 3.8:4
27 WriteTxnMarkers 0.11:0 2.8:1
28 TxnOffsetCommit 0.11:0 2.0:1 2.1:2 2.5:3 3.8:4
29 DescribeAcls 0.11:0 2.0:1 2.5:2 3.3:3
30 CreateAcls 0.11:0 2.0:1 2.5:2 3.3:3
31 DeleteAcls 0.11:0 2.0:1 2.5:2 3.3:3
32 DescribeConfigs 0.11:0 1.1:1 2.0:2 2.6:3 2.8:4
33 AlterConfigs 0.11:0 2.0:1 2.8:2
34 AlterReplicaLogDirs 1.0:0 2.0:1 2.8:2
35 DescribeLogDirs 1.0:0 2.0:1 2.6:2 3.2:3 3.3:4
36 SaslAuthenticate 1.0:0 2.2:1 2.5:2
37 CreatePartitions 1.0:0 2.0:1 2.5:2 2.7:3
38 CreateDelegationToken 1.1:0 2.0:1 2.4:2 3.3:3
39 RenewDelegationToken 1.1:0 2.0:1 2.5:2
40 ExpireDelegationToken 1.1:0 2.0:1 2.5:2
41 DescribeDelegationToken 1.1:0 2.0:1 2.5:2 3.3:3
42 DeleteGroups 1.1:0 2.0:1 2.4:2
43 ElectLeaders 2.2:0 2.4:2
44 IncrementalAlterConfigs 2.3:0 2.4:1
45 AlterPartitionReassignments 2.4:0
46 ListPartitionReassignments 2.4:0
47 OffsetDelete 2.4:0
48 DescribeClientQuotas 2.6:0 2.8:1
49 AlterClientQuotas 2.6:0 2.8:1
50 DescribeUserScramCredentials 2.7:0
51 AlterUserScramCredentials 2.7:0
56 AlterPartition 2.7:0 3.2:1 3.3:2 3.5:3
57 UpdateFeatures 2.7:0 3.3:1
58 Envelope 3.4:0
60 DescribeCluster 2.8:0 3.7:1
61 DescribeProducers 2.8:0
65 DescribeTransactions 3.0:0
66 ListTransactions 3.0:0 3.8:1
67 AllocateProducerIds 3.0:0
68 ConsumerGroupHeartbeat 3.7:0
69 ConsumerGroupDescribe 3.8:0
"""
CONTROLLED_SHUTDOWN: Final = 7


class VersionRange(NamedTuple):
    """Lowest and highest version that is accepted."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


@cache
def _rows() -> tuple[tuple[int, str, tuple[tuple[Release, int], ...]], ...]:
    """Return key, name and first releases of each API."""
    rows = []
    for line in _HIGHEST.split("\n")[1:-1]:
        key, name, *steps = line.split(" ")
        parts = (step.split(":") for step in steps)
        rows.append((int(key), name, tuple((tuple(map(int, since.split("."))), int(high)) for since, high in parts)))
    return tuple(rows)


@cache
def accepted_versions(release: Release) -> dict[int, VersionRange]:
    """Return the versions that a release accepts, by API key, ascending.

    >>> accepted_versions((2, 4, 0))[3], 60 in accepted_versions((2, 7, 0))
    (VersionRange(low=0, high=9), False)
    """
    accepted = {}
    for key, _, steps in _rows():
        high = next((high for since, high in reversed(steps) if since <= release), None)
        if high is not None:
            rejects_0 = key == CONTROLLED_SHUTDOWN and (0, 9) <= release < (1, 0)  # version 0 has another header
            accepted[key] = VersionRange(int(rejects_0), high)
    return accepted


@cache
def api_names() -> dict[int, str]:
    """Return the names of the APIs by key.

    >>> api_names()[3]
    'Metadata'
    """
    return {key: name for key, name, _ in _rows()}
