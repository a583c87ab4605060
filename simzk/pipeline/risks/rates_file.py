"""Failure rates from defaults, a file and options, with overrides for single brokers and racks.

The tables `broker` and `rack` of the file apply to all brokers and racks; options override them; `brokers.ID` and
`racks.NAME` apply to one. docs/risk.md shows a file.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from simzk.errors import ConfigError
from simzk.partitions.risk.assess import ClusterRates
from simzk.partitions.risk.rates import Rate, rates_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from simzk.partitions.layouts import Brokers

KEYS = ("failures_per_year", "repair_hours", "destroyed_per_year", "rereplication_hours")
"""Keys of a rate table."""

BROKER = dict(zip(KEYS, (2.0, 1.0, 0.0157, 12.0), strict=True))
"""Default rates of a broker. A server crashes at least twice a year (Dean: Designs, Lessons and Advice from Building
Large Distributed Systems, LADIS 2009); 1.57 % of all disks fail per year (Backblaze Drive Stats for 2024; one disk per
broker). One hour until a broker is in sync again and twelve hours of re-replication are assumptions."""

RACK = dict(zip(KEYS, (0.44, 3.5, 0.0, 12.0), strict=True))
"""Default rates of a rack. Twenty racks fail in the first year of a cluster of 1,800 machines with 40 per rack, for one
to six hours (Dean, at Google I/O 2008 and LADIS 2009). That no rack is destroyed is an assumption."""

LEAST_HOURS, MOST = 0.001, 1_000_000
"""Bounds of hours (seconds to a century) and of failures per year; beyond them, shares of time lose all digits."""

Said = dict[str, float]


class RatesSpec(NamedTuple):
    """Rates as given by a user.

    Args:
        broker, rack: rates without an override; every key of `KEYS`.
        brokers, racks: overrides of single ones; some keys.
        where: the file, for error messages.
    """

    broker: Said
    rack: Said
    brokers: dict[int, Said]
    racks: dict[str, Said]
    where: str


def rates_spec(file: Path | None, broker: Mapping[str, float | None], rack: Mapping[str, float | None]) -> RatesSpec:
    """Merge a file and options over the defaults.

    Args:
        file: TOML, or JSON with the same tables; None without a file.
        broker, rack: options for all brokers or racks; None if not given.

    Raises:
        ConfigError: the file cannot be read, or a value of the file or an option is invalid.
    """
    where = "" if file is None else str(file)
    tables = {} if file is None else _read(file)
    unknown = sorted(set(tables) - {"broker", "rack", "brokers", "racks"})
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is no table of rates", where=where, right="broker, rack, brokers, racks")
    singles = {name: _table(tables.get(name, {}), f"{where}: {name}") for name in ("brokers", "racks")}
    ids = {}
    for text, said in singles["brokers"].items():
        if not (text.isascii() and text.isdecimal()):
            raise ConfigError(
                f"{text!r} is no broker id", where=f"{where}: brokers", right="a number, as in [brokers.7]"
            )
        ids[int(text)] = _said(said, f"{where}: brokers.{text}")
    return RatesSpec(
        broker=BROKER | _said(tables.get("broker", {}), f"{where}: broker") | _options(broker, "--broker"),
        rack=RACK | _said(tables.get("rack", {}), f"{where}: rack") | _options(rack, "--rack"),
        brokers=ids,
        racks={name: _said(said, f"{where}: racks.{name}") for name, said in singles["racks"].items()},
        where=where,
    )


def cluster_rates(spec: RatesSpec, brokers: Brokers) -> ClusterRates:
    """The rates of a cluster.

    Raises:
        ConfigError: something is said of a broker or a rack that the layout does not have.
    """
    ids = brokers.ids.tolist()
    for broker in sorted(set(spec.brokers) - set(ids)):
        raise ConfigError(f"broker {broker} is not in the layout", where=spec.where, right=_some(ids))
    for rack in sorted(set(spec.racks) - set(brokers.rack_names)):
        raise ConfigError(f"rack {rack!r} is not in the layout", where=spec.where, right=_some(brokers.rack_names))
    of_brokers = [spec.broker | spec.brokers.get(broker, {}) for broker in ids]
    of_racks = {name: spec.rack | spec.racks.get(name, {}) for name in brokers.rack_names}

    def rate(said: Said, often: str, long: str) -> Rate:
        return Rate(said[often], said[long])

    kinds = [
        rates_of(
            brokers,
            [rate(said, *keys) for said in of_brokers],
            {name: rate(said, *keys) for name, said in of_racks.items()},
        )
        for keys in (KEYS[:2], KEYS[2:])
    ]
    return ClusterRates(*kinds)


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
        tables = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(file)) from None
    except ValueError as error:  # of TOML, of JSON, of UTF-8
        raise ConfigError(f"is no {'JSON' if file.suffix == '.json' else 'TOML'}: {error}", where=str(file)) from None
    return _table(tables, str(file))


def _table(found: object, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise ConfigError("is no table", where=where)
    return found


def _said(found: object, where: str) -> Said:
    return {key: _number(key, value, where) for key, value in _table(found, where).items()}


def _options(given: Mapping[str, float | None], prefix: str) -> Said:
    return {key: _number(key, value, prefix) for key, value in given.items() if value is not None}


def _number(key: str, value: object, where: str) -> float:
    if key not in KEYS:
        raise ConfigError(f"{key!r} is no rate", where=where, right=", ".join(KEYS))
    lasts = key.endswith("hours")
    least = LEAST_HOURS if lasts else 0
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= MOST:
        right = f"hours, {least} to {MOST:,}" if lasts else f"how often a year, 0 to {MOST:,}"
        raise ConfigError(f"{key} {value!r} is invalid", where=where, right=right)
    return float(value)


def _some(names: object) -> str:
    listed = [str(name) for name in names]  # type: ignore[attr-defined]
    return f"one of {', '.join(listed[:8])}{', ...' if len(listed) > 8 else ''}" if listed else "none: it has no racks"
