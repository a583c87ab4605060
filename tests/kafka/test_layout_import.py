"""Layouts of a real cluster's znodes: every step of the recording, and outcomes of recorded failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simzk.errors import ConfigError, LayoutError, ZnodeError
from simzk.kafka.observation.recording import load
from simzk.kafka.releases.versions import VERSIONS
from simzk.kafka.zookeeper_mode.layout_import import layout_from_tree, layout_of_recording
from simzk.kafka.zookeeper_mode.tools.plan_documents import read_plan
from simzk.partitions.arrays import unpack
from simzk.partitions.failures.what_if import WhatIf
from simzk.partitions.layouts import Layout, read_layout, write_layout
from tests.partitions.layout_strategies import Row, rows_of

RECORDED = Path(__file__).parents[2] / "scenarios" / "layouts" / "kafka-3.9.1" / "dumps.json"
STEPS = load(RECORDED).steps

TREE = {
    "/brokers/ids/1": (
        b'{"jmx_port":-1,"timestamp":"0","endpoints":["PLAINTEXT://a:9092"],"host":"a","version":3,"port":9092,"rack":"east"}'
    ),
    "/brokers/topics/t": b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}',
    "/brokers/topics/t/partitions/0/state": (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}'
    ),
}


def test_a_tree_without_kafka_is_rejected() -> None:
    for znodes in ({}, {f"/kafka{path}": text for path, text in TREE.items()}):
        with pytest.raises(LayoutError, match=r"^there: has no topics and no brokers; expected the chroot"):
            layout_from_tree(znodes, where="there")
    with pytest.raises(LayoutError, match="step a0-empty: has no topics and no brokers"):
        layout_of_recording(RECORDED, "a0-empty")


@pytest.mark.parametrize("step", [step for step in STEPS if step != "a0-empty"])
def test_a_recorded_step_equals_its_parsed_znodes(step: str) -> None:
    """The reference parses the JSON of the znodes itself."""
    taken, layout = layout_of_recording(RECORDED, step)
    layout.check()
    assert taken == step
    texts = {path: node.data or "" for path, node in load(RECORDED).tree(step).items()}
    tree = {path: json.loads(text) for path, text in texts.items() if text.startswith("{")}
    expected = []
    for path in sorted(tree):
        if path.startswith("/brokers/topics/") and path.count("/") == 3:
            topic = path.rpartition("/")[2]
            for partition, replicas in sorted(tree[path]["partitions"].items(), key=lambda item: int(item[0])):
                state = tree[f"{path}/partitions/{partition}/state"]
                config = tree.get(f"/config/topics/{topic}", {"config": {}})["config"]
                expected.append(
                    Row(
                        topic,
                        int(partition),
                        replicas,
                        state["isr"],
                        state["leader"],
                        state["leader_epoch"],
                        int(config.get("min.insync.replicas", 1)),
                    )
                )
    assert rows_of(layout) == expected
    live = {int(path.rpartition("/")[2]): tree[path].get("rack") for path in tree if path.startswith("/brokers/ids/")}
    brokers = layout.brokers
    assert {
        int(id_): rack for id_, rack, up in zip(brokers.ids, brokers.racks, brokers.live, strict=True) if up
    } == live


@pytest.mark.parametrize(
    ("step", "broker"),
    [
        ("d-kill9-controller-broker1", 1),
        ("i-sigterm-controller-broker3", 3),
        ("j2-kill9-noncontroller-broker3", 3),
        ("n-sigterm-noncontroller-broker3", 3),
    ],
)
def test_outcomes_of_failures_equal_those_of_the_real_cluster(step: str, broker: int) -> None:
    _, before = layout_of_recording(RECORDED, STEPS[STEPS.index(step) - 1])
    after = rows_of(layout_of_recording(RECORDED, step)[1])
    outcome = WhatIf(before).fail([broker])
    led = {(row.topic, row.partition): row.leader for row in rows_of(before)}
    assert outcome.leaders_moved == sum(row.leader not in (-1, led[row.topic, row.partition]) for row in after)
    assert outcome.offline == sum(row.leader == -1 for row in after)
    assert outcome.under_replicated == sum(len(row.isr) < len(row.replicas) for row in after) > 0
    assert outcome.touched == sum(broker in row.replicas for row in after)
    leads = {id_: sum(row.leader == id_ for row in after) for id_ in (1, 2, 3)}
    assert outcome.busiest_leaders == max(leads.values()) == leads[outcome.busiest_broker]


def test_unregistered_brokers_are_dead_and_partitions_without_state_have_no_leader() -> None:
    layout = layout_from_tree(TREE, where="here")
    assert layout.brokers.ids.tolist() == [1, 2]
    assert layout.brokers.racks == ("east", None)
    assert layout.brokers.live.tolist() == [True, False]
    assert rows_of(layout) == [Row("t", 0, [1, 2], [1], 1, 3, 1), Row("t", 1, [2, 1], [], -1, 0, 1)]


def test_min_insync_replicas_is_the_topics_own() -> None:
    config = {"/config/topics/t": b'{"version":1,"config":{"min.insync.replicas":"2"}}'}
    assert layout_from_tree(TREE | config, where="here").min_insync_replicas.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("path", "data", "error", "message"),
    [
        ("/brokers/topics/t", b"{", ZnodeError, "/brokers/topics/t"),
        ("/brokers/topics/t/partitions/0/state", b"[]", ZnodeError, "/brokers/topics/t/partitions/0/state"),
        ("/brokers/ids/1", b"", ZnodeError, "/brokers/ids/1"),
        (
            "/config/topics/t",
            b'{"version":1,"config":{"min.insync.replicas":"two"}}',
            ZnodeError,
            "/config/topics/t: min.insync.replicas: 'two' is not a number of replicas",
        ),
        (
            "/brokers/topics/t",
            b'{"version":1,"partitions":{"0":[1,1]}}',
            LayoutError,
            "here: 1 invalid partition:\n  row 0 (t-0): duplicate replicas [1, 1]",
        ),
        (
            "/brokers/topics/t",
            b'{"version":1,"partitions":{"0":[1,99999999999]}}',
            ZnodeError,
            'topics/t: field partitions.0 is {"0": [1, 99999999999]}; expected a list of whole numbers of 32 bits',
        ),
        (
            "/brokers/topics/t",
            b'{"version":1,"partitions":{"0":[-1,1]}}',
            ZnodeError,
            "topics/t: field partitions.0 is",
        ),
        (
            "/brokers/topics/t/partitions/0/state",
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1,-1]}',
            ZnodeError,
            "partitions/0/state: field isr is [1, -1]; expected broker ids",
        ),
        (
            "/brokers/topics/t/partitions/0/state",
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":30000000000,"isr":[1]}',
            ZnodeError,
            "partitions/0/state: field leader_epoch is 30000000000; expected a whole number of 32 bits",
        ),
        ("/brokers/ids/x", TREE["/brokers/ids/1"], ZnodeError, "/brokers/ids/x: x is not a broker id"),
        ("/brokers/ids/2147483648", TREE["/brokers/ids/1"], ZnodeError, "2147483648 is not a broker id; expected 0 to"),
        (
            "/brokers/topics/t/partitions/0/state",
            b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":3,"isr":[1]}',
            LayoutError,
            "leader 2 is neither -1 (none) nor in ISR [1]",
        ),
    ],
)
def test_invalid_znodes_are_rejected(path: str, data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        layout_from_tree(TREE | {path: data}, where="here")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/topics/t", b""),
        ("/brokers/topics/t", b"null"),
        ("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1,1]}}'),
        ("/brokers/topics/t/partitions/0/state", b""),
        (
            "/brokers/topics/t/partitions/0/state",
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":3,"isr":[1,3]}',
        ),
        ("/config/topics/t", b'{"version":1,"config":{"min.insync.replicas":"two"}}'),
    ],
)
def test_an_invalid_topic_is_left_out_on_request_and_the_others_stay(path: str, data: bytes) -> None:
    good = {
        "/brokers/topics/a": TREE["/brokers/topics/t"],
        "/brokers/topics/a/partitions/0/state": TREE["/brokers/topics/t/partitions/0/state"],
    }
    left_out: list[str] = []
    layout = layout_from_tree(TREE | good | {path: data}, where="here", leave_out=left_out.append)
    assert layout.topics == ("a",)
    assert layout.partition.tolist() == [0, 1]
    assert [reason.split(":")[0] for reason in left_out] == ["topic t"]


def test_an_invalid_registration_is_left_out_on_request() -> None:
    left_out: list[str] = []
    layout = layout_from_tree(TREE | {"/brokers/ids/x": b"{}"}, where="here", leave_out=left_out.append)
    assert layout.brokers.live.tolist() == layout_from_tree(TREE, where="here").brokers.live.tolist()
    assert left_out == ["/brokers/ids/x: x is not a broker id; expected 0 to 2147483647"]


LARGE, LARGER = 102_030_040, 2**31 - 1
"""Ids that are made from addresses, and the largest that Kafka accepts."""


def layout_with_large_ids() -> Layout:
    topic = b'{"version":2,"partitions":{"0":[%d,7]},"adding_replicas":{"0":[%d]},"removing_replicas":{}}'
    state = b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":3,"isr":[%d,7]}'
    return layout_from_tree(
        {
            f"/brokers/ids/{LARGE}": TREE["/brokers/ids/1"],
            f"/brokers/ids/{LARGER}": TREE["/brokers/ids/1"],
            "/brokers/topics/t": topic % (LARGE, LARGE),
            "/brokers/topics/t/partitions/0/state": state % (LARGE, LARGE),
        },
        where="here",
    )


def test_large_ids_of_brokers_become_numbers_and_stay_known() -> None:
    layout = layout_with_large_ids()
    brokers = layout.brokers
    assert brokers.cluster_ids is not None
    assert (brokers.ids.tolist(), brokers.cluster_ids.tolist()) == ([0, 1, 2], [7, LARGE, LARGER])
    assert brokers.live.tolist() == [False, True, True]
    assert (layout.replicas.tolist(), layout.isr.tolist(), layout.leader.tolist()) == ([[1, 0]], [[1, 0]], [1])
    assert layout.adding.tolist() == [[1]]
    assert layout_from_tree(TREE, where="here").brokers.cluster_ids is None


@pytest.mark.parametrize("form", [".json", ".parquet", ".arrow"])
def test_a_layout_file_has_the_ids_in_the_cluster(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"layout{form}"
    write_layout(layout_with_large_ids(), path)
    ids = read_layout(path).brokers.cluster_ids
    assert ids is not None
    assert ids.tolist() == [7, LARGE, LARGER]


def test_a_plan_names_brokers_by_their_ids_in_the_cluster() -> None:
    layout = layout_with_large_ids()
    plan = '{"partitions":[{"topic":"t","partition":0,"replicas":[%d,%d]}]}'
    assert read_plan(layout, plan % (LARGER, LARGE), VERSIONS["3.9"]).replicas.tolist() == [[2, 1]]
    with pytest.raises(ConfigError, match="Unknown broker id 1"):
        read_plan(layout, plan % (LARGER, 1), VERSIONS["3.9"])


def test_invalid_znodes_are_counted_and_the_first_ten_named() -> None:
    states = {f"/brokers/topics/t/partitions/{number}/state": b"{" for number in range(12)}
    partitions = b",".join(b'"%d":[1]' % number for number in range(12))
    topic = {"/brokers/topics/t": b'{"version":1,"partitions":{%b}}' % partitions}
    with pytest.raises(ZnodeError) as caught:
        layout_from_tree(TREE | topic | states | {"/brokers/ids/x": b""}, where="here")
    first, *named, last = str(caught.value).split("\n  ")
    assert first == "here: 13 znodes are invalid:"
    places = [f"/brokers/topics/t/partitions/{number}/state: contains b'{{', which is no JSON" for number in range(10)]
    assert len(named) == 10
    assert all(line.startswith(place) for line, place in zip(named, places, strict=True))
    assert last == "and 3 more"


def test_reassignments_are_read_from_topic_znodes() -> None:
    """As 2.4 and later write it (KIP-455); partitions that the topic does not have are ignored."""
    moves = b'"adding_replicas":{"0":[3],"9":[1]},"removing_replicas":{"0":[1]}'
    text = b'{"version":2,"partitions":{"0":[3,1],"1":[2,1]},%b}' % moves
    layout = layout_from_tree({**TREE, "/brokers/topics/t": text}, where="here")
    assert unpack(layout.adding) == [(3,), ()]
    assert unpack(layout.removing) == [(1,), ()]
    assert layout.brokers.live.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}',
            "requests the move of 1 partition:",
        ),
        (b'{"version":1,"partitions":[]}', "requests the move of 0 partitions:"),
        (b"{not json", "cannot be parsed:"),
    ],
)
def test_a_reassignment_outside_topic_znodes_is_noted(data: bytes, message: str) -> None:
    said: list[str] = []
    layout = layout_from_tree({**TREE, "/admin/reassign_partitions": data}, where="here", note=said.append)
    assert len(layout.reassigning) == 0
    (line,) = said
    assert line.startswith(f"/admin/reassign_partitions {message} a layout contains only reassignments in topic znodes")
