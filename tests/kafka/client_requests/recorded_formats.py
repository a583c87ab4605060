"""Formats of records at real brokers, 0.10 to 3.9, and what of them is compared.

`data/formats.jsonl.gz` has one look in a line: release, story, look, and what was answered: of Produce and ListOffsets
the fields, of Fetch the entries of each read (hexadecimal). It is made by

    SIMZK_KAFKA_JARS=~/.cache/simzk-kafka python -m tests.conformance.real_kafka.record_formats

Compressed records are compared after they are decompressed, as another library may compress them in another way.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.kafka.client_requests.recorded_logs import comparable_entry
from tests.kafka.recorded_lines import read_lines

FILE = Path(__file__).with_name("data") / "formats.jsonl.gz"


@cache
def looks() -> tuple[Any, ...]:
    """Return all looks."""
    return tuple(read_lines(FILE))


def comparable(look: Any) -> dict[str, Any]:
    """Return a look without the bytes of compressed records."""
    found = {name: value for name, value in look.items() if name not in ("release", "story", "reads")}
    if "reads" in look:
        found["reads"] = [
            [code, mark, [comparable_entry(bytes.fromhex(entry)) for entry in entries]]
            for code, mark, entries in look["reads"]
        ]
    return found
