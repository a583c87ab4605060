"""Mutated frames against simulated brokers: nothing escapes, nothing hangs, memory stays bounded, others are served.

    python -m tests.properties.kafka_fuzz --frames 1000000 [--seed 1]

A round is a connection to a broker of some release that sends a few frames: requests of every API and version of the
release, with bits flipped, bytes cut, doubled and inserted, and lengths set to extremes; more often than others those
about transactions and those that brokers send each other, with small numbers and topics that exist. Every other
cluster has ports with SASL: there a round begins with a login, of which any frame may be broken, and may log in again.
Afterwards another client is answered. All is drawn from the seed and the number of the round, so that `--first ROUND
--frames 1` does one again.
"""

from __future__ import annotations

import argparse
import faulthandler
import resource
import sys
from random import Random
from typing import TYPE_CHECKING

import simzk
from simzk.kafka.client_requests.apis import APIS
from simzk.kafka.protocol.classes import request_class
from simzk.kafka.protocol.codec import decode_response, encode_request
from simzk.kafka.protocol.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from simzk.kafka.releases.api_versions import accepted_versions
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.security.login import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.kafka.protocol.mutations import mutated
from tests.kafka.protocol.plain import random_message
from tests.kafka.security.sasl_client import PLAIN_USERS, plain_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simzk.kafka.protocol.structs import Message
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
WARM_UP_CLUSTERS = 2 * len(RELEASES)
TRANSACTIONS = (0, 22, 24, 25, 26, 28, 65, 66)
"""Produce and requests about transactions."""
TOPICS = ("orders", "a")
INTERNAL = ("__consumer_offsets", "__transaction_state")
SASL_SINCE, SESSIONS_SINCE, TRANSACTIONS_SINCE = (0, 10), (2, 2), (0, 11)
LIFETIME_MS = 300
"""Of a session, shorter than a round."""
SCRAM_FIRST = b"n,,n=carol,r=abc"
SCRAM_FINAL = b"c=biws,r=abcdef,p=" + b"A" * 43 + b"="


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
    drawn = random.random()
    about_transactions, as_broker = drawn < 0.3, drawn >= 0.9
    some = TRANSACTIONS if about_transactions else APIS["broker_requests"] if as_broker else accepted
    key = random.choice([key for key in some if key in accepted])
    kind = request_class(key)
    assert kind is not None
    version = random.choice([version for version in range(20) if version in accepted[key]])
    is_sensible = about_transactions or as_broker
    request = random_message(random, kind, version, numbers=range(-1, 4) if is_sensible else None)
    return broken(random, request, version, whole=0.5 if is_sensible else 0.1)


def broken(random: Random, request: Message, version: int, *, whole: float) -> bytes:
    """Return the frame of a request, broken but for a share of them."""
    frame = encode_request(request, version, correlation_id=random.randrange(100), client_id=random.choice(["a", None]))
    return frame if random.random() < whole else mutated(random, frame)


def login_of(random: Random, accepted: Mapping[int, VersionRange]) -> list[bytes]:
    """Return the frames of a login that may succeed."""
    shakes = random.choice([version for version in range(2) if version in accepted[SASL_HANDSHAKE]])
    mechanism = random.choice(["PLAIN", "PLAIN", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "X"])
    right = plain_token("alice", "secret")
    tokens = [right] if mechanism == "PLAIN" else [SCRAM_FIRST, SCRAM_FINAL]
    if random.random() < 0.3:
        tokens = [mutated(random, one) for one in tokens]
    frames = [broken(random, ApiVersionsRequest(), 0, whole=0.8)] if random.random() < 0.3 else []
    frames.append(broken(random, SaslHandshakeRequest(mechanism=mechanism), shakes, whole=0.8))
    if shakes == 0:
        return frames + tokens
    versions = [version for version in range(3) if version in accepted[SASL_AUTHENTICATE]]
    return frames + [
        broken(random, SaslAuthenticateRequest(auth_bytes=one), random.choice(versions), whole=0.8) for one in tokens
    ]


def frames_of(random: Random, accepted: Mapping[int, VersionRange], *, has_sasl: bool) -> list[bytes]:
    """Return the frames of a round."""
    frames = login_of(random, accepted) if has_sasl else []
    while len(frames) < FRAMES_A_ROUND:
        again = has_sasl and random.random() < 0.1
        frames += login_of(random, accepted) if again else [frame_of(random, accepted)]
    return frames[:FRAMES_A_ROUND]


def is_served(cluster: simzk.KafkaCluster, *, has_sasl: bool) -> bool:
    """Return whether a broker answers another client."""
    client = Client(cluster, 1)
    if has_sasl:
        handshake = SaslHandshakeRequest(mechanism="PLAIN")
        client.connection.receive(encode_request(handshake, 0, correlation_id=6, client_id="b"))
        client.connection.receive(plain_token("alice", "secret"))
    client.connection.receive(encode_request(MetadataRequest(topics=[]), 0, correlation_id=7, client_id="b"))
    cluster.run_for(0.1)
    answered = [decode_response(MetadataResponse, 0, frame)[0] for frame in client.frames[2 * has_sasl :]]
    client.connection.hang_up()
    return answered == [7]


def play_round(
    cluster: simzk.KafkaCluster, random: Random, accepted: Mapping[int, VersionRange], *, has_sasl: bool
) -> None:
    """Send the frames of one round."""
    client = Client(cluster, random.choice(list(cluster.brokers)))
    for frame in frames_of(random, accepted, has_sasl=has_sasl):
        client.connection.receive(frame)
        if random.random() < 0.5:
            cluster.run_for(random.choice([0.01, 0.01, 1.1 if has_sasl else 0.01]))
    cluster.run_for(ROUND_S)
    client.connection.hang_up()
    assert is_served(cluster, has_sasl=has_sasl)


def has_login(place: int) -> bool:
    """Return whether the ports of the cluster at a place have SASL: those of every other row of releases."""
    number = kafka_version(RELEASES[place % len(RELEASES)]).number
    return number >= SASL_SINCE and place // len(RELEASES) % 2 == 1


def new_cluster(place: int) -> simzk.KafkaCluster:
    """Return the cluster at a place."""
    release = RELEASES[place % len(RELEASES)]
    number = kafka_version(release).number
    config: dict[str, str | int | bool] = {}
    if has_login(place):
        config |= PLAIN_USERS
        if number >= SESSIONS_SINCE:
            config["connections.max.reauth.ms"] = LIFETIME_MS
    security = "SASL_PLAINTEXT" if has_login(place) else "PLAINTEXT"
    cluster = simzk.KafkaCluster(release, 2, seed=place, config=config, security=security)
    for topic in (*TOPICS, *INTERNAL[: 1 + (number >= TRANSACTIONS_SINCE)]):
        cluster.create_topic(topic, partitions=1, replication_factor=2)
    if has_login(place):
        cluster.add_user("carol", "pencil", mechanism="SCRAM-SHA-256")
    cluster.run_until_quiet()
    return cluster


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
        with new_cluster(place) as cluster:
            while (number - first) * FRAMES_A_ROUND < frames and number // ROUNDS_A_CLUSTER == place:
                try:
                    play_round(cluster, Random(f"{seed} {number}"), accepted, has_sasl=has_login(place))
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
