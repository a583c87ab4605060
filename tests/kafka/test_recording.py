"""Recorded trees are read, and every difference from a tree is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ZnodeError
from simzk.kafka.observation import recording
from simzk.zookeeper.replies import Stat
from simzk.zookeeper.tree import DataTree

if TYPE_CHECKING:
    from simzk.kafka.observation.recording import RecordedZnode

PATH = Path(__file__).parents[2] / "scenarios" / "layouts" / "kafka-3.9.1" / "dumps.json"
STATE = "/brokers/topics/t1/partitions/0/state"
STATE_TEXT = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'
STATE_TURNED = '{"controller_epoch":1,"leader":1,"version":1,"isr":[1,2,3],"leader_epoch":0}'
START, LAST = "ca-topic-config-delete", "n-sigterm-noncontroller-broker3"


@pytest.fixture(scope="module")
def recorded() -> recording.Recording:
    return recording.load(PATH)


def tree_of(znodes: dict[str, RecordedZnode]) -> DataTree:
    """Return a tree with exactly the recorded znodes."""
    tree = DataTree()
    for path, znode in znodes.items():
        data = None if znode.data is None else znode.data.encode()
        owner = 7 if znode.ephemeral else 0
        numbers = (znode.version, znode.cversion, znode.aversion, owner, znode.data_length, znode.children)
        tree.restore(path, data, Stat(1, 1, 0, 0, *numbers, 1))
    return tree


def test_steps_and_trees_are_those_of_the_file(recorded: recording.Recording) -> None:
    document = json.loads(PATH.read_text())
    assert recorded.steps == tuple(entry["step"] for entry in document)
    present: dict[str, object] = {}
    for entry in document:
        present |= entry.get("tree", entry.get("changed"))
        for path in entry.get("removed", []):
            del present[path]
        tree = recorded.tree(entry["step"])
        assert {path: znode.data for path, znode in tree.items()} == {p: z["data"] for p, z in present.items()}  # type: ignore[index]


def test_a_summary_says_what_there_is(recorded: recording.Recording) -> None:
    summary = recorded.summary(START)
    assert summary.brokers == (1, 2, 3)
    assert summary.racks == {1: "rack1", 2: "rack2", 3: "rack3"}
    assert summary.topics == {"t1": 3, "t2": 4}
    assert recorded.summary(LAST).brokers == (1, 2)


@pytest.mark.parametrize("step", [START, "d-kill9-controller-broker1", "k-delete-t2"])
def test_a_tree_equals_itself(recorded: recording.Recording, step: str) -> None:
    assert recording.differences(tree_of(recorded.tree(step)), recorded.tree(step)) == []


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        (STATE, {"version": 9}, f"{STATE}: version is 0, recorded was 9"),
        ("/brokers/topics", {"cversion": 9}, "/brokers/topics: cversion is 2, recorded was 9"),
        ("/config", {"aversion": 9}, "/config: aversion is 0, recorded was 9"),
        ("/brokers/topics/t1", {"data_length": 9}, "/brokers/topics/t1: data_length is 144, recorded was 9"),
        ("/brokers/ids/1", {"ephemeral": False}, "/brokers/ids/1: ephemeral is True, recorded was False"),
        ("/config/changes", {"children": 9}, "/config/changes: children is 10, recorded was 9"),
        ("/controller_epoch", {"data": "2"}, "/controller_epoch: data is '1', recorded was '2'"),
        ("/brokers/ids", {"data": ""}, "/brokers/ids: data is None, recorded was ''"),
        (
            STATE,
            {"data": '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2,3]}'},
            f"{STATE}: leader_epoch is 0, recorded was 7",
        ),
        (
            STATE,
            {"data": STATE_TURNED},
            f"{STATE}: data is {STATE_TEXT!r}, recorded was {STATE_TURNED!r}",
        ),
    ],
)
def test_each_field_that_differs_is_named(
    recorded: recording.Recording, path: str, change: dict[str, object], said: str
) -> None:
    theirs = recorded.tree(START)
    tree = tree_of(theirs)
    theirs[path] = theirs[path]._replace(**change)  # type: ignore[arg-type]
    assert [str(difference) for difference in recording.differences(tree, theirs)] == [said]


def test_a_znode_too_many_and_one_too_few_are_named(recorded: recording.Recording) -> None:
    theirs = recorded.tree(START)
    tree = tree_of(theirs)
    theirs["/new"] = theirs[STATE]
    del theirs["/feature"]
    assert [
        (found.path, found.field, found.recorded, found.simulated) for found in recording.differences(tree, theirs)
    ] == [
        ("/feature", "exists", "no", "yes"),
        ("/new", "exists", "yes", "no"),
    ]


def test_a_timestamp_may_differ_and_what_stands_beside_it_may_not(recorded: recording.Recording) -> None:
    theirs = recorded.tree(START)
    tree = tree_of(theirs)
    for path, change in (("/controller", ("brokerid", 2)), ("/brokers/ids/1", ("rack", "elsewhere"))):
        fields = json.loads(theirs[path].data or "")
        fields["timestamp"] = "7"
        theirs[path] = theirs[path]._replace(data=json.dumps(fields, separators=(",", ":")), data_length=1)
        assert recording.differences(tree, theirs) == []
        fields[change[0]] = change[1]
        theirs[path] = theirs[path]._replace(data=json.dumps(fields, separators=(",", ":")))
        assert [found.field for found in recording.differences(tree, theirs)] == [change[0]]
        theirs = recorded.tree(START)


def test_no_exemption_is_without_a_reason_or_a_use(recorded: recording.Recording) -> None:
    every_path = {path for step in recorded.steps for path in recorded.tree(step)}
    for exemption in recording.EXEMPTIONS:
        assert exemption.why
        assert any(exemption.pattern.fullmatch(path) for path in every_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[7]", '[{"step": "a", "tree": {"/": {"data": "x"}}}]'])
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "dumps.json").write_text(text)
    with pytest.raises(ZnodeError, match="dumps"):
        recording.load(tmp_path / "dumps.json")
