"""Codecs of znodes: recorded bytes, all versions, errors that name the field."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ZnodeError
from simzk.kafka.releases.versions import kafka_version
from simzk.kafka.topic_partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from simzk.kafka.zookeeper_mode.schemas import admin, broker_registration, config, controller, partition_state, topic
from simzk.kafka.zookeeper_mode.schemas.cluster import uuid_text
from simzk.kafka.zookeeper_mode.schemas.json_text import NoJsonError
from tests.kafka import recorded_story
from tests.kafka.znode_codecs import written_again

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("release", recorded_story.RELEASES)
def test_every_recorded_znode_is_encoded_again_byte_for_byte(release: str) -> None:
    recorded = recorded_story.Story(release).recorded
    znodes = {(path, znode.data) for step in recorded.steps for path, znode in recorded.tree(step).items()}
    for path, data in sorted((path, data) for path, data in znodes if data):
        assert written_again(release, path, data.encode()).decode() == data, path


def test_registrations_of_every_version() -> None:
    def read(text: str) -> broker_registration.BrokerRegistration:
        return broker_registration.decode("/brokers/ids/1", text.encode())

    v1 = read('{ "host":"h", "jmx_port":-1, "port":9, "timestamp":"5", "version":1 }')
    assert (v1.host, v1.port, v1.endpoints, v1.rack) == ("h", 9, ("PLAINTEXT://h:9",), None)
    v2 = read('{"jmx_port":-1,"timestamp":"5","endpoints":["SSL://h:9"],"host":null,"version":2,"port":-1}')
    assert (v2.endpoints, v2.protocols) == (("SSL://h:9",), (("SSL", "SSL"),))
    v3 = read('{"jmx_port":-1,"timestamp":"5","endpoints":["SSL://h:9"],"host":"","version":3,"port":-1,"rack":"r"}')
    assert v3.rack == "r"
    v4 = read(
        '{"listener_security_protocol_map":{"A":"SSL"},"endpoints":["A://h:9"],"jmx_port":-1,"host":"h",'
        '"timestamp":"5","port":9,"version":4}'
    )
    assert v4.protocols == (("A", "SSL"),)
    v5 = read(
        '{"features":{"f":{"min_version":1,"max_version":2}},"listener_security_protocol_map":{"A":"SSL"},'
        '"endpoints":["A://h:9"],"rack":"r","jmx_port":-1,"port":9,"host":"h","version":5,"timestamp":"5"}'
    )
    assert (v5.rack, v5.timestamp_ms, v5.features) == ("r", 5, (("f", 1, 2),))


def test_topics_of_every_version() -> None:
    def read(text: str) -> topic.TopicZnode:
        return topic.decode("/brokers/topics/t", text.encode())

    assert read('{ "partitions":{ "0":[ 1, 2 ] }, "version":1 }') == topic.TopicZnode({0: ReplicaAssignment((1, 2))})
    v2 = read('{"version":2,"partitions":{"0":[3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{}}')
    assert v2.partitions == {0: ReplicaAssignment((3, 1), (3,))}
    v3 = read(
        '{"removing_replicas":{},"partitions":{},"topic_id":"AAAAAAAAQACAAAAAAAAAAA","adding_replicas":{},"version":3}'
    )
    assert v3 == topic.TopicZnode({}, uuid_text(0))


def test_the_other_old_forms() -> None:
    assert controller.decode("/controller", b"7") == 7
    assert controller.decode("/controller", b'{ "brokerid":1, "timestamp":"5", "version":1 }') == 1
    assert config.decode_change("/c", b'"t1"') == "topics/t1"
    assert config.decode_change("/c", b'{"version":1,"entity_type":"clients","entity_name":"c"}') == "clients/c"
    state = b'{ "controller_epoch":1, "isr":[ 3, 1 ], "leader":3, "leader_epoch":0, "version":1 }'
    assert partition_state.decode("/s", state) == LeaderAndIsr(3, 0, (3, 1), 1)
    recovering = b'{"controller_epoch":1,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":4,"isr":[1]}'
    assert partition_state.decode("/s", recovering).recovering
    assert partition_state.encode(partition_state.decode("/s", recovering)) == recovering


@pytest.mark.parametrize("data", [None, b"", b'""', b'"a/b"', b"\xff"])
def test_a_notification_of_0_8_names_a_topic_in_quotes(data: bytes | None) -> None:
    assert config.decode_change("/c", b'"t1"', kafka_version("0.8.0").reading) == "topics/t1"
    with pytest.raises(NoJsonError, match="expected the name of a topic in quotes"):
        config.decode_change("/c", data, kafka_version("0.8.0").reading)


BAD: list[tuple[Callable[[str, bytes | None], object], bytes | None, str]] = [
    (partition_state.decode, None, "/z: has no data; expected JSON"),
    (partition_state.decode, b"{", "/z: contains b'{', which is no JSON"),
    (partition_state.decode, b"\xff", "/z: contains b'\\xff', which is no JSON"),
    (partition_state.decode, b"[1]", "/z: contains [1]; expected a JSON object"),
    (
        partition_state.decode,
        b'{"isr":[1],"leader":1}',
        "/z: field leader_epoch is missing; expected a whole number of 32 bits",
    ),
    (
        partition_state.decode,
        b'{"isr":[1],"leader":"1"}',
        '/z: field leader is "1"; expected a whole number of 32 bits',
    ),
    (
        partition_state.decode,
        b'{"leader":1,"leader_epoch":1,"isr":[1,"2"],"controller_epoch":1}',
        '/z: field isr is [1, "2"]; expected a list of whole numbers of 32 bits',
    ),
    (topic.decode, b'{"partitions":{"x":[1]}}', "/z: field partitions.x is"),
    (topic.decode, b'{"partitions":{"0":1}}', "/z: field partitions.0 is"),
    (broker_registration.decode, b'{"version":0}', "/z: field version is 0; expected 1 or more"),
    (broker_registration.decode, b'{"version":5}', "/z: field endpoints is missing; expected a list of strings"),
    (controller.decode, b'{"brokerid":null}', "/z: field brokerid is null; expected a whole number of 32 bits"),
    (controller.decode_epoch, b"x", '/z: contains "x"; expected a decimal number of 32 bits'),
    (admin.decode_reassignment, b'{"partitions":[7]}', "/z: field partitions[0] is 7; expected a JSON object"),
    (
        admin.decode_reassignment,
        b'{"partitions":[{"topic":"t","partition":0}]}',
        "/z: field partitions[0].replicas is missing; expected a list of whole numbers of 32 bits",
    ),
    (admin.decode_reassignment, b'{"partitions":[],"x":1}', "/z: field x is 1; expected only partitions, version"),
    (
        partial(config.decode, reading=kafka_version("1.0").reading),
        b'{"version":2,"config":{}}',
        "/z: field version is 2; expected 1",
    ),
    (config.decode, b'{"version":1,"config":{"a":1}}', '/z: field config is {"a": 1}; expected an object of strings'),
]


@pytest.mark.parametrize(("decode", "data", "complaint"), BAD)
def test_errors_name_path_field_and_accepted_values(
    decode: Callable[[str, bytes | None], object], data: bytes | None, complaint: str
) -> None:
    with pytest.raises(ZnodeError) as raised:
        decode("/z", data)
    assert str(raised.value).startswith(complaint)


EPOCHS = st.integers(0, 2**31 - 1)
ids = st.lists(st.integers(0, 2**20), min_size=1, max_size=6, unique=True).map(tuple)


@given(st.builds(LeaderAndIsr, st.integers(-1, 9), EPOCHS, ids, EPOCHS, st.just(0), st.booleans()))
def test_states_round_trip(state: LeaderAndIsr) -> None:
    assert partition_state.decode("/s", partition_state.encode(state)) == state


@given(
    st.dictionaries(st.integers(0, 40), ids.map(ReplicaAssignment), max_size=30),
    st.none() | st.integers(0, 2**128 - 1).map(uuid_text),
)
def test_topics_round_trip(partitions: dict[int, ReplicaAssignment], topic_id: str | None) -> None:
    written = topic.TopicZnode(partitions, topic_id)
    assert topic.decode("/t", topic.encode_v3(written)) == written


@given(st.dictionaries(st.builds(TopicPartition, st.text("ab"), st.integers(0, 5)), ids, max_size=5))
def test_reassignments_round_trip(targets: dict[TopicPartition, tuple[int, ...]]) -> None:
    assert admin.decode_reassignment("/r", admin.encode_reassignment(targets)) == targets


@given(st.binary(max_size=60))
def test_readers_raise_only_znode_errors(data: bytes) -> None:
    for decode in (partition_state.decode, topic.decode, broker_registration.decode, controller.decode):
        with suppress(ZnodeError):
            decode("/z", data)
