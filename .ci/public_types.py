"""Check that every type in simzk's public API is known: `pyright --verifytypes` on the public modules alone.

    python .ci/public_types.py

pyright counts every module as public whose name has no leading underscore. The modules of simzk that are not public
have plain names, so pyright checks a copy of the package in which they have an underscore. Exit status 1 if the type of
a public name is unknown or ambiguous, or if an annotation is missing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "simzk"
PUBLIC = {"__init__", "errors", "pytest", "testing"}
"""Public modules and packages, besides what `simzk` itself exports."""


def main() -> int:
    internal = {entry.stem for entry in PACKAGE.iterdir() if entry.suffix in ("", ".py")} - PUBLIC - {"__pycache__"}
    internal = {name for name in internal if not name.startswith("_")}
    names = re.compile(rf"\bsimzk\.({'|'.join(sorted(internal))})\b")
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place, "simzk")
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for module in copy.rglob("*.py"):
            module.write_text(names.sub(r"simzk._\1", module.read_text()))
        for entry in list(copy.iterdir()):
            if entry.stem in internal:
                entry.rename(entry.with_name(f"_{entry.name}"))
        environment = {**os.environ, "PYTHONPATH": place, "VIRTUAL_ENV": sys.prefix}
        environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
        command = ["pyright", "--verifytypes", "simzk", "--ignoreexternal", *sys.argv[1:]]
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    output = done.stdout.replace("simzk._", "simzk.").replace(f"{place}/", "")
    print(output + done.stderr)
    return 0 if done.returncode == 0 and "Type completeness score: 100%" in output else 1


if __name__ == "__main__":
    sys.exit(main())
