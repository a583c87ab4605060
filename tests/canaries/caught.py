"""Digests of the planted mistakes when all of them were caught: of the file, the test and the text of each.

A mistake whose file and test have not changed since is still caught: CI plants the others only.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.canaries.mistakes import MISTAKES, Mistake
from tests.canaries.planting import ROOT

CAUGHT = Path(__file__).with_name("caught.json")


def digest(mistake: Mistake) -> str:
    """Return the digest of a mistake's file, of the file of its test, and of the mistake itself."""
    source = ROOT / "simzk" / mistake.file
    test = ROOT / "tests" / mistake.caught_by.split("::")[0]
    whole = hashlib.sha256()
    for part in (source.read_bytes(), test.read_bytes(), repr(tuple(mistake)).encode()):
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()[:16]


def unchanged() -> set[str]:
    """Return the names of the mistakes that look as they did when all were caught."""
    caught: dict[str, str] = json.loads(CAUGHT.read_text())
    return {name for name, mistake in MISTAKES.items() if caught.get(name) == digest(mistake)}


def store() -> None:
    """Write the digests of all mistakes: all of them have just been caught."""
    CAUGHT.write_text(json.dumps({name: digest(mistake) for name, mistake in MISTAKES.items()}, indent=1) + "\n")
