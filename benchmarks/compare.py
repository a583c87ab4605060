"""Comparison of two JSON files of one benchmark, figure by figure.

    python -m benchmarks.compare OLD NEW [--other-machines]

Every number that both have is printed with the ratio of the new one to the old. Files of different benchmarks are
rejected, and files of different machines too, unless --other-machines is given.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def numbers(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a document with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from numbers(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from numbers(inner, f"{path}[{place}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


def compared(old: dict[str, object], new: dict[str, object]) -> Iterator[str]:
    """Yield a line for each number of either document."""
    before, after = dict(numbers(old)), dict(numbers(new))
    for path in dict.fromkeys([*before, *after]):
        if path not in before or path not in after:
            yield f"{path}: only in the {'new' if path in after else 'old'} one"
            continue
        ratio = f"{after[path] / before[path]:.2f}" if before[path] else "-"
        yield f"{path}: {before[path]:,g} -> {after[path]:,g}  {ratio}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--other-machines", action="store_true", help="compare what ran on different machines too")
    options = parser.parse_args(arguments)
    old, new = (json.loads(file.read_text()) for file in (options.old, options.new))
    for what in ("benchmark", *(() if options.other_machines else ("machine",))):
        if old.get(what) != new.get(what):
            print(f"not of the same {what}: {old.get(what)!r} and {new.get(what)!r}", file=sys.stderr)
            return 2
    for line in compared(old, new):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
