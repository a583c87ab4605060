"""Exchanges of real brokers about security: SASL requests at a port without SASL, and an authorizer.

`data/security.jsonl.gz` has one exchange a line, in the order of the recording, as
`tests/kafka/client_requests/recorded.py` says. It is made by

    python -m tests.kafka.security.recorded_security FOLDER

A `story` is that of three brokers without an authorizer; `second` is that of one broker with an authorizer, from the
first ACL on.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.kafka.client_requests.recorded import KEPT, RELEASES, Exchange
from tests.kafka.recorded_lines import read_lines, write_lines

FILE = Path(__file__).with_name("data") / "security.jsonl.gz"
STEPS = {
    "story": "sasl on a plain listener",
    "second": "allow .*|make topic secret|deny.*|denied.*",
}
"""Steps of each recording that are compared."""


@cache
def exchanges() -> tuple[Exchange, ...]:
    """Return all exchanges."""
    return tuple(read_lines(FILE))


def of_release(release: str, story: str) -> list[Exchange]:
    """Return the exchanges of a release in one of its two recordings."""
    return [one for one in exchanges() if (one["release"], one["story"]) == (release, story)]


def select(folder: Path) -> list[Exchange]:
    """Return the exchanges of the compared steps from a folder of recordings."""
    found = []
    for release in RELEASES:
        for story, steps in STEPS.items():
            for file in sorted((folder / release).glob(f"{story}.jsonl*")):
                for line in read_lines(file):
                    step = line["step"].removeprefix("2nd pass, ")
                    if re.fullmatch(steps, step):
                        kept = {name: line[name] for name in KEPT if name in line} | {"step": step}
                        if "no_answer" in kept:
                            kept["no_answer"] = 1  # it is the time that the client waited
                        found.append({"release": release, "story": story, **_with_plain_records(kept)})
    return found


def _with_plain_records(value: Any) -> Any:
    """Return a message with the bytes of records alone, without what is in them."""
    if isinstance(value, list):
        return [_with_plain_records(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "hex" in value:
        return {"hex": value["hex"]}
    return {name: _with_plain_records(item) for name, item in value.items()}


if __name__ == "__main__":
    write_lines(FILE, select(Path(sys.argv[1])))
