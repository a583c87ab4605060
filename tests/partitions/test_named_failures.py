"""Named failure sets from texts and files, and their brokers in a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simzk.errors import ConfigError, FailureSetError
from simzk.partitions.failures.sets import NamedFailure, parse_failures
from simzk.partitions.layouts import Brokers
from tests.partitions.layout_strategies import Cluster, clusters, layout_of

if TYPE_CHECKING:
    from pathlib import Path


@given(clusters(), st.data())
def test_named_set_has_its_brokers_and_live_brokers_of_its_racks(cluster: Cluster, data: st.DataObject) -> None:
    names = sorted({broker.rack for broker in cluster.brokers.values() if broker.rack is not None})
    brokers = data.draw(st.lists(st.sampled_from(sorted(cluster.brokers)), unique=True))
    racks = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    if not brokers and not racks:
        return
    terms = [f"{kind}={'+'.join(map(str, some))}" for kind, some in (("brokers", brokers), ("racks", racks)) if some]
    spec = NamedFailure.parse("+".join(data.draw(st.permutations(terms))))
    up = [
        broker
        for broker, state in sorted(cluster.brokers.items())
        if state.live and (broker in brokers or state.rack in racks)
    ]
    known = layout_of(cluster).brokers
    if not up:
        with pytest.raises(FailureSetError, match="all its brokers are down already"):
            spec.size(known)
        return
    assert (spec.population(known), spec.size(known)) == (1, 1)
    assert [tuple(found) for found in spec.sets(known, 0, 1)] == [(tuple(up), tuple(sorted(racks)))]
    assert not list(spec.sets(known, 0, 0))
    assert not list(spec.sets(known, 1, 2))
    assert NamedFailure.parse(str(spec)) == spec


@pytest.mark.parametrize(
    "text",
    [
        "brokers=",
        "brokers=a",
        "brokers=-1",
        "racks=",
        "racks=a+",
        "brokers=1+brokers=2",
        "disks=1",
        "1+brokers=2",
        "=1",
    ],
)
def test_invalid_named_set_raises(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a failure specification; expected .*brokers=ID"):
        parse_failures(text)


def test_unknown_brokers_and_racks_raise() -> None:
    brokers = Brokers.from_racks({1: "a", 2: "b"})
    with pytest.raises(FailureSetError, match=r"cannot fail: there is no broker 7, no broker 9, no rack 'c'$"):
        NamedFailure.parse("brokers=9+1+7+racks=c+a").size(brokers)


def test_a_file_of_sets(tmp_path: Path) -> None:
    path = tmp_path / "power.json"
    path.write_text(json.dumps({"feed 1": {"racks": ["b", "a+b", "b"]}, "old": {"brokers": [3, 1], "racks": []}}))
    assert parse_failures(str(path)) == (
        NamedFailure("feed 1", (), ("a+b", "b")),
        NamedFailure("old", (1, 3), ()),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "contains no failure sets"),
        ('["a"]', "contains no failure sets"),
        ('{"a": {"brokers": [1]}, "a": {"brokers": [2]}}', "'a': repeated name"),
        ('{"a": {"brokers": [1]}, "b": {}}', "'b': names no broker and no rack"),
        ('{"a": {"brokers": [true]}}', "'a': not a failure set"),
        ('{"a": {"brokers": 1}}', "'a': not a failure set"),
        ('{"a": {"racks": [1]}}', "'a': not a failure set"),
        ('{"a": {"hosts": [1]}}', "'a': not a failure set"),
        ('{"a": [["brokers", [1]]]}', "'a': not a failure set"),
        ('{"a": {"brokers": [1], "brokers": [2]}}', "'a': not a failure set"),
        ('{"": {"brokers": [1]}}', "'': not a failure set"),
        ('{"a": null}', "'a': not a failure set"),
    ],
)
def test_invalid_file_raises(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sets.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        parse_failures(str(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json: cannot be read: No such file"):
        parse_failures(str(tmp_path / "none.json"))
