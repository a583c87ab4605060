"""Logs of real brokers, 0.9 to 3.9, and what of them is compared.

`data/logs.jsonl.gz` has one look at a log in a line: release, story, look, offsets of the segments, the entries of
each read (hexadecimal), the size of the log, and aborted transactions. It is made by

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record_logs

Rules of this module:
  - times of brokers are chance: those of markers, of appends, and those at which tombstones are deleted. So are
    checksums of entries with such a time;
  - compressed records are compared after they are decompressed, as another library may compress them in another way.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from simzk.kafka.log.record_batches import decode_entry, delete_horizon_ms, entry_header, is_intact
from tests.kafka.recorded_lines import read_lines

FILE = Path(__file__).with_name("data") / "logs.jsonl.gz"


@cache
def looks() -> tuple[Any, ...]:
    """Return all looks."""
    return tuple(read_lines(FILE))


def comparable(look: Any) -> dict[str, Any]:
    """Return a look without chance."""
    entries = [entry for read in look["reads"] for entry in read]
    is_compressed = any(entry_header(bytes.fromhex(entry)).codec for entry in entries)
    found = {name: value for name, value in look.items() if name not in ("release", "story", "look", "reads")}
    return {
        **found,
        "size": None if is_compressed else look["size"],
        "reads": [[comparable_entry(bytes.fromhex(entry)) for entry in read] for read in look["reads"]],
    }


def comparable_entry(entry: bytes) -> Any:
    """Return an entry as it is, or what it says if chance is in it."""
    header = entry_header(entry)
    assert is_intact(entry), "the checksum is wrong"
    has_horizon = delete_horizon_ms(entry) is not None
    if not (header.codec or header.is_control or has_horizon or header.has_append_time):
        return entry.hex()
    is_dated = header.is_control or header.has_append_time
    shown = header._replace(
        size_bytes=0,
        base_timestamp=0 if is_dated or has_horizon else header.base_timestamp,
        max_timestamp=0 if is_dated else header.max_timestamp,
    )
    records = [
        [
            None if one.key is None else one.key.hex(),
            None if one.value is None else one.value.hex(),
            0 if is_dated else one.timestamp_ms,
            one.offset,
        ]
        for one in decode_entry(entry)
    ]
    return [*shown, records]
