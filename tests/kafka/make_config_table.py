"""Make the table of configuration keys from recordings: python -m tests.kafka.make_config_table FOLDER

Writes `config_definitions.py` and `config_documentation.json.gz` of `simzk/kafka/releases`. FOLDER has a file
`configs_VERSION.json` per release: what a broker with default settings answered to DescribeConfigs for itself and for a
topic. This is a tool of developers, because users of the package never need it.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

FILE = Path(__file__).resolve().parents[2] / "simzk" / "kafka" / "releases" / "config_definitions.py"
DOCUMENTATION = FILE.with_name("config_documentation.json.gz")
TYPES = ("unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
DEFAULT = 5
REMOVED = "removed"
CHANGED = {"delete.topic.enable": {"0.11": "false", "1": "true"}}
"""Defaults that changed while recordings do not show them, because the brokers had values of their own."""
HIDDEN = {"flush.ms": "log.flush.interval.ms", "segment.ms": "log.roll.ms", "segment.jitter.ms": "log.roll.jitter.ms"}
"""Broker's keys of a topic's keys that have no default, so no synonym is answered (LogConfig.TopicConfigSynonyms)."""
HEAD = '''# ruff: noqa: E501  # a line is a key
"""Configuration keys of brokers and topics from 0.11 on: types, defaults, what changes while a broker runs.

`config_keys.py` says how to read a line. Made by `python -m tests.kafka.make_config_table`; do not edit.
"""

DEFINITIONS = """
'''

Row = dict[str, Any]


def main(folder: Path) -> None:
    """Write the table."""
    files = {numbers(file): json.loads(file.read_text()) for file in folder.glob("configs_*.json")}
    keys: dict[str, dict[str, dict[str, Row]]] = {"broker": {}, "topic": {}}
    releases = []
    for version in sorted(files):
        release = ".".join(map(str, version[:3] if version[0] == 0 else version[:2])).removesuffix(".0")
        releases.append(release)
        for rows in (files[version]["broker"], files[version]["topic"]):
            kind = "topic" if any(row["Name"] == "retention.ms" for row in rows) else "broker"
            given = files[version]["set_in_server.properties"] if kind == "broker" else ()
            for row in rows:
                keys[kind].setdefault(row["Name"], {})[release] = row | {"given": row["Name"] in given}
    lines = [line(kind, name, found, releases) for kind, names in keys.items() for name, found in sorted(names.items())]
    FILE.write_text(HEAD + "\n".join(lines) + '\n"""\n')
    texts = {
        kind: {
            name: steps({since: row.get("Documentation") for since, row in found.items()}, releases)
            for name, found in sorted(names.items())
            if any("Documentation" in row for row in found.values())
        }
        for kind, names in keys.items()
    }
    DOCUMENTATION.write_bytes(gzip.compress(json.dumps(texts, indent=0).encode(), mtime=0))


def numbers(file: Path) -> tuple[int, ...]:
    """Return the release of a file."""
    return tuple(map(int, re.findall(r"\d+", file.stem)))


def line(kind: str, name: str, found: dict[str, Row], releases: list[str]) -> str:
    """Return the line of a key."""
    types = [row["ConfigType"] for row in found.values() if "ConfigType" in row]
    sensitive = any(row["IsSensitive"] for row in found.values())
    type_name = TYPES[types[-1]] if types else "password" if sensitive else guessed(name, found)
    dynamic = steps({release: not found[release]["ReadOnly"] for release in releases if release in found}, releases)
    dynamic_text = ",".join(release for release, value in dynamic if value is not None) or "-"
    if dynamic and not dynamic[0][1]:
        dynamic_text = ",".join(release for release, value in dynamic[1:] if value is not None) or "-"
    if kind == "topic":
        dynamic_text = synonym_of(name, found)
    values: dict[str, str | None] = {}
    for release, row in found.items():
        synonyms = [one for one in row.get("Synonyms", ()) if one["Source"] == DEFAULT and one["Name"] == name]
        if synonyms:
            values[release] = shown(synonyms[-1]["Value"])
        elif kind == "topic" or not row["given"]:
            values[release] = shown(row["Value"])
        else:  # the server.properties hide the default: it has none, or 0.11 and 1.0 do not answer it
            values[release] = "null" if "Synonyms" in row else ""
    values |= {release: value for release, value in CHANGED.get(name, {}).items() if values.get(release) == ""}
    known = next((value for value in values.values() if value != ""), "null")
    values = {release: value or known for release, value in values.items()}
    if kind == "topic" and dynamic_text != "-":  # its default is the broker's value
        values = dict.fromkeys(values, "-")
    texts = [f"{release}:{REMOVED if value is None else value}" for release, value in steps(values, releases)]
    return " ".join([kind, name, type_name, dynamic_text, *texts])


def synonym_of(name: str, found: dict[str, Row]) -> str:
    """Return the broker's key that is the default of a topic's key; - if there is none."""
    names = [one["Name"] for row in found.values() for one in row.get("Synonyms", ())]
    return names[0] if names else HIDDEN.get(name, "-")


def guessed(name: str, found: dict[str, Row]) -> str:
    """Return the type of a key that no release has that tells types."""
    values = [row["Value"] for row in found.values() if row["Value"] is not None]
    raise AssertionError(f"{name}: {values}")


def shown(value: str | None) -> str:
    """Return a default as in the table."""
    return "null" if value is None else quote(value, safe="/,[]()=;*<>:+@") or '""'


def steps(values: dict[str, Any], releases: list[str]) -> list[tuple[str, Any]]:
    """Return from which release on each value holds; None from the release on that lacks the key."""
    made: list[tuple[str, Any]] = []
    for release in releases:
        value = values.get(release)
        if (made and made[-1][1] != value) or (not made and value is not None):
            made.append((release, value))
    return made


if __name__ == "__main__":
    main(Path(sys.argv[1]))
