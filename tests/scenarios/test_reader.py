"""Scenario files: parsed steps, and the error for each mistake: file, line, key, what is accepted."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest

from simzk.errors import ScenarioError, SeveralMistakesError
from simzk.scenarios.actions import ACTIONS, KillStep
from simzk.scenarios.expectations import EXPECTATIONS, ExpectPartition
from simzk.scenarios.player import Play
from simzk.scenarios.reader import read_scenario, read_scenarios

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "scenarios").glob("*.toml"))
RECORDING = ROOT / "scenarios" / "layouts" / "kafka-3.9.1" / "dumps.json"

GOOD = """\
title = "A broker fails"
why = "Because."

[cluster]
brokers = 3

[[step]]
at = "5s"
action = "create_topic"
topic = "orders"
partitions = 2
replication_factor = 3

[[step]]
after = "1s"
action = "kill"
broker = 2

[[step]]
within = "30s"
expect = "partition"
topic = "orders"
partition = 1
leader = 3
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    return path


def error_of(folder: Path, text: str) -> str:
    """Return the error for an invalid file, without its folder."""
    with pytest.raises(ScenarioError) as caught:
        read_scenario(write(folder, text))
    return str(caught.value).replace(f"{folder}/", "")


MANY = """\
title = 3
wyh = "Because."
seed = "one"

[cluster]
brokers = 3
log_dirs = "two"

[cluster.config]
retention = [1]

[[step]]
at = "5 minutes"
action = "create_topic"
topic = "orders"
partitions = 2
replication_factor = 4

[[step]]
action = "kill"
broker = 2

[[step]]
action = "kill"
brokr = 9
within = "5s"

[[step]]
expect = "partition"
within = "soon"
topic = "orders"
partition = 7
leader = 9

[[step]]
expect = "controllr"

[faults]
safety = "long"
liveness = "1m"
"""


def test_all_mistakes_of_a_file_are_reported_at_once(tmp_path: Path) -> None:
    first, *lines = error_of(tmp_path, MANY).splitlines()
    assert first == f"{len(lines)} mistakes:"
    durations = "a duration such as 250ms, 12s, 1.5s, 2m or 1h30m"
    assert [line.removeprefix("  scenario.toml:") for line in lines] == [
        "1: title: the value is a whole number; expected text in quotes",
        "2: wyh: unknown key; expected why",
        "3: seed: the value is text in quotes; expected a whole number",
        "7: log_dirs: the value is text in quotes; expected a whole number",
        "9: config: the value is a list; expected true or false or a whole number or text in quotes",
        f"13: at: '5 minutes' is not a duration; expected {durations}",
        "17: replication_factor: 4 replicas on 3 brokers; expected at most 3",
        "25: brokr: unknown key; expected broker",
        "26: within: unknown key; expected one of action, after, at, broker, next_controller",
        f"30: within: 'soon' is not a duration; expected {durations}",
        "33: leader: broker 9 does not exist; expected one of 1, 2, 3",
        "36: expect: unknown expect 'controllr'; expected controller",
        f"39: safety: 'long' is not a duration; expected {durations}",
    ]


SEVERAL_IN_ONE_TABLE = [
    (
        'action = "reassign"\nreplicas = { "orders-7" = [8, 8], "orders" = [1] }\nat = "1x"',
        [
            "at: '1x'",
            "replicas: orders has no partition 7",
            "replicas: [8, 8] names a broker twice",
            "replicas: broker 8 does not exist",
            "replicas: 'orders' is not the name",
        ],
    ),
    (
        'expect = "partition"\ntopic = "ordres"\npartition = 1\nisr = [8, 9]\nleader = 7\nwithin = "soon"',
        ["topic: topic ordres", "isr: broker 8", "isr: broker 9", "leader: broker 7", "within: 'soon'"],
    ),
    # Keys of a wrong type or name hide nothing of the others, and cause no mistake that follows from them.
    (
        'expect = "partition"\ntopic = "orders"\npartition = 9\nleader = "one"\nwithin = "soon"\nx = 1',
        ["partition: orders has no partition 9", "leader: the value is", "within: 'soon'", "x: unknown key"],
    ),
    ('expect = "partition"\ntopic = "orders"\npartition = 1\nleader = "one"', ["leader: the value is"]),
    ('action = "kil"\nat = "soon"', ["action: unknown action", "at: 'soon'"]),
    (
        'action = "kill"\nbroker = 9\nnext_controller = 8\nat = "1s"\nafter = "x"',
        ["broker: ", "next_controller: ", "after: a step has either", "after: 'x'"],
    ),
    ('action = "restart"\nbroker = 9', ["broker: broker 9 does not exist"]),
    ('action = "fail_log_dir"\nbroker = 9', ["broker: broker 9", "step: a step names one log directory"]),
    (
        'action = "create_topic"\ntopic = "a/b"\nassignment = [[9], []]\npartitions = 2',
        [
            "topic: 'a/b'",
            "assignment: broker 9",
            "assignment: a partition without",
            "assignment: partitions of one topic",
            "assignment: the assignment already gives",
        ],
    ),
    ('expect = "leaders"\nleaders = { one = 1, 8 = 2 }', ["leaders: 'one' is not a broker id"]),
    (
        'expect = "recorded"\nstep = "a"\nbug = "shwn"',
        ["step: the cluster does not start", "bug: unknown outcome", "bug: the bug is not described"],
    ),
]


@pytest.mark.parametrize(("step", "starts"), SEVERAL_IN_ONE_TABLE)
def test_all_mistakes_of_a_step_are_reported_at_once(tmp_path: Path, step: str, starts: list[str]) -> None:
    lines = error_of(tmp_path, f"{GOOD}\n[[step]]\n{step}\n").splitlines()
    found = [line.split(":", 2)[2].strip() for line in (lines[1:] or lines)]
    for start in starts:
        assert any(line.startswith(start) for line in found), (start, found)
    assert len(found) == len(starts), found


def test_all_mistakes_of_the_cluster_and_of_the_bug_are_reported_at_once(tmp_path: Path) -> None:
    keys = (
        'brokers = [1, 2]\ncontroller = 7\nstep = "x"\nracks = { 1 = "a", 9 = "b" }\nversion = { 1 = "3.9", 2 = "0.1" }'
    )
    bug = '[bug]\nid = "KAFKA-1"\nshown_in = ["0.1", "9.9"]\nmended_in = ["7"]\n\n'
    text = GOOD.replace("brokers = 3", keys).replace("[[step]]", f"{bug}[[step]]", 1)
    found = [line.split(":", 2)[2].strip() for line in error_of(tmp_path, text).splitlines()[1:]]
    for key, count in {
        "controller": 1,
        "step": 1,
        "racks": 2,
        "version": 2,
        "bug": 1,
        "shown_in": 2,
        "mended_in": 1,
    }.items():
        assert sum(line.startswith(f"{key}: ") for line in found) == count, (key, found)
    assert len(found) == 10, found


def test_a_wrong_key_of_the_cluster_leaves_the_steps_comparable(tmp_path: Path) -> None:
    text = GOOD.replace("brokers = 3", 'brokers = 3\nlog_dirs = "two"').replace("broker = 2", "broker = 9")
    assert [line.split(":")[1] for line in error_of(tmp_path, text).splitlines()[1:]] == ["6", "18"]


def test_missing_expectations_are_reported_with_other_mistakes(tmp_path: Path) -> None:
    error = error_of(tmp_path, GOOD[: GOOD.index("[[step]]\nwithin")].replace("broker = 2", "broker = 9"))
    assert "broker 9 does not exist" in error
    assert "the scenario has no expectation and cannot fail" in error


def test_a_step_is_compared_with_those_above_it_up_to_the_first_wrong_action(tmp_path: Path) -> None:
    twice = GOOD.replace("partition = 1", "partition = 7").replace("broker = 2", "broker = 9")
    # Whether partition 7 exists depends on the steps, of which one is wrong; broker 9 never exists.
    more = '\n[[step]]\naction = "restart"\nbroker = 8\n\n[[step]]\naction = "restart"\nbroker = 2\n'
    assert error_of(tmp_path, twice + more).splitlines() == [
        "2 mistakes:",
        "  scenario.toml:17: broker: broker 9 does not exist; expected one of 1, 2, 3",
        "  scenario.toml:28: broker: broker 8 does not exist; expected one of 1, 2, 3",
    ]
    assert error_of(tmp_path, GOOD.replace("partition = 1", "partition = 7")).startswith(
        "scenario.toml:23: partition: "
    )


def test_the_mistakes_of_all_files_are_reported(tmp_path: Path) -> None:
    paths = []
    for name, bad in (("a", "x = 1\n"), ("b", ""), ("c", "y = 1\nz = 1\n")):
        paths.append(tmp_path / f"{name}.toml")
        paths[-1].write_text(bad + GOOD)
    with pytest.raises(SeveralMistakesError) as caught:
        read_scenarios(paths)
    assert [Path(error.where).name for error in caught.value.errors] == ["a.toml:1: x", "c.toml:1: y", "c.toml:2: z"]
    again = pickle.loads(pickle.dumps(caught.value))  # Spark and worker processes send it
    assert str(again) == str(caught.value)


def test_steps_have_their_times_and_lines(tmp_path: Path) -> None:
    scenario = read_scenario(write(tmp_path, GOOD))
    assert scenario.brokers == (1, 2, 3)
    create, kill, expect = scenario.steps
    assert (create.at_us, create.line) == (5_000_000, 7)
    assert isinstance(kill.step, KillStep)
    assert (kill.at_us, kill.after_us) == (None, 1_000_000)
    assert isinstance(expect.step, ExpectPartition)
    assert expect.within_us == 30_000_000


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_file_is_valid(path: Path) -> None:
    assert read_scenario(path).title


def test_shipped_files_use_every_action_and_expectation() -> None:
    """Shipped scenarios are tests: an action that none uses is not tested."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SHIPPED)
    unused = [word for word in (*ACTIONS, *EXPECTATIONS) if f' = "{word}"' not in text]
    assert unused == []


BAD = [
    ("brokers = 3", "brokrs = 3", "scenario.toml:5: brokrs: unknown key; expected brokers"),
    (
        "brokers = 3",
        'brokers = "3"',
        "scenario.toml:5: brokers: the value is text in quotes; expected a whole number or a list",
    ),
    ("brokers = 3", "brokers = 0", "scenario.toml:5: brokers: expected `int` >= 1"),
    ("brokers = 3", "brokers = [1, 2, 1]", "scenario.toml:5: brokers: [1, 2, 1] is empty or names a broker twice"),
    (
        "brokers = 3",
        'brokers = 3\nracks = { 1 = "a", 2 = "a", 3 = "b", 4 = "a" }',
        "scenario.toml:6: racks: broker 4 does not exist",
    ),
    ("brokers = 3", 'brokers = 3\nracks = { 1 = "a" }', "scenario.toml:6: racks: brokers 2, 3 have no rack"),
    ("brokers = 3", 'brokers = 3\nracks = { a = "a" }', "scenario.toml:6: racks: 'a' is not a broker id"),
    (
        "brokers = 3",
        'brokers = 3\nstep = "a"',
        "scenario.toml:6: step: step is given without a recording; expected from beside it",
    ),
    ("brokers = 3", "", "scenario.toml:4: cluster: the key brokers is missing"),
    ('title = "A broker fails"', "", "scenario.toml:1: the key title is missing"),
    ('title = "A broker fails"', "titel = 3", "scenario.toml:1: titel: unknown key; expected title"),
    ("broker = 2", "broker = 9", "scenario.toml:17: broker: broker 9 does not exist; expected one of 1, 2, 3"),
    ("broker = 2", "broker = true", "scenario.toml:17: broker: the value is true or false; expected a whole number"),
    ("broker = 2", "", "scenario.toml:14: step: the key broker is missing"),
    ('"kill"', '"kil"', "scenario.toml:16: action: unknown action 'kil'; expected kill"),
    ('"partition"', '"partitions"', "scenario.toml:21: expect: unknown expect 'partitions'; expected partition"),
    ('action = "kill"\n', "", "scenario.toml:14: step: a step has either an action or an expectation"),
    (
        'after = "1s"',
        'after = "1 second"',
        "scenario.toml:15: after: '1 second' is not a duration; expected a duration such as 250ms",
    ),
    (
        'after = "1s"',
        'at = "1s"',
        "scenario.toml:15: at: time goes backwards: 1s is before the step above it, which ends at",
    ),
    (
        'after = "1s"',
        'at = "9s"\nafter = "1s"',
        "scenario.toml:16: after: a step has either at or after; expected one of them",
    ),
    ("partition = 1", "partition = 2", "scenario.toml:23: partition: orders has no partition 2; expected 0 .. 1"),
    ("leader = 3", "leader = 4", "scenario.toml:24: leader: broker 4 does not exist"),
    ("leader = 3", "", "scenario.toml:19: step: nothing is expected of the partition"),
    ("leader = 3", "isr = [1, 7]", "scenario.toml:24: isr: broker 7 does not exist"),
    ("leader = 3", 'isr = [1, "2"]', "scenario.toml:24: isr: the value is text in quotes; expected a whole number"),
    (
        'topic = "orders"\npartition = 1',
        'topic = "order"\npartition = 1',
        "scenario.toml:22: topic: topic order does not exist at this step",
    ),
    (
        "replication_factor = 3",
        "replication_factor = 4",
        "scenario.toml:12: replication_factor: 4 replicas on 3 brokers",
    ),
    (
        "replication_factor = 3",
        "",
        "scenario.toml:7: step: the number of partitions or replicas is missing; expected partitions",
    ),
    (
        'topic = "orders"\npartitions',
        'topic = "a/b"\npartitions',
        "scenario.toml:10: topic: 'a/b' is not a valid topic name",
    ),
    ("broker = 2", "broker = = 2", "scenario.toml:17: invalid TOML: Invalid value (column 10)"),
    ("leader = 3", 'leader = "', "scenario.toml:24: invalid TOML: "),
]


@pytest.mark.parametrize(
    ("good", "bad", "message"), BAD, ids=[message.partition(": ")[2][:50] for _, _, message in BAD]
)
def test_error_names_line_and_key(tmp_path: Path, good: str, bad: str, message: str) -> None:
    assert good in GOOD
    assert error_of(tmp_path, GOOD.replace(good, bad, 1)).startswith(message)


IMPOSSIBLE_STEPS = [
    ('action = "restart"\nbroker = 1', "broker: broker 1 is running; expected a broker that is down"),
    ('action = "kill"\nbroker = 2', "broker: broker 2 is down at this step; expected a broker that is running"),
    ('action = "delete_topic"\ntopic = "ordres"', "topic: topic ordres does not exist at this step; expected orders"),
    ('action = "create_topic"\ntopic = "orders"\nassignment = [[1]]', "topic: topic orders already exists"),
    ('action = "create_topic"\ntopic = "b"\nassignment = [[1, 1]]', "assignment: [1, 1] names a broker twice"),
    ('action = "create_topic"\ntopic = "b"\nassignment = [[1], [1, 2]]', "assignment: partitions of one topic have"),
    ('action = "create_topic"\ntopic = "b"\nassignment = [[]]', "assignment: a partition without replicas"),
    (
        'action = "create_topic"\ntopic = "b"\nassignment = [[1]]\npartitions = 1',
        "assignment: the assignment already gives",
    ),
    ('action = "add_partitions"\ntopic = "orders"\ntotal = 2', "total: orders has 2 partitions; expected more than 2"),
    (
        'action = "add_partitions"\ntopic = "orders"\ntotal = 4\nassignment = [[1, 2, 3]]',
        "assignment: 1 lists for 2 partitions; expected 2",
    ),
    ('action = "reassign"\nreplicas = { "orders-2" = [1] }', "replicas: orders has no partition 2; expected 0 .. 1"),
    (
        'action = "reassign"\nreplicas = { "orders" = [1] }',
        "replicas: 'orders' is not the name of a partition; expected a topic,",
    ),
    ('action = "reassign"\nreplicas = { "orders-0" = [8] }', "replicas: broker 8 does not exist"),
    ('action = "elect"\nkind = "clean"', "kind: unknown kind of election 'clean'; expected preferred or unclean"),
    (
        'action = "cut"\nbroker = 1\npeer = "zoo"',
        "peer: broker zoo does not exist; expected one of 1, 2, 3 or zookeeper",
    ),
    ('action = "write_znode"\npath = "/a//b"\ndata = ""', "path: ZooKeeper rejects the path '/a//b'"),
    ('action = "write_znode"\npath = "a"\ndata = ""', "path: ZooKeeper rejects the path 'a'"),
    ('action = "write_znode"\npath = "/a/../b"\ndata = ""', "path: ZooKeeper rejects the path '/a/../b'"),
    ('expect = "controller"', "step: nothing is expected of the controller"),
    (
        'expect = "metadata"\nbroker = 1',
        "step: nothing is expected; expected live, controller, or a topic and partition",
    ),
    ('expect = "metadata"\nbroker = 1\nleader = 2', "step: the partition is not named; expected topic and partition"),
    (
        'expect = "metadata"\nbroker = 1\ntopic = "orders"',
        "step: the partition is not named; expected topic and partition",
    ),
    ('expect = "metadata"\nbroker = 9\nlive = [1]', "broker: broker 9 does not exist"),
    ('expect = "metadata"\nbroker = 1\nlive = [9]', "live: broker 9 does not exist"),
    (
        'expect = "metadata"\nbroker = 1\ntopic = "orders"\npartition = 0\nknown = false\nleader = 1',
        "known: no state can be expected of a partition that is not in the cache",
    ),
    (
        'expect = "log"\ntopic = "orders"\npartition = 0',
        "step: nothing is expected; expected log_end, high_watermark, matches or differs_from",
    ),
    (
        'expect = "log"\ntopic = "orders"\npartition = 0\nmatches = 9',
        "matches: broker 9 does not exist",
    ),
    ('expect = "log"\ntopic = "orders"\npartition = 7\nlog_end = 1', "partition: orders-7 does not exist at this step"),
    (
        'expect = "produced"\ntopic = "orders"\npartition = 0',
        "step: nothing is expected; expected acknowledged or last",
    ),
    (
        'expect = "produced"\ntopic = "orders"\npartition = 0\nlast = "NOT_ENOUGH_REPLICA"',
        "last: unknown error code 'NOT_ENOUGH_REPLICA'; expected NOT_ENOUGH_REPLICAS",
    ),
    ('action = "produce"\ntopic = "orders"\npartition = 0\nacks = "most"', "acks: "),
    ('action = "produce"\ntopic = "orders"\npartition = 0\ntimeout = "0s"', "timeout: '0s' is not a positive duration"),
    ('expect = "recorded"\nstep = "a"', "step: the cluster does not start from a recording"),
    ('action = "kill"\nbroker = 1\nnext_controller = 5', "next_controller: broker 5 does not exist"),
    (
        'at = "20s"\naction = "wait"\nfor = "1s"',
        "at: time goes backwards: 20s is before the step above it, which ends at 36s",
    ),
]


@pytest.mark.parametrize(("step", "message"), IMPOSSIBLE_STEPS, ids=[message[:45] for _, message in IMPOSSIBLE_STEPS])
def test_error_names_impossible_step(tmp_path: Path, step: str, message: str) -> None:
    error = error_of(tmp_path, f"{GOOD}\n[[step]]\n{step}\n")
    assert message in error
    line = int(error.split(":")[1])
    assert 26 <= line <= 34


def test_a_file_without_expectations_is_rejected(tmp_path: Path) -> None:
    error = error_of(tmp_path, GOOD[: GOOD.index("[[step]]\nwithin")])
    assert "the scenario has no expectation and cannot fail" in error


def test_error_names_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot read the file: No such file"):
        read_scenario(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="the file is not text"):
        read_scenario(tmp_path / "binary.toml")


RECORDED = """\
title = "Recorded"
why = "Because."

[cluster]
from = "dumps.json"
step = "ca-topic-config-delete"

[[step]]
expect = "recorded"
step = "ca-topic-config-delete"
"""


def test_a_recording_defines_the_cluster(tmp_path: Path) -> None:
    shutil.copy(RECORDING, tmp_path)
    scenario = read_scenario(write(tmp_path, RECORDED))
    assert scenario.brokers == (1, 2, 3)
    assert scenario.racks == {1: "rack1", 2: "rack2", 3: "rack3"}
    error = error_of(tmp_path, RECORDED + '[[step]]\naction = "delete_topic"\ntopic = "t3"\n')
    assert error.startswith("scenario.toml:13: topic: topic t3 does not exist at this step; expected ")


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (
            'step = "ca-topic-config-delete"\n\n',
            'step = "ca-topic"\n\n',
            "scenario.toml:6: step: the recording has no step 'ca-topic'",
        ),
        ('from = "dumps.json"', 'from = "none.json"', "scenario.toml:5: from: cannot read none.json: No such file"),
        (
            'from = "dumps.json"',
            'from = "dumps.json"\nbrokers = 3',
            "scenario.toml:6: brokers: the recording already defines brokers",
        ),
    ],
)
def test_error_names_mismatch_with_the_recording(tmp_path: Path, good: str, bad: str, message: str) -> None:
    shutil.copy(RECORDING, tmp_path)
    assert error_of(tmp_path, RECORDED.replace(good, bad, 1)).startswith(message)


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        (
            "/brokers/topics/t1/partitions/0/state",
            "{",
            "/brokers/topics/t1/partitions/0/state: contains b'{', which is no JSON",
        ),
        ("/brokers/topics/t1", None, "/brokers/topics/t1: has no data; expected JSON"),
        ("/brokers/ids/2", "[]", "/brokers/ids/2: contains []; expected a JSON object"),
        ("/brokers/topics/t2/partitions/0/state", '{"leader":1}', "partitions/0/state: field "),
    ],
)
def test_error_names_invalid_znode_of_a_recording(tmp_path: Path, path: str, data: str | None, message: str) -> None:
    document = json.loads(RECORDING.read_text())
    for step in document:
        znode = step.get("tree", step.get("changed")).get(path)
        if znode is not None:
            znode["data"] = data
    (tmp_path / "dumps.json").write_text(json.dumps(document))
    error = error_of(tmp_path, RECORDED)
    assert error.startswith("scenario.toml:5: from: ")
    assert message in error


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[1]", '[{"step": "a"}]', '[{"step": "a", "tree": {"/": {"data": 1}}}]']
)
def test_error_names_file_that_is_not_a_recording(tmp_path: Path, text: str) -> None:
    (tmp_path / "dumps.json").write_text(text)
    assert error_of(tmp_path, RECORDED).startswith("scenario.toml:5: from: dumps.json")


def test_documentation_lists_every_step_and_key() -> None:
    page = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    everywhere = {"at", "after", "action", "expect", "within", "name", "bug"}
    for word, table in {**ACTIONS, **EXPECTATIONS}.items():
        for key in {*table.__struct_encode_fields__} - everywhere:
            assert f"`{key}`" in rows[word] or f"`{key} = " in rows[word], f"{key} of {word}"
    assert set(rows) == {*ACTIONS, *EXPECTATIONS}


def test_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    example = page.split("```toml\n")[1].split("```")[0]
    assert len(read_scenario(write(tmp_path, example)).steps) == 3


def test_a_cluster_with_chroot_and_acls_is_played(tmp_path: Path) -> None:
    text = GOOD.replace("brokers = 3\n", 'brokers = 3\nzookeeper_set_acl = true\nzookeeper_chroot = "/kafka"\n')
    scenario = read_scenario(write(tmp_path, text))
    assert (scenario.cluster.zookeeper_set_acl, scenario.cluster.zookeeper_chroot) == (True, "/kafka")
    play = Play(scenario, seed=1)
    play.run()
    assert play.crash is None
    assert not play.violations
    assert play.cluster.server.tree.get("/kafka/brokers/topics/orders") is not None
    play.cluster.close()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('zookeeper_chroot = "kafka"', "scenario.toml:6: zookeeper_chroot: "),
        ('version = "0.8.2"\nzookeeper_set_acl = true', "Kafka 0.8.2 sets no ACLs"),
    ],
)
def test_invalid_chroot_and_acls_are_rejected(tmp_path: Path, keys: str, message: str) -> None:
    assert message in error_of(tmp_path, GOOD.replace("brokers = 3\n", f"brokers = 3\n{keys}\n"))
