"""Rates as users give them: what says what louder, and what is refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from simzk.errors import ConfigError
from simzk.partitions.layouts import brokers_in_racks
from simzk.partitions.risk.rates import HOURS_PER_YEAR
from simzk.pipeline.risks import BROKER, RACK, cluster_rates, rates_spec

if TYPE_CHECKING:
    from pathlib import Path

TOML = """
[broker]
failures_per_year = 3
repair_hours = 2.5
[rack]
repair_hours = 8
[brokers.1]
failures_per_year = 12
destroyed_per_year = 0.5
[racks.rack2]
failures_per_year = 0
"""


def test_what_is_said_of_one_is_louder_than_options_and_those_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rates.toml"
    file.write_text(TOML)
    spec = rates_spec(file, {"failures_per_year": 5.0, "repair_hours": None}, {"destroyed_per_year": 0.25})
    rates = cluster_rates(spec, brokers_in_racks(3, 2))
    assert rates.outage.fail.tolist() == [5.0, 12.0, 5.0, 0.0]
    assert rates.outage.repair[:3].tolist() == [HOURS_PER_YEAR / 2.5] * 3
    assert rates.outage.rack_fail.tolist() == [RACK["failures_per_year"], 0.0, 0.0]
    assert rates.outage.rack_repair[:2].tolist() == [HOURS_PER_YEAR / 8] * 2
    assert rates.loss.fail.tolist() == [BROKER["destroyed_per_year"], 0.5, BROKER["destroyed_per_year"], 0.0]
    assert rates.loss.rack_fail.tolist() == [0.25, 0.25, 0.0]


def test_json_says_the_same(tmp_path: Path) -> None:
    import tomllib

    (tmp_path / "rates.toml").write_text(TOML)
    (tmp_path / "rates.json").write_text(json.dumps(tomllib.loads(TOML)))
    one, other = (rates_spec(tmp_path / name, {}, {}) for name in ("rates.toml", "rates.json"))
    assert one._replace(where="") == other._replace(where="")


def test_without_a_file_the_defaults_hold() -> None:
    spec = rates_spec(None, {}, {})
    assert (spec.broker, spec.rack) == (BROKER, RACK)
    cluster_rates(spec, brokers_in_racks(2, 0)).outage.check()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[broker", "is no TOML: "),
        ("[borker]\n", "'borker' is no table of rates; expected broker, rack, brokers, racks"),
        ("broker = 3\n", "broker: is no table"),
        ("brokers = 3\n", "brokers: is no table"),
        ("[broker]\nfailures = 3\n", "broker: 'failures' is no rate; expected failures_per_year, repair_hours, "),
        ("[broker]\nrepair_hours = 0\n", "broker: repair_hours 0 is invalid; expected hours, 0.001 to 1,000,000"),
        ("[rack]\nrepair_hours = 1e20\n", "rack: repair_hours 1e+20 is invalid; expected hours, 0.001 to 1,000,000"),
        ("[rack]\nfailures_per_year = -1\n", "rack: failures_per_year -1 is invalid; expected how often a year, 0 to"),
        (f"[rack]\nfailures_per_year = {10**400}\n", f"rack: failures_per_year {10**400} is invalid; expected how"),
        ("[rack]\nfailures_per_year = nan\n", "rack: failures_per_year nan is invalid"),
        ("[rack]\nfailures_per_year = inf\n", "rack: failures_per_year inf is invalid"),
        ("[rack]\nfailures_per_year = true\n", "rack: failures_per_year True is invalid"),
        ("[rack]\nfailures_per_year = 'x'\n", "rack: failures_per_year 'x' is invalid"),
        ("[brokers.one]\n", "brokers: 'one' is no broker id; expected a number, as in [brokers.7]"),
        ("[brokers.1]\nx = 1\n", "brokers.1: 'x' is no rate"),
        ("[brokers.9]\n", "broker 9 is not in the layout; expected one of 0, 1, 2"),
        ("[racks.r9]\n", "rack 'r9' is not in the layout; expected one of rack1, rack2"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "rates.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        cluster_rates(rates_spec(file, {}, {}), brokers_in_racks(3, 2))
    assert str(refused.value).startswith(f"{file}: {what}")


def test_a_file_that_is_not_there_and_an_option_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read it: No such file"):
        rates_spec(tmp_path / "none.toml", {}, {})
    with pytest.raises(ConfigError, match=r"--broker: repair_hours -1\.0 is invalid"):
        rates_spec(None, {"repair_hours": -1.0}, {})
