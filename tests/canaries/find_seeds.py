"""Find for each mistake of `swarm_mistakes.py` the first seed with which the swarm catches it.

python -m tests.canaries.find_seeds                 # all, about 5 minutes; writes swarm_seeds.json and the page's table
python -m tests.canaries.find_seeds --only stale    # those whose name contains a text
python -m tests.canaries.find_seeds --missing       # those that are not in swarm_seeds.json yet
python -m tests.canaries.find_seeds --check         # all; compares with swarm_seeds.json and writes nothing
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.canaries.planting import ROOT, copy_package, planted, run_module
from tests.canaries.swarm_mistakes import SEEDS, SWARM_MISTAKES, Caught, caught_by_swarm

if TYPE_CHECKING:
    from tests.canaries.swarm_mistake import SwarmMistake

PAGE = ROOT / "docs" / "track-record.md"
HEADING = "| mistake | scenario | first seed | what noticed it |\n| --- | --- | --- | --- |\n"
SEEDS_MAX = 60
"""How many seeds a mistake gets."""
LIMIT_S = 240
"""Time limit of a mistake: some let a run never end."""
_CAUGHT = re.compile(r"seed (\d+): (.*)")


def first_caught(home: Path, mistake: SwarmMistake, seeds: int, limit_s: float | None = None) -> Caught | None:
    """Return the first seed up to a number with which the swarm catches a mistake, and what failed.

    None if nothing did, or if the runs did not end in time.
    """
    with planted(home, mistake):
        release = ("--scenario", mistake.scenario, "--version", mistake.version)
        try:
            done = run_module(home, "tests.canaries.swarm", *release, "--seeds", "1", str(seeds), limit_s=limit_s)
        except subprocess.TimeoutExpired:
            return None
    found = _CAUGHT.match(done.stdout)
    assert found or done.returncode == 0, done.stdout + done.stderr
    return None if found is None else Caught(int(found[1]), found[2].split(":")[0])


def rows() -> list[str]:
    """Return the rows of the table in docs/track-record.md."""
    caught = caught_by_swarm()
    found = []
    for name, mistake in SWARM_MISTAKES.items():
        release = f", {mistake.version}" if mistake.version else ""
        if name in caught:
            found.append(f"| {name} | {mistake.scenario}{release} | {caught[name].seed} | {caught[name].by} |")
    return found


def write_page() -> None:
    """Replace the table of the page."""
    page = PAGE.read_text()
    head, _, rest = page.partition(HEADING)
    _, _, tail = rest.partition("\n\n")
    PAGE.write_text(f"{head}{HEADING}{chr(10).join(rows())}\n\n{tail}".rstrip() + "\n")


def main() -> int:
    """Find the seeds; return 1 if a mistake is not caught, or a seed differs."""
    parser = argparse.ArgumentParser(description="Find the seeds that catch planted mistakes.")
    parser.add_argument("--only", default="", help="part of the names of mistakes")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="how many seeds a mistake gets")
    parser.add_argument("--missing", action="store_true", help="only mistakes without a seed")
    parser.add_argument("--check", action="store_true", help="compare with the file, and do not write it")
    arguments = parser.parse_args()
    known: dict[str, list[int | str]] = json.loads(SEEDS.read_text()) if SEEDS.exists() else {}
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        home = copy_package(Path(folder))
        for name, mistake in SWARM_MISTAKES.items():
            if arguments.only not in name or (arguments.missing and name in known):
                continue
            caught = first_caught(home, mistake, arguments.seeds, LIMIT_S)
            print(f"{name}: {'NOT CAUGHT' if caught is None else f'seed {caught.seed}: {caught.by}'}"[:200], flush=True)
            before = known.pop(name, None)
            if caught is not None:
                known[name] = list(caught)
            if not arguments.check:
                ordered = {name: known[name] for name in SWARM_MISTAKES if name in known}
                SEEDS.write_text(json.dumps(ordered, indent=1) + "\n")
            if caught is None or (arguments.check and known[name] != before):
                status = 1
    if not arguments.check:
        write_page()
    return status


if __name__ == "__main__":
    sys.exit(main())
