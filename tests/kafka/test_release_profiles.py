"""Release profiles: the facts of docs/reference/kafka.md §0.1 and §0.2, and how a value of a later release is added."""

from __future__ import annotations

import pytest

from simzk.kafka.releases.since import Profile, at_release, before, by_release, since
from simzk.kafka.releases.versions import LINES, VERSIONS, kafka_version

# §0.2: line, setting, default from that line on.
DEFAULTS = [
    ("0.8.0", "zookeeper.session.timeout.ms", "6000"),
    ("2.5", "zookeeper.session.timeout.ms", "18000"),
    ("0.8.0", "replica.lag.time.max.ms", "10000"),
    ("2.5", "replica.lag.time.max.ms", "30000"),
    ("0.8.2", "unclean.leader.election.enable", "true"),
    ("0.11", "unclean.leader.election.enable", "false"),
    ("0.8.1", "auto.leader.rebalance.enable", "false"),
    ("0.8.2", "auto.leader.rebalance.enable", "true"),
    ("0.8.0", "controlled.shutdown.enable", "false"),
    ("0.8.2", "controlled.shutdown.enable", "true"),
    ("0.8.1", "delete.topic.enable", "false"),
    ("1.0", "delete.topic.enable", "true"),
]


@pytest.mark.parametrize("line", LINES)
def test_defaults_are_those_of_the_reference(line: str) -> None:
    number = VERSIONS[line].number
    expected = {key: value for since, key, value in DEFAULTS if kafka_version(since).number <= number}
    assert {key: VERSIONS[line].defaults[key] for key in expected} == expected
    assert ("replica.lag.max.messages" in VERSIONS[line].defaults) == (number < (0, 9, 0))  # KIP-16


@pytest.mark.parametrize(
    ("first", "part", "field"),
    [
        ("0.9", "broker", "announces_isr_changes"),
        ("0.10.1", "znodes", "has_cluster_id"),
        ("0.11", "broker", "reserves_producer_ids"),
        ("1.0", "broker", "survives_log_dir_failure"),
        ("2.0", "controller", "rejects_unknown_fields"),
        ("2.1", "client", "fences_writes"),
        ("2.2", "client", "has_broker_epochs"),
        ("2.4", "controller", "reassigns_in_topic_znode"),
        ("2.7", "broker", "uses_alter_isr"),
        ("2.8", "znodes", "has_topic_ids"),
        ("2.8", "controller", "sends_topic_ids"),
        ("3.2", "reading", "has_recovery_state"),
    ],
)
def test_switches_are_those_of_the_reference(first: str, part: str, field: str) -> None:
    """§0.1, the table of version switches."""
    for version in VERSIONS.values():
        assert getattr(getattr(version, part), field) == (version.number >= kafka_version(first).number), version.name


def test_one_release_differs_from_the_last_of_its_line() -> None:
    """KAFKA-16539 came with 3.7.1."""
    checks = {name: kafka_version(name).configs.checks_controller for name in ("3.6", "3.7.0", "3.7.1", "3.7", "3.8")}
    assert checks == {"3.6": False, "3.7.0": False, "3.7.1": True, "3.7": True, "3.8": True}


def test_a_value_of_a_later_release_leaves_earlier_ones_alone() -> None:
    class Rules(Profile):
        order: str = by_release("isr", ((0, 10, 0), "assigned"))
        fences: bool = since((2, 1))
        waits: bool = before((1, 1))
        hashes: bool = since((2, 1), before=(2, 3))

    class WithAnother(Rules):
        order: str = by_release("isr", ((0, 10, 0), "assigned"), ((2, 4), "racks"))

    releases = [*(version.number for version in VERSIONS.values()), (0, 9, 0, 1), (2, 3, 99), (2, 4, 1)]
    for release in releases:
        plain, changed = at_release(Rules, release), at_release(WithAnother, release)
        assert changed.order == ("racks" if release >= (2, 4) else plain.order)
        assert (changed.fences, changed.waits, changed.hashes) == (plain.fences, plain.waits, plain.hashes)
        assert plain.fences == (release >= (2, 1))
        assert plain.waits == (release < (1, 1))
        assert plain.hashes == ((2, 1) <= release < (2, 3))


def test_rows_must_be_ascending_from_the_oldest_release() -> None:
    with pytest.raises(AssertionError, match="not ascending"):
        by_release(1, ((0, 7), 2))
    with pytest.raises(AssertionError, match="not ascending"):
        by_release(1, ((2, 4), 2), ((2, 3), 3))


def test_a_profile_is_a_value() -> None:
    class Rules(Profile):
        order: str = by_release("isr", ((0, 10, 0), "assigned"))
        fences: bool = since((2, 1))

    old, new = at_release(Rules, (0, 9)), at_release(Rules, (2, 1))
    changed = old.replace(order="assigned")
    assert (old.order, changed.order, changed.fences) == ("isr", "assigned", False)
    assert changed == at_release(Rules, (1, 0)) != new
    assert len({changed, at_release(Rules, (1, 0)), new}) == 2
    assert repr(new) == f"{Rules.__qualname__}(order='assigned', fences=True)"
    with pytest.raises(AttributeError, match=r"Rules\.order cannot be changed"):
        new.order = "isr"  # type: ignore[misc]  # that is tested
    with pytest.raises(AssertionError, match=r"has the fields \['order', 'fences'\]"):
        old.replace(orders="isr")
