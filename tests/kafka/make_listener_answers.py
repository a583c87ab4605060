"""Store what Kafka's jars say about settings of listeners: python -m tests.kafka.make_listener_answers FOLDER

Writes `data/listeners.json`. FOLDER has a file per release, named by it, as `DumpListeners.java` prints it for
`data/listeners.txt` with the jars of that release in the class path.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

DATA = Path(__file__).parent / "data" / "listeners.json"


def main(folder: Path) -> None:
    """Write the answers of all releases, by settings; null where a broker starts."""
    answers: dict[str, dict[str, str | None]] = {}
    for file in sorted(folder.iterdir(), key=lambda file: tuple(map(int, file.name.split(".")))):
        for line in file.read_text().splitlines():
            settings, problem = json.loads(line)
            answers.setdefault(settings, {})[file.name] = problem
    DATA.write_text(json.dumps(answers, indent=0) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
