"""Each kind of fault strikes as it says, ends by itself, and the cluster recovers from it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ScenarioError
from simzk.scenarios.faults.plan import FAULT_KINDS
from simzk.scenarios.faults.plan_file import PlanFile
from simzk.scenarios.player import Play, setting_of
from simzk.scenarios.reader import read_scenario

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
title = "Three brokers"
why = "Faults are tested on it."
[cluster]
version = "VERSION"
brokers = 3
controller = 1
log_dirs = 2
[[step]]
at = "5s"
action = "create_topic"
topic = "orders"
assignment = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
[[step]]
within = "10s"
expect = "whole"
"""
HEAD = 'seed = 1\nsafety = "2m"\nliveness = "2m"\n'
FAULTS = {
    "kill": ('broker = 2\nfor = "30s"', ["broker 2 killed", "broker 2 registration gone", "broker 2 started"]),
    "pause": ('broker = 2\nfor = "30s"', ["broker 2 paused for 30 s", "broker 2 registration gone"]),
    "shutdown": ('broker = 2\nfor = "30s"', ["broker 2 shutting down", "broker 2 stopped", "broker 2 started"]),
    "expire": ("broker = 2", ["broker 2 session expired by hand", "broker 2 learned that its session has expired"]),
    "disconnect": ("broker = 2", ["broker 2 disconnected from ZooKeeper"]),
    "fail_log_dir": (
        'broker = 2\ndirectory = 1\nfor = "30s"',
        ["broker 2 log directory failed 1", "broker 2 killed", "broker 2 started"],
    ),
    "power_off": ('broker = 2\nfor = "30s"', ["cuts the power of broker 2", "broker 2 started"]),
    "wipe": ('broker = 2\nfor = "30s"', ["broker 2 killed", "broker 2 started"]),
    "slow_disk": ('broker = 2\naccess = "2s"\nfor = "30s"', ["slows down the disk of broker 2, 2s an access"]),
    "cut": ('broker = 2\nfor = "30s"', ["broker 2 registration gone", "broker 2 registered"]),
    "cut_one_way": (
        'broker = 2\npeer = "zookeeper"\ndirection = "from"\nfor = "30s"',
        ["loses what broker 2 sends to zookeeper", "broker 2 registration gone", "broker 2 registered"],
    ),
    "clog": (
        'broker = 2\npeer = "zookeeper"\nfor = "30s"',
        ["clogs the links of broker 2 to zookeeper", "broker 2 registration gone", "broker 2 registered"],
    ),
    "slow_link": (
        'broker = 2\nlatency = "40s"\ndistribution = "fixed"\nfor = "60s"',
        ["slows down the links of broker 2, fixed 40s", "broker 2 registration gone", "broker 2 registered"],
    ),
    "split": (
        'brokers = [2]\nzookeeper = "others"\nfor = "30s"',
        ["splits brokers 2 off, the others keep ZooKeeper", "broker 2 registration gone", "broker 2 registered"],
    ),
    "swizzle": (
        'clogged = [1, 2]\nreleased = [2, 1]\nfor = "60s"',
        ["clogs brokers 1, 2 in turn and releases 2, 1", "broker 2 registration gone", "broker 1 registration gone"],
    ),
    "restart_zookeeper": ('for = "30s"', ["zookeeper stopped", "zookeeper started"]),
    "pause_zookeeper": ('for = "30s"', ["zookeeper paused", "zookeeper resumed", "broker 2 registration gone"]),
    "lose_zookeeper_leader": (
        'for = "30s"',
        ["zookeeper 3 killed it led", "zookeeper leader elected server 2", "zookeeper 3 started"],
    ),
    "kill_zookeeper_server": ('server = 1\nfor = "30s"', ["zookeeper 1 killed", "zookeeper 1 started"]),
    "pause_zookeeper_server": (
        'server = 3\nfor = "30s"',
        ["zookeeper 3 paused it led", "zookeeper leader elected server 2", "zookeeper 3 resumed"],
    ),
    "cut_zookeeper_server": (
        'server = 3\nfor = "30s"',
        ["zookeeper 3 cut off it led", "zookeeper leader elected server 2", "zookeeper 3 healed"],
    ),
    "drop_request": ('broker = 2\noperation = "ping"\nfor = "60s"', ["broker 2 fault: drop_request"]),
    "drop_reply": ('broker = 1\ntimes = 2\noperation = "ping"\nfor = "60s"', ["broker 1 fault: drop_reply"]),
    "delay": ('broker = 2\noperation = "ping"\nby = "30s"\nfor = "60s"', ["broker 2 fault: delay"]),
    "hold": ('broker = 2\noperation = "ping"\nfor = "60s"', ["broker 2 fault: hold"]),
    "expire_at": ('broker = 2\noperation = "ping"\nfor = "60s"', ["fault: expire", "broker 2 registration gone"]),
    "fail": (
        'broker = 2\noperation = "ping"\nerror = "SESSION_EXPIRED"\nfor = "60s"',
        ["fault: expire", "broker 2 registration gone"],
    ),
    "refuse_isr": ('broker = 1\nfor = "60s"', ["refuses the ISR proposals of broker 1"]),
    "lose_marker_answers": ('broker = 1\nfor = "60s"', ["loses the answers to transaction markers"]),
    "create_topic": (
        'topic = "new"\npartitions = 2\nreplication_factor = 3',
        ["creates topic new: 2 partitions", "topic created new"],
    ),
    "delete_topic": ('topic = "orders"', ["deletes topic orders", "topic deleted orders"]),
    "add_partitions": (
        'topic = "orders"\ntotal = 5',
        ["adds partitions to orders: 5", "partition added orders-4"],
    ),
    "reassign": (
        'partition = "orders-0"\nreplicas = [3, 2]',
        ["reassigns orders-0 to [3, 2]", "reassigned orders-0"],
    ),
    "cancel_reassignment": ('partition = "orders-0"', ["cancels the reassignment of orders-0", "admin refused"]),
    "elect": ("", ["elects preferred leaders"]),
    "rolling_restart": (
        'brokers = [2, 1, 3]\ngap = "3s"',
        ["broker 2 started", "broker 1 started", "broker 3 started"],
    ),
    "rolling_upgrade": (
        'brokers = [2, 1, 3]\ngap = "3s"\nversion = "3.9"\nprotocol = "2.8"',
        ["upgrades brokers 2, 1, 3 to 3.9", "broker 3 started", "broker 2 stopped"],
    ),
}


def fault_text(kind: str, keys: str, at: str = "1s") -> str:
    return f'[[fault]]\nat = "{at}"\nkind = "{kind}"\n{keys}\n'


def played(folder: Path, faults: str, version: str = "2.8", zookeeper_servers: int = 1) -> Play:
    text = SCENARIO.replace("VERSION", version).replace(
        "log_dirs", f"zookeeper_servers = {zookeeper_servers}\nlog_dirs"
    )
    (folder / "scenario.toml").write_text(text, encoding="utf-8")
    (folder / "plan.toml").write_text(HEAD + faults, encoding="utf-8")
    scenario = read_scenario(folder / "scenario.toml")
    play = Play(scenario, seed=1, plan=PlanFile(folder / "plan.toml").plan(setting_of(scenario, "")))
    with closing(play):
        play.run()
    return play


def lines_of(play: Play) -> list[str]:
    parts = [(event.who, event.what, event.subject, event.before, event.after) for event in play.history]
    return [" ".join(part for part in event if part) for event in parts]


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_strikes_and_the_cluster_recovers(tmp_path: Path, kind: str) -> None:
    keys, expected = FAULTS[kind]
    play = played(tmp_path, fault_text(kind, keys), zookeeper_servers=3 if "zookeeper_" in kind else 1)
    lines = lines_of(play)
    assert play.held, [play.crash, play.violations, play.verdicts]
    begin = next(at for at, line in enumerate(lines) if (line.startswith(("fault ", "operator ")) and " to ") or at > 5)
    for text in expected:
        found = [at for at, line in enumerate(lines[begin:], begin) if text in line]
        assert found, f"{text!r} is not in the history:\n" + "\n".join(lines)
    assert not [line for line in lines if "skipped" in line]


def test_an_upgrade_changes_release_and_protocol(tmp_path: Path) -> None:
    keys, _ = FAULTS["rolling_upgrade"]
    play = played(tmp_path, fault_text("rolling_upgrade", keys))
    assert {broker.version.name for broker in play.cluster.brokers.values()} == {"3.9"}
    assert lines_of(play).count("broker 2 started") == 3  # the start of the cluster, the release, the protocol


def test_everything_heals_at_the_end_of_safety(tmp_path: Path) -> None:
    """Faults that would last longer end with the safety phase, also those of an operator in the middle of its work."""
    texts = [
        fault_text("pause", 'broker = 1\nfor = "1h"', "100s"),
        fault_text("kill", 'broker = 2\nfor = "1h"', "100s"),
        fault_text("fail_log_dir", 'broker = 3\ndirectory = 0\nfor = "1h"', "100s"),
        fault_text("clog", 'broker = 3\nfor = "1h"', "101s"),
        fault_text("hold", 'broker = 3\nfor = "1h"', "102s"),
        fault_text("slow_link", 'broker = 1\nlatency = "10s"\nfor = "1h"', "102s"),
        fault_text("pause_zookeeper", 'for = "1h"', "103s"),
        fault_text("slow_disk", 'broker = 3\naccess = "1m"\nfor = "1h"', "104s"),
        fault_text("rolling_restart", 'brokers = [3, 2, 1]\ngap = "1m"', "119s"),
    ]
    play = played(tmp_path, "".join(texts))
    assert play.held, play.verdicts
    heals = next(at for at, line in enumerate(lines_of(play)) if "heals everything" in line)
    assert [line for line in lines_of(play)[heals:] if "shutting down" in line] == []


def test_an_impossible_fault_is_skipped_with_the_reason(tmp_path: Path) -> None:
    texts = [
        fault_text("kill", 'broker = 2\nfor = "30s"', "1s"),
        fault_text("pause", 'broker = 2\nfor = "30s"', "2s"),
        fault_text("restart_zookeeper", 'for = "30s"', "3s"),
        fault_text("expire", "broker = 1", "4s"),
        fault_text("fail_log_dir", 'broker = 1\ndirectory = 0\nfor = "60s"', "5s"),
        fault_text("fail_log_dir", 'broker = 1\ndirectory = 0\nfor = "60s"', "6s"),
    ]
    play = played(tmp_path, "".join(texts))
    lines = lines_of(play)
    assert "fault skipped: pauses broker 2 broker 2 does not run" in lines
    assert "fault skipped: expires the session of broker 1 ZooKeeper does not run" in lines
    refused = [line for line in lines if "fault refused: fails log directory 0 of broker 1" in line]
    assert len(refused) == 1
    assert "broker 1 has no live directory 0" in refused[0]
    assert play.held, play.verdicts


@pytest.mark.parametrize(
    ("kind", "keys", "message"),
    [
        ("fail_log_dir", 'broker = 1\ndirectory = 2\nfor = "1s"', "brokers have no log directory 2; expected 0 .. 1"),
        ("power_off", 'broker = 1\nunwritten = "x"\nfor = "1s"', "unwritten: 'x' is not a duration"),
        ("slow_disk", 'broker = 1\naccess = "0s"\nfor = "1s"', "access: '0s' is not a positive duration"),
        ("cut", 'broker = 1\npeer = 1\nfor = "1s"', "no peer 1; expected one of 2, 3, zookeeper"),
        ("cut", 'broker = 1\npeer = "zookeper"\nfor = "1s"', "no peer 'zookeper'"),
        ("cut_one_way", 'broker = 1\ndirection = "up"\nfor = "1s"', "direction: invalid enum value 'up'"),
        ("slow_link", 'broker = 1\nlatency = "0s"\nfor = "1s"', "'0s' is not a positive duration"),
        ("split", 'brokers = [1, 1]\nfor = "1s"', "[1, 1] is empty or names a broker twice"),
        ("swizzle", 'clogged = [1]\nreleased = [2]\nfor = "1s"', "clogged and released name different brokers"),
        ("drop_reply", 'broker = 1\noperation = "setData"\nfor = "1s"', "unknown operation 'setData'"),
        ("drop_reply", 'broker = 1\ntimes = 0\nfor = "1s"', "times: expected `int` >= 1"),
        ("delay", 'broker = 1\nby = "1us"\nfor = "1s"', "1us is too short for ZooKeeper's clock; expected 1ms or more"),
        ("fail", 'broker = 1\nerror = "NO_NOD"\nfor = "1s"', "NO_NOD is not an error of ZooKeeper's protocol"),
        ("create_topic", 'topic = "a/b"\npartitions = 1\nreplication_factor = 1', "'a/b' is not a valid topic name"),
        ("create_topic", 'topic = "a"\npartitions = 1\nreplication_factor = 4', "4 replicas on 3 brokers"),
        ("reassign", 'partition = "orders"\nreplicas = [1]', "'orders' is not the name of a partition"),
        ("rolling_restart", 'brokers = []\ngap = "1s"', "[] is empty or names a broker twice"),
        (
            "rolling_upgrade",
            'brokers = [1]\ngap = "1s"\nversion = "2.4"\nprotocol = "2.4"',
            "2.4 is no upgrade; expected 2.8 or later",
        ),
        (
            "rolling_upgrade",
            'brokers = [1]\ngap = "1s"\nversion = "3.0"\nprotocol = "3.1"',
            "Kafka 3.0 does not support the inter-broker protocol '3.1'",
        ),
    ],
)
def test_impossible_parameters_are_refused(tmp_path: Path, kind: str, keys: str, message: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        played(tmp_path, fault_text(kind, keys))
    assert message in str(refused.value)
