"""`simzk.replay`: recordings of real clusters, the report, and invalid recordings."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import simzk
from simzk import cli
from simzk.kafka.zookeeper_mode.controller import channels
from simzk.kafka.zookeeper_mode.replay import inputs, player
from simzk.kafka.zookeeper_mode.replay.recorded_run import load
from tests.kafka.two_racks import DATA, RELEASES, replayed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from simzk import StepReport

KNOWN: dict[tuple[str, str], str] = {
    (
        "0.10.2.2",
        "m1-reassign",
    ): "the controller of a failed term and the new one both write one reassignment, and each "
    "fails where the other was first; in two more recorded runs one controller alone wrote it",
    (
        "2.2.2",
        "h1-reassign-to-paused-12",
    ): "the tool started slowly, after the session of the paused broker had expired, and refused the plan",
}
"""Steps that differ today, with the reason. Each must differ: a step that has become equal has no row."""


def _steps() -> list[Any]:
    found = []
    for release in RELEASES:
        meta = json.loads(gzip.decompress((DATA / release / "meta.json.gz").read_bytes()))
        for step in meta["steps"]:
            why = KNOWN.get((release, step["step"]))
            marks = [pytest.mark.xdist_group(f"replay {release}")]
            marks += [] if why is None else [pytest.mark.xfail(reason=why, strict=True)]
            found.append(pytest.param(release, step["step"], marks=marks))
    return found


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(("release", "step"), _steps())
def test_a_replayed_step_is_equal_to_the_recorded_one(release: str, step: str) -> None:
    assert replayed(release)[step].report().lines() == []


def _renamed(folder: Path, release: str) -> Path:
    """Return a recording whose steps have other names."""
    folder.mkdir()
    for name in ("meta", "dumps", "txns"):
        content = json.loads(gzip.decompress((DATA / release / f"{name}.json.gz").read_bytes()))
        entries = content["steps"] if name == "meta" else content
        for entry in entries:
            if entry.get("step") is not None:
                entry["step"] = f"step {list(replayed(release)).index(entry['step'])}"
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize(
    "release", [pytest.param(one, marks=pytest.mark.xdist_group(f"replay {one}")) for one in RELEASES]
)
def test_the_names_of_steps_decide_nothing(release: str, tmp_path: Path) -> None:
    report = simzk.replay(_renamed(tmp_path / "recording", release))
    assert [step.name for step in report.steps] == [f"step {place}" for place in range(len(report.steps))]
    expected = [step.report().lines() for step in replayed(release).values()]
    assert [step.lines() for step in report.steps] == expected


MARGINS = [
    (inputs, "EXPIRY_RACE_MS", 890),
    (inputs, "EXPIRY_RACE_MS", 3_000),
    (player, "ELECTION_HEAD_START_US", 7_500),
    (player, "ELECTION_HEAD_START_US", 30_000),
    (channels, "WRITTEN_AFTER_US", 5_000),
    (channels, "WRITTEN_AFTER_US", 3_000_000),
]
"""Values of judged times, half and twice as long or more, with which the recordings are as equal as with ours."""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name", "value"), MARGINS)
def test_equality_does_not_depend_on_the_value_of_a_judged_time(
    module: ModuleType, name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    different = {
        (release, step.name) for release in RELEASES for step in simzk.replay(DATA / release).steps if not step.equal
    }
    assert different == set(KNOWN)


LAYOUTS = Path(__file__).resolve().parents[2] / "scenarios" / "layouts"
COMMANDS: dict[str, dict[str, Any]] = json.loads(gzip.decompress((DATA.parent / "tool_commands.json.gz").read_bytes()))
"""What meta.json says about the first story of each release: names of steps, and commands of Kafka's tools."""


BY_HAND = ("0.8.1.1",)
"""Releases whose recorder wrote a znode by hand in a step without `acts`: topics are deleted so, without a tool."""


def _without_actions(folder: Path, release: str) -> Path:
    """Return the first story as a recording whose steps have no `acts`."""
    shutil.copytree(LAYOUTS / f"kafka-{release}", folder)
    (folder / "meta.json").write_text(json.dumps(COMMANDS[release]))
    return folder


@pytest.mark.slow_but_for_some_releases
@pytest.mark.parametrize("release", [release for release in COMMANDS if release not in BY_HAND])
def test_a_recording_without_actions_is_replayed_by_its_names_and_commands(release: str, tmp_path: Path) -> None:
    report = simzk.replay(_without_actions(tmp_path / "recording", release))
    assert len(report.steps) == len(COMMANDS[release]["steps"])
    assert report.equal, report.to_text()


def test_a_command_that_does_not_say_enough_is_rejected_with_its_step(tmp_path: Path) -> None:
    folder = _without_actions(tmp_path / "recording", "0.8.2.2")
    meta = json.dumps(COMMANDS["0.8.2.2"])
    whitelisted = re.sub(r"(ConsoleConsumer --zookeeper \S+) --topic t1", r"\1 --whitelist t.*", meta)
    (folder / "meta.json").write_text(whitelisted)
    with pytest.raises(simzk.RecordingError, match=r"step h2-consume-group: the command kafka\.tools\.ConsoleConsumer"):
        simzk.replay(folder)


@pytest.mark.parametrize("release", BY_HAND)
def test_a_step_by_hand_is_rejected(release: str, tmp_path: Path) -> None:
    with pytest.raises(simzk.RecordingError, match=r"step k-delete-t2: no action says what was done"):
        simzk.replay(_without_actions(tmp_path / "recording", release))


def test_a_step_without_a_known_name_or_a_command_is_rejected(tmp_path: Path) -> None:
    folder = _without_actions(tmp_path / "recording", "3.9.1")
    meta = json.loads(json.dumps(COMMANDS["3.9.1"]))
    meta["steps"][4].pop("tools")
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(simzk.RecordingError, match=r"step b1-create-t1: no action says what was done"):
        simzk.replay(folder)


def _edited(tmp_path: Path, edit: Callable[[dict[str, Any]], object], until: int = 3) -> Path:
    """Return a recording of the first steps with other contents."""
    folder = tmp_path / "recording"
    shutil.copytree(DATA / "2.4.1", folder)
    names = ("meta", "dumps", "txns")
    files = {name: json.loads(gzip.decompress((folder / f"{name}.json.gz").read_bytes())) for name in names}
    steps = [step["step"] for step in files["meta"]["steps"][:until]]
    files["meta"]["steps"] = files["meta"]["steps"][:until]
    files["dumps"] = files["dumps"][:until]
    files["txns"] = [entry for entry in files["txns"] if entry["step"] in (None, *steps)]
    edit(files)
    for name, content in files.items():
        (folder / f"{name}.json.gz").unlink()
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def _run(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["simzk", "replay", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


def test_an_equal_replay_has_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _edited(tmp_path, lambda files: None)
    assert _run(str(folder), "--json", str(tmp_path / "out.json")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 of 3 steps equal (Kafka 2.4.1)"
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["equal"] is True
    assert _run(str(folder), "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == document, "nothing else is on stdout"
    assert [step["step"] for step in document["steps"]] == ["a0-empty", "a1-boot-broker11", "a2-boot-broker12"]


def _change_a_version(files: dict[str, Any]) -> None:
    files["dumps"][2]["changed"]["/brokers/ids/12"]["v"] += 7


def _change_a_transaction(files: dict[str, Any]) -> None:
    (entry,) = (entry for entry in files["txns"] if entry.get("path") == "/controller_epoch")
    entry["data"] = "8"


@pytest.mark.parametrize(
    ("edit", "step", "line"),
    [
        (_change_a_version, 2, "/brokers/ids/12: version is 1, recorded was 8"),
        (_change_a_transaction, 1, "b11: create /controller_epoch 0 [[31"),
    ],
)
def test_a_difference_is_reported_once_with_its_place(
    tmp_path: Path, edit: Callable[[dict[str, Any]], None], step: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _edited(tmp_path, edit, until=4)
    report = simzk.replay(folder)
    assert [one.equal for one in report.steps] == [place != step for place in range(4)]
    different: StepReport = report.steps[step]
    assert line in different.lines()[0]
    assert _run(str(folder)) == 1
    assert line in capsys.readouterr().out


def _act(files: dict[str, Any]) -> dict[str, Any]:
    """Return an action of a recording."""
    found = files["meta"]["steps"][1]["acts"][0]
    assert isinstance(found, dict)
    return found


def _without_brokers(files: dict[str, Any]) -> None:
    files["txns"].clear()
    for step in files["meta"]["steps"]:
        step["acts"] = []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda files: files["meta"]["steps"][1]["acts"][0].update(do="dance"),
            "step a1-boot-broker11: acts[0].do: 'dance' is no action; expected one of start, ",
        ),
        (
            lambda files: files["meta"]["steps"][1]["acts"][0].pop("broker"),
            "the action start has no broker; expected the fields broker",
        ),
        (lambda files: files["meta"]["steps"].pop(1), "step a1-boot-broker11 is missing"),
        (lambda files: files["meta"].pop("version"), "missing required field `version`"),
        (lambda files: files["txns"][3].update(t="soon"), "Expected `int`, got `str`"),
        (lambda files: files["meta"].update(version="0.7"), "Kafka '0.7' is not simulated"),
        (lambda files: files["meta"].update(tick_time_ms=0), "tick_time_ms: it is 0; expected 1 or more"),
        (lambda files: files["meta"].update(clock_ms=5), "the action start is 1.79"),
        (lambda files: _act(files).update(at=1e300), "the action start is 1e+300 s after the first transaction"),
        (lambda files: _act(files).update(brokr=3), "unknown field `brokr`"),
        (lambda files: _act(files).update(do="write", path="t", text=""), "acts[0].path: 't' is no path"),
        (
            lambda files: _act(files).update(options=["--fast"]),
            "acts[0].options: the option --fast of start is unknown",
        ),
        (lambda files: _act(files).update(election="best"), "acts[0].election: 'best' is no election"),
        (lambda files: files["dumps"].pop(2), "a transaction belongs to the step a2-boot-broker12"),
        (
            lambda files: files["dumps"][2].update(removed=["/x"]),
            "step a2-boot-broker12: it removes '/x', which no step",
        ),
        (lambda files: files["dumps"][2].update(step="a0-empty"), "step a0-empty: two steps have this name"),
        (lambda files: files["meta"]["steps"].append({"step": "z"}), "step z has no tree"),
        (
            lambda files: files["txns"][3].update(op="explode"),
            "[3].op: 'explode' is no operation; expected one of create",
        ),
        (_without_brokers, "no broker starts or registers"),
    ],
)
def test_an_invalid_recording_has_status_2(
    tmp_path: Path,
    edit: Callable[[dict[str, Any]], object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run(str(_edited(tmp_path, edit))) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_a_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(simzk.RecordingError, match=r"no such folder; expected the folder of a recording"):
        simzk.replay(tmp_path / "nothing")
    with pytest.raises(simzk.RecordingError, match=r"the recording has no meta\.json"):
        simzk.replay(tmp_path)
    (tmp_path / "meta.json").mkdir()
    with pytest.raises(simzk.RecordingError, match=r"the recording has no meta\.json"):
        simzk.replay(tmp_path)


def test_a_transaction_between_two_steps_belongs_to_the_one_whose_tree_shows_it(tmp_path: Path) -> None:
    def drop_steps(files: dict[str, Any]) -> None:
        places = [place for place, entry in enumerate(files["txns"]) if entry["step"] == "a2-boot-broker12"]
        for place in (places[0], places[-1]):
            files["txns"][place]["step"] = None

    folder = _edited(tmp_path, drop_steps, until=4)
    assert [len(step.transactions) for step in load(folder).steps] == [
        len(step.transactions) for step in load(DATA / "2.4.1").steps[:4]
    ]
    assert simzk.replay(folder).equal


def test_winners_of_elections_are_given_in_order() -> None:
    with simzk.KafkaCluster(brokers=4, seed=1) as c:
        first = c.controller
        assert first is not None
        winners = [broker for broker in (4, 3, 2, 1) if broker != first][:2]
        c.prefer_controller(*winners)
        for killed, winner in zip((first, winners[0]), winners, strict=True):
            c.kill(killed)
            assert c.run_until_quiet()
            assert c.controller == winner


def test_a_killed_broker_s_session_expires_when_asked() -> None:
    with simzk.KafkaCluster(brokers=3, seed=1, config={"zookeeper.session.timeout.ms": 6000}) as c:
        c.kill(3)
        c.expire(3, after=30)
        c.advance(29)
        assert c.live_brokers == [1, 2, 3]
        c.advance(2)
        assert c.live_brokers == [1, 2]
        with pytest.raises(simzk.ConfigError, match="broker 3 has no session"):
            c.expire(3)


def test_a_later_expiry_of_a_session_that_ended_before_is_no_event() -> None:
    with simzk.KafkaCluster(brokers=3, seed=1) as c:
        c.expire(3, after=30)
        c.shutdown(3)
        c.advance(60)
        assert [event.what for event in c.history if event.what == "session expired by hand"] == []


def test_one_session_of_a_broker_expires() -> None:
    with simzk.KafkaCluster(brokers=2, seed=1) as c:
        session_id = c.brokers[2].session_id
        c.kill(2)
        c.expire_session(2, session_id)
        assert c.live_brokers == [1]
        c.restart(2)
        assert c.run_until_quiet()
        c.expire_session(2, session_id)  # it does not exist any more
        assert c.live_brokers == [1, 2]


def test_a_broker_that_cannot_start_stays_down_if_nothing_restarts_it() -> None:
    timing = simzk.BrokerTiming(restarts_brokers=False, registration_pause_us=lambda _: 0)
    with simzk.KafkaCluster(brokers=2, seed=1, timing=timing) as c:
        c.kill(2)
        c.restart(2)  # its old session still exists
        c.advance(60)
        assert not c.brokers[2].alive
        c.restart(2)
        assert c.run_until_quiet()
        assert c.live_brokers == [1, 2]


def test_a_topic_made_by_hand_gets_the_id_that_was_set() -> None:
    topic_id = "mJ4sJ0VfQ2KYnxNnRuxR0A"
    with simzk.KafkaCluster("2.8", brokers=1, seed=1) as c:
        c.set_topic_id("t", topic_id)
        c.write_znode("/brokers/topics/t", '{"version":2,"partitions":{"0":[1]}}', create=True)
        c.advance(2)
        node = c.tree.get("/brokers/topics/t")
        assert node is not None
        assert json.loads(node.data or b"")["topic_id"] == topic_id
        assert c.state("t", 0).leader == 1
