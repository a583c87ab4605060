"""Plant all mistakes, and store what they looked like if every one is caught.

python -m tests.canaries.catch_all
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.canaries.caught import store


def main() -> int:
    """Run the canaries in two processes, and return pytest's exit status."""
    test = Path(__file__).with_name("test_canaries.py")
    status = pytest.main(["-n", "2", "-q", str(test)])
    if status == pytest.ExitCode.OK:
        store()
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
