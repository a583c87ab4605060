"""Make the table of validators from Kafka's own ConfigDef: python -m tests.kafka.make_validator_table FOLDER

Writes `config_validators.py` of `simzk/kafka/releases` and `config_values.json.gz` of `tests/kafka/data`. FOLDER has
two files per release, as `DumpConfigKeys.java` prints them with the jars of that release in the class path:
`VERSION.keys` (keys with their validators and the answers to some values) and `VERSION.brokers` (answers to whole
configurations of a broker). This is a tool of developers, because users of the package never need it.
"""

from __future__ import annotations

import gzip
import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "config_values.json.gz"
FILE = Path(__file__).resolve().parents[2] / "simzk" / "kafka" / "releases" / "config_validators.py"
UNCHECKED = ("NonNullValidator", "ControllerQuorumVotersValidator", "ControllerQuorumBootstrapServersValidator")
"""Validators that no value of a broker with ZooKeeper violates in a way that matters."""
HEAD = '''# ruff: noqa: E501  # a line is a key
"""Validators of configuration keys of brokers and topics from 0.9 on.

`config_values.py` says how to read a line. Made by `python -m tests.kafka.make_validator_table`; do not edit.
"""

FORMAT_VERSIONS = """
{versions}
"""

VALIDATORS = """
{lines}
"""

INTERNAL = """
{internal}
"""
'''

Row = dict[str, Any]


def main(folder: Path) -> None:
    """Write the table and the data of the test."""
    releases = sorted((file.stem for file in folder.glob("*.keys")), key=numbers)
    found: dict[tuple[str, str], dict[str, Row]] = {}
    for release in releases:
        for text in (folder / f"{release}.keys").read_text().splitlines():
            row = json.loads(text) | {"line": ".".join(release.split(".")[:2])}
            found.setdefault((row["owner"], row["key"]), {})[release] = row
    newest = found["broker", "inter.broker.protocol.version"][releases[-1]]["validator"]["text"]
    lines = []
    for (owner, name), rows in sorted(found.items()):
        steps = changes(
            [(release, shown(rows[release])) if release in rows else (release, None) for release in releases]
        )
        kept = [f"{short(release)}:{value or '-'}" for release, value in steps]
        if any(value not in (None, "-") for _, value in steps):
            lines.append(" ".join([owner, name, *kept]))
    internal = []
    for (owner, name), rows in sorted(found.items()):
        defaults = changes(
            [(one, default(rows[one]) if one in rows and rows[one]["internal"] else None) for one in releases]
        )
        if defaults:
            steps_of_key = " ".join(f"{short(release)}:{value or 'removed'}" for release, value in defaults)
            internal.append(f"{owner} {name} {next(iter(rows.values()))['type'].lower()} {steps_of_key}")
    versions = "\n".join(", ".join(part) for part in chunked(newest.strip("[]").split(", "), 12))
    FILE.write_text(HEAD.format(versions=versions, lines="\n".join(lines), internal="\n".join(internal)))
    answers: dict[str, dict[str, Any]] = {}
    for (owner, name), rows in sorted(found.items()):
        steps = changes([(release, bad(rows.get(release))) for release in releases])
        answers.setdefault(owner, {})[name] = [[release, value] for release, value in steps]
    last = {row["type"]: list(row["answers"]) for rows in found.values() for row in rows.values()}
    brokers: dict[str, Any] = {}
    for release in releases:
        for text in (folder / f"{release}.brokers").read_text().splitlines():
            config, answer = json.loads(text)
            brokers.setdefault(config, []).append((release, answer))
    data = {
        "releases": releases,
        "values": last,
        "answers": answers,
        "brokers": {config: changes(answers) for config, answers in brokers.items()},
    }
    DATA.write_bytes(gzip.compress(json.dumps(data, indent=0).encode(), mtime=0))


def numbers(release: str) -> tuple[int, ...]:
    """Return the numbers of a release."""
    return tuple(map(int, release.split(".")))


def short(release: str) -> str:
    """Return the line of a release, as the table of keys writes it."""
    parts = release.split(".")
    return ".".join(parts[:3] if release.startswith("0.10") else parts[:2]).removesuffix(".0")


def chunked(items: list[str], size: int) -> list[list[str]]:
    """Return the items in parts of at most a size."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def changes(values: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return from which release on each value holds; nothing before the first that is not None."""
    steps = [next(group) for _, group in groupby(values, key=lambda pair: json.dumps(pair[1]))]
    return steps[1:] if steps and steps[0][1] is None else steps


def default(row: Row) -> str:
    """Return the default of a key as in the table."""
    return "null" if row["default"] is None else str(row["default"]).strip("[]") or '""'


def bad(row: Row | None) -> Row | None:
    """Return the type of a key and the values that it refuses, with the texts; None if there is no such key."""
    if row is None:
        return None
    return {"type": row["type"], "refused": {value: text for value, text in row["answers"].items() if text is not None}}


def shown(row: Row) -> str:
    """Return the validator of a key as in the table."""
    validator = row["validator"]
    if validator is None:
        return "-"
    kind = validator["class"].replace("$", ".").strip(".1").split(".")[-1]
    if kind in UNCHECKED:
        return "-"
    if kind == "Range":
        return f"range({validator['min'] or ''}..{validator['max'] or ''})"
    if kind in ("ValidString", "CaseInsensitiveValidString"):
        return f"{'one-of' if kind == 'ValidString' else 'any-case'}({','.join(validator['validStrings'])})"
    if kind == "ValidList":
        return f"list-of({','.join(validator['validString']['validStrings'])})"
    if kind in ("ApiVersionValidator", "MetadataVersionValidator"):
        listed = validator["text"].startswith("[")  # 2.1's validator has no text
        newest = validator["text"].strip("[]").split(", ")[-1] if listed else row["default"]
        return f"version({row['line']}<{newest})"
    if kind == "LambdaValidator":
        assert row["key"].endswith("thread.pool.size"), row["key"]
        return "threads()"
    return {"NonEmptyString": "non-empty", "ThrottledReplicaListValidator": "replicas", "CompressionType": "level"}[
        kind
    ] + "()"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
