"""Mutated frames against simulated brokers: nothing escapes, nothing hangs, memory stays bounded, others are served.

    python -m tests.properties.kafka_fuzz --frames 1000000 [--seed 1]

A round is a connection to a broker of some release that sends a few frames: requests of every API and version of the
release, with bits flipped, bytes cut, doubled and inserted, and lengths set to extremes. Afterwards another client is
answered. All is drawn from the seed and the number of the round, so that `--first ROUND --frames 1` does one again.
"""

from __future__ import annotations

import argparse
import faulthandler
import resource
import sys
from random import Random
from typing import TYPE_CHECKING

import simzk
from simzk.kafka.protocol.classes import request_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.messages import MetadataRequest, MetadataResponse
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.releases.versions import kafka_version
from tests.kafka.protocol.mutations import mutated
from tests.kafka.protocol.plain import random_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.releases.api_versions import VersionRange

RELEASES = ("0.8.2", "0.10.2", "2.4", "3.9")
FRAMES_A_ROUND = 8
ROUNDS_A_CLUSTER = 100
"""A cluster is replaced after so many rounds, because requests that happen to be valid create topics and groups."""
ROUND_S = 1.0
"""Virtual time of a round: requests that wait for something are still in progress when their connection closes."""
RESIDENT_GROWTH_MAX = 128 << 20
"""Bytes by which the process may grow after its first clusters."""
ROUNDS_S_MAX = 120.0
"""The rounds of a cluster take seconds: if they last so long, one hangs, and the process ends with its traceback."""
WARM_UP_CLUSTERS = len(RELEASES)
BETWEEN_BROKERS = frozenset({4, 5, 6, 7, 56, 58, 67})
"""Requests that a broker sends: a client that forges valid ones may do what the controller does."""


class Client:
    """A connection to a broker, of which the responses are counted."""

    def __init__(self, cluster: simzk.KafkaCluster, broker: int) -> None:
        self.frames: list[bytes] = []
        self.closed = False
        self.connection = cluster.brokers[broker].client_api.connect(self)

    def send(self, frame: bytes) -> None:
        """Receive a response."""
        self.frames.append(frame)

    def close(self) -> None:
        """Note that the broker has closed the connection."""
        self.closed = True


def frame_of(random: Random, accepted: Mapping[int, VersionRange]) -> bytes:
    """Return the frame of a request that the release may accept, most often broken."""
    key = random.choice([key for key in accepted if key not in BETWEEN_BROKERS])
    kind = request_class(key)
    assert kind is not None
    version = random.choice([version for version in range(20) if version in accepted[key]])
    request = random_message(random, kind, version)
    frame = encode_request(request, version, correlation_id=random.randrange(100), client_id=random.choice(["a", None]))
    return frame if random.random() < 0.1 else mutated(random, frame)


def is_served(cluster: simzk.KafkaCluster) -> bool:
    """Return whether a broker answers another client."""
    client = Client(cluster, 1)
    client.connection.receive(encode_request(MetadataRequest(topics=[]), 0, correlation_id=7, client_id="b"))
    cluster.run_for(0.1)
    answered = [decode_response(MetadataResponse, 0, frame)[0] for frame in client.frames]
    client.connection.hang_up()
    return answered == [7]


def play_round(cluster: simzk.KafkaCluster, random: Random, accepted: Mapping[int, VersionRange]) -> None:
    """Send the frames of one round."""
    client = Client(cluster, random.choice(list(cluster.brokers)))
    for _ in range(FRAMES_A_ROUND):
        client.connection.receive(frame_of(random, accepted))
        if random.random() < 0.5:
            cluster.run_for(0.01)
    cluster.run_for(ROUND_S)
    client.connection.hang_up()
    assert is_served(cluster)


def fuzz(frames: int, seed: int, first: int = 0) -> int:
    """Play rounds until so many frames were sent; return the number of rounds.

    Raises:
        AssertionError: another client was not answered, or the process has grown.
    """
    number, baseline = first, 0
    while (number - first) * FRAMES_A_ROUND < frames:
        place = number // ROUNDS_A_CLUSTER
        release = RELEASES[place % len(RELEASES)]
        accepted = accepted_versions(kafka_version(release).number)
        faulthandler.dump_traceback_later(ROUNDS_S_MAX, exit=True)
        with simzk.KafkaCluster(release, 2, seed=place) as cluster:
            while (number - first) * FRAMES_A_ROUND < frames and number // ROUNDS_A_CLUSTER == place:
                try:
                    play_round(cluster, Random(f"{seed} {number}"), accepted)
                except BaseException:
                    sys.stderr.write(f"round {number} of seed {seed}, Kafka {release}\n")
                    raise
                number += 1
        faulthandler.cancel_dump_traceback_later()
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if place - first // ROUNDS_A_CLUSTER < WARM_UP_CLUSTERS:
            baseline = resident
        assert resident - baseline < RESIDENT_GROWTH_MAX, f"the process grew by {resident - baseline} bytes"
    return number - first


def main() -> None:
    """Read the arguments, and fuzz."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    rounds = fuzz(options.frames, options.seed, options.first)
    sys.stdout.write(f"{rounds} rounds\n")


if __name__ == "__main__":
    main()
